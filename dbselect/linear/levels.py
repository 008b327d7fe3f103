"""A group of very many levels of a category: indicator columns, at most one of them 1 in a row.

Its block of correlations is never formed. With p the share of the weight of each level, s its
standard deviation and r its ridge, columns of unit variance have

    C_hh = diag(d) - v v'      d = p / s^2 + r      v = p / s

so that ``C_hh^-1 = diag(1 / d) + t t' / g`` with ``t = v / d`` and ``g = 1 - v't``, by Sherman and
Morrison: g is the share of rows without a level, plus a part from the ridge. The variance of
another column that the levels explain is a sum over its sums by level; the rest is its variance
within levels (`WithinLevels`).

Memory: the products of the levels with all other columns, sparse for entries.

Source: Sherman, Morrison (1950), Annals of Mathematical Statistics 21; the same as the within
transformation of fixed effects (Wooldridge 2010, section 10.5).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from dbselect.linear.problem import Index, Linear
from dbselect.linear.state import RANK_SHARE
from dbselect.record.gram import Matrix, Vector

#: Share of weight without a level that counts as 0: shares then add up to 1 up to rounding, and
#: the last level depends on the others.
COMPLETE = 1e-12
#: Doubles in a dense part of the products of levels: 32 MB.
DENSE_VALUES = 1 << 22


@dataclass(frozen=True, eq=False)
class ByLevel:
    """Products of L levels with the D columns of a problem, centered at their means."""

    dense: Matrix  # shape (L, n), sums by level of columns centered at their means
    place: Index  # shape (n,), the numbers of these columns
    # CSC matrix, shape (L, m), sums of the columns from number `first` on, not centered; None if
    # there are none
    listed: Any
    first: int  # the first column of `listed`
    weight: Vector  # shape (L,), weight of the rows of each level
    mean: Vector  # shape (D,)
    scale: Vector  # shape (D,), factor from sums to correlations, 0 for constant columns
    # shape (L,), the columns of the levels; their products with each other count as 0
    levels: Index

    @cached_property
    def _at(self) -> Index:
        """The position of each column in `dense`, -1 for the others; shape (D,)."""
        at = np.full(len(self.scale), -1, dtype=np.intp)
        at[self.place] = np.arange(len(self.place))
        return at

    def sums(self, columns: Index) -> Matrix:
        """Return the sums by level of columns, centered at their means; shape (L, k)."""
        sums = np.zeros((len(self.levels), len(columns)))
        at = self._at[columns]
        sums[:, at >= 0] = self.dense[:, at[at >= 0]]
        sparse = columns[at < 0]
        if self.listed is not None and len(sparse):
            values = self.listed[:, sparse - self.first].toarray()
            sums[:, at < 0] = values - np.outer(self.weight, self.mean[sparse])
        return sums

    def of(self, columns: Index) -> Matrix:
        """Return the correlations of the levels with columns; shape (L, k)."""
        correlations = self.sums(columns)
        correlations *= self.scale[columns]
        correlations *= self.scale[self.levels][:, None]
        return correlations

    def products(self, weights: Matrix) -> Matrix:
        """Return the correlations (k, D) of combinations of levels (L, k); 0 at the levels."""
        weights = weights * self.scale[self.levels][:, None]
        products = np.zeros((weights.shape[1], len(self.scale)))
        products[:, self.place] = weights.T @ self.dense
        if self.listed is not None:
            rest = slice(self.first, None)
            products[:, rest] = (self.listed.T @ weights).T
            products[:, rest] -= np.outer(self.weight @ weights, self.mean[rest])
        products *= self.scale
        products[:, self.levels] = 0.0
        return products

    def squares(self, weights: Vector) -> Vector:
        """Return the weighted sum over levels of the squared correlations; shape (D,)."""
        weights = weights * self.scale[self.levels] ** 2
        squares = np.zeros(len(self.scale))
        squares[self.place] = np.einsum("l,lj,lj->j", weights, self.dense, self.dense)
        if self.listed is not None:
            mean, heavy = self.mean[self.first :], weights * self.weight
            squares[self.first :] = np.maximum(
                self.listed.power(2).T @ weights
                - 2.0 * mean * (self.listed.T @ heavy)
                + mean**2 * (heavy @ self.weight),
                0.0,
            )
        squares *= self.scale**2
        squares[self.levels] = 0.0
        return squares


@dataclass(frozen=True, eq=False)
class LevelBlock:
    """The block C_hh of a group of levels, and its inverse."""

    columns: Index  # shape (L,)
    kept: Any  # shape (L,), whether a level is not aliased
    over: Vector  # shape (L,), 1 / d, 0 for aliased levels
    tilt: Vector  # shape (L,), t
    gap: float  # g

    @classmethod
    def of(
        cls, problem: Linear, columns: Index, without: Sequence[int] = (), *, ridge: bool = True
    ) -> "LevelBlock":
        """Return the block of the levels in `columns`; those in `without` are aliased.

        If every row has a level, the last one is aliased unless there is a ridge.
        """
        share, spread = problem.mean[columns], problem.spread[columns]
        penalty = problem.ridge[columns] if ridge else np.zeros(len(columns))
        kept = ~problem.constant[columns]
        kept[list(without)] = False
        rest = 1.0 - share[kept].sum()
        if rest <= COMPLETE and kept.any() and not penalty.any():
            last = np.flatnonzero(kept)[-1]
            kept[last], rest = False, share[last]
        diagonal = np.where(kept, share / spread**2 + penalty, 1.0)
        over = np.where(kept, 1.0 / diagonal, 0.0)
        gap = float(max(rest, 0.0) + (share * penalty * over).sum())
        return cls(columns, kept, over, over * share / spread, gap)

    def solve(self, right: Any) -> Any:
        """Solve C_hh x = right; shape (L,) or (L, k)."""
        along = self.tilt @ right / self.gap
        over = self.over if right.ndim == 1 else self.over[:, None]
        return over * right + (self.tilt * along if right.ndim == 1 else np.outer(self.tilt, along))

    @property
    def inverse_diagonal(self) -> Vector:
        """The diagonal of C_hh^-1; shape (L,)."""
        return self.over + self.tilt**2 / self.gap


@dataclass(frozen=True)
class WithinLevels(Linear):
    """The problem of all other columns within levels, in units of the whole problem."""

    whole: Any = None
    held: Any = None
    beside: Any = None  # products of the levels with all columns
    remaining: Any = None  # shape (D,), variances within levels, without the ridge
    lost: Any = None  # columns constant within levels up to rounding
    unclipped: Any = None  # `remaining` and squared gradients before `lost` is 0, shape (D,) each

    @classmethod
    def of(cls, whole: Linear, held: LevelBlock, beside: ByLevel) -> "WithinLevels":
        """Remove the part of all columns and the target that the levels explain."""
        of_whole = {field.name: getattr(whole, field.name) for field in fields(Linear)}
        c, constant = whole.c.copy(), whole.constant.copy()
        c -= beside.products(held.solve(c[held.columns])[:, None])[0]
        along = beside.products(held.tilt[:, None])[0]
        remaining = whole.variances - beside.squares(held.over) - along**2 / held.gap
        unclipped = remaining.copy(), c**2
        is_lost = (remaining <= RANK_SHARE * whole.variances) & ~constant
        is_lost[held.columns] = False
        constant |= is_lost
        constant[held.columns] = True
        remaining[constant] = c[constant] = 0.0
        return cls(
            **{**of_whole, "G": np.empty((0, 0)), "c": c, "constant": constant},
            whole=whole, held=held, beside=beside, remaining=remaining,
            lost=np.flatnonzero(is_lost), unclipped=unclipped,
        )  # fmt: skip

    @property
    def explained(self) -> float:
        """F of the levels alone."""
        c = self.whole.c[self.held.columns]
        return float(c @ self.held.solve(c))

    @property
    def variances(self) -> Vector:
        """The diagonal of G; shape (D,)."""
        return np.asarray(self.remaining)

    @property
    def scale(self) -> Vector:
        """Variances of the whole problem, from which rounding errors come."""
        return np.asarray(self.whole.variances + self.whole.ridge)

    def rows(self, columns: Index) -> Matrix:
        """Return the rows of G of columns other than levels; shape (k, D)."""
        rows = self.whole.rows(columns)
        rows -= self.beside.products(self.held.solve(self.beside.of(columns)))
        rows[:, self.constant] = 0.0
        rows[self.constant[columns]] = 0.0
        rows[np.arange(len(columns)), columns] = self.remaining[columns]
        return np.asarray(rows)

    def block(self, columns: Index) -> Matrix:
        """Return the block of G of columns other than levels; shape (k, k)."""
        between = self.beside.of(columns)
        block = self.whole.block(columns) - between.T @ self.held.solve(between)
        constant = self.constant[columns]
        block[constant], block[:, constant] = 0.0, 0.0
        block[np.diag_indices_from(block)] = self.remaining[columns]
        return np.asarray(block)

    def blocks(self, columns: Index) -> Matrix:
        """Return the diagonal blocks of G of B whole groups of s columns; shape (B, s, s)."""
        count, size = columns.shape
        blocks = self.whole.blocks(columns)
        step = max(1, DENSE_VALUES // (len(self.held.columns) * size))
        for start in range(0, count if size > 1 else 0, step):
            part = slice(start, start + step)
            between = self.beside.of(columns[part].ravel())
            solved = self.held.solve(between)
            shape = (len(between), -1, size)
            blocks[part] -= np.einsum(
                "lbi,lbj->bij", between.reshape(shape), solved.reshape(shape), optimize=True
            )
        constant, diagonal = self.constant[columns], np.arange(size)
        blocks[constant[:, :, None] | constant[:, None, :]] = 0.0
        blocks[:, diagonal, diagonal] = self.remaining[columns]
        return np.asarray(blocks)
