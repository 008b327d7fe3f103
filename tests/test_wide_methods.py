"""FoBa without the whole Gram, and searches that are wide without being told to."""

import warnings
from contextlib import ExitStack
from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import OPENERS
from problems import random_problem

import dbselect as ds
from dbselect.linear import lazy_gram
from dbselect.methods import too_wide

#: Sums of the same products in another order.
ROUNDING = 1e-10


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Read few rows at a time, so that searches of small tables need many scans."""
    monkeypatch.setattr(lazy_gram, "BATCH", 3)


def stand_ins(seed: int, rows: int = 300, causes: int = 8) -> pl.DataFrame:
    """Return columns that together say what others, taken first, said worse alone."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, causes))
    pairs = X[:, ::2] + X[:, 1::2] + 0.3 * rng.normal(size=(rows, causes // 2))
    y = X @ rng.uniform(0.9, 1.1, causes) + 0.1 * rng.normal(size=rows)
    columns = {f"pair{j}": pairs[:, j] for j in range(causes // 2)}
    columns |= {f"x{j}": X[:, j] for j in range(causes)}
    return pl.DataFrame({**columns, "y": y, "w": rng.integers(0, 3, rows)})


def assert_same(wide: ds.WideSequence, full: ds.Sequence) -> None:
    """Compare a wide search with that of the full Gram, whatever it added and removed."""
    assert isinstance(wide, ds.WideSequence)
    names = ["step", "action", "group", "cost", "spent"]
    assert wide.steps.select(names).equals(full.steps.select(names))
    for name in ("gain", "explained", "r2"):
        np.testing.assert_allclose(wide.steps[name], full.steps[name], atol=ROUNDING)
    assert [r.choice for r in wide.records] == [r.choice for r in full.records]
    assert (wide.stop, set(wide.aliased)) == (full.stop, set(full.aliased))
    for step in range(len(full.spent)):
        one, other = wide.model(step), full.model(step)
        np.testing.assert_allclose(one.intercept, other.intercept, rtol=1e-6, atol=1e-6)
        assert set(one.coefficients) == set(other.coefficients)
        for name, value in other.coefficients.items():
            np.testing.assert_allclose(one.coefficients[name], value, rtol=1e-6, atol=1e-8)


def both(source: Any, target: str, *given: Any, **options: Any) -> ds.WideSequence:
    """Run FoBa twice, compare, and return what the wide search found."""
    wide = ds.foba(source, target, *given, wide=True, **options)
    assert_same(wide, ds.foba(source, target, *given, wide=False, **options))
    return wide


@pytest.mark.parametrize("backward", ["loss", "coefficient"])
@pytest.mark.parametrize("seed", range(3))
def test_what_foba_gives_back_is_that_of_the_full_gram(seed, backward):
    wide = both(stand_ins(seed), "y", weight="w", backward=backward, epsilon=1e-3)
    removed = wide.steps.filter(action="remove")["group"]
    assert removed.len() >= 2
    assert removed.str.starts_with("pair").all()
    assert wide.scans <= 1 + len(set(wide.steps["group"]))


@pytest.mark.parametrize("rule", ["fr", "omp", "omp-unwhitened", "omp-single"])
@pytest.mark.parametrize("seed", range(3))
def test_groups_costs_and_ridges_of_foba_are_those_of_the_full_gram(seed, rule):
    p = random_problem(np.random.default_rng(seed), weighted=True)
    options = {"rule": rule, "ridge": 0.2 * (seed % 2), "weight": "w", "nu": 0.8}
    both(p.table.frame, "y", p.names, p.costs, **options)
    total = sum(p.costs.values())
    both(p.table.frame, "y", p.names, p.costs, budget=0.5 * total, always=["g2"], **options)


def test_foba_with_dependent_columns_is_that_of_the_full_gram():
    table = stand_ins(4).with_columns(
        twice=2 * pl.col("x0"), both=pl.col("x1") - pl.col("x2"), one=pl.lit(1.0)
    )
    groups = {
        "a": ["pair0", "one"], "b": ["pair1", "twice"], "c": ["both", "x3"], "d": ["x0", "x1"],
        "e": ["x2"], "f": ["x4", "x5"], "g": ["x6"],
    }  # fmt: skip
    both(table, "y", groups, weight="w", nu=0.9)
    both(table, "y", groups, weight="w", nu=0.9, max_steps=4)


def test_a_wide_foba_is_stored_and_gone_on_with(tmp_path):
    table = stand_ins(5)
    found = ds.foba(table, "y", weight="w", epsilon=1e-3, wide=True)
    found.write_parquet(tmp_path / "found.parquet")
    again = ds.WideSequence.read_parquet(tmp_path / "found.parquet")
    assert again.steps.equals(found.steps)
    more = ds.anytime_sequence(table, "y", weight="w", max_groups=9, resume=again)
    assert isinstance(more, ds.WideSequence)
    assert more.groups.names[: len(again.at().groups)] == again.at().groups


def test_weights_of_foba_on_a_gram_are_those_of_the_table():
    table = stand_ins(6)
    weighted = ds.foba(table, "y", weight="w", epsilon=1e-3)
    of_gram = ds.foba(ds.gram(table, weight="w"), "y", epsilon=1e-3)
    assert weighted.steps.equals(of_gram.steps)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"wide": 1}, "wide is 1; it must be True or False, or None"),
        ({"wide": True, "family": "binomial"}, "a wide search is of family 'gaussian'"),
    ],
)
def test_what_a_wide_foba_cannot_do_is_said_before_it_reads(options, words):
    with pytest.raises(ds.ArgumentError, match=words):
        ds.foba(iter(()), "y", **options)


METHODS = [ds.anytime_sequence, ds.foba]


@pytest.fixture
def small_grams(monkeypatch):
    """Take no more than five columns for a Gram."""
    monkeypatch.setattr(too_wide, "MOST_COLUMNS", 5)


@pytest.mark.parametrize("method", METHODS)
def test_above_so_many_columns_a_search_is_wide_and_says_so(small_grams, method):
    table = stand_ins(7)
    words = r"14 columns.*this one is wide.*wide=True says.*wide=False makes the Gram"
    with pytest.warns(ds.WideWarning, match=words) as told:
        wide = method(table, "y", weight="w")
    assert told[0].filename == __file__
    full = method(table, "y", weight="w", wide=False)
    assert type(full) is ds.Sequence
    assert_same(wide, full)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_asked_for_or_is_small_is_told_of_nobody(small_grams, method):
    table = stand_ins(7)
    few = {"a": ["pair0", "x1"], "b": ["x2"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(method(table, "y", wide=True), ds.WideSequence)
        assert type(method(table, "y", few)) is ds.Sequence
        assert type(method(ds.gram(table), "y")) is ds.Sequence
        assert type(method([ds.gram(table)], "y")) is ds.Sequence


@pytest.mark.parametrize("method", METHODS)
def test_where_a_wide_search_cannot_be_the_way_out_is_said(small_grams, method, tmp_path):
    table = stand_ins(8)
    stream = OPENERS["arrow reader"](table, tmp_path, ExitStack())
    with pytest.raises(ds.SourceError, match=r"read only once: give a table.*or wide=False"):
        method(stream, "y")
    stream = OPENERS["arrow reader"](table, tmp_path, ExitStack())
    assert type(method(stream, "y", wide=False)) is ds.Sequence


def test_several_responses_need_the_gram(small_grams):
    table = stand_ins(9)
    with pytest.raises(ds.ArgumentError, match="several responses need: wide=False makes it"):
        ds.anytime_sequence(table, ["y", "x0"])
    assert isinstance(ds.anytime_sequence(table, ["y", "x0"], wide=False), ds.JointSequence)
