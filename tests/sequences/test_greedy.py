"""Greedy sequencing against brute force, and what a sequence tells its reader."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
import reference
from polars.testing import assert_frame_equal
from problems import EPS, Problem, random_problem, rounding
from reference import Table

import dbselect as ds
from dbselect.errors import ArgumentError
from dbselect.record.steps import Stop

#: Columns of `Sequence.steps`, as the design has them.
STEPS = {
    "step": pl.Int64,
    "action": pl.String,
    "group": pl.String,
    "cost": pl.Float64,
    "spent": pl.Float64,
    "score": pl.Float64,
    "gain": pl.Float64,
    "explained": pl.Float64,
    "r2": pl.Float64,
    "useful": pl.Boolean,
}

rules = pytest.mark.parametrize("rule", ["fr", "omp"])


def assert_equals_brute_force(problem: Problem, rule: str, **limits) -> None:
    expected = reference.greedy(problem.table, problem.groups, problem.costs, rule, **limits)
    steps = problem.sequence(rule=rule, **limits).steps[1:].select(reference.Step._fields)
    assert_frame_equal(
        steps, pl.DataFrame(expected, orient="row"), rel_tol=0, abs_tol=rounding(problem.table)
    )


@pytest.mark.sample(60)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "asked", [{}, {"ridge": 0.2}, {"ridge": 0.2, "scale": False}], ids=["none", "scaled", "raw"]
)
@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"budget": 6.0},
        {"max_groups": 3},
        {"always": ("g4", "g1")},
        {"budget": 9.5, "max_groups": 4, "always": ("g2",)},
    ],
    ids=" ".join,
)
@rules
def test_sequence_equals_brute_force(rule, limits, asked, weighted, seed):
    rng = np.random.default_rng(seed)
    assert_equals_brute_force(random_problem(rng, weighted=weighted, **asked), rule, **limits)


@pytest.mark.parametrize("rows", [3, 6, 9])
@rules
def test_sequence_equals_brute_force_with_fewer_rows_than_columns(rule, rows):
    rng = np.random.default_rng(rows)
    assert_equals_brute_force(random_problem(rng, rows=rows), rule)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 3, 2, 1, 2, 4), (40, 3)])
def test_steps_have_the_documented_schema_and_start_without_features(sizes):
    rng = np.random.default_rng(11)
    problem = random_problem(rng, sizes, weighted=True)
    seq = problem.sequence()
    assert dict(seq.steps.schema) == STEPS
    assert seq.steps["step"].to_list() == list(range(len(sizes) + 1))
    assert seq.steps["action"].to_list() == ["start"] + ["add"] * len(sizes)
    start = seq.steps.row(0, named=True)
    assert start["group"] is None
    assert [start[name] for name in ("cost", "spent", "gain", "explained", "r2")] == [0] * 5
    assert seq.at(0).columns == []
    weighted_mean = np.average(problem.table.y, weights=problem.table.row_weight)
    assert seq.at(0).intercept == pytest.approx(weighted_mean, rel=40 * EPS)


@rules
def test_steps_after_the_target_is_explained_are_listed_but_not_useful(rule):
    rng = np.random.default_rng(13)
    X = rng.normal(size=(50, 6))
    groups = {"noise": [0], "signal": [1, 2], "more": [3, 4], "last": [5]}
    table = Table(X, 2 * X[:, 1] - X[:, 2])
    steps = Problem(table, groups, dict.fromkeys(groups, 1.0)).sequence(rule=rule).steps
    assert steps["group"].to_list() == [None, "signal", "noise", "more", "last"]
    assert steps["useful"].to_list() == [True, True, False, False, False]
    assert steps["explained"][-1] == pytest.approx(1, abs=rounding(table))


def test_group_of_constants_is_not_useful():
    rng = np.random.default_rng(14)
    X = np.column_stack([np.full(20, 0.3), rng.normal(size=20)])
    table = Table(X, X[:, 1] + rng.normal(size=20))
    steps = Problem(table, {"constant": [0], "x": [1]}, {"constant": 1e-6, "x": 1.0}).sequence()
    assert steps.steps.select("group", "useful").rows()[1:] == [("x", True), ("constant", False)]


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a")])
@rules
def test_ties_go_to_the_group_named_first(rule, order):
    rng = np.random.default_rng(15)
    x, other = rng.normal(size=(2, 60))
    X = np.column_stack([x, 3.7 * x - 11, -0.01 * x, other])
    table = Table(X, x + 0.5 * other)
    columns = {"a": [0], "b": [1], "c": [2], "other": [3]}
    groups = {name: columns[name] for name in (*order, "other")}
    steps = Problem(table, groups, dict.fromkeys(groups, 1.0)).sequence(rule=rule).steps
    assert steps["group"].to_list() == [None, order[0], "other", *order[1:]]


@pytest.mark.parametrize(("cost", "budget", "taken"), [(0.1, 0.3, 3), (0.1, 0.29, 2)])
def test_summed_costs_fit_a_budget_as_in_decimal_arithmetic(cost, budget, taken):
    rng = np.random.default_rng(17)
    problem = random_problem(rng, (1, 2, 1, 1))
    problem = replace(problem, costs=dict.fromkeys(problem.groups, cost))
    limited = problem.sequence(budget=budget)
    assert limited.steps.height == taken + 1
    assert limited.stop is Stop.BUDGET
    assert len(problem.sequence().at(budget).groups) == taken


@pytest.mark.parametrize(
    ("limits", "stop"),
    [
        ({}, Stop.EXHAUSTED),
        ({"max_groups": 2}, Stop.MAX_GROUPS),
        ({"budget": 0.1}, Stop.BUDGET),
        ({"budget": 1e9, "max_groups": 6}, Stop.EXHAUSTED),
    ],
    ids=str,
)
def test_sequence_says_why_it_ended(limits, stop):
    rng = np.random.default_rng(19)
    assert random_problem(rng).sequence(**limits).stop is stop


def test_at_returns_the_longest_prefix_within_a_budget():
    rng = np.random.default_rng(20)
    problem = random_problem(rng)
    seq = problem.sequence()
    order = seq.steps["group"].to_list()[1:]
    spent = np.cumsum([0.0] + [problem.costs[group] for group in order])
    np.testing.assert_array_equal(seq.steps["spent"], spent)
    for step, cost in enumerate(spent):
        for budget, length in ((cost, step), (cost + 0.49, step), (cost - 0.01, step - 1)):
            if length >= 0:
                model = seq.at(budget)
                assert model.groups == order[:length]
                assert model.spent == spent[length]
                assert (model.explained, model.r2) == seq.steps.row(length)[7:9]
                columns = [column for group in model.groups for column in problem.names[group]]
                assert model.columns == columns
    assert seq.at() == seq.at(spent[-1]) == seq.at(np.inf)


def test_columns_in_no_group_are_unused():
    rng = np.random.default_rng(22)
    problem = random_problem(rng)
    left_out = problem.names["g5"]
    groups = {name: columns for name, columns in problem.groups.items() if name != "g5"}
    costs = {name: problem.costs[name] for name in groups}
    smaller = Problem(problem.table, groups, costs)
    seq = smaller.sequence()
    assert sorted(seq.unused) == sorted(left_out)
    assert not set(left_out) & set(seq.at().columns)
    assert_equals_brute_force(smaller, "fr")
    assert problem.sequence().unused == ()


@pytest.mark.filterwarnings("ignore::dbselect.errors.ConditionWarning")
def test_a_small_gradient_that_is_real_decides_the_order_of_omp():
    rng = np.random.default_rng(3)
    s, u, v, noise = np.linalg.qr(rng.normal(size=(400, 4)))[0].T * 20
    table = pl.DataFrame(
        {"s": s, "p": s + 3e-6 * u, "r": s + 3e-6 * v, "y": s + 0.01 * u + 0.02 * v + 0.1 * noise}
    )
    sequence = ds.anytime_sequence(table, "y", rule="omp", always=["s"])
    assert sequence.steps["group"].to_list() == [None, "s", "r", "p"]


def test_family_gaussian_is_the_default_and_takes_row_weights():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 2))
    frame = pl.DataFrame(X, schema=["a", "b"]).with_columns(
        y=pl.Series(X @ [1.0, 2.0] + rng.normal(size=80)), w=pl.Series(rng.integers(0, 4, 80))
    )
    found = ds.anytime_sequence(frame, "y", family="gaussian", weight="w")
    repeated = frame.select(pl.all().repeat_by("w").explode()).drop("w")
    expected = ds.anytime_sequence(repeated, "y")
    assert isinstance(found, ds.results.Sequence)
    assert found.steps["group"].to_list() == expected.steps["group"].to_list()
    np.testing.assert_allclose(found.r2, expected.r2, rtol=1e-10)
    assert found.unused == expected.unused == ()
    with pytest.raises(ArgumentError, match="weight is 'w'; a Gram was made with its weights"):
        ds.anytime_sequence(ds.gram(frame), "y", weight="w")
    groups = {"a": ["a"], "b": ["b"]}
    shifted = ds.anytime_sequence(frame, "y", groups, offset="w")
    moved = ds.anytime_sequence(frame.with_columns(pl.col("y") - pl.col("w")), "y", groups)
    assert shifted.at().coefficients == pytest.approx(moved.at().coefficients, rel=1e-9)


def test_a_budget_may_be_a_decimal():
    frame = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    for search in (ds.anytime_sequence, ds.foba, ds.reference.group_lasso):
        assert search(frame, "y", budget=Decimal("1.5")).spent[-1] == 1
