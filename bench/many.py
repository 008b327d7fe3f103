"""Very many groups in zstd Parquet beside sums by group, and what first and small calls take."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from limits import limit
from measure import apart, seconds
from rows import Row
from scans import struct
from tables import FOLDER, columns, table

import dbselect as ds

OUT = FOLDER / "many-grams.parquet"
#: As companies keep their files; the other subjects read what is not compressed.
ZSTD = "zstd"
IN_POLARS = "sum() by key in Polars"


def keys() -> Iterator[Row]:
    """Measure `gram` and `gram_by` of a million keys."""
    path, what = table(10_000_000, 4, 1_000_000, ZSTD), "1,000,000 keys, 10M x 4"
    yield _beside_sums(path, columns(4), f"DuckDB gram, GROUP BY {what}", 2.7)
    yield from _within(path, columns(4), what, None, 4.4)
    yield from _within(path, columns(4), what, 700)


def widths() -> Iterator[Row]:
    """Measure `gram` by 100 and 2,000 keys of rows that get wider."""
    sizes = ((4_000_000, 50), (2_000_000, 100), (1_000_000, 200))
    for groups, bars in {100: (1.2, 1.2, 1.35), 2000: (1.35, 1.5, 1.9)}.items():
        for (rows, width), most in zip(sizes, bars, strict=True):
            what = f"DuckDB gram, GROUP BY {groups:,} keys, {rows // 10**6}M x {width}"
            # Rows are written to the memory of their group, and read from there.
            needs = rows * width * (width + 1), 16 * rows * width
            path = table(rows, width, groups, ZSTD)
            yield _beside_sums(path, columns(width), what, most, *needs)


def wide_records() -> Iterator[Row]:
    """Measure `gram_by` of 100,000 keys of 39 columns, a tenth of the rows of 30 GB."""
    path = table(9_000_000, 39, 100_000, ZSTD)
    yield from _within(path, columns(39), "100,000 keys, 9M x 39", 3000)


def _beside_sums(
    path: Path, names: list[str], what: str, most: float, work: float = 0.0, moved: float = 0.0
) -> Row:
    """Measure `gram` by group beside `sum()`; neither is stored, which takes as long again."""
    with ds.connect() as con:

        def made(values: str, read: str) -> Callable[[], Any]:
            query = f"SELECT k, {values} FROM '{path}' GROUP BY k"
            return lambda: con.execute(f"SELECT {read} FROM ({query})").fetchall()

        sums = made(", ".join(f"sum({name}) AS {name}" for name in names), "max(COLUMNS(*))")
        grams = made(f"gram({struct(names)}) AS gram", "max(gram.rows)")
        base, gram = seconds(sums, grams, repeats=3)
    note = limit(base, work, moved) if work else ""
    return Row(what, gram, base, "sum() by key", most=most, note=note)


def _within(
    path: Path, names: list[str], what: str, megabytes: int | None, most: float | None = None
) -> Iterator[Row]:
    """Measure `ds.gram_by`, its peak within a limit of memory."""
    sums = f"pl.scan_parquet('{path}').group_by('k').agg(pl.all().sum())"
    floor = apart(f"{sums}.collect(engine='streaming')", "import polars as pl")
    limit = "" if megabytes is None else f", memory_limit='{megabytes}MB', out='{OUT}'"
    took = apart(
        f"dbselect.gram_by('{path}', 'k', {names}{limit})", "import dbselect; dbselect.gram"
    )
    OUT.unlink(missing_ok=True)
    what = f"ds.gram_by, {what}" + ("" if megabytes is None else f", within {megabytes} MB")
    yield Row(what, took.seconds, floor.seconds, IN_POLARS, most=most)
    yield Row(
        f"{what}: peak memory", took.megabytes, floor.megabytes, IN_POLARS, "MB", limit=megabytes
    )


def predictions() -> Iterator[Row]:
    """Measure `anytime_predict` of complete rows beside the model as an expression."""
    path, (target, *features) = table(1_000_000, 20), columns(20)
    with ds.connect() as con:
        con.execute(f"CREATE TABLE t AS FROM '{path}'")
        con.execute(
            f"CREATE TABLE s AS SELECT anytime_sequence(gram({struct([target, *features])}), "
            f"'{target}') AS steps FROM t"
        )
        model = con.execute("SELECT steps[-1] FROM s").fetchall()[0][0]
        terms = [f"{weight} * {name}" for name, weight in model["coefficients"].items()]
        values = (
            " + ".join([str(model["intercept"]), *terms]),
            f"(anytime_predict((SELECT steps FROM s), {struct(features)})).prediction",
        )
        plain, predicted = seconds(
            *(lambda value=value: con.execute(f"SELECT sum({value}) FROM t").fetchall()
              for value in values)
        )  # fmt: skip
    what = "anytime_predict, 1M x 19, in memory"
    # The predictions alone are written, and read by the sum.
    note = limit(plain, moved=2 * 8e6)
    yield Row(what, predicted, plain, "the model as SQL", most=2.0, note=note)


#: Medians of a small search and of the prediction of a row, of 2,000 calls each.
SMALL = """
import statistics, timeit
import numpy as np, polars as pl
import dbselect as ds
rows = np.random.default_rng(0).standard_normal((200, 6))
rows = pl.DataFrame(rows, schema=[f"x{j}" for j in range(6)])
gram = ds.gram(rows)
costs = {f"x{j}": 1.0 + j for j in range(1, 6)}
model = ds.anytime_sequence(gram, "x0", costs=costs).at(size=3)
row = rows.drop("x0").row(0, named=True)
works = (lambda: ds.anytime_sequence(gram, "x0", costs=costs), lambda: model.predict(row))
result = [statistics.median(timeit.repeat(work, number=1, repeat=2000)) for work in works]
"""


def small() -> Iterator[Row]:
    """Measure what a first use, a small search and one prediction take."""
    codes = ("import duckdb, numpy, polars, pyarrow, scipy", "import dbselect as ds; ds.gram")
    five, first = seconds(
        *(lambda code=code: subprocess.run([sys.executable, "-c", code], check=True)
          for code in codes)
    )  # fmt: skip
    yield Row("import dbselect as ds; ds.gram", first, five, "its five libraries", limit=0.42)
    search, predicted = apart(SMALL).result
    yield Row("a search of 5 columns in Python", search, limit=3e-4)
    yield Row("one row predicted in Python", predicted, limit=1e-4)


PARTS = (keys, widths, wide_records, predictions, small)
