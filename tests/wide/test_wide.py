"""Searches without the whole Gram: the sequence is that of the Gram, in few scans."""

import os
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from conftest import OPENERS
from problems import random_problem
from sklearn.linear_model import OrthogonalMatchingPursuit
from tables import typed
from wholes import ONE_SHOT, assert_same, both

import dbselect as ds
from dbselect.errors import ArgumentError, ColumnError, DataError, SelectionWarning
from dbselect.linear import lazy_gram
from dbselect.selection.criteria import RULES
from dbselect.sources.wide import wide_rows


@pytest.mark.sample(15)
@pytest.mark.parametrize(
    ("method", "rule"),
    [(ds.anytime_sequence, rule) for rule in RULES]
    + [(ds.foba, rule) for rule in ("fr", "omp", "omp-unwhitened", "omp-single")],
)
@pytest.mark.parametrize("seed", range(4))
def test_groups_costs_weights_and_ridges_are_those_of_the_full_gram(
    small_batches, method, rule, seed
):
    rng = np.random.default_rng(seed)
    ridge, scale = (0.0, True) if seed % 2 else (0.3, bool(seed))
    p = random_problem(rng, weighted=True, ridge=ridge, scale=scale)
    options = {"rule": rule, "ridge": ridge, "scale": scale, "weight": "w", "method": method}
    options |= {"nu": 0.8} if method is ds.foba else {}
    wide = both(p.table.frame, "y", p.names, p.costs, **options)
    if method is ds.anytime_sequence:
        assert wide.n_groups == len(p.names)
        assert 2 <= wide.scans <= 2 + len(p.names)
    limits = {"budget": 0.5 * sum(p.costs.values()), "always": ["g2"]}
    both(p.table.frame, "y", p.names, p.costs, **limits, **options)


def test_budgets_limits_and_groups_to_take_first(small_batches):
    p = random_problem(np.random.default_rng(5))
    total = sum(p.costs.values())
    given = p.table.frame.drop("w"), "y", p.names, p.costs
    for budget in (0.0, 0.3 * total, 0.7 * total):
        wide = both(*given, budget=budget) if budget else None
        assert wide is None or wide.spent[-1] <= budget
    both(*given, max_groups=2)
    both(*given, always=["g3", "g1"], max_groups=3)


@pytest.mark.parametrize("seed", range(3))
def test_dependent_equal_and_constant_columns(small_batches, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 12))
    X[:, 3] = X[:, 1] - 2 * X[:, 2]
    X[:, 4] = X[:, 0]
    X[:, 5] = 7.1
    X[:, 6] = 3 * X[:, 7] + 1
    y = X[:, :8] @ rng.normal(size=8) + rng.normal(size=50)
    frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(12)]).with_columns(y=pl.Series(y))
    both(frame, "y")
    both(frame, "y", {"a": ["x0", "x1", "x3"], "b": ["x2", "x4"], "c": ["x5", "x6"], "d": ["x7"]})


@pytest.mark.sample(4)
@pytest.mark.parametrize("policy", ["skip", "mean", "indicator", {"*": "mean", "x1": "indicator"}])
@pytest.mark.parametrize("pieces", [1 << 22, 90])
@pytest.mark.filterwarnings("ignore::dbselect.errors.SkippedRowsWarning")
def test_missing_values_by_every_policy(small_batches, monkeypatch, policy, pieces):
    monkeypatch.setattr(wide_rows, "PIECE_VALUES", pieces)
    rng = np.random.default_rng(8)
    X = rng.normal(size=(200, 6)) + 0.5
    y = X @ rng.normal(size=6) + rng.normal(size=200)
    X[rng.random(X.shape) < 0.05] = np.nan
    y[:4] = np.nan
    frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(6)])
    frame = frame.with_columns(
        y=pl.Series(y),
        w=pl.Series(rng.integers(0, 3, 200)),
        k=pl.Series(rng.choice(["a", "b", "c", None], 200)),
    )
    wide = both(frame, "y", null_policy=policy, weight="w")
    full = ds.anytime_sequence(frame, "y", null_policy=policy, weight="w")
    assert (wide.gram.rows, wide.gram.skipped) == (full.gram.rows, full.gram.skipped)
    assert wide.gram.missing == full.gram.missing
    np.testing.assert_allclose(wide.predict(frame), full.predict(frame), rtol=1e-6)


@pytest.mark.parametrize("policy", ["mean", "indicator", {"*": "mean", "k": "indicator"}])
def test_a_gap_that_no_row_of_the_fit_had_is_filled_alike(policy):
    rng = np.random.default_rng(12)
    frame = pl.DataFrame(rng.normal(size=(60, 3)), schema=["a", "b", "y"])
    frame = frame.with_columns(k=pl.Series(["u", "v", "w"] * 20))
    frame = frame.with_columns(a=pl.when(frame["a"] > -1).then("a"))
    wide = both(frame, "y", null_policy=policy)
    full = ds.anytime_sequence(frame, "y", null_policy=policy)
    assert wide.gram.terms.means.keys() == full.gram.terms.means.keys()
    gaps = frame.head(3).with_columns(b=pl.lit(None, pl.Float64))
    np.testing.assert_allclose(wide.predict(gaps), full.predict(gaps), rtol=1e-9)


@pytest.mark.parametrize("at", [1e5, -1e8])
@pytest.mark.parametrize("pieces", [1 << 22, 90])
def test_indicators_far_from_zero_cost_no_digits(small_batches, monkeypatch, at, pieces):
    monkeypatch.setattr(wide_rows, "PIECE_VALUES", pieces)
    rng = np.random.default_rng(9)
    gaps = rng.random((300, 6)) < [0.3, 0.3, 0.3, 0.0, 1.0, 0.0]
    gaps[:60, 1] = True
    # The values present are whole parts of a deviation, at any offset: Z is what is read.
    Z = np.rint(rng.normal(size=(300, 6)) * 1024) / 1024
    y = Z @ rng.normal(size=6) + rng.normal(size=300)
    frame = pl.DataFrame(np.where(gaps, np.nan, Z + at), schema=[f"x{j}" for j in range(6)])
    frame = frame.with_columns(c=np.where(gaps[:, 1], np.nan, at + 0.1), y=y).fill_nan(None)
    wide = both(frame, "y", null_policy="indicator")
    there = [0, 1, 2, 3, 5]
    X = np.column_stack([np.ones(300), np.where(gaps, 0.0, Z)[:, there], gaps[:, :3]])
    fitted = X @ np.linalg.lstsq(X, y, rcond=None)[0]
    assert wide.r2[-1] == pytest.approx(1 - ((y - fitted) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    np.testing.assert_allclose(wide.predict(frame), fitted, atol=5e-7)  # of numbers at 1e8


def test_means_of_terms_that_are_given_stand_where_values_are_missing(small_batches):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(200, 4)) + 0.5
    y = X @ rng.normal(size=4) + rng.normal(size=200)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:, 3] = np.nan_to_num(X[:, 3])
    kinds = pl.Series("k", rng.choice(["a", "b", None], 200).tolist())
    frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(4)]).with_columns(kinds, y=y)
    policies = {"*": "mean", "x1": "indicator"}
    other = frame.fill_nan(None).with_columns(pl.col("^x.*$") + 1)
    terms = ds.terms(other.head(90), categories=["k"])
    terms = ds.gram(other.head(90), null_policy=policies, terms=terms).terms
    wide = both(frame, "y", null_policy=policies, terms=terms)
    full = ds.anytime_sequence(frame, "y", null_policy=policies, terms=terms)
    assert wide.gram.terms == full.gram.terms
    np.testing.assert_allclose(wide.predict(frame), full.predict(frame), rtol=1e-6)


@pytest.mark.parametrize("policy", ["mean", "indicator"])
def test_a_constant_that_the_first_rows_lack_is_one(monkeypatch, policy):
    monkeypatch.setattr(wide_rows, "PIECE_ROWS", 2000)
    rng = np.random.default_rng(10)
    lacks, z = np.arange(6000) < 2500, rng.normal(size=6000)
    frame = pl.DataFrame({"z": z, "y": z + rng.normal(size=6000)})
    frame = frame.with_columns(c=np.where(lacks, np.nan, 0.1), x=np.where(lacks, np.nan, z + 1e8))
    assert "c" in both(frame.fill_nan(None), "y", null_policy=policy).aliased


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "as_source", [kind for kind in OPENERS if kind not in ONE_SHOT], indirect=True
)
def test_every_engine_and_type(as_source):
    t = typed(np.random.default_rng(9), rows=700)
    groups = {name: [name] for name in ("count", "demo", "emb", "ratio", "flag", "region")}
    both(as_source(t.frame), "y", groups, weight="weight")


def wide_table(rows: int = 300, columns: int = 2000, support: int = 12) -> pl.DataFrame:
    """Return a fixed-size list, wider than long, of which a few elements count."""
    rng = np.random.default_rng(10)
    X = rng.normal(size=(rows, columns)) + 0.3 * rng.normal(size=(rows, 1))
    at = rng.choice(columns, support, replace=False)
    y = X[:, at] @ rng.uniform(1, 3, support) + rng.normal(size=rows)
    return pl.DataFrame(
        {"y": y, "x": X}, schema={"y": pl.Float64, "x": pl.Array(pl.Float64, columns)}
    )


def elements(table: pl.DataFrame) -> dict[str, list[str]]:
    return {f"x[{j + 1}]": [f"x[{j + 1}]"] for j in range(table["x"].dtype.size)}


def test_orthogonal_matching_pursuit_is_that_of_scikit_learn():
    table = wide_table()
    X = table["x"].to_numpy()
    wide = ds.anytime_sequence(table, "y", elements(table), rule="omp", max_groups=20, gram="lazy")
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    y = table["y"].to_numpy()
    for size in (5, 20):
        omp = OrthogonalMatchingPursuit(n_nonzero_coefs=size, fit_intercept=False)
        omp.fit(Z, y - y.mean())
        model = wide.at(size=size)
        found = np.array([int(name[2:-1]) - 1 for name in model.groups])
        assert set(found) == set(np.flatnonzero(omp.coef_))
        own = [model.coefficients[f"x[{j + 1}]"] for j in found]
        np.testing.assert_allclose(own, (omp.coef_ / X.std(axis=0))[found], rtol=1e-8)
    assert wide.scans < 8
    assert wide.rows_fetched < 8 * lazy_gram.BATCH


@pytest.mark.slow
def test_scans_and_rows_are_counted_and_few_rows_are_kept():
    table = wide_table()
    wide = ds.anytime_sequence(table, "y", elements(table), max_groups=15, gram="lazy")
    full = ds.anytime_sequence(ds.gram(table), "y", elements(table), max_groups=15)
    assert wide.groups.names == [full.groups.names[step.group] for step in full.records]
    assert wide.rows_fetched <= (wide.scans - 1) * lazy_gram.BATCH
    assert (wide.n_groups, wide.n_columns) == (2000, 2000)
    assert "15 of 2000 groups" in repr(wide)


def test_criteria_count_all_groups_there_were():
    table = wide_table(columns=300)
    groups = elements(table)
    wide = ds.anytime_sequence(table, "y", groups, max_groups=10, gram="lazy")
    full = ds.anytime_sequence(table, "y", groups, max_groups=10)
    for name in ("df", "aic", "bic", "ebic", "gic"):
        np.testing.assert_allclose(wide.criteria()[name], full.criteria()[name], rtol=1e-9)
    assert wide.criteria()["cp"].null_count() == 11
    assert wide.best("ebic").groups == full.best("ebic").groups


def test_a_search_goes_on_where_another_ended(small_batches, tmp_path):
    p = random_problem(np.random.default_rng(12))
    given = p.table.frame, "y", p.names, p.costs
    part = ds.anytime_sequence(*given, max_groups=3, gram="lazy")
    part.write_parquet(tmp_path / "part.parquet")
    part = ds.results.WideSequence.read_parquet(tmp_path / "part.parquet")
    assert (part.n_groups, part.scans > 1) == (len(p.names), True)
    whole = ds.anytime_sequence(*given, gram="lazy", resume=part)
    assert_same(whole, ds.anytime_sequence(*given))


def test_resume_is_of_the_same_groups_and_within_the_limits():
    p = random_problem(np.random.default_rng(13))
    frame = p.table.frame
    part = ds.anytime_sequence(frame, "y", p.names, p.costs, max_groups=3, gram="lazy")
    with pytest.raises(
        ArgumentError,
        match=r"resume is 3; it must be the result of anytime_sequence\(..., gram='lazy'\)",
    ):
        ds.anytime_sequence(frame, "y", gram="lazy", resume=3)
    with pytest.raises(ArgumentError, match=r"resume is WideSequence.*it needs gram='lazy'"):
        ds.anytime_sequence(frame, "y", gram="full", resume=part)
    with pytest.raises(ArgumentError, match=r"resume has group 'g.', which this search has not"):
        ds.anytime_sequence(frame, "y", gram="lazy", resume=part)
    with pytest.raises(ArgumentError, match="resume has 3 groups; max_groups allows 2"):
        ds.anytime_sequence(frame, "y", p.names, p.costs, max_groups=2, gram="lazy", resume=part)
    with pytest.raises(ArgumentError, match=r"over the budget of 0.6"):
        ds.anytime_sequence(frame, "y", p.names, p.costs, budget=0.6, gram="lazy", resume=part)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"x": [1.0, float("inf"), 3.0]}, DataError, "column 'x' has an infinite value"),
        ({"y": [1.0, float("-inf"), 3.0]}, DataError, "column 'y' has an infinite value"),
        ({"w": [1.0, -2.0, 3.0]}, DataError, r"weight 'w' is negative \(-2\)"),
        ({"y": [1.0, 1.0, 1.0]}, DataError, "target 'y' is constant"),
        ({"x": [None, None, None]}, DataError, "no usable rows: 3 rows were skipped"),
        ({"y": ["a", "b", "c"]}, ColumnError, "target 'y' is text"),
    ],
)
@pytest.mark.filterwarnings("ignore::dbselect.errors.SkippedRowsWarning")
def test_what_the_data_forbid_is_an_error(change, error, words):
    columns = {"x": [1.0, 2.0, 4.0], "y": [1.0, 2.0, 3.0], "w": [1.0, 1.0, 1.0]} | change
    frame = pl.DataFrame(columns, schema_overrides={"x": pl.Float64})
    with pytest.raises(error, match=words):
        ds.anytime_sequence(frame, "y", weight="w", gram="lazy")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gram": 1}, "gram is 1; it must be one of .'auto', 'full', 'lazy'."),
        ({"gram": "lazy", "family": "binomial"}, "gram is 'lazy'; .* family must be 'gaussian'"),
    ],
)
@pytest.mark.parametrize("method", [ds.anytime_sequence, ds.foba])
def test_what_a_wide_search_cannot_do_is_said_before_it_reads(method, options, words):
    with pytest.raises(ArgumentError, match=words):
        method(iter(()), "y", **options)


@pytest.mark.slow
def test_a_group_of_a_hundred_thousand_columns_is_no_better_than_a_gram():
    table = pl.DataFrame(
        {"y": [1.0, 2.0, 4.0], "x": np.ones((3, 20_000))},
        schema={"y": pl.Float64, "x": pl.Array(pl.Float64, 20_000)},
    )
    with pytest.raises(ArgumentError, match=r"group 'x' has 20000 columns.*fewer columns each"):
        ds.anytime_sequence(table, "y", gram="lazy")


#: Interrupts the third scan, and then makes the whole search, to compare.
CHILD = """
import os, signal, sys
import numpy as np, polars as pl
import dbselect as ds
from dbselect.linear import lazy_gram
from dbselect.sources.wide.gram_rows import Products

lazy_gram.BATCH = 3
rng = np.random.default_rng(1)
X = rng.normal(size=(20_000, 40))
y = X @ np.arange(1, 41) + 20 * rng.normal(size=len(X))
frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(40)]).with_columns(y=pl.Series(y))
source = {"Polars": frame.lazy(), "Arrow": frame.to_arrow()}[sys.argv[1]]
of, met = Products.of, []

def interrupting(self, batch):
    met.append(id(self))
    if len(dict.fromkeys(met)) == 4:
        met.append(0)
        os.kill(os.getpid(), signal.SIGINT)
    return of(self, batch)

Products.of = interrupting
part = ds.anytime_sequence(source, "y", gram="lazy")
assert part.stop.name == "INTERRUPTED", part
assert 0 < len(part.records) < 40, part
whole = ds.anytime_sequence(source, "y", gram="lazy", resume=part)
assert whole.stop.name == "EXHAUSTED", whole
assert whole.groups.names[: len(part.records)] == part.groups.names
assert whole.groups.names == ds.anytime_sequence(source, "y").steps["group"].to_list()[1:]
print("done")
"""


@pytest.mark.system
@pytest.mark.parametrize("engine", ["Polars", "Arrow"])
def test_an_interrupt_gives_the_sequence_so_far(engine):
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    child = subprocess.run(
        [sys.executable, "-c", CHILD, engine],
        capture_output=True, text=True, check=False, env={**os.environ},
    )  # fmt: skip
    assert child.stdout.strip() == "done", child.stderr


def test_rows_that_chose_of_more_groups_than_were_taken_chose():
    p = random_problem(np.random.default_rng(3))
    wide = ds.anytime_sequence(p.table.frame, "y", p.names, max_groups=2, gram="lazy")
    with pytest.warns(SelectionWarning):
        wide.at().summary()
