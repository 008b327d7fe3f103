"""Every objective meets its contract: gains and losses are differences of values of refits."""

from functools import cache

import numpy as np
import pytest
import reference
from problems import random_problem, rounding
from test_dash import Dense, state_of
from test_glm import FAMILIES, table
from test_glm_objective import explained_by, objective_of
from test_joint import random_responses
from test_score import GROUPS as SCORED
from test_score import R2, score_of

import dbselect as ds
from dbselect.linear.problem import linear
from dbselect.linear.state import LinearState
from dbselect.objectives.a_optimal import AOptimal
from dbselect.objectives.diversity import Sum

#: Candidates that a walk adds, or removes where they are held.
WALK = [1, 3, 0, 1, 2, 0, 1, 0, 3, 2, 1, 0, 2, 3]


def of_columns(dependent=False, **asked):
    """Return a linear model and its refits; of dependent columns some are aliased."""
    problem = random_problem(np.random.default_rng(2), **asked)
    if dependent:
        X, (first, second) = problem.table.X.copy(), problem.groups["g1"][:2]
        X[:, problem.groups["g3"][0]] = X[:, first] + X[:, second]
        X[:, problem.groups["g0"][0]] = 7.0
        problem = problem.with_table(X=X)
    groups, table = list(problem.groups.values()), problem.table
    members = [np.array(columns) for columns in groups]
    state = LinearState(linear(problem.gram, "y", table.names, table.ridge, table.scale), members)

    def value(held):
        return reference.explained(table, [j for group in sorted(held) for j in groups[group]])

    return state, value, rounding(table)


def of_responses(**asked):
    responses = random_responses(1, **asked)
    problem, table = responses.problem, responses.problem.table
    columns = [name for names in problem.names.values() for name in names]
    ends = np.cumsum([len(names) for names in problem.names.values()])
    together = linear(responses.gram, responses.names, columns, table.ridge, table.scale)
    state = LinearState(together, np.split(np.arange(ends[-1]), ends[:-1]))
    names = list(problem.groups)

    def value(held):
        return responses.in_all(
            reference.explained, responses.columns([names[group] for group in sorted(held)])
        )

    return state, value, rounding(table)


def of_rows(family, weight=None):
    """Return a generalised linear model and what statsmodels explains."""
    frame = table(rows=400)
    value = explained_by(frame, family, weight=weight)
    return objective_of(frame, family, weight=weight), value, 1e-9


def of_score():
    """Return a score, whose sets are evaluated anew, and its function."""
    function, columns = R2(), list(SCORED.values())

    def value(held):
        return R2()([name for group in sorted(held) for name in columns[group]]) - R2()([])

    return score_of(function), value, 1e-12


def of_coverage():
    problem = random_problem(np.random.default_rng(6))
    empty = ds.objectives.coverage(problem.gram, "y", groups=problem.names)

    def value(held):
        other = empty.copy()
        return other.add_all(sorted(held))

    return empty.copy(), value, 1e-12


def of_design():
    """Return rows to choose, and by how much they lower the summed variance of coefficients."""
    X = np.random.default_rng(2).normal(size=(9, 4))

    def value(held):
        own = X[list(held)]
        return 8.0 - np.trace(np.linalg.inv(0.5 * np.eye(4) + own.T @ own / 2.0))

    return AOptimal(X, 0.5, 2.0), value, 1e-12


def of_sum():
    problem = random_problem(np.random.default_rng(6))
    cover = ds.objectives.coverage(problem.gram, "y", groups=problem.names)
    groups = list(problem.groups.values())

    def value(held):
        columns = [j for group in sorted(held) for j in groups[group]]
        return reference.explained(problem.table, columns) + cover.copy().add_all(sorted(held))

    return Sum(state_of(problem), cover.copy()), value, rounding(problem.table)


OBJECTIVES = {
    "linear": of_columns,
    "linear, weighted": lambda: of_columns(weighted=True),
    "linear, ridge": lambda: of_columns(ridge=0.3),
    "linear, ridge on columns as they are": lambda: of_columns(ridge=0.3, scale=False),
    "linear, dependent": lambda: of_columns(dependent=True),
    "responses": of_responses,
    "responses, ridge": lambda: of_responses(ridge=0.3, scale=False),
    **{family: lambda family=family: of_rows(family) for family in [*FAMILIES, "multinomial"]},
    **{f"{name}, weighted": lambda name=name: of_rows(name, "w") for name in FAMILIES},
    "score": of_score,
    "coverage": of_coverage,
    "sum": of_sum,
    "a-optimal design": of_design,
}


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_answers_as_refits_say(name):
    objective, value, tolerance = OBJECTIVES[name]()
    value = cache(value)
    empty = objective.copy()
    close = {"rtol": 1e-9, "atol": tolerance}
    held: list[int] = []
    for group in WALK:
        before, foretold = value(frozenset(held)), objective.gains()[group]
        if group in held:
            loss = objective.losses()[group]
            held.remove(group)
            removed = objective.remove(group)
            np.testing.assert_allclose([removed, loss], before - value(frozenset(held)), **close)
        else:
            held.append(group)
            added = objective.add(group)
            np.testing.assert_allclose([added, foretold], value(frozenset(held)) - before, **close)
        whole, every = frozenset(held), range(objective.size)
        assert sorted(objective.held) == sorted(held)
        np.testing.assert_allclose(objective.value, value(whole), **close)
        gains = [value(whole | {other}) - value(whole) for other in every]
        losses = [value(whole) - value(whole - {other}) for other in every]
        np.testing.assert_allclose(objective.gains(), gains, **close)
        np.testing.assert_allclose(objective.losses(), losses, **close)
        assert (objective.gains()[held] == 0).all()
    # A copy is another: several at once are those one by one, and what was copied stays.
    assert (empty.held, empty.value) == ([], pytest.approx(0.0, abs=tolerance))
    several, fresh = OBJECTIVES[name]()[0], empty.copy()  # the one knows no set yet
    assert several.add_all([3, 0]) == pytest.approx(value(frozenset({0, 3})), abs=tolerance)
    trial = several.copy()
    trial.add_all([2, 1])
    np.testing.assert_allclose(trial.value, value(frozenset({0, 1, 2, 3})), **close)
    fresh.add_all([3, 0])
    np.testing.assert_allclose(several.gains(), fresh.gains(), **close)
    assert (several.held, empty.held) == ([3, 0], [])


def test_an_objective_begins_empty_and_has_its_own_candidates():
    with pytest.raises(ds.errors.ArgumentError, match="objective has 2 candidates selected"):
        ds.greedy(Dense(len, 6, [1, 3]), k=2)
    with pytest.raises(
        ds.errors.ArgumentError,
        match=r"groups is {'a': \['x0'\]}; it is for tables, and source is an objective",
    ):
        ds.reference.top_k(Dense(len, 6), k=2, groups={"a": ["x0"]})
