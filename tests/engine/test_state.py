"""A state that groups went in and out of, against a fresh one and against numpy's lstsq."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbselect as ds
from dbselect.linear.problem import Linear, linear
from dbselect.linear.state import LinearState

ROWS = 200
#: What of a column is its own: a share of it, and less than rounding leaves.
NEAR, ROUNDING = (1e-2, 1e-3, 1e-5), 1e-9
#: Singular values below this share are dependences.
SINGULAR_SHARE = 1e-7


def digits(near: float) -> float:
    """Return the error of a gain: some roundings, as a share of the variance that is left."""
    return 1e-14 / near**2


def tangled(
    rng: np.random.Generator, near: float
) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """Return columns of every kind of dependence, a target, and groups that mix them."""
    own = rng.standard_normal((ROWS, 6))
    none = rng.random(ROWS) < 0.2
    levels = [np.where(none, 0, rng.integers(1, 4, ROWS)) for _ in range(2)]
    indicators = [k[:, None] == np.arange(4) for k in levels]  # two share the first level
    X = np.column_stack([
        own,
        *indicators,
        levels[0] % 2 == 0,  # a coarser category
        own[:, 0],
        own[:, 1] - 2 * own[:, 2] + indicators[0][:, 1],
        own[:, 3] + near * rng.standard_normal(ROWS),
        own[:, 4] - 2 * near * rng.standard_normal(ROWS),
        own[:, 5] + ROUNDING * rng.standard_normal(ROWS),
        np.full(ROWS, 3.0),
    ]).astype(float)  # fmt: skip
    y = X @ rng.standard_normal(X.shape[1]) + rng.standard_normal(ROWS)
    order = rng.permutation(X.shape[1])
    ends = np.sort(rng.choice(np.arange(1, len(order)), 8, replace=False))
    apart = [part.tolist() for part in np.split(order, ends)]
    whole = [[j] for j in [*range(6), *range(14, 20)]] + [[*range(6, 10)], [*range(10, 14)]]
    return X, y, [apart, whole][rng.integers(2)]


def problem_of(X: np.ndarray, y: np.ndarray, ridge: float) -> Linear:
    names = [f"x{j}" for j in range(X.shape[1])]
    gram = ds.gram(np.column_stack([X, y]), columns=[*names, "y"])
    return linear(gram, "y", names, ridge)


def fresh(state: LinearState) -> LinearState:
    """Return a state to which the same groups were added, in the same order."""
    made = LinearState(state.problem, state.members)
    for group in state.held:
        made.add(group)
    return made


def check_against_fresh(state: LinearState, near: float = NEAR[0]) -> None:
    expected = fresh(state)
    assert state.held == expected.held
    assert sorted(state.support) == sorted(expected.support)
    assert sorted(state.aliased) == sorted(expected.aliased)
    error = {"rtol": 0, "atol": digits(near)}
    apart = state.coef() - expected.coef()
    np.testing.assert_allclose(np.sqrt(max(apart @ state.problem.G @ apart, 0)), 0, **error)
    np.testing.assert_allclose(state.explained, expected.explained, **error)
    np.testing.assert_allclose(state.b, expected.b, **error)
    np.testing.assert_allclose(state.gains(), expected.gains(), **error)
    np.testing.assert_allclose(state.losses(), expected.losses(), **error)


def check_against_lstsq(state: LinearState, X: np.ndarray, y: np.ndarray, near: float) -> None:
    columns = np.concatenate([state.members[g] for g in state.held]).astype(int)
    centred = X - X.mean(axis=0)
    deviation = centred.std(axis=0)
    unit = centred / np.where(deviation > 1e-12, deviation, 1.0)
    response = (y - y.mean()) / y.std()
    solution, _, rank, _ = np.linalg.lstsq(unit[:, columns], response, rcond=SINGULAR_SHARE)
    assert len(state.support) == rank
    error = digits(near) + 10 * ROUNDING  # lstsq keeps the part that is rounding here
    np.testing.assert_allclose(unit @ state.coef(), unit[:, columns] @ solution, atol=error)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from(NEAR), st.sampled_from([0.0, 0.1]))
def test_a_walk_of_additions_and_removals_ends_where_a_fresh_state_does(seed, near, ridge):
    error = {"rtol": 0, "atol": digits(near)}
    rng = np.random.default_rng(seed)
    X, y, groups = tangled(rng, near)
    state = LinearState(problem_of(X, y, ridge), [np.array(group) for group in groups])
    for _ in range(30):
        group = int(rng.integers(len(groups)))
        if group in state.held:
            before, foretold = state.explained, state.losses()[group]
            loss = state.remove(group)
            np.testing.assert_allclose(before - state.explained, loss, **error)
            # what is foretold keeps a column whose copy, all but its rounding, comes in its stead
            np.testing.assert_allclose(foretold, loss, rtol=0, atol=digits(near) + ROUNDING)
        else:
            state.add(group)
        check_against_fresh(state, near)
        if state.held and not ridge:
            check_against_lstsq(state, X, y, near)


def walk(state: LinearState, rng: np.random.Generator, turns: int) -> int:
    """Add and remove at random; return the number of removals."""
    removals = 0
    for _ in range(turns):
        group = int(rng.integers(state.size))
        if group in state.held:
            state.remove(group)
            removals += 1
        else:
            state.add(group)
    return removals


def categories(rng: np.random.Generator) -> LinearState:
    """Return a state of numbers and categories that depend on each other."""
    X = np.column_stack([
        rng.standard_normal((ROWS, 4)),
        *((k := rng.integers(0, 6, ROWS))[:, None] == np.arange(6), k[:, None] % 3 == np.arange(3)),
    ]).astype(float)  # fmt: skip
    y = X @ rng.standard_normal(X.shape[1]) + rng.standard_normal(ROWS)
    members = [np.array([j]) for j in range(4)] + [np.arange(4, 10), np.arange(10, 13)]
    return LinearState(problem_of(X, y, 0.0), members)


def test_hundreds_of_removals_leave_no_errors_behind():
    rng = np.random.default_rng(4)
    state = categories(rng)
    assert walk(state, rng, 400) > 100
    check_against_fresh(state)


def test_a_column_that_a_removal_makes_rounding_is_decided_anew():
    """Nearly equal columns, of which the removal of a third leaves more or less."""
    rng = np.random.default_rng(6)
    base, noise = rng.standard_normal((2, ROWS))
    X = np.column_stack([base, base + 3e-6 * noise, noise, base + 5e-6 * noise])
    y = X @ [1.0, 2.0, 3.0, 0.0] + rng.standard_normal(ROWS)
    state = LinearState(problem_of(X, y, 0.0), [np.array([j]) for j in range(4)])
    for removed in range(4):
        for group in set(range(4)) - set(state.held):
            state.add(group)
        state.remove(removed)
        check_against_fresh(state)
