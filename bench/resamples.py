"""Many records of rows drawn anew beside one Gram, and what is searched of them."""

import time
from collections.abc import Callable, Iterator

import numpy as np
import polars as pl
from measure import Row
from tables import columns

import dbselect as ds

RECORDS = 100


def _both(work: Callable[[], object]) -> tuple[float, float]:
    """Return wall and CPU seconds of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def resamples() -> Iterator[Row]:
    """Draw 100 records in one scan, and from 500 parts; search each."""
    rng = np.random.default_rng(0)
    for rows, width in ((1_000_000, 10), (400_000, 50)):
        frame = pl.DataFrame(rng.standard_normal((rows, width)), schema=columns(width))
        target = frame.columns[0]
        ds.gram(frame)
        one = _both(lambda frame=frame: ds.gram(frame))
        what = f"{RECORDS} records of {rows:,} rows x {width}"
        for kind in ("poisson", "halves"):
            wall, cpu = _both(
                lambda frame=frame, kind=kind: ds.io.resample(frame, records=RECORDS, kind=kind)
            )
            yield (
                f"{what}, {kind}, one scan",
                f"{wall:.1f} s, {wall / one[0]:.0f}x of gram; {cpu:.1f} s of processor, "
                f"{cpu / one[1]:.0f}x",
                "",
            )
        cut = _both(lambda frame=frame: ds.gram_by(frame, fold=500))
        parts = ds.gram_by(frame, fold=500)
        drawn = _both(lambda parts=parts: ds.io.resample(parts, records=RECORDS))
        yield (
            "the same from 500 parts",
            f"{drawn[0]:.2f} s, and {cut[0]:.2f} s to cut the table into them",
            "",
        )
        halves = ds.io.resample(parts, records=RECORDS, kind="halves")
        found = _both(lambda halves=halves, target=target: ds.stability(halves, target, size=3))
        yield (f"anytime_sequence of each, {width - 1} groups", f"{found[0]:.2f} s", "")
