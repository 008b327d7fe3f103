"""Knockoffs of columns, made of a Gram alone: copies that add nothing about the target.

With R the correlations of the columns and S block by block, one block a group, knockoffs have the
correlations R among each other and ``R - S`` with the columns. They are

    Xk = X (I - R^-1 S) + U L',    L L' = 2 S - S R^-1 S

with U orthonormal and orthogonal to X. So what they share with the target is known from the Gram
but for U'y, and of a random U this is known in distribution: the residual of y on X, turned by a
random rotation of the rows, of which the first D coordinates are seen. No row is needed, and
nothing is assumed of the columns.

S is the one of maximum entropy: each block is half of what it may be given the others, again
and again, which maximises ``log det (2 R - S) + log det S``.

Sources: Barber, Candes (2015), section 2.1; Dai, Barber (2016) for groups; Candes, Fan, Janson,
Lv (2018), section 3.4.2; He et al. (2022), GhostKnockoffs, for products with the target that are
drawn; Gimenez, Zou (2019) for maximum entropy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dbselect.linear.problem import Index
from dbselect.record.gram import Matrix, Vector

#: A sweep over all blocks that changes no entry by more than this is the last.
SETTLED = 1e-6
MOST_SWEEPS = 100
#: Eigenvalues below this share of the largest are rounding.
NEGATIVE_ROUNDING = 1e-12


def blocks_of_most_entropy(R: Matrix, blocks: Sequence[Index]) -> Matrix:
    """Return S, shape (D, D), block diagonal.

    Parameters
    ----------
    R : shape (D, D), correlations of independent columns
    blocks : columns of each group, together 0 to D - 1

    Notes
    -----
    O(D^3) a sweep; some ten sweeps. Columns that nearly depend on those of other groups have
    knockoffs near themselves, and no power.
    """
    S = np.zeros_like(R)
    for at in blocks:
        S[np.ix_(at, at)] = R[np.ix_(at, at)]
    roots = np.linalg.cholesky(S)
    whitened = np.linalg.solve(roots, np.linalg.solve(roots, R).T)
    S *= min(1.0, float(np.linalg.eigvalsh(whitened)[0]))
    for _ in range(MOST_SWEEPS):
        inverse = np.linalg.inv(2.0 * R - S)
        change = 0.0
        for at in blocks:
            own = np.ix_(at, at)
            most = S[own] + np.linalg.inv(inverse[own])
            step = (most + most.T) / 4.0 - S[own]
            S[own] += step
            change = max(change, float(np.abs(step).max()))
            middle = step @ np.linalg.inv(np.eye(len(at)) - inverse[own] @ step)
            inverse = inverse + inverse[:, at] @ middle @ inverse[at]
        if change < SETTLED:
            break
    return S


@dataclass(frozen=True, eq=False)
class Knockoffs:
    """Columns beside their knockoffs, and what these share with the target.

    Parameters
    ----------
    R, S : shape (D, D), as above
    c : shape (D,), correlations of the columns with the target
    left : share of the target's variance that no column explains
    freedom : rows less 1 less D, dimensions of the residual
    """

    R: Matrix
    S: Matrix
    c: Vector
    left: float
    freedom: int

    @classmethod
    def of(cls, R: Matrix, c: Vector, rows: int, blocks: Sequence[Index]) -> "Knockoffs":
        """Return the knockoffs of columns of correlations R, with c the target's."""
        left = max(1.0 - float(c @ np.linalg.solve(R, c)), 0.0)
        return cls(R, blocks_of_most_entropy(R, blocks), c, left, rows - 1 - len(c))

    def correlations(self, drawn: Vector) -> Matrix:
        """Return those of columns, knockoffs and target; shape (2 D + 1, 2 D + 1)."""
        between = self.R - self.S
        ends = np.concatenate([self.c, drawn])[:, None]
        both = np.block([[self.R, between], [between, self.R]])
        return np.block([[both, ends], [ends.T, np.ones((1, 1))]])

    def fixed(self, rng: np.random.Generator) -> Vector:
        """Draw the correlations of the knockoffs with the target, U a random rotation's."""
        seen = rng.normal(size=len(self.c))
        unseen = rng.chisquare(self.freedom - len(self.c)) if self.freedom > len(self.c) else 0.0
        return self._with(seen * np.sqrt(self.left / (float(seen @ seen) + float(unseen))))

    def second_order(self, rng: np.random.Generator) -> Vector:
        """Draw them for rows of Gaussian columns: U has independent entries of variance 1 / n."""
        rows = self.freedom + 1 + len(self.c)
        return self._with(rng.normal(size=len(self.c)) / np.sqrt(rows))

    def _with(self, noise: Vector) -> Vector:
        solved = np.linalg.solve(self.R, np.column_stack([self.c, self.S]))
        values, vectors = np.linalg.eigh(2.0 * self.S - self.S @ solved[:, 1:])
        roots = np.sqrt(np.where(values > NEGATIVE_ROUNDING * values[-1], values, 0.0))
        return np.asarray(self.c - self.S @ solved[:, 0] + vectors @ (roots * noise))
