"""The sums of a Gram, or of one for each group of rows, under way in any number of processes."""

import io
import json
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

#: Name of the column of the groups' numbers, which no key has.
NUMBER = "__dbselect_number"
#: Keys that a table is taken to have where nobody counts them.
KEYS = 100


def reader_of(request: Request, by: Sequence[str] = ()) -> Reader:
    """Return a reader for rows as `Terms.expand` gives them."""
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
    """The sums that the records of a request are made of."""

    request: Request  # the columns, groups and policies to read with
    schema: pa.Schema  # the table's
    groups: int = KEYS  # about how many keys a part has

    @property
    def size(self) -> int:
        """About how many bytes a state has."""
        folding = self.request.folding
        groups = (self.groups if self.request.by else 1) * (folding.k if folding else 1)
        width = len(self.request.names) + sum(len(c.names) for c in self.request.terms.categories)
        return 8 * groups * (width * (width + 1) // 2 + 3 * width)

    @contextmanager
    def begin(self) -> Iterator["GramSums"]:
        """Begin without rows."""
        grouping = Grouping(self.request, self.schema) if self.request.keys else None
        with reader_of(self.request, grouping.fields if grouping else ()) as reader:
            yield GramSums(self.request, reader, grouping)


@dataclass(frozen=True)
class GramSums:
    """Sums under way."""

    request: Request  # what is summed
    reader: Reader  # holds the sums
    grouping: Grouping | None  # the groups of the rows; None without groups

    def add(self, batch: Any) -> None:
        """Add some rows; may be called from several threads at once."""
        if self.grouping is None:
            self.reader.add(self.request.terms.expand(batch))
            return
        batch = self.grouping.prepared(batch)
        self.grouping.meet(self.reader.add(self.request.terms.expand(batch)), batch)

    def state(self) -> bytes:
        """Return the sums, and which keys the groups have."""
        if self.grouping is None:
            return self.reader.state(b"")
        table = io.BytesIO()
        self.grouping.settle(self.reader.settle()).write_ipc(table)
        return self.reader.state(self._asked(self.grouping) + b"\n" + table.getvalue())

    def load(self, part: bytes) -> None:
        """Add the sums of other rows."""
        note = self.reader.note_of(part)
        if self.grouping is None:
            self.reader.load(part)
            return
        asked, _, table = note.partition(b"\n")
        if asked != self._asked(self.grouping):
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

    def _asked(self, grouping: Grouping) -> bytes:
        """Return what decides the groups, on one line."""
        folding = self.request.folding
        asked = {"by": self.request.by, "fold": folding and asdict(folding)}
        return json.dumps({**asked, "types": grouping.types}).encode()


def check_fits(
    found: pa.Schema,
    planned: pa.Schema,
    fields: Sequence[str],
    part: str,
    keys: Collection[str] = (),
) -> None:
    """Refuse a part unless keys have the type of the table, and other fields the kind."""
    for name in fields:
        if name not in found.names:
            raise SourceError(f"{part} has no field '{name}', which is read; it has {found.names}")
        if found.names.count(name) > 1:
            raise SourceError(f"{part} has two fields '{name}'; names must differ")
        types = found.field(name).type, planned.field(name).type
        one, other = (counted_as(type_, name in keys) for type_ in types)
        if one != other:
            raise SourceError(
                f"field '{name}' has type {types[0]} in {part} and {types[1]} in the table; cast it"
            )
