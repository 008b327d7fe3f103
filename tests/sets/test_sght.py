"""Bi-level selection: what the descent finds, and the best of all supports."""

from itertools import combinations, product

import numpy as np
import polars as pl
import pytest
import reference
from problems import random_problem, rounding
from reference import Table

import dbselect as ds
from dbselect.errors import ArgumentError, ConvergenceWarning, GroupError
from dbselect.problem.calls import sght
from dbselect.selection.descent import VARIANTS

SIZES = (1, 3, 2, 1, 2, 4, 5)

variants = pytest.mark.parametrize("variant", VARIANTS)
starts = pytest.mark.parametrize("start", ["ridge", "zero"])


def problem_of(seed, **asked):
    return random_problem(np.random.default_rng(seed), SIZES, rows=60, **asked)


def vector_of(problem, model):
    """Return the coefficients on unit-variance columns, as a share of the target's deviation."""
    x = np.zeros(problem.table.X.shape[1])
    for name, value in model.coefficients.items():
        x[int(name[1:])] = value
    return x * problem.table.deviation / np.sqrt(problem.table.t @ problem.table.t)


@starts
@variants
def test_last_objective_is_that_of_the_coefficients(variant, start):
    problem = problem_of(0)
    model = sght(
        problem.gram, "y", groups=problem.names, max_columns=5, max_groups=3, variant=variant,
        start=start, refit=False,
    )  # fmt: skip
    x, table = vector_of(problem, model), problem.table
    rest = table.t / np.sqrt(table.t @ table.t) - table.A @ x
    tolerance = rounding(table)
    assert 1 + 2 * model.history.min() == pytest.approx(rest @ rest, abs=tolerance)
    assert model.r2 == pytest.approx(1 - rest @ rest, abs=tolerance)
    assert model.intercept == pytest.approx(
        np.average(table.y - table.X @ (x * np.sqrt(table.t @ table.t) / table.deviation)),
        rel=tolerance,
    )


@variants
def test_orthogonal_columns_give_the_best_of_all_supports(variant):
    rng = np.random.default_rng(0)
    centred = rng.standard_normal((40, 9))
    X = np.linalg.qr(centred - centred.mean(axis=0))[0] * np.sqrt(40)
    y = X @ rng.standard_normal(9) + 0.1 * rng.standard_normal(40)
    table = Table(X, y)
    groups = {"a": [0, 1, 2], "b": [3], "c": [4, 5], "d": [6, 7, 8]}
    names = {group: [f"x{j}" for j in members] for group, members in groups.items()}
    gram = ds.gram(table.frame, columns=["x*", "y"])
    sizes = sorted((len(members) for members in groups.values()), reverse=True)
    for max_columns, max_groups in product(range(1, 6), range(1, 5)):
        # Fewer columns than there can be are never better.
        supports = combinations(range(9), min(max_columns, sum(sizes[:max_groups])))
        best = max(
            reference.r2(table, list(columns))
            for columns in supports
            if sum(bool(set(columns) & set(held)) for held in groups.values()) <= max_groups
        )
        limits = {"max_columns": max_columns, "max_groups": max_groups}
        model = sght(gram, "y", groups=names, variant=variant, **limits)
        assert model.r2 == pytest.approx(best, abs=1e-12)


def test_constant_columns_are_never_kept_and_copies_are_aliased():
    rng = np.random.default_rng(5)
    x = rng.standard_normal(30)
    frame = pl.DataFrame(
        {"one": np.ones(30), "x": x, "copy": x, "y": x + 0.1 * rng.standard_normal(30)}
    )
    members = {"g": ["one", "x", "copy"]}
    model = sght(ds.gram(frame), "y", groups=members, max_columns=3, max_groups=1)
    assert model.columns == ["x", "copy"]
    assert model.aliased == ("copy",)
    assert model.coefficients["copy"] == 0.0
    assert model.r2 == pytest.approx(np.corrcoef(x, frame["y"])[0, 1] ** 2, rel=1e-12)


def test_a_target_that_nothing_explains_keeps_nothing():
    frame = pl.DataFrame({"a": [1, -1, 1, -1], "b": [1, 1, -1, -1], "y": [1, -1, -1, 1]})
    model = sght(ds.gram(frame), "y", max_columns=2, max_groups=2)
    assert (model.columns, model.groups, model.r2, model.intercept) == ([], [], 0.0, 0.0)
    assert model.converged


def test_a_descent_that_is_cut_short_says_so():
    problem = problem_of(6)
    limits = {"groups": problem.names, "max_columns": 6, "max_groups": 3}
    with pytest.warns(ConvergenceWarning, match="descent within .6, 3. had not converged"):
        model = sght(problem.gram, "y", **limits, max_iter=1, polish=False)
    assert not model.converged
    assert model.iterations == 1
    assert sght(problem.gram, "y", **limits).converged


def best_of_all(problem, s1: int, s2: int) -> float:
    """Return the best r2 of all supports within both limits."""
    group = [name for name, columns in problem.groups.items() for _ in columns]
    columns = [column for columns in problem.groups.values() for column in columns]
    return max(
        reference.r2(problem.table, [columns[j] for j in kept])
        for kept in combinations(range(len(columns)), s1)
        if len({group[j] for j in kept}) <= s2
    )


def test_exchanges_close_the_gap_to_the_best_of_all_supports():
    plain, polished = [], []
    for seed in range(12):
        problem = random_problem(np.random.default_rng(seed), (3, 3, 3, 3), rows=60)
        limits = {"groups": problem.names, "max_columns": 4, "max_groups": 2}
        best = best_of_all(problem, 4, 2)
        found = sght(problem.gram, "y", **limits)
        assert found.r2 <= best + 1e-9
        assert found.how.exchanges is not None
        assert found.how.start in {"ridge", "forward"}
        assert len(found.columns) <= 4
        assert len(found.groups) <= 2
        polished.append(found.r2 / best)
        plain.append(sght(problem.gram, "y", **limits, polish=False).r2 / best)
    assert all(a >= b - 1e-12 for a, b in zip(polished, plain, strict=True))
    assert np.mean(np.array(polished) > 1 - 1e-9) > 0.9


@pytest.mark.parametrize("seed", range(12))
def test_where_many_sets_explain_all_rounding_does_not_choose(seed):
    rng = np.random.default_rng(seed)
    X = rng.random((15, 30))
    y, w = rng.integers(0, 3, 15), rng.integers(0, 5, 15)
    frame = pl.DataFrame(X).with_columns(y=y, w=w)
    repeated = frame.drop("w")[np.repeat(np.arange(15), w)].sample(fraction=1, shuffle=True, seed=1)
    limits = {"max_columns": 15, "max_groups": 15}
    weighted = ds.Problem(frame, "y", weight="w").sght(**limits)
    assert weighted.groups == ds.Problem(repeated, "y").sght(**limits).groups
    assert weighted.r2 == pytest.approx(1.0)


def test_a_start_of_ones_own_is_used_and_named():
    problem = problem_of(3)
    limits = {"groups": problem.names, "max_columns": 4, "max_groups": 2}
    best = sght(problem.gram, "y", **limits)
    again = sght(problem.gram, "y", **limits, start=best.coefficients, polish=False)
    assert again.columns == best.columns
    assert again.how.start == "given"
    assert again.iterations <= 2
    for start, message in [
        ({"nothing": 1.0}, "start has 'nothing', which is in no group"),
        ({best.columns[0]: "a"}, "must be a finite number"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            sght(problem.gram, "y", **limits, start=start)


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_a_path_has_the_model_of_every_pair(family):
    frame = problem_of(8).table.frame.drop("w").with_columns(y=pl.col("y") > pl.mean("y"))
    problem = ds.Problem(frame.cast(float), "y", family=family, ridge=0.1)
    path = ds.reference.sght_path(problem, [5, 2], range(1, 4), start="zero")
    assert list(path) == list(product([5, 2], [1, 2, 3]))
    for (columns, groups), model in path.items():
        alone = problem.sght(max_columns=columns, max_groups=groups, start="zero")
        assert model.coefficients == alone.coefficients
    with pytest.raises(ArgumentError, match="max_groups is 0"):
        ds.reference.sght_path(problem, [3], [0])


REFUSALS = [
    ({"max_columns": 19}, ArgumentError, "max_columns is 19; it must be .* from 1 to 18"),
    ({"max_groups": 8}, ArgumentError, "max_groups is 8; it must be .* from 1 to 7"),
    ({"start": np.zeros(3)}, ArgumentError, "start is a ndarray.*'ridge', 'zero'"),
    ({"groups": {"a": ["y"]}}, GroupError, "names the target"),
]


@pytest.mark.parametrize(("changes", "error", "message"), REFUSALS)
def test_refuses(changes, error, message):
    problem = problem_of(0)
    usual = {"source": problem.gram, "target": "y", "groups": problem.names}
    limits = {"max_columns": 3, "max_groups": 2}
    with pytest.raises(error, match=message):
        sght(**(usual | limits | changes))
