"""The cost-weighted group lasso: its path over the penalty, and the order of entry.

    minimise  1/2 - c'w + 1/2 w'Gw + penalty sum_g cost(g) ||w_g||

over falling penalties, each from the minimum at the one before. All groups are 0 from
``max_g ||c_g|| / cost(g)`` on, where the path starts. Groups are ordered by the penalty
at which they are first not 0. Of those that enter at the same penalty, the one nearest
to entering at the penalty before goes first, by ``||b_g|| / cost(g)``, b = c - Gw: the
first of all has the largest ``||c_g|| / cost(g)``, but on a grid so coarse that it is 0
again at the second penalty. Ties go to the group named first.

The duality gap takes ``s r`` for the dual point, r the residual and s the largest share
<= 1 that is feasible, ``s ||b_g|| <= penalty cost(g)``. As ``y'r = r'r + b'w``, it is
``penalty sum_g cost(g) ||w_g|| - s b'w + (1 - s)^2 r'r / 2``, which loses no digits.

Source: the baseline Sparse of Hu, Grubb, Bagnell, Hebert (2016), section 5.2, which fits rows
by SPAMS; Yuan, Lin (2006) for the group lasso.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dbselect.linear.problem import Linear
from dbselect.record.gram import Matrix, Vector
from dbselect.record.groups import Groups
from dbselect.selection.group_norms import Quadratic, minimise
from dbselect.selection.ties import Mask, first_of_the_best


@dataclass(frozen=True, eq=False)
class Path:
    """The minimum at each of L penalties.

    Parameters
    ----------
    penalties : shape (L,), falling
    coef : shape (L, D), on unit-variance columns
    lengths : shape (L, J), ||w_g|| in the unit of the problem
    r2 : shape (L,), 1 - RSS/TSS
    gap : shape (L,), duality gaps: how far at most from the minimum, the target having
        variance 1
    entered : numbers of the groups that are ever not 0, in the order of entry
    entered_at : for each of these, the number of the first penalty at which it is not 0
    """

    penalties: Vector
    coef: Matrix
    lengths: Matrix
    r2: Vector
    gap: Vector
    entered: list[int]
    entered_at: list[int]


def path(
    problem: Linear,
    groups: Groups,
    *,
    n_penalties: int,
    smallest: float,
    turn: Callable[[], object] = lambda: None,
) -> Path:
    """Return the path over a geometric grid of penalties.

    Parameters
    ----------
    problem : Linear; norms are taken in its `unit`
    groups : Groups, whose costs count
    n_penalties : >= 2
    smallest : in (0, 1), the last penalty as a share of the first
    turn : is called after each penalty

    Notes
    -----
    Some six Newton steps a penalty, O(|S|^3 / 3) each for |S| columns that are not 0;
    24 D^2 bytes.
    """
    G = problem.G * problem.unit * problem.unit[:, None]
    quadratic = Quadratic(G, problem.c * problem.unit, groups.positions)
    first = (quadratic.norms(quadratic.c) / groups.costs).max()
    penalties = first * np.geomspace(1.0, smallest, n_penalties)
    limits = penalties[:, None] * groups.costs
    w = np.zeros((n_penalties, len(quadratic.c)))
    for i in range(1, n_penalties):
        w[i] = minimise(quadratic, limits[i], w[i - 1])
        turn()

    b = quadratic.c - w @ G
    lengths, gradients = quadratic.norms(w), quadratic.norms(b)
    rss = np.maximum(1.0 - np.einsum("ij,ij->i", quadratic.c + b, w), 0.0)
    entered, entered_at = _entries(lengths > 0, gradients / groups.costs)
    return Path(
        penalties=penalties,
        coef=w * problem.unit,
        lengths=lengths,
        r2=1.0 - rss,
        gap=_gaps(limits, lengths, gradients, np.einsum("ij,ij->i", b, w), rss),
        entered=entered,
        entered_at=entered_at,
    )


def _gaps(limits: Matrix, lengths: Matrix, gradients: Matrix, bw: Vector, rss: Vector) -> Vector:
    """Return the duality gap at each penalty, from ||w_g||, ||b_g||, b'w and r'r."""
    shares = np.divide(limits, gradients, out=np.ones_like(limits), where=gradients > limits)
    share = shares.min(axis=1)
    gap = np.einsum("ij,ij->i", limits, lengths) - share * bw + (1.0 - share) ** 2 * rss / 2
    # Rounding may leave a gap of nothing just below 0.
    return np.asarray(np.maximum(gap, 0.0))


def _entries(held: Mask, nearness: Matrix) -> tuple[list[int], list[int]]:
    """Return the groups in the order of entry, and where each of them enters."""
    entered: list[int] = []
    entered_at: list[int] = []
    for i in range(1, len(held)):
        entering = held[i] & ~held[:i].any(axis=0)
        while entering.any():
            entered.append(first_of_the_best(nearness[i - 1], entering))
            entered_at.append(i)
            entering[entered[-1]] = False
    return entered, entered_at
