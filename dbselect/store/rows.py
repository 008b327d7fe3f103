"""Parts of a table without files: rows with equal keys, with a sum of hashes as fingerprint.

One pass finds the changed parts; a second reads them and hashes their rows again.
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
from dbselect.store.reading import FINGERPRINT, GRAM, PART, READING, Reading

#: Number of rows of a key, and sums of the high and low halves of their hashes, which fit.
ROWS, HIGH, LOW = "__dbselect_rows", "__dbselect_high", "__dbselect_low"
#: Index of a row in its batch.
AT = "__dbselect_row"
#: Prefix of the column that tells whether a key is NaN.
NAN = "__dbselect_nan_"
#: What JSON escapes, and more.
ESCAPED = r"[^ !#-\[\]-~]"
#: Most values of the first key that are filtered by the engine.
MOST_FILTERED = 1000


class RowParts:
    """A table whose parts are rows with equal keys."""

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

    def fingerprints(self) -> pl.DataFrame:
        """Return keys, and number and hash of their rows, over the fields they were read with."""
        # Most parts were read with the same fields, which are compared once.
        known = self._fields.lists
        self._fields.know([self._fields.first[text] for text in known])
        compared = {text: self._fields.compared(self._fields.first[text], self._now)
                    for text in known}  # fmt: skip
        usable = {tuple(fields): fields for fields in (self._now, *compared.values())}
        work = self._work(usable.values())
        with work.begin() as sums:
            gather(_InTurn(self._table), work.fields, work, sums)
            totals = sums.total()
        self._keys = totals.select(work.by).with_columns(_names(totals.select(work.by)))
        index = {names: n for n, names in enumerate(work.columns)}
        numbers = {text: index.get(names_in(self._leaves, fields), 0)
                   for text, fields in compared.items()}  # fmt: skip
        read = self._keys.select(PART).join(
            self._fields.parts, on=PART, how="left", maintain_order="left"
        )
        version = read[READING].replace_strict(numbers, default=None, return_dtype=pl.Int64)
        new = read.filter(version.is_null())[PART]
        first = new[0] if len(new) else ""
        other = index.get(names_in(self._leaves, self._fields.compared(first, self._now)), 0)
        chosen = version.fill_null(other)
        texts = [pl.when(chosen == n).then(text)
                 for n, text in enumerate(work.fingerprints(totals))]  # fmt: skip
        return read.select(PART, pl.coalesce(texts).alias(FINGERPRINT))

    def changes(self) -> list[str]:
        """Return the changes of the columns, in words."""
        return self._fields.changes(self._now)

    def is_same(self, part: str, before: str | None, now: str) -> bool:
        """Whether a part has the same rows; the same number of rows if columns are gone."""
        if before == now or before is None or not self._fields.lacks(part, self._now):
            return before == now
        (rows, mark), (rows_now, mark_now) = map(_rows_and_mark, (before, now))
        return rows == rows_now and mark != mark_now

    def records(self, parts: Collection[str]) -> Iterator[pl.DataFrame]:
        """Yield the records of parts: one pass for all parts with the same fields."""
        together: dict[tuple[str, ...], list[str]] = {}
        for part in parts:
            fields = self._fields.read(part, self._now)
            together.setdefault(tuple(fields), []).append(part)
        for names, group in together.items():
            yield from self._records(group, {name: self._now[name] for name in names})

    def _records(self, parts: list[str], fields: Fields) -> Iterator[pl.DataFrame]:
        by = list(self._reading.by)
        requested = self._keys.filter(pl.col(PART).is_in(parts)).select(by)
        columns = None if self._reading.columns is None else list(self._reading.columns)
        table = open_table(_narrowed(self._source, requested[:, 0]), columns)
        work, schema = self._work([fields]), without_gone(table.schema, self._now, fields)
        for _ in range(ATTEMPTS):
            watched = Watched(table, schema, work, requested)
            records = read_part(watched, self._reading)
            if watched.is_steady:
                break
        else:
            raise BusyError(
                f"the table changed during each of {ATTEMPTS} reads; refresh again when "
                "nothing writes to it, or read it in one transaction"
            )
        seen = watched.scans[-1]
        keys, hashed = _comparable(records.select(by)), _comparable(seen.select(by))
        fingerprint = work.fingerprints(seen)[0].alias(FINGERPRINT)
        hashed = hashed.with_columns(_names(seen.select(by)), fingerprint)
        joined = keys.join(hashed, on=keys.columns, how="left", nulls_equal=True,
                            maintain_order="left")  # fmt: skip
        if joined[PART].null_count():
            raise SourceError(
                f"the keys {by} have values, such as NaN, that are not equal to themselves"
            )
        if records.height:
            labels = joined[PART], joined[FINGERPRINT]
            yield labelled(records.select(*by, GRAM), *labels, self._reading, fields)

    def _work(self, versions: Collection[Fields]) -> "KeyHashes":
        """Return the work that hashes rows over each list of fields."""
        read = {*self._reading.by, *(name for fields in versions for name in fields)}
        schema = pa.schema([field for field in self._table.schema if field.name in read])
        kinds = {leaf.name: (leaf.name, leaf.is_text, leaf.unit) for leaf in self._leaves}
        columns = tuple(names_in(self._leaves, fields) for fields in versions)
        return KeyHashes(self._reading.by, columns, schema, kinds)


@dataclass(frozen=True)
class KeyHashes:
    """Work that counts and hashes the rows of each key."""

    by: tuple[str, ...]  # the keys
    columns: tuple[tuple[str, ...], ...]  # lists of columns; one hash for each list
    schema: pa.Schema  # of the fields that are read
    kinds: Mapping[str, Any]  # column -> its name and kind, part of the fingerprint

    @property
    def size(self) -> int:
        """Bytes of a state: 0, as it is small and the number of keys is unknown."""
        return 0

    @property
    def fields(self) -> list[str]:
        """The fields that are read."""
        return list(self.schema.names)

    @contextmanager
    def begin(self) -> Iterator["HashSums"]:
        """Start with no rows."""
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

    def fingerprints(self, sums: pl.DataFrame) -> list[pl.Series]:
        """Return a text for each key, for each list of columns."""
        kinds = [str([self.kinds[name] for name in names]) for names in self.columns]
        marks = [f"{zlib.crc32(kind.encode()):08x}" for kind in kinds]
        return [
            sums.select(pl.format(f"{{}} rows of {mark}: {{}}.{{}}", ROWS,
                                  _hex(sums[f"{HIGH}{n}"]), _hex(sums[f"{LOW}{n}"]))).to_series()
            for n, mark in enumerate(marks)
        ]  # fmt: skip


@dataclass(frozen=True)
class HashSums:
    """Sums of rows and hashes so far."""

    work: KeyHashes
    _sums: list[pl.DataFrame] = field(default_factory=list)
    _lock: Any = field(default_factory=Lock)

    def add(self, batch: Any) -> None:
        """Add rows; thread-safe."""
        self._append(self.work.of(batch))

    def load(self, part: bytes) -> None:
        """Add the sums of other rows."""
        self._append(pl.read_ipc(io.BytesIO(part)))

    def state(self) -> bytes:
        """Return the sums as Arrow IPC."""
        buffer = io.BytesIO()
        self.total().write_ipc(buffer)
        return buffer.getvalue()

    def total(self) -> pl.DataFrame:
        """Return the sums of each key, in the order of the keys."""
        empty = self.work.of(empty_table(self.work.schema))
        by = list(self.work.by)
        return self.work.added(pl.concat([empty, *self._sums])).sort(by, nulls_last=True)

    def _append(self, sums: pl.DataFrame) -> None:
        with self._lock:
            self._sums.append(sums)


class Watched(Around):
    """A table restricted to some keys, which hashes its rows while they are read."""

    def __init__(
        self, table: Table, schema: pa.Schema, work: KeyHashes, keys: pl.DataFrame
    ) -> None:
        super().__init__(table, schema)
        self.rows = None
        self._work = work
        self._keys = keys
        #: Rows and hashes of each key, for every read
        self.scans: list[pl.DataFrame] = []

    @property
    def is_steady(self) -> bool:
        """Whether every read had the same rows."""
        return all(scan.equals(self.scans[0]) for scan in self.scans)

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Read the fields, hash the requested rows and pass them on."""
        with self._work.begin() as sums:

            def take(batch: Any) -> None:
                kept = _of_keys(self._keys, batch)
                if len(kept):
                    sums.add(kept)
                    consume(kept)

            _InTurn(self._table).scan(self._with_own(fields), take)
            self.scans.append(sums.total())

    @property
    def reduce(self) -> Reduce | None:
        """The engine's `reduce`, extended to hash the requested rows on the workers."""
        inner = super().reduce
        return inner and partial(self._reduce, inner)

    def _reduce(self, inner: Reduce, fields: list[str], work: Work) -> Iterator[bytes]:
        both = Changed(Together([self._work, work]), partial(partial, _of_keys, self._keys))
        with self._work.begin() as sums:
            for part in inner(self._with_own(fields), both):
                hashes, state = pickle.loads(part)
                sums.load(hashes)
                yield state
            self.scans.append(sums.total())

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields of the requested rows, in order, without a hash."""
        for batch in self._table.batches(list(dict.fromkeys([*fields, *self._work.by]))):
            yield from _of_keys(self._keys, pa.table(batch)).select(fields).to_batches()

    def _with_own(self, fields: list[str]) -> list[str]:
        return list(dict.fromkeys([*fields, *self._work.fields]))


def _rows_and_mark(fingerprint: str) -> tuple[str, str]:
    """Split a fingerprint into its number of rows and the mark of its columns."""
    rows, _, rest = fingerprint.partition(" rows of ")
    return rows, rest.partition(":")[0]


class _InTurn(Around):
    """A table that is read outside of Polars' threads, where sums in a scan would deadlock."""

    def __init__(self, table: Table) -> None:
        super().__init__(table, table.schema)

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Pass the fields of all rows to `consume`, in the order of the table."""
        with closing(self.batches(fields)) as rows:
            consume_batches(rows, consume)


def _of_keys(requested: pl.DataFrame, batch: Any) -> Any:
    keys = _comparable(pl.DataFrame(batch.select(requested.columns)))
    kept = keys.with_row_index(AT).lazy().join(
        _comparable(requested).lazy(), on=keys.columns, how="semi", nulls_equal=True,
        maintain_order="left",
    ).collect(engine="in-memory")[AT]  # fmt: skip
    if len(kept) == len(batch):
        return batch
    return batch[kept] if isinstance(batch, pl.DataFrame) else batch.take(kept.to_arrow())


def _comparable(keys: pl.DataFrame) -> pl.DataFrame:
    """Return keys to join by: NaN becomes NULL with a flag, as single-column joins miss NaN."""
    floats = pl.selectors.float()
    return keys.select(~floats, floats.fill_nan(None), floats.is_nan().name.prefix(NAN))


def _hex(numbers: pl.Series) -> pl.Series:
    """Return whole numbers >= 0 in hexadecimal digits."""
    words = pa.py_buffer(numbers.to_numpy().astype(">i8"))
    eight = pa.Array.from_buffers(pa.binary(8), len(numbers), [None, words])
    digits = pl.col("").bin.encode("hex").str.strip_chars_start("0")
    return pl.DataFrame({"": eight}).select(digits.replace("", "0")).to_series()


def _names(keys: pl.DataFrame) -> pl.Series:
    """Return the names of parts: their keys as JSON, to the nanosecond."""
    texts = keys.select(_text(name, dtype) for name, dtype in keys.schema.items())
    quoted = texts.select(_quoted(text) for text in texts)
    names = quoted.select(pl.format("[{}]", pl.concat_str(pl.all(), separator=", ")).alias(PART))
    if names[PART].n_unique() < names.height:
        raise SourceError(f"the keys {keys.columns} have different values of the same text")
    return names[PART]


def _quoted(key: pl.Series) -> pl.Series:
    """Return values as JSON texts."""
    if key.dtype.is_integer() or key.dtype == pl.Date:
        key = key.cast(pl.String)
    if key.dtype != pl.String or key.str.contains(ESCAPED).any():
        texts = [None if value is None else json.dumps(str(value)) for value in key]
        return pl.Series(key.name, texts, pl.String).fill_null("null")
    return ('"' + key + '"').fill_null("null").alias(key.name)


def _text(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return a key; zeros lose their sign, and nanoseconds become text, as Python rounds them."""
    key = pl.col(name)
    if dtype.is_float():  # -0.0 and 0.0 are one key, and either may come first
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
    """Whether a type has nanoseconds, which Python values lack."""
    return dtype == pl.Time or getattr(dtype, "time_unit", "") == "ns"


def _narrowed(source: Any, keys: pl.Series) -> Any:
    """Filter a table to values of the first key in its engine, if it can."""
    if len(keys.unique()) > MOST_FILTERED or keys.null_count() or _is_fine(keys.dtype):
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
