"""Tables of ibis on engines elsewhere: sums there are those of the rows."""

import datetime as dt
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tables import assert_gram
from warehouses import DATABASES, Warehouse, opened

import dbselect as ds
from dbselect.errors import DataError, DriverWarning, LeftOutWarning, SourceError

#: What ibis asks of pandas.
pytestmark = pytest.mark.filterwarnings("ignore:The .future.infer_string")
ROWS = 120
#: Some units in the last place: both sides add doubles, in another order.
ROUNDING = 1e-13
POLICIES = ["skip", "mean", "indicator", {"y": "mean", "k": "indicator", "flag": "indicator"}]


@pytest.fixture(scope="module", params=DATABASES)
def warehouse(request: pytest.FixtureRequest) -> Iterator[Warehouse]:
    with opened(request.param) as found:
        yield found


def rows() -> pl.DataFrame:
    """Return numbers, booleans, dates, texts, weights and keys, some of each missing."""
    rng = np.random.default_rng(7)
    day, moment = dt.date(1969, 6, 1), dt.datetime(1965, 1, 1)
    frame = pl.DataFrame(
        {
            "x": rng.normal(size=ROWS) + 1e6,
            "y": rng.normal(size=ROWS),
            "i": rng.integers(-9, 9, ROWS),
            "flag": rng.random(ROWS) < 0.5,
            "k": rng.choice(["a", "b", "it's"], ROWS),
            "h": rng.choice(["u", "v"], ROWS),
            "day": [day + dt.timedelta(days=int(n)) for n in rng.integers(0, 999, ROWS)],
            "at": [moment + dt.timedelta(milliseconds=int(n)) for n in rng.integers(0, 9e11, ROWS)],
            "w": rng.integers(0, 4, ROWS).astype(float),
            "g": rng.choice(["p", "q"], ROWS),
        }
    )
    some = ["y", "i", "flag", "k", "day", "g", "w"]
    return frame.with_columns(
        pl.when(pl.Series(rng.random(ROWS) < 0.95)).then(name).alias(name) for name in some
    )


COLUMNS = ["x", "y", "i", "flag", "k", "h", "day", "at"]


@pytest.fixture(scope="module")
def pair(warehouse: Warehouse) -> tuple[object, pl.DataFrame]:
    """Return the same rows in the warehouse and in memory; MySQL's booleans are numbers."""
    frame, is_mysql = rows(), warehouse.connection.name == "mysql"
    own = frame.with_columns(pl.col(pl.Boolean).cast(pl.Int8)) if is_mysql else frame
    return warehouse.load(frame), own


def assert_same(found: ds.Gram, own: ds.Gram) -> None:
    """Compare a Gram with the one of the rows in memory."""
    assert found.columns == own.columns
    assert (found.rows, found.skipped, found.missing) == (own.rows, own.skipped, own.missing)
    np.testing.assert_allclose(found.weight, own.weight, rtol=ROUNDING)
    spread = np.sqrt(np.diagonal(own.comoment))
    spread = np.where(spread > 0, spread, 1.0)
    apart = (found.comoment - own.comoment) / np.outer(spread, spread)
    assert np.abs(apart).max(initial=0.0) < ROUNDING
    assert np.all(np.abs(found.mean - own.mean) <= 2e-16 * np.abs(own.mean) + ROUNDING * spread)
    terms, others = found.terms.to_struct(), own.terms.to_struct()
    means, other = terms.pop("means"), others.pop("means")
    assert terms == others
    assert means == pytest.approx(other, rel=ROUNDING, abs=ROUNDING)


@pytest.mark.sample(3)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("weight", [None, "w"])
def test_a_gram_is_that_of_the_rows(pair, weight, policy):
    table, frame = pair
    own = ds.gram(frame, COLUMNS, weight, null_policy=policy)
    assert_same(ds.gram(table, COLUMNS, weight, null_policy=policy), own)


@pytest.mark.sample(4)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("by", [["g"], ["h", "flag"], ["day"]], ids=str)
def test_groups_are_those_of_the_rows(pair, by, policy):
    table, frame = pair
    columns = [name for name in COLUMNS if name not in by]
    if isinstance(policy, dict):
        policy = {name: each for name, each in policy.items() if name in columns}
    own = ds.gram_by(frame, by, columns, "w", null_policy=policy)
    found = ds.gram_by(table, by, columns, "w", null_policy=policy)
    assert found.schema == own.schema
    assert found.select(by).equals(own.select(by))
    for one, other in zip(found["gram"], own["gram"], strict=True):
        assert_same(ds.Gram.from_struct(one), ds.Gram.from_struct(other))


def test_the_engine_is_asked_for_sums_only():
    with opened("sqlite") as warehouse:
        table = warehouse.load(rows())
        asked: list[str] = []
        warehouse.connection.con.set_trace_callback(asked.append)
        ds.gram(table, ["x", "y", "i"])
        assert len(asked) == 2
        ds.gram(table, ["x", "y", "k", "h"])
        # The levels of two columns, two queries as before, each column, and both together.
        assert len(asked) == 2 + 2 + 2 + 2 + 1
        assert all(re.search(r"SUM\(|COUNT\(", text) for text in asked)


@pytest.mark.parametrize("mean", [0.0, 1e6, 1e9])
def test_a_mean_far_from_zero_costs_no_digits(warehouse, mean):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 400)) + mean
    table = warehouse.load(pl.DataFrame({"x": x, "y": y, "g": ["a", "b"] * 200}))
    exact = [[Fraction(value) for value in values] for values in (x, y)]
    means = [sum(values) / len(values) for values in exact]
    products = [
        float(sum((a - s) * (b - t) for a, b in zip(u, v, strict=True)))
        for u, s in zip(exact, means, strict=True)
        for v, t in zip(exact, means, strict=True)
    ]
    found = ds.gram(table, ["x", "y"])
    spread = np.sqrt(products[0] * products[3])
    apart = np.abs(found.comoment.ravel() - products).max() / spread
    own = np.abs(ds.gram(np.c_[x, y], ["x", "y"]).comoment.ravel() - products).max() / spread
    # Each of 400 sums rounds once, and rounding is a walk; one pass does no better.
    assert apart < 1e-14
    assert own < 1e-14
    whole = [Fraction(a) + Fraction(b) for a, b in zip(found.mean, found.mean_low, strict=True)]
    assert max(abs(float(a - b)) for a, b in zip(whole, means, strict=True)) < 1e-15
    # So do groups, whose means only the engine knows.
    for record in ds.gram_by(table, ["g"], ["x", "y"])["gram"]:
        half = ds.Gram.from_struct(record)
        own_half = np.cov(x[::2] - mean, y[::2] - mean, bias=True) * 200
        if abs(half.mean[0] - x[::2].mean()) < abs(half.mean[0] - x[1::2].mean()):
            np.testing.assert_allclose(half.comoment, own_half, rtol=1e-7 * max(1, mean / 1e9))


def test_whole_numbers_and_decimals_of_any_size_do_not_overflow(warehouse):
    large = np.array([2**62, 2**62 - 2**40, -(2**61), 2**62 + 2**41])
    small = np.array([2**31 - 1, 2**31 - 9, 2**31 - 5, 2**31 - 7])
    digits = [Decimal("123456789012345678901234567.123456789"), Decimal("0.5"), Decimal(7), None]
    frame = pl.DataFrame(
        {"large": large, "small": small, "single": [0.1, 0.2, 0.3, 0.4], "digits": digits},
        schema={
            "large": pl.Int64,
            "small": pl.Int32,
            "single": pl.Float32,
            "digits": pl.Decimal(38, 9),
        },
    )
    single = frame["single"].to_numpy().astype(float)
    if warehouse.is_sqlite:  # whose REAL is a double
        frame = frame.with_columns(single=pl.Series(single))
    table = warehouse.load(frame)
    names = ["large", "small", "single"]
    X = np.c_[large.astype(float), small.astype(float), single]
    assert_gram(ds.gram(table, names), names, X)
    known = ds.gram(table, ["digits"])
    assert_gram(known, ["digits"], np.array([[float(d) if d else np.nan] for d in digits]))


@pytest.mark.slow
def test_more_columns_than_a_query_has(warehouse):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 80)) + np.arange(80)
    X[3, 5] = np.nan
    names = [f"x{j}" for j in range(80)]
    table = warehouse.load(pl.DataFrame(X, names).fill_nan(None))
    assert_gram(ds.gram(table), names, X)
    assert_same(
        ds.gram(table, null_policy="mean"), ds.gram(pl.DataFrame(X, names), null_policy="mean")
    )


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"x": [1.0, np.inf]}, "column 'x' has an infinite value; values must be finite"),
        ({"x": [1.0, 2.0], "w": [1.0, -2.0]}, "weight 'w' is negative (-2); weights must be >= 0"),
        ({"x": [1.0, 2.0], "w": [1.0, np.inf]}, "weight 'w' has an infinite value (inf)"),
    ],
)
def test_what_rows_must_not_have_is_refused(warehouse, values, words):
    if warehouse.connection.name == "mysql" and "infinite" in words:
        pytest.skip("MySQL has no infinite numbers")
    table = warehouse.load(pl.DataFrame(values))
    with pytest.raises(DataError, match=re.escape(words)):
        ds.gram(table, ["x"], "w" if "w" in values else None)
    if "w" not in values:
        # A row that is left out may have anything.
        left = warehouse.load(pl.DataFrame({**values, "y": [1.0, None]}))
        assert ds.gram(left).rows == 1


@pytest.mark.system
def test_nan_is_missing_and_infinite_numbers_of_postgresql_are_found():
    with opened("postgres") as warehouse:
        frame = pl.DataFrame({"x": [1.0, np.nan, 3.0], "n": ["1", "2", "NaN"]})
        table = warehouse.load(frame, {"n": "numeric"})
        found = ds.gram(table, null_policy="mean")
        assert (found.rows, found.missing) == (3, {"x": 1, "n": 1})
        np.testing.assert_allclose(found.mean, [2.0, 1.5])
        odd = warehouse.load(pl.DataFrame({"n": ["1", "Infinity"]}), {"n": "numeric"})
        with pytest.raises(DataError, match="column 'n' has an infinite value"):
            ds.gram(odd)


def test_text_in_a_column_of_numbers_of_sqlite_is_refused():
    with opened("sqlite") as warehouse:
        table = warehouse.load(pl.DataFrame({"x": ["1.5", "many"]}), {"x": "REAL"})
        with pytest.raises(SourceError, match="column 'x' has text in some rows"):
            ds.gram(table)


def test_texts_that_a_column_compares_alike_are_levels_of_their_own():
    frame = pl.DataFrame({"k": ["a", "A", "b", "B", "a"], "x": [1.0, 2.0, 3.0, 5.0, 8.0]})
    with opened("sqlite") as warehouse:
        table = warehouse.load(frame, {"k": "TEXT COLLATE NOCASE"})
        assert_same(ds.gram(table), ds.gram(frame))
        found = ds.gram_by(table, ["k"], ["x"]).sort("k")
        own = ds.gram_by(frame, ["k"], ["x"]).sort("k")
        assert found["k"].to_list() == own["k"].to_list() == ["A", "B", "a", "b"]
        for one, other in zip(found["gram"].to_arrow(), own["gram"].to_arrow(), strict=True):
            assert_same(ds.Gram.from_struct(one), ds.Gram.from_struct(other))
        model = ds.fit(frame, "x")
        with warehouse.connection.begin() as cursor:
            cursor.execute(f"SELECT {model.sql(dialect='sqlite')} FROM {table.get_name()}")
            scores = [float(value) for (value,) in cursor.fetchall()]
        np.testing.assert_allclose(scores, model.predict(frame), rtol=1e-12)


@pytest.mark.parametrize(
    ("size", "words"), [(1e200, "too large"), (1e-200, "underflows.*scale it")]
)
def test_squares_that_are_no_doubles_are_refused_by_sqlite(size, words):
    frame = pl.DataFrame({"x": [size, 2 * size, 4 * size], "y": [1.0, 2.0, 4.0]})
    with opened("sqlite") as warehouse, pytest.raises(DataError, match=f"column 'x' .*{words}"):
        ds.gram(warehouse.load(frame))


@pytest.mark.system
def test_a_uuid_is_its_text():
    texts = [f"00000000-0000-0000-0000-00000000000{n % 3}" for n in range(30)]
    frame = pl.DataFrame({"u": texts, "x": np.arange(30.0) ** 2, "y": np.arange(30.0)})
    with opened("postgres") as warehouse:
        table = warehouse.load(frame, {"u": "uuid"})
        assert_same(ds.gram(table), ds.gram(frame))
        found = ds.gram_by(table, ["u"], ["x", "y"])
    assert sorted(found["u"]) == texts[:3]


AFTER_SQL = """
import datetime as dt
import polars as pl
import dbselect as ds

frame = pl.DataFrame({"day": [dt.date(2024, 1, n) for n in (1, 2, 4)], "y": [1.0, 2.0, 4.0]})
ds.fit(frame, "y").sql(dialect="postgres")
from warehouses import opened

with opened("postgres") as warehouse:
    print(ds.gram(warehouse.load(frame)).correlation()[0, 1].round(9))
"""


@pytest.mark.system
def test_sql_that_was_written_before_does_not_change_the_queries():
    with opened("postgres"):
        pass  # skipped where there is no server
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AFTER_SQL],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert ran.stdout == "1.0\n", ran.stderr[-2000:]


def test_no_rows_are_no_groups(warehouse):
    table = warehouse.load(rows().clear())
    assert ds.gram(table, ["x", "y"]).rows == 0
    assert ds.gram_by(table, ["g"], ["x", "y"]).is_empty()


def test_levels_are_learnt_where_the_rows_are(pair):
    table, frame = pair
    curve = {"y": ("spline", 5), "i": ("poly", 2)}
    for asked in (
        {"categories": ["k", "i", "flag"], "max_levels": 2},
        {"categories": {"k": ["b", "none"]}},
        {"categories": ["k"], "basis": curve},
    ):
        assert ds.terms(table, **asked) == ds.terms(frame, **asked)
    terms = ds.terms(frame, {"k": ["b", "none"], "flag": [frame["flag"].max()], "i": [3, 1]})
    for policy in ("skip", "mean", "indicator"):
        found, own = (
            ds.gram(source, ["x", "y"], "w", terms=terms, null_policy=policy)
            for source in (table, frame)
        )
        assert_same(found, own)
    with pytest.warns(LeftOutWarning, match="'k' .more than 2 levels"):
        assert "k.a" not in ds.gram(table, ["x", "k*"], max_levels=2).columns


@pytest.mark.system
@pytest.mark.filterwarnings("ignore::dbselect.errors.DriverWarning")
def test_texts_of_mysql_are_equal_only_where_all_their_bytes_are():
    texts = ["u", "U", "e", "\u00e9", "e ", "E", None] * 10
    frame = pl.DataFrame({"k": texts, "x": np.arange(70.0), "y": np.arange(70.0) ** 2})
    with opened("mysql") as warehouse:
        table = warehouse.load(frame)
        assert_same(
            ds.gram(table, null_policy="indicator"), ds.gram(frame, null_policy="indicator")
        )
        for folds in ({}, {"fold": 2, "key": "x"}):
            found, own = (ds.gram_by(source, ["k"], ["x"], **folds) for source in (table, frame))
            assert found.drop("gram").equals(own.drop("gram"))


def test_columns_may_have_the_names_of_the_queries(warehouse):
    names = ["w", "used", "rows", "d0", "x0", "c0", "by_0", "key0", "level_0", "sum_0"]
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(rng.integers(0, 3, (60, len(names))).astype(float), names)
    frame = frame.with_columns(k=pl.Series(["a", "b", "c"] * 20))
    table = warehouse.load(frame)
    assert_same(ds.gram(table, weight="used"), ds.gram(frame, weight="used"))
    for by in (["w"], ["rows", "by_0"], ["used"]):
        found, own = (
            ds.gram_by(source, by, ["d0", "x0", "key0", "k"]) for source in (table, frame)
        )
        assert found.select(by).equals(own.select(by))
        for one, other in zip(found["gram"], own["gram"], strict=True):
            assert_same(ds.Gram.from_struct(one), ds.Gram.from_struct(other))


@pytest.fixture
def spark() -> Iterator[object]:
    """Offer a session; one that there is already goes on."""
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    before = sql.SparkSession.getActiveSession()
    builder = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = before or builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    yield session
    if before is None:
        session.stop()


@pytest.mark.far
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_spark_through_ibis_is_summed_there(spark):
    connection = pytest.importorskip("ibis").pyspark.connect(spark)
    frame = rows()
    spark.createDataFrame(frame.to_arrow()).createOrReplaceTempView("dbselect_rows")
    table = connection.table("dbselect_rows")
    with warnings.catch_warnings():
        warnings.simplefilter("error", DriverWarning)
        columns = ["x", "y", "i", "flag", "k", "day", "at"]
        found, own = (
            ds.gram(source, columns, "w", null_policy="mean") for source in (table, frame)
        )
        assert_same(found, own)
        found, own = (ds.gram_by(source, ["g"], ["x", "y"]) for source in (table, frame))
    for one, other in zip(found["gram"], own["gram"], strict=True):
        assert_same(ds.Gram.from_struct(one), ds.Gram.from_struct(other))
