"""Constants of approximation guarantees, which measure dependence between groups.

Source: Hu, Grubb, Bagnell, Hebert (2016), Theorem 3.2 and equation 9.
"""

from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg

from dbselect.linear.problem import Index, Linear, blocks_of
from dbselect.linear.state import LinearState, by_size, shares_columns
from dbselect.record.gram import Matrix, Vector
from dbselect.record.steps import ROUNDING_GAIN

#: Rounding error of an eigenvalue of a matrix of norm about 1, per row.
EPS = float(np.finfo(np.float64).eps)

#: Largest number of groups for which all subsets are tried.
MOST_ENUMERATED = 10

#: The columns of B groups of one size -> B matrices W, where W W' weights a gradient.
Whitener = Callable[[Linear, Index], Matrix]
#: B whitened blocks -> one number.
Largest = Callable[[Matrix], float]


def gamma(
    problem: Linear, members: Sequence[Index], whitener: Whitener, largest: Largest | None = None
) -> float:
    """Return the constant of Theorem 3.2, 0 to 1, for a rule that weights gradients by W W'.

    ``lambda_min(W' C W) / max_g lambda_max(W_g' C_gg W_g)``; 0 if groups share columns. `largest`
    replaces lambda_max, by which the criterion may exceed the gain. O(D^3).
    """
    if shares_columns(members):
        return 0.0
    buckets = [(columns, whitener(problem, columns)) for _, columns in by_size(members)]
    C = problem.G.copy()
    C[np.diag_indices_from(C)] += _even_ridge(problem, buckets)
    excess = max(
        (largest or (lambda blocks: float(np.linalg.eigvalsh(blocks).max())))(
            roots.transpose(0, 2, 1) @ blocks_of(problem, columns) @ roots
        )
        for columns, roots in buckets
    )
    return _least_eigenvalue(C, buckets) / excess if excess > 0 else 0.0


def submodularity(problem: Linear, members: Sequence[Index]) -> float | None:
    """Return the least ``gain(x | A') / gain(x | A)``, A' in A (eq. 9); None for many groups."""
    count = len(members)
    if count > MOST_ENUMERATED:
        return None
    value = np.zeros(1 << count)
    _explain(LinearState(problem, members), count, 0, value)
    sets, ratio = np.arange(1 << count), 1.0
    for group in range(count):
        without = sets[sets >> group & 1 == 0]
        gain = np.zeros(1 << count)
        gain[without] = value[without | 1 << group] - value[without]
        above = gain.copy()
        for other in range(count):
            subsets = without[without >> other & 1 == 0]
            above[subsets] = np.maximum(above[subsets], above[subsets | 1 << other])
        positive = without[above[without] > ROUNDING_GAIN]
        ratio = min(ratio, *(gain[positive] / above[positive]))
    return float(max(ratio, 0.0))


def _explain(state: LinearState, last: int, number: int, value: Vector) -> None:
    """Fill `value` for bitmask `number` plus every subset of the groups before `last`."""
    for group in range(last):
        more, larger = state.copy(), number | 1 << group
        value[larger] = value[number] + more.add(group)
        _explain(more, group, larger, value)


def _even_ridge(problem: Linear, buckets: Sequence[tuple[Index, Matrix]]) -> Vector:
    """Return the ridge, replaced by its minimum in groups whose whitening has lower rank."""
    ridge = problem.ridge.copy()
    for columns, roots in buckets:
        partial = columns[np.abs(roots).max(axis=1).min(axis=1) == 0]
        ridge[partial] = ridge[partial].min(axis=1, keepdims=True)
    return ridge


def _least_eigenvalue(C: Matrix, buckets: Sequence[tuple[Index, Matrix]]) -> float:
    """Return lambda_min(W' C W), W block-diagonal, minus a bound on rounding error."""
    half, white = np.empty_like(C), np.empty_like(C)
    kept = np.zeros(len(C), dtype=bool)
    for columns, roots in buckets:
        half[:, columns] = (C[:, columns].transpose(1, 0, 2) @ roots).transpose(1, 0, 2)
        kept[columns] = roots.any(axis=1)
    for columns, roots in buckets:
        white[columns] = roots.transpose(0, 2, 1) @ half[columns]
    if not kept.any():
        return 1.0
    white = white[np.ix_(kept, kept)]
    least = scipy.linalg.eigvalsh(white, subset_by_index=(0, 0), overwrite_a=True)[0]
    return max(float(least) - len(white) * EPS, 0.0)
