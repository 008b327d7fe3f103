"""Folds: the same rows in every engine, decided by the value of the key alone."""

import datetime as dt
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats
from tables import assert_gram, typed

import dbselect as ds
from dbselect.errors import ArgumentError, ColumnError, FoldsWarning

#: So many folds that keys of different hash hardly ever share one.
MANY = 10**9
#: Level of the chi-square tests: about one false alarm in a million seeds.
LEVEL = 1 - 1e-6


def plugin(values: pl.Series, k: int = MANY, seed: int = 0) -> list[int]:
    frame = pl.DataFrame({"key": values})
    return frame.select(pl.col("key").dbselect.fold(k, seed))["key"].to_list()


# Made by python-xxhash 4.1.0, ``xxh3_64_intdigest(bytes, seed=seed) * 10**9 >> 64``, from
# the bytes that the table in native/src/kernel/fold.rs gives.
PUBLISHED = [
    (7, "7::BIGINT", 0, 669719094),
    (7.0, "7::DOUBLE", 1, 202488719),
    (-2.5, "(-2.5)::DECIMAL(5, 2)", 0, 619949615),
    (-0.0, "(-0.0)::DOUBLE", 3, 831723658),
    (float("nan"), "'nan'::FLOAT", 0, 41597235),
    (None, "NULL", 0, 612860256),
    (-(2**63) + 1, "-9223372036854775807::BIGINT", 0, 296191584),
    ("Zürich", "'Zürich'", 0, 45475947),
    ("", "''", 0, 175880433),
    ("x" * 300, "repeat('x', 300)", 5, 813739956),
    (dt.date(2024, 2, 29), "DATE '2024-02-29'", 0, 978637208),
    ({"a": 1, "b": None, "c": "a"}, "{'a': 1, 'b': NULL::FLOAT, 'c': 'a'}", 42, 374284563),
]


@pytest.mark.parametrize(("value", "text", "seed", "fold"), PUBLISHED)
def test_folds_are_those_of_the_published_hash(connection, value, text, seed, fold):
    assert plugin(pl.Series([value]), MANY, seed) == [fold]
    assert connection.execute(f"SELECT fold_of({text}, {MANY}, {seed})").fetchone() == (fold,)


@pytest.mark.parametrize(
    ("text", "fold"),
    [
        ("18446744073709551617::HUGEINT", 424438087),
        ("18446744073709551617::UHUGEINT", 424438087),
        ("TIMESTAMP_NS '2024-02-29 12:00:00.123456789'", 238921002),
        ("'6F9619FF-8B86-D011-B42D-00CF4FC964FF'::UUID", 434177338),
    ],
)
def test_types_that_only_duckdb_has_are_hashed_alike(connection, text, fold):
    assert connection.execute(f"SELECT fold_of({text}, {MANY})").fetchone() == (fold,)


ALIKE = [
    [f"3::{name}" for name in (
        "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT",
        "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL(4, 1)", "DECIMAL(9, 3)",
        "DECIMAL(18, 2)", "DECIMAL(38, 30)",
    )],
    ["true", "1", "1.0::DOUBLE"],
    ["1.1", "1.10::DECIMAL(9, 2)", "1.1::DECIMAL(38, 30)", "1.1::DOUBLE"],
    ["2::DOUBLE ** 100", "1::HUGEINT << 100", "(2::DOUBLE ** 100)::UHUGEINT"],
    ["9007199254740993", "9007199254740993::HUGEINT", "9007199254740993::DECIMAL(20, 3)"],
    ["'north'", "'north'::BLOB", "'north'::ENUM ('south', 'north')"],
    ["uuid", "uuid::VARCHAR"],
    ["DATE '2024-05-06'", "TIMESTAMP '2024-05-06'", "TIMESTAMP_S '2024-05-06'",
     "TIMESTAMP_MS '2024-05-06'", "TIMESTAMP_NS '2024-05-06'", "TIMESTAMPTZ '2024-05-06 00:00Z'"],
    ["TIMESTAMP '1960-01-01 00:00:00.25'", "TIMESTAMP_MS '1960-01-01 00:00:00.25'"],
    ["{'a': 1, 'b': {'c': 2}}", "{'x': 1.0::DOUBLE, 'y': 2::UTINYINT}", "array_value(1, 2)"],
    ["{'a': NULL::INT}", "{'a': 'nan'::DOUBLE}", "NULL::STRUCT(a INT)"],
]  # fmt: skip


@pytest.mark.parametrize("texts", ALIKE, ids=lambda texts: texts[0])
def test_equal_values_of_unequal_types_lie_in_one_fold(connection, texts):
    source = "(SELECT '6f9619ff-8b86-d011-b42d-00cf4fc964ff'::UUID AS uuid)"
    columns = ", ".join(f"fold_of({text}, {MANY})" for text in texts)
    assert len(set(connection.execute(f"SELECT {columns} FROM {source}").fetchone())) == 1


def test_unequal_values_lie_apart(connection):
    texts = ["NULL", "'nan'::DOUBLE", "''", "0", "'0'", "9007199254740992", "9007199254740993",
             "-1", "'inf'::FLOAT", "DATE '1970-01-02'", "{'a': 0, 'b': 1}", "{'a': 1, 'b': 0}",
    ]  # fmt: skip
    columns = ", ".join(f"fold_of({text}, {MANY})" for text in texts)
    assert len(set(connection.execute(f"SELECT {columns}").fetchone())) == len(texts)


def keys(rng: np.random.Generator, rows: int) -> pl.DataFrame:
    """Return keys of many types, with NULLs."""
    n = rng.integers(-(2**62), 2**62, rows)
    names = pl.Series([f"name {i}" * (1 + i % 4) for i in n % 97])
    frame = pl.DataFrame(
        {
            "i8": pl.Series(n % 100, dtype=pl.Int8),
            "i16": pl.Series(n % 30000, dtype=pl.Int16),
            "i32": pl.Series(n % 2**31, dtype=pl.Int32),
            "i64": n,
            "u8": pl.Series(n % 250, dtype=pl.UInt8),
            "u16": pl.Series(n % 60000, dtype=pl.UInt16),
            "u32": pl.Series(n % 2**32, dtype=pl.UInt32),
            "u64": pl.Series(np.abs(n), dtype=pl.UInt64),
            "f32": rng.normal(size=rows).astype(np.float32),
            "f64": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)),
            "flag": n % 2 == 0,
            "price": pl.Series(
                [Decimal(int(i) % 10**9) / 1000 for i in n], dtype=pl.Decimal(15, 3)
            ),
            "wide": pl.Series([Decimal(int(i)) / 10**9 for i in n], dtype=pl.Decimal(38, 9)),
            "text": names,
            "blob": names.cast(pl.Binary),
            "enum": names.cast(pl.Enum(sorted(set(names)))),
            "cat": names.cast(pl.Categorical),
            "date": pl.Series(n % 30000, dtype=pl.Int32).cast(pl.Date),
            "ms": pl.Series(n % 10**13).cast(pl.Datetime("ms")),
            "us": pl.Series(n % 10**16).cast(pl.Datetime("us")),
            "ns": pl.Series(n % 10**18).cast(pl.Datetime("ns")),
            "utc": pl.Series(n % 10**16).cast(pl.Datetime("us", "UTC")),
        }
    )
    holes = [
        pl.when(pl.Series(rng.random(rows) > 0.1)).then(pl.col(c)).alias(c) for c in frame.columns
    ]
    frame = frame.with_columns(holes)
    pair = pl.concat_arr(pl.col("f32").cast(pl.Float64), "f64")
    return frame.with_columns(struct=pl.struct("i32", "text", pl.struct("date")), array=pair)


KEYS = keys(np.random.default_rng(0), 300)


@pytest.mark.sample(8)
@pytest.mark.filterwarnings("ignore::dbselect.errors.FoldsWarning")
@pytest.mark.parametrize("name", KEYS.columns)
def test_duckdb_polars_and_gram_by_agree_on_keys_of_every_type(connection, name):
    table = KEYS.select(key=name).with_row_index("x")
    arrow = table.to_arrow()
    wanted = plugin(table["key"], seed=9)
    relation = connection.sql("FROM arrow")
    found = relation.select(f"fold_of(key, {MANY}, 9)").fetchall()
    assert [fold for (fold,) in found] == wanted
    rows = pl.Series(wanted).value_counts(name="rows").sort("")
    plain = duckdb.connect().from_arrow(arrow)
    for source in (table, table.lazy(), arrow, relation, plain):
        grams = ds.gram_by(source, fold=MANY, key="key", seed=9)
        assert grams["fold"].dtype == pl.Int64
        assert grams["fold"].to_list() == rows[""].to_list()
        assert grams["gram"].struct.field("rows").to_list() == rows["rows"].to_list()
        assert grams["gram"][0]["columns"] == ["x"]


@pytest.mark.filterwarnings("ignore::dbselect.errors.FoldsWarning")
def test_all_digits_of_a_128_bit_key_count():
    values = [2**100 + i for i in range(200)]
    frame = pl.DataFrame({"key": pl.Series(values, dtype=pl.Int128), "x": range(200)})
    wanted = plugin(frame["key"])
    assert len(set(wanted)) == 200
    relation = ds.connect().sql("SELECT (1::HUGEINT << 100) + x AS key, x FROM range(200) t(x)")
    plain = duckdb.connect().sql("SELECT (1::HUGEINT << 100) + x AS key, x FROM range(200) t(x)")
    for source in (frame, relation, plain):
        assert sorted(wanted) == ds.gram_by(source, fold=MANY, key="key")["fold"].to_list()
    assert plugin(frame["key"].cast(pl.UInt128)) == wanted


@pytest.mark.sample(13)
@pytest.mark.parametrize("key", ["id", None], ids=["by key", "by content"])
def test_every_source_gives_the_records_of_the_rows_in_each_fold(as_any_source, key):
    table = typed(np.random.default_rng(3))
    ids = np.random.default_rng(4).integers(0, 60, len(table.X))
    frame = table.frame.with_columns(id=pl.Series(ids))
    content = pl.struct(pl.col(table.names[:6]), "demo", "emb")
    asked = {"columns": table.names, "weight": "weight", "fold": 3, "key": key, "seed": 7}
    found = ds.gram_by(as_any_source(frame), ["region"], **asked)
    assert found.columns == ["region", "fold", "gram"]
    expression = pl.col("id") if key else content
    folds = frame.select(expression.dbselect.fold(3, seed=7)).to_series()
    region = frame["region"]
    assert found.select("region", "fold").rows() == sorted(set(zip(region, folds, strict=True)))
    for name, fold, gram in found.iter_rows():
        at = ((region == name) & (folds == fold)).to_numpy()
        assert_gram(gram, table.names, table.X[at], table.weight[at])


@pytest.mark.parametrize("key", ["id", None], ids=["by key", "by content"])
def test_an_array_has_the_folds_of_the_frame(key):
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.integers(0, 50, 500), rng.normal(size=(500, 2))])
    names = ["id", "x", "y"]
    for array in (X, X.astype(np.float32)):
        wanted = ds.gram_by(pl.DataFrame(array, names), columns=names, fold=4, key=key)
        found = ds.gram_by(array, columns=names, fold=4, key=key)
        assert found["fold"].to_list() == [0, 1, 2, 3]
        rows = [frame["gram"].struct.field("rows").to_list() for frame in (found, wanted)]
        assert rows[0] == rows[1]


def test_the_width_of_the_columns_does_not_move_a_row():
    rng = np.random.default_rng(6)
    narrow = pl.DataFrame({"n": rng.integers(0, 99, 400), "x": rng.normal(size=400)}).cast(
        {"n": pl.UInt8, "x": pl.Float32}
    )
    wide = narrow.cast(pl.Float64)
    rows = [
        ds.gram_by(frame, fold=7)["gram"].struct.field("rows").to_list() for frame in (narrow, wide)
    ]
    assert rows[0] == rows[1]


def test_order_and_chunks_do_not_move_a_row():
    rng = np.random.default_rng(7)
    frame = pl.DataFrame({"id": rng.integers(0, 10**6, 3000), "x": rng.normal(size=3000)})
    wanted = frame.with_columns(f=pl.col("id").dbselect.fold(5)).sort("id", "x")
    shuffled = frame.sample(fraction=1, shuffle=True, seed=1)
    pieces = pl.concat(list(shuffled.iter_slices(37)), rechunk=False)
    found = pieces.lazy().with_columns(f=pl.col("id").dbselect.fold(5)).collect(engine="streaming")
    assert found.sort("id", "x").equals(wanted)
    for key in ("id", None):
        first, second = (
            ds.gram_by(source, columns=["x"], fold=5, key=key) for source in (frame, pieces)
        )
        rows = [records["gram"].struct.field("rows").to_list() for records in (first, second)]
        assert rows[0] == rows[1]


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
@pytest.mark.parametrize(
    "ids",
    [np.arange(10**5), np.arange(10**5) * 1024, np.arange(10**5) / 7, np.arange(10**5).astype(str)],
    ids=["counted", "multiples", "fractions", "texts"],
)
def test_folds_are_balanced(ids, seed):
    counts = np.bincount(plugin(pl.Series(ids), 10, seed), minlength=10)
    assert stats.chisquare(counts).statistic < stats.chi2.ppf(LEVEL, 9)


@pytest.mark.filterwarnings("ignore::dbselect.errors.FoldsWarning")
def test_a_literal_and_an_empty_column_have_folds():
    frame = pl.DataFrame({"x": [1, 2]})
    assert frame.select(pl.lit(7).dbselect.fold(MANY)).item() == 669719094
    assert frame.clear().select(pl.col("x").dbselect.fold(2)).schema == {"x": pl.Int64}
    assert ds.gram_by(frame.clear(), fold=2).is_empty()
    grouped = frame.group_by("x", maintain_order=True).agg(f=pl.col("x").dbselect.fold(2))
    assert grouped["f"].explode().to_list() == plugin(frame["x"], 2)


def test_folds_without_rows_have_no_row():
    with pytest.warns(FoldsWarning, match="only 1 of 5 folds have rows: rows of equal 'k'") as seen:
        found = ds.gram_by(pl.DataFrame({"k": [1, 1], "x": [1.0, 2.0]}), fold=5, key="k")
    assert seen[0].filename == __file__
    assert found.height == 1
    assert found["gram"][0]["rows"] == 2


class Counted:
    """A stream that counts how often it is opened."""

    def __init__(self, table: pa.Table) -> None:
        self.opened = 0
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        self.opened += 1
        return self.table.__arrow_c_stream__(requested_schema)


def test_a_table_is_read_once():
    frame = pl.DataFrame(
        {"g": np.arange(1000) % 3, "id": np.arange(1000), "x": np.arange(1000) % 7}
    )
    stream = Counted(frame.to_arrow())
    assert ds.gram_by(stream, ["g"], fold=5, key="id").height == 15
    assert stream.opened == 1
    seen: list[int] = []

    def count(batch: pl.DataFrame) -> pl.DataFrame:
        seen.append(batch.height)
        return batch

    lazy = frame.lazy().map_batches(count, schema=frame.schema, streamable=True)
    assert ds.gram_by(lazy, ["g"], fold=5).height == 15
    assert sum(seen) == 1000
    for connection in (ds.connect(), duckdb.connect()):
        ticks: list[int] = []

        def tick(values: pa.ChunkedArray) -> pa.ChunkedArray:
            ticks.append(len(values))  # noqa: B023 - called within the loop only
            return values

        connection.create_function(
            "tick", tick, ["BIGINT"], "BIGINT", type="arrow", side_effects=True
        )
        relation = connection.sql(
            "SELECT i % 3 AS g, tick(i) AS id, i % 7 AS x FROM range(1000) t(i)"
        )
        assert ds.gram_by(relation, ["g"], fold=5, key="id").height == 15
        assert sum(ticks) == 1000


TABLE = pl.DataFrame({"g": ["a", "b"], "x": [1, 2], "l": [[1], [2]], "t": [dt.time(1), dt.time(2)]})


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"fold": 1}, ArgumentError, "fold is 1; it must be a whole number >= 2"),
        ({"fold": 2.5}, ArgumentError, "fold is 2.5"),
        ({"fold": 2**63}, ArgumentError, "whole number"),
        ({"fold": True}, ArgumentError, "fold is True; it must be a whole number"),
        ({"fold": 2, "seed": True}, ArgumentError, "seed is True; it must be a whole number"),
        ({"fold": 2, "seed": -1}, ArgumentError, r"seed is -1; .* from 0 to 2\^63 - 1"),
        ({"fold": 2, "seed": 2**63}, ArgumentError, "seed"),
        ({"fold": 2, "seed": "a"}, ArgumentError, "seed is 'a'"),
        ({"key": "g"}, ArgumentError, "key is 'g', but fold is missing"),
        ({"fold": 2, "key": "h"}, ColumnError, "key names unknown column 'h'"),
        ({"fold": 2, "key": 3}, ArgumentError, "key is 3; it must be the name of a column"),
        ({"fold": 2, "key": "l"}, ColumnError, "key 'l' has type .*List"),
        ({"fold": 2, "key": "t"}, ColumnError, "key 't' has type Time"),
        ({}, ArgumentError, "by is empty"),
    ],
)
def test_mistakes_are_told_before_a_row_is_read(as_source, options, kind, message):
    with pytest.raises(kind, match=message):
        ds.gram_by(as_source(TABLE), columns=["x"], **options)


def test_by_cannot_name_a_column_fold():
    with pytest.raises(ArgumentError, match="by names a column 'fold'; rename it"):
        ds.gram_by(pl.DataFrame({"fold": [1], "x": [1]}), ["fold"], fold=2)


@pytest.mark.parametrize(
    ("k", "seed", "name"),
    [(1, 0, "k"), (2.5, 0, "k"), ("a", 0, "k"), (2, -1, "seed"), (2, 0.5, "seed")],
)
def test_the_plugin_refuses_what_gram_by_refuses(k, seed, name):
    with pytest.raises(ArgumentError, match=f"^{name} is .*it must be a whole number"):
        pl.col("x").dbselect.fold(k, seed)


def test_the_plugin_names_a_type_without_folds():
    with pytest.raises(pl.exceptions.ComputeError, match=r"key 'l' has type .*List"):
        TABLE.select(pl.col("l").dbselect.fold(2))
