"""Statistics outlive rows where that is asked for, and are not lost by a mistyped source."""

import datetime as dt

import numpy as np
import polars as pl
import pytest

import dbselect as ds

DAYS = [dt.date(2024, 1, day) for day in (1, 2, 3, 4)]


def rows_of(*days: int) -> pl.DataFrame:
    parts = []
    for day in days:
        x = np.random.default_rng(day).normal(size=6)
        parts.append(pl.DataFrame({"day": [DAYS[day]] * 6, "x": x, "y": x**2 + day}))
    return pl.concat(parts)


def same(found: ds.Gram, rows: pl.DataFrame) -> None:
    values = rows.drop("day").to_numpy()
    assert found.rows == rows.height
    np.testing.assert_allclose(found.mean, values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.covariance(), np.cov(values.T, bias=True), rtol=1e-10)


@pytest.fixture(params=["stats", "stats.duckdb", "stats.delta"])
def store(request, tmp_path):
    if request.param.endswith("delta"):
        pytest.importorskip("deltalake", reason="a store in a Delta table needs deltalake")
    return ds.GramStore(tmp_path / request.param)


@pytest.fixture
def folder(tmp_path):
    """Write a file a day, and return the folder."""
    (tmp_path / "table").mkdir()
    for day in range(3):
        rows_of(day).write_parquet(tmp_path / "table" / f"{day}.parquet")
    return tmp_path / "table"


def test_all_keeps_parts_that_the_table_no_longer_has(store):
    store.refresh(rows_of(0, 1), by="day", keep="all")
    done = store.refresh(rows_of(1, 2))
    assert (len(done.added), done.dropped, done.unchanged, len(done.retained)) == (1, [], 1, 1)
    assert repr(done) == "1 parts added, 0 changed, 0 dropped, 1 unchanged, 1 retained"
    same(store.total(), rows_of(0, 1, 2))
    # It holds until another is given, and then drops what has been retained.
    done = store.refresh(rows_of(2), keep="table")
    assert (len(done.dropped), done.retained) == (2, [])
    same(store.total(), rows_of(2))


def test_a_store_may_begin_to_retain_later(store, folder):
    store.refresh(folder, by="day")
    (folder / "0.parquet").unlink()
    assert store.refresh(folder, keep="all").retained == ["0.parquet"]
    (folder / "1.parquet").unlink()
    assert store.refresh(folder).retained == ["0.parquet", "1.parquet"]
    same(store.total(), rows_of(0, 1, 2))


def test_a_retained_part_that_comes_back_is_compared(store):
    store.refresh(rows_of(0, 1), by="day", keep="all")
    store.refresh(rows_of(1))
    assert store.refresh(rows_of(0, 1)).unchanged == 2
    more = pl.concat([rows_of(0, 1), rows_of(0)])
    assert len(store.refresh(more).changed) == 1
    same(store.total(), more)


def test_another_table_replaces_nothing(store, folder, tmp_path):
    store.refresh(folder, by="day")
    (tmp_path / "other").mkdir()
    for n in range(5):
        rows_of(n % 3).write_parquet(tmp_path / "other" / f"part-{n}.parquet")
    with pytest.raises(ds.errors.SourceError, match="none of these parts, and the store has 3 p"):
        store.refresh(tmp_path / "other")
    with pytest.raises(ds.errors.SourceError, match="none of these parts"):
        store.refresh(rows_of(0))
    same(store.total(), rows_of(0, 1, 2))
    done = store.refresh(tmp_path / "other", max_dropped=3)
    assert (len(done.added), len(done.dropped)) == (5, 3)


def test_no_more_are_dropped_than_allowed(store, folder):
    store.refresh(folder, by="day")
    (folder / "0.parquet").unlink()
    with pytest.raises(ds.errors.SourceError, match="drop 1 of 3 parts, and max_dropped is 0"):
        store.refresh(folder, max_dropped=0)
    assert store.refresh(folder, max_dropped=1).dropped == ["0.parquet"]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"keep": "everything"}, r"keep is 'everything'; it must be one of \['table', 'all'\]"),
        ({"max_dropped": -1}, "max_dropped is -1; it must be a whole number >= 0"),
        ({"max_dropped": "2"}, "max_dropped is '2'"),
        ({"new_columns": "drop"}, "new_columns is 'drop'; it must be one of"),
        ({"on_error": "ignore"}, "on_error is 'ignore'; it must be one of"),
        ({"on_error": "skip"}, "the parts of the source are no files"),
    ],
)
def test_options_are_checked(tmp_path, option, words):
    with pytest.raises(ds.errors.ArgumentError, match=words):
        ds.GramStore(tmp_path / "stats").refresh(rows_of(0), by="day", **option)


def test_records_of_elsewhere_are_put_once(store):
    records = ds.gram_by(rows_of(0, 1), by="day")
    assert store.put(records, part="january", version=7).added == ["january"]
    assert store.put(records, part="january", version=7).unchanged == 1
    same(store.total(), rows_of(0, 1))
    same(store.window("2024-01-02"), rows_of(1))
    more = ds.gram_by(rows_of(0, 1, 2), by="day")
    assert store.put(more.to_arrow(), part="january", version=8).changed == ["january"]
    same(store.total(), rows_of(0, 1, 2))
    assert store.show()["fingerprint"].to_list() == ["put: 8"] * 3


def test_a_gram_is_put_under_its_key(store):
    store.refresh(rows_of(0), by="day")
    store.put(ds.gram(rows_of(1).drop("day")), part="2024-01-02", version="a")
    store.put(ds.gram(rows_of(2).drop("day")).to_struct(), part="2024-01-03")
    same(store.window("2024-01-02", "2024-01-03"), rows_of(1, 2))
    with pytest.raises(ds.errors.ArgumentError, match="part is 'x'; of one Gram it is its key"):
        store.put(ds.gram(rows_of(2).drop("day")), part="x")


def test_what_was_put_is_no_part_of_the_table(store):
    store.put(ds.gram_by(rows_of(0), by="day"), part="history", version=1)
    store.refresh(rows_of(1, 2), by="day")
    done = store.refresh(rows_of(2))
    assert (len(done.dropped), done.unchanged) == (1, 1)
    same(store.total(), rows_of(0, 2))


@pytest.mark.parametrize(
    ("records", "words"),
    [
        (pl.DataFrame({"day": [1]}), "one column of Gram records"),
        (3, "records is 3; it must be a table, a Gram or a record"),
        ({"rows": 1}, "gram record lacks"),
    ],
)
def test_what_is_put_is_checked(tmp_path, records, words):
    with pytest.raises(ds.DbselectError, match=words):
        ds.GramStore(tmp_path / "stats").put(records, part="a")


def test_keys_that_are_put_are_those_of_the_store(store):
    store.refresh(rows_of(0), by="day")
    records = ds.gram_by(rows_of(1).rename({"day": "date"}), by="date")
    with pytest.raises(ds.errors.ArgumentError, match=r"keys \['date'\]; those of the store are"):
        store.put(records, part="a")
