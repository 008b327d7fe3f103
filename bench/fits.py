"""The exact mode of `dbselect.fit` beside the Gram that it does without."""

from collections.abc import Iterator

import numpy as np
import polars as pl
from measure import Row, seconds
from tables import columns

import dbselect as ds
from dbselect.linear.exact import least_squares
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
            yield (
                f"exact sums, {rows:,} rows x {width} {kind}",
                f"{sums:.2f} s, {sums / gram:.0f}x of gram",
                "",
            )


def exact_solutions() -> Iterator[Row]:
    """Solve in whole numbers, from sums of normal doubles."""
    rng = np.random.default_rng(0)
    for width in (10, 20, 50):
        frame = pl.DataFrame(rng.standard_normal((1000, width + 1)), schema=columns(width + 1))
        sums = exact.exact_sums(frame, frame.columns[0])
        (solution,) = seconds(
            lambda sums=sums: least_squares(sums.products, sums.exponent, sums.scale, True),
            repeats=1,
        )
        yield (f"exact solution, {width} columns of normal doubles", f"{solution:.3f} s", "")
