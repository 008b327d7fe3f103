"""Fields of a table by part, as the columns of the table may change."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import polars as pl
import pyarrow as pa

from dbselect._arrow import empty_table
from dbselect._native import folds
from dbselect.errors import ColumnError
from dbselect.record.columns import Leaf
from dbselect.record.terms import Terms
from dbselect.sources.request import LIMIT, check_field, columns_of, selected
from dbselect.store.reading import PART, READING, NewColumns, Reading, fields_from, untyped

#: Field of a table -> kind of its columns: ``"number"``, ``"text"``, ``"days"`` or ``"seconds"``.
Fields = Mapping[str, str]


def leaves_read(schema: pa.Schema, reading: Reading) -> list[Leaf]:
    """Return the columns that records are computed from."""
    for name in reading.by:
        check_field(name, "by", schema)
        if pa.types.is_null(schema.field(name).type):
            raise untyped(name)
    leaves = columns_of(schema)
    columns = None if reading.columns is None else list(reading.columns)
    read = {leaf.name: leaf for leaf in selected(leaves, columns, {reading.weight, *reading.by})}
    terms = [] if reading.terms is None else list(reading.terms.columns)
    weight = [] if reading.weight is None else [reading.weight]
    read |= {name: leaves[name] for name in (*terms, *weight) if name in leaves}
    folds(empty_table(schema), list(read), LIMIT - 1, 0)
    return list(read.values())


def kinds_of_fields(leaves: Iterable[Leaf]) -> Fields:
    """Return field -> kind; for nested fields, the kinds of all columns."""
    kinds_by_field: dict[str, list[str]] = {}
    for leaf in leaves:
        kind = "text" if leaf.is_text else leaf.unit or "number"
        kinds_by_field.setdefault(leaf.field, []).append(
            kind if leaf.name == leaf.field else f"{leaf.name} {kind}"
        )
    return {name: ", ".join(kinds) for name, kinds in kinds_by_field.items()}


class PartFields:
    """The fields that parts were read with, and the policy for new ones."""

    def __init__(self, policy: NewColumns, parts: pl.DataFrame) -> None:
        self.policy = policy  # ``new_columns`` of `GramStore.refresh`
        self.parts = parts.select(PART, READING)
        ends = [dict(parts.unique(READING, keep=end, maintain_order=True)
                     .select(READING, PART).iter_rows()) for end in ("first", "last")]  # fmt: skip
        #: Reading -> the first part of each, and the fields of those that have them
        self.first = ends[0]
        lists = {text: fields_from(text) for text in self.first}
        self.lists = {text: fields for text, fields in lists.items() if fields is not None}
        self.union: dict[str, str] = {}  # fields of all parts, as the last ones have them
        for text in (text for end in ends for text in end):
            self.union |= self.lists.get(text, {})
        self.by_part: dict[str, Fields] = {}  # part -> its fields, of those asked for

    def know(self, parts: Collection[str]) -> None:
        """Read the fields of parts from their readings, for the comparisons below."""
        found = self.parts.filter(pl.col(PART).is_in(list(parts)))
        readings = ((part, self.lists.get(text)) for part, text in found.iter_rows())
        self.by_part |= {part: fields for part, fields in readings if fields is not None}

    def compared(self, part: str, now: Fields) -> Fields:
        """Return the fields to compare with the previous read: those that still exist."""
        before = self.by_part.get(part, {})
        shared = {name: kind for name, kind in before.items() if now.get(name) == kind}
        if not shared or (self.policy == "error" and self.lacks(part, now)):
            return self.read(part, now)
        return shared

    def lacks(self, part: str, now: Fields) -> bool:
        """Whether fields of a part are gone or have another type."""
        return not self.by_part.get(part, {}).items() <= now.items()

    def read(self, part: str, now: Fields) -> Fields:
        """Return the fields to read of a part: those of its previous read, if any."""
        changes = self.changes(now, part)
        if changes and self.policy == "error":
            raise ColumnError(
                f"the columns of {part} have changed: {'; '.join(changes)}; new_columns is 'error'"
            )
        before = self.by_part.get(part)
        if before is not None and self.policy != "null":
            return {name: kind for name, kind in now.items() if name in before}
        if self.union and self.policy == "ignore":
            return {name: kind for name, kind in now.items() if self.union.get(name) == kind}
        return now

    def changes(self, now: Fields, part: str = "") -> list[str]:
        """Return the changes of fields in words: of a part that was read before, its own."""
        before = self.by_part.get(part, self.union)
        return differences(before, now) if before else []


def differences(before: Fields, now: Fields) -> list[str]:
    """Return the differences of two lists of fields, in words."""
    changes = [f"new column '{name}'" for name in now if name not in before]
    changes += [f"column '{name}' is gone" for name in before if name not in now]
    return changes + [
        f"column '{name}' is {now[name]}, before {kind}"
        for name, kind in before.items() if now.get(name, kind) != kind
    ]  # fmt: skip


def levels_of(terms: Iterable[Terms]) -> dict[str, set[str]]:
    """Return the levels of each category."""
    levels: dict[str, set[str]] = {}
    for category in (c for part_terms in terms for c in part_terms.categories):
        levels.setdefault(category.column, set()).update(category.texts)
    return levels


def new_levels(before: Mapping[str, set[str]], now: Mapping[str, set[str]]) -> list[str]:
    """Return the new levels of categories, in words."""
    return [
        f"new level '{level}' of '{column}'"
        for column in now if column in before for level in sorted(now[column] - before[column])
    ]  # fmt: skip


def without_gone(schema: pa.Schema, now: Fields, kept: Fields) -> pa.Schema:
    """Return a schema without the fields of `now` that are not in `kept`."""
    return pa.schema([f for f in schema if f.name in kept or f.name not in now])


def names_in(leaves: Sequence[Leaf], fields: Fields) -> tuple[str, ...]:
    """Return the columns that belong to fields."""
    return tuple(leaf.name for leaf in leaves if leaf.field in fields)
