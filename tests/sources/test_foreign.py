"""Tables, rows and costs of other libraries: each means what its rows mean."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import dbselect as ds

ROWS = 200


def table() -> pl.DataFrame:
    rng = np.random.default_rng(3)
    a, b, noise = rng.normal(size=(3, ROWS))
    return pl.DataFrame(
        {"a": a, "b": b, "y": 2 * a - b + noise, "flag": (a + noise > 0).astype(int)}
    )


# Frames


class Lazy:
    """A frame that is still to be computed, as Daft has it: a stream, and no length yet."""

    def __len__(self) -> int:
        raise RuntimeError("Cannot call len() on an unmaterialized dataframe")

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return table().__arrow_c_stream__(requested_schema)


def test_a_frame_without_a_length_yet_is_read():
    found, rows = ds.gram(Lazy()), table().to_numpy()
    assert (found.rows, found.columns) == (ROWS, table().columns)
    np.testing.assert_allclose(found.mean, rows.mean(axis=0))


def of_narwhals(inner: Callable[[pl.DataFrame], Any]) -> Callable[[pl.DataFrame], Any]:
    def make(frame: pl.DataFrame) -> Any:
        return pytest.importorskip("narwhals").from_native(inner(frame))

    return make


def relation(frame: pl.DataFrame) -> Any:
    con = duckdb.connect()
    con.register("frame", frame.to_arrow())
    return con.table("frame")


def of_modin(frame: pl.DataFrame) -> Any:
    os.environ.setdefault("MODIN_ENGINE", "python")
    modin = pytest.importorskip("modin.pandas")
    return modin.DataFrame(frame.to_pandas())


def of_ibis_duckdb(frame: pl.DataFrame) -> Any:
    ibis = pytest.importorskip("ibis")
    con = ibis.duckdb.connect()
    con.con.register("arrow", frame.to_arrow())
    con.con.execute("CREATE TABLE rows AS FROM arrow")
    found = con.table("rows")
    return found.filter(found.a > -1e9)


def of_ibis_polars(frame: pl.DataFrame) -> Any:
    ibis = pytest.importorskip("ibis")
    return ibis.polars.connect().create_table("rows", frame.to_arrow())


def of_ibis_memory(frame: pl.DataFrame) -> Any:
    ibis = pytest.importorskip("ibis")
    return ibis.memtable(frame.to_pandas())


FRAMES: dict[str, Callable[[pl.DataFrame], Any]] = {
    "narwhals, Polars": of_narwhals(pl.DataFrame.clone),
    "narwhals, lazy": of_narwhals(pl.DataFrame.lazy),
    "narwhals, pandas": of_narwhals(pl.DataFrame.to_pandas),
    "narwhals, Arrow": of_narwhals(pl.DataFrame.to_arrow),
    "narwhals, DuckDB": of_narwhals(relation),
    "Modin": of_modin,
    "narwhals, Modin": of_narwhals(of_modin),
    "ibis, DuckDB": of_ibis_duckdb,
    "ibis, Polars": of_ibis_polars,
    "ibis, memory": of_ibis_memory,
    "narwhals, ibis": of_narwhals(of_ibis_duckdb),
    "pandas": pl.DataFrame.to_pandas,
    "LazyFrame": pl.DataFrame.lazy,
}
frames = pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
#: What ibis asks of DuckDB and of pandas.
of_ibis = pytest.mark.filterwarnings(
    "ignore:fetch_arrow_table:DeprecationWarning", "ignore:The .future.infer_string"
)


@pytest.mark.sample(4)
@of_ibis
@frames
def test_every_call_reads_a_frame_as_its_rows(make):
    plain = table()
    source = make(plain)
    gram = ds.gram(source)
    X = plain.to_numpy()
    assert (gram.columns, gram.rows) == (plain.columns, ROWS)
    np.testing.assert_allclose(gram.mean, X.mean(axis=0), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(gram.covariance(), np.cov(X.T, bias=True), rtol=1e-10)

    groups = {"a": ["a"], "b": ["b"]}
    found = ds.anytime_sequence(source, "y", groups)
    solved = np.linalg.lstsq(np.c_[np.ones(ROWS), X[:, :2]], X[:, 2], rcond=None)[0]
    np.testing.assert_allclose([found.at().coefficients[name] for name in "ab"], solved[1:])
    np.testing.assert_allclose(found.predict(source), np.c_[np.ones(ROWS), X[:, :2]] @ solved)
    np.testing.assert_allclose(ds.evaluate(found, source)["r2"], found.r2, atol=1e-12)
    # Read again and again, and by folds.
    logistic = ds.anytime_sequence(source, "flag", groups, family="binomial")
    assert logistic.at().rows == ROWS
    assert ds.evaluate(logistic, source)["deviance"].is_finite().all()
    folded = ds.cross_validate(source, "y", "anytime_sequence", folds=3, groups=groups)
    assert folded.scores.filter(step=0)["rows"].sum() == ROWS


def test_nullable_and_categorical_columns_of_pandas_are_read():
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, 2, None, 4], dtype="Int64"),
            "flag": pd.array([True, False, True, None], dtype="boolean"),
            "single": pd.array([0.5, 1.5, 2.5, 3.5], dtype="Float32"),
            "kind": pd.Categorical(["u", "v", "u", "v"]),
        }
    )
    gram = ds.gram(frame, null_policy="mean", categories=["kind"])
    assert gram.columns == ["whole", "flag", "single", "kind.u", "kind.v"]
    np.testing.assert_allclose(gram.mean, [7 / 3, 2 / 3, 2.0, 0.5, 0.5])
    assert gram.missing == {"whole": 1, "flag": 1}


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"]), "Duplicate column names found: ['a'"),
        (pd.DataFrame({"s": pd.arrays.SparseArray([0, 1.0])}), "Sparse pandas data (column s)"),
        (pd.DataFrame({"o": [1, "u"]}, dtype=object), "column o"),
    ],
)
def test_what_pandas_cannot_hand_over_is_refused(frame, words):
    with pytest.raises(ds.errors.SourceError, match=re.escape(words)):
        ds.gram(frame)


@pytest.mark.parametrize("connect", [ds.connect, duckdb.connect], ids=["extension", "plain"])
def test_a_result_that_is_open_on_the_connection_is_told(connect):
    with connect() as con:
        con.register("rows", table().to_arrow())
        con.execute("SELECT * FROM rows").fetchone()
        with pytest.raises(ds.errors.SourceError, match=r"unfinished result .* cursor\(\)"):
            ds.gram(con.sql("SELECT * FROM rows"))
        con.fetchall()
        assert ds.gram(con.sql("SELECT * FROM rows")).rows == ROWS


# Files


@pytest.fixture
def partitioned(tmp_path: Path) -> Path:
    """Write a file in each folder of a year, below a folder that looks like one."""
    folder = tmp_path / "run=7" / "flights"
    for year in (2019, 2020, 2021):
        part = folder / f"year={year}"
        part.mkdir(parents=True)
        pl.DataFrame({"x": [1.0, 2.0, float(year)]}).write_parquet(part / "rows.parquet")
    return folder


@pytest.mark.parametrize("pattern", ["", "*/*.parquet", "**/*.parquet", "year=20*/rows.parquet"])
def test_a_glob_keeps_the_columns_that_a_folder_has(partitioned, pattern):
    gram = ds.gram(partitioned / pattern)
    assert (gram.columns, gram.rows) == (["x", "year"], 9)
    np.testing.assert_allclose(gram.mean, [(9 + 6060) / 9, 2020.0])


# Targets


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum(["u", "v"])])
@pytest.mark.parametrize(
    "call",
    [
        lambda frame: ds.anytime_sequence(frame, "kind"),
        lambda frame: ds.anytime_sequence(frame, "kind", {"a": ["a"]}),
        lambda frame: ds.anytime_sequence(frame, ["kind", "y"]),
        lambda frame: ds.fit(frame, "kind"),
        lambda frame: ds.sght(frame, "kind", max_columns=1, max_groups=1),
        lambda frame: ds.cross_validate(frame, "kind", "anytime_sequence", folds=3),
        lambda frame: ds.anytime_sequence(frame, "kind", family="poisson"),
    ],
)
def test_a_target_of_text_is_told_what_to_do(call, kind):
    frame = table().with_columns(kind=pl.Series(["u", "v"] * (ROWS // 2), dtype=kind))
    with pytest.raises(
        ds.errors.ColumnError, match=r"target 'kind' is text; .* family 'multinomial'"
    ):
        call(frame)
    with pytest.raises(ds.errors.ColumnError, match="target 'when' has type time64"):
        ds.anytime_sequence(frame.with_columns(when=pl.time(1)), "when")


# Costs


def of_modin_series(values: dict[str, float]) -> Any:
    os.environ.setdefault("MODIN_ENGINE", "python")
    return pytest.importorskip("modin.pandas").Series(values)


@pytest.mark.parametrize(
    "make",
    [
        pd.Series,
        lambda costs: pd.Series(costs)[::-1],
        lambda costs: pl.Series(list(costs.values())),
        lambda costs: pytest.importorskip("narwhals").from_native(
            pd.Series(costs), series_only=True
        ),
        lambda costs: pytest.importorskip("narwhals").from_native(
            pl.Series(list(costs.values())), series_only=True
        ),
        of_modin_series,
    ],
    ids=["pandas", "reversed", "Polars", "narwhals, pandas", "narwhals, Polars", "Modin"],
)
def test_costs_are_a_series_of_any_library(make):
    costs = {"b": 5.0, "a": 0.5}
    groups = {"b": ["b"], "a": ["a"]}
    found = ds.anytime_sequence(table(), "y", groups, make(costs))
    assert dict(zip(found.groups.names, found.groups.costs, strict=True)) == costs
    dearer = found.with_costs(make({"b": 7.0, "a": 2.0}))
    assert dearer.spent[-1] == 9.0


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        (pl.Series([1.0]), "costs is a Series of 1; there are 2 groups: ['a', 'b']"),
        (pl.Series([1.0, -1.0]), "group 'b' has cost -1.0"),
        (pl.Series([1.0, None]), "group 'b' has cost None"),
        (pd.Series([1.0, 2.0]), "costs names group 0; group names are text"),
        (pd.Series([1.0, 2.0, 3.0], index=["a", "b", "a"]), "['a', 'b', 'a']; names must differ"),
        (pd.DataFrame({"a": [1.0], "b": [2.0]}), "it must map group names"),
        ([1.0, 2.0], "costs is [1.0, 2.0]; it must map group names"),
    ],
)
def test_other_costs_are_refused(costs, words):
    with pytest.raises(ds.errors.GroupError, match=re.escape(words)):
        ds.anytime_sequence(table(), "y", {"a": ["a"], "b": ["b"]}, costs)
