"""Hu, Grubb, Bagnell, Hebert (2016): Tables 1 and 2, training times, and Theorem 4.1."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import anytime
import numpy as np
import polars as pl

import dbselect as ds
from reproduce.page import Study, claims, lines, prose, spread, table

#: Table 2: 0.99-timeliness by size of groups. Its seventh column is that of the oracles of FR.
TABLE_2 = {
    5: (0.3188, 0.3039, 0.3111, 0.2985, 0.3222, 0.3225, 0.3211, 0.2934),
    10: (0.3142, 0.3117, 0.3079, 0.2909, 0.3205, 0.3207, 0.3164, 0.2858),
    15: (0.3165, 0.3159, 0.3116, 0.2892, 0.3213, 0.3213, 0.3177, 0.2952),
    20: (0.3161, 0.3124, 0.3065, 0.2875, 0.3180, 0.3180, 0.3163, 0.2895),
}
#: Table 1: 0.97-timeliness on the agricultural table.
TABLE_1 = (0.4406, 0.4086, 0.4340, 0.4073, 0.4525, 0.4551, 0.4508, 0.3997)
METHODS = list(anytime.PUBLISHED)
#: Claims of both tables: the first is above the second, or at least as high.
CLAIMS = [claim for claim in anytime.CLAIMS if anytime.SHRUNK not in claim]

#: The agricultural table as published: six groups of 32 columns, 51 of 1 to 6, 328 in all.
SIZES = [32] * 6 + [1] * 15 + [2] * 12 + [3] * 11 + [4] * 6 + [5] * 2 + [6] * 5
#: Costs from 0.0005 to 0.0088, which sum to 0.111: the exponent makes the sum right.
COSTS = 0.0005 + 0.0083 * np.linspace(0, 1, len(SIZES)) ** 4.9
#: p (1 - p) / 2 is the published initial risk, 0.091.
LABELLED = 0.2392
AGRICULTURE = {"ridge": 1e-7, "fraction": 0.97}
#: Rows to train on and as many to test on; 400,000 and 100,000 in the paper.
ROWS = 20_000

#: Rows, and groups and costs by name.
Fields = tuple[np.ndarray, dict[str, list[str]], dict[str, float]]

#: Of equation 10: sequences of so many items, item x costing x and worth e^x.
ITEMS = 24


def fields(
    seed: int, rows: int = ROWS
) -> tuple[np.ndarray, dict[str, list[str]], dict[str, float]]:
    """Return rows like those of the agricultural table, label first, with groups and costs.

    Columns of a group come from a few signals of its own, in near-copies; signals of all
    groups share a part. What a group is worth per cost is log-normal.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(SIZES))
    costs = rng.permutation(COSTS)
    common = rng.standard_normal((rows, 4)).astype(np.float32)
    score = np.zeros(rows, dtype=np.float32)
    columns, groups, names = [], {}, []
    for group, size in enumerate(np.array(SIZES)[order]):
        signals = rng.standard_normal((rows, -(-size // 4)), dtype=np.float32)
        signals = 0.8 * signals + 0.6 * common[:, [rng.integers(4)]]
        worth = np.sqrt(costs[group] * rng.lognormal(sigma=1.5))
        score += signals @ (worth * rng.standard_normal(signals.shape[1]).astype(np.float32))
        noise = rng.standard_normal((rows, size), dtype=np.float32)
        columns.append(0.95 * signals[:, np.arange(size) % signals.shape[1]] + 0.3 * noise)
        groups[f"g{group}"] = [f"g{group}_{j}" for j in range(size)]
        names += groups[f"g{group}"]
    score += score.std() * rng.standard_normal(rows).astype(np.float32)
    label = score > np.quantile(score, 1 - LABELLED)
    table = np.column_stack([label.astype(np.float32), *columns])
    return table, groups, {f"g{group}": float(cost) for group, cost in enumerate(costs)}


def timeliness(
    sequences: Mapping[str, ds.results.Sequence], test: ds.Gram, fraction: float
) -> dict[str, float]:
    """Return the timeliness of the eight methods on other rows."""
    curves = {**sequences, **anytime.oracles(dict(sequences), test)}
    judged = ds.compare(curves, "CS-G-OMP", fraction=fraction, data=test).table
    return dict(judged.select("name", "timeliness").rows())


def agriculture(seeds: range) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the timeliness of each method by table, and the curves of the first."""
    found, curves = [], pl.DataFrame()
    for seed in seeds:
        rows, groups, costs = fields(seed, 2 * ROWS)
        columns = [anytime.TARGET, *(name for names in groups.values() for name in names)]
        train, test = (ds.gram(part, columns=columns) for part in (rows[:ROWS], rows[ROWS:]))
        sequences = anytime.orders(train, groups, costs, AGRICULTURE["ridge"])
        found.append(timeliness(sequences, test, AGRICULTURE["fraction"]))
        if seed == seeds[0]:
            curves = anytime.on_test(sequences, test, AGRICULTURE["fraction"])
    return pl.DataFrame(found), curves


def learning_to_rank(seeds: range, size: int) -> pl.DataFrame:
    """Return the timeliness of each method by table of documents, for groups of a size."""
    found = []
    for seed in seeds:
        rows = anytime.documents(np.random.default_rng(seed), 2 * ROWS)
        columns = [anytime.TARGET, *anytime.NAMES]
        train, test = (ds.gram(part, columns=columns) for part in (rows[:ROWS], rows[ROWS:]))
        sequences = anytime.orders(train, *anytime.grouping(size))
        found.append(timeliness(sequences, test, anytime.FRACTION))
    return pl.DataFrame(found)


def beside(published: tuple[float, ...], found: pl.DataFrame) -> Iterator[dict[str, str]]:
    """Yield rows of a table: published, obtained, and both as a share of CS-G-OMP."""
    means = found.mean().row(0, named=True)
    own = dict(zip(METHODS, published, strict=True))
    yield {"": "published", **{name: f"{own[name]:.4f}" for name in METHODS}}
    yield {"": "obtained", **{name: spread(found[name]) for name in METHODS}}
    for title, row in (("published", own), ("obtained", means)):
        share = {name: f"{row[name] / row['CS-G-OMP']:.4f}" for name in METHODS}
        yield {"": f"{title}, share of CS-G-OMP", **share}


def counted(found: pl.DataFrame, of: str = "") -> str:
    """Return whether each of the paper's orders holds in most tables and in the mean.

    Parameters
    ----------
    of : which tables, the begin of every claim
    """
    told = {}
    for first, relation, second in CLAIMS:
        margins = found[first] - found[second]
        least = -anytime.EQUAL if relation == ">=" else anytime.EQUAL
        seen = float(margins.mean()) > least
        told[f"{of}{first} {relation} {second}"] = (
            seen and (margins > least).mean() > 0.5,
            f"{(margins > least).sum()} of {len(margins)} tables",
        )
    return claims(told)


def curves_of(study: Study, name: str, words: str, curves: pl.DataFrame) -> str:
    """Return the picture of explained variance against cost, up to the stopping cost."""
    drawn = [method for method in METHODS if "oracle" not in method]
    chart = lines(
        curves.filter(pl.col("method").is_in(drawn)), "spent", "explained", "method",
        order=drawn, titles=("summed cost", "explained on other rows"),
        shape="step-after",
    )  # fmt: skip
    return study.picture(name, words, chart)


def table_1(study: Study) -> Iterator[str]:
    """Repeat Table 1, on rows like those of the agricultural table."""
    seeds = range(study.of(10, 2))
    found, curves = agriculture(seeds)
    yield "## Sequencing: an agricultural table (Hu et al., Table 1)"
    yield prose(
        f"""
        The paper's table is proprietary. Made up with all that is published of it: 328 columns in
        57 groups, six of them of 32, costs from 0.0005 to 0.0088 that sum to {COSTS.sum():.3f}, a
        label whose initial risk is 0.091, ridge 1e-7. Inferred: near-copies of a few signals
        within a group, and a worth per cost that is log-normal. {len(seeds)} tables of {ROWS:,}
        rows to train on and as many to test on. How high timeliness is depends on the data;
        orders and shares compare.
        """
    )
    yield table(beside(TABLE_1, found))
    yield counted(found)
    yield curves_of(
        study, "agriculture", "Explained variance against cost, agricultural table", curves
    )


def table_2(study: Study) -> Iterator[str]:
    """Repeat Table 2, on documents like those of Yahoo! Learning to Rank."""
    seeds = range(study.of(4, 1))
    yield "## Sequencing: learning to rank (Hu et al., Table 2)"
    yield prose(
        f"""
        Made-up documents: 500 features at the paper's costs, which sum to 17,020, features of one
        cost in groups of 5, 10, 15 or 20, ridge 1e-5 (docs/table-2.md describes the design,
        and has ten tables of them; here {len(seeds)} of {ROWS:,} rows to train on and as many to
        test on). Whoever has the published files: `svmlight_to_parquet` and `cost_groups` make the
        paper's table of them (docs/table-2.md).
        """
    )
    for size in study.of(tuple(TABLE_2), (10,)):
        found = learning_to_rank(seeds, size)
        yield f"Groups of {size}:"
        yield table(beside(TABLE_2[size], found))
        yield counted(found, f"groups of {size}, ")


def naive_order(
    X: np.ndarray,
    y: np.ndarray,
    groups: list[np.ndarray],
    costs: np.ndarray,
    rule: Callable[..., float],
) -> list[int]:
    """Return the order of groups by refits on the rows, as the paper does it.

    Parameters
    ----------
    rule : of rows, target, residual, columns held and columns of a group: what it is worth
    """
    held: list[int] = []
    order: list[int] = []
    while len(order) < len(groups):
        residual = y - X[:, held] @ np.linalg.lstsq(X[:, held], y, rcond=None)[0] if held else y
        waiting = [group for group in range(len(groups)) if group not in order]
        worth = [rule(X, y, residual, held, groups[group]) / costs[group] for group in waiting]
        order.append(waiting[int(np.argmax(worth))])
        held += groups[order[-1]].tolist()
    return order


def omp_worth(
    X: np.ndarray, y: np.ndarray, residual: np.ndarray, held: list[int], group: np.ndarray
) -> float:
    """Return b' (X_g'X_g)^-1 b of the gradient b."""
    b = X[:, group].T @ residual
    return float(b @ np.linalg.solve(X[:, group].T @ X[:, group], b))


def fr_worth(
    X: np.ndarray, y: np.ndarray, residual: np.ndarray, held: list[int], group: np.ndarray
) -> float:
    """Return by how much the squared error falls, from a refit with the group."""
    columns = [*held, *group.tolist()]
    rest = y - X[:, columns] @ np.linalg.lstsq(X[:, columns], y, rcond=None)[0]
    return float(residual @ residual - rest @ rest)


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def times(rows: int, n_groups: int, size: int) -> dict[str, str | float]:
    """Return what a whole sequence takes by both rules, by refits and on the Gram."""
    rng = np.random.default_rng(0)
    width = n_groups * size
    X = rng.standard_normal((rows, width)) + rng.standard_normal((rows, 1))
    y = X @ rng.standard_normal(width) + rng.standard_normal(rows)
    X, y = X - X.mean(axis=0), y - y.mean()
    groups = [np.arange(g * size, (g + 1) * size) for g in range(n_groups)]
    costs = rng.uniform(1, 10, n_groups)
    gram = ds.gram(np.column_stack([X, y]), columns=[*(f"x{j}" for j in range(width)), "y"])
    named = {f"g{g}": [f"x{j}" for j in own] for g, own in enumerate(groups)}
    priced = dict(zip(named, costs.tolist(), strict=True))
    omp, fr = (
        seconds(partial(naive_order, X, y, groups, costs, rule)) for rule in (omp_worth, fr_worth)
    )
    own_omp, own_fr = (
        min(
            seconds(partial(ds.anytime_sequence, gram, "y", named, priced, rule=rule))
            for _ in range(5)
        )
        for rule in ("omp", "fr")
    )
    return {
        "by refits": fr / omp,
        "on the Gram": own_fr / own_omp,
        "seconds by refits, OMP and FR": f"{omp:.2f}, {fr:.2f}",
        "seconds on the Gram": f"{own_omp:.4f}, {own_fr:.4f}",
    }


def training_time(study: Study) -> Iterator[str]:
    """Repeat the ratio of training times, of CS-G-FR to CS-G-OMP."""
    rows = study.of(1000, 400)
    yield "## Sequencing: training time (Hu et al., Figure 2)"
    yield prose(
        f"""
        Times of a whole sequence in seconds. By refits: every step refits on {rows:,} rows by
        least squares, and FR does so for every group left. On the Gram: both rules update one
        factorisation (dbselect, the pass over the rows not counted).
        """
    )
    sizes = {
        ("agricultural size", "8"): (study.of(57, 8), 3),
        ("learning to rank, groups of 5", "10 to 20"): (study.of(100, 10), 2),
    }
    told = [
        {"table": f"{name}: {n_groups} groups of {size}", "FR / OMP, published": published}
        | times(rows, n_groups, size)
        for (name, published), (n_groups, size) in sizes.items()
    ]
    yield table(told)
    yield claims(
        {
            "FR takes many times as long as OMP, by refits": (
                all(row["by refits"] > 5 for row in told),
                ", ".join(f"{row['by refits']:.3g}" for row in told),
            ),
            "FR takes many times as long as OMP, on the Gram": (
                all(row["on the Gram"] > 5 for row in told),
                "a Gram has the exact gain for the price of the gradient",
            ),
        }
    )


def worth_of(order: list[int], budget: float) -> float:
    """Return what the items of an order are worth that a budget has completed."""
    spent, worth = 0.0, 0.0
    for item in order:
        spent += item
        if spent > budget:
            break
        worth += math.exp(item)
    return worth


def cost_factor(order: list[int]) -> float:
    """Return the C of Theorem 4.1 that an order needs: the worst B / m(B), over all budgets.

    m(B) is the dearest item held just before the next one is complete; once the dearest of all
    is held, no budget is behind. Before the first item the best is worth nothing if C is its cost.
    """
    until = order.index(max(order)) + 1
    spent, dearest = np.cumsum(order[:until]), np.maximum.accumulate(order[:until])
    return float(max([order[0], *(spent[1:] / dearest[:-1])]))


def gram_of_items(items: int) -> ds.Gram:
    """Return the Gram of equation 10: independent columns, the one of cost x explaining e^x."""
    c = np.exp(np.arange(1, items + 1) / 2)
    comoment = np.eye(items + 1)
    comoment[-1, :-1] = comoment[:-1, -1] = c
    comoment[-1, -1] = (c**2).sum() * 1.0000001
    names = [*(f"x{x}" for x in range(1, items + 1)), "y"]
    return ds.Gram(names, 1000, 0, 1.0, np.zeros(items + 1), comoment)


def doubling(study: Study) -> Iterator[str]:
    """Repeat equation 10: how much dearer than the best single item an order must be."""
    items = study.of(ITEMS, 12)
    gram = gram_of_items(items)
    costs = {f"x{x}": float(x) for x in range(1, items + 1)}

    def order(rule: str) -> list[int]:
        steps = ds.anytime_sequence(gram, "y", costs=costs, rule=rule).steps
        return [int(group[1:]) for group in steps["group"].drop_nulls()]

    orders = {
        "doubling (Algorithm 2)": order("doubling"),
        "fr": order("fr"),
        "cheapest first": list(range(1, items + 1)),
        "powers of 2": [2**i for i in range(30) if 2**i <= items],
        "powers of 3": [3**i for i in range(30) if 3**i <= items],
    }
    yield "## Sequencing: 4 is the best factor in cost (Hu et al., equation 10, Theorem 4.1)"
    yield prose(
        f"""
        Items 1 to {items}; item x costs x and is worth e^x. C is the worst ratio of a budget to
        the dearest item that the order holds for it. The theorem says that no order has a C below
        4 for ever; among finite orders 4 is the limit from below.
        """
    )
    yield table(
        {
            "order": name,
            "begins": " ".join(map(str, own[:10])),
            "C": cost_factor(own),
            "worst share of the best for a quarter of the budget": min(
                worth_of(own, budget) / math.exp(budget // 4)
                for budget in range(4, int(sum(own)) + 1)
                if budget // 4 <= items
            ),
        }
        for name, own in orders.items()
    )
    yield claims(
        {
            "doubling stays above a constant share of the best for a quarter of its budget": (
                min(
                    worth_of(orders["doubling (Algorithm 2)"], budget) / math.exp(budget // 4)
                    for budget in range(4, 4 * items)
                )
                > 0.5,
                "last column",
            ),
            "greedy without doubling does not": (
                worth_of(orders["fr"], items / 2) < 0.5 * math.exp(items // 8),
                "fr takes the dearest item first, and a smaller budget has nothing",
            ),
        }
    )
