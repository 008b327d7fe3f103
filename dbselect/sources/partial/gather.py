"""Partial sums of a Gram, or of a Gram per group of rows, in any number of processes."""

import io
import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from dbselect._native import Reader
from dbselect.errors import DataError, SourceError
from dbselect.record.policies import FILLS
from dbselect.sources.partial.grouping import FOLDED, Grouping, counted_as
from dbselect.sources.request import FOLD, Request

#: Name of the column of group numbers; no key may have it.
NUMBER = "__dbselect_number"
#: Assumed number of keys of a table if they are not counted.
KEYS = 100


def reader_of(request: Request, by: Sequence[str] = ()) -> Reader:
    """Return a reader for rows as `Terms.expand` returns them."""
    width = len(request.names)
    base = request.base.to_json()
    reader = Reader(request.names, request.weight, by, request.policies[:width], base)
    for category, policy in zip(request.terms.categories, request.policies[width:], strict=True):
        names = category.names + [category.missing] * (policy in FILLS)
        reader.category(category.column, category.texts, names, policy)
    if request.order:
        reader.order(request.order)
    return reader


@dataclass(frozen=True)
class GramWork:
    """The work that sums for the records of a request."""

    request: Request  # the columns, groups and policies to read
    schema: pa.Schema  # of the table
    groups: int = KEYS  # approximate number of keys of a part

    @property
    def size(self) -> int:
        """Approximate size of a state in bytes."""
        folding = self.request.folding
        groups = (self.groups if self.request.by else 1) * (folding.k if folding else 1)
        width = len(self.request.names) + sum(len(c.names) for c in self.request.terms.categories)
        return 8 * groups * (width * (width + 1) // 2 + 3 * width)

    @contextmanager
    def begin(self) -> Iterator["GramSums"]:
        """Begin with empty sums."""
        grouping = Grouping(self.request, self.schema) if self.request.keys else None
        with reader_of(self.request, grouping.fields if grouping else ()) as reader:
            yield GramSums(self.request, reader, grouping)


@dataclass(frozen=True)
class GramSums:
    """Partial sums of a `GramWork`."""

    request: Request  # what is summed
    reader: Reader  # holds the sums
    grouping: Grouping | None  # the groups of the rows; None without groups

    @property
    def in_blocks(self) -> bool:
        """Whether `add` takes the number of a block, in whose order sums are merged."""
        return self.grouping is None

    def add(self, batch: Any, block: int = -1) -> None:
        """Add some rows; may be called from several threads at once."""
        if self.grouping is None:
            self.reader.add(self.request.terms.expand(batch), block)
            return
        batch = self.grouping.prepared(batch)
        self.grouping.meet(self.reader.add(self.request.terms.expand(batch)), batch)

    def state(self) -> bytes:
        """Return the sums, and the keys of the groups, as bytes."""
        if self.grouping is None:
            return self.reader.state(b"")
        table = io.BytesIO()
        self.grouping.settle(self.reader.settle()).write_ipc(table)
        return self.reader.state(self._header(self.grouping) + b"\n" + table.getvalue())

    def load(self, part: bytes) -> None:
        """Add the sums of other rows."""
        note = self.reader.note_of(part)
        if self.grouping is None:
            self.reader.load(part)
            return
        header, _, table = note.partition(b"\n")
        if header != self._header(self.grouping):
            raise DataError("part is of another plan; all parts must come from one plan")
        keys = pl.read_ipc(io.BytesIO(table)).rechunk()
        if FOLD in self.request.keys:
            keys = keys.rename({FOLD: FOLDED})
        self.grouping.meet(self.reader.load(part, keys), keys)

    def record(self) -> pa.StructScalar:
        """Return the record of all rows."""
        return self.reader.finish()[0]

    def records(self) -> pl.DataFrame:
        """Return the keys of the groups, sorted, NULL last, and their records."""
        if self.grouping is None:
            return pl.DataFrame(pa.table({"gram": self.reader.finish()}))
        keys = self.grouping.settle(self.reader.settle()).with_row_index(NUMBER)
        keys = keys.sort(self.request.keys, nulls_last=True)
        records = pl.DataFrame(pa.table({"gram": self.reader.finish(keys[NUMBER])}))
        return keys.drop(NUMBER).hstack(records)

    def _header(self, grouping: Grouping) -> bytes:
        """Return the definition of the groups, on one line."""
        folding = self.request.folding
        groups = {"by": self.request.by, "fold": folding and asdict(folding)}
        return json.dumps({**groups, "types": grouping.types}).encode()


def check_fits(
    schema: pa.Schema,
    planned: pa.Schema,
    fields: Sequence[str],
    part: str,
    keys: Collection[str] = (),
) -> None:
    """Refuse a part unless its keys have the planned types, and its other fields the kinds."""
    counts = Counter(schema.names)
    for name in fields:
        if not counts[name]:
            raise SourceError(f"{part} has no field '{name}', which is read; it has {schema.names}")
        if counts[name] > 1:
            raise SourceError(f"{part} has two fields '{name}'; names must differ")
        types = schema.field(name).type, planned.field(name).type
        kind, planned_kind = (counted_as(type_, name in keys) for type_ in types)
        if kind != planned_kind:
            raise SourceError(
                f"field '{name}' has type {types[0]} in {part} and {types[1]} in the table; cast it"
            )
