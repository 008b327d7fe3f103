"""The library's state of a linear model: handles, rows on demand, responses, shared columns."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from dbselect._native import LinearProblem
from dbselect.errors import DataError
from dbselect.linear.problem import Index, Linear
from dbselect.linear.state import LinearState

ROWS, EPS = 60, 1e-12
GROUPS = [np.array(columns) for columns in ([0, 1, 2], [3], [4, 5], [6], [7, 8])]
#: Columns in any order, some in several groups, some in none.
SHARED = [np.array(columns) for columns in ([5, 1], [1, 7], [3], [7, 3, 0], [8])]


@dataclass(frozen=True)
class Unread(Linear):
    """A problem whose rows are read as they are needed, of which some reads may fail."""

    whole: Linear | None = None
    errors: list[BaseException] = field(default_factory=list)
    asked: list[list[int]] = field(default_factory=list)

    @property
    def variances(self):
        return self.whole.variances

    def rows(self, columns: Index):
        self.asked.append(columns.tolist())
        if self.errors:
            raise self.errors.pop()
        return self.whole.rows(columns)

    def block(self, columns: Index):
        return self.whole.block(columns)

    def blocks(self, columns: Index):
        return self.whole.blocks(columns)


def rows_of(responses: int = 1, width: int = 9) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, width)) @ rng.standard_normal((width, width))
    Y = X @ rng.standard_normal((width, responses)) + 5 * rng.standard_normal((ROWS, responses))
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    return X / np.sqrt((X**2).sum(axis=0)), Y / np.sqrt((Y**2).sum(axis=0) * responses)


def problem_of(X: np.ndarray, Y: np.ndarray, ridge: float = 0.0) -> Linear:
    one = np.ones(X.shape[1])
    c = Y.T @ X
    c = c[0] if len(c) == 1 else c
    return Linear(X.T @ X, c, ridge * one, one, one, one == 0, 0 * one, 0.0, 1.0)


def unread(problem: Linear) -> Unread:
    parts = vars(replace(problem, G=np.empty((0, 0))))
    return Unread(**parts, whole=problem)


def explained(X: np.ndarray, Y: np.ndarray, columns: set[int], ridge: float) -> float:
    """Return by how much least squares with a ridge lower the objective, by more rows."""
    at = sorted(columns)
    if not at:
        return 0.0
    A = np.vstack([X[:, at], np.sqrt(ridge) * np.eye(len(at))])
    y = np.vstack([Y, np.zeros((len(at), Y.shape[1]))])
    solution = np.linalg.lstsq(A, y, rcond=None)[0]
    return float((Y**2).sum() - ((y - A @ solution) ** 2).sum())


@pytest.mark.parametrize("on_demand", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("responses", [1, 3])
@pytest.mark.parametrize("groups", [GROUPS, SHARED], ids=["apart", "shared"])
def test_values_gains_and_losses_are_those_of_refits(groups, responses, ridge, on_demand):
    X, Y = rows_of(responses)
    problem = problem_of(X, Y, ridge)
    state = LinearState(unread(problem) if on_demand else problem, groups)
    held: list[int] = []

    def value(numbers: list[int]) -> float:
        return explained(X, Y, {j for g in numbers for j in groups[g].tolist()}, ridge)

    for group in [1, 3, 0, 1, 2, 0, 4, 1]:
        before = value(held)
        if group in held:
            held.remove(group)
            assert state.remove(group) == pytest.approx(before - value(held), abs=EPS)
        else:
            held.append(group)
            assert state.add(group) == pytest.approx(value(held) - before, abs=EPS)
        assert sorted(state.held) == sorted(held)
        assert state.explained == pytest.approx(value(held), abs=EPS)
        rest = [g for g in range(len(groups)) if g not in held]
        gains, losses = np.zeros((2, len(groups)))
        gains[rest] = [value([*held, g]) - value(held) for g in rest]
        losses[held] = [value(held) - value([h for h in held if h != g]) for g in held]
        np.testing.assert_allclose(state.gains(), gains, rtol=0, atol=EPS)
        np.testing.assert_allclose(state.losses(), losses, rtol=0, atol=EPS)
        columns = {j for g in held for j in groups[g].tolist()}
        assert (set(state.support), state.aliased) == (columns, [])
        coef = np.atleast_2d(state.coef())
        np.testing.assert_allclose(
            state.b, np.atleast_2d(problem.c) - coef @ (problem.G + ridge * np.eye(9)), atol=EPS
        )


def test_copies_change_alone_and_a_pickle_has_the_same_groups():
    problem = problem_of(*rows_of())
    state = LinearState(problem, SHARED)
    state.add_all([3, 1])
    copies = [
        state.copy(),
        copy.copy(state),
        copy.deepcopy(state),
        pickle.loads(pickle.dumps(state)),
    ]
    for other in copies:
        np.testing.assert_allclose(other.gains(), state.gains(), atol=EPS)
        other.remove(3)
        other.add(2)
        assert (other.held, state.held) == ([1, 2], [3, 1])
    assert not any(own.held != [1, 2] for own in copies)


def test_what_reading_rows_raises_comes_out_and_nothing_changes():
    problem = unread(problem_of(*rows_of(), ridge=0.1))
    state = LinearState(problem, SHARED)
    state.add(1)
    gains, read = state.gains(), len(problem.asked)
    for error in (ValueError("no rows"), KeyboardInterrupt()):
        problem.errors.append(error)
        with pytest.raises(type(error)):
            state.add_all([0, 3])
        assert state.held == [1]
        np.testing.assert_array_equal(state.gains(), gains)
    assert problem.asked[read:] == [[0, 1, 3, 5, 7]] * 2  # all in one go
    state.add_all([0, 3])
    # Column 1 comes from group 0 once group 1 goes: its rows are read again.
    problem.errors.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        state.remove(1)
    assert state.held == [1, 0, 3]
    state.remove(1)
    assert sorted(state.support) == [0, 1, 3, 5, 7]


def test_copies_read_rows_at_once_each_of_its_own():
    X, Y = rows_of()
    both = threading.Barrier(2, timeout=900)
    problem = unread(problem_of(X, Y))
    rows, failing = problem.whole.rows, threading.local()

    def wait(columns):
        both.wait()
        if getattr(failing, "fails", False):
            raise ValueError("no rows")
        return rows(columns)

    object.__setattr__(problem, "rows", wait)
    state = LinearState(problem, GROUPS)

    def add(group: int):
        failing.fails = group == 2
        return state.copy().add(group)

    with ThreadPoolExecutor(2) as pool:
        gains = [pool.submit(add, group) for group in (0, 4)]
        expected = [explained(X, Y, set(GROUPS[group].tolist()), 0.0) for group in (0, 4)]
        assert [gain.result() for gain in gains] == pytest.approx(expected, abs=EPS)
        fails, reads = pool.submit(add, 2), pool.submit(add, 1)
        assert reads.result() == pytest.approx(explained(X, Y, {3}, 0.0), abs=EPS)
        with pytest.raises(ValueError, match="no rows"):
            fails.result()


def test_what_fits_no_problem_is_refused():
    problem = problem_of(*rows_of())
    with pytest.raises(DataError, match="a group has column 9; there are 9"):
        LinearState(problem, [np.array([0, 9])])
    none = np.zeros(2)
    with pytest.raises(DataError, match="has no correlations"):
        LinearProblem([np.array([0])], none[None], none, none, none, none > 0).state()
    state = LinearState(problem, GROUPS)
    state.add(2)
    for groups in ([2], [0, 0], [5]):
        with pytest.raises(DataError, match="to be selected"):
            state.add_all(groups)
    for group in (0, 5):
        with pytest.raises(DataError, match=f"group {group} is not selected"):
            state.remove(group)
    assert state.held == [2]


def test_what_a_call_calls_cannot_read_the_state():
    problem, errors = unread(problem_of(*rows_of())), []

    def read(*_):
        with pytest.raises(DataError, match="the state is in use") as error:
            state.gains()
        errors.append(error)

    def rows(columns):
        read()
        return problem.whole.rows(columns)

    object.__setattr__(problem, "rows", rows)
    state = LinearState(problem, GROUPS)
    state.selection.greedy("fr", np.ones(5), read, max_groups=2)
    assert (len(errors), len(state.held)) == (4, 2)  # two reads and two steps


def test_threads_take_turns():
    X, Y = rows_of(3)
    state = LinearState(problem_of(X, Y), GROUPS)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(state.add, range(len(GROUPS))))
    assert sorted(state.held) == [0, 1, 2, 3, 4]
    assert state.explained == pytest.approx(explained(X, Y, set(range(9)), 0.0), abs=EPS)


def test_more_columns_than_are_added_at_once_are_those_of_one_by_one():
    X, Y = rows_of(2, width=50)
    X = np.column_stack([X, X[:, :40] + X[:, 1:41], X @ np.ones(50)])
    problem = problem_of(X, Y)
    groups = np.split(np.arange(91), range(3, 91, 3))
    once, each = LinearState(problem, groups), LinearState(problem, groups)
    gain = once.add_all(range(len(groups)))
    assert gain == pytest.approx(sum(each.add(group) for group in range(len(groups))), abs=EPS)
    assert once.support == each.support == list(range(50))
    assert once.aliased == each.aliased == list(range(50, 91))
