"""A year of days as a store: finding what has changed, and what needs no table any more."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl
from measure import Row, seconds
from tables import FOLDER, columns

import dbselect as ds

DAYS, ROWS, WIDTH = 365, 4_000, 50
FIRST = date(2013, 1, 1)


def a_day(n: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((ROWS, WIDTH)) + rng.standard_normal((ROWS, 1)) + 10
    frame = pl.DataFrame(values, columns(WIDTH))
    return frame.with_columns(pl.lit(FIRST + timedelta(days=n)).alias("day"))


def year() -> Path:
    """Write, unless they are there, the days as a file each."""
    folder = FOLDER / f"{DAYS}x{ROWS}x{WIDTH}"
    if not folder.exists():
        made = Path(tempfile.mkdtemp(dir=FOLDER))
        for n in range(DAYS):
            a_day(n, n).write_parquet(made / f"{n:03}.parquet", compression="uncompressed")
        made.rename(folder)
    return folder


def once(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def refreshes() -> Iterator[Row]:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
        days = Path(scratch) / "days"
        shutil.copytree(year(), days, copy_function=shutil.copyfile)
        table = pl.scan_parquet(year())
        for name, path in (("DuckDB", "stats.duckdb"), ("a folder", "stats")):
            yield from _of_files(name, ds.GramStore(Path(scratch) / path), days)
        yield from _of_rows(ds.GramStore(Path(scratch) / "rows.duckdb"), table)


def _of_files(name: str, store: ds.GramStore, days: Path) -> Iterator[Row]:
    what = f"{DAYS} days x {ROWS:,} rows x {WIDTH} columns, files, store in {name}"
    first = once(lambda: store.refresh(days, by="day"))
    (nothing,) = seconds(lambda: store.refresh(days))
    times = []
    for seed in range(3):
        for n in (40 * seed, 40 * seed + 1, 40 * seed + 2):
            a_day(n, DAYS + 9 * seed + n).write_parquet(days / f"{n:03}.parquet")
        times.append(once(lambda: store.refresh(days)))
    redone = float(np.median(times))
    yield what, f"first refresh {first:.1f} s", ""
    yield "finding that nothing has changed", f"{nothing:.3f} s", "0.1 to 0.2 s"
    yield "three changed days", f"{redone:.2f} s", "0.6 s"
    total, read = seconds(store.total, lambda: ds.gram(days, columns(WIDTH)))
    yield "the total from the records", f"{total:.3f} s; from the table {read:.2f} s", "0.11 s"
    (moved,) = seconds(lambda: store.rolling(days=90, every=1))
    windows = store.rolling(days=90, every=1).grams.height
    yield f"{windows} windows of 90 days", f"{moved:.2f} s", "1.2 s"
    rolling = store.rolling(days=90, every=1)
    (ordered,) = seconds(lambda: rolling.sequences("x0"))
    yield "their sequences", f"{ordered:.2f} s", ""
    a, b = store.window("2013-01", "2013-03"), store.window("2013-07", "2013-09")
    (drifted,) = seconds(lambda: ds.drift(a, b, "x0"))
    yield "drift of two Grams", f"{1e3 * drifted:.0f} ms", "milliseconds"


def _of_rows(store: ds.GramStore, table: pl.LazyFrame) -> Iterator[Row]:
    store.refresh(table, by="day")
    (floor, nothing) = seconds(
        lambda: table.select(pl.col(columns(WIDTH)).sum()).collect(engine="streaming"),
        lambda: store.refresh(table),
    )
    yield (
        "the same table without files, Polars: finding that nothing has changed by its rows",
        f"{nothing:.2f} s, {nothing / floor:.1f}x of {floor:.2f} s",
        "0.1 to 0.2 s",
    )
    changed = pl.when(pl.col("day") < FIRST + timedelta(days=3)).then(pl.col("x0") + 1)
    tables = [table.with_columns(changed.otherwise("x0").alias("x0")), table]
    redone = np.median([once(lambda: store.refresh(each)) for each in tables * 2])  # noqa: B023
    yield "three changed days", f"{redone:.2f} s", "0.6 s"


if __name__ == "__main__":
    for row in refreshes():
        print("| " + " | ".join(row) + " |", flush=True)
