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
WORTH, NOISE = 1.0, 0.5
#: Share of documents up to each relevance 0, 1, 2, 3; the others have 4.
RELEVANCE = [0.26, 0.62, 0.90, 0.98]

SEEDS = range(10)
#: Training documents of a table, and as many test documents.
ROWS = 20_000
SIZES = (5, 10, 15, 20)
#: As in the paper: ridge, fraction of the final height at which curves are cut, and the
#: size of the groups that is shown.
RIDGE, FRACTION, SHOWN = 1e-5, 0.99, 10
#: Timeliness as published, for groups of the size that is shown.
PUBLISHED = {
    "CS-G-OMP": 0.3142,
    "Single": 0.3117,
    "No-Whiten": 0.3079,
    "G-OMP": 0.2909,
    "CS-G-FR": 0.3205,
    "FR oracle": 0.3207,
    "OMP oracle": 0.3164,
    "Sparse": 0.2858,
}
#: Sparse with the coefficients of the lasso itself.
SHRUNK = "Sparse, shrunk"
#: Claims of Table 2 for groups of 10: the first is at least, or more than, the second.
CLAIMS = [
    ("CS-G-FR", ">=", "CS-G-OMP"),
    ("CS-G-OMP", ">", "Single"),
    ("CS-G-OMP", ">", "No-Whiten"),
    ("CS-G-OMP", ">", "G-OMP"),
    ("Single", ">", "G-OMP"),
    ("No-Whiten", ">", "G-OMP"),
    ("CS-G-OMP", ">", "Sparse"),
    ("Single", ">", "Sparse"),
    ("No-Whiten", ">", "Sparse"),
    ("G-OMP", ">", "Sparse"),
    ("G-OMP", ">", SHRUNK),
]
#: Timeliness that differs by less is equal up to rounding.
EQUAL = 1e-9

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
    """Return the timeliness of each method, by size and rows; and what is plotted."""
    table = documents(np.random.default_rng(seed), 2 * ROWS)
    parts = {"training": table[:ROWS], "test": table[ROWS:]}
    grams = {name: ds.gram(part, columns=[TARGET, *NAMES]) for name, part in parts.items()}
    found, plotted = [], pl.DataFrame()
    for size in sizes:
        sequences = orders(grams["training"], *grouping(size))
        if size == SHOWN:
            path = ds.group_lasso_path(
                grams["training"], TARGET, *grouping(size), lambda_min_ratio=1e-5
            )
            plotted = on_test(sequences, grams["test"])
        for name, part in parts.items():
            curves = {**sequences, **oracles(sequences, grams[name])}
            if size == SHOWN:
                curves[SHRUNK] = shrunk(path, part)
            judged = ds.compare(curves, "CS-G-OMP", fraction=FRACTION, data=grams[name])
            found.append(judged.table.with_columns(seed=seed, size=size, rows=pl.lit(name)))
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
    methods = list(PUBLISHED)
    oracle = alt.FieldOneOfPredicate(field="method", oneOf=["FR oracle", "OMP oracle"])
    chart = (
        alt.Chart(curves)
        .mark_line(interpolate="step-after", strokeWidth=1.8)
        .encode(
            x=alt.X("spent:Q", title="summed cost of the features, unit of the paper"),
            y=alt.Y("explained:Q", title="explained, % of the variance").axis(format="%"),
            color=alt.Color("method:N", title=None).scale(domain=methods, range=COLOURS),
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


def show(rows: dict[str, dict[str, float]]) -> None:
    """Print rows of numbers under the names of the methods."""
    print(f"{'':13}" + "".join(f"{method:>11}" for method in PUBLISHED))
    for name, row in rows.items():
        print(f"{name:13}" + "".join(f"{row[method]:11.4f}" for method in PUBLISHED))


def means(table: pl.DataFrame, size: int) -> dict[str, float]:
    """Return the mean timeliness of each method on test rows."""
    return table.filter(size=size, rows="test").select(*PUBLISHED).mean().row(0, named=True)


def held(table: pl.DataFrame, claim: tuple[str, str, str], size: int, rows: str) -> str:
    """Count the tables in which a claim holds."""
    first, relation, second = claim
    margins = table.filter(size=size, rows=rows).select(pl.col(first) - pl.col(second)).to_series()
    least = -EQUAL if relation == ">=" else EQUAL
    asked = margins.drop_nulls()
    return f"{(asked > least).sum()}/{len(asked)}" if len(asked) else "-"


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
    table = pl.concat(found).pivot("name", index=["seed", "size", "rows"], values="timeliness")

    print(f"{len(seeds)} tables of {ROWS:,} training and {ROWS:,} test documents")
    print(f"with {len(COST)} features, which cost {COST.sum():,} in all")
    print(f"\n{FRACTION}-timeliness on test documents, mean over the tables")
    show({f"groups of {size}": means(table, size) for size in sizes})

    print("\nThe same as a share of CS-G-OMP, beside the paper's Table 2")
    compared = {f"groups of {SHOWN}": means(table, SHOWN), "published": PUBLISHED}
    show({name: {m: row[m] / row["CS-G-OMP"] for m in row} for name, row in compared.items()})

    print("\nIn how many of the tables, by size of groups")
    parts = [(part, size) for part in ("test", "training") for size in sizes]
    heads = "".join(f"{part if size == sizes[0] else '':>9}" for part, size in parts)
    print(f"{'':27}{heads.rstrip()}")
    print(f"{'':27}" + "".join(f"{size:9}" for _, size in parts))
    for claim in CLAIMS:
        counts = [held(table, claim, size, part) for part, size in parts]
        print(f"{' '.join(claim):27}" + "".join(f"{count:>9}" for count in counts))

    plot(plotted[0], options.out)


if __name__ == "__main__":
    main()
