"""What becomes of columns that a table did not have: one policy, the same on all routes."""

import datetime as dt
import warnings

import duckdb
import numpy as np
import polars as pl
import pytest

import dbselect as ds

# Polars' own, of a plugin that plans faster.
pytestmark = pytest.mark.filterwarnings("ignore:Iceberg scan planning")

DAYS = [dt.date(2024, 1, day) for day in range(1, 6)]
ROUTES = ["files", "LazyFrame", "DataFrame", "relation", "iceberg"]


def day(n: int) -> pl.DataFrame:
    x = np.random.default_rng(n).normal(size=50)
    return pl.DataFrame({"day": [DAYS[n]] * 50, "x": x, "k": ["a", "b"] * 25, "y": 2 * x + n})


def wider(n: int) -> pl.DataFrame:
    return day(n).with_columns(gust=pl.col("x").sin())


@pytest.fixture(params=ROUTES)
def as_table(request, tmp_path):
    """Return what makes a table of frames: a file each, or one whose old rows have NULL."""
    names = iter(range(100))

    def made(*frames: pl.DataFrame):
        if request.param == "files":
            (tmp_path / "table").mkdir(exist_ok=True)
            for frame in frames:
                name = f"{frame['day'][0]}.parquet"
                if not (tmp_path / "table" / name).exists():
                    frame.write_parquet(tmp_path / "table" / name)
            return tmp_path / "table"
        whole = pl.concat(frames, how="diagonal")
        if request.param == "LazyFrame":
            return whole.lazy()
        if request.param == "relation":
            return con.from_arrow(whole.to_arrow())
        if request.param == "iceberg":
            return iceberg(tmp_path, whole, f"t{next(names)}")
        return whole

    with duckdb.connect() as con:
        yield made


def iceberg(folder, frame: pl.DataFrame, name: str) -> pl.LazyFrame:
    pytest.importorskip("pyiceberg", reason="Iceberg needs pyiceberg")
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("here", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace_if_not_exists("own")
    arrow = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    table = catalog.create_table(f"own.{name}", schema=arrow.schema)
    table.append(arrow)
    return pl.scan_iceberg(table)


@pytest.fixture
def store(tmp_path):
    return ds.GramStore(tmp_path / "stats")


def columns(gram: ds.Gram) -> set[str]:
    return set(gram.columns)


def means(gram: ds.Gram, frame: pl.DataFrame, *names: str) -> None:
    for name in names:
        assert gram.mean[gram.columns.index(name)] == pytest.approx(frame[name].mean(), rel=1e-12)


OLD = {"x", "k.a", "k.b", "y"}


def test_history_stays_where_a_column_is_added(as_table, store):
    store.refresh(as_table(day(0), day(1)), by="day")
    done = store.refresh(as_table(day(0), day(1), wider(2)))
    assert (len(done.added), done.changed, done.unchanged) == (1, [], 2)
    assert done.schema == ["new column 'gust'"]
    window = store.window(DAYS[0], DAYS[1])
    assert (window.rows, columns(window)) == (100, OLD)
    assert columns(store.window(DAYS[2])) == OLD | {"gust"}
    with pytest.warns(ds.errors.LeftOutWarning, match="'gust'"):
        total = store.total()
    assert (total.rows, columns(total)) == (150, OLD)
    means(total, pl.concat([day(0), day(1), day(2)]), "x", "y")
    versions = store.versions()
    assert versions["changes"].to_list() == [[], ["new column 'gust'"]]
    assert versions["first"].to_list() == [DAYS[0], DAYS[2]]
    # A row that comes late is read with the columns of its day.
    assert store.refresh(as_table(day(0), day(1), wider(2))).unchanged == 3


def test_a_late_row_of_before_is_read_as_before(store):
    store.refresh(pl.concat([day(0), day(1)]).lazy(), by="day")
    late = pl.concat([day(0), day(1), wider(1).head(1), wider(2)], how="diagonal")
    done = store.refresh(late.lazy())
    assert (len(done.added), len(done.changed), done.unchanged) == (1, 1, 1)
    assert store.window(DAYS[1], DAYS[1]).rows == 51
    assert store.window(DAYS[1], DAYS[1]).skipped == 0


def test_ignored_columns_are_not_read(as_table, store):
    store.refresh(as_table(day(0), day(1)), by="day", new_columns="ignore")
    done = store.refresh(as_table(day(0), day(1), wider(2)))
    assert (len(done.added), done.unchanged) == (1, 2)
    assert columns(store.total()) == OLD
    assert store.total().rows == 150
    assert store.versions().height == 1
    assert store.refresh(as_table(day(0), day(1), wider(2))).unchanged == 3


def test_a_change_of_columns_may_be_an_error(as_table, store):
    store.refresh(as_table(day(0), day(1)), by="day")
    now = as_table(day(0), day(1), wider(2))
    with pytest.raises(ds.errors.ColumnError, match="new column 'gust'; new_columns is 'error'"):
        store.refresh(now, new_columns="error")
    assert store.total().rows == 100
    assert len(store.refresh(now, new_columns="ignore").added) == 1


@pytest.mark.parametrize("policy", ["indicator", "mean"])
def test_null_is_a_missing_value_in_rows_of_before(as_table, store, policy):
    asked = {"by": "day", "null_policy": policy, "new_columns": "null"}
    store.refresh(as_table(day(0), day(1)), **asked)
    done = store.refresh(as_table(day(0), day(1), wider(2)))
    assert (len(done.added), done.unchanged) == (1, 2)
    whole = pl.concat([day(0), day(1), wider(2)], how="diagonal")
    wanted = ds.gram(whole.drop("day"), null_policy=policy)
    total = store.total()
    assert total.rows == 150
    assert columns(total) == columns(wanted)
    at = [total.columns.index(name) for name in wanted.columns]
    np.testing.assert_allclose(total.mean[at], wanted.mean, rtol=1e-12)
    np.testing.assert_allclose(
        total.comoment[np.ix_(at, at)], wanted.comoment, rtol=1e-10, atol=1e-10
    )
    assert total.missing == wanted.missing


def test_null_leaves_rows_out_where_that_is_the_policy(as_table, store):
    store.refresh(as_table(day(0), day(1)), by="day", new_columns="null")
    store.refresh(as_table(day(0), day(1), wider(2)))
    with pytest.warns(ds.errors.LeftOutWarning, match="100 without 'gust'"):
        total = store.total()
    assert (total.rows, total.skipped, columns(total)) == (50, 100, OLD | {"gust"})
    assert total.missing == {"gust": 100}
    means(total, wider(2), "x", "gust")
    assert store.window(DAYS[0], DAYS[1]).rows == 100


def test_a_changed_type_is_said(store, tmp_path):
    def texts(n: int) -> pl.DataFrame:
        return day(n).with_columns(x=pl.Series(["u", "v"] * 25))

    for n, frame in enumerate([day(0), texts(1)]):
        frame.write_parquet(tmp_path / f"{n}.parquet")
    store.refresh(tmp_path / "0.parquet", by="day")
    table = tmp_path / "*.parquet"
    with pytest.raises(ds.errors.ColumnError, match="'x' is text, before number"):
        store.refresh(table, new_columns="error")
    assert store.refresh(table, new_columns="version").schema == [
        "column 'x' is text, before number"
    ]
    assert store.versions()["changes"].to_list() == [[], ["column 'x' is text, before number"]]
    with pytest.warns(ds.errors.LeftOutWarning, match=r"\['x'\]"):
        assert store.total().rows == 100


GONE = {
    "gone": (lambda frame: frame.drop("x"), "column 'x' is gone"),
    "text": (lambda frame: frame.with_columns(pl.col("x").cast(pl.String)),
             "column 'x' is text, before number"),
}  # fmt: skip


@pytest.mark.parametrize("route", ["LazyFrame", "relation", "iceberg"])
@pytest.mark.parametrize("change", GONE)
def test_history_stays_where_a_column_goes(tmp_path, store, route, change):
    without, told = GONE[change]
    con, names = duckdb.connect(), iter(range(9))

    def table(*frames):
        whole = pl.concat(frames)
        if route == "iceberg":
            return iceberg(tmp_path, whole, f"t{next(names)}")
        return whole.lazy() if route == "LazyFrame" else con.from_arrow(whole.to_arrow())

    store.refresh(table(day(0), day(1)), by="day")
    frames = [without(day(n)) for n in range(3)]
    done = store.refresh(table(*frames))
    assert (len(done.added), done.changed, done.unchanged) == (1, [], 2)
    assert done.schema == [told, "2 parts are compared by their number of rows and stay"]
    # The history of the column is there, and what follows is compared by all that is left.
    means(store.window(DAYS[0], DAYS[1]), pl.concat([day(0), day(1)]), "x", "y")
    assert store.versions()["changes"].to_list() == [[], [told]]
    again = store.refresh(table(*frames))
    assert (again.unchanged, again.schema) == (3, [])
    frames[1] = frames[1].with_columns(y=pl.col("y") + 1)
    restated = store.refresh(table(*frames))
    assert (len(restated.changed), restated.unchanged) == (1, 2)
    means(store.window(DAYS[1], DAYS[1]), frames[1], "y")
    # A column that comes back is compared again where the record has it.
    other = day(0).with_columns(pl.col("x") + 1)
    frames = [frame.with_columns(x=day(n)["x"]) for n, frame in enumerate(frames)]
    back = store.refresh(table(other, *(frame.select(other.columns) for frame in frames[1:])))
    assert (len(back.changed), back.unchanged) == (1, 2)
    means(store.window(DAYS[0], DAYS[0]), other, "x", "y")


def test_a_new_level_is_said(as_table, store):
    other = day(2).with_columns(k=pl.lit("c"))
    store.refresh(as_table(day(0), day(1)), by="day")
    done = store.refresh(as_table(day(0), day(1), other))
    assert done.schema == ["new level 'c' of 'k'"]
    assert repr(done).endswith("2 unchanged; new level 'c' of 'k'")
    assert store.versions()["changes"].to_list() == [["new level 'c' of 'k'"]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.total().rows == 150


def test_records_that_are_put_follow_the_policy(store):
    store.refresh(day(0), by="day")
    records = ds.gram_by(wider(1), by="day")
    store.refresh(day(0), new_columns="error")
    with pytest.raises(ds.errors.ColumnError, match="new column 'gust'"):
        store.put(records, part="b")
    store.refresh(day(0), new_columns="ignore")
    store.put(records, part="b")
    assert columns(store.total()) == OLD
    assert store.total().rows == 100
