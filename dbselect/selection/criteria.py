"""What each rule maximises per unit of cost, as a share of the target's variance.

A rule makes a criterion for one problem; the criterion maps the state of the
search to one number a group. The greedy loop divides by the costs.
"""

from collections.abc import Callable

import numpy as np

from dbselect.gram import Matrix, Vector
from dbselect.objectives.linear import State
from dbselect.sequence import ROUNDING_GAIN

#: Eigenvalues of a group's correlation below this share of the largest count as 0.
EIGENVALUE_SHARE = 1e-12
#: A whitened squared gradient below this is rounding: a correlation errs by some 1e-15,
#: which whitening divides by an eigenvalue.
ROUNDING_GRADIENT = 1e-15**2 / EIGENVALUE_SHARE

Criterion = Callable[[State], Vector]


def forward_regression(_: State) -> Criterion:
    """CS-G-FR: the exact gain, ``b_g' (C_gg|S)^-1 b_g``."""
    return lambda state: _above(state.gains(), ROUNDING_GAIN)


def orthogonal_matching_pursuit(state: State) -> Criterion:
    """CS-G-OMP: the gradient whitened within the group, ``b_g' (G_gg)^-1 b_g``."""
    sizes = np.array([len(columns) for columns in state.members])
    whiteners = []
    for size in np.unique(sizes):
        groups = np.flatnonzero(sizes == size)
        columns = np.stack([state.members[group] for group in groups.tolist()])
        blocks = state.problem.G[columns[:, :, None], columns[:, None, :]]
        whiteners.append((groups, columns, _inverse_root(blocks)))

    def criterion(state: State) -> Vector:
        scores = np.zeros(len(state.members))
        for groups, columns, root in whiteners:
            white = np.einsum("bij,bi->bj", root, state.b[columns])
            scores[groups] = np.einsum("bj,bj->b", white, white)
        return _above(scores, ROUNDING_GRADIENT)

    return criterion


def _above(values: Vector, rounding: float) -> Vector:
    """Return 0 for what is rounding, so that it is a tie."""
    return np.where(values > rounding, values, 0.0)


def _inverse_root(blocks: Matrix) -> Matrix:
    """Return W with ``W W' = G_gg^+`` for B groups of s columns; shape (B, s, s)."""
    values, vectors = np.linalg.eigh(blocks)
    kept = values > EIGENVALUE_SHARE * values[:, -1:]
    return np.asarray(
        vectors * np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)[:, None]
    )


#: Rules by the name that users give.
RULES: dict[str, Callable[[State], Criterion]] = {
    "fr": forward_regression,
    "omp": orthogonal_matching_pursuit,
}
