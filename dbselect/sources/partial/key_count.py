"""About how many keys a table has, counted in any number of processes."""

import pickle
from collections.abc import Sequence
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import polars as pl

from dbselect.record.foreign import wide_decimals
from dbselect.record.formulas import polars_field
from dbselect.sources.partial.partial_aggregates import Fresh, gather
from dbselect.sources.request import Table

#: Hashes that are kept, the smallest: of more keys, the number is off by about 2 %.
KEPT = 4096


def key_hash(by: Sequence[str]) -> pl.Expr:
    """Return the hash of a row's keys, 0 to 2^64 - 1."""
    return pl.struct(polars_field(name) for name in by).hash()


def keys_of(batch: Any, by: Sequence[str]) -> pl.DataFrame:
    """Return the keys of some rows."""
    keys = batch.select(list(by))
    return keys if isinstance(keys, pl.DataFrame) else pl.DataFrame(wide_decimals(keys))


def rows_and_keys(table: Table, by: Sequence[str]) -> tuple[int, int]:
    """Read the keys of a table: return its rows, and about how many different keys they have.

    After Bar-Yossef, Jayram, Kumar, Sivakumar and Trevisan (2002), algorithm 1.
    """
    counted = CountedKeys(by)
    gather(table, list(by), Fresh(partial(CountedKeys, by), 8 * KEPT), counted)
    return counted.rows, counted.keys


class CountedKeys:
    """The rows so far, and the smallest hashes of their keys."""

    def __init__(self, by: Sequence[str]) -> None:
        self._by = by
        self._smallest = np.empty(0, np.uint64)
        self._lock = Lock()
        self.rows = 0

    def add(self, batch: Any) -> None:
        """Count some rows; may be called from several threads at once."""
        keys = keys_of(batch, self._by)
        hashes = keys.select(key_hash(self._by)).to_series().unique()
        self._keep(keys.height, hashes.bottom_k(KEPT).to_numpy())

    def load(self, part: bytes) -> None:
        """Count the rows of another process."""
        self._keep(*pickle.loads(part))

    def state(self) -> bytes:
        """Return what was counted."""
        return pickle.dumps((self.rows, self._smallest))

    def _keep(self, rows: int, hashes: Any) -> None:
        with self._lock:
            self.rows += rows
            self._smallest = np.union1d(self._smallest, hashes)[:KEPT]

    @property
    def keys(self) -> int:
        """About how many different keys the rows have; exact below `KEPT`."""
        if len(self._smallest) < KEPT:
            return len(self._smallest)
        return round((KEPT - 1) / ((float(self._smallest[-1]) + 1) / 2**64))
