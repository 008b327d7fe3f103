"""Special cases that other libraries compute as well."""

import numpy as np
import pytest
from fastcan import FastCan
from mlxtend.feature_selection import SequentialFeatureSelector
from problems import Problem, random_problem, rounding
from sklearn.linear_model import LinearRegression, orthogonal_mp_gram

import dbselect as ds

seeds = pytest.mark.parametrize("seed", range(5))


def columns_alone(rng: np.random.Generator) -> tuple[Problem, ds.Gram]:
    """Return a problem of ten groups of one column each."""
    problem = random_problem(rng, sizes=(1,) * 10, rows=80)
    return problem, problem.gram


def order(seq: ds.results.Sequence) -> list[int]:
    """Return numbers of the columns in the order in which they were taken."""
    return [int(name.removeprefix("x")) for name in seq.at().columns]


@seeds
def test_omp_on_single_columns_is_scikit_learns_orthogonal_matching_pursuit(seed):
    rng = np.random.default_rng(seed)
    problem, gram = columns_alone(rng)
    seq = ds.anytime_sequence(gram, "y", rule="omp")
    correlation = gram.select(["x*", "y"]).correlation()
    held: list[int] = []
    for step in range(1, 11):
        peer = orthogonal_mp_gram(correlation[:-1, :-1], correlation[:-1, -1], n_nonzero_coefs=step)
        held += [column for column in np.flatnonzero(peer) if column not in held]
        assert order(seq)[:step] == held
        coef = [seq.at(step).coefficients.get(name, 0.0) for name in problem.table.names]
        np.testing.assert_allclose(
            coef * problem.table.deviation / problem.table.y.std(),
            peer,
            rtol=0,
            atol=rounding(problem.table),
        )


@seeds
def test_forward_regression_on_single_columns_is_fastcans_order(seed):
    rng = np.random.default_rng(seed)
    problem, gram = columns_alone(rng)
    table = problem.table
    peer = FastCan(n_features_to_select=10, verbose=0).fit(table.X, table.y[:, None])
    seq = ds.anytime_sequence(gram, "y")
    assert order(seq) == peer.indices_.tolist()
    np.testing.assert_allclose(seq.steps["gain"][1:], peer.scores_, rtol=0, atol=rounding(table))


@seeds
def test_forward_regression_at_equal_costs_is_mlxtends_feature_groups(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    names, columns = list(problem.groups), list(problem.groups.values())
    peer = SequentialFeatureSelector(
        LinearRegression(), k_features=len(names), scoring="r2", cv=0, feature_groups=columns
    ).fit(problem.table.X, problem.table.y)
    steps = problem.sequence(costs=None).steps
    held: set[int] = set()
    for step, group in enumerate(steps["group"][1:], start=1):
        held |= set(problem.groups[group])
        assert set(peer.subsets_[step]["feature_idx"]) == held
        assert steps["r2"][step] == pytest.approx(
            peer.subsets_[step]["avg_score"], abs=rounding(problem.table)
        )
