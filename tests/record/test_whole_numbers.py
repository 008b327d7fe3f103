"""Integers, timestamps and decimals beyond the digits of doubles, against exact fractions."""

from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce
from operator import add

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dbselect as ds

ROWS = 600
RNG = np.random.default_rng(0)
STEPS = RNG.permutation(ROWS).tolist()
Y = (RNG.normal(size=ROWS) + np.array(STEPS) / 200).tolist()
CENTS = Context(prec=40)


#: Arrow type, the first value in units, and units that make one.
KINDS = {
    "int64": (pa.int64(), 2**60, 1),
    "negative": (pa.int64(), -(2**63), 1),
    "uint64": (pa.uint64(), 2**64 - ROWS, 1),
    "nanoseconds": (pa.timestamp("ns"), 1_700_000_000_123_456_789, 10**9),
    "microseconds": (pa.timestamp("us", "UTC"), 1_700_000_000_123_456, 10**6),
    "decimal": (pa.decimal128(38, 10), 10**30, 10**10),
    "wide": (pa.decimal128(38, 0), 10**22, 1),
}


def column(kind, steps):
    """Return an Arrow array and the exact values."""
    type_, first, per_one = KINDS[kind]
    units = [None if step is None else first + step for step in steps]
    if pa.types.is_decimal(type_):
        values = [None if u is None else CENTS.scaleb(u, -type_.scale) for u in units]
        array = pa.array(values, type_)
    else:
        array = pa.array(units, type_)
    return array, [None if u is None else Fraction(u, per_one) for u in units]


def exact(xs, ys, weights=None):
    """Return the comoments of two columns: xx, xy, yy."""
    w = [Fraction(1)] * len(xs) if weights is None else [Fraction(v) for v in weights]
    x, y = ([Fraction(v) for v in values] for values in (xs, ys))
    total = sum(w)
    mean = [sum(a * b for a, b in zip(w, v, strict=True)) / total for v in (x, y)]
    x, y = ([v - m for v in values] for values, m in zip((x, y), mean, strict=True))
    products = [(x, x), (x, y), (y, y)]
    return [float(sum(a * b * c for a, b, c in zip(w, *p, strict=True))) for p in products]


def sums_of(gram):
    at = [gram.columns.index(name) for name in ("x", "y")]
    return gram.comoment[np.ix_(at, at)][np.tril_indices(2)]


def in_sql(connection, table, query):
    connection.register("t", table)
    return ds.Gram.from_struct(connection.sql(query).fetchall()[0][0])


DOORS = {
    "Arrow": lambda table, _: ds.gram(table),
    "stream": lambda table, _: ds.gram(table.to_reader(max_chunksize=7)),
    "Polars": lambda table, _: ds.gram(pl.from_arrow(table).lazy()),
    "parts": lambda table, _: reduce(add, [ds.gram(table[i : i + 41]) for i in range(0, ROWS, 41)]),
    "expression": lambda table, _: ds.Gram.from_struct(
        pl.from_arrow(table).select(gram=pl.struct("x", "y").dbselect.gram())["gram"][0]
    ),
    "relation": lambda table, connection: ds.gram(connection.from_arrow(table)),
    "SQL": lambda table, connection: in_sql(connection, table, "SELECT gram(t) FROM t"),
    "SQL merged": lambda table, connection: in_sql(
        connection,
        table,
        "SELECT gram_merge(g) FROM (SELECT gram(t) AS g FROM t GROUP BY (1e3 * y)::INT % 13)",
    ),
}


@pytest.mark.sample(20)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_digit_is_lost_before_centring(kind, door, connection):
    x, xs = column(kind, STEPS)
    gram = DOORS[door](pa.table({"x": x, "y": Y}), connection)
    np.testing.assert_allclose(sums_of(gram), exact(xs, Y), rtol=1e-12)
    at = gram.columns.index("x")
    mean = Fraction(gram.mean[at]) + Fraction(gram.mean_low[at])
    spread = max(xs) - min(xs)
    assert abs(mean - sum(xs) / ROWS) <= spread * Fraction(1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_they_may_be_the_target(kind, connection):
    x, xs = column(kind, STEPS)
    table = pa.table({"x": x, "y": Y})
    xx, xy, yy = exact(xs, Y)
    steps = ds.anytime_sequence(table, "x").steps
    connection.register("t", table)
    in_sql = connection.sql("SELECT anytime_sequence(gram(t), 'x')[-1].r2 FROM t").fetchall()
    np.testing.assert_allclose([steps["r2"][-1], in_sql[0][0]], xy**2 / (xx * yy), rtol=1e-11)


GROUPED = {
    "Polars": lambda frame, _: ds.gram_by(frame, by=["k"]),
    "expression": lambda frame, _: frame.group_by("k").agg(
        gram=pl.struct("x", "y").dbselect.gram()
    ),
    "relation": lambda frame, connection: ds.gram_by(
        connection.from_arrow(frame.to_arrow()), by=["k"]
    ),
}


@pytest.mark.parametrize("door", GROUPED)
def test_groups_may_lie_far_apart(door, connection):
    # Seconds in one, years from one to the next: no number is near all of them.
    groups = [row % 3 for row in range(ROWS)]
    steps = [s + 2**61 * (k - 1) for s, k in zip(STEPS, groups, strict=True)]
    frame = pl.DataFrame({"k": groups, "x": steps, "y": Y})
    found = GROUPED[door](frame, connection)
    for k, record in found.select("k", "gram").iter_rows():
        rows = frame.filter(k=k)
        wanted = exact(rows["x"].to_list(), rows["y"].to_list())
        np.testing.assert_allclose(sums_of(ds.Gram.from_struct(record)), wanted, rtol=1e-12)


@pytest.mark.parametrize("rows", [40, ROWS])
@pytest.mark.parametrize("kind", ["int64", "nanoseconds", "decimal"])
def test_weights_and_what_is_left_out_cost_nothing(kind, rows):
    steps = [None if step % 5 == 0 else step for step in STEPS[:rows]]
    x, xs = column(kind, steps)
    w = [float(row % 4) / 2 for row in range(rows)]
    gram = ds.gram(pa.table({"x": x, "y": Y[:rows], "w": w}), weight="w")
    used = [row for row in range(rows) if xs[row] is not None and w[row] > 0]
    wanted = exact(*([values[row] for row in used] for values in (xs, Y, w)))
    np.testing.assert_allclose(sums_of(gram), wanted, rtol=1e-12)


@pytest.mark.parametrize("rows", [40, ROWS])
@pytest.mark.parametrize("kind", ["int64", "nanoseconds", "decimal"])
def test_the_mean_may_stand_where_they_are_missing(kind, rows):
    steps = [None if step % 5 == 0 else step for step in STEPS[:rows]]
    x, xs = column(kind, steps)
    gram = ds.gram(pa.table({"x": x, "y": Y[:rows]}), null_policy={"x": "mean"})
    present = [value for value in xs if value is not None]
    filled = [sum(present) / len(present) if value is None else value for value in xs]
    np.testing.assert_allclose(sums_of(gram), exact(filled, Y[:rows]), rtol=1e-9)


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ["Arrow", "SQL"])
def test_levels_beside_them_keep_their_digits(kind, engine, connection):
    x, xs = column(kind, STEPS)
    level = ["abc"[step // 7 % 3] for step in STEPS]
    table = pa.table({"x": x, "k": level})
    gram = (
        ds.gram(table) if engine == "Arrow" else in_sql(connection, table, "SELECT gram(t) FROM t")
    )
    at = gram.columns.index("x")
    for name in "abc":
        wanted = exact(xs, [int(own == name) for own in level])[1]
        found = gram.comoment[at, gram.columns.index(f"k.{name}")]
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_a_constant_is_one_at_any_size(connection):
    values = [0.1, 1e17 / 3, 2**60 + 1, -(2**63)]
    rng = np.random.default_rng(3)
    for value in values:
        frame = pl.DataFrame({"x": [value] * ROWS, "y": Y, "w": rng.uniform(0.5, 2, ROWS)})
        parts = reduce(add, [ds.gram(frame[i : i + 41], weight="w") for i in range(0, ROWS, 41)])
        for gram in [parts, ds.gram(frame, weight="w"), parts - ds.gram(frame[:41], weight="w")]:
            assert "x" in ds.anytime_sequence(gram, "y").aliased
        connection.register("t", frame.to_arrow())
        reason = connection.sql("SELECT gram_check(gram(t, w), 'x') FROM t").fetchall()[0][0]
        assert "target 'x' is constant" in reason


@pytest.mark.parametrize("first", [2**60, -(2**61), 2**53])
@pytest.mark.parametrize("last", [100, 99])
def test_integers_whose_mean_is_a_double_vary_all_the_same(first, last):
    steps = np.arange(-100, last + 1)
    y = steps + 9.0 * np.sin(steps)
    frame = pl.DataFrame({"id": pl.Series([first + int(step) for step in steps], dtype=pl.Int64)})
    frame = frame.with_columns(y=pl.Series(y))
    wanted = np.corrcoef(steps, y)[0, 1] ** 2
    found = [
        ds.fit(frame, "y").r2,
        ds.anytime_sequence(frame, "y").steps["r2"][-1],
        ds.fit(frame, "id").r2,
        ds.fit(frame, "y", family="gaussian").r2,
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_infinite_dates_are_still_refused(connection):
    rows = "(VALUES (TIMESTAMP 'infinity', 1.0), (TIMESTAMP '2024-01-01', 2.0)) AS t(x, y)"
    with pytest.raises(Exception, match="'x' has an infinite value"):
        connection.sql(f"SELECT gram(t) FROM {rows}").fetchall()


def polars_record(frame):
    return frame.select(g=pl.struct("x", "y").dbselect.gram())["g"][0]


@pytest.mark.parametrize("first", [2**60, 2**100, -(2**100)])
@pytest.mark.parametrize(
    "read",
    [ds.gram, lambda frame: ds.gram(frame.lazy()), polars_record],
    ids=["eager", "lazy", "expression"],
)
def test_integers_of_128_bits_are_exact_in_polars(read, first):
    values = [first + step for step in STEPS]
    frame = pl.DataFrame({"x": pl.Series(values, dtype=pl.Int128), "y": Y})
    found = read(frame)
    gram = found if isinstance(found, ds.Gram) else ds.Gram.from_struct(found)
    assert sums_of(gram) == pytest.approx(exact(values, Y), rel=1e-12)


def test_integers_of_more_digits_than_decimals_are_refused():
    values = pl.Series([10**38 + step for step in range(9)], dtype=pl.Int128)
    frame = pl.DataFrame({"x": values, "y": [float(step % 4) for step in range(9)]})
    with pytest.raises(ds.errors.SourceError, match="column 'x'"):
        ds.gram(frame)


def test_what_a_mean_cannot_tell_apart_is_refused(connection):
    units = [step - 10**33 for step in STEPS]
    table = pa.table({"x": pa.array(map(Decimal, units), pa.decimal128(38, 0)), "y": Y})
    for door in DOORS.values():
        with pytest.raises(
            (ds.DbselectError, duckdb.Error, pl.exceptions.PolarsError),
            match=r"column 'x' has numbers near 1e33 that differ by .* only",
        ):
            door(table, connection)
    # What differs by more, or not at all, has digits enough.
    apart = [unit + 10**25 * (k % 3) for k, unit in enumerate(units)]
    for numbers in (apart, units[:1] * ROWS):
        x = pa.array(map(Decimal, numbers), table["x"].type)
        gram = ds.gram(pa.table({"x": x, "y": Y}))
        np.testing.assert_allclose(sums_of(gram)[0], exact(numbers, Y)[0], rtol=1e-6)
