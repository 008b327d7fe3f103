"""Hu, Grubb, Bagnell, Hebert (2016), Figure 5: accuracy and NDCG@5 against cost."""

from collections.abc import Iterator, Mapping

import anytime
import numpy as np
import polars as pl

import dbselect as ds
from reproduce import sequencing
from reproduce.claims import said
from reproduce.page import Study, lines, prose, spread, table
from reproduce.published import HU

#: The methods of the figure; the first of each pair is said to be above the second.
METHODS = ["CS-G-OMP", "Single", "CS-G-FR", "Sparse"]
SAID = (("CS-G-FR", "CS-G-OMP"), ("CS-G-FR", "Single"), ("CS-G-FR", "Sparse"),
        ("CS-G-OMP", "Single"), ("CS-G-OMP", "Sparse"))  # fmt: skip
#: Points of the picture: shares of the stopping cost.
SHARES = np.linspace(0.05, 1.0, 20)
#: Documents of a query; the made-up ones have no query of their own.
DOCUMENTS = 20


def curves(
    sequences: Mapping[str, ds.results.Sequence], test: pl.DataFrame, fraction: float, metric: str
) -> tuple[dict[str, float], pl.DataFrame]:
    """Return each method's mean over costs up to the stopping cost, and its curve there."""
    cut = ds.reference.stopping_cost(sequences["CS-G-OMP"], fraction)
    key = "query" if metric.startswith("ndcg") else None
    areas, points = {}, []
    for method in METHODS:
        table_of = ds.evaluate(sequences[method], test, metric=metric, key=key).table
        curve = table_of.select("spent", value=metric).filter(pl.col("spent") <= cut)
        share, value = (curve["spent"] / cut).to_numpy(), curve["value"].to_numpy()
        areas[method] = float(np.diff([*share, 1.0]) @ value)
        at = np.searchsorted(share, SHARES, side="right") - 1
        points.append(pl.DataFrame({"share": SHARES, "value": value[at], "method": method}))
    return areas, pl.concat(points)


def agriculture(rows: int, seed: int) -> tuple[dict[str, float], pl.DataFrame]:
    """Return accuracy against cost on rows like those of the agricultural table."""
    values, groups, costs = sequencing.fields(seed, 2 * rows)
    names = [anytime.TARGET, *(name for columns in groups.values() for name in columns)]
    frame = pl.DataFrame(values, schema=names)
    sequences = anytime.orders(ds.gram(frame[:rows]), groups, costs, sequencing.RIDGE)
    return curves(sequences, frame[rows:], 0.97, "accuracy")


def documents(rows: int, seed: int) -> tuple[dict[str, float], pl.DataFrame]:
    """Return NDCG@5 against cost on documents like those of Yahoo! Learning to Rank.

    The gain of a document of relevance r is 2^r - 1, as in that challenge.
    """
    values = anytime.documents(np.random.default_rng(seed), 2 * rows)
    frame = pl.DataFrame(values, schema=[anytime.TARGET, *anytime.NAMES])
    sequences = anytime.orders(ds.gram(frame[:rows]), *anytime.grouping(anytime.SHOWN))
    gain = (2.0 ** pl.col(anytime.TARGET) - 1.0).alias(anytime.TARGET)
    test = frame[rows:].with_columns(gain, query=pl.int_range(rows) // DOCUMENTS)
    return curves(sequences, test, 0.98, "ndcg@5")


def figure_5(study: Study) -> Iterator[str]:
    """Repeat the natural objectives of Figure 5."""
    seeds, rows = study.seeds(20, 1), study.of(8000, 2000)
    yield "## Sequencing: accuracy and NDCG@5 against cost (Hu et al., Figure 5)"
    yield prose(
        f"""
        Published: curves, which "demonstrate the same". Here the made-up tables of above,
        {len(seeds)} each, {rows:,} rows to train on and as many to judge; a document of relevance
        r gains 2^r - 1. Inferred: {DOCUMENTS} documents a query, at random, as the made-up ones
        have no queries; so features distinguish documents, never queries. Groups of
        {anytime.SHOWN} features, cut at the 0.98 stopping cost; of the agricultural table at the
        0.97. Means over all costs up to there:
        """
    )
    rows_shown, claims, charts = [], [], []
    for metric, work in (("accuracy", agriculture), ("NDCG@5", documents)):
        areas, points = zip(*(work(rows, seed) for seed in seeds), strict=True)
        means = {method: np.array([area[method] for area in areas]) for method in METHODS}
        rows_shown.append({"": metric, **{method: spread(means[method]) for method in METHODS}})
        claims += [
            said(HU, f"Figure 5, {metric}", f"{high} > {low}", means[high] - means[low])
            for high, low in SAID
        ]
        titles = ("share of the stopping cost", metric)
        charts.append(
            lines(pl.concat(points), "share", "value", "method", order=METHODS, titles=titles)
        )
    yield table(rows_shown)
    words = "Accuracy and NDCG@5 against cost, means over the tables with 95 % intervals"
    yield study.picture("natural_objectives", words, charts[0] | charts[1])
    yield study.judge(*claims)
