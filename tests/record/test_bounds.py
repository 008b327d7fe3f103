"""Guarantees and certificates against the best of all sets of groups."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
import reference
import scipy.linalg
from polars.testing import assert_frame_equal
from problems import EPS, Problem, random_problem, rounding
from reference import Subsets, Table

import dbselect as ds
from dbselect.selection.criteria import RULES

rules = pytest.mark.parametrize("rule", list(RULES))
penalties = pytest.mark.parametrize(
    "asked",
    [{}, {"ridge": 0.3}, {"ridge": 0.3, "scale": False}, {"scale": False}],
    ids=["none", "scaled", "raw", "raw without ridge"],
)


def orthonormal(rng: np.random.Generator, width: int, rows: int = 100) -> np.ndarray:
    """Return uncorrelated columns of mean 0 and variance 1, up to rounding."""
    columns = np.column_stack([np.ones(rows), rng.normal(size=(rows, width))])
    return np.linalg.qr(columns)[0][:, 1:] * np.sqrt(rows)


def correlated(rng: np.random.Generator, **asked: Any) -> Problem:
    sizes = tuple(rng.integers(1, 4, rng.integers(3, 8)).tolist())
    problem = random_problem(rng, sizes, rows=60, **asked)
    table = problem.table
    units = 10.0 ** rng.uniform(-0.5, 0.5, table.X.shape[1])
    return problem.with_table(X=table.X / table.deviation * units)


def nearly_orthogonal(rng: np.random.Generator, **asked: Any) -> Problem:
    """Return a problem on which the theorems leave little room: gamma is near 1."""
    sizes = rng.integers(1, 5, rng.integers(3, 7))
    width = sizes.sum()
    Q = orthonormal(rng, width) + rng.choice([0.0, 0.01, 0.1]) * rng.normal(size=(100, width))
    units, worth = (np.repeat(10.0 ** rng.uniform(-0.5, 0.5, len(sizes)), sizes) for _ in range(2))
    members = np.split(np.arange(width), np.cumsum(sizes)[:-1])
    return Problem(
        Table(Q * units, Q @ (worth * rng.normal(size=width)), **asked),
        {f"g{number}": columns.tolist() for number, columns in enumerate(members)},
        {f"g{number}": float(rng.integers(1, 4)) for number in range(len(sizes))},
    )


def best(sets: Subsets, budget: float) -> float:
    """Most that any set within a budget explains."""
    return float(sets.explained[sets.cost <= budget * (1 + EPS)].max())


def subsets(problem: Problem) -> Subsets:
    return reference.subsets(problem.table, problem.groups, problem.costs)


# Theorem 3.2


def dense_gamma(table: Table, groups: list[list[int]], rule: str) -> float:
    """``lambda_min(W'CW)`` over how much the criterion may exceed the gain, W by Cholesky."""
    G = table.A.T @ table.A
    C = G + np.diag(table.penalty**2)
    unit = np.ones(len(G)) if table.scale else table.deviation
    whitened = {"fr": C, "score": C, "doubling": C, "omp": G, "omp-information": G}.get(rule)
    blocks = [
        np.diag(unit[group]) if whitened is None
        else np.linalg.inv(np.linalg.cholesky(whitened[np.ix_(group, group)])).T
        for group in groups
    ]  # fmt: skip
    order = [column for group in groups for column in group]
    W = scipy.linalg.block_diag(*blocks)
    least = np.linalg.eigvalsh(W.T @ C[np.ix_(order, order)] @ W)[0]
    if rule == "omp-single":
        excess = max(unit**2 * np.diagonal(C)) * max(len(group) for group in groups)
    else:
        excess = max(
            np.linalg.eigvalsh(root.T @ C[np.ix_(group, group)] @ root)[-1]
            for root, group in zip(blocks, groups, strict=True)
        )
    return least / excess


@pytest.mark.sample(20)
@pytest.mark.parametrize("make", [correlated, nearly_orthogonal])
@penalties
@rules
def test_gamma_equals_its_dense_definition(rule, asked, make):
    for seed in range(3):
        problem = make(np.random.default_rng(seed), **asked)
        expected = dense_gamma(problem.table, list(problem.groups.values()), rule)
        gamma = problem.sequence(rule=rule).guarantee().gamma
        assert 0 < gamma <= 1
        assert gamma == pytest.approx(expected, abs=rounding(problem.table))


def assert_theorem_holds(problem: Problem, sets: Subsets, **options: Any) -> None:
    """Check every prefix against the best set of costs from the least to the most."""
    seq = problem.sequence(**options)
    costs = np.unique(sets.cost[1:])
    for cost in costs[:: 1 + len(costs) // 6]:
        factor = seq.guarantee(float(cost)).steps["factor"].to_numpy()
        assert (seq.explained >= factor * best(sets, cost) - sets.error).all()


@pytest.mark.slow
@pytest.mark.parametrize("make", [correlated, nearly_orthogonal])
@penalties
def test_theorem_holds_against_every_set_of_groups(asked, make):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        problem = make(rng, **asked)
        sets = subsets(problem)
        limits = {
            "budget": float(rng.uniform(0.3, 1.0) * sets.cost.max()),
            "always": rng.permutation(list(problem.groups))[:1].tolist(),
        }
        limits["budget"] = max(limits["budget"], problem.costs[limits["always"][0]])
        for rule in RULES:
            assert_theorem_holds(problem, sets, rule=rule)
            assert_theorem_holds(problem, sets, rule=rule, **limits)


def test_theorem_holds_where_a_column_stands_twice_in_two_units():
    Q = orthonormal(np.random.default_rng(4), 2)
    table = Table(
        np.column_stack([Q[:, 0] / np.sqrt(40), 1e3 * Q[:, 0], Q[:, 1] / np.sqrt(10)]),
        Q @ [1.0, 1.05],
        ridge=1.0,
        scale=False,
    )
    problem = Problem(table, {"twice": [0, 1], "once": [2]}, {"twice": 1.0, "once": 1.0})
    assert problem.sequence(rule="omp").at(1.0).groups == ["once"]
    for rule in RULES:
        assert_theorem_holds(problem, subsets(problem), rule=rule)


def suppressed(unit: float) -> Problem:
    """Two columns that explain together only, one beside a useless one of another unit."""
    Q = orthonormal(np.random.default_rng(5), 4)
    b = 0.99 * Q[:, 1] + np.sqrt(1 - 0.99**2) * Q[:, 2]
    table = Table(
        np.column_stack([Q[:, 0] * unit, Q[:, 1], b, Q[:, 3]]),
        Q[:, 1] - b + 0.02 * Q[:, 3],
        ridge=1e-3,
        scale=False,
    )
    groups = {"a": [0, 1], "b": [2], "c": [3]}
    return Problem(table, groups, dict.fromkeys(groups, 1.0))


@pytest.mark.filterwarnings("ignore::dbselect.errors.ConditionWarning")
@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e-9])
def test_units_within_a_group_do_not_hide_a_dependence_from_the_bounds(unit):
    problem = suppressed(unit)
    table = replace(problem.table, X=np.delete(problem.table.X, 0, axis=1))
    sets = reference.subsets(table, {"a": [0], "b": [1], "c": [2]}, problem.costs)
    for rule in RULES:
        assert_theorem_holds(problem, sets, rule=rule)
        bounds = problem.sequence(rule=rule).certificate([1.0, 2.0, 3.0])["bound"]
        truth = [best(sets, budget) for budget in (1.0, 2.0, 3.0)]
        assert (bounds.to_numpy() >= np.array(truth) - sets.error).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["duplicate", "combination", "fewer rows than columns"])
@rules
def test_factor_is_zero_where_groups_depend_on_each_other(rule, kind, seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, (2, 1, 3, 1))
    X = problem.table.X.copy()
    (a, *_), (b, *_), (c, *_), _ = problem.groups.values()
    if kind == "duplicate":
        X[:, a] = 3 - 2 * X[:, b]
    elif kind == "combination":
        X[:, a] = X[:, b] + X[:, c] * np.ptp(X[:, b]) / np.ptp(X[:, c])
    rows = 5 if kind == "fewer rows than columns" else len(X)
    guarantee = problem.with_table(X=X[:rows], y=problem.table.y[:rows]).sequence(rule=rule)
    assert guarantee.guarantee().gamma == 0
    assert guarantee.guarantee().steps["factor"].to_list() == [0.0] * 5


def test_what_is_forced_earns_no_guarantee():
    problem = random_problem(np.random.default_rng(3), (2, 1, 3, 1))
    seq = problem.sequence(always=("g2",))
    guarantee, spent = seq.guarantee(), seq.spent
    expected = 1 - np.exp(-guarantee.gamma * (spent[1:] - spent[1]) / spent[1:])
    np.testing.assert_allclose(guarantee.steps["factor"][1:], expected, rtol=1e-12)


def test_dependence_within_a_group_costs_no_guarantee():
    problem = random_problem(np.random.default_rng(6))
    twice = problem.table.X[:, problem.groups["g1"][:1]]
    groups = problem.groups | {"g1": [*problem.groups["g1"], problem.table.X.shape[1]]}
    doubled = Problem(
        replace(problem.table, X=np.hstack([problem.table.X, -7 * twice])), groups, problem.costs
    )
    for rule in ("fr", "omp"):
        expected = problem.sequence(rule=rule).guarantee().steps
        found = doubled.sequence(rule=rule).guarantee().steps
        assert_frame_equal(found, expected, rel_tol=0, abs_tol=2 * rounding(problem.table))


def test_guarantee_is_refused_for_an_order_that_no_rule_made():
    problem = random_problem(np.random.default_rng(8))
    priced = problem.sequence(costs=None).with_costs(problem.costs)
    with pytest.raises(ds.errors.ArgumentError, match=r"rule is 'fr, at other costs'; .*'omp'"):
        priced.guarantee()


@pytest.mark.parametrize("cost", [0, -1.0, float("nan"), float("inf"), "1"])
def test_guarantee_refuses_what_is_no_cost(cost):
    seq = random_problem(np.random.default_rng(9)).sequence()
    with pytest.raises(ds.errors.ArgumentError, match=r"cost is .*; it must be a number > 0"):
        seq.guarantee(cost)


# Theorem 4.3


def test_doubling_factor_is_given_where_the_theorem_applies():
    problem = random_problem(np.random.default_rng(10), (1, 2, 1, 2))
    costs = dict(zip(problem.groups, [1.0, 1.0, 2.0, 3.0], strict=True))
    problem = replace(problem, costs=costs)
    guarantee = problem.sequence(rule="doubling").guarantee()
    assert guarantee.doubling is not None
    assert 0 <= guarantee.doubling <= 1 - np.exp(-1 / 2)
    for other in set(RULES) - {"doubling"}:
        assert problem.sequence(rule=other).guarantee().doubling is None
    for limits in ({"budget": 3.0}, {"max_groups": 2}, {"always": ["g2"]}):
        assert problem.sequence(rule="doubling", **limits).guarantee().doubling is None
    dear = problem.sequence(rule="doubling", costs=costs | {"g0": 9.0})
    assert not dear.doubling_capable
    assert dear.guarantee().doubling is None


def paper_equation_10(n: int) -> tuple[ds.Gram, dict[str, float], dict[str, float]]:
    """Orthogonal items, two of every cost i = 1, ..., n, worth e^i each; costs and worths."""
    names = [f"{kind}{i}" for i in range(1, n + 1) for kind in ("a", "b")]
    cost = np.repeat(np.arange(1, n + 1), 2)
    worth = np.exp(cost - n)
    worth *= 0.9 / worth.sum()
    comoment = np.eye(2 * n + 1)
    comoment[1:, 0] = comoment[0, 1:] = np.sqrt(worth)
    gram = ds.Gram(["y", *names], 2, 0, 1.0, np.zeros(2 * n + 1), comoment)
    return gram, dict(zip(names, cost.tolist(), strict=True)), dict(zip(names, worth, strict=True))


def knapsack(costs: dict[str, int], worth: dict[str, float]) -> np.ndarray:
    """Most worth within each whole budget, by dynamic programming."""
    table = np.zeros(sum(costs.values()) + 1)
    for name, cost in costs.items():
        table[cost:] = np.maximum(table[cost:], table[:-cost] + worth[name])
    return table


def test_doubling_keeps_the_factor_at_every_budget_where_fr_has_nothing_to_show():
    n = 20
    gram, costs, worth = paper_equation_10(n)
    most = knapsack(costs, worth)
    doubled = ds.anytime_sequence(gram, "y", costs=costs, rule="doubling")
    guarantee = doubled.guarantee()
    assert doubled.doubling_capable
    assert guarantee.gamma == pytest.approx(1.0, abs=100 * EPS)
    assert guarantee.doubling == pytest.approx(1 - np.exp(-1 / 2))

    greedy = ds.anytime_sequence(gram, "y", costs=costs, rule="fr")
    assert greedy.steps["group"][1] in {f"a{n}", f"b{n}"}
    # Costs are whole, so other budgets buy what the whole one below buys.
    for budget in range(2, len(most)):
        quarter = most[budget // 4]
        assert ds.reference.explained_at(doubled, budget) >= (1 - np.exp(-1 / 2)) * quarter
        if budget < n:
            assert ds.reference.explained_at(greedy, budget) == 0
            assert quarter > 0 or budget < 4
    assert ds.reference.explained_at(doubled, len(most)) == pytest.approx(most[-1], rel=1e3 * EPS)


# Certificates


def dependent(rng: np.random.Generator, **asked: Any) -> Problem:
    """Return columns that repeat or combine others, within and across groups, or are constant."""
    problem = random_problem(rng, (2, 1, 3, 1, 2, 1, 2), rows=30, **asked)
    X = problem.table.X / problem.table.deviation
    columns = rng.permutation(X.shape[1])
    X[:, columns[0]] = 5 - 2 * X[:, columns[1]]
    X[:, columns[2]] = X[:, columns[3]] + X[:, columns[4]]
    X[:, columns[5]] = 0.3
    members = list(problem.groups.values())[2]
    X[:, members[0]] = X[:, members[1]] - X[:, members[2]]
    return problem.with_table(X=X)


def few_rows(rng: np.random.Generator, **asked: Any) -> Problem:
    return random_problem(rng, (2, 1, 3, 1, 2, 4, 1), rows=8, **asked)


def suppressing(rng: np.random.Generator, **asked: Any) -> Problem:
    """Make the target what nearly equal columns differ by: they explain together only."""
    problem = random_problem(rng, (1,) * 8, **asked)
    X = problem.table.X / problem.table.deviation
    X[:, ::2] = X[:, 1::2] + 0.1 * rng.normal(size=(len(X), 4))
    y = (X[:, ::2] - X[:, 1::2]) @ rng.normal(size=4) + 0.05 * rng.normal(size=len(X))
    return problem.with_table(X=X, y=y)


def twelve(rng: np.random.Generator, **asked: Any) -> Problem:
    return random_problem(rng, (1, 2, 1, 1, 3, 1, 2, 1, 1, 2, 1, 1), rows=50, **asked)


def assert_certified(seq: ds.results.Sequence, sets: Subsets) -> None:
    spent = seq.certificate()
    assert spent["budget"].to_list() == spent["spent"].to_list() == seq.spent.tolist()
    limits = np.union1d(seq.spent, np.unique(sets.cost))
    table = seq.certificate(limits)
    assert table.columns == ["budget", "spent", "explained", "bound", "ratio"]
    everything = sets.explained[-1]
    for budget, cost, explained, bound, ratio in table.rows():
        model = seq.at(budget)
        assert (cost, explained) == (model.spent, model.explained)
        assert explained <= best(sets, budget) + sets.error
        assert best(sets, budget) <= bound + sets.error
        assert bound <= everything + sets.error
        assert ratio == (explained / bound if bound else 1.0)
        assert 0 <= ratio <= 1
    at_spent = table.filter(table["budget"].is_in(spent["budget"].to_list()))
    assert_frame_equal(at_spent, spent.unique(maintain_order=True), rel_tol=0, abs_tol=4 * EPS)


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{}, {"ridge": 0.1}, {"ridge": 0.1, "scale": False}], ids=str)
@pytest.mark.parametrize(
    ("make", "seeds"),
    [
        (correlated, 10),
        (nearly_orthogonal, 5),
        (dependent, 6),
        (few_rows, 5),
        (suppressing, 6),
        (twelve, 2),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_certificate_holds_against_every_set_of_groups(make, seeds, asked):
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        problem = make(rng, **asked)
        sets = subsets(problem)
        rule = rng.choice(list(RULES))
        assert_certified(problem.sequence(rule=rule), sets)
        budget = float(rng.uniform(0.2, 0.8) * sets.cost.max())
        assert_certified(problem.sequence(rule=rule, budget=budget), sets)
        other = {name: float(cost) for name, cost in zip(problem.costs, rng.permutation(len(
            problem.costs)) + 1, strict=True)}  # fmt: skip
        repriced = reference.subsets(problem.table, problem.groups, other)
        assert_certified(problem.sequence(rule=rule).with_costs(other), repriced)


def test_certificate_is_tight_where_groups_are_orthogonal_and_whole_prefixes_are_bought():
    Q = orthonormal(np.random.default_rng(11), 6)
    problem = Problem(
        Table(Q, Q @ [3.0, 1.0, 2.0, 0.5, 1.5, 1.0]),
        {f"g{j}": [j] for j in range(6)},
        dict(zip([f"g{j}" for j in range(6)], [2.0, 1.0, 1.0, 3.0, 2.0, 4.0], strict=True)),
    )
    table = problem.sequence().certificate()
    np.testing.assert_allclose(table["ratio"], 1.0, rtol=0, atol=100 * rounding(problem.table))


def test_group_dearer_than_the_budget_does_not_loosen_its_certificate():
    Q = orthonormal(np.random.default_rng(13), 2)
    problem = Problem(Table(Q, Q @ [1.0, 3.0]), {"a": [0], "b": [1]}, {"a": 1.0, "b": 5.0})
    table = problem.sequence().certificate([0.5, 4.0, 6.0])
    np.testing.assert_allclose(table["bound"], [0.0, 0.1, 1.0], rtol=0, atol=100 * EPS)
    assert table["explained"].to_list()[0] == 0


@pytest.mark.parametrize("budgets", [[-1.0], [1.0, float("nan")], ["1"], [None], 3.0])
def test_certificate_refuses_what_is_no_budget(budgets):
    seq = random_problem(np.random.default_rng(12)).sequence()
    with pytest.raises(ds.errors.ArgumentError, match=r"budget.* must be .*numbers? >= 0"):
        seq.certificate(budgets)


@pytest.mark.parametrize("seed", range(3))
def test_the_ratio_of_doubling_is_that_of_all_sets(seed):
    """Equation 9: the least gain(x | A') / gain(x | A) for A' within A."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)) + 0.7 * rng.normal(size=(60, 1))
    y = X @ rng.normal(size=4) + rng.normal(size=60)
    X, y = X - X.mean(axis=0), y - y.mean()

    def f(columns):
        own = X[:, sorted(columns)]
        return float(((own @ np.linalg.lstsq(own, y, rcond=None)[0]) ** 2).sum() / (y @ y))

    sets = [frozenset(S) for size in range(5) for S in combinations(range(4), size)]
    ratio = min(
        [1.0]
        + [
            (f(less | {x}) - f(less)) / (f(more | {x}) - f(more))
            for more in sets
            for less in sets
            if less <= more
            for x in set(range(4)) - more
        ]
    )
    frame = pl.DataFrame(np.column_stack([X, y]), schema=[*"abcd", "y"])
    found = ds.anytime_sequence(frame, "y", rule="doubling").guarantee().doubling
    assert found == pytest.approx(1 - np.exp(-(ratio**2) / (1 + ratio)), abs=1e-9)


def test_doubling_promises_nothing_of_more_sets_than_can_be_tried():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(rng.normal(size=(60, 12)), schema=[*"abcdefghijk", "y"])
    assert ds.anytime_sequence(frame, "y", rule="doubling").guarantee().doubling is None
