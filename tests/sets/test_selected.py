"""Selected: what it passes on from its model, what it costs, and limits of the baselines."""

import numpy as np
import polars as pl
import pytest
from problems import random_problem
from reference import explained
from test_glm import table
from test_glm_objective import objective_of

import dbselect as ds
from dbselect.errors import ArgumentError, GroupError, OptionError, SelectionWarning
from dbselect.results.selected import model_in

GROUPS = {"ab": ["a", "b"], "cd": ["c", "d"], "e": ["e"]}
COSTS = {"ab": 2.0, "cd": 5.0, "e": 0.5}
#: Each method with the options that it cannot do without.
CHOOSERS = [
    (ds.dash, {"k": 2}),
    (ds.greedy, {"k": 2}),
    (ds.exchange, {"k": 2}),
    (ds.reference.top_k, {"k": 2}),
    (ds.reference.random_k, {"k": 2}),
    (ds.sght, {"max_columns": 3, "max_groups": 2}),
]
BASELINES = [ds.greedy, ds.reference.top_k, ds.reference.random_k]

choosers = pytest.mark.parametrize(
    ("method", "asked"), CHOOSERS, ids=[method.__name__ for method, _ in CHOOSERS]
)
baselines = pytest.mark.parametrize("method", BASELINES)


def costs_of(problem, seed=0):
    rng = np.random.default_rng(seed)
    return dict(zip(problem.names, rng.uniform(0.5, 4.0, len(problem.names)), strict=True))


# Costs


@choosers
def test_spent_is_the_summed_cost_of_the_groups_and_costs_choose_nothing(method, asked):
    problem = random_problem(np.random.default_rng(3))
    costs = costs_of(problem)
    plain = method(problem.gram, "y", problem.names, **asked)
    found = method(problem.gram, "y", problem.names, costs, **asked)
    assert found.spent == pytest.approx(sum(costs[group] for group in found.groups))
    assert plain.spent == len(plain.groups)
    assert found.chosen == plain.chosen
    assert found.coefficients == plain.coefficients
    assert found.groups == [list(problem.names)[a] for a in found.chosen]


# Budget and groups to take first


def by_definition(method, value, costs, k, budget, first, order=None):
    """Take one candidate after another among those that still fit, by brute force."""
    held = list(first)
    while len(held) < k:
        spent = sum(costs[a] for a in held)
        fitting = [a for a in range(len(costs)) if a not in held and spent + costs[a] <= budget]
        if not fitting:
            break
        if order is not None:
            held.append(min(fitting, key=order.index))
        elif method is ds.greedy:
            held.append(max(fitting, key=lambda a: value([*held, a])))
        else:
            held.append(max(fitting, key=lambda a: value([a])))
    return held


@pytest.mark.parametrize("method", [ds.greedy, ds.reference.top_k])
@pytest.mark.parametrize("seed", range(4))
def test_baselines_take_the_best_of_what_fits(method, seed):
    problem = random_problem(np.random.default_rng(seed))
    costs, names = costs_of(problem, seed), list(problem.names)
    members = list(problem.groups.values())

    def value(held):
        return explained(problem.table, [j for a in held for j in members[a]])

    for k in (1, 3, 6):
        for budget in (0.1, 2.0, 5.0, 100.0):
            for first in ([], [4], [5, 1]):
                spent = sum(costs[names[a]] for a in first)
                if spent > budget or len(first) > k:
                    continue
                found = method(
                    problem.gram, "y", problem.names, costs, k=k, budget=budget,
                    always=[names[a] for a in first],
                )  # fmt: skip
                expected = by_definition(method, value, list(costs.values()), k, budget, first)
                assert list(found.chosen) == expected
                assert found.spent == pytest.approx(sum(costs[names[a]] for a in expected))
                assert found.diagnostics.value == pytest.approx(found.explained, abs=1e-12)


@baselines
def test_groups_to_take_first_come_first_and_count(method):
    objective = objective_of(table(rows=200), "binomial", GROUPS)
    found = method(objective, costs=COSTS, k=2, always=["e"], budget=3.0)
    assert found.groups == ["e", "ab"]
    assert found.spent == 2.5
    assert method(objective, costs=COSTS, k=1, always=["cd"]).groups == ["cd"]
    with pytest.raises(ArgumentError, match="always names 2 groups; k allows 1"):
        method(objective, k=1, always=["e", "ab"])
    with pytest.raises(ArgumentError, match="always costs 5 in all; that is over the budget"):
        method(objective, costs=COSTS, k=1, always=["cd"], budget=4.0)
    with pytest.raises(GroupError, match="always names unknown group 'zz'"):
        method(objective, k=1, always=["zz"])


@baselines
def test_nothing_fits_gives_the_model_without_columns(method):
    problem = random_problem(np.random.default_rng(0))
    found = method(problem.gram, "y", problem.names, k=2, budget=0.5)
    assert (found.groups, found.columns, found.spent, found.r2) == ([], [], 0.0, 0.0)
    assert found.intercept == pytest.approx(np.average(problem.table.y))
    glm = method(objective_of(table(rows=100), "binomial"), k=2, budget=0.5)
    assert (glm.groups, glm.explained) == ([], 0.0)


# What a Selected passes on


@choosers
def test_what_the_model_has_can_be_asked_of_selected(method, asked):
    frame = random_problem(np.random.default_rng(5)).table.frame.drop("w")
    found = method(frame, "y", **asked)
    model = found.model
    assert isinstance(model, ds.results.Model)
    for name in (
        "columns", "groups", "spent", "explained", "r2", "coefficients", "intercept", "aliased",
        "target",
    ):  # fmt: skip
        assert getattr(found, name) == getattr(model, name)
    assert found.sql() == model.sql()
    assert found.sql(nested=False) == model.sql(nested=False)
    np.testing.assert_array_equal(found.predict(frame), model.predict(frame))
    by_expr = frame.select(found.expr().alias("p"))["p"].to_numpy()
    np.testing.assert_allclose(by_expr, model.predict(frame), rtol=1e-12)
    with pytest.warns(SelectionWarning) as caught:
        found.summary()
    assert caught[0].filename == __file__
    in_time = frame.with_row_index("t")
    errors = [one.robust_errors(in_time, time="t", maxlags=2) for one in (found, model)]
    with pytest.warns(SelectionWarning):
        assert errors[0].summary().equals(errors[1].summary())
    gram = ds.gram(frame)
    assert ds.evaluate(found, gram).equals(ds.evaluate(model, gram))
    assert model_in(found) is model
    assert repr(found) == (
        f"Selected({method.__name__}: {', '.join(model.groups)}; "
        f"explained {model.explained:.4f}, spent 2; 40 rows)"
    )


@choosers
def test_a_selected_glm_has_no_r2_and_one_way_it_was_found(method, asked):
    frame = table(rows=100)
    found = method(objective_of(frame, "binomial"), **asked)
    np.testing.assert_array_equal(found.predict(frame), found.model.predict(frame))
    with pytest.raises(ArgumentError, match="a GlmModel has no r2; see explained"):
        found.r2  # noqa: B018
    if method is ds.sght:
        assert found.history is found.how.history
        assert found.converged is found.how.converged
        assert found.iterations == len(found.history) - 1
        with pytest.raises(ArgumentError, match="sght has no diagnostics; it has history"):
            found.diagnostics  # noqa: B018
    else:
        assert found.diagnostics is found.how
        for name in ("history", "converged", "iterations"):
            with pytest.raises(
                ArgumentError, match=r"has no history, converged and iterations; it has diagnostics"
            ):
                getattr(found, name)


def test_a_joint_model_has_responses_in_place_of_a_target():
    frame = random_problem(np.random.default_rng(5)).table.frame.drop("w")
    both = frame.with_columns(z=pl.col("y") ** 2)
    found = ds.sght(both, ["y", "z"], max_columns=2, max_groups=2)
    assert found.coefficients == found.model.coefficients
    assert found.r2 == found.model.r2
    assert found.predict(both).shape == (both.height, 2)
    with pytest.raises(ArgumentError, match="a JointModel has no target"):
        found.target  # noqa: B018
    gram = ds.gram(both)
    assert ds.evaluate(found, gram).equals(ds.evaluate(found.model, gram))


@pytest.mark.parametrize("method", [ds.dash, *BASELINES])
def test_other_objectives_have_candidates_and_no_model(method):
    frame = random_problem(np.random.default_rng(5)).table.frame.drop("w")
    cover = ds.objectives.coverage(frame, "y", reward=1.0)
    found = method(cover, k=2)
    assert found.model is None
    assert len(set(found.chosen)) == 2
    listed = ", ".join(map(str, found.chosen))
    value = found.diagnostics.value
    assert repr(found) == f"Selected({method.__name__}: candidates {listed}; value {value:.4f})"
    for name in ("spent", "groups", "coefficients", "summary"):
        with pytest.raises(ArgumentError, match="model is None; the objective has no model"):
            getattr(found, name)
    with pytest.raises(ArgumentError, match="sequence is a Selected; it must be a Sequence"):
        ds.evaluate(found, ds.gram(frame))
    with pytest.raises(ArgumentError, match=r"costs is .*; it is for groups, and a Coverage has"):
        method(cover, costs={"x0": 1.0}, k=2)
    with pytest.raises(ArgumentError, match="family is 'poisson'; it is for tables"):
        method(cover, k=2, family="poisson")
    if method is not ds.dash:
        with pytest.raises(ArgumentError, match=r"budget is 1\.0; it is for groups"):
            method(cover, k=2, budget=1.0)
        with pytest.raises(ArgumentError, match=r"always is \('x0',\); it is for groups"):
            method(cover, k=2, always=["x0"])


# Options


def test_a_limit_without_a_default_has_to_be_given():
    problem = ds.Problem(table(rows=60), "y")
    with pytest.raises(OptionError, match="dash needs option 'k'"):
        problem.dash()
    with pytest.raises(OptionError, match="sght needs option 'max_groups'"):
        problem.sght(max_columns=2)
    with pytest.raises(ArgumentError, match=r"similarity is 1\.0; it must lie"):
        problem.coverage(similarity=1.0)
