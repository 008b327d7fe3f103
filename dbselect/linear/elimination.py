"""Triangular factors of symmetric matrices: eliminated by rank, and rotated when columns go.

Source: Golub, Van Loan (2013), Matrix Computations, section 6.5.2; the blocks are LAPACK's.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from dbselect.record.gram import Matrix, Vector

#: What is left of a variance, as a share of 1 + w'w, below which it is rounding: exact
#: dependences leave up to 6e-15.
RANK_ROUNDING = 1e-14
#: Columns eliminated one by one before the rest is updated by a matrix product, and reflectors
#: that are applied at once.
PANEL = 32


def factored(block: Matrix, floor: Vector) -> tuple[Matrix, npt.NDArray[np.bool_]]:
    """Return the factor (lower triangle) of columns with more than `floor` left, and which."""
    return _factor(block[None].copy(), floor)


def certainly_factored(
    block: Matrix, floor: Vector, weights: Matrix, deviation: Vector
) -> tuple[Matrix, npt.NDArray[np.bool_]]:
    """Return what `factored` does, without columns of which rounding may be all that is left.

    That is ``eps (1 + w'w)``, w the coefficients on columns kept before, which ride along:
    O(s^2 (S + s)). `weights`, shape (S, s), are those on S old columns, and `deviation`,
    shape (S + s,), makes them those of unit-variance columns.
    """
    size = len(block)
    ahead = np.vstack([block, weights, np.eye(size)])
    ahead[size:] *= deviation[:, None]
    return _factor(ahead[None], floor, RANK_ROUNDING)


def _factor(
    rows: Matrix, floor: Vector, rounding: float = 0.0
) -> tuple[Matrix, npt.NDArray[np.bool_]]:
    inverse = eliminate(rows, floor[None], rounding)[0]
    kept = inverse > 0
    return rows[0][: len(floor)][np.ix_(kept, kept)] * np.sqrt(inverse[kept]), kept


def eliminate(rows: Matrix, floor: Vector, rounding: float = 0.0) -> Matrix:
    """Run symmetric elimination in place, leaving out columns whose pivot is too small.

    `rows` has shape (B, r, s) with r >= s, the symmetric part on top; afterwards ``rows[b, i, j]``,
    i >= j, is entry (i, j) given the columns before j. A pivot must be above its `floor`, shape (B,
    s), and reach the share `rounding` of the squares of the rows below the symmetric part, in its
    column. Returns one over each pivot, shape (B, s), 0 for a column that is left out.
    """
    size = rows.shape[2]
    inverse = np.zeros((len(rows), size))
    for start in range(0, size, PANEL):
        end = min(start + PANEL, size)
        for j in range(start, end):
            pivot = rows[:, j, j]
            keep = pivot > floor[:, j]
            if rounding and keep.any():
                below = rows[:, size:, j]
                keep &= pivot >= rounding * np.einsum("bi,bi->b", below, below)
            if not keep.any():
                continue
            inverse[keep, j] = 1.0 / pivot[keep]
            share = rows[:, j + 1 :, j] * inverse[:, j, None]
            rows[:, j + 1 :, j + 1 : end] -= share[:, :, None] * rows[:, None, j + 1 : end, j]
        if not inverse[:, start:end].any():
            continue
        below = rows[:, end:, start:end]
        rows[:, end:, end:] -= (below * inverse[:, None, start:end]) @ rows[
            :, end:size, start:end
        ].transpose(0, 2, 1)
    return inverse


@dataclass(frozen=True)
class Rotation:
    """The rotation that makes an upper triangle one again when columns go: ``Q' [B; R] = [0; T]``.

    Q is orthogonal, of s + t rows. A reflector for each column touches only the rows B of the
    columns that went and one row of R: O(t^2 s) for s rows above t.
    """

    vectors: Matrix  # shape (s, t), the reflectors where they are not the identity
    factors: Matrix  # what LAPACK applies them in blocks with
    signs: Vector  # shape (t,), what makes the diagonal of T positive

    @classmethod
    def of(cls, stacked: Matrix, size: int) -> "Rotation":
        """Return the rotation of ``[B; R]``, shape (s + t, t), with s rows in B."""
        width = stacked.shape[1]
        if not (size and width):
            return cls(np.empty((size, width)), np.empty((0, width)), np.ones(width))
        T, vectors, factors, _ = lapack.dtpqrt(0, min(PANEL, width), stacked[size:], stacked[:size])
        return cls(vectors, factors, np.where(np.diagonal(T) < 0, -1.0, 1.0))

    def split(self, rows: Matrix) -> tuple[Matrix, Matrix]:
        """Return the first s of Q' times s + t rows, and the others."""
        top, rest = rows[: len(self.vectors)], rows[len(self.vectors) :]
        if not self.vectors.size:
            return top, rest
        # From the right of the transposed rows, which are in Fortran order.
        rest, top, _ = lapack.dtpmqrt(0, self.vectors, self.factors, rest.T, top.T, side="R")
        return top.T, rest.T * self.signs[:, None]
