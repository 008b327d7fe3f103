"""A smooth function of coefficients, as the descent (`selection.descent`) uses it."""

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np

from dbselect.record.gram import Matrix, Vector


class Point:
    """A vector, shape (D,) or (K, D), with f and, on demand, the gradient of f there."""

    def __init__(self, x: Vector, value: float, gradient: Callable[[], Vector]) -> None:
        self.x, self.value, self._gradient = x, value, gradient

    @cached_property
    def gradient(self) -> Vector:
        """The gradient of f, of the shape of x."""
        return self._gradient()


class Smooth(Protocol):
    """A convex function f of coefficients on D columns."""

    ceiling: float  # largest curvature worth a try

    def at(self, x: Vector) -> Point:
        """Return f and its gradient."""

    def bregman(self, u: Point, after: Point) -> float:
        """Return the Bregman divergence: how far f at a point lies above its tangent at u."""


class Correlated(Smooth, Protocol):
    """A smooth function with the correlations of its columns, which give starts."""

    G: Matrix  # shape (D, D), correlations of the columns
    c: Vector  # shape (D,) or (K, D), minus the gradient at 0; all vectors have this shape


class RowSquares:
    """``f(x) = 1/2 |Ax - y|^2`` on rows as they are, shape (n, D), without a Gram."""

    def __init__(self, rows: Matrix, target: Vector) -> None:
        self.rows, self.target = rows, target
        self.ceiling = float(np.einsum("ij,ij->", rows, rows))

    def _image(self, x: Vector) -> Vector:
        support = np.flatnonzero(x)
        return np.asarray(self.rows[:, support] @ x[support])

    def at(self, x: Vector) -> Point:
        """Return f, at O(s n) for s columns that are not 0; its gradient takes O(n D)."""
        residual = self._image(x) - self.target
        return Point(x, float(0.5 * residual @ residual), lambda: np.asarray(residual @ self.rows))

    def bregman(self, u: Point, after: Point) -> float:
        """Return ``1/2 |A step|^2``."""
        image = self._image(after.x - u.x)
        return float(0.5 * image @ image)
