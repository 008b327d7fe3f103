"""Bases: columns by which a linear model fits a curve in one number.

Polynomials are Legendre's on [-1, 1], which are orthogonal where the number is
spread evenly and far better conditioned than powers elsewhere. Splines are
cubic B-splines of SciPy, laid out as in scikit-learn's ``SplineTransformer``
(``knots="quantile", include_bias=False``) and constant beyond the outer knots.

References
----------
Abramowitz and Stegun (1964), section 22.
Eilers and Marx (1996), "Flexible smoothing with B-splines and penalties", section 2.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from numpy.polynomial.legendre import legvander

from dbselect.record.columns import SUFFIX

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

#: Degree of the splines' pieces.
CUBIC = 3


@dataclass(frozen=True)
class Poly:
    """Legendre polynomials P_1, ..., P_degree of (x - center) / scale."""

    column: str  # a number field
    degree: int  # >= 1
    # center, scale: midpoint and half of the range of the values read
    center: float
    scale: float

    @property
    def names(self) -> list[str]:
        """The columns: ``age.poly1``, ``age.poly2``, ..."""
        return [f"{self.column}.poly{k + 1}" for k in range(self.degree)]

    def values(self, x: Vector) -> Matrix:
        """Return the columns, shape (n, degree); NaN where x is."""
        return np.asarray(legvander((x - self.center) / self.scale, self.degree)[:, 1:])


@dataclass(frozen=True)
class Spline:
    """Cubic B-splines without the last, which is redundant with an intercept."""

    column: str  # a number field
    knots: tuple[float, ...]  # at least two, ascending

    @property
    def names(self) -> list[str]:
        """The columns: ``age.spline1``, ``age.spline2``, ..."""
        return [f"{self.column}.spline{k + 1}" for k in range(len(self.knots) + CUBIC - 2)]

    def values(self, x: Vector) -> Matrix:
        """Return the columns, shape (n, len(knots) + 1); NaN where x is."""
        first, last = self.knots[0], self.knots[-1]
        missing = np.isnan(x)
        inside = np.clip(np.where(missing, first, x), first, last)
        from scipy.interpolate import BSpline  # imported here because it is slow

        columns = BSpline.design_matrix(inside, self.extended(), CUBIC).toarray()[:, :-1]
        columns[missing] = np.nan
        return np.asarray(columns)

    def extended(self) -> Vector:
        """Add knots beyond the outer ones, as far apart as the nearest two."""
        knots = np.array(self.knots)
        steps = np.arange(1, CUBIC + 1)
        before = knots[0] - steps[::-1] * (knots[1] - knots[0])
        after = knots[-1] + steps * (knots[-1] - knots[-2])
        return np.concatenate([before, knots, after])


@dataclass(frozen=True)
class Log:
    """The natural logarithm of a number above 0, for an exposure."""

    column: str  # a number field

    @property
    def names(self) -> list[str]:
        """The column: ``hours.log``."""
        return [f"{self.column}.log"]

    def values(self, x: Vector) -> Matrix:
        """Return the column, shape (n, 1); NaN where x is missing or not above 0."""
        return np.log(np.where(x > 0, x, np.nan))[:, None]


Basis = Poly | Spline | Log


def numbers(values: pl.Series) -> npt.NDArray[np.float64]:
    """Convert numbers of any type to doubles, NaN for NULL."""
    return values.cast(pl.Float64).to_numpy()


def infinite(column: str) -> str:
    """Return the message for an infinite value of a column."""
    return f"column '{column}' has an infinite value; values must be finite"


def expressions(basis: Basis, marked: bool = False) -> list[pl.Expr]:
    """Return the columns of a basis, NULL for NULL; if `marked`, 0 and an indicator."""

    def column(j: int) -> pl.Expr:
        def values(x: pl.Series) -> pl.Series:
            return pl.Series(x.name, basis.values(numbers(x))[:, j], nan_to_null=True)

        expr = pl.col(basis.column).map_batches(
            values, return_dtype=pl.Float64, is_elementwise=True
        )
        return expr.alias(basis.names[j])

    columns = [column(j) for j in range(len(basis.names))]
    if not marked:
        return columns
    missing = columns[0].is_null().cast(pl.Float64).alias(basis.names[0] + SUFFIX)
    return [*(expr.fill_null(0.0) for expr in columns), missing]
