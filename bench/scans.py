"""One pass over a file, beside a plain sum of the same columns in the same engine."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import polars as pl
from limits import limit
from measure import apart, seconds
from rows import Row
from tables import categories, columns, table

import dbselect as ds


def struct(names: list[str]) -> str:
    """Return the SQL of a row of some columns."""
    return "struct_pack(" + ", ".join(f"{name} := {name}" for name in names) + ")"


def duckdb_gram() -> Iterator[Row]:
    """`gram` over Parquet, whole and grouped, and one SQL term per product."""
    with ds.connect() as con:
        for rows, width, bar in ((4_000_000, 50, 1.3), (2_000_000, 200, 1.5)):
            path, names = table(rows, width), columns(width)

            def run(select: str, tail: str = "", path: Path = path) -> Callable[[], object]:
                return lambda: con.execute(f"SELECT {select} FROM '{path}' {tail}").fetchall()

            floor = run(", ".join(f"sum({name})" for name in names))
            gram = run(f"(gram({struct(names)})).rows")
            works = [floor, gram]
            if width == 50:
                works.append(run(f"k, (gram({struct(names)})).rows", "GROUP BY k"))
            base, whole, *grouped = seconds(*works)
            what = f"DuckDB gram, {rows // 10**6}M x {width}"
            note = limit(base, rows * width * (width + 1))
            yield Row(what, whole, base, "sum()", most=bar, note=note)
            for time in grouped:
                yield Row(f"{what}, GROUP BY 1000 keys", time, base, "sum()", most=2.5)
            if width == 50:
                products = [f"sum({a} * {b})" for i, a in enumerate(names) for b in names[: i + 1]]
                terms, whole = seconds(run(", ".join(products)), gram)
                yield Row(what, whole, terms, "a SQL term for each product", most=0.25)


def polars_gram() -> Iterator[Row]:
    """`ds.gram` on a Parquet path."""
    for rows, width, bar in ((4_000_000, 50, 1.6), (2_000_000, 200, 2.0)):
        path, names = table(rows, width), columns(width)
        sums = pl.scan_parquet(path).select([pl.col(name).sum() for name in names])
        base, gram = seconds(
            lambda sums=sums: sums.collect(engine="streaming"),
            lambda path=path, names=names: ds.gram(path, columns=names),
        )
        what = f"ds.gram of a Parquet path, {rows // 10**6}M x {width}"
        note = limit(base, rows * width * (width + 1))
        yield Row(what, gram, base, "sum() in Polars", most=bar, note=note)


def levels() -> Iterator[Row]:
    """`ds.gram` with categories of 10, 100 and 1000 levels, found in a first pass or known."""
    sizes, names = (10, 100, 1000), columns(20)
    path = categories(4_000_000, 20, sizes)
    frame = pl.scan_parquet(path)
    sums = [pl.col(name).sum() for name in names]
    integers, texts = ([f"{kind}{n}" for n in sizes] for kind in "it")
    floors = {
        "integers": (integers, [pl.col(name).max() for name in integers]),
        "text": (texts, [pl.col(name).str.len_bytes().max() for name in texts]),
    }
    for kind, (fields, reads) in floors.items():
        terms = ds.terms(path, fields)
        base, known, both = seconds(
            lambda reads=reads: frame.select(*sums, *reads).collect(engine="streaming"),
            lambda terms=terms: ds.gram(path, names, terms=terms),
            lambda fields=fields: ds.gram(path, names, categories=fields),
        )
        what = f"ds.gram, 4M x 20 and categories of 10, 100 and 1000 levels, {kind}"
        yield Row(what, both, base, "sum() and max() in Polars", most=3.0)
        yield Row(f"{what}, levels known", known, base, "sum() and max() in Polars")


def memory() -> Iterator[Row]:
    """Peak resident set of `ds.gram` at four times the rows."""

    def peak(rows: int) -> float:
        work = f"dbselect.gram('{table(rows, 50)}', columns=['x*'])"
        return median(apart(work, "import dbselect").megabytes for _ in range(3))

    large, small = peak(16_000_000), peak(4_000_000)
    yield Row("peak memory of ds.gram, 16M x 50", large, small, "4M x 50", unit="MB", most=1.1)


PARTS = (duckdb_gram, polars_gram, levels, memory)
