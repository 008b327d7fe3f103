"""Every kind of source gives the Gram that NumPy gives by definition."""

import io
import sys
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import polars.selectors as cs
import pyarrow as pa
import pytest
from tables import assert_gram, typed

import dbselect as ds
from dbselect.sources import progress

EXAMPLES = Path(ds.__file__).parent / "sources" / "examples"


def test_every_source_gives_the_gram_of_the_definition(as_any_source):
    table = typed(np.random.default_rng(1))
    found = ds.gram(as_any_source(table.frame), columns=table.names)
    assert_gram(found, table.names, table.X)


def test_every_source_takes_weights_and_leaves_them_out_of_the_default_columns(as_any_source):
    table = typed(np.random.default_rng(2))
    found = ds.gram(as_any_source(table.frame.drop("region")), weight="weight")
    assert_gram(found, table.names, table.X, table.weight)


def test_columns_come_in_the_order_asked_for(as_source):
    table = typed(np.random.default_rng(3))
    wanted = ["emb[2]", "r?tio", "demo.age", "co*", "demo.b*", "y"]
    names = ["emb[2]", "ratio", "demo.age", "count", "demo.body.height", "y"]
    found = ds.gram(as_source(table.frame), columns=wanted, weight="weight")
    assert_gram(found, names, table.take(names), table.weight)


def test_every_source_groups_by_several_keys_null_last(as_any_source):
    rng = np.random.default_rng(5)
    table = typed(rng)
    region = table.frame["region"].to_numpy()
    year = rng.integers(2020, 2023, len(region))
    no_region = rng.random(len(region)) < 0.1
    frame = table.frame.with_columns(
        pl.when(pl.Series(~no_region)).then("region").alias("region"), year=pl.Series(year)
    )
    found = ds.gram_by(as_any_source(frame), by=["region", "year"], weight="weight")
    keys = [(k, y) for k in ("north", "south", None) for y in (2020, 2021, 2022)]
    assert found.select("region", "year").rows() == keys
    assert found.columns == ["region", "year", "gram"]
    for (key, y), record in zip(keys, found["gram"], strict=True):
        mine = (no_region if key is None else ~no_region & (region == key)) & (year == y)
        assert_gram(record, table.names, table.X[mine], table.weight[mine])


@pytest.mark.parametrize("weight", [None, "weight"])
def test_an_empty_table_has_no_rows(as_source, weight):
    table = typed(np.random.default_rng(6))
    found = ds.gram(as_source(table.frame.clear()), columns=table.names, weight=weight)
    assert_gram(found, table.names, np.empty((0, len(table.names))))


def test_an_empty_table_has_no_groups_but_their_columns(as_source):
    table = typed(np.random.default_rng(7))
    found = ds.gram_by(as_source(table.frame.clear()), by=["region"], weight="weight")
    assert found.columns == ["region", "gram"]
    assert found.height == 0


@pytest.mark.filterwarnings("ignore::dbselect.errors.SkippedRowsWarning")
def test_rows_without_weight_are_skipped_only(as_source):
    frame = pl.DataFrame({"x": [1.0, None, float("inf")], "w": [0.0, 1.0, None]})
    found = ds.gram(as_source(frame), weight="w")
    assert (found.rows, found.skipped, found.weight) == (0, 3, 0.0)


@pytest.mark.slow
def test_many_files_row_groups_and_batches_add_up(tmp_path):
    rng = np.random.default_rng(8)
    X = rng.normal([1e4, 0.0, -7.0], 1.0, (300_000, 3))
    X[rng.random(X.shape) < 0.001] = np.nan
    key = rng.integers(0, 5, len(X))
    frame = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(k=pl.Series(key))
    for i, (start, end) in enumerate([(0, 100), (100, 200_000), (200_000, 300_000)]):
        frame[start:end].write_parquet(tmp_path / f"{i}.parquet", row_group_size=9_973)
    sources = [tmp_path, frame.to_arrow().to_reader(70_001), X]
    for source in sources:
        assert_gram(ds.gram(source, columns=["a", "b", "c"]), ["a", "b", "c"], X)
    for source in [tmp_path, frame.to_arrow().to_reader(70_001)]:
        found = ds.gram_by(source, by=["k"])
        assert found["k"].to_list() == [0, 1, 2, 3, 4]
        for k, record in found.rows():
            assert_gram(record, ["a", "b", "c"], X[key == k])


@pytest.mark.parametrize(
    "make",
    [
        lambda X: X,
        lambda X: X.astype(np.float32),
        lambda X: X.astype(np.float16),
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=0)[::2],
        lambda X: (100 * X).astype(np.int32),
        lambda X: (100 * X).astype(np.int8),
        lambda X: np.abs(100 * X).astype(np.uint64),
        lambda X: X > 0,
        lambda X: X.astype(X.dtype.newbyteorder()),
    ],
    ids=[
        "float64",
        "float32",
        "float16",
        "fortran",
        "strided",
        "int32",
        "int8",
        "uint64",
        "bool",
        "byteswapped",
    ],
)
def test_arrays_of_every_numeric_type_are_read(make):
    X = make(np.random.default_rng(9).standard_normal((1000, 3)))
    assert_gram(ds.gram(X, columns=["a", "b", "c"]), ["a", "b", "c"], X.astype(np.float64))


WIDE = [2**100, -(2**90), 12345, 2**64 + 1]


@pytest.mark.parametrize("nest", ["field", "struct", "array"])
@pytest.mark.parametrize("dtype", [pl.Int128, pl.UInt128])
def test_128_bit_integers_are_read(dtype, nest):
    values = [abs(x) for x in WIDE] if dtype == pl.UInt128 else WIDE
    frame = pl.DataFrame({"x": pl.Series(values, dtype=dtype)})
    X = np.array(values, dtype=float)[:, None]
    if nest == "struct":
        frame = frame.select(s=pl.struct("x"))
    if nest == "array":
        frame = frame.select(a=pl.concat_arr("x"))
    name = {"field": "x", "struct": "s.x", "array": "a[1]"}[nest]
    assert_gram(ds.gram(frame), [name], X)


@pytest.mark.parametrize("connect", [ds.connect, duckdb.connect], ids=["extension", "plain"])
def test_every_number_of_duckdb_is_read(connect):
    types = "TINYINT UTINYINT SMALLINT USMALLINT INTEGER UINTEGER BIGINT UBIGINT HUGEINT UHUGEINT "
    types += "FLOAT DOUBLE DECIMAL(4,1) DECIMAL(9,1) DECIMAL(18,1) DECIMAL(38,1) BOOLEAN"
    values = [3, 100, 7, 0, 55, 1]
    fields = ", ".join(f"v::{kind} AS c{i}" for i, kind in enumerate(types.split()))
    X = np.array(values, dtype=float)[:, None].repeat(17, axis=1)
    X[:, -1] = X[:, -1] != 0
    with connect() as con:
        rows = ", ".join(f"({v})" for v in values)
        found = ds.gram(con.sql(f"SELECT {fields} FROM (VALUES {rows}) t(v)"))
    assert_gram(found, [f"c{i}" for i in range(17)], X)


@pytest.mark.parametrize("precision", [4, 9, 18, 38])
def test_arrow_decimals_keep_their_value(precision):
    values = [Decimal("1.25"), Decimal("-3.5"), Decimal("10.75"), None]
    table = pa.table({"x": pa.array(values, pa.decimal128(precision, 2))})
    X = np.array([[1.25], [-3.5], [10.75], [np.nan]])
    assert_gram(ds.gram(table), ["x"], X)


@pytest.mark.parametrize("connect", [ds.connect, duckdb.connect], ids=["extension", "plain"])
def test_relations_of_joins_views_and_odd_names_are_read(connect):
    rng = np.random.default_rng(11)
    X = rng.standard_normal((3000, 2))
    with connect() as con:
        con.register("facts", pa.table({"id": np.arange(3000), "a b": X[:, 0], 'q"': X[:, 1]}))
        con.execute(
            'CREATE TABLE names AS SELECT i AS id, i % 3 AS "the key" FROM range(3000) t(i)'
        )
        relation = con.sql("FROM facts JOIN names USING (id)")
        assert_gram(ds.gram(relation, columns=["a b", 'q"']), ["a b", 'q"'], X)
        found = ds.gram_by(relation, by=["the key"], columns=['q"'])
        for key, record in found.rows():
            assert_gram(record, ['q"'], X[key::3, 1:])
        assert con.execute("SELECT 42").fetchall() == [(42,)]


@pytest.mark.parametrize(
    "categories", ["category", pd.CategoricalDtype(["z", "b", "a"], ordered=True), "str"]
)
def test_categorical_keys_make_groups(categories):
    key = ["b", "a", "b", None, "a", "b"]
    x = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    found = ds.gram_by(pd.DataFrame({"k": pd.Series(key, dtype=categories), "x": x}), by=["k"])
    means = {k: record["mean"][0] for k, record in found.rows()}
    assert means == pytest.approx({"a": 9.0, "b": 37.0 / 3.0, None: 8.0})


def test_dictionaries_that_change_from_batch_to_batch_make_the_same_groups():
    batches = [
        pa.record_batch({"k": pa.array(keys).dictionary_encode(), "x": pa.array(x)})
        for keys, x in [(["b", "a"], [1.0, 2.0]), (["a", "c"], [4.0, 8.0])]
    ]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    found = ds.gram_by(reader, by=["k"])
    assert [(str(k), record["mean"]) for k, record in found.rows()] == [
        ("a", [3.0]),
        ("b", [1.0]),
        ("c", [8.0]),
    ]


def test_many_groups_on_many_batches_find_their_rows():
    rng = np.random.default_rng(12)
    key = rng.permutation(np.repeat(np.arange(4000), 40))
    x = rng.standard_normal((len(key), 2))
    table = pa.table({"k": key.astype(str), "x": x[:, 0], "z": x[:, 1]})
    found = ds.gram_by(table.to_reader(max_chunksize=7001), by=["k"])
    assert found.height == 4000
    sums = np.zeros((4000, 2))
    np.add.at(sums, key, x)
    means = np.array(found["gram"].struct.field("mean").to_list())
    order = found["k"].cast(pl.Int64).to_numpy()
    np.testing.assert_allclose(means, sums[order] / 40, atol=1e-14)
    for i in (0, 1234, 3999):
        assert_gram(found["gram"][i], ["x", "z"], x[key == order[i]])


def test_a_named_pandas_index_is_no_column_but_a_plain_column_of_that_name_is():
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=pd.Index([5, 6], name="id"))
    assert ds.gram(frame).columns == ["x"]
    assert ds.gram(frame.reset_index()).columns == ["id", "x"]


def _late_infinity(rows: int = 200_000) -> pl.DataFrame:
    x = np.arange(rows, dtype=float)
    x[-10] = np.inf
    return pl.DataFrame({"fine": np.ones(rows), "dirty": x, "k": np.arange(rows) % 3})


@pytest.mark.slow
@pytest.mark.parametrize("read_it", [ds.gram, lambda source: ds.gram_by(source, ["k"])])
def test_an_infinite_value_late_in_the_table_is_named_and_nothing_breaks(as_source, read_it):
    with pytest.raises(ds.errors.DataError, match=r"'dirty' has an infinite value.*must be finite"):
        read_it(as_source(_late_infinity()))
    assert ds.gram(np.array([[1.0], [3.0]]), columns=["x"]).mean == [2.0]


def test_a_relation_that_fails_leaves_its_connection_usable(connection):
    connection.register("late", _late_infinity().to_arrow())
    for _ in range(2):
        with pytest.raises(ds.errors.DataError, match="'dirty'"):
            ds.gram(connection.sql("FROM late"))
        assert connection.execute("SELECT 42").fetchall() == [(42,)]


@pytest.mark.parametrize("connect", [ds.connect, duckdb.connect], ids=["extension", "plain"])
def test_a_query_that_fails_while_it_runs_is_a_source_error(connect):
    with connect() as con:
        text = "CASE WHEN i > 4000 THEN 'broken' ELSE i::VARCHAR END"
        relation = con.sql(f"SELECT ({text})::INT AS x FROM range(5000) t(i)")
        with pytest.raises(ds.errors.SourceError, match="broken"):
            ds.gram(relation)
        assert con.execute("SELECT 42").fetchall() == [(42,)]


def test_a_stream_that_fails_while_it_runs_is_a_source_error():
    schema = pa.schema([("x", pa.float64())])

    def batches():
        yield pa.record_batch({"x": pa.array([1.0])})
        raise OSError("the wire is cut")

    with pytest.raises(ds.errors.SourceError, match="the wire is cut"):
        ds.gram(pa.RecordBatchReader.from_batches(schema, batches()))


class _Screen(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.isatty = lambda: terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_shows_on_a_terminal_only(monkeypatch, terminal):
    screen = _Screen(terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "PROGRESS_DELAY", 0)
    ds.gram(np.zeros((200_000, 2)), columns=["a", "b"])
    assert ("rows" in screen.getvalue()) == terminal


def test_the_example_has_rows_of_the_demo(flights_file):
    """The package has some of its rows, as they are, in the order of time, and small."""
    found, every = ds.io.example("flights"), pl.read_parquet(flights_file)
    assert found.schema == every.schema
    key = ["flight", "origin", "departs"]
    assert found.join(every, on=key, nulls_equal=True).height == found.height == 10_000
    assert found.join(every, on=every.columns, nulls_equal=True, how="anti").is_empty()
    assert found["departs"].is_sorted()
    file = EXAMPLES / "flights.parquet"
    assert file.stat().st_size < 400_000
    with pytest.raises(
        ds.errors.ArgumentError, match="name is 'iris'; it must be one of 'heart', "
    ):
        ds.io.example("iris")


@pytest.mark.parametrize("name", ["heart", "flights", "credit", "questionnaire"])
def test_examples_have_groups_and_prices(name):
    problem = ds.io.example_problem(name)
    assert problem.groups.keys() == problem.costs.keys()
    assert problem.anytime_sequence().r2[-1] > 0.2
    assert f"## {name}.parquet" in (EXAMPLES / "SOURCES.md").read_text()
    assert (EXAMPLES / f"{name}.parquet").stat().st_size < 400_000


def test_the_example_of_patients_has_the_published_counts():
    """UCI's descriptions: 270 patients, 120 ill, 183 men, ages 29 to 77; prices of Turney."""
    heart, problem = ds.io.example("heart"), ds.io.example_problem("heart")
    assert (heart.height, heart["disease"].sum(), heart["age"].min(), heart["age"].max()) == (
        270, 120, 29, 77
    )  # fmt: skip
    assert heart["sex"].value_counts().sort("sex")["count"].to_list() == [87, 183]
    assert heart.null_count().sum_horizontal().item() == 0
    assert sum(problem.costs.values()) == pytest.approx(4 + 27.97 + 2 * 102.9 + 3 * 87.3 + 100.9)
    patients = heart.select(
        "disease", "age", "sex", "chest_pain", "blood_pressure", "thallium_scan"
    )
    dense = patients.to_dummies(["sex", "chest_pain", "thallium_scan"], drop_first=True)
    facts = dense.select(~cs.starts_with("thallium"))
    scan = dense.select("disease", cs.starts_with("thallium"))
    for table, explained in ((facts, 0.36), (scan, 0.28)):
        x = np.column_stack([np.ones(270), table.drop("disease").to_numpy().astype(float)])
        y = table["disease"].to_numpy().astype(float)
        rest = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
        assert round(1 - rest @ rest / (270 * y.var()), 2) == explained
    assert problem.anytime_sequence().at(budget=4).explained == pytest.approx(0.3602, abs=5e-5)


def test_the_example_of_voters_is_that_of_statsmodels():
    data = pytest.importorskip("statsmodels.datasets").anes96.load_pandas().data
    voters = ds.io.example("questionnaire")
    assert voters["party"].to_list() == data["PID"].to_list()
    assert voters["votes_dole"].to_list() == (data["vote"] == 1).to_list()
