"""The exact mode of `dbselect.fit` beside the Gram that it does without."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl
from measure import seconds
from rows import Row
from tables import columns

import dbselect as ds
from dbselect.linear.exact import exact_least_squares
from dbselect.sources.wide import exact


def exact_sums() -> Iterator[Row]:
    """Sum products exactly: of whole numbers, and of doubles that use all their bits."""
    rng = np.random.default_rng(0)
    for rows, width in ((1_000_000, 11), (400_000, 50)):
        for kind, values in (
            ("whole numbers below 1,000", rng.integers(0, 1000, (rows, width))),
            ("normal doubles", rng.standard_normal((rows, width))),
        ):
            frame = pl.DataFrame(values, schema=columns(width))
            gram, sums = seconds(
                lambda frame=frame: ds.gram(frame),
                lambda frame=frame: exact.exact_sums(frame, frame.columns[0]),
                repeats=3,
            )
            yield Row(f"exact sums, {rows:,} rows x {width} {kind}", sums, gram, "gram")


def exact_solutions() -> Iterator[Row]:
    """Solve in whole numbers, from sums of normal doubles."""
    rng = np.random.default_rng(0)
    for width in (10, 20, 50):
        rows = rng.standard_normal((1000, width + 1))
        sums = exact.exact_sums(pl.DataFrame(rows, schema=columns(width + 1)), "x0")
        solution, doubles = seconds(
            partial(exact_least_squares, sums.products, sums.exponent, sums.scale, True),
            partial(np.linalg.lstsq, rows[:, 1:], rows[:, 0]),
        )
        what = f"exact solution, {width} columns of normal doubles"
        yield Row(what, solution, doubles, "numpy.linalg.lstsq of 1,000 rows")


PARTS = (exact_sums, exact_solutions)
