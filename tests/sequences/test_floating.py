"""Floating search against the paper's by refits, and what polishes its sets."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from problems import random_problem
from reference import explained

import dbselect as ds


def sffs(value, names, most):
    """Return the best value of each size by Pudil, Novovicova and Kittler (1994), refits only."""
    held, best = [], {0: 0.0}
    while len(held) < most:
        held = [*held, max((n for n in names if n not in held), key=lambda n: value([*held, n]))]
        best[len(held)] = max(best.get(len(held), -1.0), value(held))
        while len(held) > 1:
            left = max(([o for o in held if o != n] for n in held), key=value)
            if value(left) <= best[len(left)] + 1e-12:
                break
            held = left
            best[len(held)] = value(held)
    return best


def suppressed(seed, width=9):
    """Return columns that explain together what none does alone, so that searches go astray."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(60, width)) @ (np.eye(width) + 0.6 * rng.normal(size=(width, width)))
    y = Z @ rng.normal(size=width) + rng.normal(size=60)
    return pl.DataFrame(Z, [f"x{j}" for j in range(width)]).with_columns(y=y)


def r2_of(table):
    """Return the r2 of a refit on some columns."""
    y = table["y"].to_numpy() - table["y"].mean()

    def value(columns):
        if not columns:
            return 0.0
        X = table.select(columns).to_numpy()
        X = X - X.mean(axis=0)
        return 1 - ((y - X @ np.linalg.lstsq(X, y, rcond=None)[0]) ** 2).sum() / (y @ y)

    return value


def test_it_is_the_search_of_the_paper():
    went_back = 0
    for seed in range(20):
        table = suppressed(seed)
        names = table.columns[:-1]
        seq = ds.floating(table, "y", max_groups=8)
        best = sffs(r2_of(table), names, 8)
        found = {k: seq.at(size=k).r2 for k in range(1, 9)}
        assert found == pytest.approx({k: best[k] for k in found}, abs=1e-10)
        went_back += (seq.steps["action"] == "remove").any()
    assert went_back >= 5


@pytest.mark.parametrize("seed", range(3))
def test_groups_of_unequal_cost_are_given_back_for_what_beats_all_that_cost_no_more(seed):
    problem = random_problem(np.random.default_rng(seed), sizes=(2, 1, 3, 1, 2, 1, 2))
    seq = ds.floating(problem.gram, "y", problem.names, problem.costs, always=["g3"])
    seen, held = [], []
    for step, (action, group) in enumerate(seq.steps.select("action", "group").rows()[1:], 1):
        held = [*held, group] if action == "add" else [one for one in held if one != group]
        value = explained(problem.table, [j for one in held for j in problem.groups[one]])
        cost = sum(problem.costs[one] for one in held)
        assert (seq.explained[step], seq.spent[step]) == pytest.approx((value, cost), abs=1e-10)
        if action == "remove":
            assert value > max(v for c, v in seen if c <= cost + 1e-9)
        seen.append((cost, value))
    assert seq.records[0].group == 3
    assert "g3" in seq.at().groups


def test_limits_end_it_and_are_told():
    table = suppressed(2)
    assert ds.floating(table, "y", max_groups=3).stop.name == "MAX_GROUPS"
    assert len(ds.floating(table, "y", max_steps=4).records) == 4
    within = ds.floating(table, "y", budget=2.0)
    assert (within.stop.name, max(within.spent)) == ("BUDGET", 2.0)
    assert ds.floating(table, "y").stop.name == "EXHAUSTED"
    origin = ds.floating(table, "y", max_groups=2, intercept=False)
    assert origin.at().intercept == 0.0
    seen = []
    ds.floating(table, "y", max_groups=3, callback=seen.append)
    assert len(seen) >= 3


def test_families_take_the_deviance_of_refits():
    table = suppressed(3, 5).with_columns(z=pl.col("y") > pl.col("y").mean()).drop("y")
    seq = ds.floating(table, "z", family="binomial", max_groups=3)
    model = seq.at(size=2)
    refit = ds.fit(table, "z", model.columns, family="binomial")
    assert model.deviance == pytest.approx(refit.deviance, rel=1e-6)


# Polish: what an order leaves is exchanged until nothing improves


def polished(gram, k, budget=None):
    """Return what exchanges make of the sets of three sequences at a size, the best of them."""
    ends = [
        ds.exchange(gram, "y", k=k, start=seq.at(size=k).groups)
        for seq in (ds.anytime_sequence(gram, "y"), ds.backward(gram, "y"), ds.floating(gram, "y"))
    ]
    return max(ends, key=lambda end: end.r2)


def all_optima(gram, sizes):
    """Return at how many sizes the polish and one call of `exchange` reach what is proven best."""
    reached, by_one_call = 0, 0
    for k in sizes:
        best = ds.best_within(gram, "y", float(k))
        assert best.how.proven
        reached += abs(polished(gram, k).r2 - best.r2) < 1e-10
        by_one_call += abs(ds.exchange(gram, "y", k=k).r2 - best.r2) < 1e-10
    return reached, by_one_call


@pytest.mark.slow
def test_the_polish_of_sequences_reaches_what_is_proven_best_at_every_size():
    """As R's leaps lists them: the least RSS of each size, of tables that people have analysed."""
    air = pl.read_csv(Path(__file__).parents[1] / "data" / "air_pollution.csv")
    assert all_optima(ds.gram(air.rename({"mortality": "y"})), range(1, 15)) == (14, 14)
    diabetes = pytest.importorskip("sklearn.datasets").load_diabetes()
    table = pl.DataFrame(diabetes.data, diabetes.feature_names).with_columns(y=diabetes.target)
    assert all_optima(ds.gram(table), range(1, 10)) == (9, 9)
