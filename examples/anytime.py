"""Compare the paper's eight methods on documents of the kind that a search engine ranks.

Table 2 of Hu, Grubb, Bagnell, Hebert (2016) shows how early eight ways to order groups of
features explain the relevance of documents (Yahoo! Learning to Rank, 501 features, each with
a cost). Here are made-up documents of that kind, ten times over: does the same order show?
One pass each over training and test documents gives two Grams; all sizes of groups, all
methods and both judgements are answered from them.
"""

import argparse
from pathlib import Path

import altair as alt
import numpy as np
import numpy.typing as npt
import polars as pl

import dbselect as ds

FOLDER = Path(__file__).parent / "data"

#: Cost of a feature -> how many features have it: 500 in all, for 17,020.
FEATURES = {1: 120, 5: 60, 20: 180, 50: 80, 100: 20, 150: 20, 200: 20}
COST = np.repeat(list(FEATURES), list(FEATURES.values()))
NAMES = [f"x{j}" for j in range(len(COST))]
TARGET = "relevance"
#: Features that come from one source and have one cost.
SOURCE = 20
#: Topics, each of several sources; the shares of a signal's variance that it has, on
#: average, in common with its topic and with its source.
TOPICS, IN_TOPIC, IN_SOURCE = 6, 0.3, 0.2
#: Deviation of the logarithm of what a source is worth per cost, and the noise as a share of the
#: score's deviation.
WORTH, NOISE = 2.0, 1.0
#: Share of documents up to each relevance 0, 1, 2, 3; the others have 4.
RELEVANCE = [0.26, 0.62, 0.90, 0.98]

SEEDS = range(10)
#: Training documents of a table, and as many test documents.
ROWS = 20_000
SIZES = (5, 10, 15, 20)
#: As in the paper: ridge, fraction of the final height at which curves are cut, and the
#: size of the groups that is shown.
RIDGE, FRACTION, SHOWN = 1e-5, 0.99, 10
#: Timeliness as published, by size of groups.
METHODS = (
    "CS-G-OMP", "Single", "No-Whiten", "G-OMP", "CS-G-FR", "FR oracle", "OMP oracle", "Sparse",
)  # fmt: skip
PUBLISHED = {
    5: (0.3188, 0.3039, 0.3111, 0.2985, 0.3222, 0.3225, 0.3211, 0.2934),
    10: (0.3142, 0.3117, 0.3079, 0.2909, 0.3205, 0.3207, 0.3164, 0.2858),
    15: (0.3165, 0.3159, 0.3116, 0.2892, 0.3213, 0.3213, 0.3177, 0.2952),
    20: (0.3161, 0.3124, 0.3065, 0.2875, 0.3180, 0.3180, 0.3163, 0.2895),
}

#: One for each column of Table 2; red for the methods that ignore or misuse costs.
COLOURS = ["#0b3c8c", "#3f8fd9", "#7d3fb5", "#e8590c", "#111111", "#999999", "#86b6e0", "#c92a2a"]

Rows = npt.NDArray[np.float32]


def documents(
    rng: np.random.Generator, rows: int, worth_spread: float = WORTH, noise: float = NOISE
) -> Rows:
    """Return documents, one a row: relevance, then features that correlate within groups.

    A source gives 20 features: 20 signals, or 4 signals in 5 near-copies each. Signals share
    a part with their source and a part with the topic of the source. What a source is worth
    per cost is log-normal: a feature that is not worth its cost was dropped long ago.
    """

    def normal(*shape: int) -> Rows:
        return rng.standard_normal(shape, dtype=np.float32)

    source_of = np.arange(len(COST)) // SOURCE
    sources = source_of[-1] + 1
    copies = rng.choice([1, 5], sources)
    first = np.arange(len(COST)) % copies[source_of] == 0
    signal_of, source = np.cumsum(first) - 1, source_of[first]
    topic = rng.integers(TOPICS, size=sources)[source]
    worth = (rng.lognormal(sigma=worth_spread, size=sources) * COST[::SOURCE] * copies)[source]
    weight = normal(len(source)) * np.sqrt(worth)
    quality = rng.uniform(0.85, 0.98, len(COST)).astype(np.float32)
    in_topic = np.float32(IN_TOPIC**0.5) * normal(len(source))
    in_source = np.float32(IN_SOURCE**0.5) * normal(len(source))

    signals = (
        normal(rows, TOPICS)[:, topic] * in_topic + normal(rows, sources)[:, source] * in_source
    )
    signals += np.float32((1 - IN_TOPIC - IN_SOURCE) ** 0.5) * normal(rows, len(source))
    features = signals[:, signal_of] * quality + normal(rows, len(COST)) * np.sqrt(1 - quality**2)
    score = signals @ weight
    score += noise * score.std() * normal(rows)
    relevance = np.searchsorted(np.quantile(score, RELEVANCE), score)
    return np.column_stack([relevance.astype(np.float32), features])


def grouping(size: int) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Cut the features of each cost into groups; the last of a cost may be smaller."""
    groups, costs = {}, {}
    for cost in FEATURES:
        names = [name for name, own in zip(NAMES, COST, strict=True) if own == cost]
        for start in range(0, len(names), size):
            group = f"cost {cost}, {start // size}"
            groups[group] = names[start : start + size]
            costs[group] = float(cost * len(groups[group]))
    return groups, costs


def orders(
    train: ds.Gram, groups: dict[str, list[str]], costs: dict[str, float], ridge: float = RIDGE
) -> dict[str, ds.results.Sequence]:
    """Return the six orders of Table 2."""

    def order(rule: str, costs: dict[str, float] | None) -> ds.results.Sequence:
        return ds.anytime_sequence(train, TARGET, groups, costs, rule=rule, ridge=ridge)

    return {
        "CS-G-OMP": order("omp", costs),
        "Single": order("omp-single", costs),
        "No-Whiten": order("omp-unwhitened", costs),
        "G-OMP": order("omp", None).with_costs(costs),
        "CS-G-FR": order("fr", costs),
        "Sparse": ds.reference.group_lasso(
            train, TARGET, groups, costs, lambda_min_ratio=1e-5, ridge=ridge
        ),
    }


def oracles(sequences: dict[str, ds.results.Sequence], gram: ds.Gram) -> dict[str, pl.DataFrame]:
    """Return the curves of FR and OMP on some rows, reordered by falling gain per cost."""
    return {
        "FR oracle": ds.reference.oracle(ds.evaluate(sequences["CS-G-FR"], gram)),
        "OMP oracle": ds.reference.oracle(ds.evaluate(sequences["CS-G-OMP"], gram)),
    }


def shrunk(path: ds.results.GroupLassoPath, rows: Rows) -> pl.DataFrame:
    """Return the curve of the lasso's own coefficients on some rows."""
    relevance = rows[:, :1]
    errors = relevance - rows[:, 1:] @ path.coef.T - path.intercept
    explained = 1 - (errors**2).mean(axis=0) / relevance.var()
    return pl.DataFrame({"spent": path.spent, "explained": explained})


def study(seed: int, sizes: tuple[int, ...]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the timeliness of each method on test rows, by size; and what is plotted."""
    rows = documents(np.random.default_rng(seed), 2 * ROWS)
    train, test = (ds.gram(part, columns=[TARGET, *NAMES]) for part in (rows[:ROWS], rows[ROWS:]))
    found, plotted = [], pl.DataFrame()
    for size in sizes:
        sequences = orders(train, *grouping(size))
        if size == SHOWN:
            plotted = on_test(sequences, test)
        path = ds.group_lasso_path(train, TARGET, *grouping(size), lambda_min_ratio=1e-5)
        curves = {**sequences, **oracles(sequences, test), "Sparse": shrunk(path, rows[ROWS:])}
        judged = ds.compare(curves, "CS-G-OMP", fraction=FRACTION, data=test, final=1.0)
        found.append(judged.table.with_columns(seed=seed, size=size))
    return pl.concat(found), plotted


def on_test(
    sequences: dict[str, ds.results.Sequence], test: ds.Gram, fraction: float = FRACTION
) -> pl.DataFrame:
    """Return the curves of all methods on the test rows, up to the cost where they are cut."""
    cut = ds.reference.stopping_cost(sequences["CS-G-OMP"], fraction)
    curves = {name: ds.evaluate(sequence, test) for name, sequence in sequences.items()}
    points = []
    for name, curve in {**curves, **oracles(sequences, test)}.items():
        end = pl.DataFrame({"spent": [cut], "explained": [ds.reference.explained_at(curve, cut)]})
        inside = curve.select("spent", "explained").filter(pl.col("spent") < cut)
        points.append(pl.concat([inside, end]).with_columns(method=pl.lit(name)))
    return pl.concat(points)


def plot(curves: pl.DataFrame, path: Path) -> None:
    """Draw the curves as a picture and as a page."""
    oracle = alt.FieldOneOfPredicate(field="method", oneOf=["FR oracle", "OMP oracle"])
    chart = (
        alt.Chart(curves)
        .mark_line(interpolate="step-after", strokeWidth=1.8)
        .encode(
            x=alt.X("spent:Q", title="summed cost of the features, unit of the paper"),
            y=alt.Y("explained:Q", title="explained, % of the variance").axis(format="%"),
            color=alt.Color("method:N", title=None).scale(domain=METHODS, range=COLOURS),
            strokeDash=alt.when(oracle).then(alt.value([4, 3])).otherwise(alt.value([1, 0])),
            tooltip=["method", "spent", alt.Tooltip("explained", format=".2%")],
        )
        .properties(
            width=640,
            height=400,
            title=alt.TitleParams(
                "What each order explains of the relevance of unseen documents",
                subtitle=f"groups of {SHOWN} features, up to the {FRACTION}-stopping cost",
                anchor="start",
            ),
        )
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    chart.save(path.with_suffix(".png"), scale_factor=1.5)
    chart.save(path.with_suffix(".html"), inline=True)


def main() -> None:
    """Print the timeliness of all methods and draw the curves of one table."""
    parser = argparse.ArgumentParser(description="Compare eight methods on made-up documents.")
    parser.add_argument(
        "--quick", action="store_true", help="the first two tables, one size of groups"
    )
    parser.add_argument("--out", type=Path, default=FOLDER / "anytime", help="path of the plot")
    options = parser.parse_args()
    seeds, sizes = (SEEDS[:2], (SHOWN,)) if options.quick else (SEEDS, SIZES)

    found, plotted = zip(*(study(seed, sizes) for seed in seeds), strict=True)
    table = pl.concat(found).pivot("name", index=["seed", "size"], values="timeliness")

    print(f"{len(seeds)} tables of {ROWS:,} training and {ROWS:,} test documents")
    print(f"with {len(COST)} features, which cost {COST.sum():,} in all")
    print(f"\n{FRACTION}-timeliness on test documents, mean over the tables")
    print(f"{'':13}" + "".join(f"{method:>11}" for method in METHODS))
    for size in sizes:
        means = table.filter(size=size).select(*METHODS).mean().row(0)
        for name, row in {f"groups of {size}": means, "  published": PUBLISHED[size]}.items():
            print(f"{name:13}" + "".join(f"{value:11.4f}" for value in row))

    plot(plotted[0], options.out)


if __name__ == "__main__":
    main()
