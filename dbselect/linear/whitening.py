"""Coordinates of a row in which the columns of a fit are orthonormal over its rows.

With the comoment C = L L' of the columns about their means, and W the rows' weight in all::

    u(x) = (1 / sqrt(W), L^-1 (x - mean))        sum w u u' = I

A row of weight w has leverage w |u|^2, and the mean at x has variance s2 |u|^2. Through the
origin C is about 0 and u has no first entry. No power of a condition number is lost twice, as
it is in x' (X'X)^-1 x.

Source: Seber, Lee (2003), Linear Regression Analysis, sections 5.3.1 and 10.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dbselect.linear.inference import INTERCEPT, inverse_factor
from dbselect.linear.refine import near_unit
from dbselect.record.gram import Gram, Matrix, Vector


@dataclass(frozen=True, eq=False)
class Whitening:
    """How rows become coordinates in which the columns are orthonormal."""

    columns: tuple[str, ...]  # r columns, none of which depends on others
    rows: Matrix  # shape (r, r), L^-1 in the table's units, lower triangular
    mean: Vector  # shape (r,); zeros through the origin
    constant: float | None  # 1 / sqrt(W), the coordinate of every row; None through the origin

    @property
    def terms(self) -> list[str]:
        """The intercept, if there is one, and the columns."""
        return [*([] if self.constant is None else [INTERCEPT]), *self.columns]

    @property
    def shift(self) -> Vector:
        """What is added to ``rows @ x``; shape (r,)."""
        return -self.rows @ self.mean

    @property
    def back(self) -> Matrix:
        """The coefficients of `terms`, given those of the coordinates; square."""
        if self.constant is None:
            return self.rows.T
        constant = np.array([[self.constant]])
        return np.block(
            [[constant, self.shift[None, :]], [np.zeros((len(self.mean), 1)), self.rows.T]]
        )


def whitening(gram: Gram, target: str, columns: Sequence[str], *, intercept: bool) -> Whitening:
    """Return the coordinates of the rows of a Gram; DataError if columns are nearly dependent.

    The Gram is about the means, or about the origin for a model without intercept. No column may
    depend on others.
    """
    C, _, unit = near_unit(gram, target, columns)
    at = [gram.position(name, "columns") for name in columns]
    constant = float(gram.weight**-0.5) if intercept else None
    return Whitening(tuple(columns), inverse_factor(C) * unit, gram.mean[at], constant)
