"""Killed at any moment, a store is what it was before or what it is after.

``python tests/store/test_gram_store_crash.py 100`` kills a hundred refreshes of each kind of store.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl
import pytest

import dbselect as ds

#: Stores of each kind.
NAMES = ["stats.duckdb", "stats", "stats.delta"]
#: Refreshes the store with the table that a number means, again and again, and says so.
WRITER = """
import sys
import polars as pl
import dbselect as ds

path, folder = sys.argv[1:]
store = ds.GramStore(path)
tables = [pl.read_parquet(f"{folder}/{n}.parquet") for n in range(2)]
ds.gram_by(tables[0], by="k")
print("ready", flush=True)
while True:
    for table in tables:
        try:
            store.refresh(table, by="k")
        except ds.errors.SourceError as error:
            assert "another process has refreshed" in str(error), error
        print("refreshed", flush=True)
"""


#: Parts of the table; writing them takes a good share of a refresh.
KEYS = 100
#: Refreshes that a writer ends, at most, before it is killed in the next.
MOST = 3


def tables(folder: Path) -> list[ds.Gram]:
    """Write two states of a table, of which all parts differ, and return their Grams."""
    x = pl.int_range(0, KEYS, eager=True).cast(pl.Float64)
    wanted = []
    for n in range(2):
        table = pl.DataFrame({"k": range(KEYS), "x": x * (1 + n), "y": x.sqrt() + n})
        table.write_parquet(folder / f"{n}.parquet")
        wanted.append(ds.gram(table.drop("k")))
    return wanted


def seconds_of_one(running: subprocess.Popen, refreshes: int) -> float:
    """Wait for some refreshes; return how long the last took, or the start of the writer."""
    assert running.stdout is not None
    assert running.stdout.readline() == b"ready\n"
    for _ in range(refreshes):
        start = time.monotonic()
        assert running.stdout.readline() == b"refreshed\n"
    return time.monotonic() - start


def ends_of_kills(path: Path, folder: Path, kills: int, writers: int = 1) -> list[int]:
    """Kill refreshes at random moments; return which state the store has after each."""
    wanted = tables(folder)
    dice, found = random.Random(1), []
    ds.GramStore(path).refresh(pl.read_parquet(folder / "0.parquet"), by="k")
    for _ in range(kills):
        command = [sys.executable, "-c", WRITER, str(path), str(folder)]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(writers)]
        seconds = [seconds_of_one(each, dice.randint(1, MOST)) for each in running]
        time.sleep(dice.uniform(0.0, max(seconds)))
        for each in running:
            assert each.poll() is None
            each.send_signal(signal.SIGKILL)
            each.wait()
            each.stdout.close()
        total = ds.GramStore(path).total()
        assert total.rows == KEYS
        sums = [(abs(total.mean - each.mean)).max() < 1e-9 for each in wanted]
        assert sum(sums) == 1
        found.append(sums.index(True))
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9")
@pytest.mark.parametrize("name", NAMES)
def test_a_killed_refresh_leaves_the_old_or_the_new_state(tmp_path, name):
    assert len(ends_of_kills(tmp_path / name, tmp_path, kills=2)) == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9")
@pytest.mark.parametrize("name", NAMES)
def test_two_writers_at_once_leave_one_state(tmp_path, name):
    assert len(ends_of_kills(tmp_path / name, tmp_path, kills=1, writers=2)) == 1


if __name__ == "__main__":
    for name in NAMES:
        with tempfile.TemporaryDirectory() as made:
            ends = ends_of_kills(Path(made) / name, Path(made), int(sys.argv[1]))
        print(f"{name}: {len(ends)} states after kills, {ends.count(0)} and {ends.count(1)}")
