"""Searches on a ready Gram: what each method takes, and what it reaches."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
from measure import Row, process, seconds
from tables import columns

import dbselect as ds
from dbselect.search import compiled as library


def problem(width: int, n_groups: int, seed: int = 0) -> tuple[ds.Gram, dict[str, list[str]]]:
    """Return the Gram of correlated columns and a noisy target, and groups of equal size."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(width) + 0.1 * rng.standard_normal((width, width)) / np.sqrt(width)
    features = rng.standard_normal((10 * width, width)) @ mixing
    target = features @ rng.standard_normal(width) + 5 * rng.standard_normal(10 * width)
    rows = np.column_stack([features, target])
    rows -= rows.mean(axis=0)
    n, names = len(rows), [*columns(width), "y"]
    gram = ds.Gram(names, n, 0, float(n), np.zeros(width + 1), rows.T @ rows)
    size = width // n_groups
    return gram, {f"g{i}": names[i * size : (i + 1) * size] for i in range(n_groups)}


def sequences() -> Iterator[Row]:
    """Measure a full sequence by both main rules."""
    for width, n_groups, bar in ((500, 100, 0.3), (2000, 200, 2.0)):
        gram, groups = problem(width, n_groups)
        fr, omp = seconds(
            *(
                lambda rule=rule, gram=gram, groups=groups: ds.anytime_sequence(
                    gram, "y", groups, rule=rule
                )
                for rule in ("fr", "omp")
            )
        )
        yield (
            f"full fr sequence, D = {width} in {n_groups} groups",
            f"{fr:.3f} s; fr / omp {fr / omp:.2f}",
            f"< {bar} s; <= 1.5",
        )


def records(count: int, width: int) -> pl.DataFrame:
    """Return `count` Gram records of `width` features and a target, of random rows."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3 * width + 20, width + 1, min(count, 1000)))
    rows[:, -1] += rows[:, :-1].sum(axis=1)
    rows -= rows.mean(axis=0)
    names, n = [*columns(width), "y"], len(rows)
    mean = np.zeros(width + 1)
    grams = [
        ds.Gram(names, n, 0, float(n), mean, rows[:, :, k].T @ rows[:, :, k]).to_arrow()
        for k in range(rows.shape[2])
    ]
    few = pa.concat_arrays(grams)
    return pl.DataFrame({"gram": pl.Series(few.take(pa.array(np.arange(count) % len(few))))})


def many_records() -> Iterator[Row]:
    """Measure the searches of the compiled library, by door, against one by one in Python."""
    for count, width, bar in ((1_000_000, 3, 3.0), (10_000, 50, 3.0)):
        frame = records(count, width)
        con = ds.connect()
        con.execute("CREATE TABLE records AS SELECT * FROM frame")
        query = "SELECT count(len(anytime_sequence(gram, 'y'))) FROM records"
        alone = [ds.Gram.from_struct(record) for record in frame["gram"][:100].to_list()]
        library, polars, sql, python = seconds(
            lambda frame=frame: ds.anytime_sequence_by(frame, "y"),
            lambda frame=frame: frame.select(pl.col("gram").dbselect.anytime_sequence("y")),
            lambda con=con, query=query: con.execute(query).fetchall(),
            lambda alone=alone: [ds.anytime_sequence(gram, "y") for gram in alone],
            repeats=3,
        )
        yield (
            f"{count:,} segments x {width} features",
            f"{library:.1f} s in Python, {polars:.1f} s in Polars, {sql:.1f} s in SQL; "
            f"1/{python / len(alone) * count / library:.0f} of one by one",
            f"< {bar} s in Python and Polars",
        )
    frame = records(1, 18)
    con = ds.connect()
    con.execute("CREATE TABLE records AS SELECT * FROM frame")
    search, scan = seconds(
        lambda: con.execute("SELECT len(anytime_sequence(gram, 'y')) FROM records").fetchall(),
        lambda: con.execute("SELECT len(gram.comoment) FROM records").fetchall(),
        repeats=51,
    )
    yield (
        "one record of 19 columns in SQL",
        f"{search * 1e3:.1f} ms, of which the scan {scan * 1e3:.1f} ms",
        "< 1 ms beside the scan",
    )


def by(most_columns: int, search: Callable[[], object]) -> Callable[[], object]:
    """Return a search of which the compiled library has Grams of so many columns at most."""

    def run() -> object:
        before, library.MOST_COLUMNS = library.MOST_COLUMNS, most_columns
        try:
            return search()
        finally:
            library.MOST_COLUMNS = before

    return run


def compiled() -> Iterator[Row]:
    """Measure single searches by the compiled library against those by Python."""
    sizes = ((20, 20), (100, 20), (100, 100), (500, 100), (1000, 100), (1500, 150), (2000, 200))
    for width, n_groups in sizes:
        gram, groups = problem(width, n_groups)
        removing = (ds.foba, ds.backward) if width <= 500 else ()
        for call in (ds.anytime_sequence, *removing):
            search = partial(call, gram, "y", groups)
            own, python = seconds(by(width, search), by(-1, search))
            yield (
                f"{call.__name__}, compiled, D = {width} in {n_groups} groups",
                f"{own * 1e3:.1f} ms; in Python {python * 1e3:.1f} ms; {own / python:.2f}x",
                "<= 1x",
            )


def responses() -> Iterator[Row]:
    """Measure a full sequence for several responses against that for one."""
    width, count = 500, 10
    gram, groups = problem(width, 100)
    # Any columns will do as further responses: the search takes as long.
    extra = [f"y{k}" for k in range(count - 1)]
    rng = np.random.default_rng(1)
    mixing = np.vstack([rng.standard_normal((width, count - 1)), np.ones((1, count - 1))])
    maps = np.hstack([np.eye(width + 1), mixing])
    names = [*gram.columns, *extra]
    more = ds.Gram(
        names, gram.rows, 0, gram.weight, np.zeros(len(names)), maps.T @ gram.comoment @ maps
    )
    several, one = seconds(
        lambda: ds.anytime_sequence(more, ["y", *extra], groups),
        lambda: ds.anytime_sequence(gram, "y", groups),
    )
    yield (
        f"full fr sequence for {count} responses, D = {width} in 100 groups",
        f"{several:.3f} s, {several / one:.2f}x of one response",
        "<= 3x",
    )


def certificates() -> Iterator[Row]:
    """Measure the bounds at every step of a sequence."""
    gram, groups = problem(500, 100)
    found = ds.anytime_sequence(gram, "y", groups)
    search, bounds = seconds(lambda: ds.anytime_sequence(gram, "y", groups), found.certificate)
    yield (
        "certificate at 101 budgets, D = 500 in 100 groups",
        f"{bounds:.3f} s, {bounds / search:.2f}x of the sequence",
        "<= 3x",
    )


def lasso() -> Iterator[Row]:
    """Measure the path of the group lasso."""
    gram, groups = problem(500, 100)
    (path,) = seconds(lambda: ds.group_lasso_path(gram, "y", groups, n_lambda=50))
    yield "group lasso at 50 penalties, D = 500 in 100 groups", f"{path:.2f} s", "< 2 s"


def removals() -> Iterator[Row]:
    """Measure the searches that give groups back."""
    gram, groups = problem(500, 100)
    foba, backward = seconds(
        lambda: ds.foba(gram, "y", groups=groups), lambda: ds.backward(gram, "y", groups=groups)
    )
    yield (
        "foba and backward to the end, D = 500 in 100 groups",
        f"{foba:.2f} s and {backward:.2f} s",
        "",
    )
    for numbers, themes, levels in ((20, 6, 10), (30, 7, 14)):
        table = redundant(numbers, themes, levels)
        names = [name for name in table.columns if name.startswith("theme")]
        gram = ds.gram(table, categories=names)
        forward, foba, backward = seconds(
            lambda gram=gram: ds.anytime_sequence(gram, "y"),
            lambda gram=gram: ds.foba(gram, "y"),
            lambda gram=gram: ds.backward(gram, "y", ridge=0.01),
        )
        yield (
            f"foba, {numbers} numbers and {3 * themes} categories whose levels depend on each "
            f"other, D = {len(gram.columns) - 1}; backward with a ridge",
            f"{foba:.3f} s and {backward:.3f} s; {foba / forward:.1f}x and "
            f"{backward / forward:.1f}x of the forward search",
            "<= 5x",
        )


def redundant(numbers: int, themes: int, levels: int) -> pl.DataFrame:
    """Return a table of numbers and of categories, three of a theme.

    The categories of a theme share the level "none", as those of a basement that a house
    does not have.
    """
    rng = np.random.default_rng(0)
    n = 3000
    X = rng.standard_normal((n, numbers))
    y = X @ (0.3 * rng.standard_normal(numbers))
    table = {f"x{j}": X[:, j] for j in range(numbers)}
    for theme in range(themes):
        none = rng.random(n) < 0.1
        for each in range(3):
            level = np.where(none, 0, rng.integers(1, levels, n))
            y = y + 0.4 * rng.standard_normal(levels)[level]
            table[f"theme{theme}_{each}"] = level
    table["near"] = y + 0.5 * rng.standard_normal(n)
    table["y"] = y + 0.3 * rng.standard_normal(n)
    return pl.DataFrame(table)


def projections() -> Iterator[Row]:
    """Project onto few entries in few of 100 groups."""
    rng = np.random.default_rng(0)
    for p, groups, entries, bar in ((5_000_000, 20, 100, 0.5), (1_000_000, 60, 1200, 3.0)):
        v, labels = rng.standard_normal(p), np.repeat(np.arange(100), p // 100)
        shuffled = rng.permutation(labels)
        sorted_, mixed = seconds(
            *(
                lambda by=by, v=v, k=entries, j=groups: ds.reference.sght_project(v, by, k, j)
                for by in (labels, shuffled)
            )
        )
        table = ds.reference.sght_table(v, labels, entries, groups)
        yield (
            f"sght_project, p = {p:,} in 100 groups, {groups} groups, {entries} entries",
            f"{sorted_:.2f} s, labels shuffled {mixed:.2f} s; "
            f"table of choices {table.choices.nbytes / 1e6:.1f} MB",
            f"< {bar} s",
        )


def limits() -> Iterator[Row]:
    """Choose the limits of SGHT by cross-validation."""
    grid = {"max_columns": [10, 20, 40, 80, 160], "max_groups": [4, 8, 12, 20, 30]}
    for numbers, themes, levels in ((20, 6, 10), (30, 7, 14)):
        table = redundant(numbers, themes, levels)
        names = [name for name in table.columns if name.startswith("theme")]
        folds = ds.gram_by(table, fold=5, categories=names)
        (found,) = seconds(
            lambda folds=folds: ds.cross_validate(folds, "y", "sght", grid), repeats=3
        )
        width = len(folds["gram"][0]["columns"]) - 1
        yield f"SGHT at 25 pairs of limits in 5 folds, D = {width}", f"{found:.2f} s", ""


#: A descent on the Gram of `{p}` columns, which are normal numbers in groups of 100.
WIDE = """
import numpy as np, dbselect as ds
rows = np.random.default_rng(0).standard_normal((1000, {p} + 1))
rows -= rows.mean(axis=0)
names = [*(f"x{{j}}" for j in range({p})), "y"]
gram = ds.Gram(names, 1000, 0, 1000.0, np.zeros({p} + 1), rows.T @ rows)
groups = {{f"g{{i}}": names[100 * i : 100 * i + 100] for i in range({p} // 100)}}
ds.sght(gram, "y", groups, max_columns=100, max_groups=20, start="zero", polish=False)
"""


def wide_descents() -> Iterator[Row]:
    """Measure the memory of SGHT on many columns, the making of the Gram included."""
    for p in (10_000, 20_000):
        took, peak = process(WIDE.format(p=p))
        yield (
            f"SGHT, 100 of {p:,} columns in 20 groups, from 0",
            f"{took:.0f} s and {peak / 1024:.1f} GB, {peak * 2**20 / p**2:.0f} D² bytes, "
            "the Gram of 1,000 rows included",
            "< 40 D² bytes",
        )


def sampling() -> Iterator[Row]:
    """Measure DASH against the greedy search, on many columns."""
    gram, _ = problem(2000, 2000)
    k = 200
    dash, greedy = seconds(
        lambda: ds.dash(gram, "y", k=k), lambda: ds.greedy(gram, "y", k=k), repeats=3
    )
    chosen, best = ds.dash(gram, "y", k=k), ds.greedy(gram, "y", k=k)
    alone, guess = ds.reference.top_k(gram, "y", k=k), ds.reference.random_k(gram, "y", k=k)
    told = chosen.diagnostics
    (one,) = seconds(lambda: ds.dash(gram, "y", k=k, opt=told.opt, alpha=told.alpha), repeats=3)
    yield (
        "DASH, 200 of 2,000 columns, OPT and alpha guessed",
        f"{dash:.1f} s, {told.rounds} adaptive rounds, explained {chosen.explained:.4f}",
        "",
    )
    yield "the same under the guess that won", f"{one:.1f} s, {told.rounds} adaptive rounds", ""
    yield (
        "greedy, 200 of 2,000 columns",
        f"{greedy:.1f} s, {best.diagnostics.rounds} adaptive rounds, "
        f"explained {best.explained:.4f}; top-k {alone.explained:.4f}, "
        f"random {guess.explained:.4f}",
        "",
    )


def designs() -> Iterator[Row]:
    """Choose 100 of 1,024 correlated rows of norm 1 (Qian, Singer 2019, D1 of the designs)."""
    rng = np.random.default_rng(0)
    width, n, k = 256, 1024, 100
    rows = np.sqrt(0.8) * rng.standard_normal((n, 1)) + np.sqrt(0.2) * rng.standard_normal(
        (n, width)
    )
    names = columns(width)
    greedy, dash = seconds(
        lambda: ds.a_optimal(rows, names, k, scale_rows=True),
        lambda: ds.a_optimal(rows, names, k, scale_rows=True, method="dash"),
        repeats=3,
    )
    best = ds.a_optimal(rows, names, k, scale_rows=True)
    sampled = ds.a_optimal(rows, names, k, scale_rows=True, method="dash")
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    some = unit[rng.choice(n, k, replace=False)]
    guess = width - np.trace(np.linalg.inv(np.eye(width) + some.T @ some))
    yield (
        "A-optimal design, 100 of 1,024 rows of 256 correlated columns",
        f"greedy {greedy:.2f} s, value {best.value[-1]:.2f}; dash {dash:.1f} s, "
        f"{sampled.value[-1]:.2f}; random rows {guess:.2f}",
        "",
    )
