"""A map of growth: how the time of each door grows as one size of its work doubles.

``python bench/growth.py`` measures processor time at up to eight doublings of each size, to the
first that takes `--most` seconds (10), and writes bench/GROWTH.md, its picture growth.svg and
growth.csv. With words, as in ``python bench/growth.py store models``, it prints the lines whose
door or size is one of them. It ends with an error if any local exponent is above the promised one
by more than `SLACK`. The exponents are those of the docstrings: time is linear in rows, keys,
models and records, and the square of the columns where a Gram is made.
"""

import argparse
import csv
import io
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dbselect as ds

#: How far a local exponent may be above the promised one, and the share that small sizes may
#: be: below it, what does not grow hides what does.
SLACK = 0.5
DOUBLINGS = 8
#: Seconds below which a clock and other processes decide, not the work.
NOISE = 0.05
Work = Callable[[], object]


@dataclass(frozen=True)
class Growth:
    """The time of a door as one size of its work doubles."""

    door: str
    size: str
    promised: float
    first: int
    prepared: Callable[[int], Work]


@dataclass
class Curve:
    """The processor seconds at each size, from which exponents follow."""

    growth: Growth
    sizes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def exponents(self) -> list[float]:
        """The local exponents; those of times below `NOISE` say nothing."""
        pairs = zip(self.seconds, self.seconds[1:], strict=False)
        return [math.log2(b / a) if min(a, b) >= NOISE else math.nan for a, b in pairs]

    @property
    def worst(self) -> float:
        """The greatest local exponent; NaN if all times are noise."""
        known = [exponent for exponent in self.exponents if not math.isnan(exponent)]
        return max(known, default=math.nan)

    @property
    def fails(self) -> bool:
        """Whether a doubling costs more than is promised."""
        return self.worst > self.growth.promised + SLACK

    def line(self) -> str:
        """Return the row of a table in Markdown."""
        one = self.growth
        told = "too fast to say" if math.isnan(self.worst) else f"{self.worst:.2f}"
        return (
            f"| {one.door} | {one.size} | {self.sizes[0]:,} to {self.sizes[-1]:,} | "
            f"{self.seconds[0]:.3g} to {self.seconds[-1]:.3g} s | {one.promised:g} | "
            f"{told}{': above' if self.fails else ''} |"
        )


def measured(
    growth: Growth, doublings: int, most: float, clock: Callable[[], float] = time.process_time
) -> Curve:
    """Measure up to so many doublings, the better of two runs each."""
    curve = Curve(growth)
    for doubling in range(doublings + 1):
        size = growth.first << doubling
        work = growth.prepared(size)
        best = math.inf
        for _ in range(2):
            start = clock()
            work()
            best = min(best, clock() - start)
        curve.sizes.append(size)
        curve.seconds.append(best)
        if best > most / 2**growth.promised:
            break
    return curve


@cache
def numbers(rows: int, columns: int, seed: int = 0) -> pl.DataFrame:
    """Return columns x0, x1, ... and y, a sum of some of them and noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns))
    y = X[:, : min(5, columns)].sum(axis=1) + rng.standard_normal(rows)
    return pl.DataFrame(X, [f"x{j}" for j in range(columns)]).with_columns(y=pl.Series(y))


def keyed(rows: int, keys: int, levels: int = 0) -> pl.DataFrame:
    """Return rows whose key changes from row to row, and text of some levels."""
    at = np.random.default_rng(1).permutation(rows)
    frame = numbers(rows, 2).with_columns(k=pl.Series(at % keys))
    return frame.with_columns(c=pl.Series(at // keys % levels).cast(pl.String)) if levels else frame


def sql(query: str, **frames: pl.DataFrame) -> Work:
    """Return a query of tables in DuckDB's memory."""
    connection = ds.connect()
    for name, frame in frames.items():
        connection.register("frame", frame.to_arrow())
        connection.execute(f"CREATE TABLE {name} AS FROM frame")
    return lambda: connection.execute(query).fetchall()


def scored(rows: int, models: int, call: str) -> Work:
    """Return predictions of rows in any order, each by the model of its key."""
    made = keyed(max(12 * models, 12), models)
    work = sql(
        f"SELECT sum({call}.prediction) FROM t JOIN m USING (k)",
        t=keyed(rows, models), u=made,
    )  # fmt: skip
    connection = work.__closure__[0].cell_contents  # type: ignore[index]
    record = "gram({'x0': x0, 'x1': x1, 'y': y})"
    connection.execute(
        f"CREATE TABLE m AS SELECT k, fit({record}, 'y') AS model, "
        f"anytime_sequence({record}, 'y') AS steps FROM u GROUP BY k"
    )
    return work


@cache
def gram(columns: int) -> ds.Gram:
    return ds.gram(numbers(max(4 * columns, 400), columns))


def stored(records: int) -> tuple[ds.GramStore, pl.DataFrame]:
    """Return a store of so many records, and its table."""
    table = keyed(3 * records, records)
    store = ds.GramStore(Path(tempfile.mkdtemp()) / "stats")
    store.refresh(table, by="k")
    return store, table


def new_day(records: int) -> Work:
    """Return a refresh with rows of one new key, which is another each time."""
    store, table = stored(records)
    keys = iter(range(records, 2 * records))
    return lambda: store.refresh(
        pl.concat([table, table.head(3).with_columns(k=pl.lit(next(keys), table["k"].dtype))])
    )


def commanded(rows: int) -> Work:
    """Return a run of the command in this process."""
    from dbselect.doors.cli import main

    path = Path(tempfile.mkdtemp()) / "t.parquet"
    numbers(rows, 20).write_parquet(path)

    def run() -> None:
        with redirect_stdout(io.StringIO()):
            main(["anytime_sequence", str(path), "--target", "y"])

    return run


def files(count: int) -> Work:
    folder = Path(tempfile.mkdtemp())
    for n in range(count):
        numbers(50, 4).write_parquet(folder / f"{n:05}.parquet")
    return lambda: ds.gram(folder)


def selector(rows: int, columns: int) -> Work:
    from dbselect.sklearn import AnytimeSelector

    frame = numbers(rows, columns)
    X, y = frame.drop("y").to_numpy(), frame["y"].to_numpy()
    return lambda: AnytimeSelector(cv=3).fit(X, y)


def arrived(rows: int, patterns: int) -> Work:
    """Return predictions of rows of so many patterns of missing columns."""
    frame = numbers(rows, 12)
    predictor = ds.Problem(numbers(2000, 12), "y").predictor()
    pattern = np.arange(rows) % patterns
    holed = frame.drop("y").with_columns(
        pl.when(pl.Series((pattern >> j) & 1 == 0)).then(pl.col(f"x{j}")).alias(f"x{j}")
        for j in range(12)
    )
    return lambda: predictor.predict(holed)


def lazily(rows: int, columns: int, keys: int) -> Work:
    frame = numbers(rows, columns).with_columns(k=pl.int_range(pl.len()) % keys).lazy()
    record = pl.struct(pl.exclude("k")).dbselect.gram()
    return lambda: frame.group_by("k").agg(record).collect()


def in_groups(rows: int, keys: int, levels: int) -> Work:
    query = "SELECT count(g.rows) FROM (SELECT gram({'x': x0, 'c': c}) AS g FROM t GROUP BY k)"
    return sql(query, t=keyed(rows, keys, levels))


def in_columns(rows: int, columns: int) -> Work:
    fields = ", ".join(f"'x{j}': x{j}" for j in range(columns))
    return sql(f"SELECT (gram({{{fields}}})).rows FROM t", t=numbers(rows, columns))


def in_keys(rows: int, keys: int) -> Work:
    query = "SELECT count(g.rows) FROM (SELECT gram({'x': x0, 'y': y}) AS g FROM t GROUP BY k)"
    return sql(query, t=keyed(rows, keys))


def certificates(budgets: int) -> Work:
    sequence = ds.anytime_sequence(gram(60), "y")
    wanted = np.linspace(1, 60, budgets).tolist()
    return lambda: [sequence.at(budget=budget) for budget in wanted]


def responses(count: int) -> Work:
    table = numbers(2000, 20 + count)
    return lambda: ds.anytime_sequence(table, [f"x{20 + j}" for j in range(count)], max_groups=5)


def walk(columns: int, **options: Any) -> Work:
    one = gram(columns)
    return lambda: ds.anytime_sequence(one, "y", **options)


def folded(folds: int) -> Work:
    table = numbers(20_000, 10)
    return lambda: ds.cross_validate(table, "y", folds=folds)


def summed(table: pl.DataFrame, *by: str) -> Work:
    return lambda: ds.gram_by(table, by=by) if by else ds.gram(table)


def of_names(columns: int) -> Work:
    table = numbers(20, columns)
    return lambda: ds.gram(table, ["x0", "x1", "y"])


def of_levels(levels: int) -> Work:
    table = keyed(40_000, 1, levels)
    return lambda: ds.gram(table, ["x0", "c", "y"])


def refresh(records: int) -> Work:
    store, table = stored(records)
    return lambda: store.refresh(table)


GROWTHS = (
    Growth("Python", "rows", 1, 50_000, lambda n: summed(numbers(n, 20))),
    Growth("Python", "columns", 2, 25, lambda n: summed(numbers(2000, n))),
    Growth("Python", "names", 1, 250, of_names),
    Growth("Python", "levels", 2, 3, of_levels),
    Growth("Python", "keys", 1, 500, lambda n: summed(keyed(3 * n, n), "k")),
    Growth("Python", "files", 1, 8, files),
    Growth("Python", "groups", 2, 16, lambda n: walk(n, max_groups=8)),
    Growth("Python", "steps", 2, 8, lambda n: walk(1024, max_groups=n)),
    Growth("Python", "budgets", 1, 8, certificates),
    Growth("Python", "responses", 1, 2, responses),
    Growth("Python", "folds", 1, 2, folded),
    Growth("DuckDB", "rows", 1, 20_000, lambda n: in_columns(n, 10)),
    Growth("DuckDB", "columns", 2, 8, lambda n: in_columns(4000, n)),
    Growth("DuckDB", "keys", 1, 500, lambda n: in_keys(4 * n, n)),
    Growth("DuckDB", "keys of as many rows", 0, 250, lambda n: in_keys(64_000, n)),
    Growth("DuckDB", "keys with text", 1, 250, lambda n: in_groups(8 * n, n, 4)),
    Growth("DuckDB", "levels in keys", 1, 2, lambda n: in_groups(32_000, 100, n)),
    Growth("SQL scoring", "rows", 1, 10_000, lambda n: scored(n, 300, "predict(model, t)")),
    Growth("SQL scoring", "models", 1, 64, lambda n: scored(64_000, n, "predict(model, t)")),
    Growth("SQL scoring", "segments", 1, 64, lambda n: scored(16_000, n, "predict(steps, t)")),
    Growth("Polars", "rows", 1, 20_000, lambda n: lazily(n, 10, 1)),
    Growth("Polars", "columns", 2, 8, lambda n: lazily(4000, n, 1)),
    Growth("Polars", "keys", 1, 500, lambda n: lazily(4 * n, 2, n)),
    Growth("command line", "rows", 1, 20_000, commanded),
    Growth("estimators", "rows", 1, 2000, lambda n: selector(n, 10)),
    Growth("estimators", "columns", 2, 16, lambda n: selector(400, n)),
    Growth("store", "records: total", 1, 1000, lambda n: stored(n)[0].total),
    Growth("store", "records: show", 1, 1000, lambda n: stored(n)[0].show),
    Growth("store", "records: nothing new", 1, 1000, refresh),
    Growth("store", "records: a new day", 1, 1000, new_day),
    Growth("predictor", "rows", 1, 10_000, lambda n: arrived(n, 8)),
    Growth("predictor", "patterns", 1, 4, lambda n: arrived(40_000, n)),
)  # fmt: skip


def picture(curves: Sequence[Curve], width: int = 180, height: int = 130) -> str:
    """Return a panel a curve as SVG, seconds by size, both by doublings; what is above is thick."""
    across, panels = 5, []
    for n, curve in enumerate(curves):
        x = np.arange(len(curve.sizes))
        y = np.log2(np.maximum(curve.seconds, 1e-4))
        promised = y[-1] + (x - x[-1]) * curve.growth.promised
        low, high = min(y.min(), promised.min()), max(y.max(), promised.max())
        scale = (height - 40) / max(high - low, 1e-9)

        def path(values: Any, x: Any = x, low: float = low, scale: float = scale) -> str:
            step = (width - 20) / max(len(x) - 1, 1)
            return " ".join(
                f"{10 + step * a:.1f},{height - 10 - scale * (b - low):.1f}"
                for a, b in zip(x, values, strict=True)
            )

        left, top = n % across * width, n // across * height
        panels.append(
            f'<g transform="translate({left} {top})"><text x="10" y="14" font-size="11">'
            f"{curve.growth.door}: {curve.growth.size}</text>"
            f'<polyline points="{path(promised)}" fill="none" stroke="#999" '
            f'stroke-dasharray="3"/><polyline points="{path(y)}" fill="none" stroke="#000" '
            f'stroke-width="{3 if curve.fails else 1}"/></g>'
        )
    rows = math.ceil(len(curves) / across)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" '
        'style="background:#fff" '
        f'width="{across * width}" height="{rows * height}">{"".join(panels)}</svg>\n'
    )


HEADER = (
    "| door | size | from, to | processor | promised | worst local exponent |\n" + "|---" * 6 + "|"
)


def write(curves: Sequence[Curve], folder: Path) -> None:
    """Write the page, its picture and the figures."""
    lines = "\n".join(curve.line() for curve in curves)
    page = f"""# How time grows

Processor time as one size doubles; an exponent of 1 is twice the time for twice the work. The line
is what was measured, dashed what is promised. Times below {NOISE} s have no exponent.
`python bench/growth.py` writes this page.

![Time by size](growth.svg)

{HEADER}
{lines}
"""
    (folder / "GROWTH.md").write_text(page)
    (folder / "growth.svg").write_text(picture(curves))
    with (folder / "growth.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["door", "size", "promised", "n", "seconds"])
        for curve in curves:
            one = curve.growth
            for n, seconds in zip(curve.sizes, curve.seconds, strict=True):
                out.writerow([one.door, one.size, one.promised, n, f"{seconds:.4g}"])


def chosen(words: Sequence[str]) -> Iterator[Growth]:
    """Yield the growths of which the door or the size has one of these words; all without one."""
    for one in GROWTHS:
        named = f"{one.door} {one.size}".lower()
        if not words or any(word.lower() in named for word in words):
            yield one


def main(arguments: Sequence[str], folder: Path) -> int:
    """Measure, print and write; return 1 if a line is above what is promised."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--doublings", type=int, default=DOUBLINGS)
    parser.add_argument("--most", type=float, default=10.0, help="seconds of one run")
    options = parser.parse_args(arguments)
    curves = []
    print(HEADER)
    for one in chosen(options.words):
        curves.append(measured(one, options.doublings, options.most))
        numbers.cache_clear()
        gram.cache_clear()
        print(curves[-1].line(), flush=True)
    if not options.words:
        write(curves, folder)
    return int(any(curve.fails for curve in curves))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).parent))
