"""Distinct values of columns and their numbers of rows, counted in any number of processes."""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect._native import distinct
from dbselect.record.columns import leaves
from dbselect.sources.partial.partial_aggregates import Fresh, gather
from dbselect.sources.request import Table

#: Counts that wait to be merged, at least; more wait if more are merged already.
WAITING = 2**16
#: Distinct values from which quantiles are computed. Of more values, those with the smallest
#: hashes are a sample: quantiles are then off by about 0.1 % of the rows.
SAMPLED = 2**18


class Values:
    """The values of a column with their numbers of rows, added in any order from any thread.

    At most `limit` values are kept, those with the smallest hashes; None keeps all, and 0 only the
    smallest and the largest. If there are more than `most` values, none is kept.
    """

    def __init__(self, limit: int | None = None, most: int | None = None) -> None:
        self.limit = limit
        self.most = most
        self._are_more = False
        self._parts: list[pl.DataFrame] = []
        self._waiting = 0
        self._room = WAITING
        self._lock = Lock()
        self.range: tuple[float, float] | None = None

    def add(self, values: pl.Series) -> None:
        """Count values; NULL and NaN do not count."""
        if self._are_more:
            return
        present = values.drop_nulls()
        if present.dtype.is_temporal() or present.dtype in (pl.Decimal, pl.Binary, pl.Int128):
            # The native library does not count these types.
            self.add_counts(present.rename("value").value_counts(name="rows"))
            return
        rows = pl.repeat(1, len(present), dtype=pl.Int64, eager=True)
        if self.limit != 0 and len(present):
            counts = pl.Series(distinct(present.to_frame())).struct.unnest()
            present, rows = present.gather(counts["row"]), counts["rows"]
        if present.dtype in (pl.Categorical, pl.Enum):
            present = present.cast(pl.String)
        self.add_counts(pl.DataFrame({"value": present, "rows": rows}))

    def add_counts(self, counts: pl.DataFrame) -> None:
        """Add counts of values: the columns ``value`` and ``rows``."""
        counts = counts.select("value", pl.col("rows").cast(pl.Int64)).drop_nulls()
        if self.limit is not None:
            # Adding 0 turns -0.0 into 0.0.
            counts = counts.with_columns(pl.col("value").cast(pl.Float64) + 0.0)
            counts = counts.filter(pl.col("value").is_not_nan())
            self._widen(counts["value"])
        if self.limit == 0 or counts.is_empty():
            return
        with self._lock:
            self._parts.append(counts)
            self._waiting += counts.height
            if self._waiting > self._room:
                self._merge()

    @property
    def are_more(self) -> bool:
        """Whether there are more values than `most`."""
        if self._parts:
            self._merge()
        return self._are_more

    def counts(self) -> pl.DataFrame:
        """Return the columns ``value``, ascending, and ``rows``."""
        if not self._parts:
            return pl.DataFrame(schema={"value": pl.Float64, "rows": pl.Int64})
        self._merge()
        return self._parts[0].sort("value")

    def state(self) -> tuple[pl.DataFrame | None, tuple[float, float] | None, bool]:
        """Return the counts, for `load` in another process."""
        are_more = self.are_more
        return None if are_more or not self._parts else self.counts(), self.range, are_more

    def load(
        self, counts: pl.DataFrame | None, extremes: tuple[float, float] | None, are_more: bool
    ) -> None:
        """Add the counts of another process."""
        self._are_more |= are_more
        if extremes is not None:
            self._widen(pl.Series(extremes))
        if counts is not None:
            self._parts.append(counts)
            self._merge()

    def _merge(self) -> None:
        merged = pl.concat(self._parts).group_by("value").agg(pl.col("rows").sum())
        if self.limit is not None and merged.height > self.limit:
            hashes = splitmix(merged["value"].to_numpy().view(np.uint64))
            merged = merged[np.argpartition(hashes, self.limit)[: self.limit]]
        self._are_more |= self.most is not None and merged.height > self.most
        self._parts = [merged]
        self._waiting, self._room = 0, max(WAITING, merged.height)

    def _widen(self, values: pl.Series) -> None:
        if values.is_empty():
            return
        low, high = float(values.min()), float(values.max())  # type: ignore[arg-type]
        with self._lock:
            if self.range is not None:
                low, high = min(low, self.range[0]), max(high, self.range[1])
            self.range = low, high


def read_values(table: Table, values: Mapping[str, Values]) -> None:
    """Read columns of a table and count their values."""
    leaf_of = {leaf.name: leaf for leaf in leaves(table.schema) if leaf.name in values}
    count = getattr(table, "counts_of", None)
    if count is not None:
        for column, counter in values.items():
            counter.add_counts(count(leaf_of[column], counter.limit, counter.most))
        return
    paths = {column: leaf.path for column, leaf in leaf_of.items()}
    limits = {column: (counter.limit, counter.most) for column, counter in values.items()}
    kept = [most if limit is None else limit for limit, most in limits.values()]
    size = sum(16 * (SAMPLED if limit is None else limit) for limit in kept)
    fields = list(dict.fromkeys(leaf.field for leaf in leaf_of.values()))
    gather(table, fields, Fresh(partial(_no_values, paths, limits), size), Learnt(paths, values))


def _no_values(
    paths: Mapping[str, tuple[str | int, ...]],
    limits: Mapping[str, tuple[int | None, int | None]],
) -> "Learnt":
    """Return empty values of columns, given `limit` and `most` of each."""
    return Learnt(paths, {column: Values(*limit) for column, limit in limits.items()})


@dataclass(frozen=True)
class Learnt:
    """The values of columns in the rows so far."""

    paths: Mapping[str, tuple[str | int, ...]]  # column -> its path in the rows
    values: Mapping[str, Values]

    def add(self, batch: Any) -> None:
        """Count the values of some rows; may be called from several threads at once."""
        frame = pl.DataFrame(batch)
        for column, values in self.values.items():
            values.add(series_at(frame, self.paths[column]))

    def load(self, part: bytes) -> None:
        """Add the counts of another process."""
        for column, state in pickle.loads(part).items():
            self.values[column].load(*state)

    def state(self) -> bytes:
        """Return the pickled counts."""
        return pickle.dumps({column: values.state() for column, values in self.values.items()})


def series_at(frame: pl.DataFrame, path: Sequence[str | int]) -> pl.Series:
    """Return a column of a frame by its path: a field, a child or an element."""
    field, *steps = path
    series = frame[str(field)]
    for step in steps:
        series = series.arr.get(step - 1) if isinstance(step, int) else series.struct.field(step)
    return series


def splitmix(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return splitmix64 of some words (Steele, Lea and Flood 2014, figure 17)."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))
