"""A refresh of many files: killed, it goes on; a bad file waits; readers and the writer do, too."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.store import files as file_parts


def rows_of(day: int) -> pl.DataFrame:
    x = np.random.default_rng(day).normal(size=8)
    levels = ["a", f"l{day % 3}"] * 4
    return pl.DataFrame({"day": [day] * 8, "x": x, "k": levels, "y": x * 2 + day})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "table").mkdir()
    for day in range(5):
        rows_of(day).write_parquet(tmp_path / "table" / f"{day}.parquet")
    return tmp_path / "table"


@pytest.fixture
def store(tmp_path):
    return ds.GramStore(tmp_path / "stats")


def same(found: ds.Gram, *days: int) -> None:
    wanted = ds.gram(pl.concat([rows_of(day) for day in days]).drop("day"))
    assert (found.columns, found.rows, found.missing) == (
        wanted.columns, wanted.rows, wanted.missing
    )  # fmt: skip
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-12)
    np.testing.assert_allclose(found.comoment, wanted.comoment, rtol=1e-10, atol=1e-12)


def test_a_file_of_equal_size_and_time_is_told_by_its_footer(store, folder):
    store.refresh(folder, by="day")
    path = folder / "3.parquet"
    before = path.stat()
    restated = rows_of(3).with_columns(x=pl.col("x") + 1.0)
    restated.write_parquet(path)
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert store.refresh(folder).changed == ["3.parquet"]
    found = store.window(3, 3)
    assert found.mean[0] == pytest.approx(restated["x"].mean(), rel=1e-12)


def test_small_files_are_read_together_as_if_alone(store, folder, tmp_path, monkeypatch):
    rows_of(7).clear().write_parquet(folder / "empty.parquet")
    rows_of(8).drop("k").write_parquet(folder / "other.parquet")
    readings = []
    real = file_parts.read_part

    def counted(*given):
        readings.append(given)
        return real(*given)

    monkeypatch.setattr(file_parts, "read_part", counted)
    assert len(store.refresh(folder, by="day").added) == 7
    assert len(readings) == 2
    monkeypatch.setattr(file_parts, "SMALL", 0)
    alone = ds.GramStore(tmp_path / "alone")
    alone.refresh(folder, by="day")
    one, two = store.show(), alone.show()
    assert one.drop("version").equals(two.drop("version"))
    for found, wanted in zip(store._now()[0]["gram"], alone._now()[0]["gram"], strict=True):
        assert found["columns"] == wanted["columns"]
        np.testing.assert_allclose(found["mean"], wanted["mean"], rtol=1e-12)
        np.testing.assert_allclose(found["comoment"], wanted["comoment"], rtol=1e-10)
    same(store.window(0, 4), *range(5))


def test_levels_are_counted_file_by_file(store, folder):
    """All files have four levels of k, each file two."""
    store.refresh(folder, by="day", max_levels=2)
    same(store.total(), *range(5))


@pytest.mark.parametrize("place", ["stats", "stats.duckdb"])
def test_a_file_that_cannot_be_read_waits(tmp_path, folder, place):
    store = ds.GramStore(tmp_path / place)
    good = (folder / "2.parquet").read_bytes()
    (folder / "2.parquet").write_bytes(good[:-30] + b"x" * 22 + good[-8:])
    with pytest.raises(ds.errors.SourceError, match=r"in the file '.*2\.parquet'"):
        store.refresh(folder, by="day")
    done = store.refresh(folder, by="day", on_error="skip")
    assert (len(done.added), list(done.skipped)) == (4, ["2.parquet"])
    assert "1 skipped: 2.parquet" in repr(done)
    (part, error), = store.quarantine().iter_rows()  # fmt: skip
    assert part == "2.parquet"
    assert "in the file" in error
    same(store.total(), 0, 1, 3, 4)
    again = store.refresh(folder, on_error="skip")
    assert (again.changed, again.unchanged, list(again.skipped)) == ([], 4, ["2.parquet"])
    assert again.schema == []
    with pytest.raises(ds.errors.SourceError, match=r"2\.parquet"):
        store.refresh(folder)
    (folder / "2.parquet").write_bytes(good)
    done = store.refresh(folder)
    assert (done.changed, done.skipped, store.quarantine().height) == (["2.parquet"], {}, 0)
    same(store.total(), *range(5))


def test_where_no_file_can_be_read_that_is_an_error(store, folder):
    for path in folder.iterdir():
        path.write_bytes(b"no table")
    with pytest.raises(ds.errors.SourceError, match="in the file"):
        store.refresh(folder, by="day", on_error="skip")
    with pytest.raises(ds.errors.SourceError, match="is empty"):
        store.total()


#: Reads file by file, says so, and keeps each at once.
NIGHT = """
import sys
import dbselect as ds
from dbselect.store import files, refresh

files.SMALL = 0
refresh.PAUSE = 0.0
real = files.FileParts._records

def told(self, *read):
    print(read[-1], flush=True)
    if read[-1] == "3.parquet":
        sys.stdin.read()
    return real(self, *read)

files.FileParts._records = told
ds.GramStore(sys.argv[1]).refresh(sys.argv[2], by="day")
"""


@pytest.mark.system
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9")
@pytest.mark.parametrize("place", ["stats", "stats.duckdb"])
def test_a_night_that_was_killed_goes_on(tmp_path, folder, place):
    command = [sys.executable, "-c", NIGHT, str(tmp_path / place), str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as night:
        seen = [night.stdout.readline().strip() for _ in range(4)]
        night.send_signal(signal.SIGKILL)
    assert seen == [f"{day}.parquet" for day in range(4)]
    store = ds.GramStore(tmp_path / place)
    with pytest.raises(ds.errors.SourceError, match="is empty"):
        store.total()
    for day in range(3):
        spoil(folder / f"{day}.parquet")
    assert len(store.refresh(folder, by="day").added) == 5
    same(store.total(), *range(5))
    assert not (tmp_path / f"{place}.unfinished").exists()


def spoil(path: Path) -> None:
    """Overwrite the data of a file, whose size, time and footer stay: reading it fails."""
    told, content = path.stat(), path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    path.write_bytes(b"x" * (len(content) - footer) + content[-footer:])
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))


#: Holds a file of DuckDB open to read it.
READER = """
import sys
import duckdb
with duckdb.connect(sys.argv[1], read_only=True) as con:
    print(con.sql("SELECT count(*) FROM grams").fetchall()[0][0], flush=True)
    sys.stdin.read()
    print(con.sql("SELECT count(*) FROM grams").fetchall()[0][0], flush=True)
"""


@pytest.mark.system
@pytest.mark.skipif(sys.platform == "win32", reason="Windows replaces no file that is open")
def test_readers_and_the_writer_leave_each_other_alone(tmp_path, folder):
    path = tmp_path / "stats.duckdb"
    store = ds.GramStore(path)
    store.refresh(folder, by="day")
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE mine AS SELECT 42 AS n")
    command = [sys.executable, "-c", READER, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout.readline() == "5\n"
        same(store.total(), *range(5))
        rows_of(5).write_parquet(folder / "5.parquet")
        assert store.refresh(folder).added == ["5.parquet"]
        same(store.total(), *range(6))
        assert store.refresh(folder).unchanged == 6
        reader.stdin.close()
        # What it has open is what it was.
        assert reader.stdout.readline() == "5\n"
    with duckdb.connect(path) as con:
        assert con.sql("FROM mine").fetchall() == [(42,)]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["stats.duckdb", "table"]


#: Reads a store as a user who may not write to it.
VISITOR = """
import os
import sys
import dbselect as ds
store = ds.GramStore(sys.argv[1])
store.total()
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    open(sys.argv[1], "r+b")
except PermissionError:
    print(store.total().rows)
"""


@pytest.mark.system
@pytest.mark.skipif(sys.platform == "win32", reason="users of Unix")
def test_who_may_not_write_can_read(folder):
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "stats.duckdb"
        ds.GramStore(path).refresh(folder, by="day")
        path.chmod(0o444)
        Path(made).chmod(0o555)
        command = [sys.executable, "-c", VISITOR, str(path)]
        told = subprocess.run(command, capture_output=True, text=True, check=True)
        Path(made).chmod(0o755)
    assert told.stdout == "40\n"
