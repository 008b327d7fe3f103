"""A read that fails leaves nothing behind: no memory, at any door."""

import gc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import psutil
import pyarrow.parquet as pq
import pytest

import dbselect as ds

#: A table of 4 MB: forty that are kept make 160 MB.
ROWS = 50_000
NAMES = [*(f"x{j}" for j in range(9)), "y"]
CALLS = 40
#: What allocators keep in hand, in bytes; a tenth of the calls that leak exceed it.
SLACK = 40e6


def broken_table() -> pl.DataFrame:
    """Return a table in which one value cannot be used, near its end."""
    values = np.random.default_rng(0).normal(size=(ROWS, len(NAMES)))
    values[ROWS - 5, 0] = np.inf
    values[:, -1] = values[:, 1] > 0
    return pl.DataFrame(values, NAMES)


def kept_by(call: Callable[[], Any]) -> int:
    """Bytes that forty failing calls keep, once the first ones have set everything up.

    The lesser of two rounds: what allocators take in hand they take once, a leak is in both.
    """
    process = psutil.Process()
    sizes = []
    for calls in (4, CALLS, CALLS):
        for _ in range(calls):
            with pytest.raises(Exception, match="infinite"):
                call()
        gc.collect()
        sizes.append(process.memory_info().rss)
    return min(after - before for before, after in pairwise(sizes))


DOORS = [
    "parquet path", "LazyFrame", "DataFrame", "arrow Table", "pandas", "relation", "NumPy",
    "gram_by", "family", "SQL", "expression", "namespace",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_failing_reads_keep_no_memory(door, connection, tmp_path):
    path = str(tmp_path / "table.parquet")
    frame = broken_table()
    frame.write_parquet(path)
    del frame
    # Each call reads the table anew: what it keeps is not shared with the next.
    calls = {
        "parquet path": lambda: ds.gram(path),
        "LazyFrame": lambda: ds.gram(pl.scan_parquet(path)),
        "DataFrame": lambda: ds.gram(pl.read_parquet(path)),
        "arrow Table": lambda: ds.gram(pq.read_table(path)),
        "pandas": lambda: ds.gram(pl.read_parquet(path).to_pandas()),
        "relation": lambda: ds.gram(connection.read_parquet(path)),
        "NumPy": lambda: ds.gram(pl.read_parquet(path).to_numpy(), NAMES),
        "gram_by": lambda: ds.gram_by(pl.scan_parquet(path), ["y"]),
        "family": lambda: ds.anytime_sequence(path, "y", family="binomial"),
        "SQL": lambda: connection.sql(f"SELECT gram(t) FROM '{path}' t").fetchall(),
        "expression": lambda: pl.read_parquet(path).select(pl.struct(pl.all()).dbselect.gram()),
        "namespace": lambda: pl.scan_parquet(path).dbselect.gram("x*").collect(),
    }
    assert kept_by(calls[door]) < SLACK
