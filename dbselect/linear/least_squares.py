"""Least squares on columns of a Gram, by the compiled library.

Coefficients are refined iteratively; columns that depend on earlier ones get 0. `dbselect.fit`,
`fit_by` and SQL's ``fit`` share this code and agree to the last bit.

Source: Higham (2002), Accuracy and Stability of Numerical Algorithms, section 12.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dbselect import _native
from dbselect.record.columns import INTERCEPT
from dbselect.record.gram import Gram, Matrix, Vector


@dataclass(frozen=True)
class Trace:
    """A column that depends on others except for a small share of its variance."""

    column: int
    share: float
    gain: float  # share of the target's variance that this part may explain


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """A model of D columns; the fields from `rss` on are for ridge 0."""

    columns: tuple[str, ...]
    has_intercept: bool
    intercept: float  # 0 through the origin
    coef: Vector  # shape (D,), in the table's units; 0 where a column is aliased
    is_aliased: npt.NDArray[np.bool_]  # shape (D,)
    explained: float  # share of the target's variance that the penalised objective explains
    r2: float  # 1 - RSS / TSS
    condition: float  # condition number of the correlations of kept columns
    trace: Trace | None  # the aliased column that may explain most, if any
    rss: float
    free: int  # rows minus rank; may be <= 0
    errors: Vector  # standard error of each of `terms`; NaN if free <= 0
    units: Vector  # shape (D,), factor from coefficients to standardised ones
    inverse_factor: Matrix  # L^-1, L L' = comoment of kept columns; empty without has_factor

    @property
    def coefficients(self) -> dict[str, float]:
        """Column -> coefficient."""
        return dict(zip(self.columns, self.coef.tolist(), strict=True))

    @property
    def kept(self) -> list[str]:
        """The columns that are not aliased."""
        return [name for name, out in zip(self.columns, self.is_aliased, strict=True) if not out]

    @property
    def terms(self) -> list[str]:
        """The intercept, if there is one, and the columns that are not aliased."""
        return [INTERCEPT, *self.kept] if self.has_intercept else self.kept

    @property
    def variance(self) -> float:
        """Residual variance, RSS / (rows - rank); NaN if rows <= rank."""
        return self.rss / self.free if self.free > 0 else math.nan


def least_squares(
    gram: Gram,
    target: str,
    columns: Sequence[str],
    *,
    ridge: float = 0.0,
    scale: bool = True,
    intercept: bool = True,
    has_factor: bool = False,
) -> LeastSquares:
    """Fit columns, in this order; O(D^3). RecordError for comoments that no rows can have.

    The Gram must have rows and a target that varies. `has_factor`: return `inverse_factor`.
    """
    moments = _moments(gram, target, columns)
    if not columns:
        # The library needs at least one column; a column of 0 has no effect.
        parts = (
            np.pad(part, (1, 0)) for part in (moments.mean, moments.mean_low, moments.comoment)
        )
        moments = _native.Moments(gram.rows, gram.weight, *parts)
    fit = moments.least_squares(ridge, scale, intercept, has_factor)
    width = len(columns)
    is_aliased = fit["is_aliased"][:width] > 0
    rank = width - int(is_aliased.sum())
    size = rank if has_factor else 0
    column, *shares = fit["trace"].tolist() or [None]
    return LeastSquares(
        columns=tuple(columns),
        has_intercept=intercept,
        intercept=float(fit["intercept"][0]),
        coef=fit["coef"][:width],
        is_aliased=is_aliased,
        explained=float(fit["explained"][0]),
        r2=float(fit["r2"][0]),
        condition=float(fit["condition"][0]),
        trace=None if column is None else Trace(int(column), *shares),
        rss=float(fit["left"][0]),
        free=gram.rows - rank - intercept,
        errors=fit["errors"],
        units=fit["units"][:width],
        inverse_factor=fit["inverse_factor"].reshape(size, size),
    )


def refined(gram: Gram, target: str, columns: Sequence[str], coef: Matrix) -> Matrix:
    """Refine coefficients at ridge 0 to full precision; shape (M, D).

    They are for columns and target of unit variance. Model i has the columns up to its last nonzero
    coefficient, all independent. O(D^3) in total and O(D^2) per model.
    """
    coef = np.ascontiguousarray(coef, np.float64).copy()
    ranks = (np.arange(1, len(columns) + 1) * (coef != 0)).max(axis=1, initial=0)
    _moments(gram, target, columns).refine(ranks, coef)
    return coef


def _moments(gram: Gram, target: str, columns: Sequence[str]) -> _native.Moments:
    numbers = {name: number for number, name in enumerate(gram.columns)}
    at = [numbers[name] for name in (*columns, target)]
    comoment = gram.comoment[np.ix_(at, at)]
    return _native.Moments(gram.rows, gram.weight, gram.mean[at], gram.mean_low[at], comoment)
