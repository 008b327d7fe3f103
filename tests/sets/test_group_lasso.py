"""The group lasso against its optimality conditions and refits."""

from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest
import reference
from penalties import (
    KINDS,
    PROMISED,
    assert_fits_rows,
    costs_of,
    kinds,
    mixed,
    seeds,
    units,
    violation,
    weights,
)
from problems import Problem, random_problem, rounding
from reference import Table

import dbselect as ds
from dbselect.problem.calls import group_lasso, group_lasso_path
from dbselect.record.steps import Stop
from dbselect.results.penalty_path import GroupLassoPath


def path_of(problem: Problem, **options) -> GroupLassoPath:
    given = {"costs": problem.costs, "scale": problem.table.scale} | options
    return group_lasso_path(problem.gram, "y", problem.names, **given)


def objective(problem: Problem, penalty: float, w: np.ndarray) -> float:
    A, t = units(problem)
    norms = (problem.costs[g] * np.linalg.norm(w[at]) for g, at in problem.groups.items())
    return 0.5 * np.sum((t - A @ w) ** 2) + penalty * sum(norms)


@pytest.mark.sample(12)
@seeds
@kinds
def test_every_point_of_the_path_is_optimal(kind, seed):
    problem = KINDS[kind](np.random.default_rng(seed))
    path = path_of(problem)
    assert len(path.penalties) == 50
    assert violation(problem, path, costs_of(problem)) <= PROMISED


def gap(problem: Problem, penalty: float, w: np.ndarray) -> float:
    """Return the duality gap with the residual, scaled until it is feasible, as dual point."""
    A, t = units(problem)
    r = t - A @ w
    reach = [
        np.linalg.norm(A[:, at].T @ r) / (penalty * problem.costs[name])
        for name, at in problem.groups.items()
    ]
    dual = r / max(1.0, *reach)
    return objective(problem, penalty, w) - (t @ dual - dual @ dual / 2)


@kinds
def test_gap_is_nothing_but_rounding(kind):
    problem = KINDS[kind](np.random.default_rng(5))
    path = path_of(problem)
    assert (path.gap >= 0).all()
    assert path.gap.max() <= PROMISED
    found = zip(path.penalties, weights(problem, path), path.gap, strict=True)
    for penalty, w, said in found:
        assert said == pytest.approx(gap(problem, penalty, w), abs=1e-12)


@kinds
def test_path_starts_at_the_least_penalty_that_gives_zeros_and_falls_by_one_factor(kind):
    problem = KINDS[kind](np.random.default_rng(7))
    path = path_of(problem, n_lambda=4, lambda_min_ratio=1e-3)
    A, t = units(problem)
    largest = max(
        np.linalg.norm(A[:, at].T @ t) / problem.costs[g] for g, at in problem.groups.items()
    )
    np.testing.assert_allclose(path.penalties, largest * np.array([1, 0.1, 0.01, 0.001]))
    assert not path.coef[0].any()
    assert path_of(problem, n_lambda=2, lambda_min_ratio=1 - 1e-6).coef[1].any()


@kinds
def test_r2_and_intercept_are_those_of_the_coefficients_on_the_rows(kind):
    problem = KINDS[kind](np.random.default_rng(8))
    path = path_of(problem)
    assert_fits_rows(problem, path)
    assert (np.diff(path.r2) >= -1e-12).all()


def test_points_list_groups_and_what_they_cost():
    problem = mixed(np.random.default_rng(9))
    path = path_of(problem)
    A_norms = np.stack(
        [np.linalg.norm(weights(problem, path)[:, at], axis=1) for at in problem.groups.values()], 1
    )
    np.testing.assert_allclose(path.lengths, A_norms, rtol=1e-10)
    points = path.points
    assert points.columns == ["penalty", "groups", "spent", "r2", "gap"]
    names = list(problem.groups)
    for row, lengths in zip(points.iter_rows(named=True), A_norms, strict=True):
        assert row["groups"] == [
            name for name, length in zip(names, lengths, strict=True) if length
        ]
        assert row["spent"] == sum(problem.costs[name] for name in row["groups"])
    first = {name: i for i in range(49, 0, -1) for name in points["groups"][i]}
    assert dict(zip(path.entered, path.entered_at, strict=True)) == first


@pytest.mark.sample(12)
@seeds
@pytest.mark.parametrize("n_lambda", [2, 50])
@kinds
def test_first_to_enter_has_the_largest_gradient_per_cost(kind, n_lambda, seed):
    problem = KINDS[kind](np.random.default_rng(20 + seed))
    A, t = units(problem)
    nearness = {
        name: np.linalg.norm(A[:, at].T @ t) / problem.costs[name]
        for name, at in problem.groups.items()
    }
    path = path_of(problem, n_lambda=n_lambda)
    assert path.entered[0] == max(nearness, key=nearness.__getitem__)


def test_of_equal_columns_the_cheaper_one_is_used():
    rng = np.random.default_rng(12)
    x, other = rng.normal(size=(2, 60))
    X = np.column_stack([x, 2 * x, other])
    groups = {"dear": [0], "cheap": [1], "other": [2]}
    problem = Problem(Table(X, x + other), groups, {"dear": 1 + 1e-6, "cheap": 1.0, "other": 1.0})
    path = path_of(problem)
    assert "dear" not in path.entered
    assert {"cheap", "other"} == set(path.entered)


def test_target_that_no_column_explains_leaves_every_group_at_zero():
    table = Table(np.array([[1.0, 2], [1, 2], [-1, 2], [-1, 2]]), np.array([1.0, -1, 1, -1]))
    problem = Problem(table, {"a": [0], "constant": [1]}, {"a": 1.0, "constant": 2.0})
    path = path_of(problem)
    assert path.entered == []
    assert not path.coef.any()
    assert not path.r2.any()
    assert not path.gap.any()
    assert not path.penalties.any()
    seq = group_lasso(problem.gram, "y", problem.names, problem.costs)
    assert seq.stop is Stop.PATH
    assert seq.steps.height == 1


@pytest.mark.sample(8)
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@kinds
@pytest.mark.filterwarnings("ignore::dbselect.errors.ConditionWarning")
def test_prefixes_are_refits_of_the_groups_in_the_order_of_entry(kind, ridge):
    problem = KINDS[kind](np.random.default_rng(15))
    problem = problem.with_table(ridge=ridge)
    table = problem.table
    path = path_of(problem)
    seq = group_lasso(
        problem.gram, "y", problem.names, problem.costs, ridge=ridge, scale=table.scale
    )
    assert seq.steps["group"].to_list()[1:] == path.entered
    assert seq.rule == "group-lasso"
    np.testing.assert_array_equal(seq.steps["score"][1:], path.penalties[path.entered_at])
    columns: list[int] = []
    for step, name in enumerate(path.entered, start=1):
        columns += problem.groups[name]
        tolerance = rounding(table)
        assert seq.r2[step] == pytest.approx(reference.r2(table, columns), abs=tolerance)
        assert seq.explained[step] == pytest.approx(
            reference.explained(table, columns), abs=tolerance
        )


def test_sequence_says_whether_every_group_entered():
    problem = mixed(np.random.default_rng(17))
    problem = replace(problem, costs=dict.fromkeys(problem.groups, 1.0))
    run = partial(group_lasso, problem.gram, "y", problem.names)
    assert run(lambda_min_ratio=1e-4).stop is Stop.EXHAUSTED
    short = run(lambda_min_ratio=0.3)
    assert short.stop is Stop.PATH
    assert 0 < len(short.records) < 12
    assert ds.results.Sequence.from_struct(short.to_struct()).stop is Stop.PATH


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_budget_and_groups_to_take_first(seed):
    problem = random_problem(np.random.default_rng(seed))
    given = (problem.gram, "y", problem.names, problem.costs)
    whole = group_lasso(*given)
    order = whole.steps["group"].to_list()[1:]
    total = float(whole.spent[-1])
    for budget in (0.3 * total, 0.6 * total, total):
        found = group_lasso(*given, budget=budget)
        held, spent = [], 0.0
        for name in order:
            if spent + problem.costs[name] <= budget * (1 + 1e-12):
                held.append(name)
                spent += problem.costs[name]
        assert found.steps["group"].to_list()[1:] == held
        assert (found.stop.name == "BUDGET") == (held != order)
    last = order[-1]
    forced = group_lasso(*given, always=[last])
    assert forced.steps["group"].to_list()[1:] == [last, *order[:-1]]
    assert forced.r2[-1] == pytest.approx(whole.r2[-1], rel=1e-10)
    with pytest.raises(ds.errors.ArgumentError, match=r"always costs .* over the budget"):
        group_lasso(*given, always=[last], budget=problem.costs[last] / 2)


# The sparse group lasso: groups and columns


@pytest.mark.sample(12)
@pytest.mark.parametrize("ratio", [0.05, 0.5, 0.95, 1.0])
@kinds
def test_every_point_of_the_sparse_path_is_optimal(kind, ratio):
    problem = KINDS[kind](np.random.default_rng(30))
    path = path_of(problem, l1_ratio=ratio, n_lambda=25)
    assert violation(problem, path, (1 - ratio) * costs_of(problem), ratio) <= PROMISED
    assert path.violation.max() <= PROMISED
    assert path.gap.max() <= PROMISED


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_points_with_factors_of_groups_and_columns_are_optimal(ratio):
    problem = mixed(np.random.default_rng(31))
    own = (
        {}
        if ratio == 0
        else {f"x{problem.groups['g2'][0]}": 3.0, f"x{problem.groups['g5'][1]}": 0.0}
    )
    path = path_of(problem, l1_ratio=ratio, penalty_factors={"g0": 0.0, "g4": 0.5} | own)
    by_group = {"g0": 0.0, "g4": 0.5}
    norm = np.array([problem.costs[name] * by_group.get(name, 1.0) for name in problem.groups])
    absolute = np.ones(problem.table.X.shape[1])
    for name, factor in by_group.items():
        absolute[problem.groups[name]] = factor
    for name, factor in own.items():
        absolute[int(name[1:])] = factor
    assert violation(problem, path, (1 - ratio) * norm, ratio * absolute) <= PROMISED
    assert path.gap.max() <= PROMISED
    assert path.points["groups"][0].to_list()[0] == "g0"


@pytest.mark.parametrize("ratio", [0.0, 0.4])
def test_adaptive_factors_are_powers_of_the_least_squares_coefficients(ratio):
    problem = mixed(np.random.default_rng(32))
    path = path_of(problem, l1_ratio=ratio, adaptive=1.5)
    A, t = units(problem)
    pilot = np.linalg.lstsq(A, t)[0]
    norms = np.array([np.linalg.norm(pilot[at]) for at in problem.groups.values()])
    norm, absolute = costs_of(problem) * norms**-1.5, np.abs(pilot) ** -1.5
    assert violation(problem, path, (1 - ratio) * norm, ratio * absolute) <= PROMISED


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [0.0, 0.4])
def test_degrees_of_freedom_are_how_the_fit_moves_with_the_target(ratio):
    rng = np.random.default_rng(37)
    X = rng.normal(size=(40, 9))
    y = X @ rng.normal(size=9) + rng.normal(size=40)
    groups = {f"g{k}": [f"x{j}" for j in range(3 * k, 3 * k + 3)] for k in range(3)}

    def path(y: np.ndarray, penalties: np.ndarray) -> GroupLassoPath:
        # Penalties in the unit of the target, which differs from target to target.
        frame = Table(X, y).frame.drop("w")
        options = {"l1_ratio": ratio, "scale": False}
        return group_lasso_path(frame, "y", groups, penalties=penalties / y.std(), **options)

    lambdas = np.array([0.5, 0.1, 0.02])
    moved = np.zeros(3)
    for row in range(40):
        step = np.zeros(40)
        step[row] = 1e-5
        ends = [path(y + side * step, lambdas) for side in (1, -1)]
        fits = [end.intercept + X[row] @ end.coef.T for end in ends]
        moved += (fits[0] - fits[1]) / 2e-5
    np.testing.assert_allclose(path(y, lambdas).df + 1, moved, rtol=1e-4)


def test_a_factor_of_a_column_needs_a_penalty_on_columns():
    problem = mixed(np.random.default_rng(38))
    with pytest.raises(
        ds.errors.ArgumentError, match="names column 'x1'; without l1_ratio only groups"
    ):
        path_of(problem, penalty_factors={"x1": 2.0})


def test_sequence_takes_groups_as_they_enter_the_sparse_path():
    problem = mixed(np.random.default_rng(39))
    options = {"l1_ratio": 0.7, "penalty_factors": {"g1": 0.5}, "adaptive": 1.0}
    path = path_of(problem, **options)
    seq = group_lasso(problem.gram, "y", problem.names, problem.costs, **options)
    assert seq.steps["group"].to_list()[1:] == path.entered


@pytest.mark.parametrize("seed", [282])
def test_columns_of_a_common_factor_are_settled(seed):
    """Columns that a step takes to 0 stay there, where rounding would bring them back."""
    rng = np.random.default_rng(seed)
    width = int(rng.integers(3, 9))
    factor = rng.normal(size=(60, 1)) * rng.uniform(1, 6)
    X = factor + rng.normal(size=(60, width)) * rng.uniform(0.3, 2, size=width)
    y = X @ (rng.normal(size=width) * (rng.random(width) < 0.6)) + rng.normal(size=60)
    names = [f"x{j}" for j in range(width)]
    first = int(rng.integers(1, width))
    groups = {"g": names[:first], "h": names[first:]}
    path = group_lasso_path(Table(X, y).frame.drop("w"), "y", groups, l1_ratio=0.95, n_lambda=20)
    assert path.violation.max() < 1e-8


@pytest.mark.parametrize("ratio", [0.0, 0.4])
def test_a_constant_column_beside_others_that_are_not_penalised_has_no_degree(ratio):
    rng = np.random.default_rng(39)
    X = rng.normal(size=(50, 5))
    y = X @ [1.0, 0.5, 1.0, 0.5, 0.2] + rng.normal(size=50)
    frame = Table(X, y).frame.drop("w").with_columns(one=pl.lit(3.0))
    groups = {"a": ["x0", "x1"], "b": ["x2", "x3", "x4"]}
    asked = {"always": ["a"], "penalties": [0.2, 0.05], "l1_ratio": ratio}
    without = group_lasso_path(frame, "y", groups, **asked)
    beside = group_lasso_path(frame, "y", groups | {"a": ["x0", "x1", "one"]}, **asked)
    np.testing.assert_allclose(beside.df, without.df, rtol=1e-9)
    np.testing.assert_allclose(beside.r2, without.r2, rtol=1e-9)
