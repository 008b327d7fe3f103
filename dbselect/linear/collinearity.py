"""How far the columns of a model depend on each other, and what each alone has of the target.

With A = C^-1 of the columns, w the coefficients and RSS, TSS the sums of squares of the target
that are left and there, all from one Gram (R2_j is that of column j on the others)::

    VIF_j          = C_jj A_jj = 1 / (1 - R2_j)                   Marquardt (1970)
    partial_j      = w_j / sqrt(w_j^2 + A_jj RSS)
    semipartial_j  = w_j / sqrt(A_jj TSS)

The condition number is that of the rows themselves, the intercept's column among them, each
column scaled to length 1 and none centred (Belsley, Kuh, Welsch 1980, section 3.2). It is found
of a triangular root of the products, which has the digits that the products of a mean far
from 0 would lose.

Sources: Marquardt (1970), Technometrics 12; Belsley, Kuh, Welsch (1980), Regression
Diagnostics; Cohen, Cohen, West, Aiken (2003), Applied Multiple Regression, section 3.5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from dbselect.linear.elimination import RANK_ROUNDING
from dbselect.linear.inference import inverse_factor
from dbselect.linear.problem import RANK_SHARE
from dbselect.linear.refine import near_unit, residual_share
from dbselect.linear.whitening import whitening
from dbselect.record.gram import Gram, Matrix, Vector


@dataclass(frozen=True, eq=False)
class Partials:
    """What each of d columns has of the target; NaN where it has nothing of its own.

    The partial correlation is NaN, too, where the others leave nothing of the target but rounding.

    Parameters
    ----------
    correlation : shape (d,), of the column and the target
    partial : shape (d,), of both, less what the other columns explain of them
    semipartial : shape (d,), of the target and the column less what the others explain of it
    """

    correlation: Vector
    partial: Vector
    semipartial: Vector


@dataclass(frozen=True, eq=False)
class _Split:
    """Columns of which the first do not depend on each other.

    Parameters
    ----------
    order : shape (d,), the place of each column in the order asked for
    C, c : comoments of all, and with the target, in units near the deviations; those of the
        r independent columns first
    inverse : shape (r, r), L^-1 of the independent ones
    unit : shape (d,)
    """

    order: npt.NDArray[np.intp]
    C: Matrix
    c: Vector
    inverse: Matrix
    unit: Vector

    @property
    def own(self) -> Vector:
        """A_jj of the independent columns; shape (r,)."""
        return np.asarray((self.inverse**2).sum(axis=0))

    @property
    def alone(self) -> npt.NDArray[np.bool_]:
        """Whether an independent column has no part in those that depend; shape (r,)."""
        r = len(self.inverse)
        shares = self.inverse.T @ (self.inverse @ self.C[:r, r:])
        variance = np.diagonal(self.C)[r:]
        with np.errstate(divide="ignore", invalid="ignore"):  # a constant column has none
            part = shares**2 / self.own[:, None] / variance
        return np.asarray(~(part > RANK_SHARE).any(axis=1))


def _split(gram: Gram, target: str, columns: Sequence[str], aliased: Sequence[str]) -> _Split:
    kept = [j for j, name in enumerate(columns) if name not in aliased]
    order = [*kept, *(j for j, name in enumerate(columns) if name in aliased)]
    C, c, unit = near_unit(gram, target, [columns[j] for j in order])
    r = len(kept)
    return _Split(np.array(order, dtype=np.intp), C, c, inverse_factor(C[:r, :r]), unit)


def inflation(gram: Gram, target: str, columns: Sequence[str], aliased: Sequence[str]) -> Vector:
    """Return the variance inflation factor of each column; shape (d,).

    Infinite where others determine the column: of an exact dependence all that have a part in it.

    Parameters
    ----------
    gram : about the means, or the origin
    aliased : columns that depend on others of the columns

    Raises
    ------
    DataError : the columns are too nearly dependent
    """
    split = _split(gram, target, columns, aliased)
    r = len(split.inverse)
    found = np.full(len(columns), np.inf)
    factor = split.own * np.diagonal(split.C)[:r]
    # Rounding takes the factor of a column that is orthogonal to all others below 1.
    found[split.order[:r]] = np.where(split.alone, np.maximum(factor, 1.0), np.inf)
    return found


def partials(gram: Gram, target: str, columns: Sequence[str], aliased: Sequence[str]) -> Partials:
    """Return what each column has of the target, alone and given the others.

    Parameters
    ----------
    gram, aliased : as in `inflation`

    Raises
    ------
    DataError : the columns are too nearly dependent
    """
    split = _split(gram, target, columns, aliased)
    r, y = len(split.inverse), gram.position(target, "target")
    total = float(gram.comoment[y, y])
    w = split.inverse.T @ (split.inverse @ split.c[:r])
    named = [columns[j] for j in split.order[:r]]
    coefficients = dict(zip(named, (w * split.unit[:r]).tolist(), strict=True))
    left = residual_share(gram, target, coefficients) * total
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = split.c / np.sqrt(np.diagonal(split.C) * total)
        semipartial = w / np.sqrt(split.own * total)
        # What the others leave of the target, as a share; w in deviations of both.
        alone = semipartial**2 + left / total
        squares = 1.0 + w**2 @ np.diagonal(split.C)[:r] / total
        partial = np.where(alone > RANK_ROUNDING * squares, semipartial / np.sqrt(alone), np.nan)
    found = Partials(*(np.full(len(columns), np.nan) for _ in range(3)))
    found.correlation[split.order] = np.clip(correlation, -1.0, 1.0)
    found.partial[split.order[:r]] = np.where(split.alone, partial, np.nan)
    found.semipartial[split.order[:r]] = np.where(split.alone, semipartial, np.nan)
    return found


def scaled_condition(gram: Gram, target: str, columns: Sequence[str], *, intercept: bool) -> float:
    """Return the condition number of rows whose columns have length 1, none of which depends.

    Parameters
    ----------
    gram : about the means, or about the origin for a model without intercept

    Raises
    ------
    DataError : the columns are too nearly dependent
    """
    if not columns:
        return 1.0
    # With X = Q R and sum w u u' = I, R is what brings coefficients to those of u.
    back = whitening(gram, target, columns, intercept=intercept).back
    root = scipy.linalg.solve_triangular(back, np.eye(len(back)))
    lengths = scipy.linalg.svdvals(root / np.linalg.norm(root, axis=0))
    return float(lengths[0] / lengths[-1])
