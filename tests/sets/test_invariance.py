"""Laws: what must not change a Gram or a sequence, and what must change it in one place only."""

from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import EPS, Problem, random_problem, rounding

import dbselect as ds

seeds = st.integers(0, 2**32 - 1)
rules = pytest.mark.parametrize("rule", ["fr", "omp"])
few = settings(max_examples=20)


def assert_same_path(problem: Problem, other: Problem, tolerance: float, **options) -> None:
    """Compare the order of two problems, what each step explains, and its score."""
    first, second = problem.sequence(**options).steps, other.sequence(**options).steps
    assert first["group"].to_list() == second["group"].to_list()
    for name in ("explained", "r2", "score"):
        np.testing.assert_allclose(first[name], second[name], rtol=0, atol=tolerance)


def assert_same_gram(first: ds.Gram, second: ds.Gram) -> None:
    """Compare two Grams up to the rounding of sums, in units of mean square and spread."""
    assert (first.columns, first.rows, first.skipped) == (
        second.columns,
        second.rows,
        second.skipped,
    )
    assert first.weight == pytest.approx(second.weight, rel=first.rows * EPS)
    size = np.sqrt(np.diagonal(first.comoment) + first.weight * first.mean**2)
    np.testing.assert_allclose(
        (second.mean - first.mean) * first.weight**0.5 / size, 0, atol=4 * first.rows * EPS
    )
    np.testing.assert_allclose(
        (second.comoment - first.comoment) / np.outer(size, size), 0, atol=4 * first.rows * EPS
    )


@pytest.mark.slow
@rules
@given(seed=seeds)
@few
def test_mixing_the_columns_of_a_group_changes_nothing(rule, seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, weighted=True)
    X = problem.table.X.copy()
    for columns in problem.groups.values():
        rotation, _ = np.linalg.qr(rng.normal(size=(len(columns), len(columns))))
        X[:, columns] = X[:, columns] / problem.table.deviation[columns] @ rotation
        X[:, columns] *= rng.uniform(0.5, 2, len(columns))
    mixed = problem.with_table(X=X)
    assert_same_path(problem, mixed, rounding(problem.table) + rounding(mixed.table), rule=rule)


@pytest.mark.slow
@rules
@given(seed=seeds)
@few
def test_duplicating_a_column_inside_its_group_changes_nothing(rule, seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    width = problem.table.X.shape[1]
    group = rng.choice(list(problem.groups))
    twin = rng.choice(problem.groups[group])
    doubled = problem.with_table(X=np.column_stack([problem.table.X, problem.table.X[:, twin]]))
    doubled = replace(doubled, groups=problem.groups | {group: [*problem.groups[group], width]})
    assert_same_path(problem, doubled, 2 * rounding(problem.table), rule=rule)
    assert doubled.sequence(rule=rule).aliased == (f"x{width}",)


@pytest.mark.slow
@rules
@given(seed=seeds, factor=st.floats(1e-6, 1e6))
@few
def test_costs_in_another_unit_change_the_score_only(rule, seed, factor):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, ridge=0.1)
    dearer = {name: cost * factor for name, cost in problem.costs.items()}
    first, second = problem.sequence(rule=rule), problem.sequence(rule=rule, costs=dearer)
    same = ["step", "group", "gain", "explained", "r2", "useful"]
    assert first.steps.select(same).equals(second.steps.select(same))
    np.testing.assert_array_equal(first.coef, second.coef)
    for name, change in (("score", 1 / factor), ("cost", factor), ("spent", factor)):
        np.testing.assert_allclose(
            first.steps[name][1:] * change, second.steps[name][1:], rtol=8 * EPS
        )


@pytest.mark.slow
@given(seed=seeds)
@few
def test_weight_two_is_a_row_twice(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    table = problem.table
    times = rng.integers(0, 4, len(table.y))
    weighted = ds.gram(replace(table, row_weight=times.astype(float)).frame, weight="w")
    repeated = ds.gram(
        replace(table, X=table.X.repeat(times, 0), y=table.y.repeat(times)).frame.drop("w")
    )
    assert (weighted.rows, weighted.skipped) == (np.sum(times > 0), np.sum(times == 0))
    assert_same_gram(repeated, replace(weighted, rows=int(times.sum()), skipped=0))


@pytest.mark.slow
@given(seed=seeds, parts=st.integers(2, 9))
@few
def test_order_of_rows_and_cuts_into_parts_change_nothing(seed, parts):
    rng = np.random.default_rng(seed)
    frame = random_problem(rng, weighted=True).table.frame
    frame[3, "x1"] = None
    at = np.split(rng.permutation(frame.height), np.sort(rng.integers(0, frame.height, parts - 1)))
    whole = ds.gram(frame, weight="w")
    assert whole.skipped == 1
    assert_same_gram(whole, reduce(add, [ds.gram(frame[piece], weight="w") for piece in at]))


@pytest.mark.slow
@given(seed=seeds)
@few
def test_scaling_a_column_rescales_its_coefficient_only(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, ridge=0.1)
    table = problem.table
    factors = 10.0 ** rng.uniform(-4, 4, table.X.shape[1]) * rng.choice([-1, 1], table.X.shape[1])
    scaled = problem.with_table(X=table.X * factors)
    tolerance = 2 * rounding(table)
    assert_same_path(problem, scaled, tolerance)
    first, second = problem.sequence(), scaled.sequence()
    at = [table.names.index(name) for name in first.columns]
    np.testing.assert_allclose(
        (second.coef * factors[at] - first.coef) * table.deviation[at] / table.y.std(),
        0,
        atol=tolerance,
    )
    np.testing.assert_allclose(second.intercept, first.intercept, atol=tolerance * spread(problem))


@pytest.mark.slow
@given(seed=seeds)
@few
def test_shifting_columns_changes_the_intercept_only(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, ridge=0.1)
    table = problem.table
    shift = table.deviation * rng.integers(-8, 9, table.X.shape[1])
    shifted = problem.with_table(X=table.X + shift)
    # Adding rounds the data themselves: to the size of the shift, 2^4 deviations.
    tolerance = 2**5 * rounding(table)
    assert_same_path(problem, shifted, tolerance)
    first, second = problem.sequence(), shifted.sequence()
    at = [table.names.index(name) for name in first.columns]
    np.testing.assert_allclose(
        (second.coef - first.coef) * table.deviation[at] / table.y.std(), 0, atol=tolerance
    )
    np.testing.assert_allclose(
        second.intercept,
        first.intercept - first.coef @ shift[at],
        atol=tolerance * (spread(problem) + spread(shifted)),
    )


def spread(problem: Problem) -> float:
    """Return how far a unit of error in the coefficients moves the intercept."""
    table = problem.table
    return table.y.std() * np.abs(table.X.mean(axis=0) / table.deviation).sum()


@pytest.mark.slow
@given(seed=seeds)
@few
def test_gram_addition_is_a_commutative_monoid_that_subtraction_undoes(seed):
    rng = np.random.default_rng(seed)
    frame = random_problem(rng, weighted=True).table.frame
    cuts = np.sort(rng.choice(np.arange(2, frame.height - 1), 2, replace=False))
    g, h, k = (
        ds.gram(frame[start:end], weight="w") for start, end in pairwise([0, *cuts, frame.height])
    )
    none = ds.gram(frame.clear(), weight="w")
    assert none.rows == 0
    assert_same_gram((g + h) + k, g + (h + k))
    assert_same_gram(g + h, h + g)
    for same in (g + none, none + g, g - none):
        assert same.to_struct() == g.to_struct()
    assert_same_gram(g + h + k, g + h + k + h - h)
    left = (g + h) - h
    assert (left.rows, left.skipped, left.columns) == (g.rows, g.skipped, g.columns)
    whole = np.sqrt(np.diagonal((g + h).comoment) + (g + h).weight * (g + h).mean ** 2)
    np.testing.assert_allclose(
        (left.comoment - g.comoment) / np.outer(whole, whole),
        0,
        atol=8 * frame.height * EPS * (1 + h.weight / g.weight),
    )
    np.testing.assert_allclose(
        (left.mean - g.mean) * g.weight / (whole * (g + h).weight ** 0.5),
        0,
        atol=8 * frame.height * EPS,
    )
    assert ((g + h) - (g + h)).to_struct() == none.to_struct()


@pytest.mark.slow
@given(seed=seeds)
@few
def test_order_of_the_columns_of_a_table_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    gram = problem.gram
    turned = gram.select(rng.permutation(gram.columns).tolist())
    first, second = (
        ds.anytime_sequence(source, "y", problem.names, problem.costs) for source in (gram, turned)
    )
    assert first.steps.equals(second.steps)
    assert first.at() == second.at()


@pytest.mark.slow
@given(seed=seeds)
@few
def test_naming_groups_in_another_order_changes_nothing_without_ties(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    names = rng.permutation(list(problem.groups)).tolist()
    turned = replace(problem, groups={name: problem.groups[name] for name in names})
    assert_same_path(problem, turned, 2 * rounding(problem.table))
