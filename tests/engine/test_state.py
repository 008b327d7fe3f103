"""A state that groups went in and out of, against a fresh one."""

import numpy as np

import dbselect as ds
from dbselect.linear.problem import Linear, linear
from dbselect.linear.state import LinearState

ROWS = 200
#: What of a column is its own: a share of it, and less than rounding leaves.
NEAR, ROUNDING = (1e-2, 1e-3, 1e-5), 1e-9


def digits(near: float) -> float:
    """Return the error of a gain: some roundings, as a share of the variance that is left."""
    return 1e-14 / near**2


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
