"""The Polars expressions and LazyFrame methods against NumPy and against Python."""

import numpy as np
import polars as pl
import pytest
from tables import assert_gram, typed

import dbselect as ds
from dbselect.record.gram import RECORD_DTYPE

ERRORS = (pl.exceptions.PolarsError, ds.DbselectError)
ENGINES = ["in-memory", "streaming"]


def row(table):
    return pl.struct(*dict.fromkeys(name.split(".")[0].split("[")[0] for name in table.names))


def chunked(frame, *columns):
    """Return the frame in several chunks; the given columns are cut elsewhere."""
    n = frame.height
    cut = [frame[start:end] for start, end in [(0, 1), (1, n // 3), (n // 3, n // 3), (n // 3, n)]]
    frame = pl.concat(cut, rechunk=False)
    for name in columns:
        parts = [frame[name].rechunk()[start:end] for start, end in [(0, n // 2), (n // 2, n)]]
        frame = frame.with_columns(pl.concat(parts, rechunk=False))
    return frame


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("weighted", [False, True])
def test_gram_in_select_is_the_definition(engine, weighted):
    table = typed(np.random.default_rng(1), rows=3000)
    weight = "weight" if weighted else None
    query = table.frame.lazy().select(gram=row(table).dbselect.gram(weight=weight))
    assert query.collect_schema()["gram"] == RECORD_DTYPE
    found = query.collect(engine=engine).item()
    assert_gram(found, table.names, table.X, table.weight if weighted else None)


@pytest.mark.parametrize("engine", ENGINES)
def test_gram_in_group_by_and_over_sees_the_rows_of_its_group(engine):
    table = typed(np.random.default_rng(2), rows=2000)
    region = table.frame["region"].to_numpy()
    gram = row(table).dbselect.gram(weight="weight")
    grouped = table.frame.lazy().group_by("region").agg(gram=gram).collect(engine=engine)
    windowed = table.frame.lazy().select("region", gram=gram.over("region"))
    every = windowed.collect(engine=engine)
    assert every["region"].to_list() == region.tolist()
    assert sorted(grouped["region"]) == ["north", "south"]
    for key, record in [*grouped.rows(), *every.rows()[::500]]:
        mine = region == key
        assert_gram(record, table.names, table.X[mine], table.weight[mine])


def test_chunks_may_be_cut_differently_from_input_to_input():
    table = typed(np.random.default_rng(4), rows=999)
    frame = chunked(table.frame, "weight", "demo", "y")
    assert frame["weight"].n_chunks() != frame["count"].n_chunks()
    record = frame.select(row(table).dbselect.gram(weight="weight")).item()
    assert_gram(record, table.names, table.X, table.weight)
    # A struct of its own chunks beside a weight of others.
    frame = frame.select(row=row(table), weight="weight").with_columns(chunked(
        frame.select("weight"), "weight")["weight"])  # fmt: skip
    record = frame.select(pl.col("row").dbselect.gram(weight="weight")).item()
    assert_gram(record, table.names, table.X, table.weight)


@pytest.mark.parametrize(("start", "length"), [(3, 500), (64, 64), (997, 2), (1, 998), (5, 0)])
def test_slices_hold_their_own_rows(start, length):
    table = typed(np.random.default_rng(5), rows=999)
    frame = table.frame.slice(start, length)
    record = frame.select(row(table).dbselect.gram(weight="weight")).item()
    if length == 0:
        assert record is None
    else:
        rows = slice(start, start + length)
        assert_gram(record, table.names, table.X[rows], table.weight[rows])


@pytest.mark.parametrize(
    ("weight", "value"),
    [
        ("weight", None),
        (pl.col("weight"), None),
        (pl.col("weight") * 2, 2.0),
        (0.5, 0.0),
        (3, 0.0),
        (pl.lit(2.5), 0.0),
        (pl.lit(None), 0.0),
        (pl.col("weight").max(), 0.0),
    ],
    ids=["name", "column", "expression", "float", "integer", "literal", "null", "scalar"],
)
def test_a_weight_is_a_column_an_expression_or_a_number(weight, value):
    table = typed(np.random.default_rng(6))
    record = table.frame.select(row(table).dbselect.gram(weight=weight)).item()
    expected = table.frame.select(
        pl.lit(weight) if isinstance(weight, float | int) else weight
    ).to_series()
    numbers = expected.cast(pl.Float64).fill_null(0.0).to_numpy()
    assert_gram(record, table.names, table.X, np.broadcast_to(numbers, len(table.X)))
    assert value is None or len(expected) in (1, len(table.X))


@pytest.mark.parametrize("engine", ENGINES)
def test_no_rows_give_null(engine):
    table = typed(np.random.default_rng(7))
    empty = table.frame.clear().lazy()
    for weight in (None, "weight", 1.0):
        query = empty.select(row(table).dbselect.gram(weight=weight).alias("gram"))
        assert query.collect(engine=engine)["gram"].to_list() == [None]
    assert empty.dbselect.gram("y").collect(engine=engine)["gram"].to_list() == [None]
    no_records = pl.LazyFrame(schema={"gram": RECORD_DTYPE})
    merged = no_records.select(pl.col("gram").dbselect.merge())
    assert merged.collect(engine=engine)["gram"].to_list() == [None]


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (pl.Boolean, [True, False, None]),
        *[(dtype, [1, 100, None]) for dtype in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128)],
        *[(dtype, [0, 200, None]) for dtype in (pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)],
        (pl.UInt128, ["0", str(2**100), None]),
        (pl.Float32, [0.5, float("nan"), 2.0]),
        (pl.Float64, [0.5, float("nan"), None]),
        (pl.Decimal(10, 3), ["1.125", "-7.5", None]),
        (pl.Decimal(38, 20), ["1.125", "-7.5", None]),
        (pl.Null, [None, None, None]),
    ],
)
@pytest.mark.parametrize("nest", ["field", "struct", "array"])
def test_every_numeric_type_is_read_at_every_depth(dtype, values, nest):
    frame = pl.DataFrame({"x": pl.Series(values).cast(dtype)})
    row = {
        "field": pl.struct("x"),
        "struct": pl.struct(s=pl.struct("x")),
        "array": pl.struct(a=pl.concat_arr("x")),
    }[nest]
    if dtype == pl.Null and nest == "array":
        row = pl.struct(a=pl.lit(pl.Series([[None]] * 3, dtype=pl.Array(pl.Null, 1))))
    X = np.array([np.nan if value is None else float(value) for value in values])[:, None]
    name = {"field": "x", "struct": "s.x", "array": "a[1]"}[nest]
    assert_gram(frame.select(row.dbselect.gram().alias("g")).item(), [name], X)


@pytest.mark.parametrize("engine", ENGINES)
def test_merged_parts_are_the_whole(engine):
    table = typed(np.random.default_rng(8), rows=3000)
    parts = (
        table.frame.lazy()
        .group_by(part=pl.int_range(pl.len()) % 40)
        .agg(gram=row(table).dbselect.gram(weight="weight"))
    )
    whole = parts.select(pl.col("gram").dbselect.merge()).collect(engine=engine).item()
    assert_gram(whole, table.names, table.X, table.weight)
    halves = parts.group_by(pl.col("part") % 2, maintain_order=True)
    found = halves.agg(pl.col("gram").dbselect.merge()).collect(engine=engine)
    for half, record in found.rows():
        mine = np.arange(3000) % 2 == half
        assert_gram(record, table.names, table.X[mine], table.weight[mine])


def gram_of(rng, rows=500):
    a, b, c, noise = rng.standard_normal((4, rows))
    y = 1 + 3 * a + b - 2 * c + 0.1 * noise
    return pl.DataFrame({"y": y, "a": a, "b": b, "c": c, "k": np.arange(rows) % 3})


def sequence(frame, **options):
    record = frame.select(sequence=pl.struct("y", "a", "b", "c").dbselect.gram())
    return record.select(pl.col("sequence").dbselect.anytime_sequence("y", **options))


def design(frame, k):
    """Return the least squares prediction of the first k columns of a, c, b."""
    A = np.column_stack([np.ones(frame.height), *(frame[name] for name in ["a", "c", "b"][:k])])
    return A @ np.linalg.lstsq(A, frame["y"].to_numpy(), rcond=None)[0]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("budget", "step"),
    [(None, 3), (0, 0), (1, 1), (4.9, 1), (pl.lit(5.0), 2), ("limit", 2), (pl.col("limit") + 2, 3)],
)
def test_one_sequence_serves_all_rows_within_a_budget(engine, budget, step):
    frame = gram_of(np.random.default_rng(12), rows=5000)
    one = sequence(frame, costs={"a": 1, "b": 2, "c": 4})
    query = (
        chunked(frame.with_columns(limit=5.0), "limit")
        .lazy()
        .with_columns(sequence=pl.lit(one["sequence"]).first())
        .select(p=pl.col("sequence").dbselect.predict(pl.struct("c", "a", "b"), budget))
        .unnest("p")
    )
    found = query.collect(engine=engine)
    np.testing.assert_allclose(found["prediction"], design(frame, step), rtol=1e-9)
    assert found.columns == ["prediction", "step", "spent", "next_group"]
    assert found["step"].unique().to_list() == [step]
    assert found["spent"].unique().to_list() == [[0.0, 1.0, 5.0, 7.0][step]]
    assert found["next_group"].unique().to_list() == [["a", "c", "b", None][step]]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (pl.struct("a", "c", b=pl.lit("text")), "column 'b' has type .* has read a number there"),
        (pl.struct("a", "c", b=pl.date(2026, 1, 1)), "column 'b' has type Date32"),
        (pl.struct("k", aa="a"), r"the rows lack columns 'a', 'c', 'b', which .*; there is 'aa'"),
    ],
)
def test_a_row_that_no_prefix_can_read_is_an_error(row, words):
    frame = gram_of(np.random.default_rng(14), rows=20)
    predicted = pl.lit(sequence(frame)["sequence"]).first().dbselect.predict(row)
    with pytest.raises(pl.exceptions.ComputeError, match=words):
        frame.select(predicted)
    with pytest.raises(ds.errors.ArgumentError, match="handle_unknown is 'no'; it must be one of"):
        pl.col("s").dbselect.predict(row, handle_unknown="no")
    with pytest.raises(ds.errors.ArgumentError, match="missing_columns is 'no'; it must be one of"):
        pl.col("s").dbselect.predict(row, missing_columns="no")


def test_each_row_has_its_own_sequence_and_budget():
    frame = gram_of(np.random.default_rng(15), rows=900)
    grams = frame.group_by("k").agg(s=pl.struct("y", "a", "b", "c").dbselect.gram())
    sequences = grams.select("k", pl.col("s").dbselect.anytime_sequence("y"))
    limits = np.arange(900) // 3 % 4
    joined = frame.with_columns(limit=pl.Series(limits)).join(
        sequences.filter(pl.col("k") < 2), on="k", how="left", maintain_order="left"
    )
    found = joined.select(p=pl.col("s").dbselect.predict(pl.struct("a", "b", "c"), "limit"))
    predicted = found.unnest("p")["prediction"]
    for k in (0, 1):
        mine = frame.filter(k=k)
        for limit in range(4):
            at = (frame["k"].to_numpy() == k) & (limits == limit)
            expected = design(mine, limit)[limits[frame["k"].to_numpy() == k] == limit]
            np.testing.assert_allclose(predicted.filter(pl.Series(at)), expected, rtol=1e-9)
    assert found["p"].is_null().to_list() == (frame["k"] == 2).to_list()


def test_a_frame_without_rows_predicts_nothing():
    frame = gram_of(np.random.default_rng(16))
    empty = frame.with_columns(s=pl.lit(sequence(frame)["sequence"]).first()).clear()
    found = empty.select(p=pl.col("s").dbselect.predict(pl.struct("a", "b", "c"), 1.0))
    assert found.height == 0
    assert found["p"].struct.fields == ["prediction", "step", "spent", "next_group"]


x = pl.col("x")
GRAM = pl.struct("x", "y").dbselect.gram()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (pl.struct("x", t=pl.lit(b"b")).dbselect.gram(), ["'t'", "numeric, boolean, dates or"]),
        (pl.struct(s=pl.struct(t=pl.lit(b""))).dbselect.gram(), ["'s.t'", "numeric, boolean"]),
        (pl.struct(d=x.cast(pl.Time)).dbselect.gram(), ["'d'", "Time"]),
        (pl.struct(v=pl.concat_list("x")).dbselect.gram(), ["'v'", "List"]),
        (x.dbselect.gram(), ["'x'", "Int64", "struct"]),
        (pl.struct(z=x / 0).dbselect.gram(), ["'z'", "infinite value (inf)", "finite"]),
        (pl.struct(z=x * 1e200).dbselect.gram(), ["'z'", "overflow"]),
        (pl.struct("x").dbselect.gram(weight=-2.0), ["weight is negative (-2)", ">= 0"]),
        (pl.struct("x").dbselect.gram(weight=-x), ["weight is negative", ">= 0"]),
        (pl.struct("x").dbselect.gram(weight="nobody"), ["nobody"]),
        (pl.struct("x").dbselect.gram(weight="digits"), ["weight"]),
        (pl.struct("x").dbselect.gram(weight=pl.struct("x")), ["x"]),
        (x.dbselect.merge(), ["x"]),
        (GRAM.dbselect.anytime_sequence("q"), ["target", "unknown column 'q'", "'y'"]),
        (x.dbselect.anytime_sequence("y"), ["gram record", "mapping"]),
        (GRAM.dbselect.anytime_sequence("y").dbselect.predict(x), ["'x'", "struct"]),
        (x.dbselect.predict(pl.struct("x")), ["x"]),
    ],
)
def test_mistakes_are_named_and_never_panic(engine, expression, words):
    frame = pl.LazyFrame(
        {"x": [1, 2, 3], "y": [1, 3, 8], "name": ["a", "b", "c"], "digits": ["1", "2", "3"]}
    )
    with pytest.raises(ERRORS) as refusal:
        frame.select(expression).collect(engine=engine)
    missing = [word for word in words if word not in str(refusal.value)]
    assert not missing, f"{missing} not in: {refusal.value}"
    assert frame.select(pl.struct("x").dbselect.gram()).collect(engine=engine).item()["rows"] == 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda lf: lf.dbselect.gram("zz"), ["unknown column 'zz'", "'x'"]),
        (lambda lf: lf.dbselect.gram("z*"), ["unknown column 'z*'"]),
        (lambda lf: lf.with_columns(t=pl.lit(b"")).dbselect.gram("t"), ["'t'", "numeric, boolean"]),
        (lambda lf: lf.dbselect.gram("x", "x"), ["'x' twice"]),
        (lambda lf: lf.dbselect.gram("x", weight="zz"), ["weight", "'zz'"]),
        (lambda lf: lf.with_columns(z=x / 0).dbselect.gram("z"), ["'z'", "infinite"]),
        (lambda lf: lf.with_columns(w=-x).dbselect.gram("x", weight="w"), ["'w'", "-", ">= 0"]),
    ],
)
def test_mistakes_on_a_lazy_frame_are_named(call, words):
    frame = pl.LazyFrame({"x": [1, 2, 3], "name": ["a", "b", "c"]})
    with pytest.raises(ERRORS) as refusal:
        call(frame).collect()
    missing = [word for word in words if word not in str(refusal.value)]
    assert not missing, f"{missing} not in: {refusal.value}"
