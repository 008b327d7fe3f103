"""Cross-validation without Grams: the scores are those of the Grams of the folds, in few scans."""

from typing import Any

import numpy as np
import polars as pl
import polars.testing
import pyarrow as pa
import pytest
from scipy import sparse

import dbselect as ds
from dbselect.linear import lazy_gram
from dbselect.search import open as opening
from dbselect.search import training_folds as training
from dbselect.sources.wide import wide_rows


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Read few rows at a time, and keep few, so that small tables need many scans."""
    monkeypatch.setattr(lazy_gram, "BATCH", 3)
    monkeypatch.setattr(training, "BATCH", 3)


def table(seed: int = 0, rows: int = 240) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 12)) + rng.normal(size=(rows, 1)) + 50
    y = X[:, :5] @ rng.normal(size=5) + 2 * rng.normal(size=rows)
    columns = {f"x{j}": column for j, column in enumerate(X.T)}
    rest = {"y": y, "w": rng.integers(0, 3, rows), "day": np.arange(rows) // 8}
    return pl.DataFrame({**columns, **rest})


#: What two sums of the same rows may differ by; values 1e8 spreads from 0 keep half of their
#: digits, and a standard error of r2 is made of differences.
SUMS, FAR_SUMS = 1e-8, 1e-7


def both(
    source: Any, method: str, grid: Any = None, *, rel: float = SUMS, **options: Any
) -> ds.results.CrossValidation:
    """Cross-validate twice, compare the scores, and return those without Grams."""
    wide = ds.cross_validate(source, "y", method, grid, gram="lazy", **options)
    full = ds.cross_validate(source, "y", method, grid, gram="full", **options)
    pl.testing.assert_frame_equal(wide.scores, full.scores, rel_tol=rel, abs_tol=1e-10)
    pl.testing.assert_frame_equal(wide.table, full.table, rel_tol=rel, abs_tol=1e-10)
    one, other = wide.model(), full.model()
    assert one.groups == other.groups
    for name, value in other.coefficients.items():
        assert one.coefficients[name] == pytest.approx(value, rel=1e-7, abs=1e-9)
    return wide


GROUPS = {"a": ["x0", "x5"], "b": ["x1", "x2", "x6"], "c": ["x3", "x4"], "d": ["x7"], "e": ["x8"]}


@pytest.mark.parametrize("method", ["anytime_sequence", "foba"])
@pytest.mark.parametrize("weight", [None, "w"])
def test_scores_are_those_of_the_grams_of_folds(method, weight):
    given = {"folds": 4, "key": "day", "weight": weight}
    both(table().drop([] if weight else "w"), method, {"ridge": [0.0, 0.5]}, **given)
    both(table(), method, groups=GROUPS, costs={"a": 2, "b": 3, "c": 1, "d": 1, "e": 2}, **given)


def test_folds_without_a_key_and_points_of_other_groups():
    few = {"all": ["x*"]}
    both(table(1).drop("w", "day"), "anytime_sequence", {"groups": [GROUPS, few]}, folds=3, seed=2)
    both(table(1).drop("w", "day"), "anytime_sequence", {"rule": ["fr", "omp"]}, folds=3)


@pytest.mark.parametrize("policy", ["skip", "mean", "indicator", {"*": "mean", "x1": "indicator"}])
@pytest.mark.filterwarnings("ignore::dbselect.errors.SkippedRowsWarning")
def test_missing_values_are_filled_by_the_mean_of_all_folds(policy):
    gaps = np.random.default_rng(3).random((240, 4)) < 0.05
    holes = {
        name: pl.when(pl.Series(gap)).then(None).otherwise(pl.col(name))
        for name, gap in zip(["x0", "x1", "x7", "y"], gaps.T, strict=True)
    }
    kinds = pl.Series("kind", np.random.default_rng(4).choice(["a", "b", "c"], 240))
    holed = table(2).with_columns(kinds, **holes)
    given = {"folds": 3, "key": "day", "weight": "w", "null_policy": policy}
    both(holed, "anytime_sequence", max_groups=5, **given)


@pytest.mark.parametrize("policy", ["mean", "indicator"])
def test_a_constant_that_the_first_rows_of_a_fold_lack_is_one(monkeypatch, policy):
    monkeypatch.setattr(wide_rows, "PIECE_ROWS", 4000)
    rng = np.random.default_rng(10)
    lacks, z = np.arange(30000) < 15000, rng.normal(size=30000)
    frame = pl.DataFrame({"z": z, "y": z + rng.normal(size=30000), "day": np.arange(30000) // 9})
    frame = frame.with_columns(c=np.where(lacks, np.nan, 0.1), x=np.where(lacks, np.nan, z + 1e8))
    given = {"folds": 3, "key": "day", "null_policy": policy}
    both(frame.fill_nan(None), "anytime_sequence", **given)


@pytest.mark.parametrize("at", [1e5, 1e8])
def test_scores_with_indicators_far_from_zero_are_those_near_it(at):
    gaps = np.random.default_rng(5).random((240, 3)) < 0.3
    gaps[:80, 2] = True
    # Values of few digits are the same numbers at any offset.
    plain = table(6).drop("w").with_columns(pl.col("^x.*$").sub(50).mul(1024).round().truediv(1024))
    near, far = (
        plain.with_columns(
            pl.when(pl.Series(gap)).then(None).otherwise(pl.col(f"x{j}") + offset).alias(f"x{j}")
            for j, gap in enumerate(gaps.T)
        )
        for offset in (0.0, at)
    )
    given = {"folds": 3, "key": "day", "null_policy": "indicator", "max_groups": 6}
    found = both(far, "anytime_sequence", rel=FAR_SUMS, **given)
    scores = ds.cross_validate(near, "y", "anytime_sequence", gram="full", **given).scores
    pl.testing.assert_frame_equal(found.scores, scores, rel_tol=1e-6)


@pytest.mark.slow
def test_a_scan_is_for_all_folds_and_points(monkeypatch):
    monkeypatch.setattr(lazy_gram, "BATCH", 64)
    rng = np.random.default_rng(6)
    X = rng.normal(size=(400, 300))
    y = X[:, :4] @ [4.0, 3.0, 2.0, 1.0] + 0.5 * rng.normal(size=400)
    frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(300)]).with_columns(
        y=y, k=np.arange(400)
    )
    counts = []
    read = training.FoldSums._read

    def counted(self, works):
        counts.append(len(works))
        return read(self, works)

    monkeypatch.setattr(training.FoldSums, "_read", counted)
    found = ds.cross_validate(
        frame, "y", "anytime_sequence", {"ridge": [0.0, 1.0]}, folds=5, key="k", max_groups=4,
        gram="lazy",
    )  # fmt: skip
    assert counts == [5, 5]
    assert found.best["step"].item() == 4
    assert found.arguments("best")["max_groups"] == 4


def test_entries_need_a_key_and_are_those_of_dense_columns():
    rng = np.random.default_rng(7)
    X = sparse.random(300, 20, density=0.3, format="csr", random_state=7)
    y = X[:, :3].toarray() @ [2.0, -3.0, 1.0] + 0.3 * rng.normal(size=300)
    rest = pl.DataFrame({"y": y, "k": np.arange(300)})
    field = pa.MapArray.from_arrays(X.indptr, X.indices, X.data)
    listed = rest.to_arrow().append_column("x", field)
    dense = rest.with_columns(pl.Series(f"x[{j}]", c) for j, c in enumerate(X.toarray().T))
    given = {"folds": 3, "key": "k", "max_groups": 5}
    wide = ds.cross_validate(listed, "y", "anytime_sequence", gram="lazy", **given)
    full = ds.cross_validate(dense, "y", "anytime_sequence", **given)
    pl.testing.assert_frame_equal(wide.scores, full.scores, rel_tol=1e-8)
    with pytest.raises(
        ds.errors.ArgumentError, match="key is None; the rows of field 'x' have entries"
    ):
        ds.cross_validate(listed, "y", "anytime_sequence", folds=3, gram="lazy")


def test_above_so_many_columns_folds_are_wide_and_say_so(monkeypatch):
    monkeypatch.setattr(opening, "MOST_COLUMNS", 5)
    with pytest.warns(ds.errors.WideWarning, match="this one is lazy"):
        found = ds.cross_validate(table(), "y", "anytime_sequence", folds=3, max_groups=2)
    assert found.problem.gram == "lazy"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"folds": None, "gram": "lazy"}, "folds is None; with gram 'lazy' the source is a table"),
        ({"folds": 3, "grid": {"gram": ["lazy", "full"]}}, "option 'gram' is in the grid"),
        ({"folds": 3, "gram": 2}, "gram is 2; it must be one of"),
        ({"folds": 3, "gram": "lazy", "target": ["y", "x0"]}, "must be one column here"),
    ],
)
def test_what_wide_folds_cannot_do_is_said(given, words):
    asked = {"source": table(), "target": "y", "method": "anytime_sequence", **given}
    with pytest.raises(ds.errors.ArgumentError, match=words):
        ds.cross_validate(**asked)


def test_a_level_that_only_one_fold_has_is_nothing_in_the_others(monkeypatch):
    """Where nothing is missing, two means of the same rows differ by rounding."""
    monkeypatch.setattr(wide_rows, "MAX_LEVELS", 20)
    users = np.r_[np.arange(40), np.random.default_rng(5).integers(0, 30, 4960)]
    rows = table(5, 5000).drop("w").with_columns(user=pl.Series(users).cast(pl.String))
    given = {"folds": 4, "key": "day", "groups": {"user": ["user"], "x0": ["x0"], "x1": ["x1"]}}
    wide = ds.cross_validate(rows, "y", "anytime_sequence", gram="lazy", **given)
    monkeypatch.undo()
    full = ds.cross_validate(rows, "y", "anytime_sequence", **given)
    np.testing.assert_allclose(wide.table["mse"], full.table["mse"], rtol=1e-9)
