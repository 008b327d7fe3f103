"""Tests of nested models: whether what one has beyond the other is chance.

With residual sums of squares RSS0 > RSS1 and ranks r0 < r1, on n rows::

    F = (RSS0 - RSS1) / (r1 - r0) / (RSS1 / (n - r1))  ~  F(r1 - r0, n - r1)

or, asymptotically, of any likelihoods ``2 (L1 - L0) ~ chi2(r1 - r0)``; of normal errors that is
n log(RSS0 / RSS1).

Sources: Seber, Lee (2003), Linear Regression Analysis, section 4.3; Wilks (1938), Annals of
Mathematical Statistics 9.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.special import chdtrc, fdtrc

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


def lr_table(degrees: Vector, statistic: Vector) -> pl.DataFrame:
    """Return likelihood-ratio tests; NULL where the larger model has no more parameters."""
    more = np.rint(degrees)
    found = np.where(more > 0, np.maximum(statistic, 0.0), np.nan)
    table = {"df": more, "statistic": found, "p_value": chdtrc(more, found)}
    return pl.DataFrame(table).fill_nan(None).with_columns(pl.col("df").cast(pl.Int64))


def step_tests(fits: Fits, steps: pl.DataFrame, kind: Literal["f", "lr"]) -> pl.DataFrame:
    """Return the test of what each of M steps adds or removes, by fits of M + 1 models."""
    left, rank = np.minimum(fits.left, 1.0), fits.degrees
    smaller, larger = sides(steps)
    if kind == "f":
        tests = f_table(
            fits.rows, Fitted(left[smaller], rank[smaller]), Fitted(left[larger], rank[larger])
        )
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = fits.rows * np.log(left[smaller] / left[larger])
        tests = lr_table(rank[larger] - rank[smaller], statistic)
    return tests_beside(steps, tests)


def sides(steps: pl.DataFrame) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return which model of each step is the smaller, and which the larger."""
    adds, step = (steps["action"][1:] == "add").to_numpy(), np.arange(steps.height - 1)
    return np.where(adds, step, step + 1), np.where(adds, step + 1, step)


def tests_beside(steps: pl.DataFrame, tests: pl.DataFrame) -> pl.DataFrame:
    """Return steps with their tests, of which the first has none."""
    own = steps.select("step", "action", "group")
    return pl.concat([own, pl.concat([tests.clear(1), tests])], how="horizontal")
