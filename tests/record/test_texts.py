"""Text and dates as columns, by every door: SQL, Polars and Python give one record."""

import datetime as dt
import json

import duckdb
import numpy as np
import polars as pl
import pytest
from sklearn.preprocessing import OneHotEncoder
from tables import assert_gram

import dbselect as ds
from dbselect.errors import ColumnError, LeftOutWarning, RecordError, SkippedRowsWarning
from dbselect.record.gram import RECORD_DTYPE

LEVELS = ["JFK", "", "a level of more than twelve bytes", "it's", 'a "quote".b', "größer", "EWR"]


def table(rows: int = 3000, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    day = dt.date(2013, 1, 1)
    return pl.DataFrame(
        {
            "y": rng.standard_normal(rows) + 50.0,
            "k": rng.choice(LEVELS, rows, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.04, 0.01]),
            "x": np.where(rng.random(rows) < 0.02, np.nan, rng.standard_normal(rows)),
            "few": rng.choice(["u", "v"], rows),
            "late": rng.random(rows) < 0.3,
            "day": [day + dt.timedelta(days=int(n)) for n in rng.integers(0, 365, rows)],
            "stamp": [
                dt.datetime(2013, 1, 1) + dt.timedelta(seconds=float(s))
                for s in rng.uniform(0, 1e7, rows).round(3)
            ],
            "g": rng.integers(0, 5, rows),
            "w": rng.integers(0, 4, rows) * 0.5,
        }
    ).with_columns(
        k=pl.when(pl.int_range(pl.len()) % 41 == 0).then(None).otherwise("k"),
        few=pl.when(pl.int_range(pl.len()) % 97 == 5).then(None).otherwise("few"),
    )


def by_hand(frame: pl.DataFrame) -> tuple[list[str], np.ndarray]:
    """Return the columns of y, k, x, few, late, day, stamp by hand, NaN where one is missing."""
    days = frame["day"].cast(pl.Int32).cast(pl.Float64).to_numpy()
    seconds = frame["stamp"].dt.timestamp("us").to_numpy() / 1e6
    names, columns = [], []
    used = frame.drop_nulls(["k", "few"]).filter(pl.col("x").is_not_nan() & (pl.col("w") > -1))
    for name in ("y", "k", "x", "few", "late", "day", "stamp"):
        if name in ("k", "few"):
            encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
            encoder.fit(used.select(name).to_numpy())
            texts = frame[name].fill_null("no level").to_numpy()[:, None]
            made = np.where(
                frame[name].is_null().to_numpy()[:, None], np.nan, encoder.transform(texts)
            )
            names += [f"{name}.{level}" for level in encoder.categories_[0]]
            columns.append(made)
            continue
        values = {"day": days, "stamp": seconds}.get(name)
        names.append(name)
        columns.append(
            (frame[name].cast(pl.Float64).to_numpy() if values is None else values)[:, None]
        )
    return names, np.hstack(columns)


ROW = "{'y': y, 'k': k, 'x': x, 'few': few, 'late': late, 'day': day, 'stamp': stamp}"
FIELDS = ["y", "k", "x", "few", "late", "day", "stamp"]


def assert_same(found: ds.Gram, expected: ds.Gram) -> None:
    """Compare two Grams up to rounding, with all that is not a number equal."""
    assert found.columns == expected.columns
    assert (found.rows, found.skipped) == (expected.rows, expected.skipped)
    assert found.missing == expected.missing
    assert found.terms == expected.terms
    deviation = np.sqrt(np.diagonal(expected.comoment)) + 1e-300
    scale = np.outer(deviation, deviation)
    np.testing.assert_allclose(found.comoment / scale, expected.comoment / scale, atol=1e-12)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-14, atol=1e-14)


@pytest.fixture
def flights(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    frame = table()  # noqa: F841
    connection.execute("CREATE TABLE t AS SELECT * FROM frame")
    return connection


@pytest.mark.parametrize("weight", [None, "w"])
def test_every_door_makes_columns_of_the_levels(flights, weight):
    frame = table()
    names, X = by_hand(frame)
    w = None if weight is None else frame["w"].to_numpy()
    of_weight = "" if weight is None else ", w"
    ((record,),) = flights.execute(f"SELECT gram({ROW}{of_weight}) FROM t").fetchall()
    assert_gram(record, names, X, w)
    expected = ds.Gram.from_struct(record)
    assert expected.missing == {"k": 74, "few": 31, "x": int(frame["x"].is_nan().sum())}
    found = {
        "python": ds.gram(frame, FIELDS, weight),
        "relation": ds.gram(flights.table("t"), FIELDS, weight),
        "arrow": ds.gram(frame.to_arrow(), FIELDS, weight),
        "pandas": ds.gram(frame.to_pandas(use_pyarrow_extension_array=True), FIELDS, weight),
        "lazy": ds.Gram.from_struct(
            frame.lazy().dbselect.gram(*FIELDS, weight=weight).collect()["gram"][0]
        ),
        "expression": ds.Gram.from_struct(
            frame.select(pl.struct(FIELDS).dbselect.gram(weight=weight))[0, 0]
        ),
    }
    for gram in found.values():
        assert_same(gram, expected)


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(sorted(LEVELS)), pl.String])
def test_enums_and_dictionaries_are_text(connection, dtype):
    frame = table().with_columns(pl.col("k").cast(dtype))
    expected = ds.gram(table(), ["y", "k"])
    assert_same(ds.gram(frame, ["y", "k"]), expected)
    assert_same(ds.gram(frame.to_arrow(), ["y", "k"]), expected)
    record = frame.select(pl.struct("y", "k").dbselect.gram())[0, 0]
    assert_same(ds.Gram.from_struct(record), expected)
    (record,) = connection.execute("SELECT gram({'y': y, 'k': k}) FROM frame").fetchone()
    assert_same(ds.Gram.from_struct(record), expected)


def test_groups_filters_windows_and_merges_count_their_own_levels(flights):
    frame = table()
    rows = flights.execute(
        "SELECT g, gram({'y': y, 'k': k}), gram({'y': y, 'k': k}) FILTER (x > 0) FROM t "
        "GROUP BY g ORDER BY g"
    ).fetchall()
    for g, record, filtered in rows:
        part = frame.filter(pl.col("g") == g)
        assert_same(ds.Gram.from_struct(record), ds.gram(part, ["y", "k"]))
        # DuckDB holds NaN for larger than any number.
        positive = part.filter((pl.col("x") > 0) | pl.col("x").is_nan())
        assert_same(ds.Gram.from_struct(filtered), ds.gram(positive, ["y", "k"]))
    whole = ds.gram(frame, ["y", "k"])
    merged = flights.execute(
        "SELECT gram_merge(g) FROM (SELECT gram({'y': y, 'k': k}) AS g FROM t GROUP BY g)"
    ).fetchone()[0]
    assert_same(ds.Gram.from_struct(merged), whole)
    last = flights.execute(
        "SELECT gram({'y': y, 'k': k}) OVER (ORDER BY g RANGE BETWEEN UNBOUNDED PRECEDING AND "
        "CURRENT ROW) FROM t QUALIFY row_number() OVER (ORDER BY g DESC) = 1"
    ).fetchone()[0]
    assert_same(ds.Gram.from_struct(last), whole)
    grouped = frame.group_by("g").agg(gram=pl.struct("y", "k").dbselect.gram())
    total = grouped.select(pl.col("gram").dbselect.merge())[0, 0]
    assert_same(ds.Gram.from_struct(total), whole)


def test_a_level_of_one_month_does_not_break_the_other():
    one = pl.DataFrame({"k": ["a", "b", "a"], "x": [1.0, 2.0, 4.0]})
    two = pl.DataFrame({"k": ["c", "a"], "x": [3.0, 7.0]})
    whole = ds.gram(pl.concat([one, two]))
    parts = [ds.gram(one), ds.gram(two)]
    assert_same(parts[0] + parts[1], whole)
    assert_same(parts[1] + parts[0], whole)
    assert (whole - parts[1]).columns == ["k.a", "k.b", "k.c", "x"]


@pytest.mark.parametrize("policy", ["mean", "indicator"])
def test_merging_needs_equal_terms_but_for_levels_and_indicators(policy):
    one = pl.DataFrame({"k": ["a", "b", None, "a"], "x": [1.0, None, 2.0, 5.0]})
    two = pl.DataFrame({"k": ["a", "c"], "x": [3.0, 7.0]})
    parts = [ds.gram(part, null_policy=policy) for part in (one, two)]
    if policy == "mean":
        with pytest.raises(RecordError, match="unequal means"):
            parts[0] + parts[1]
        terms = ds.gram(pl.concat([one, two]), null_policy=policy).terms
        parts = [ds.gram(part, terms=terms) for part in (one, two)]
    whole = ds.gram(pl.concat([one, two]), null_policy=policy)
    assert_same(parts[0] + parts[1], whole)


def test_too_many_levels_are_an_error_or_one_level(connection):
    frame = pl.DataFrame({"k": [f"{n:04d}" for n in range(1500)] * 2, "x": np.arange(3000.0)})
    frame = pl.concat([frame, pl.DataFrame({"k": ["0007", "0003"], "x": [0.0, 1.0]})])
    with pytest.raises(duckdb.Error, match=r"column 'k' has 1500 levels or more, above 1000"):
        connection.execute("SELECT gram({'k': k, 'x': x}) FROM frame").fetchone()
    assert connection.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(pl.exceptions.ComputeError, match="column 'k' has"):
        frame.select(pl.struct("k", "x").dbselect.gram())
    with pytest.raises(ColumnError, match="column 'k' cannot be taken: more than 1000 levels"):
        ds.gram(frame, columns=["k", "x"])
    with pytest.warns(LeftOutWarning, match=r"columns left out: 'k' \(more than 1000 levels\)"):
        assert ds.gram(frame).columns == ["x"]
    rows = connection.execute(
        "SELECT gram({'k': k, 'x': x}, {'max_levels': 2}) FROM frame"
    ).fetchone()
    found = ds.Gram.from_struct(rows[0])
    expected = ds.gram(frame, ["k", "x"], categories=["k"], max_levels=2)
    assert expected.columns == ["k.0003", "k.0007", "k.other", "x"]
    assert_same(found, expected)
    record = frame.select(pl.struct("k", "x").dbselect.gram(max_levels=2))[0, 0]
    assert_same(ds.Gram.from_struct(record), expected)


def test_options_of_the_aggregate_are_checked(connection):
    frame = pl.DataFrame({"k": ["a", "b"], "x": [1.0, 2.0], "w": [1.0, 2.0]})  # noqa: F841
    cases = {
        "{'max_level': 2}": "unknown option 'max_level'; there is 'max_levels'",
        "{'max_levels': 0}": "max_levels is 0; it must be a whole number >= 1",
        "{'max_levels': 1.5}": "max_levels is 1.5; it must be a whole number",
        "{'max_levels': '3'}": "max_levels is '3'; it must be a whole number >= 1",
        "{'max_levels': [3]}": "max_levels is of type LIST; it must be a whole number >= 1",
        "k": "weight has type VARCHAR; it must be numeric or boolean",
        "w, w": "options must be a STRUCT",
    }
    for options, message in cases.items():
        with pytest.raises(duckdb.Error, match=message):
            connection.execute(f"SELECT gram({{'k': k, 'x': x}}, {options}) FROM frame").fetchone()
    record = connection.execute(
        "SELECT gram({'k': k, 'x': x}, w, {'max_levels': 1}) FROM frame"
    ).fetchone()[0]
    assert record["columns"] == ["k.b", "k.other", "x"]
    assert record["weight"] == 3.0


def test_dates_count_days_and_timestamps_seconds(connection):
    (record,) = connection.execute(
        "SELECT gram({'d': d, 's': s, 'ms': s::TIMESTAMP_MS, 'tz': s::TIMESTAMPTZ}) FROM (VALUES "
        "(DATE '1970-01-03', TIMESTAMP '1970-01-01 00:00:01.5'), "
        "(DATE '1969-12-31', TIMESTAMP '1969-12-31 23:59:59')) t(d, s)"
    ).fetchone()
    assert record["mean"][:2] == [0.5, 0.25]
    assert json.loads(record["terms"])["dates"] == {
        "d": "days", "s": "seconds", "ms": "seconds", "tz": "seconds"
    }  # fmt: skip
    with pytest.raises(duckdb.Error, match="column 'd' has an infinite value"):
        connection.execute("SELECT gram({'d': 'infinity'::DATE})").fetchone()


def test_what_is_left_out_is_said():
    frame = pl.DataFrame({"x": [1.0, 2.0], "l": [[1], [2]], "t": [dt.time(1), dt.time(2)]})
    with pytest.warns(LeftOutWarning, match=r"'l' \(type .*list.*\), 't' \(type time"):
        assert ds.gram(frame).columns == ["x"]
    reader = pl.DataFrame({"x": [1.0, 2.0], "k": ["a", "b"]}).to_arrow().to_reader()
    with pytest.warns(LeftOutWarning, match=r"'k' \(text in a stream"):
        assert ds.gram(reader).columns == ["x"]


def test_parts_without_a_usable_row_merge():
    frame = pl.DataFrame({"k": ["a", "b", "a"], "x": [1.0, 2.0, 4.0]})
    none = pl.DataFrame({"k": ["a", "c"], "x": [None, None]}, {"k": pl.String, "x": pl.Float64})
    with pytest.warns(SkippedRowsWarning, match="'x' is missing in 2"):
        empty = ds.gram(none)
    whole = ds.gram(frame)
    for total in (whole + empty, empty + whole, whole + ds.gram(frame.clear())):
        assert (total.columns, total.rows) == (whole.columns, 3)
        np.testing.assert_array_equal(total.comoment, whole.comoment)
    silent = frame.with_columns(k=pl.lit(None, pl.String))
    with pytest.warns(SkippedRowsWarning, match="text of which there is no level is missing"):
        assert (ds.gram(silent) + whole).columns == whole.columns


def test_a_text_target_says_what_to_give(connection):
    frame = pl.DataFrame({"k": ["a", "b", "a", "b"], "x": [1.0, 2.0, 4.0, 3.0]})
    gram = ds.gram(frame)
    with pytest.raises(ColumnError, match="target names 'k', of which there is a column for"):
        ds.anytime_sequence(gram, "k")
    with pytest.raises(duckdb.Error, match="target names 'k', of which there is a column for"):
        connection.execute("SELECT anytime_sequence(gram(frame), 'k') FROM frame").fetchall()


def test_a_level_of_no_row_that_was_used_is_none(connection):
    frame = pl.DataFrame({"k": ["a", "b", "c", None], "x": [1.0, 2.0, None, 4.0]})
    found = ds.gram(frame)
    assert (found.columns, found.rows) == (["k.a", "k.b", "x"], 2)
    assert found.terms.categories[0].levels == ("a", "b")
    (record,) = connection.execute("SELECT gram(frame) FROM frame").fetchone()
    assert_same(ds.Gram.from_struct(record), found)


@pytest.mark.parametrize("function", ["gram", "gram_missing", "gram_mean"])
def test_interleaved_groups_are_what_each_is_alone(connection, function):
    """Some have more levels than are looked at one by one; an integer has 60 bits."""
    rng = np.random.default_rng(7)
    n = 4000
    frame = pl.DataFrame(
        {
            "g": rng.integers(0, 30, n) * (rng.random(n) < 0.7),
            "k": [f"level {at}" for at in rng.integers(0, 70, n)],
            "few": rng.choice(["u", "v", None], n).tolist(),
            "x": np.where(rng.random(n) < 0.1, np.nan, rng.standard_normal(n) + 1e6),
            "big": rng.integers(0, 1000, n) + 2**60,
            "w": rng.integers(0, 3, n) * 0.5,
        }
    ).with_columns(k=pl.when(pl.int_range(pl.len()) % 29 != 3).then("k"))
    record = f"{function}({{'k': k, 'x': x, 'few': few, 'big': big}}, w)"
    together = connection.execute(f"SELECT g, {record} FROM frame GROUP BY g").fetchall()
    alone = {}
    for (g,), part in frame.group_by("g"):
        alone[g] = connection.execute(f"SELECT {record} FROM part").fetchone()[0]
        assert part.height
    for g, found in together:
        wanted = alone[g]
        for name in ("columns", "rows", "skipped", "missing", "weight"):
            assert found[name] == wanted[name], (g, name)
        one, two = (ds.Gram.from_struct(record) for record in (found, wanted))
        spread = np.sqrt(np.outer(*[two.comoment.diagonal()] * 2))
        assert (np.abs(one.comoment - two.comoment) <= 1e-12 * (1 + spread)).all()
        np.testing.assert_allclose(one.mean, two.mean, rtol=1e-14, atol=1e-14)


def test_the_other_levels_do_not_explain_a_level(connection):
    """Where one of them is 1 the target is 0."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"k": rng.choice(["a", "b", ""], 90), "x": rng.standard_normal(90)})
    frame = frame.with_columns(pl.col("k").replace("", None))
    gram = ds.gram(frame, null_policy={"k": "indicator"})
    assert gram.columns == ["k.a", "k.b", "k.missing", "x"]
    for target in ("k.a", "k.missing"):
        sequence = ds.anytime_sequence(gram, target)
        assert sequence.columns == list(ds.fit(gram, target).coefficients) == ["x"]
        record = pl.DataFrame({"gram": [gram.to_struct()]}, schema={"gram": RECORD_DTYPE})
        steps = record.select(pl.col("gram").dbselect.anytime_sequence(target)).item()
        assert [one["group"] for one in steps.to_list()] == sequence.steps["group"].to_list()
        best = ds.best_within(gram, target, 9.0)
        assert best.groups == ["x"]


def test_text_that_is_left_out_is_named_in_the_way_out():
    frame = pl.DataFrame({"carrier": ["a", "b", "c"], "x": [1.0, 2.0, 4.0]})
    with pytest.raises(ColumnError, match=r"categories=\['carrier'\]"):
        ds.gram(frame, columns=["carrier", "x"], max_levels=2)


@pytest.mark.parametrize("null_policy", ["skip", {"*": "indicator", "x": "skip"}])
def test_a_lazy_frame_tells_and_prunes_as_gram_does(null_policy):
    frame = pl.DataFrame({"k": ["a", "b", "c", "d", "a"], "x": [1.0, 2.0, None, None, None]})
    with pytest.warns(SkippedRowsWarning, match="3 of 5 rows"):
        expected = ds.gram(frame, null_policy=null_policy)
    lazy = frame.lazy().dbselect.gram(null_policy=null_policy)
    with pytest.warns(SkippedRowsWarning, match="3 of 5 rows"):
        found = ds.Gram.from_struct(lazy.collect().item())
    assert_same(found, expected)
    assert found.columns == ["k.a", "k.b", "x"]
    empty = frame.clear().lazy().dbselect.gram("x").collect()
    assert empty["gram"].to_list() == [None]


def test_elements_of_an_array_are_texts_of_their_own(connection):
    pairs = [["a", "c"], ["b", "c"], ["a", "d"], ["a", "d"], ["b", "c"], ["b", None]]
    whole = pl.DataFrame({"y": range(6), "a": pl.Series(pairs, dtype=pl.Array(pl.String, 2))})
    for frame in (whole[:5], whole[1:4], whole):
        used = frame.filter(pl.col("a").arr.get(1).is_not_null())
        counts = {
            f"a[{place + 1}].{level}": (used["a"].arr.get(place) == level).sum()
            for place, level in ((0, "a"), (0, "b"), (1, "c"), (1, "d"))
        }
        found = ds.gram(frame)
        assert dict(zip(found.columns[1:], found.mean[1:] * found.rows, strict=True)) == (
            pytest.approx(counts)
        )
        connection.register("rows_", frame.to_arrow())
        query = "SELECT gram({'y': y, 'a': a::VARCHAR[2]}) FROM rows_"
        ((record,),) = connection.execute(query).fetchall()
        assert_same(ds.Gram.from_struct(record), found)
        record = frame.select(pl.struct(pl.all()).dbselect.gram())[0, 0]
        assert_same(ds.Gram.from_struct(record), found)


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"a": "x", "a.x": 1}, "a.x"),
        ({"a": "b.c", "a.b": "c"}, "a.b.c"),
        ({"a": {"b": 1}, "a.b": 2}, "a.b"),
    ],
)
def test_two_columns_of_one_name_are_refused(connection, row, name):
    message = rf"two columns of the record would have the name '{name}'"
    frame = pl.DataFrame([row])
    connection.register("rows_", frame.to_arrow())
    with pytest.raises(duckdb.Error, match=message):
        connection.execute("SELECT gram(r) FROM rows_ r").fetchone()
    with pytest.raises(pl.exceptions.ComputeError, match=message):
        frame.select(pl.struct(pl.all()).dbselect.gram())
