"""How much any set of groups within a budget can explain.

For any selected groups S and any other groups T ::

    F(S + T) - F(S) <= 1/mu sum_{g in T} gain(g | S)

with mu the least eigenvalue of the conditional covariance of everything unselected, after each
group's own block is whitened. A set within a budget K is then worth at most F(S) plus the best
fractional knapsack of the gains, over mu; and never more than F(all). Every prefix of a sequence
gives such a bound: the least one holds. Of groups that share columns, which are together worth less
than one by one, mu is 0: only F(all) is known.

Source: Hu, Grubb, Bagnell, Hebert (2016), Lemmas 3.1, 3.3, 3.4, where S is empty in mu; Das and
Kempe (2011), Lemma 2.5.
"""

from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg

from dbselect.engine.linear_state import RANK_SHARE, LinearState, by_size, shares_columns
from dbselect.linear.problem import Index, Linear, blocks_of, inverse_root
from dbselect.record.gram import Matrix, Vector
from dbselect.record.steps import BUDGET_SLACK, ROUNDING_GAIN

#: Prefixes at which mu is computed anew: it never falls from one to the next, and an
#: eigenvalue costs as much as many steps.
CHECKPOINTS = 4
#: Rounding of an eigenvalue of a matrix of norm about 1, for each of its rows.
EPS = float(np.finfo(np.float64).eps)

#: Groups of which all sets are tried.
MOST_ENUMERATED = 10

#: The columns of B groups of one size -> B roots W, whose W W' weighs a gradient.
Whitener = Callable[[Linear, Index], Matrix]
#: B whitened blocks -> one number.
Largest = Callable[[Matrix], float]


def upper_bounds(
    problem: Linear, members: Sequence[Index], costs: Vector, order: Sequence[int], budgets: Vector
) -> Vector:
    """Return the most that groups within each budget explain, as shares, (B,); O(D^3 + J^2 B)."""
    state = LinearState(problem, members)
    taken = set(order)
    chain = [*order, *(group for group in range(len(members)) if group not in taken)]
    every = -(-len(chain) // CHECKPOINTS)
    bounds = np.full(len(budgets), np.inf)
    mu = 0.0
    partition = not shares_columns(members)
    for position, group in enumerate(chain):
        if partition and position % every == 0:
            mu = max(mu, _conditional_eigenvalue(state, chain[position:]))
        if mu > 0:
            best = _knapsack(state.gains(), costs, budgets)
            bounds = np.minimum(bounds, state.explained + best / mu)
        state.add(group)
    return np.asarray(np.minimum(bounds, state.explained))


def gamma(
    problem: Linear, members: Sequence[Index], whitener: Whitener, largest: Largest | None = None
) -> float:
    """Return the constant of Theorem 3.2, 0 to 1, for a rule that weighs gradients by W W'.

    ``lambda_min(W' C W) / max_g lambda_max(W_g' C_gg W_g)``, 0 of groups that share columns.
    `largest` stands for lambda_max: by how much the criterion can exceed the gain. O(D^3).
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
    """Return the least ``gain(x | A') / gain(x | A)``, A' in A (eq. 9); None of many groups."""
    count = len(members)
    if count > MOST_ENUMERATED:
        return None
    states, value = [LinearState(problem, members)], np.zeros(1)
    for group in range(count):
        more = [state.copy() for state in states]
        value = np.append(value, [v + s.add(group) for v, s in zip(value, more, strict=True)])
        states += more
    sets, ratio = np.arange(1 << count), 1.0
    for group in range(count):
        without = sets[sets >> group & 1 == 0]
        gain = np.zeros(1 << count)
        gain[without] = value[without | 1 << group] - value[without]
        above = gain.copy()
        for other in range(count):
            own = without[without >> other & 1 == 0]
            above[own] = np.maximum(above[own], above[own | 1 << other])
        shown = without[above[without] > ROUNDING_GAIN]
        ratio = min(ratio, *(gain[shown] / above[shown]))
    return float(max(ratio, 0.0))


def _even_ridge(problem: Linear, buckets: Sequence[tuple[Index, Matrix]]) -> Vector:
    """Return the ridge, at its least in groups whose whitening leaves a direction out."""
    ridge = problem.ridge.copy()
    for columns, roots in buckets:
        partial = columns[np.abs(roots).max(axis=1).min(axis=1) == 0]
        ridge[partial] = ridge[partial].min(axis=1, keepdims=True)
    return ridge


def _conditional_eigenvalue(state: LinearState, groups: Sequence[int]) -> float:
    """Return mu: the groups not selected, given the selected ones, each whitened."""
    columns = np.concatenate([state.members[group] for group in groups])
    C = state.conditional(columns)
    C /= state.problem.deviation[columns]
    C /= state.problem.deviation[columns, None]
    ends = np.cumsum([len(state.members[group]) for group in groups])
    buckets = []
    for _, at in by_size(np.split(np.arange(len(columns)), ends[:-1])):
        blocks = C[at[:, :, None], at[:, None, :]]
        buckets.append((at, inverse_root(blocks, RANK_SHARE)))
    return _least_eigenvalue(C, buckets)


def _least_eigenvalue(C: Matrix, buckets: Sequence[tuple[Index, Matrix]]) -> float:
    """Return lambda_min(W' C W), W block-diagonal, less what rounding may have added."""
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


def _knapsack(gains: Vector, costs: Vector, budgets: Vector) -> Vector:
    """Return the best fractional knapsack of some gains within each budget; shape (B,)."""
    order = np.argsort(-gains / costs, kind="stable")
    gains, costs = gains[order], costs[order]
    limits = budgets[:, None] * (1.0 + BUDGET_SLACK)
    # A group that costs more than the budget is in no set within it.
    size = np.where(costs <= limits, costs, 0.0)
    before = np.cumsum(size, axis=1) - size
    share = np.clip((limits - before) / costs, 0.0, 1.0) * (size > 0)
    return np.asarray(share @ gains)
