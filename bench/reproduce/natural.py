"""Hu, Grubb, Bagnell, Hebert (2016), Figure 5: accuracy and NDCG@5 against cost."""

from collections.abc import Iterator, Mapping

import anytime
import numpy as np
import polars as pl

import dbselect as ds
from reproduce import sequencing
from reproduce.page import Study, claims, lines, prose, spread, table

#: The methods of the figure, and the shares of the stopping cost that the table shows.
METHODS = ["CS-G-OMP", "Single", "CS-G-FR", "Sparse"]
SHARES = (0.05, 0.1, 0.25, 0.5, 1.0)
#: What the figure shows: the first is above the second.
SAID = (("CS-G-FR", "CS-G-OMP"), ("CS-G-OMP", "Single"), ("CS-G-OMP", "Sparse"))
#: Documents of a query; the made-up ones have no query of their own.
DOCUMENTS = 20


def curves(
    sequences: Mapping[str, ds.results.Sequence], test: pl.DataFrame, fraction: float, metric: str
) -> pl.DataFrame:
    """Return a metric of each prefix up to the stopping cost, one row a method and step."""
    cut = ds.reference.stopping_cost(sequences["CS-G-OMP"], fraction)
    key = "query" if metric.startswith("ndcg") else None
    parts = []
    for method in METHODS:
        found = ds.evaluate(sequences[method], test, metric=metric, key=key).table
        part = found.select("spent", value=metric).filter(pl.col("spent") <= cut)
        parts.append(part.with_columns(method=pl.lit(method), share=pl.col("spent") / cut))
    return pl.concat(parts)


def at(curve: pl.DataFrame, method: str, share: float) -> float:
    """Return the metric of the longest prefix within a share of the stopping cost."""
    return float(
        curve.filter((pl.col("method") == method) & (pl.col("share") <= share))["value"][-1]
    )


def area(curve: pl.DataFrame, method: str) -> float:
    """Return the mean of the metric over costs up to the stopping cost."""
    own = curve.filter(method=method)
    return float(np.diff([*own["share"], 1.0]) @ own["value"].to_numpy())


def agriculture(rows: int, seed: int) -> pl.DataFrame:
    """Return accuracy against cost on rows like those of the agricultural table."""
    values, groups, costs = sequencing.fields(seed, 2 * rows)
    names = [anytime.TARGET, *(name for own in groups.values() for name in own)]
    frame = pl.DataFrame(values, schema=names)
    sequences = anytime.orders(
        ds.gram(frame[:rows]), groups, costs, sequencing.AGRICULTURE["ridge"]
    )
    return curves(sequences, frame[rows:], sequencing.AGRICULTURE["fraction"], "accuracy")


def documents(rows: int, seed: int) -> pl.DataFrame:
    """Return NDCG@5 against cost on documents like those of Yahoo! Learning to Rank."""
    values = anytime.documents(np.random.default_rng(seed), 2 * rows)
    frame = pl.DataFrame(values, schema=[anytime.TARGET, *anytime.NAMES])
    sequences = anytime.orders(ds.gram(frame[:rows]), *anytime.grouping(anytime.SHOWN))
    test = frame[rows:].with_columns(query=pl.int_range(rows) // DOCUMENTS)
    return curves(sequences, test, 0.98, "ndcg@5")


def figure_5(study: Study) -> Iterator[str]:
    """Repeat the natural objectives of Figure 5."""
    rows, seeds = study.of((sequencing.ROWS, range(3)), (2000, range(1)))
    yield "## Sequencing: accuracy and NDCG@5 against cost (Hu et al., Figure 5)"
    yield prose(
        f"""
        Published: curves. Here the made-up tables of above, {len(seeds)} each, {rows:,} rows to
        train on and as many to judge. Inferred: {DOCUMENTS} documents a query, at random, as the
        made-up ones have no queries; so features distinguish documents, never queries. Groups
        of {anytime.SHOWN} features, cut at the 0.98 stopping cost; of the agricultural table at
        the 0.97.
        """
    )
    told, charts = {}, []
    for metric, work in (("accuracy", agriculture), ("NDCG@5", documents)):
        found = [work(rows, seed) for seed in seeds]
        areas = {method: [area(curve, method) for curve in found] for method in METHODS}
        yield f"{metric}, by the share of the stopping cost that is spent, means over the tables:"
        yield table(
            {"method": method}
            | {
                f"{share:.0%}": float(np.mean([at(one, method, share) for one in found]))
                for share in SHARES
            }
            | {"mean over costs": spread(areas[method])}
            for method in METHODS
        )
        titles = ("share of the stopping cost", metric)
        charts.append(
            lines(
                found[0], "share", "value", "method", order=METHODS, titles=titles,
                shape="step-after",
            )
        )  # fmt: skip
        for first, second in (
            ("CS-G-FR", "CS-G-OMP"),
            ("CS-G-OMP", "Single"),
            ("CS-G-OMP", "Sparse"),
        ):
            ahead = np.array(areas[first]) - np.array(areas[second])
            told[f"{metric}: {first} is above {second}, over all costs"] = (
                bool((ahead > 0).mean() > 0.5 and ahead.mean() > 0),
                f"in {(ahead > 0).sum()} of {len(ahead)} tables, by {ahead.mean():.4f} in the mean",
            )
    yield study.picture(
        "natural_objectives", "Accuracy and NDCG@5 against cost", charts[0] | charts[1]
    )
    yield claims(told)
