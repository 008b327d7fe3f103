"""The parts of a table without files: the rows of equal keys, with a sum of hashes as fingerprint.

One pass finds what has changed; a second hashes the rows that it hands on.
"""

import io
import json
import pickle
import zlib
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from dbselect._arrow import empty_table
from dbselect.errors import BusyError, SourceError
from dbselect.record.foreign import is_of
from dbselect.sources.around import Around
from dbselect.sources.engines.arrow import consume_batches
from dbselect.sources.open import open_table
from dbselect.sources.partial.grouping import folds_of
from dbselect.sources.partial.partial_aggregates import Changed, Reduce, Together, Work, gather
from dbselect.sources.request import LIMIT, Consumer, Folding, Table
from dbselect.store.fields import (
    Fields,
    PartFields,
    kinds_of_fields,
    leaves_read,
    names_in,
    without_gone,
)
from dbselect.store.parts import ATTEMPTS, labelled, read_part
from dbselect.store.reading import FINGERPRINT, GRAM, PART, Reading

#: Rows of a key, and the halves of the sum of their hashes, whose sums fit.
ROWS, HIGH, LOW = "__dbselect_rows", "__dbselect_high", "__dbselect_low"
#: Number of a row in its batch.
AT = "__dbselect_row"
#: Before the name of a key: whether it is NaN.
NAN = "__dbselect_nan_"
#: Most values of the first key for which the engine filters the rows.
MOST_ASKED = 1000


class RowParts:
    """A table whose parts are the rows of equal keys."""

    looked_at = False
    shown = "the table"

    def __init__(self, source: Any, table: Table, reading: Reading, fields: PartFields) -> None:
        self._source = source
        self._table = table
        self._reading = reading
        self._leaves = leaves_read(table.schema, reading)
        self._now = kinds_of_fields(self._leaves)
        self._fields = fields
        self._keys = pl.DataFrame()

    def fingerprints(self) -> dict[str, str]:
        """Return number and hash of the rows of each key, by the fields it was read with."""
        known = (self._fields.compared(part, self._now) for part in self._fields.known)
        usable = {tuple(each): each for each in (self._now, *known)}
        work = self._work(usable.values())
        with work.begin() as sums:
            gather(_InTurn(self._table), work.fields, work, sums)
            found = sums.total()
        self._keys = found.select(work.by).with_columns(
            pl.Series(PART, _names(found.select(work.by)), pl.String)
        )
        told = work.fingerprints(found)
        at = {names: n for n, names in enumerate(work.columns)}
        compared = {part: self._fields.compared(part, self._now) for part in self._keys[PART]}
        numbers = (at.get(names_in(self._leaves, each), 0) for each in compared.values())
        return {part: row[n] for part, row, n in zip(compared, told, numbers, strict=True)}

    def changes(self) -> list[str]:
        """Return in words how the columns differ from before."""
        return self._fields.changes(self._now)

    def is_same(self, part: str, before: str | None, now: str) -> bool:
        """Whether a part has the rows that it had; their number if columns are gone."""
        if before == now or before is None or not self._fields.lacks(part, self._now):
            return before == now
        (rows, mark), (rows_now, mark_now) = map(_rows_and_mark, (before, now))
        return rows == rows_now and mark != mark_now

    def records(self, parts: Collection[str]) -> Iterator[pl.DataFrame]:
        """Yield the records of all these parts: one pass for those of the same fields."""
        together: dict[tuple[str, ...], list[str]] = {}
        for part in parts:
            fields = self._fields.read(part, self._now)
            together.setdefault(tuple(fields), []).append(part)
        for names, each in together.items():
            yield from self._records(each, {name: self._now[name] for name in names})

    def _records(self, parts: list[str], fields: Fields) -> Iterator[pl.DataFrame]:
        by = list(self._reading.by)
        wanted = self._keys.filter(pl.col(PART).is_in(parts)).select(by)
        columns = None if self._reading.columns is None else list(self._reading.columns)
        table = open_table(_narrowed(self._source, wanted[:, 0]), columns)
        work, schema = self._work([fields]), without_gone(table.schema, self._now, fields)
        for _ in range(ATTEMPTS):
            watched = Watched(table, schema, work, wanted)
            records = read_part(watched, self._reading)
            if watched.is_steady:
                break
        else:
            raise BusyError(
                f"the table changed during each of {ATTEMPTS} reads; refresh again when "
                "nothing writes to it, or read it in one transaction"
            )
        seen = watched.scans[-1]
        keys, known = _comparable(records.select(by)), _comparable(seen.select(by))
        told = [row[0] for row in work.fingerprints(seen)]
        known = known.with_columns(
            pl.Series(PART, _names(seen.select(by)), pl.String),
            pl.Series(FINGERPRINT, told, pl.String),
        )
        told_of = keys.join(known, on=keys.columns, how="left", nulls_equal=True,
                            maintain_order="left")  # fmt: skip
        if told_of[PART].null_count():
            raise SourceError(
                f"the keys {by} have values, such as NaN, that are not equal to themselves"
            )
        if records.height:
            labels = told_of[PART], told_of[FINGERPRINT]
            yield labelled(records.select(*by, GRAM), *labels, self._reading, fields)

    def _work(self, versions: Collection[Fields]) -> "KeyHashes":
        """Return what hashes the rows by each of some lists of fields."""
        read = {*self._reading.by, *(name for each in versions for name in each)}
        schema = pa.schema([each for each in self._table.schema if each.name in read])
        kinds = {leaf.name: (leaf.name, leaf.is_text, leaf.unit) for leaf in self._leaves}
        columns = tuple(names_in(self._leaves, each) for each in versions)
        return KeyHashes(self._reading.by, columns, schema, kinds)


@dataclass(frozen=True)
class KeyHashes:
    """A work: how many rows each key has, and hashes of them."""

    by: tuple[str, ...]  # the keys
    columns: tuple[tuple[str, ...], ...]  # lists of columns; there is a hash by each
    schema: pa.Schema  # of the fields that are read
    kinds: Mapping[str, Any]  # column -> its name and kind, which the fingerprint depends on

    @property
    def size(self) -> int:
        """Bytes of a state are few; how many keys there are is not known."""
        return 0

    @property
    def fields(self) -> list[str]:
        """The fields that are read."""
        return list(self.schema.names)

    @contextmanager
    def begin(self) -> Iterator["HashSums"]:
        """Begin without rows."""
        yield HashSums(self)

    def of(self, batch: Any) -> pl.DataFrame:
        """Return rows and hashes of each key of a batch."""
        parts = pl.DataFrame(batch.select(list(self.by)))
        parts = parts.with_columns(pl.lit(1, pl.Int64).alias(ROWS))
        for n, names in enumerate(self.columns):
            hashes = np.asarray(folds_of(batch, Folding(LIMIT - 1, None, 0, columns=tuple(names))))
            whole = pl.Series(hashes, dtype=pl.Int64)
            halves = (whole // 2**32).alias(f"{HIGH}{n}"), (whole % 2**32).alias(f"{LOW}{n}")
            parts = parts.with_columns(*halves)
        return self.added(parts)

    def added(self, parts: pl.DataFrame) -> pl.DataFrame:
        """Return the sums of each key."""
        sums = parts.lazy().group_by(self.by).agg(pl.exclude(self.by).sum())
        return sums.collect(engine="in-memory")

    def fingerprints(self, sums: pl.DataFrame) -> list[list[str]]:
        """Return of each key a text for each list of columns."""
        kinds = [str([self.kinds[name] for name in names]) for names in self.columns]
        marks = [f"{zlib.crc32(each.encode()):08x}" for each in kinds]
        return [
            [f"{row[ROWS]} rows of {mark}: {row[f'{HIGH}{n}']:x}.{row[f'{LOW}{n}']:x}"
             for n, mark in enumerate(marks)]
            for row in sums.drop(self.by).iter_rows(named=True)
        ]  # fmt: skip


@dataclass(frozen=True)
class HashSums:
    """Rows and hashes so far."""

    work: KeyHashes
    _sums: list[pl.DataFrame] = field(default_factory=list)
    _lock: Any = field(default_factory=Lock)

    def add(self, batch: Any) -> None:
        """Add some rows; may be called from several threads at once."""
        self._append(self.work.of(batch))

    def load(self, part: bytes) -> None:
        """Add the sums of other rows."""
        self._append(pl.read_ipc(io.BytesIO(part)))

    def state(self) -> bytes:
        """Return the sums."""
        found = io.BytesIO()
        self.total().write_ipc(found)
        return found.getvalue()

    def total(self) -> pl.DataFrame:
        """Return the sums of each key, in the order of the keys."""
        empty = self.work.of(empty_table(self.work.schema))
        by = list(self.work.by)
        return self.work.added(pl.concat([empty, *self._sums])).sort(by, nulls_last=True)

    def _append(self, sums: pl.DataFrame) -> None:
        with self._lock:
            self._sums.append(sums)


class Watched(Around):
    """A table that hashes the rows it hands on, and hands on those of some keys only."""

    def __init__(
        self, table: Table, schema: pa.Schema, work: KeyHashes, wanted: pl.DataFrame
    ) -> None:
        super().__init__(table, schema)
        self.rows = None
        self._work = work
        self._wanted = wanted
        #: Rows and hashes of each key, of every reading
        self.scans: list[pl.DataFrame] = []

    @property
    def is_steady(self) -> bool:
        """Whether every reading has had the same rows."""
        return all(scan.equals(self.scans[0]) for scan in self.scans)

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Read the fields, hash the requested rows and pass them on."""
        with self._work.begin() as sums:

            def take(batch: Any) -> None:
                kept = _of_keys(self._wanted, batch)
                if len(kept):
                    sums.add(kept)
                    consume(kept)

            _InTurn(self._table).scan(self._with_own(fields), take)
            self.scans.append(sums.total())

    @property
    def reduce(self) -> Reduce | None:
        """What has the workers hash the requested rows, and gather of them."""
        inner = super().reduce
        return inner and partial(self._reduce, inner)

    def _reduce(self, inner: Reduce, fields: list[str], work: Work) -> Iterator[bytes]:
        both = Changed(Together([self._work, work]), partial(partial, _of_keys, self._wanted))
        with self._work.begin() as sums:
            for part in inner(self._with_own(fields), both):
                hashes, state = pickle.loads(part)
                sums.load(hashes)
                yield state
            self.scans.append(sums.total())

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields of the requested rows, in order, without a hash."""
        for batch in self._table.batches(list(dict.fromkeys([*fields, *self._work.by]))):
            yield from _of_keys(self._wanted, pa.table(batch)).select(fields).to_batches()

    def _with_own(self, fields: list[str]) -> list[str]:
        return list(dict.fromkeys([*fields, *self._work.fields]))


def _rows_and_mark(fingerprint: str) -> tuple[str, str]:
    """Return how many rows a fingerprint is of, and what stands for their columns."""
    rows, _, rest = fingerprint.partition(" rows of ")
    return rows, rest.partition(":")[0]


class _InTurn(Around):
    """A table read outside of Polars' threads, for which sums in its scan would wait."""

    def __init__(self, table: Table) -> None:
        super().__init__(table, table.schema)

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Hand every row's fields to `consume`, in the order of the table."""
        with closing(self.batches(fields)) as rows:
            consume_batches(rows, consume)


def _of_keys(wanted: pl.DataFrame, batch: Any) -> Any:
    keys = _comparable(pl.DataFrame(batch.select(wanted.columns)))
    kept = keys.with_row_index(AT).lazy().join(
        _comparable(wanted).lazy(), on=keys.columns, how="semi", nulls_equal=True,
        maintain_order="left",
    ).collect(engine="in-memory")[AT]  # fmt: skip
    if len(kept) == len(batch):
        return batch
    return batch[kept] if isinstance(batch, pl.DataFrame) else batch.take(kept.to_arrow())


def _comparable(keys: pl.DataFrame) -> pl.DataFrame:
    """Return keys to join by: NaN becomes NULL with a flag, as single-column joins miss NaN."""
    floats = pl.selectors.float()
    return keys.select(~floats, floats.fill_nan(None), floats.is_nan().name.prefix(NAN))


def _names(keys: pl.DataFrame) -> list[str]:
    """Return the names of parts: texts of their keys, to the nanosecond."""
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
    if is_of(source, "pyspark"):
        name = "`" + keys.name.replace("`", "``") + "`"
        return source.filter(source[name].isin(keys.unique().to_list()))
    return source
