"""Descent with hard thresholding: a step down the gradient, then the exact projection.

    minimise f(x)  with at most s1 nonzeros in at most s2 groups

    u  = x, or with acceleration a point ahead of it
    L  = a first guess of the curvature, doubled until the step is good enough
    x+ = P(u - gradient(u) / L)

f is half the unexplained share of the null deviance, less 1/2 (`glm.deviance`), or half a sum of
squares (`RowSquares`). With several classes x has a row for each, and they share the
support: a column is kept by the length of its entries, which is the exact projection. A step costs
f with its gradient and one projection for each L tried. Descents on a record are the library's
(`native/src/search/sets/thresholding.rs`).

Departures from the source. Its smallest curvature, 1, is meant for X'X; on columns of unit
variance, whose own curvature is 1, it takes half as many steps again. Acceleration can raise f, so
the best point is returned, not the last. Started from zero, a step of fixed length often keeps
wrong groups for good; the best of three projected ridge solutions seldom does.

Source: Xiang, Yang, Ye (2014), Algorithms 1 and 2, Table 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import lapack

from dbselect.record.gram import Matrix, Vector
from dbselect.selection.moves import levelled
from dbselect.selection.projection import Layout, project


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


#: Lambdas of the ridge solutions to start from, around 1, the variance of a column.
START_RIDGES = (0.1, 1.0, 10.0)
#: Curvature of one column of unit variance, used until two points differ.
UNIT_CURVATURE = 1.0
#: Smallest curvature to start from: a tenth of a column's allows long steps, and few of
#: them must be shortened.
SMALLEST_CURVATURE = 0.1
#: Smallest curvature in the source, max(1, .), on unscaled rows.
LITERAL_CURVATURE = 1.0
#: Factor of L until a step is good enough.
GROWTH = 2.0
#: Share of L/2 |x+ - x|^2 that counts as a decrease, as in Gong et al. (2013).
DECREASE = 1e-5


#: Name of the start in results of forward steps instead of a descent.
FORWARD_START = "forward"
#: Name of the start in results of a descent from the user's start.
OWN_START = "given"

#: Previous and current point -> the L to try first.
First = Callable[[Point, Point], float]
#: Function, start and end of a step, its L -> whether the step is good enough.
Enough = Callable[[Smooth, Point, Point, float], bool]


@dataclass(frozen=True)
class Variant:
    """A row of the paper's Table 1."""

    first: First  # where L starts
    enough: Enough  # where L stops growing
    accelerated: bool = False  # whether steps start ahead of the last point


@dataclass(frozen=True)
class Chosen:
    """The linear model on the columns that a descent kept, from the library."""

    groups: list[int]
    coefficients: dict[int, float]  # by column, in the table's units
    intercept: float
    explained: float
    r2: float
    aliased: list[int]  # kept columns that depend on others
    condition: float


@dataclass(frozen=True, eq=False)
class Descent:
    """The result of a descent."""

    x: Vector  # shape (D,) or (K, D), on unit-variance columns
    history: Vector  # f at the start and after every step
    converged: bool  # whether it ended because steps no longer changed f
    start: str = ""  # what it started from
    polished: float | None = None  # f of `x` after exchanges; None without any
    # exchanges of columns by the library after the steps; None if none were tried
    exchanges: int | None = None
    projections: int = 0  # one for each step length tried
    chosen: Chosen | None = None  # of one linear model

    @property
    def objective(self) -> float:
        """The lowest objective, that of `x`."""
        return float(self.history.min()) if self.polished is None else self.polished

    @property
    def is_settled(self) -> bool:
        """Whether the steps converged, or exchanges were tried after them."""
        return self.converged or self.exchanges is not None


@dataclass(frozen=True)
class Settings:
    """Step rule and stopping rule of a descent."""

    variant: Variant
    tol: float  # share of the objective by which a step must change it
    max_iter: int  # most steps
    literal: bool = False  # as in the source: no L below 1, and the last point, not the best


def descend(
    problem: Smooth, layout: Layout, start: Vector, limits: tuple[int, int], settings: Settings
) -> Descent:
    """Descend from a start within the limits until f changes by at most a share `tol`."""
    variant = settings.variant
    before = now = best = problem.at(start)
    history = [now.value]
    momentum = (0.0, 1.0)
    tried = 0
    for _ in range(settings.max_iter):
        u = problem.at(_ahead(before, now, momentum)) if variant.accelerated else now
        momentum = momentum[1], (1.0 + np.sqrt(1.0 + 4.0 * momentum[1] ** 2)) / 2.0
        L = variant.first(before, now)
        L = max(L, LITERAL_CURVATURE) if settings.literal else L
        after, more = _step(problem, layout, u, L, limits, variant.enough)
        tried += more
        if after is None:
            return Descent(best.x, np.array(history), True, projections=tried)
        before, now = now, after
        history.append(now.value)
        if settings.literal or history[-1] <= min(history):
            best = now
        if abs(history[-1] - history[-2]) <= settings.tol * abs(history[-1]):
            return Descent(best.x, np.array(history), True, projections=tried)
    return Descent(best.x, np.array(history), False, projections=tried)


def _step(
    problem: Smooth, layout: Layout, u: Point, L: float, limits: tuple[int, int], enough: Enough
) -> tuple[Point | None, int]:
    """Return the first good enough point, None if only rounding is left, and how many tried."""
    tried = 0
    # Some L of the doubling lies between the largest curvature and twice that.
    while 2.0 * GROWTH * problem.ceiling > L:
        x = u.x - u.gradient / L
        after = problem.at(restricted(x, project(levelled(lengths(x)), layout, *limits)))
        tried += 1
        if enough(problem, u, after, L):
            return after, tried
        L *= GROWTH
    return None, tried


def barzilai_borwein(before: Point, now: Point) -> float:
    """Return the curvature between two points."""
    dx = now.x - before.x
    length = float(np.vdot(dx, dx))
    if length == 0.0:
        return UNIT_CURVATURE
    return max(SMALLEST_CURVATURE, float(np.vdot(dx, now.gradient - before.gradient)) / length)


def sufficient_decrease(problem: Smooth, u: Point, after: Point, L: float) -> bool:
    """Whether ``f(x+) <= f(u) - L delta/2 |x+ - u|^2`` (eq. 4)."""
    step = after.x - u.x
    change = np.vdot(u.gradient, step) + problem.bregman(u, after)
    return bool(change <= -0.5 * L * DECREASE * np.vdot(step, step))


def lipschitz(problem: Smooth, u: Point, after: Point, L: float) -> bool:
    """Whether ``f(x+) <= f(u) + gradient'(x+ - u) + L/2 |x+ - u|^2`` (eq. 3)."""
    step = after.x - u.x
    return bool(problem.bregman(u, after) <= 0.5 * L * np.vdot(step, step))


def _ahead(before: Point, now: Point, momentum: tuple[float, float]) -> Vector:
    """Return ``x_m + (a_(m-1) - 1) / a_m (x_m - x_(m-1))`` (Algorithm 2)."""
    share = (momentum[0] - 1.0) / momentum[1]
    return now.x + share * (now.x - before.x)


def lengths(x: Vector) -> Vector:
    """Return the length of each column's entries over all responses; shape (D,)."""
    return np.abs(x) if x.ndim == 1 else np.asarray(np.linalg.norm(x, axis=0))


def restricted(x: Vector, projection: Vector) -> Vector:
    """Return x on the columns that the projection of its lengths keeps, 0 elsewhere."""
    return np.where(projection != 0, x, 0.0)


def ridges(problem: Correlated) -> list[Vector]:
    """Return ``(G + lambda I)^-1 c`` for each of the `START_RIDGES`."""
    # Factor in place, in one copy: the correlations of 20,000 columns are 3 GB, and
    # `scipy.linalg.solve` would make another copy.
    C = problem.G.copy(order="F")
    work = int(lapack.dsysv_lwork(len(C))[0])
    solutions = []
    for ridge in START_RIDGES:
        C[:] = problem.G
        C[np.diag_indices_from(C)] += ridge
        _, _, solution, info = lapack.dsysv(C, problem.c.T, lwork=work, overwrite_a=True)
        if info:
            raise np.linalg.LinAlgError(f"correlations and {ridge} are singular: dsysv {info}")
        solutions.append(solution.T.reshape(problem.c.shape))
    return solutions


def zero(problem: Correlated) -> list[Vector]:
    """Return 0."""
    return [np.zeros(problem.c.shape)]


#: Starts by the name that users give, before their projection; the best result counts.
STARTS: dict[str, Callable[[Correlated], list[Vector]]] = {"ridge": ridges, "zero": zero}
#: Variants by the name that users give (Table 1).
VARIANTS = {
    "ista": Variant(barzilai_borwein, sufficient_decrease),
    "ista-l": Variant(barzilai_borwein, lipschitz),
    "fista": Variant(barzilai_borwein, lipschitz, accelerated=True),
}
