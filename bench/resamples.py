"""Many records of rows drawn anew beside one Gram, and what is searched of them."""

from collections.abc import Iterator

import numpy as np
import polars as pl
from measure import seconds
from rows import Row
from tables import columns

import dbselect as ds

RECORDS = 100


def resamples() -> Iterator[Row]:
    """Draw 100 records in one scan, and from 500 parts; search each."""
    rng = np.random.default_rng(0)
    for rows, width in ((1_000_000, 10), (400_000, 50)):
        frame = pl.DataFrame(rng.standard_normal((rows, width)), schema=columns(width))
        parts = ds.gram_by(frame, fold=500)
        halves = ds.io.resample(parts, records=RECORDS, kind="halves")
        gram, poisson, half, cut, drawn, sequences = seconds(
            lambda frame=frame: ds.gram(frame),
            lambda frame=frame: ds.io.resample(frame, records=RECORDS, kind="poisson"),
            lambda frame=frame: ds.io.resample(frame, records=RECORDS, kind="halves"),
            lambda frame=frame: ds.gram_by(frame, fold=500),
            lambda parts=parts: ds.io.resample(parts, records=RECORDS),
            lambda halves=halves: ds.stability(halves, "x0", size=3),
            repeats=3,
        )
        what, table = f"{RECORDS} records", f"{rows:,} rows x {width}"
        yield Row(f"{what} of {table}, poisson, one scan", poisson, gram, "gram")
        yield Row(f"{what} of {table}, halves, one scan", half, gram, "gram")
        yield Row(f"{table} cut into 500 parts", cut, gram, "gram")
        yield Row(f"{what} of 500 parts, {table}", drawn, gram, "gram")
        yield Row(f"sequences of {what}, {width - 1} groups", sequences, gram, "gram")


PARTS = (resamples,)
