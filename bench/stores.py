"""A year of days as a store: finding what has changed, and what needs no table any more."""

import shutil
import tempfile
from collections.abc import Iterator
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
from measure import once, seconds
from rows import Row
from tables import FOLDER, columns

import dbselect as ds

DAYS, ROWS, WIDTH = 365, 4_000, 50
RECORDS = 250_000
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


def refreshes() -> Iterator[Row]:
    """Bring stores up to date, whose days are files or rows, and read them."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
        days = Path(scratch) / "days"
        shutil.copytree(year(), days, copy_function=shutil.copyfile)
        (read,) = seconds(lambda: ds.gram(days, columns(WIDTH)))
        for place, path in (("in DuckDB", "stats.duckdb"), ("in a folder", "stats")):
            store = ds.GramStore(Path(scratch) / path)
            yield from _refreshed(place, store, days, read)
        yield from _answers(store, read)
        yield from _of_rows(ds.GramStore(Path(scratch) / "rows.duckdb"))


def _refreshed(place: str, store: ds.GramStore, days: Path, read: float) -> Iterator[Row]:
    first, _ = once(lambda: store.refresh(days, by="day"))
    (nothing,) = seconds(lambda: store.refresh(days))
    times = []
    for seed in range(3):
        for n in (40 * seed, 40 * seed + 1, 40 * seed + 2):
            a_day(n, DAYS + 9 * seed + n).write_parquet(days / f"{n:03}.parquet")
        times.append(once(lambda: store.refresh(days))[0])
    what, base = f"{DAYS} days x {ROWS:,} rows x {WIDTH} columns, files, store {place}", "ds.gram"
    yield Row(f"{what}: first refresh", first, read, base)
    yield Row(f"{what}: nothing has changed", nothing, read, base, limit=0.2)
    yield Row(f"{what}: three changed days", median(times), read, base, limit=0.6)


def _answers(store: ds.GramStore, read: float) -> Iterator[Row]:
    rolling = store.rolling(days=90, every=1)
    a, b = store.window("2013-01", "2013-03"), store.window("2013-07", "2013-09")
    total, moved, ordered, drifted = seconds(
        store.total,
        lambda: store.rolling(days=90, every=1),
        lambda: rolling.sequences("x0"),
        lambda: ds.drift(a, b, "x0"),
    )
    windows = f"{rolling.grams.height} windows of 90 days"
    yield Row("from the store: the total", total, read, "ds.gram", limit=0.11)
    yield Row(f"from the store: {windows}", moved, read, "ds.gram", limit=1.2)
    yield Row(f"the sequences of {windows}", ordered, read, "ds.gram")
    yield Row("drift of two Grams", drifted, read, "ds.gram")


def _of_rows(store: ds.GramStore) -> Iterator[Row]:
    table = pl.scan_parquet(year())
    store.refresh(table, by="day")
    floor, nothing = seconds(
        lambda: table.select(pl.col(columns(WIDTH)).sum()).collect(engine="streaming"),
        lambda: store.refresh(table),
    )
    changed = pl.when(pl.col("day") < FIRST + timedelta(days=3)).then(pl.col("x0") + 1)
    tables = [table.with_columns(changed.otherwise("x0").alias("x0")), table]
    redone = median(once(partial(store.refresh, changed))[0] for changed in tables * 2)
    what = "the same table without files, Polars"
    yield Row(f"{what}: nothing has changed", nothing, floor, "sum()", limit=0.2)
    yield Row(f"{what}: three changed days", redone, floor, "sum()", limit=0.6)


def many() -> Iterator[Row]:
    """Read and refresh a store of many records, beside DuckDB's merge of them."""
    values = np.random.default_rng(0).standard_normal((3 * RECORDS, 2))
    table = pl.DataFrame(values, ["x", "y"]).with_row_index("day").with_columns(pl.col("day") // 3)
    with tempfile.TemporaryDirectory() as scratch:
        store = ds.GramStore(Path(scratch) / "stats")
        store.refresh(table, by="day")
        records = f"'{scratch}/stats/*.parquet'"
        engine = ds.connect()
        merge, total, window, show, nothing = seconds(
            lambda: engine.execute(f"SELECT gram_merge(gram) FROM {records}").fetchall(),
            store.total, lambda: store.window(3, 3), store.show, lambda: store.refresh(table),
        )  # fmt: skip
    for what, took in (("the total", total), ("one day", window), ("show", show),
                       ("nothing has changed", nothing)):  # fmt: skip
        yield Row(f"{RECORDS:,} records: {what}", took, merge, "merge in DuckDB", limit=2 * merge)


PARTS = (refreshes, many)
