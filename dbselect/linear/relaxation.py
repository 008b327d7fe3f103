"""How much groups within a budget can explain: choices relaxed from yes or no to shares.

With H held, U undecided, ``Q = C_UU|H``, b the gradient and any block-diagonal
``0 <= E <= Q`` (in the order of matrices, one block a group), every choice S of U has ::

    F(H + S) <= F(H) + max b' (Q - E + E / z)^-1 b    over 0 <= z <= 1, costs'z <= budget

with equality where z is 0 or 1. The right side is concave in z, so its tangent at any z,
maximised by a fractional knapsack, bounds it: ``slope_g = w_g' E_gg w_g / z_g^2``. At z = 1
that is F of all groups less what those left out lose at least, at small z the bound of
`linear.bounds`; between the two it is nearer than either. The next z is the share at which
``w_g' E_gg w_g / z_g`` costs least within the budget, in turns with w.

E is ``blockdiag(P)^-1 / lambda``, ``P = Q^-1``, lambda the largest eigenvalue of P once its
blocks are whitened: two groups that are nearly dependent spoil E for themselves alone. What
is left of Q lets E grow, a few rounds.

Rank: columns that depend on others have no P. E is 0 for each group that takes part in a
dependence, so that it may be used at no cost: a bound still, until one of them is decided.

Sources: Frangioni, Gentile (2006), Mathematical Programming 106, the perspective relaxation;
Dong, Chen, Linderoth (2015), arXiv 1510.06083, for regression and the choice of E; Bertsimas,
Van Parys (2020), Annals of Statistics 48, for the tangents. Departures: groups and costs,
E conditional on H, and dependent columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy.linalg import lapack

from dbselect._native import leaps
from dbselect.linear.problem import RANK_SHARE, Index, Linear, by_size
from dbselect.record.gram import Matrix, Vector

#: Rounds in which E grows into what is left of Q: each costs an inverse and an eigenvalue, and
#: more of them saved fewer questions than they took time, on columns of any kind.
ROUNDS = 3
#: Share of E that a round keeps, so that what is left of Q has an inverse.
KEPT_SHARE = 0.95
#: E is taken smaller by this share, which is more than the rounding of an eigenvalue.
E_SLACK = 1e-9
#: Least share z of a group: of 0 there would be no way back, and 1 / z must keep digits.
LEAST_SHARE = 1e-4
#: A column takes part in a dependence if its coefficient there is above this: with a smaller
#: one, unit-variance columns depend on each other without it, up to `RANK_SHARE`.
PART = 1e-8


@dataclass(frozen=True)
class Tangent:
    """A bound on what the undecided groups can explain, and what deciding one does to it.

    Parameters
    ----------
    shares : shape (m,), z
    value : the relaxed F at z: no bound of this kind is less
    bound : no choice explains more
    slope : shape (m,), what the relaxed F gains with each share
    excess : shape (m,), slope less what the cost of the group would gain elsewhere: the bound
        falls by as much if the group is left out (> 0) or taken in (< 0) against it
    """

    shares: Vector
    value: float
    bound: float
    slope: Vector
    excess: Vector


@dataclass(frozen=True)
class Undecided:
    """Groups that may be added to those held.

    Parameters
    ----------
    groups : numbers of the m groups that still add something
    costs : shape (m,)
    owner : shape (d,), place in `groups` of each column; none depends on the others
    Q : shape (d, d), covariance given what is held
    b : shape (d,), gradient
    P : shape (d, d), the inverse of Q
    held_value : F of the groups held
    value : F of those and all undecided
    entangled : shape (m,), whether a group takes part in a dependence
    """

    groups: list[int]
    costs: Vector
    owner: Index
    Q: Matrix
    b: Vector
    P: Matrix
    held_value: float
    value: float
    entangled: npt.NDArray[np.bool_]

    def parts(self) -> Vector:
        """Return what each group contributes to F of all undecided; shape (m,)."""
        return self._summed(self.b * (self.P @ self.b))

    def losses(self) -> Vector:
        """Return what leaving out each group alone loses, 0 for those entangled; shape (m,)."""
        losses = np.zeros(len(self.groups))
        w = self.P @ self.b
        for at, columns in self._blocks():
            blocks = self.P[columns[:, :, None], columns[:, None, :]]
            solved = np.linalg.solve(blocks, w[columns][:, :, None])[:, :, 0]
            losses[at] = np.einsum("bs,bs->b", w[columns], solved)
        return losses

    def tangents(self, budget: float, shares: Vector) -> Iterator[Tangent]:
        """Yield tangents whose bounds fall, on the whole, until rounding leaves no equations.

        Parameters
        ----------
        budget : for the undecided groups, below the sum of their costs
        shares : shape (m,), z to start from, scaled to the budget
        """
        E = self._separable()
        scale = min(1.0, budget / float(self.costs @ shares))
        z = np.clip(shares * scale, LEAST_SHARE, 1.0)
        while True:
            M = self.Q + E * (1.0 / z - 1.0)[self.owner, None]
            _, w, failed = lapack.dposv(M, self.b, lower=1)
            if failed:
                return
            paid = np.maximum(self._summed(w * (E @ w)), 0.0)
            value = self.held_value + float(self.b @ w)
            slope = paid / z**2
            best, worth = _knapsack(slope, self.costs, budget)
            bound = value + float(slope @ (best - z))
            yield Tangent(z, value, bound, slope, slope - worth * self.costs)
            z = np.clip(_cheapest(paid, self.costs, budget), LEAST_SHARE, 1.0)

    def _summed(self, values: Vector) -> Vector:
        """Return the sum over the columns of each group; shape (m,)."""
        return np.bincount(self.owner, values, len(self.groups)).astype(np.float64)

    def _blocks(self) -> Iterator[tuple[Index, Index]]:
        """Yield the groups of each size that are not entangled, and their columns."""
        at = np.flatnonzero(~self.entangled)
        order = np.argsort(self.owner, kind="stable")
        ends = np.searchsorted(self.owner[order], np.arange(len(self.groups) + 1))
        members = [order[ends[i] : ends[i + 1]] for i in at.tolist()]
        for which, columns in by_size(members):
            yield at[which], columns

    def _separable(self) -> Matrix:
        """Return E, block-diagonal, at most Q; shape (d, d)."""
        E = np.zeros_like(self.Q)
        free = np.flatnonzero(~self.entangled[self.owner])
        if not len(free):
            return E
        own, last = np.ix_(free, free), (len(free) - 1, len(free) - 1)
        blocks = [(columns[:, :, None], columns[:, None, :]) for _, columns in self._blocks()]
        for _ in range(ROUNDS):
            E *= KEPT_SHARE
            factor, failed = lapack.dpotrf(self.Q - E, lower=1)
            if failed:
                break
            P = _inverse(factor)
            diagonal, inverse = np.zeros_like(P), np.zeros_like(P)
            for block in blocks:
                diagonal[block] = P[block]
                inverse[block] = np.linalg.inv(P[block])
            largest = scipy.linalg.eigvalsh(P[own], diagonal[own], subset_by_index=last)[0]
            E += inverse * ((1.0 - E_SLACK) / largest)
        return E


#: Most columns for leaps and bounds, whose sets all hold a matrix of their own.
LEAPS_WIDEST = 300
#: Condition number above which the matrices of leaps and bounds lose the digits of a proof.
LEAPS_CONDITION = 1e6


class Groupwise:
    """The linear problem on columns of unit variance, of which some groups are decided.

    Parameters
    ----------
    problem : Linear, of one response
    members : the columns of each of the J groups
    costs : shape (J,)
    """

    def __init__(self, problem: Linear, members: Sequence[Index], costs: Vector) -> None:
        deviation = problem.deviation
        C = problem.G.copy()
        C[np.diag_indices_from(C)] += problem.ridge
        self.C = C / deviation / deviation[:, None]
        self.c = problem.c / deviation
        # A constant column explains nothing, whatever the ridge.
        self.members = [columns[~problem.constant[columns]] for columns in members]
        self.costs = costs

    def leaps(
        self,
        held: Sequence[int],
        groups: Sequence[int],
        budget: float,
        value: float,
        seconds: float,
    ) -> tuple[list[int], int, bool]:
        """Search the best set by leaps and bounds, where no column depends on others.

        Parameters
        ----------
        held : groups of every set
        groups : others, of which none is dearer than the budget
        budget : limit on the summed cost
        value : what a set is known to explain
        seconds : time to take

        Returns
        -------
        groups of a set that explains more, none if none was found; sets looked at; whether
        no other explains more

        Notes
        -----
        O(d^2) a set, over the columns left; 2^J sets at worst, some thousand for 30 columns.
        Source: Furnival, Wilson (1974).
        """
        order = [*held, *groups]
        blocks = [self._within(self.members[g]) for g in order]
        columns = np.concatenate([np.empty(0, np.intp), *blocks])
        C = self.C[np.ix_(columns, columns)]
        if not 0 < len(columns) <= LEAPS_WIDEST or np.linalg.cond(C) > LEAPS_CONDITION:
            return [], 0, False
        inverse = scipy.linalg.inv(C)
        coef = inverse @ self.c[columns]
        starts = np.cumsum([0, *map(len, blocks)])
        limits = budget, value, float(coef @ self.c[columns]), seconds
        found, sets, is_all = leaps(inverse, coef, starts, self.costs[order], len(held), limits)
        return [order[at] for at in np.flatnonzero(found).tolist()], sets, is_all

    def _within(self, columns: Index) -> Index:
        """Return the columns of a group without those that depend on others of it."""
        kept, _ = _independent(self.C[np.ix_(columns, columns)])
        return columns[np.sort(kept)]

    def undecided(self, held: Sequence[int], groups: Sequence[int]) -> Undecided:
        """Return what some groups may add to those held.

        Notes
        -----
        O(d^3) over the columns of both; nothing is kept from one call to the next.
        """
        known, columns = self._columns(held), self._columns(groups)
        owner = np.repeat(np.arange(len(groups)), [len(self.members[g]) for g in groups])
        kept, factor = _independent(self.C[np.ix_(known, known)])
        known = known[kept]
        both = np.column_stack([self.C[np.ix_(known, columns)], self.c[known]])
        U = scipy.linalg.solve_triangular(factor, both, lower=True) if len(known) else both
        U, z = U[:, :-1], U[:, -1]
        Q = self.C[np.ix_(columns, columns)] - U.T @ U
        b = self.c[columns] - z @ U
        # What depends on the groups held adds nothing.
        adds = np.flatnonzero(np.diagonal(Q) > RANK_SHARE)
        kept, factor = _independent(Q[np.ix_(adds, adds)])
        left = np.setdiff1d(np.arange(len(adds)), kept)
        entangled = np.zeros(len(groups), dtype=bool)
        if len(left):
            cross = Q[np.ix_(adds[kept], adds[left])]
            part = np.abs(scipy.linalg.cho_solve((factor, True), cross)).max(axis=1) > PART
            entangled[owner[adds[left]]] = True
            entangled[owner[adds[kept][part]]] = True
        kept = adds[kept]
        present = np.unique(owner[adds])
        P = _inverse(factor)
        held_value = float(z @ z)
        return Undecided(
            groups=[groups[i] for i in present.tolist()],
            costs=self.costs[[groups[i] for i in present.tolist()]],
            owner=np.searchsorted(present, owner[kept]),
            Q=Q[np.ix_(kept, kept)],
            b=b[kept],
            P=P,
            held_value=held_value,
            value=held_value + float(b[kept] @ P @ b[kept]),
            entangled=entangled[present],
        )

    def _columns(self, groups: Sequence[int]) -> Index:
        return np.concatenate([np.empty(0, np.intp), *(self.members[g] for g in groups)])


def _independent(C: Matrix) -> tuple[Index, Matrix]:
    """Return columns that do not depend on each other, and the Cholesky factor of them."""
    if not len(C):
        return np.empty(0, np.intp), C
    factor, pivots, rank, _ = lapack.dpstrf(C, lower=1, tol=RANK_SHARE)
    return np.asarray(pivots[:rank] - 1, dtype=np.intp), np.tril(factor[:rank, :rank])


def _inverse(factor: Matrix) -> Matrix:
    """Return the inverse of a matrix, given its Cholesky factor, which is 0 above the diagonal."""
    if not len(factor):
        return factor
    lower, _ = lapack.dpotri(factor, lower=1)
    inverse = np.asarray(lower + lower.T)
    inverse[np.diag_indices_from(inverse)] /= 2.0
    return inverse


def _knapsack(profits: Vector, costs: Vector, budget: float) -> tuple[Vector, float]:
    """Return the best fractional knapsack, shape (m,), and what a unit of cost is worth in it."""
    order = np.argsort(-profits / costs, kind="stable")
    before = np.cumsum(costs[order]) - costs[order]
    share = np.empty(len(costs))
    share[order] = np.clip((budget - before) / costs[order], 0.0, 1.0)
    partly = order[share[order] < 1.0]
    worth = float(profits[partly[0]] / costs[partly[0]]) if len(partly) else 0.0
    return share, worth


def _cheapest(paid: Vector, costs: Vector, budget: float) -> Vector:
    """Return the shares z <= 1 within a budget at which the sum of paid / z is least.

    ``z = min(1, t sqrt(paid / cost))``: with the groups in falling order of the root, the
    first m have share 1 and t spends on the others what is left.
    """
    root = np.sqrt(paid / costs)
    order = np.argsort(-root, kind="stable")
    full = np.concatenate([[0.0], np.cumsum(costs[order])[:-1]])
    others = np.cumsum((costs * root)[order][::-1])[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (budget - full) / others
        first = np.flatnonzero(root[order] * t <= 1.0)
    return np.minimum(1.0, root * t[first[0]]) if len(first) else np.ones(len(costs))
