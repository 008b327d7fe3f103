"""The best groups for a budget: how long a proof takes, beside trying all and beside a prefix."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from measure import Row, seconds
from mlxtend.feature_selection import ExhaustiveFeatureSelector
from sklearn.linear_model import LinearRegression
from tables import columns

import dbselect as ds

#: The models that lmSubsets finds in them are in tests/sets/test_best_within.py.
AIR_POLLUTION = Path(__file__).parents[1] / "tests" / "data" / "air_pollution.csv"


def independent(rng: np.random.Generator, rows: int, width: int) -> np.ndarray:
    return rng.standard_normal((rows, width))


def factors(rng: np.random.Generator, rows: int, width: int) -> np.ndarray:
    common = rng.standard_normal((rows, 3)) @ rng.standard_normal((3, width))
    return common + rng.standard_normal((rows, width))


def neighbours(rng: np.random.Generator, rows: int, width: int) -> np.ndarray:
    """Return columns of which each has correlation 0.9 with the one before."""
    X = rng.standard_normal((rows, width))
    for j in range(1, width):
        X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(1 - 0.81) * X[:, j]
    return X


def nearly_dependent(rng: np.random.Generator, rows: int, width: int) -> np.ndarray:
    """Return columns that a third as many explain but for 1 per cent of their variance."""
    rank = width // 3
    common = rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, width))
    return common / np.sqrt(rank) + 0.1 * rng.standard_normal((rows, width))


def dense(rng: np.random.Generator, rows: int, width: int) -> np.ndarray:
    """Return columns that all depend a little on each other."""
    mixed = np.eye(width) + 0.3 * rng.standard_normal((width, width))
    return rng.standard_normal((rows, width)) @ mixed


KINDS = (independent, factors, neighbours, nearly_dependent, dense)


def problem(
    X: np.ndarray, size: int, rng: np.random.Generator
) -> tuple[pl.DataFrame, dict[str, list[str]], dict[str, float]]:
    """Return a table whose target needs a third of the columns, groups and unequal costs."""
    width = X.shape[1]
    signal = X @ (rng.standard_normal(width) * (rng.random(width) < 1 / 3))
    y = signal + signal.std() * rng.standard_normal(len(X))
    names = columns(width)
    groups = {f"g{i}": names[i * size : (i + 1) * size] for i in range(width // size)}
    costs = dict(zip(groups, rng.uniform(1.0, 9.0, len(groups)), strict=True))
    return pl.DataFrame(X, schema=names).with_columns(y=pl.Series(y)), groups, costs


def proofs() -> Iterator[Row]:
    """Prove the best of 30 and of 60 groups of unequal costs, at three budgets each."""
    for count, size in ((30, 1), (30, 4), (60, 1)):
        for kind in KINDS:
            rng = np.random.default_rng(0)
            table, groups, costs = problem(kind(rng, 1000, count * size), size, rng)
            gram, whole = ds.gram(table), sum(costs.values())
            found = [
                ds.best_within(gram, "y", share * whole, groups, costs, time_limit=60)
                for share in (0.1, 0.25, 0.5)
            ]
            times = ", ".join(f"{one.how.seconds:.2f}" for one in found)
            nodes = ", ".join(str(one.how.nodes) for one in found)
            gap = max(one.how.gap for one in found)
            label = kind.__name__.replace("_", " ")
            yield (
                f"best_within, {count} groups of {size}, {label}, 10, 25 and 50 % of the cost",
                f"{times} s; {nodes} nodes; largest gap {gap:.4f}",
                "< 10 s, gap 0" if count == 30 else "",
            )


def against_all() -> Iterator[Row]:
    """Try every set of 15 groups within a budget, and every set of 7 of 14 columns."""
    rng = np.random.default_rng(0)
    table, groups, costs = problem(factors(rng, 1000, 30), 2, rng)
    gram, budget = ds.gram(table), 0.4 * sum(costs.values())
    start = time.perf_counter()
    most = best_of_all(gram, groups, costs, budget)
    exhaustive = time.perf_counter() - start
    (own,) = seconds(lambda: ds.best_within(gram, "y", budget, groups, costs))
    found = ds.best_within(gram, "y", budget, groups, costs)
    yield (
        "best_within, 15 groups of 2, against all sets by NumPy",
        f"{own:.3f} s against {exhaustive:.1f} s, {exhaustive / own:.0f}x; "
        f"explained differs by {abs(most - found.explained):.0e}",
        "",
    )
    table, _, _ = problem(factors(rng, 1000, 14), 1, rng)
    gram, rows = ds.gram(table), table.drop("y").to_numpy()
    peer = ExhaustiveFeatureSelector(
        LinearRegression(), min_features=7, max_features=7, scoring="r2", cv=0, print_progress=False
    )
    start = time.perf_counter()
    peer.fit(rows, table["y"].to_numpy())
    other = time.perf_counter() - start
    (own,) = seconds(lambda: ds.best_within(gram, "y", 7))
    same = set(peer.best_idx_) == set(ds.best_within(gram, "y", 7).chosen)
    yield (
        "best_within, 7 of 14 columns, against mlxtend's ExhaustiveFeatureSelector",
        f"{own:.3f} s against {other:.1f} s, {other / own:.0f}x; "
        f"{'the same columns' if same else 'other columns'}",
        "",
    )


def best_of_all(
    gram: ds.Gram, groups: dict[str, list[str]], costs: dict[str, float], budget: float
) -> float:
    """Return the most that a set within a budget explains."""
    members = [[gram.position(name, "groups") for name in names] for names in groups.values()]
    y = gram.position("y", "target")
    C, price = gram.comoment / gram.comoment[y, y], np.array(list(costs.values()))
    most = 0.0
    for number in range(1, 2 ** len(members)):
        held = [g for g in range(len(members)) if number >> g & 1]
        if price[held].sum() <= budget:
            at = np.concatenate([members[g] for g in held])
            c = C[at, y]
            most = max(most, float(c @ np.linalg.solve(C[np.ix_(at, at)], c)))
    return most


def against_prefixes() -> Iterator[Row]:
    """Count how often prefixes explain a point of r2 less than the best set."""
    rng = np.random.default_rng(0)
    lost, shortfall, spent = 0, [], 0.0
    for _ in range(400):
        table, groups, costs = problem(factors(rng, 200, 16), 2, rng)
        gram = ds.gram(table)
        budget = rng.uniform(0.0, 0.6) * sum(costs.values())
        found = ds.best_within(gram, "y", budget, groups, costs)
        prefix = ds.anytime_sequence(gram, "y", groups, costs).at(budget)
        within = ds.anytime_sequence(gram, "y", groups, costs, budget=budget).at()
        lost += found.explained - prefix.explained > 0.01
        shortfall.append(found.explained - within.explained)
        spent += found.how.seconds
    beyond = sum(each > 0.01 for each in shortfall)
    yield (
        "best_within, 400 budgets of 8 groups of 2: sets that explain a point of r2 more",
        f"than the prefix {lost}, than the greedy search within the budget {beyond}; "
        f"{1000 * spent / 400:.0f} ms each",
        "",
    )


def published() -> Iterator[Row]:
    """Find the best models of all 15 sizes of lmSubsets' data set AirPollution."""
    gram = ds.gram(pl.read_csv(AIR_POLLUTION))
    found = [ds.best_within(gram, "mortality", size) for size in range(1, 16)]
    total = sum(one.how.seconds for one in found)
    yield (
        "best_within, AirPollution of lmSubsets, 1 to 15 of 15 columns",
        f"{total:.2f} s in all, {sum(one.how.proven for one in found)} proven",
        "15",
    )
