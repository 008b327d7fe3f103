"""Exchange search: no exchange that a refit knows improves what it ends with."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from problems import random_problem
from reference import explained

import dbselect as ds

#: Rises of refits by `lstsq` below this are their rounding.
ROUNDING = 1e-10


def costs_of(problem, seed):
    rng = np.random.default_rng(seed)
    return dict(zip(problem.names, rng.uniform(0.5, 4.0, len(problem.names)), strict=True))


def value_of(problem, held):
    return explained(problem.table, [j for name in held for j in problem.groups[name]])


@pytest.mark.parametrize("budget", [None, 4.0])
@pytest.mark.parametrize("seed", range(5))
def test_no_exchange_of_one_group_improves_the_end(seed, budget):
    problem = random_problem(np.random.default_rng(seed))
    costs = costs_of(problem, seed)
    limit = np.inf if budget is None else budget
    for k in (1, 2, 3):
        found = ds.exchange(problem.gram, "y", problem.names, costs, k=k, budget=budget)
        value = value_of(problem, found.groups)
        assert found.explained == pytest.approx(value, abs=1e-12)
        greedy = ds.greedy(problem.gram, "y", problem.names, costs, k=k, budget=budget)
        assert value >= greedy.explained - ROUNDING
        assert found.spent <= limit
        for out in found.groups:
            rest = [name for name in found.groups if name != out]
            for into in set(problem.names) - set(found.groups):
                if sum(costs[name] for name in [*rest, into]) <= limit:
                    assert value_of(problem, [*rest, into]) <= value + ROUNDING


def suppressed(seed):
    """Return a table whose best pair has neither of the best columns, and noise besides."""
    rng = np.random.default_rng(seed)
    a, b, *rest = rng.normal(size=(6, 80))
    columns = {f"n{j}": noise for j, noise in enumerate(rest)} | {"a": a, "b": b}
    columns["both"] = a + b + 0.4 * rng.normal(size=80)
    return pl.DataFrame(columns | {"y": a + b + 0.1 * rng.normal(size=80)})


def test_a_sequence_is_polished_at_a_size_and_within_a_budget():
    gram = ds.gram(suppressed(0))
    seq = ds.anytime_sequence(gram, "y")
    polished = ds.exchange(gram, "y", k=2, start=seq.at(size=2).groups)
    assert sorted(polished.groups) == ["a", "b"]
    costs = dict.fromkeys([*seq.groups.names], 1.0) | {"a": 3.0}
    within = ds.exchange(gram, "y", costs=costs, k=6, budget=3.0, start=["both"])
    assert within.spent <= 3.0
    assert "a" not in within.groups
    assert ds.exchange(gram, "y", k=2, always=["both"]).groups[0] == "both"


@pytest.mark.parametrize("family", ["binomial", "gamma"])
def test_families_take_the_deviance_of_refits(family):
    table = suppressed(1)
    y = pl.col("y")
    table = table.with_columns((y > 0).cast(pl.Float64) if family == "binomial" else y.exp())
    names = [name for name in table.columns if name != "y"]
    found = ds.exchange(table, "y", k=2, family=family)
    left = {
        two: ds.fit(table, "y", list(two), family=family, ridge=0.0).deviance
        for two in combinations(names, 2)
        if set(two) & set(found.groups)
    }
    assert left[tuple(name for name in names if name in found.groups)] <= min(left.values()) * (
        1 + 1e-6
    )


def test_other_objectives_are_exchanged():
    cover = ds.objectives.coverage(ds.gram(suppressed(2)), "y")
    assert len(ds.exchange(cover, k=3).chosen) == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"start": ["a", "b"]}, "start and always name 2 groups; k allows 1"),
        ({"start": "a"}, "start"),
        ({"start": ["both"], "budget": 0.5}, "start has 'both', which the budget 0.5 does not buy"),
    ],
)
def test_a_start_that_cannot_be_is_refused(given, words):
    with pytest.raises(ds.errors.ArgumentError, match=words):
        ds.exchange(suppressed(0), "y", k=1, **given)
    with pytest.raises(ds.errors.GroupError, match="start names unknown group 'z'"):
        ds.exchange(suppressed(0), "y", k=1, start=["z"])


@pytest.mark.parametrize("seed", [72, 205, 362, 924, 1244])
@pytest.mark.filterwarnings("ignore::dbselect.errors.ConditionWarning")
def test_rises_that_rounding_promises_do_not_go_on_for_ever(seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(20, 2))
    share = 10.0 ** rng.uniform(-7, -4)
    X = z @ rng.normal(size=(2, 6)) + share * rng.normal(size=(20, 6))
    y = z @ rng.normal(size=2) + 1e-3 * rng.normal(size=20)
    rows = pl.DataFrame(X, schema=[f"x{j}" for j in range(6)]).with_columns(y=y)
    k = int(rng.integers(2, 5))
    assert len(ds.exchange(rows, "y", k=k).groups) <= k
