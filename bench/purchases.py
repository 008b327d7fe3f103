"""Which of 1,000 tables to buy for 10 million facts: sums by key beside a join for each."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
from measure import apart
from rows import Row
from tables import FOLDER

import dbselect as ds

FACTS = 10_000_000
#: Keys of the facts, and how many values each has.
KEYS = {"customer": 100_000, "item": 10_000, "hour": 8_760}
#: Files of 50 columns for each key; a candidate is 5 to 50 columns of one of them.
FILES, WIDTH = 10, 50
CANDIDATES = 1000
#: The group of the columns of the facts.
OWN = {"own": ["x0", "x1", "x2", "x3"]}
#: Number of candidates of each key that are joined; the figure for all is scaled.
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
            bears = pl.read_parquet(key_table(key, 0)).select(key, "z0")
            table = table.join(bears, on=key, how="left", maintain_order="left")
            table = table.with_columns(pl.col("y") + pl.col("z0")).drop("z0")
        table.write_parquet(path, compression="uncompressed", row_group_size=125_000)
    return path


def key_table(key: str, number: int) -> Path:
    """Write, unless it is there, a table of one row a key and 50 columns."""
    path = FOLDER / f"{key}-{number}.parquet"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        rng = np.random.default_rng([number, KEYS[key]])
        values = {f"z{j}": rng.standard_normal(KEYS[key]) for j in range(WIDTH)}
        keys = np.arange(KEYS[key], dtype=np.int32)
        pl.DataFrame({key: keys, **values}).write_parquet(path, compression="uncompressed")
    return path


def candidates(count: int = CANDIDATES) -> dict[str, ds.io.Candidate]:
    """Return tables of 5 to 50 columns by each of the three keys in turn."""
    rng = np.random.default_rng(1)
    names = list(KEYS)
    tables = {}
    for number in range(count):
        key = names[number % len(names)]
        width = int(rng.integers(5, WIDTH + 1))
        columns = [f"z{j}" for j in sorted(rng.choice(WIDTH, width, replace=False))]
        path = str(key_table(key, number // len(names) % FILES))
        tables[f"t{number}"] = ds.io.Candidate(path, key, float(rng.integers(1, 10)), columns)
    return tables


def bought(steps: int) -> ds.results.Sequence:
    """Buy so many of the tables."""
    return ds.anytime_tables(facts(), "y", candidates(), OWN, max_groups=steps)


def joined(tables: Mapping[str, ds.io.Candidate]) -> ds.Gram:
    """Return the Gram of the join with some tables, made by DuckDB."""
    columns = [
        f"{at}.{name} AS {at}_{name}" for at, t in tables.items() for name in t.columns or ()
    ]
    joins = [
        f"LEFT JOIN '{table.table}' {at} ON {at}.{table.key} = f.{table.key}"
        for at, table in tables.items()
    ]
    with duckdb.connect() as con:
        query = f"SELECT y, x0, x1, x2, x3, {', '.join(columns)} FROM '{facts()}' f"
        return ds.gram(con.sql(f"{query} {' '.join(joins)}"))


def joined_each(count: int) -> None:
    """Join each of the first candidates."""
    for name, table in list(candidates().items())[:count]:
        joined({name: table})


def of_star(width: int) -> dict[str, ds.io.Candidate]:
    """Return a table of some columns for each key."""
    columns = [f"z{j}" for j in range(width)]
    return {key: ds.io.Candidate(str(key_table(key, 0)), key, 1.0, columns) for key in KEYS}


def star_by_keys(width: int) -> ds.results.Sequence:
    """Add a star of three tables by sums."""
    tables = of_star(width)
    return ds.anytime_tables(facts(), "y", tables, OWN, always=list(tables), max_groups=len(tables))


def star() -> Iterator[Row]:
    """Add a star of three tables by sums, and by the Gram of its join."""
    facts()
    for width in (10, WIDTH):
        join = _seconds(f"joined(purchases.of_star({width}))")
        keys = _seconds(f"star_by_keys({width})")
        what = f"sums by key of three known tables of {width} columns, {FACTS:,} facts"
        yield Row(what, keys, join, "the Gram of their star join")


def purchases() -> Iterator[Row]:
    """Buy one of 1,000 tables and three, beside a join for each."""
    facts(), candidates()
    n_joined = JOINED * len(KEYS)
    base = f"a join and its Gram for each, scaled from {n_joined}"
    joins = _seconds(f"joined_each({n_joined})") * CANDIDATES / n_joined
    what = f"of {CANDIDATES:,} tables of 5 to {WIDTH} columns by 3 keys, {FACTS:,} facts"
    yield Row(f"the first to buy {what}", _seconds("bought(1)"), joins, base)
    yield Row(f"three to buy {what}", _seconds("bought(3)"), joins, base)


def _seconds(call: str) -> float:
    return apart(f"purchases.{call}", "import purchases").seconds


PARTS = (star, purchases)
