"""What is selected of a linear model, and what every other group would add.

The state keeps ``U = L^-1 C_S.`` and ``z = L^-1 c_S`` with ``L L' = C_SS``, one row for each
selected column. Then ``b = c - U'z``, the conditional covariance of a group is ``C_gg - U_g' U_g``
and ``F(S) = z'z``, so a new group costs one product with U, O(D |S| |g|), and a full sequence
O(D^3), for every rule, where the source solves anew for every candidate. Memory is the Gram matrix
and U, 16 D^2 bytes, and more than as much for the coefficients.

Rank: a column is aliased, takes no part and gets coefficient 0, when what is left of its variance
is below ``RANK_SHARE`` of it, or rounding (`elimination`).

A removal rotates the rows of a group to the end, and adds what they explain to what is left: O(D
|S| |g|), as stable as the factorisation. A group with an aliased column that depended on it is
taken out as well and added anew. Where groups share columns a removal makes the state anew, as does
every loss: a held column keeps nothing of its variance, whatever the ridge.

Source: Hu, Grubb, Bagnell, Hebert (2016), eq. 1 and section 3.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, lapack

from dbselect.linear.elimination import (
    RANK_ROUNDING,
    Rotation,
    certainly_factored,
    eliminate,
    factored,
)
from dbselect.linear.levels.levels import LevelBlock
from dbselect.linear.problem import RANK_SHARE, Index, Linear, blocks_of, by_size
from dbselect.record.gram import Matrix, Vector

#: Share of its own variance below which what is left of a column may be rounding: above,
#: w'w would exceed 1e10, so that the columns before it are nearly dependent themselves.
DOUBTFUL_SHARE = 1e-4
#: Weight in an aliased column below which a column that goes leaves the other aliased: its
#: square stays below RANK_SHARE even where a hundred of them add up.
DEPENDENT_WEIGHT = 1e-7
#: By how much the parts of a state may miss what they add up to before it is made anew: a
#: removal adds some 1e-16, and RANK_SHARE needs two digits of what is left.
DRIFT = 1e-14


@dataclass
class _Bucket:
    """The unselected groups of one size, so that they are computed as one array."""

    groups: Index  # (B,) group numbers, increasing
    columns: Index  # (B, s)
    blocks: Matrix  # (B, s, s), conditional covariance


@dataclass(frozen=True)
class HeldGroup:
    """A selected group: its columns with a row in U, and aliased ones; shared ones are others'."""

    group: int
    kept: list[int]
    aliased: list[int]


class State:
    """The selected groups and what every other would add; `b`, (K, D), is the gradient."""

    def __init__(self, problem: Linear, members: Sequence[Index]) -> None:
        self.problem = problem
        self.members = members
        self._shares = shares_columns(members)
        # A constant column is aliased whatever the ridge.
        self._variance = problem.variances + problem.ridge
        self._floor = np.where(problem.constant, np.inf, RANK_SHARE * self._variance)
        self._clear()

    def _clear(self) -> None:
        """Select no group."""
        self.b = np.atleast_2d(self.problem.c).copy()
        self._held: list[HeldGroup] = []
        self._U = np.empty((0, self.b.shape[1]))
        self._z = np.empty((len(self.b), 0))
        self._inverse: Matrix | None = None
        self._losses: Vector | None = None
        self._buckets = [
            _Bucket(groups, columns, blocks_of(self.problem, columns))
            for groups, columns in self.blocked
        ]

    @property
    def blocked(self) -> Iterator[tuple[Index, Index]]:
        """The groups whose own block is made, those of each size together (`by_size`)."""
        return by_size(self.members)

    @property
    def apart(self) -> Sequence[tuple[int, LevelBlock]]:
        """The groups whose own block is not made, each with what replaces it."""
        return []

    @property
    def size(self) -> int:
        """J, the number of groups."""
        return len(self.members)

    @property
    def held(self) -> list[int]:
        """The selected groups."""
        return [held.group for held in self._held]

    @property
    def support(self) -> list[int]:
        """The columns of the selected groups that are not aliased, one for each row of U."""
        return [column for held in self._held for column in held.kept]

    @property
    def aliased(self) -> list[int]:
        """The columns of the selected groups that depend on columns before them."""
        return self._idle

    @property
    def _idle(self) -> list[int]:
        """Those that `HeldGroup` names."""
        return [column for held in self._held for column in held.aliased]

    @property
    def variance(self) -> Vector:
        """The diagonal of C; shape (D,)."""
        return self._variance

    @property
    def factor(self) -> Matrix:
        """U, a row for each column of `support`; shape (|S|, D)."""
        return self._U

    @property
    def explained(self) -> float:
        """F of the selected groups, as a share of the target's variance."""
        return min(_squared(self._z), 1.0)  # the sum may round to more

    @property
    def value(self) -> float:
        """What every search maximises: `explained`."""
        return self.explained

    def gains(self) -> Vector:
        """Return gain(g | S) of each of the J groups; 0 for the selected ones."""
        gains = np.zeros(len(self.members))
        for bucket in self._buckets:
            gains[bucket.groups] = _gains(
                bucket.blocks, self.b[:, bucket.columns], self._floor[bucket.columns]
            )
        return gains

    def conditional(self, columns: Index) -> Matrix:
        """Return the covariance of some columns given the selected ones; shape (k, k)."""
        C = self.problem.block(columns)
        C[np.diag_indices_from(C)] += self.problem.ridge[columns]
        if len(self._U):
            U = self._U[:, columns]
            C = blas.dgemm(-1.0, U.T, U, 1.0, C.T, overwrite_c=1).T
        return C

    def add(self, group: int) -> float:
        """Select a group and return its gain."""
        return self.add_all([group])

    def add_all(self, groups: Sequence[int]) -> float:
        """Select several groups at once and return what they gain together."""
        entering = self._entering(groups)
        columns = np.concatenate([np.empty(0, np.intp), *entering])
        if not len(columns):
            self._hold(groups, entering, np.zeros(0, dtype=bool))
            self._losses = None
            return 0.0
        C = self.problem.rows(columns)
        C[np.arange(len(columns)), columns] += self.problem.ridge[columns]
        # One BLAS for every product: the pools of NumPy's and SciPy's would spin
        # against each other. Transposed views are in Fortran order: nothing is copied.
        if len(self._U):
            C = blas.dgemm(-1.0, self._U.T, self._U[:, columns], 1.0, C.T, overwrite_c=1).T
        factor, kept = self._independent(C[:, columns], columns)
        self._hold(groups, entering, kept)
        self._losses = None
        if not kept.any():
            return 0.0
        # L U = C_g., from the right.
        U = blas.dtrsm(1.0, factor.T, C[kept].T, side=1, overwrite_b=1).T
        # Response by response: one alone is the same to the last bit.
        z = np.array([blas.dtrsv(factor.T, b, trans=1) for b in self.b[:, columns[kept]]])
        if self._inverse is not None:
            self._inverse = _extended(self._inverse, self._U[:, columns[kept]], factor.T)
        self._U = _append(self._U, U, len(self._U) + len(U))
        self._z = np.concatenate([self._z, z], axis=1)
        self._descend(U, z)
        for bucket in self._buckets:
            rows = U[:, bucket.columns].transpose(1, 0, 2)
            bucket.blocks -= rows.transpose(0, 2, 1) @ rows
        return _squared(z)

    def _entering(self, groups: Sequence[int]) -> list[Index]:
        """Return the columns that each of some groups brings: those that none has before it."""
        if not self._shares:
            return [self.members[group] for group in groups]
        there = {*self.support, *self.aliased}
        entering = []
        for group in groups:
            new = [column for column in self.members[group].tolist() if column not in there]
            there.update(new)
            entering.append(np.array(new, dtype=np.intp))
        return entering

    def _descend(self, U: Matrix, z: Matrix) -> None:
        """Take from the gradient of each response what some rows of U explain of it."""
        for b, step in zip(self.b, z, strict=True):
            b[:] = blas.dgemv(-1.0, U.T, step, 1.0, b)

    def _independent(self, block: Matrix, columns: Index) -> tuple[Matrix, npt.NDArray[np.bool_]]:
        """Return the factor of a conditional block, and which of its columns are not aliased."""
        floor, deviation = self._floor[columns], self.problem.deviation
        factor, kept = factored(block, floor)
        share = np.diagonal(factor) / deviation[columns[kept]]
        if not len(share) or share.min() ** 2 > DOUBTFUL_SHARE:
            return factor, kept
        weights = self._inverse_factor() @ self._U[:, columns]
        return certainly_factored(block, floor, weights, deviation[[*self.support, *columns]])

    def _hold(
        self, groups: Sequence[int], entering: Sequence[Index], kept: npt.NDArray[np.bool_]
    ) -> None:
        """Move groups to the selected ones; `kept` marks which of their columns have a row."""
        end = 0
        for group, columns in zip(groups, entering, strict=True):
            mine = kept[end : (end := end + len(columns))]
            self._held.append(HeldGroup(group, columns[mine].tolist(), columns[~mine].tolist()))
        for bucket in self._buckets:
            rest = ~np.isin(bucket.groups, groups)
            if not rest.all():
                bucket.groups = bucket.groups[rest]
                bucket.columns = bucket.columns[rest]
                bucket.blocks = bucket.blocks[rest]

    def losses(self) -> Vector:
        """Return loss(g | S), 0 if not held, less what aliased columns replace; O(|S|^2)."""
        if self._losses is None:
            self._losses = self._each_loss()
        return self._losses.copy()

    def _each_loss(self) -> Vector:
        losses = np.zeros(len(self.members))
        if self._shares:
            for group in self.held:
                losses[group] = self.copy().remove(group)
            return losses
        if not len(self._U):
            return losses
        inverse = self._inverse_factor()
        coef = [inverse @ z for z in self._z]
        groups, weights = np.array(self.held), self._weights()
        sizes = np.array([len(held.kept) for held in self._held])
        starts = np.cumsum(sizes) - sizes
        for size in np.unique(sizes).tolist():
            which = np.flatnonzero(sizes == size)
            rows = starts[which, None] + np.arange(size)
            blocks = inverse[rows] @ inverse[rows].transpose(0, 2, 1)
            for w in coef:
                solved = np.linalg.solve(blocks, w[rows][:, :, None])[:, :, 0]
                losses[groups[which]] += np.einsum("bs,bs->b", w[rows], solved)
            for at in np.flatnonzero(_weighty(weights[rows]).any(axis=(1, 2))).tolist():
                group = int(groups[which[at]])
                loss = self._replaced(blocks[at], weights[rows[at]], [w[rows[at]] for w in coef])
                losses[group] = self.copy().remove(group) if loss is None else loss
        return losses

    def _replaced(self, block: Matrix, weights: Matrix, coef: list[Vector]) -> float | None:
        """Return the loss of a group that aliased columns replace; None if in doubt.

        Given the other groups, with M the inverse of `block`, the group's columns have
        covariance M and gradient ``M w``, and the aliased ones are ``W`` times them. So what
        is lost is the least ``(w - W y)' M (w - W y)``, a sum of squares.
        """
        at = np.flatnonzero(_weighty(weights).any(axis=0))
        W, columns = weights[:, at], np.array(self._idle)[at]
        solved = np.linalg.solve(block, W)
        factor, kept = factored(W.T @ solved, self._floor[columns])
        share = np.diagonal(factor) ** 2 / self._variance[columns[kept]]
        if (share < DOUBTFUL_SHARE).any():
            return None
        W, solved = W[:, kept], solved[:, kept]
        loss = 0.0
        for w in coef:
            rest = w - W @ np.linalg.solve(W.T @ solved, solved.T @ w)
            loss += float(rest @ np.linalg.solve(block, rest))
        return loss

    def _weights(self) -> Matrix:
        """Return what each column of the support weighs in each aliased one of other groups."""
        weights = self._inverse_factor() @ self._U[:, self._idle]
        owners, aliased_owners = self._owners()
        weights[owners[:, None] == aliased_owners] = 0.0
        return weights

    def _owners(self) -> tuple[Index, Index]:
        """Return the group of each column of the support, and of each aliased one."""
        kept = [len(held.kept) for held in self._held]
        aliased = [len(held.aliased) for held in self._held]
        return np.repeat(self.held, kept), np.repeat(self.held, aliased)

    def remove(self, group: int) -> float:
        """Give a selected group back and return its loss."""
        before = self.explained
        self._losses = None
        if self._shares:
            self._select([other for other in self.held if other != group])
            return before - self.explained
        again = self._dependent_on(group)
        for other in [*reversed(again), group]:
            self._take_out(other)
        for other in again:
            self.add(other)
        if self._doubtful():
            self._refactor()
        return before - self.explained

    def _dependent_on(self, group: int) -> list[int]:
        """Return the later groups with an aliased column that may not be one without a group."""
        weighty = _weighty(self._weights())
        owners, aliased_owners = self._owners()
        going = owners == group
        found = []
        for other in self.held[self.held.index(group) + 1 :]:
            if weighty[np.ix_(going, aliased_owners == other)].any():
                going |= owners == other
                found.append(other)
        return found

    def _take_out(self, group: int) -> None:
        """Rotate the rows of a group to the end of U and drop them."""
        position = self.held.index(group)
        start = sum(len(held.kept) for held in self._held[:position])
        out = self._held.pop(position)
        end = start + len(out.kept)
        split = Rotation.of(self._U[start:, self.support[start:]], end - start).split
        rows, rest = split(self._U[start:])
        self._U = np.vstack([self._U[:start], rest])
        z, rest = split(self._z.T[start:])
        self._z = np.hstack([self._z[:, :start], rest.T])
        if self._inverse is not None:
            # The inverse of a leading block is the leading block of the inverse.
            kept = np.delete(self._inverse, np.s_[start:end], axis=0)
            _, rest = split(kept.T[start:])
            self._inverse = np.hstack([kept[:, :start], rest.T])
        self._release(group, rows, z.T)

    def _release(self, group: int, rows: Matrix, z: Matrix) -> None:
        """Put a group among the unselected, and give back what some rows of U explained."""
        if len(rows):
            self._descend(rows, -z)
        for bucket in self._buckets:
            part = rows[:, bucket.columns].transpose(1, 0, 2)
            bucket.blocks += part.transpose(0, 2, 1) @ part
            columns = self.members[group]
            if bucket.columns.shape[1] == len(columns):
                at = np.searchsorted(bucket.groups, group)
                bucket.groups = np.insert(bucket.groups, at, group)
                bucket.columns = np.insert(bucket.columns, at, columns, axis=0)
                bucket.blocks = np.insert(bucket.blocks, at, self.conditional(columns), axis=0)

    def _doubtful(self) -> bool:
        """Whether removals have added up errors, or left a column that may be rounding."""
        inverse = self._inverse_factor() * self.problem.deviation[self.support, None]
        if (np.einsum("ij,ij->j", inverse, inverse) * RANK_ROUNDING > 1.0).any():
            return True
        missing = self._variance - np.einsum("ij,ij->j", self._U, self._U)
        coef = np.atleast_2d(self.coef())
        sizes = 1.0 + np.abs(coef).sum(axis=1, keepdims=True)
        errors = [
            self.problem.c - self._z @ self._U - self.b,
            (self._z - coef @ self._U.T) / sizes,
            missing[self.support],
        ]
        for bucket in self._buckets:
            left = np.diagonal(bucket.blocks, axis1=1, axis2=2)
            errors.append(missing[bucket.columns] - left)
        return any(np.abs(error).max(initial=0.0) > DRIFT for error in errors)

    def _refactor(self) -> None:
        """Select the same groups anew."""
        self._select(self.held)

    def _select(self, held: Sequence[int]) -> None:
        """Select some groups in place of all."""
        self._clear()
        for group in held:
            self.add(group)

    def dependent(self) -> tuple[Index, Vector, Vector]:
        """Return dependent columns, and as shares what is left of each and its squared gradient."""
        left = self._variance - np.einsum("sd,sd->d", self._U, self._U)
        depends = left <= RANK_SHARE * self._variance
        depends[self._idle] = True
        depends &= (self._variance > 0) & ~self.problem.constant
        depends[self.support] = False
        columns = np.flatnonzero(depends)
        variance = self._variance[columns]
        return columns, left[columns] / variance, (self.b[:, columns] ** 2).sum(axis=0) / variance

    def settled(self) -> Self:
        """Return the state that aliases of dependent columns the last ones."""
        return self

    def copy(self) -> Self:
        """Return a state that changes alone."""
        copied = copy.copy(self)
        copied._held = list(self._held)
        # What `add_all` changes in place.
        copied.b, copied._U = self.b.copy(), self._U.copy()
        copied._buckets = [
            _Bucket(bucket.groups, bucket.columns, bucket.blocks.copy()) for bucket in self._buckets
        ]
        return copied

    def coef(self) -> Vector:
        """Return w(S) on unit-variance columns; shape (D,), of several responses (K, D)."""
        coef = np.zeros_like(self.b)
        if len(self._U):
            inverse = self._inverse_factor()
            coef[:, self.support] = [inverse @ z for z in self._z]
        return coef.reshape(self.problem.c.shape)

    def coefficients(self) -> Matrix:
        """Return w(S) after none, one, two, ... groups; shape (groups + 1, D), or (.., K, D).

        Leading blocks of ``R = L'^-1`` are inverses of leading blocks: one inversion, O(|S|^3 / 3).
        """
        rank = len(self._U)
        ends = np.cumsum([0, *(len(held.kept) for held in self._held)])
        coefficients = np.zeros((len(ends), *self.b.shape))
        for k, z in enumerate(self._z if rank else ()):
            sums = np.cumsum(self._inverse_factor() * z, axis=1)
            prefixes = np.hstack([np.zeros((rank, 1)), sums])[:, ends]
            coefficients[:, k, self.support] = prefixes.T
        return coefficients.reshape(len(ends), *self.problem.c.shape)

    def response_gains(self) -> Matrix:
        """Return the gain of each response by each group added so far; shape (groups added, K)."""
        ends = np.cumsum([len(held.kept) for held in self._held], dtype=np.intp)
        parts = np.split(self._z**2, ends, axis=1)[:-1]  # nothing is left after the last end
        return np.array([part.sum(axis=1) for part in parts]).reshape(-1, len(self._z))

    def _inverse_factor(self) -> Matrix:
        """Return ``L'^-1``, upper triangular; kept up to date from now on."""
        if self._inverse is None and not len(self._U):
            self._inverse = np.empty((0, 0))
        elif self._inverse is None:
            inverse, _ = lapack.dtrtri(self._U[:, self.support])
            self._inverse = np.triu(inverse)
        return self._inverse

    def degrees(self) -> float:
        """Return tr(C_SS^-1 G_SS), the effective number of columns; the rank at ridge 0."""
        ridge = self.problem.ridge[self.support]
        if not ridge.any():
            return float(len(ridge))
        inverse = self._inverse_factor()
        return float(len(ridge) - ridge @ np.einsum("ij,ij->i", inverse, inverse))

    def condition(self) -> float:
        """Estimate the condition number of C_SS (1-norm), at O(|S|^2)."""
        if not len(self._U):
            return 1.0
        reciprocal, _ = lapack.dtrcon(self._U[:, self.support], norm="1")
        return float(1.0 / reciprocal**2) if reciprocal > 0 else float("inf")


def shares_columns(members: Sequence[Index]) -> bool:
    """Whether a column lies in two of some groups."""
    return bool(np.bincount(np.concatenate([np.empty(0, np.intp), *members])).max(initial=0) > 1)


def _weighty(weights: Matrix) -> npt.NDArray[np.bool_]:
    """Whether a column that weighs this much in an aliased one may bring it back."""
    return np.asarray(np.abs(weights) > DEPENDENT_WEIGHT)


def _append(rows: Matrix, more: Matrix, used: int) -> Matrix:
    """Append rows to a matrix that grows by doubling; only `used` rows count."""
    base = rows.base
    if base is None or base.shape[0] < used:
        capacity = min(max(2 * used, 64), rows.shape[1])
        base = np.empty((max(capacity, used), rows.shape[1]))
        base[: len(rows)] = rows
    base[len(rows) : used] = more
    return base[:used]


def _extended(inverse: Matrix, above: Matrix, factor: Matrix) -> Matrix:
    """Return the inverse of ``[[R, above], [0, factor]]``, given that of R."""
    rank, size = above.shape
    below, _ = lapack.dtrtri(np.asfortranarray(factor))
    below = np.triu(below)
    extended = np.zeros((rank + size, rank + size))
    extended[:rank, :rank] = inverse
    extended[:rank, rank:] = -(inverse @ above) @ below
    extended[rank:, rank:] = below
    return extended


def _squared(z: Matrix) -> float:
    """Return the sum of all squares, added up response by response."""
    return float(sum(row @ row for row in z))


def _gains(blocks: Matrix, b: Matrix, floor: Vector) -> Vector:
    """Return b_g' (C_gg|S)^-1 b_g of B groups, summed over K responses; b is (K, B, s)."""
    # b rides along as K more rows: elimination turns them into L^-1 b.
    rows = np.concatenate([blocks, b.transpose(1, 0, 2)], axis=1)
    inverse = eliminate(rows, floor)
    gains = np.zeros(len(blocks))
    for row in rows[:, blocks.shape[1] :].transpose(1, 0, 2):
        gains += np.einsum("bj,bj,bj->b", row, row, inverse)
    return gains
