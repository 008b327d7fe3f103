"""Each rule against its definition, by the same name through every door."""

from itertools import accumulate

import numpy as np
import polars as pl
import pytest
import reference
from polars.testing import assert_frame_equal
from problems import Problem, random_problem, rounding
from reference import Table

import dbselect as ds
from dbselect.selection.criteria import RULES


def assert_equals_brute_force(problem: Problem, rule: str, **limits) -> None:
    expected = reference.greedy(problem.table, problem.groups, problem.costs, rule, **limits)
    steps = problem.sequence(rule=rule, **limits).steps[1:].select(reference.Step._fields)
    tolerance = rounding(problem.table)
    assert_frame_equal(
        steps, pl.DataFrame(expected, orient="row"), rel_tol=tolerance, abs_tol=tolerance
    )


def test_gradient_of_columns_as_they_are_follows_their_unit():
    rng = np.random.default_rng(2)
    a, b = np.linalg.qr(rng.normal(size=(100, 2)))[0].T
    table = Table(np.column_stack([100 * a, b]), a + 2 * b)
    problem = Problem(table, {"a": [0], "b": [1]}, {"a": 1.0, "b": 1.0})
    for rule in ("omp-unwhitened", "omp-single"):
        assert problem.sequence(rule=rule).at(1.0).groups == ["b"]
        assert problem.sequence(rule=rule, scale=False).at(1.0).groups == ["a"]
    for rule in ("fr", "omp", "doubling"):
        assert problem.sequence(rule=rule, scale=False).at(1.0).groups == ["b"]


# Doubling


def cheap_enough(costs: list[float], first: float) -> bool:
    """Whether each cost is at most what was spent before it, the first one at most `first`."""
    spent = [first, *accumulate(costs)]
    return all(cost <= limit for cost, limit in zip(costs, spent, strict=False))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("asked", [{}, {"ridge": 0.2}], ids=["none", "ridge"])
@pytest.mark.parametrize(
    "limits",
    [{}, {"c_min": 2.0}, {"c_min": 0.1}, {"budget": 9.5, "always": ("g2",)}, {"max_groups": 3}],
    ids=str,
)
def test_doubling_is_algorithm_2(limits, asked, seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, (1, 3, 2, 1, 2, 4, 1), **asked)
    assert_equals_brute_force(problem, "doubling", **limits)


@pytest.mark.parametrize("c_min", [None, 0.1, 1.5, 4.0, 1e9])
def test_doubling_capable_says_whether_every_step_kept_the_limit(c_min):
    capable = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, (1,) * 7)
        first = min(problem.costs.values()) if c_min is None else c_min
        seq = problem.sequence(rule="doubling", c_min=c_min)
        costs = seq.steps["cost"].to_list()[1:]
        capable.append(seq.doubling_capable)
        assert seq.doubling_capable == cheap_enough(costs, first)
        assert sorted(costs) == sorted(problem.costs.values())
    assert len(set(capable)) == (1 if c_min == 0.1 else 2)


def test_where_no_group_may_double_the_cost_the_cheapest_is_taken():
    rng = np.random.default_rng(6)
    Q = np.linalg.qr(rng.normal(size=(50, 5)))[0]
    table = Table(Q, Q @ [1.0, 2.0, 9.0, 3.0, 0.5])
    costs = {"a": 1.0, "b": 1.0, "dear": 9.0, "c": 4.0, "d": 4.0}
    problem = Problem(table, {name: [j] for j, name in enumerate(costs)}, costs)
    seq = problem.sequence(rule="doubling")
    # b and a cost 2 in all; nothing costs so little, so c: the best of the cheapest.
    assert seq.at().groups == ["b", "a", "c", "d", "dear"]
    assert not seq.doubling_capable
    assert problem.sequence(rule="doubling", budget=2.0).doubling_capable
    assert problem.sequence(rule="fr").at(9.0).groups == ["dear"]


def test_c_min_of_the_dearest_group_makes_the_first_step_free():
    rng = np.random.default_rng(7)
    problem = random_problem(rng)
    dearest = max(problem.costs.values())
    seq = problem.sequence(rule="doubling", c_min=dearest)
    assert seq.steps["group"][1] == problem.sequence(rule="fr").steps["group"][1]


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "doubling"])
def test_c_min_is_refused_with_a_rule_that_has_none(rule):
    problem = random_problem(np.random.default_rng(8))
    with pytest.raises(ds.errors.ArgumentError, match=f"c_min is 1.0; rule '{rule}' has none"):
        problem.sequence(rule=rule, c_min=1.0)
