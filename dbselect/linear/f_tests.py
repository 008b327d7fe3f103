"""F tests of nested least-squares models: whether what one has beyond the other is chance.

With residual sums of squares RSS0 > RSS1 and ranks r0 < r1, on n rows::

    F = (RSS0 - RSS1) / (r1 - r0) / (RSS1 / (n - r1))  ~  F(r1 - r0, n - r1)

Source: Seber, Lee (2003), Linear Regression Analysis, section 4.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.special import fdtrc

from dbselect.linear.information import Fits
from dbselect.record.gram import Vector


@dataclass(frozen=True, eq=False)
class Fitted:
    """M least-squares models of one target."""

    left: Vector  # shape (M,), RSS of each, in any unit
    rank: Vector  # shape (M,), coefficients of each that are not aliased, the intercept included


def f_table(rows: int, smaller: Fitted, larger: Fitted) -> pl.DataFrame:
    """Return the tests of M models against M that they contain.

    Columns df and df_residual; statistic and p_value, NULL where the larger model has no more rank,
    or no rows are left to judge it.
    """
    more = np.rint(larger.rank - smaller.rank)
    free = np.rint(rows - larger.rank)
    judged = (more > 0) & (free > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gained = np.maximum(smaller.left - larger.left, 0.0)
        statistic = np.where(judged, gained / more / (larger.left / free), np.nan)
        p_value = fdtrc(more, free, statistic)
    table = {"df": more, "df_residual": free, "statistic": statistic, "p_value": p_value}
    whole = pl.col("df", "df_residual").cast(pl.Int64)
    return pl.DataFrame(table).fill_nan(None).with_columns(whole)


def step_f_tests(fits: Fits, adds: Sequence[bool]) -> pl.DataFrame:
    """Return the test of what each step adds or removes; NULL at step 0.

    `fits` are of M + 1 models, each a step from the one before; `adds` of the M steps.
    """
    left, rank = np.minimum(fits.left, 1.0), fits.degrees
    step = np.arange(len(adds))
    smaller, larger = np.where(adds, step, step + 1), np.where(adds, step + 1, step)
    tests = f_table(
        fits.rows, Fitted(left[smaller], rank[smaller]), Fitted(left[larger], rank[larger])
    )
    return pl.concat([tests.clear(1), tests])
