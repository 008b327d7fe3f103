"""Paths of penalised least squares, by the compiled library.

    minimise  1/2 - c'w + 1/2 w'Gw + penalty P(w)
    P(w) = sum_g norm_g ||w_g|| + sum_j absolute_j |w_j| + 1/2 sum_g square_g ||w_g||^2

The lasso is that of groups of one column each, the elastic net has their squares, too, the
cost-weighted group lasso has ``norm_g = cost(g)``, and the sparse group lasso takes some of both.
The method and its sources stand in `native/src/search/penalised/`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dbselect import _native
from dbselect._native import Penalised
from dbselect.linear.problem import Index, Linear
from dbselect.record.gram import Matrix, Vector


@dataclass(frozen=True, eq=False)
class Path:
    """The minimum at each of L penalties."""

    asked: Penalised  # what is minimised
    penalties: Vector  # shape (L,), falling
    w: Matrix  # shape (L, D), in the unit of the problem
    coef: Matrix  # shape (L, D), on unit-variance columns
    lengths: Matrix  # shape (L, J), ||w_g|| in the unit of the problem
    r2: Vector  # shape (L,), 1 - RSS/TSS
    # shape (L,), duality gaps: how far at most from the minimum, the target having variance 1
    gap: Vector
    # shape (L,), how far at most a group is from its optimality condition, in correlations
    violation: Vector
    entered: list[int]  # numbers of the groups that are ever not 0, in the order of entry
    entered_at: list[int]  # for each of these, the number of the first penalty at which it is not 0
    # the largest condition number at any penalty: what rounding does to coefficients
    condition: float

    def degrees(self) -> Vector:
        """Return ``tr(G_SS (G_SS + penalty P''(w))^-1)``, shape (L,), S not 0; O(|S|^3) each."""
        return _native.penalised_degrees(self.asked, self.penalties, self.w)


def path(
    problem: Linear,
    members: Sequence[Index],
    weights: tuple[Vector, Vector, Vector],
    grid: Vector | tuple[int, float],
    turn: Callable[[], object],
) -> Path:
    """Return the path over falling penalties, some six Newton steps, O(|S|^3 / 3), each.

    The columns of the groups follow one another. `weights` are norm, shape (J,), absolute, (D,),
    and square, (J,), of a penalty of 1; `grid` holds penalties, or how many from the least one on
    at which every group is 0, and the last as a share of it. RecordError if no rows have such
    columns. 16 D^2 bytes, less 8 where the unit is 1.
    """
    unit = problem.unit
    G = problem.G if (unit == 1.0).all() else problem.G * unit * unit[:, None]
    starts = np.cumsum([0, *(len(columns) for columns in members)])
    asked = Penalised(G, problem.c * unit, starts, *weights)
    found = _native.penalised_path(asked, grid, turn)
    penalties, w = found["penalties"], found["w"].reshape(-1, len(unit))
    return Path(
        asked=asked,
        penalties=penalties,
        w=w,
        coef=w * unit,
        lengths=found["lengths"].reshape(len(penalties), -1),
        r2=found["r2"],
        gap=found["gap"],
        violation=found["violation"],
        entered=found["entered"].astype(int).tolist(),
        entered_at=found["entered_at"].astype(int).tolist(),
        condition=float(found["condition"][0]),
    )
