"""A smooth function of coefficients, as the descent (`selection.descent`) uses it."""

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np

from dbselect.engine.linear_state import RANK_SHARE
from dbselect.linear.problem import Index, Linear
from dbselect.record.gram import Matrix, Vector


class Point:
    """A vector, shape (D,) or (K, D), with f and the gradient of f there, made when asked for."""

    def __init__(self, x: Vector, value: float, gradient: Callable[[], Vector]) -> None:
        self.x, self.value, self._gradient = x, value, gradient

    @cached_property
    def gradient(self) -> Vector:
        """The gradient of f, of the shape of x."""
        return self._gradient()


class Smooth(Protocol):
    """A convex function f of coefficients on D columns."""

    ceiling: float  # no curvature worth a try is above

    def at(self, x: Vector) -> Point:
        """Return f and its gradient."""

    def bregman(self, u: Point, after: Point) -> float:
        """Return the Bregman divergence: how far f at a point lies above its tangent at u."""

    def least_on(self, support: Index) -> Vector | None:
        """Return the minimum on some columns, 0 elsewhere; None if that takes a descent too."""


class Correlated(Smooth, Protocol):
    """One that knows the correlations of its columns, from which starts are made."""

    G: Matrix  # shape (D, D), correlations of the columns
    c: Vector  # shape (D,) or (K, D), minus the gradient at 0; all vectors have this shape


class LeastSquares:
    """``f(x) = 1/2 x'Gx - c'x``, summed over K responses; with a ridge G + R."""

    def __init__(self, problem: Linear) -> None:
        self.problem = problem
        self.G = problem.G + np.diag(problem.ridge) if problem.ridge.any() else problem.G
        self.c = problem.c
        # No curvature exceeds the trace.
        self.ceiling = float(len(self.G) + problem.ridge.sum())

    def at(self, x: Vector) -> Point:
        """Return f and its gradient, at O(s D) for s columns that are not 0."""
        support = np.flatnonzero(x if x.ndim == 1 else x.any(axis=0))
        image = x[..., support] @ self.G[support]
        value = 0.5 * np.vdot(x, image) - np.vdot(self.c, x)
        return Point(x, float(value), lambda: image - self.c)

    def bregman(self, u: Point, after: Point) -> float:
        """Return ``1/2 step'G step``, the height above a tangent without loss of digits."""
        return float(0.5 * np.vdot(after.x - u.x, after.gradient - u.gradient))

    def least_on(self, support: Index) -> Vector | None:
        """Return the least squares on some columns, 0 elsewhere; O(s^3). None if they depend."""
        x = np.zeros(self.c.shape)
        try:
            root = np.linalg.cholesky(self.G[np.ix_(support, support)])
        except np.linalg.LinAlgError:
            return None
        # Rounding decides whether a column that depends on others ends the factor.
        if (np.diagonal(root) ** 2 <= RANK_SHARE).any():
            return None
        half = np.linalg.solve(root, self.c[..., support].T)
        x[..., support] = np.linalg.solve(root.T, half).T
        return x


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
        left = self._image(x) - self.target
        return Point(x, float(0.5 * left @ left), lambda: np.asarray(left @ self.rows))

    def bregman(self, u: Point, after: Point) -> float:
        """Return ``1/2 |A step|^2``."""
        image = self._image(after.x - u.x)
        return float(0.5 * image @ image)

    def least_on(self, support: Index) -> Vector | None:
        """Return None: the descent of the source does not ask for it."""
