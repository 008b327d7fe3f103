"""Which of 1,000 tables to buy for 10 million facts: sums by key beside a join for each."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
from measure import Row, process
from tables import FOLDER

import dbselect as ds

FACTS = 10_000_000
#: Keys of the facts, and how many values each has.
KEYS = {"customer": 100_000, "item": 10_000, "hour": 8_760}
#: Files of 50 columns for each key; a candidate is 5 to 50 columns of one of them.
FILES, WIDTH = 10, 50
CANDIDATES = 1000
#: What the facts have themselves.
OWN = {"own": ["x0", "x1", "x2", "x3"]}
#: Candidates for which the join is made, so many of each key; the figure for all is scaled.
JOINED = 2


def facts() -> Path:
    """Write, unless it is there, facts of three keys, four columns and a target."""
    path = FOLDER / f"facts-{FACTS}.parquet"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        rng = np.random.default_rng(0)
        table = pl.DataFrame(
            {key: rng.integers(0, size, FACTS, dtype=np.int32) for key, size in KEYS.items()}
        ).with_columns(
            **{f"x{j}": pl.Series(rng.standard_normal(FACTS)) for j in range(4)},
            y=pl.Series(rng.standard_normal(FACTS)),
        )
        # Column 0 of file 0 of each key bears on the target.
        for key in KEYS:
            bears = pl.read_parquet(one(key, 0)).select(key, "z0")
            table = table.join(bears, on=key, how="left", maintain_order="left")
            table = table.with_columns(pl.col("y") + pl.col("z0")).drop("z0")
        table.write_parquet(path, compression="uncompressed", row_group_size=125_000)
    return path


def one(key: str, number: int) -> Path:
    """Write, unless it is there, a table of one row a key and 50 columns."""
    path = FOLDER / f"{key}-{number}.parquet"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        rng = np.random.default_rng([number, KEYS[key]])
        values = {f"z{j}": rng.standard_normal(KEYS[key]) for j in range(WIDTH)}
        keys = np.arange(KEYS[key], dtype=np.int32)
        pl.DataFrame({key: keys, **values}).write_parquet(path, compression="uncompressed")
    return path


def candidates(count: int = CANDIDATES) -> dict[str, ds.Candidate]:
    """Return tables of 5 to 50 columns by each of the three keys in turn."""
    rng = np.random.default_rng(1)
    names = list(KEYS)
    found = {}
    for number in range(count):
        key = names[number % len(names)]
        width = int(rng.integers(5, WIDTH + 1))
        columns = [f"z{j}" for j in sorted(rng.choice(WIDTH, width, replace=False))]
        path = str(one(key, number // len(names) % FILES))
        found[f"t{number}"] = ds.Candidate(path, key, float(rng.integers(1, 10)), columns)
    return found


def bought(steps: int) -> ds.Sequence:
    """Buy so many of the tables."""
    return ds.anytime_tables(facts(), "y", candidates(), OWN, max_groups=steps)


def joined(path: Path, tables: Sequence[ds.Candidate]) -> float:
    """Return the seconds of the join with some tables and the Gram of it, in DuckDB."""
    columns = [
        f"t{at}.{name} AS t{at}_{name}"
        for at, one in enumerate(tables)
        for name in one.columns or ()
    ]
    joins = [
        f"LEFT JOIN '{one.table}' t{at} ON t{at}.{one.key} = f.{one.key}"
        for at, one in enumerate(tables)
    ]
    with duckdb.connect() as con:
        start = time.perf_counter()
        ds.gram(
            con.sql(
                f"SELECT y, x0, x1, x2, x3, {', '.join(columns)} FROM '{path}' f {' '.join(joins)}"
            )
        )
        return time.perf_counter() - start


def purchases() -> Iterator[Row]:
    """Yield the first purchase and the third of 1,000 tables, and a join for each."""
    path, every = facts(), candidates()
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import purchases; "
        "purchases.bought({})"
    )
    first, memory = process(code.format(1))
    third, _ = process(code.format(3))
    some = list(every.values())[: JOINED * len(KEYS)]
    scaled = sum(joined(path, [one]) for one in some) / len(some) * CANDIDATES
    what = f"1,000 tables of 5 to 50 columns by 3 keys, {FACTS:,} facts"
    yield (
        f"{what}: the first to buy",
        f"{first:.0f} s, {CANDIDATES / first:.0f} tables a second, {memory:,.0f} MB",
        "",
    )
    yield f"{what}: three of them", f"{third:.0f} s", ""
    yield (
        f"a join and its Gram for each, from {len(some)} of them",
        f"{scaled:,.0f} s, {scaled / first:.0f} times the first purchase",
        "",
    )


def star() -> Iterator[Row]:
    """Yield the Gram of a star join of three known tables beside sums by their keys."""
    path = facts()
    for width in (10, 50):
        columns = [f"z{j}" for j in range(width)]
        star = {key: ds.Candidate(str(one(key, 0)), key, 1.0, columns) for key in KEYS}
        by_join = joined(path, list(star.values()))
        start = time.perf_counter()
        ds.anytime_tables(path, "y", star, OWN, always=list(star), max_groups=len(star))
        by_key = time.perf_counter() - start
        yield (
            f"star join of three known tables of {width} columns, {FACTS:,} facts: Gram of the "
            "join; sums by key",
            f"{by_join:.1f} s; {by_key:.1f} s",
            "",
        )


if __name__ == "__main__":
    for part in (star, purchases):
        for row in part():
            print(" | ".join(row), flush=True)
