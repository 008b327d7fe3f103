"""Explained variance of many small linear models side by side, group by group.

The objective of `linear.problem`, for B records of the same columns at once. Each
keeps the tableau of its normal equations, swept on the columns that it has selected::

    A = [ C_SS^-1     C_SS^-1 C_Sr ]        b = [ w(S)                ]
        [    .        C_rr|S       ]            [ c_r - C_rS w(S)     ]

To sweep another column p takes one rank-1 update, ``A_ij -= A_ip A_pj / A_pp``: gains
need the lower right block, and the coefficients of every prefix are there to be read. The
last axis numbers the records, so that one update is one operation on arrays, whatever
column each record takes: O(D^2) a column and record, O(D^3) for a full sequence; memory
is 24 D^2 bytes a record: G, A and what is subtracted. Without a factor no digit is lost:
up to a condition of 1e10 the coefficients are as near the truth as those of Cholesky.

Source: Goodnight (1979), A tutorial on the SWEEP operator, section 3.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dbselect.linear.problem import RANK_SHARE, Index, Linear, is_constant, scaled
from dbselect.record.gram import Matrix, Vector
from dbselect.record.stack import Stack

Masks = npt.NDArray[np.bool_]


def constant_targets(stack: Stack, target: str) -> Masks:
    """Whether the target of each record is constant; shape (B,)."""
    y = np.array(stack.position(target, "target"))
    # A record without rows has no deviation.
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = np.sqrt(stack.entries(y, y) / stack.weight)
    return is_constant(deviation, stack.mean[y])


def linear_problems(
    stack: Stack, target: str, columns: Sequence[str], ridge: float = 0.0, scale: bool = True
) -> Linear:
    """Set up the problem of explaining a target by some columns, for each record.

    Parameters
    ----------
    stack : Stack of records that have rows and whose target is not constant
    target, columns, ridge, scale : as in `linear.problem.linear`

    Returns
    -------
    Linear whose arrays have one more axis, the last, of length B
    """
    at = np.array([stack.columns.index(name) for name in columns])
    y = stack.position(target, "target")
    return scaled(
        stack.entries(at[:, None], at),
        stack.entries(at, np.array(y)),
        stack.entries(np.array(y), np.array(y)),
        stack.mean[at],
        stack.mean[y],
        stack.weight,
        ridge,
        scale,
    )


class States:
    """What each of B records has selected, and what every group would add.

    Parameters
    ----------
    problem : Linear of B problems
    members : the columns of each of the J groups

    Attributes
    ----------
    b : shape (D, B), the gradient; for selected columns, w(S)
    kept : shape (D, B), whether a column is selected and not aliased
    """

    def __init__(self, problem: Linear, members: Sequence[Index]) -> None:
        self.problem = problem
        self.members = members
        self.b = problem.c.copy()
        self.kept = np.zeros(problem.c.shape, dtype=bool)
        self._A = problem.G.copy()
        diagonal = np.arange(len(self.b))
        self._A[diagonal, diagonal] += problem.ridge
        self._variance = self._A[diagonal, diagonal]
        # A constant column is aliased whatever the ridge.
        self._floor = np.where(problem.constant, np.inf, RANK_SHARE * self._variance)
        sizes = [len(columns) for columns in members]
        self._table = np.full((len(members), max(sizes)), -1)
        for row, columns in zip(self._table, members, strict=True):
            row[: len(columns)] = columns

    def gains(self, columns: Index) -> Matrix:
        """Return gain(g | S) of n groups of s columns, without meaning for selected ones.

        Parameters
        ----------
        columns : shape (n, s)

        Returns
        -------
        shape (n, B)
        """
        blocks = self._A[columns[:, :, None], columns[:, None, :]]
        b, floor = self.b[columns], self._floor[columns]
        gains = np.zeros((len(columns), b.shape[-1]))
        for j in range(columns.shape[1]):
            inverse = _inverse(blocks[:, j, j], floor[:, j])
            share = b[:, j] * inverse
            gains += b[:, j] * share
            below = blocks[:, j + 1 :, j]
            b[:, j + 1 :] -= below * share[:, None]
            blocks[:, j + 1 :, j + 1 :] -= below[:, :, None] * (below * inverse[:, None])[:, None]
        return gains

    def add(self, groups: Index, which: Masks) -> Vector:
        """Select one group in each record and return the gains.

        Parameters
        ----------
        groups : shape (B,), number of the group
        which : shape (B,), the records that select; the others stay as they are

        Returns
        -------
        shape (B,)
        """
        gains = np.zeros(len(groups))
        for column in self._table[groups].T:
            gains += self._sweep(np.maximum(column, 0), which & (column >= 0))
        return gains

    def _sweep(self, column: Index, which: Masks) -> Vector:
        """Select one column in each record, unless it is aliased; return the gains."""
        at = column[None]
        row = np.take_along_axis(self._A, at[None], axis=0)[0]
        below = np.take_along_axis(self._A, at[None], axis=1)[:, 0]
        pivot, b = _entry(row, at), _entry(self.b, at)
        inverse = _inverse(pivot, np.where(which, _entry(self._floor, at), np.inf))
        swept = inverse > 0
        share, step = row * inverse, b * inverse
        self.b -= below * step
        self._A -= below[:, None] * share[None]
        # What is not swept must not change by a bit.
        np.put_along_axis(self._A, at[None], np.where(swept, share, row)[None], axis=0)
        below = np.where(swept, -below * inverse, below)
        np.put_along_axis(below, at, np.where(swept, inverse, pivot)[None], axis=0)
        np.put_along_axis(self._A, at[:, None], below[:, None], axis=1)
        np.put_along_axis(self.b, at, np.where(swept, step, b)[None], axis=0)
        np.put_along_axis(self.kept, at, (swept | _entry(self.kept, at))[None], axis=0)
        return np.asarray(b * step)

    def coef(self) -> Matrix:
        """Return w(S), shape (D, B), on unit-variance columns."""
        return np.where(self.kept, self.b, 0.0)

    def condition(self) -> Vector:
        """Bound the condition number of C_SS from above by tr(C_SS) tr(C_SS^-1); shape (B,)."""
        diagonal = np.arange(len(self.b))
        inverse = self._A[diagonal, diagonal]
        sums = [np.where(self.kept, part, 0.0).sum(axis=0) for part in (self._variance, inverse)]
        return np.asarray(sums[0] * sums[1])


def _inverse(pivot: Matrix, floor: Matrix) -> Matrix:
    """Return one over each pivot, 0 where it is at or below the floor."""
    keep = pivot > floor
    return np.asarray(np.divide(1.0, pivot, out=np.zeros_like(pivot), where=keep))


def _entry(values: npt.NDArray[Any], at: Index) -> npt.NDArray[Any]:
    """Return the entry of each record in its own row."""
    return np.asarray(np.take_along_axis(values, at, axis=0)[0])
