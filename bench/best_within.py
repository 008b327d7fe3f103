"""The best groups for a budget: a proof beside trying all, and beside the forward search."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from measure import once, seconds
from mlxtend.feature_selection import ExhaustiveFeatureSelector
from rows import Row
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
    """Return columns of which a third as many explain 99 per cent of the variance."""
    rank = width // 3
    common = rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, width))
    return common / np.sqrt(rank) + 0.1 * rng.standard_normal((rows, width))


def dense(rng: np.random.Generator, rows: int, width: int) -> np.ndarray:
    """Return columns that all depend a little on each other."""
    mixed = np.eye(width) + 0.3 * rng.standard_normal((width, width))
    return rng.standard_normal((rows, width)) @ mixed


#: Time limit of a proof, in seconds.
LONGEST = 20
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
            (forward,) = seconds(partial(ds.anytime_sequence, gram, "y", groups, costs))
            selections = [
                ds.best_within(gram, "y", share * whole, groups, costs, time_limit=LONGEST)
                for share in (0.1, 0.25, 0.5)
            ]
            gap, nodes = max(s.how.gap for s in selections), max(s.how.nodes for s in selections)
            yield Row(
                f"{count} groups of {size}, {kind.__name__.replace('_', ' ')}: the longest proof "
                "at 10, 25 and 50 % of the cost",
                max(s.how.seconds for s in selections),
                forward,
                "the forward search",
                limit=10.0 if count == 30 else None,
                note=f"{nodes:,} nodes, {f'gap {gap:.4f}' if gap else 'all proven'}",
            )


def against_all() -> Iterator[Row]:
    """Try every set of 15 groups within a budget, and every set of 7 of 14 columns."""
    rng = np.random.default_rng(0)
    table, groups, costs = problem(factors(rng, 1000, 30), 2, rng)
    gram, budget = ds.gram(table), 0.4 * sum(costs.values())
    exhaustive, most = once(lambda: best_of_all(gram, groups, costs, budget))
    (took,) = seconds(lambda: ds.best_within(gram, "y", budget, groups, costs))
    best = ds.best_within(gram, "y", budget, groups, costs)
    note = f"explained differs by {abs(most - best.explained):.0e}"
    yield Row("15 groups of 2", took, exhaustive, "all sets by NumPy", note=note)
    table, _, _ = problem(factors(rng, 1000, 14), 1, rng)
    gram, rows = ds.gram(table), table.drop("y").to_numpy()
    peer = ExhaustiveFeatureSelector(
        LinearRegression(), min_features=7, max_features=7, scoring="r2", cv=0, print_progress=False
    )
    peer_took, _ = once(lambda: peer.fit(rows, table["y"].to_numpy()))
    (took,) = seconds(lambda: ds.best_within(gram, "y", 7))
    same = set(peer.best_idx_) == set(ds.best_within(gram, "y", 7).chosen)
    note, of = f"{'the same' if same else 'other'} columns", "mlxtend's ExhaustiveFeatureSelector"
    yield Row("7 of 14 columns", took, peer_took, of, note=note)


def best_of_all(
    gram: ds.Gram, groups: dict[str, list[str]], costs: dict[str, float], budget: float
) -> float:
    """Return the most that a set within a budget explains."""
    members = [[gram.position(name, "groups") for name in names] for names in groups.values()]
    y = gram.position("y", "target")
    C, price = gram.comoment / gram.comoment[y, y], np.array(list(costs.values()))
    most = 0.0
    for number in range(1, 2 ** len(members)):
        chosen = [g for g in range(len(members)) if number >> g & 1]
        if price[chosen].sum() <= budget:
            at = np.concatenate([members[g] for g in chosen])
            c = C[at, y]
            most = max(most, float(c @ np.linalg.solve(C[np.ix_(at, at)], c)))
    return most


def against_prefixes() -> Iterator[Row]:
    """Count how often prefixes explain a point of r2 less than the best set."""
    rng = np.random.default_rng(0)
    count, behind, later, best, greedy = 400, 0, 0, 0.0, 0.0
    for _ in range(count):
        table, groups, costs = problem(factors(rng, 200, 16), 2, rng)
        gram = ds.gram(table)
        budget = rng.uniform(0.0, 0.6) * sum(costs.values())
        took, best_set = once(partial(ds.best_within, gram, "y", budget, groups, costs))
        prefix = ds.anytime_sequence(gram, "y", groups, costs).at(budget)
        search = partial(ds.anytime_sequence, gram, "y", groups, costs, budget=budget)
        forward, within = once(search)
        behind += best_set.explained - prefix.explained > 0.01
        later += best_set.explained - within.at().explained > 0.01
        best, greedy = best + took, greedy + forward
    yield Row(
        f"{count} budgets of 8 groups of 2, each",
        best / count,
        greedy / count,
        "the forward search",
        note=f"a point of r2 more than the prefix in {behind}, than the forward search within the "
        f"budget in {later}",
    )


def published() -> Iterator[Row]:
    """Find the best models of all 15 sizes of lmSubsets' data set AirPollution."""
    gram = ds.gram(pl.read_csv(AIR_POLLUTION))
    (forward,) = seconds(lambda: ds.anytime_sequence(gram, "mortality"))
    selections = [ds.best_within(gram, "mortality", size) for size in range(1, 16)]
    total, proven = sum(s.how.seconds for s in selections), sum(s.how.proven for s in selections)
    what = "AirPollution of lmSubsets, 1 to 15 of 15 columns"
    yield Row(what, total, forward, "the forward search", note=f"{proven} of 15 proven")


PARTS = (proofs, against_all, against_prefixes, published)
