"""The parts of a table without files: the rows of equal keys, with a hash as fingerprint.

The hash of a row is that of folds, which depends on the values alone: not on the engine, its
version, the order of the rows or their cut into batches. That of a part is the sum over its
rows, beside their number, so that equal rows count each. One pass over the columns finds what
has changed; a second reads only that and hashes the rows it hands on.
"""

import json
import zlib
from collections.abc import Collection, Generator, Iterator
from contextlib import closing
from threading import Lock
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from dbselect._native import folds
from dbselect.errors import BusyError, SourceError
from dbselect.record.columns import Leaf
from dbselect.sources.engines.arrow import consume_batches
from dbselect.sources.open import open_table
from dbselect.sources.partial.grouping import folds_of
from dbselect.sources.request import (
    LIMIT,
    Consumer,
    Folding,
    Table,
    check_field,
    columns_of,
    wanted_of,
)
from dbselect.store.parts import ATTEMPTS, labelled, read_part
from dbselect.store.reading import FINGERPRINT, GRAM, PART, Reading, untyped

#: Sums of a key: rows, and the halves of their hashes.
ROWS, HIGH, LOW = "__dbselect_rows", "__dbselect_high", "__dbselect_low"
#: Number of a row in its batch.
AT = "__dbselect_row"
#: Before the name of a key: whether it is NaN.
NAN = "__dbselect_nan_"
#: Most values of the first key for which the engine filters the rows.
MOST_ASKED = 1000


class RowParts:
    """A table whose parts are the rows of equal keys.

    Parameters
    ----------
    source : as the caller gave it
    table : the source, opened
    reading : how it is read
    """

    looked_at = False
    shown = "the table"

    def __init__(self, source: Any, table: Table, reading: Reading) -> None:
        self._source = source
        self._table = table
        self._reading = reading
        self._hashed = _hashed(table.schema, reading)
        self._keys: pl.DataFrame | None = None

    def fingerprints(self) -> dict[str, str]:
        """Return number and hash of the rows of each key."""
        watched = Watched(self._table, self._reading, self._hashed, None)
        watched.scan([], lambda batch: None)
        self._keys = watched.seen()
        return dict(self._keys.select(PART, FINGERPRINT).iter_rows())

    def records(self, parts: Collection[str]) -> Iterator[pl.DataFrame]:
        """Yield the records of all these parts at once: one pass reads them."""
        if not parts:
            return
        if self._keys is None:
            self.fingerprints()
        assert self._keys is not None
        by = list(self._reading.by)
        wanted = self._keys.filter(pl.col(PART).is_in(list(parts))).select(by)
        columns = None if self._reading.columns is None else list(self._reading.columns)
        table = open_table(_narrowed(self._source, wanted[:, 0]), columns)
        for _ in range(ATTEMPTS):
            watched = Watched(table, self._reading, self._hashed, wanted)
            records = read_part(watched, self._reading)
            if watched.is_steady:
                seen = watched.seen()
                break
        else:
            raise BusyError(
                f"the table changed during each of {ATTEMPTS} reads; refresh again when "
                "nothing writes to it, or read it in one transaction"
            )
        keys, known = _comparable(records.select(by)), _comparable(seen.select(by))
        known = known.hstack(seen.select(PART, FINGERPRINT))
        told = keys.join(known, on=keys.columns, how="left", nulls_equal=True,
                         maintain_order="left")  # fmt: skip
        if told[PART].null_count():
            raise SourceError(
                f"the keys {by} have values, such as NaN, that are not equal to themselves"
            )
        if records.height:
            yield labelled(records.select(*by, GRAM), told[PART], told[FINGERPRINT], self._reading)


class Watched:
    """A table that hashes the rows it hands on, and hands on those of some keys only.

    Parameters
    ----------
    table : the table
    reading : how it is read
    hashed : columns that decide the hash
    wanted : keys whose rows are kept; None for all
    """

    def __init__(
        self, table: Table, reading: Reading, hashed: list[Leaf], wanted: pl.DataFrame | None
    ) -> None:
        self._table = table
        self._by = list(reading.by)
        self._names = [leaf.name for leaf in hashed]
        self._fields = list(dict.fromkeys([*self._by, *(leaf.field for leaf in hashed)]))
        told = str([(leaf.name, leaf.is_text, leaf.unit) for leaf in hashed])
        self._columns = f"{zlib.crc32(told.encode()):08x}"
        self._wanted = wanted
        self._scans: list[pl.DataFrame] = []
        self._lock = Lock()
        self.schema: pa.Schema = table.schema
        self.rows = table.rows if wanted is None else None
        self.again = True

    @property
    def is_steady(self) -> bool:
        """Whether every reading has had the same rows."""
        return all(scan.equals(self._scans[0]) for scan in self._scans)

    def seen(self) -> pl.DataFrame:
        """Return the keys of the rows handed on, and ``part`` and ``fingerprint`` of each."""
        scan = self._scans[-1]
        names = _names(scan.select(self._by))
        told = [
            f"{rows} rows of {self._columns}: {high:x}.{low:x}"
            for rows, high, low in scan.select(ROWS, HIGH, LOW).iter_rows()
        ]
        return scan.select(self._by).with_columns(
            pl.Series(PART, names, pl.String), pl.Series(FINGERPRINT, told, pl.String)
        )

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Read the fields, hash the requested rows and pass them on."""
        sums: list[pl.DataFrame] = []

        def take(batch: Any) -> None:
            kept = self._kept(batch)
            if len(kept):
                found = self._sums(kept)
                with self._lock:
                    sums.append(found)
                consume(kept)

        # Polars is asked for sums, which would wait for its own threads inside of its scan.
        with closing(self._table.batches(list(dict.fromkeys([*fields, *self._fields])))) as rows:
            consume_batches(rows, take)
        empty = self._sums(self.schema.empty_table().select(self._fields))
        every = pl.concat([empty, *sums])
        self._scans.append(_added(every.lazy(), self._by).sort(self._by, nulls_last=True).collect())

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields of the requested rows, in order, without a hash."""
        for batch in self._table.batches(list(dict.fromkeys([*fields, *self._by]))):
            yield from self._kept(pa.table(batch)).select(fields).to_batches()

    def _kept(self, batch: Any) -> Any:
        """Return the rows of the requested keys."""
        if self._wanted is None:
            return batch
        keys = _comparable(pl.DataFrame(batch.select(self._by)))
        kept = keys.with_row_index(AT).join(
            _comparable(self._wanted), on=keys.columns, how="semi", nulls_equal=True,
            maintain_order="left",
        )[AT]  # fmt: skip
        if len(kept) == len(batch):
            return batch
        return batch.take(kept.to_arrow())

    def _sums(self, batch: Any) -> pl.DataFrame:
        """Return rows and hashes of each key; of the halves of a hash, whose sums fit."""
        hashes = folds_of(batch, Folding(LIMIT - 1, None, 0), self._names)
        whole = pl.Series(np.asarray(hashes), dtype=pl.Int64)
        keys = pl.DataFrame(batch.select(self._by))
        parts = keys.with_columns(
            pl.lit(1, pl.Int64).alias(ROWS),
            (whole // 2**32).alias(HIGH),
            (whole % 2**32).alias(LOW),
        )
        return _added(parts.lazy(), self._by).collect()


def _added(parts: pl.LazyFrame, by: list[str]) -> pl.LazyFrame:
    return parts.group_by(by).agg(pl.col(ROWS, HIGH, LOW).sum())


def _comparable(keys: pl.DataFrame) -> pl.DataFrame:
    """Return keys to join by: NaN becomes NULL with a flag, as single-column joins miss NaN."""
    floats = pl.selectors.float()
    return keys.select(~floats, floats.fill_nan(None), floats.is_nan().name.prefix(NAN))


def _names(keys: pl.DataFrame) -> list[str]:
    """Return the names of parts: texts of their keys, to the nanosecond.

    Raises
    ------
    SourceError : two keys have one text
    """
    texts = keys.with_columns(_text(name, dtype) for name, dtype in keys.schema.items())
    names = [
        json.dumps([None if value is None else str(value) for value in row])
        for row in texts.iter_rows()
    ]
    if len(set(names)) < len(names):
        raise SourceError(f"the keys {keys.columns} have different values of the same text")
    return names


def _text(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return a key, without the sign of zero; as text one of nanoseconds, which Python rounds."""
    key = pl.col(name)
    if dtype.is_float():  # -0.0 and 0.0 are one key, of which either may come first
        return pl.when(key == 0).then(pl.lit(0.0, dtype)).otherwise(key).alias(name)
    if not _is_fine(dtype):
        return key
    if isinstance(dtype, pl.Duration):
        return key.dt.to_string()
    if dtype == pl.Time:
        return key.dt.to_string("%H:%M:%S%.9f")
    zone = "" if dtype.time_zone is None else "%:z"  # type: ignore[attr-defined]
    return key.dt.to_string(f"%Y-%m-%d %H:%M:%S%.9f{zone}")


def _is_fine(dtype: pl.DataType) -> bool:
    """Whether values have nanoseconds, of which those of Python have none."""
    return dtype == pl.Time or getattr(dtype, "time_unit", "") == "ns"


def _hashed(schema: pa.Schema, reading: Reading) -> list[Leaf]:
    """Return the columns on which records depend."""
    for name in reading.by:
        check_field(name, "by", schema)
        if pa.types.is_null(schema.field(name).type):
            raise untyped(name)
    every = columns_of(schema)
    columns = None if reading.columns is None else list(reading.columns)
    wanted = {leaf.name: leaf for leaf in wanted_of(every, columns, {reading.weight, *reading.by})}
    terms = [] if reading.terms is None else list(reading.terms.columns)
    weight = [] if reading.weight is None else [reading.weight]
    wanted |= {name: every[name] for name in (*terms, *weight) if name in every}
    folds(schema.empty_table(), list(wanted), LIMIT - 1, 0)
    return list(wanted.values())


def _narrowed(source: Any, keys: pl.Series) -> Any:
    """Return a table of which its engine leaves out rows without one of some first keys."""
    if len(keys.unique()) > MOST_ASKED or keys.null_count() or _is_fine(keys.dtype):
        return source
    if keys.dtype.is_float() and keys.is_nan().any():
        return source
    if isinstance(source, pl.DataFrame | pl.LazyFrame):
        return source.lazy().filter(pl.col(keys.name).is_in(keys.unique().implode()))
    if type(source).__name__ == "DuckDBPyRelation":
        from duckdb import ColumnExpression, ConstantExpression

        values = [ConstantExpression(value) for value in keys.unique()]
        return source.filter(ColumnExpression(keys.name).isin(*values))
    return source
