"""The rotation that makes a triangular matrix triangular again when columns go.

    Q' [B; R] = [0; T]

R is what is left of an upper triangular matrix below the rows B of the columns that went. A
reflector for each column touches only B and one row of R: O(t^2 s) for s rows above t.

Source: Golub, Van Loan (2013), Matrix Computations, section 6.5.2; the blocks are LAPACK's.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from dbselect.record.gram import Matrix, Vector

#: Reflectors that are applied at once.
PANEL = 32


@dataclass(frozen=True)
class Rotation:
    """Orthogonal Q' of s + t rows."""

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
