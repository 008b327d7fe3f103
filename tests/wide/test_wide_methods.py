"""FoBa without the whole Gram, and searches that are wide without being told to."""

import tracemalloc
import warnings
from contextlib import ExitStack
from typing import Any

import numpy as np
import polars as pl
import polars.testing
import pytest
from conftest import OPENERS
from problems import random_problem
from wholes import ONE_SHOT, ROUNDING, assert_same, both

import dbselect as ds
from dbselect.errors import ArgumentError, SourceError, WideWarning
from dbselect.linear import lazy_gram
from dbselect.search import open as opening
from dbselect.sources.wide import wide_rows

pytestmark = pytest.mark.usefixtures("small_batches")


def stand_ins(seed: int, rows: int = 300, causes: int = 8) -> pl.DataFrame:
    """Return columns that together say what others, taken first, said worse alone."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, causes))
    pairs = X[:, ::2] + X[:, 1::2] + 0.3 * rng.normal(size=(rows, causes // 2))
    y = X @ rng.uniform(0.9, 1.1, causes) + 0.1 * rng.normal(size=rows)
    columns = {f"pair{j}": pairs[:, j] for j in range(causes // 2)}
    columns |= {f"x{j}": X[:, j] for j in range(causes)}
    return pl.DataFrame({**columns, "y": y, "w": rng.integers(0, 3, rows)})


@pytest.mark.parametrize("backward", ["loss", "coefficient"])
@pytest.mark.parametrize("seed", range(3))
def test_what_foba_gives_back_is_that_of_the_full_gram(seed, backward):
    wide = both(stand_ins(seed), "y", method=ds.foba, weight="w", backward=backward, epsilon=1e-3)
    removed = wide.steps.filter(action="remove")["group"]
    assert removed.len() >= 2
    assert removed.str.starts_with("pair").all()
    assert wide.scans <= 1 + len(set(wide.steps["group"]))


def test_a_wide_foba_is_stored_and_gone_on_with(tmp_path):
    table = stand_ins(5)
    found = ds.foba(table, "y", weight="w", epsilon=1e-3, gram="lazy")
    found.write_parquet(tmp_path / "found.parquet")
    again = ds.results.WideSequence.read_parquet(tmp_path / "found.parquet")
    assert again.steps.equals(found.steps)
    more = ds.anytime_sequence(table, "y", weight="w", max_groups=9, resume=again)
    assert isinstance(more, ds.results.WideSequence)
    assert more.groups.names[: len(again.at().groups)] == again.at().groups


def both_dash(source: Any, *given: Any, **options: Any) -> ds.results.Selected[ds.results.Model]:
    """Run DASH twice, compare, and return what the wide search chose."""
    wide = ds.dash(source, "y", *given, gram="lazy", **options)
    full = ds.dash(source, "y", *given, gram="full", **options)
    assert (wide.chosen, wide.groups) == (full.chosen, full.groups)
    np.testing.assert_allclose(wide.diagnostics.history, full.diagnostics.history, atol=ROUNDING)
    for name, value in full.coefficients.items():
        assert wide.coefficients[name] == pytest.approx(value, rel=1e-7, abs=1e-9)
    assert (wide.r2, wide.intercept) == pytest.approx((full.r2, full.intercept), rel=1e-8)
    assert wide.summary()["std_error"].to_list() == pytest.approx(
        full.summary()["std_error"].to_list(), rel=1e-6
    )
    return wide


@pytest.mark.filterwarnings("ignore::dbselect.errors.SelectionWarning")
@pytest.mark.parametrize("seed", range(3))
def test_what_dash_chooses_is_that_of_the_full_gram(seed):
    p = random_problem(np.random.default_rng(seed), weighted=True)
    both_dash(p.table.frame, p.names, p.costs, k=3, opt=0.9, alpha=0.8, weight="w", rounds=2)
    both_dash(stand_ins(seed), k=6, opt=0.8, rounds=3, weight="w", seed=seed)


@pytest.mark.filterwarnings("ignore::dbselect.errors.SelectionWarning")
def test_a_round_of_dash_is_a_scan_at_most(monkeypatch):
    monkeypatch.setattr(lazy_gram, "BATCH", 64)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 200))  # what all explain is all there is, so that guesses are alike
    frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(200)])
    frame = frame.with_columns(y=X[:, :8] @ np.arange(8, 0, -1) + rng.normal(size=60))
    wide = both_dash(frame, k=8, rounds=2, opt=0.95, alpha=0.7)
    assert wide.diagnostics.scans <= 2 + wide.diagnostics.rounds + 1
    guessed = both_dash(frame, k=8, rounds=2)
    assert guessed.diagnostics.bound == 1.0
    assert guessed.diagnostics.scans <= 2 + 2 * guessed.diagnostics.rounds


def test_what_a_wide_dash_cannot_do_is_said():
    table = stand_ins(1)
    with pytest.raises(ArgumentError, match=r"diversity is given; .*gram='full'"):
        ds.dash(table, "y", k=2, diversity=ds.objectives.coverage(table, "y"), gram="lazy")
    with pytest.raises(ArgumentError, match="gram is 'lazy'; it is for tables"):
        ds.dash(ds.objectives.coverage(table, "y"), k=2, gram="lazy")
    with pytest.raises(ArgumentError, match=r"gram is 'lazy'; .* family must be 'gaussian'"):
        ds.dash(iter(()), "y", k=2, family="binomial", gram="lazy")


METHODS = [ds.anytime_sequence, ds.foba]


@pytest.fixture
def small_grams(monkeypatch):
    """Take no more than five columns for a Gram."""
    monkeypatch.setattr(opening, "MOST_COLUMNS", 5)


@pytest.mark.parametrize("method", METHODS)
def test_above_so_many_columns_a_search_is_wide_and_says_so(small_grams, method):
    table = stand_ins(7)
    words = r"14 columns.*this one is lazy.*gram='lazy' says.*gram='full' makes the Gram"
    with pytest.warns(WideWarning, match=words) as told:
        wide = method(table, "y", weight="w")
    assert told[0].filename == __file__
    full = method(table, "y", weight="w", gram="full")
    assert type(full) is ds.results.Sequence
    assert_same(wide, full)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_asked_for_or_is_small_is_told_of_nobody(small_grams, method):
    table = stand_ins(7)
    few = {"a": ["pair0", "x1"], "b": ["x2"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(method(table, "y", gram="lazy"), ds.results.WideSequence)
        assert type(method(table, "y", few)) is ds.results.Sequence
        assert type(method(ds.gram(table), "y")) is ds.results.Sequence
        assert type(method([ds.gram(table)], "y")) is ds.results.Sequence


@pytest.mark.parametrize("method", METHODS)
def test_where_a_wide_search_cannot_be_the_way_out_is_said(small_grams, method, tmp_path):
    table = stand_ins(8)
    stream = OPENERS["arrow reader"](table, tmp_path, ExitStack())
    with pytest.raises(SourceError, match=r"read only once: give a table.*or gram='full'"):
        method(stream, "y")
    stream = OPENERS["arrow reader"](table, tmp_path, ExitStack())
    assert type(method(stream, "y", gram="full")) is ds.results.Sequence


def test_several_responses_need_the_gram(small_grams):
    table = stand_ins(9)
    with pytest.raises(ArgumentError, match="several responses need: gram='full' makes it"):
        ds.anytime_sequence(table, ["y", "x0"])
    assert isinstance(
        ds.anytime_sequence(table, ["y", "x0"], gram="full"), ds.results.JointSequence
    )


CALLS = {
    "anytime_sequence": lambda source: ds.anytime_sequence(source, "y", gram="lazy"),
    "foba": lambda source: ds.foba(source, "y", gram="lazy"),
    "dash": lambda source: ds.dash(source, "y", k=2, gram="lazy"),
    "cross_validate": lambda source: ds.cross_validate(source, "y", "foba", folds=2, gram="lazy"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ONE_SHOT)
def test_a_stream_that_can_be_read_only_once_is_refused_with_the_way_out(name, kind, tmp_path):
    stream = OPENERS[kind](stand_ins(1), tmp_path, ExitStack())
    with pytest.raises(SourceError, match=r"only once.*give a table, a relation or a file"):
        CALLS[name](stream)


def peak_of(columns: int, run: Any) -> int:
    """Return the most bytes that Python and NumPy held while a wide table was searched."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, columns)).astype(np.float32)
    frame = pl.DataFrame(
        {"y": X[:, :10].sum(axis=1), "x": X},
        schema={"y": pl.Float64, "x": pl.Array(pl.Float32, columns)},
    )
    groups = {f"x[{j}]": [f"x[{j}]"] for j in range(1, columns + 1)}
    tracemalloc.start()
    try:
        run(frame, groups)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


SEARCHES = {
    "anytime_sequence": lambda t, g: ds.anytime_sequence(t, "y", g, max_groups=10, gram="lazy"),
    "foba": lambda t, g: ds.foba(t, "y", g, max_steps=10, gram="lazy"),
    "dash": lambda t, g: ds.dash(t, "y", g, k=10, opt=0.9, alpha=0.9, rounds=5, gram="lazy"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_memory_grows_as_the_columns_and_not_as_their_square(monkeypatch, name):
    monkeypatch.setattr(lazy_gram, "BATCH", 16)
    monkeypatch.setattr(wide_rows, "PIECE_VALUES", 1 << 15)
    small, large = (peak_of(columns, SEARCHES[name]) for columns in (1500, 6000))
    assert large < 5.5 * small
    # A quarter of the Gram, at 6,000 columns.
    assert large < 2 * 6000**2
