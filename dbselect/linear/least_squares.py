"""Least squares on some columns of a Gram, by the compiled library.

Coefficients are refined, and 0 for columns that depend on columns before them. `dbselect.fit`,
`fit_by` and SQL's ``fit`` are this one computation, to the last bit.

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
    """A column that depends on others but for a share of its variance."""

    column: int
    share: float
    gain: float  # what that share may explain of the target's variance


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """A model of D columns; from `left` on what is known of a model without ridge."""

    columns: tuple[str, ...]
    has_intercept: bool
    intercept: float  # 0 through the origin
    coef: Vector  # shape (D,), in the table's units; 0 where a column is aliased
    is_aliased: npt.NDArray[np.bool_]  # shape (D,)
    explained: float  # share of the target's variance that the penalised objective explains
    r2: float  # 1 - RSS / TSS
    condition: float  # of the correlations of the columns that are not aliased
    trace: Trace | None  # of the aliased column that may explain much by it, if there is one
    left: float  # RSS
    free: int  # rows less rank; may be <= 0
    errors: Vector  # standard error of each of `terms`; NaN where no rows are left
    units: Vector  # shape (D,), a coefficient of 1 in deviations of target and column
    inverse_factor: Matrix  # L^-1, L L' the comoments of columns not aliased; empty unless asked

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
        """That of the residuals, RSS / (rows - rank); NaN where no rows are left."""
        return self.left / self.free if self.free > 0 else math.nan


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
    """Fit some columns, in this order; O(D^3). RecordError for comoments that no rows can have.

    The record has rows, and its target varies. `has_factor`: the answer has `inverse_factor`.
    """
    moments = _moments(gram, target, columns)
    if not columns:
        # The library fits one column at least; one that is 0 takes no part.
        parts = (
            np.pad(part, (1, 0)) for part in (moments.mean, moments.mean_low, moments.comoment)
        )
        moments = _native.Moments(gram.rows, gram.weight, *parts)
    found = moments.least_squares(ridge, scale, intercept, has_factor)
    width = len(columns)
    is_aliased = found["is_aliased"][:width] > 0
    rank = width - int(is_aliased.sum())
    size = rank if has_factor else 0
    column, *shares = found["trace"].tolist() or [None]
    return LeastSquares(
        columns=tuple(columns),
        has_intercept=intercept,
        intercept=float(found["intercept"][0]),
        coef=found["coef"][:width],
        is_aliased=is_aliased,
        explained=float(found["explained"][0]),
        r2=float(found["r2"][0]),
        condition=float(found["condition"][0]),
        trace=None if column is None else Trace(int(column), *shares),
        left=float(found["left"][0]),
        free=gram.rows - rank - intercept,
        errors=found["errors"],
        units=found["units"][:width],
        inverse_factor=found["inverse_factor"].reshape(size, size),
    )


def refined(gram: Gram, target: str, columns: Sequence[str], coef: Matrix) -> Matrix:
    """Return coefficients at ridge 0 with the digits that a solver lost; shape (M, D).

    They are on columns and target of unit variance. Model i has columns up to its last coefficient;
    none depends on others. O(D^3), and O(D^2) a model.
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
