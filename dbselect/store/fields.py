"""Which fields of a table each part is read with, where the table's columns change."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from dbselect._arrow import empty_table
from dbselect._native import folds
from dbselect.errors import ColumnError
from dbselect.record.columns import Leaf
from dbselect.record.terms import Terms
from dbselect.sources.request import LIMIT, check_field, columns_of, selected
from dbselect.store.reading import NewColumns, Reading, untyped

#: Field of a table -> what its columns are: ``"number"``, ``"text"``, ``"days"`` or ``"seconds"``.
Fields = Mapping[str, str]


def leaves_read(schema: pa.Schema, reading: Reading) -> list[Leaf]:
    """Return the columns on which records depend."""
    for name in reading.by:
        check_field(name, "by", schema)
        if pa.types.is_null(schema.field(name).type):
            raise untyped(name)
    every = columns_of(schema)
    columns = None if reading.columns is None else list(reading.columns)
    wanted = {leaf.name: leaf for leaf in selected(every, columns, {reading.weight, *reading.by})}
    terms = [] if reading.terms is None else list(reading.terms.columns)
    weight = [] if reading.weight is None else [reading.weight]
    wanted |= {name: every[name] for name in (*terms, *weight) if name in every}
    folds(empty_table(schema), list(wanted), LIMIT - 1, 0)
    return list(wanted.values())


def kinds_of_fields(leaves: Iterable[Leaf]) -> Fields:
    """Return the fields of some columns; that of nested ones names each."""
    found: dict[str, list[str]] = {}
    for leaf in leaves:
        kind = "text" if leaf.is_text else leaf.unit or "number"
        found.setdefault(leaf.field, []).append(
            kind if leaf.name == leaf.field else f"{leaf.name} {kind}"
        )
    return {name: ", ".join(kinds) for name, kinds in found.items()}


@dataclass(frozen=True)
class PartFields:
    """The fields that parts were read with, and the policy for those of others."""

    policy: NewColumns  # ``new_columns`` of `GramStore.refresh`
    known: Mapping[str, Fields]  # part -> fields that it was read with
    every: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        every = {name: kind for fields in self.known.values() for name, kind in fields.items()}
        object.__setattr__(self, "every", every)

    def compared(self, part: str, now: Fields) -> Fields:
        """Return the fields by which a part is compared with what it was: those still there."""
        own = self.known.get(part, {})
        shared = {name: kind for name, kind in own.items() if now.get(name) == kind}
        if not shared or (self.policy == "error" and self.lacks(part, now)):
            return self.read(part, now)
        return shared

    def lacks(self, part: str, now: Fields) -> bool:
        """Whether fields that a part was read with are gone, or of another type."""
        return not self.known.get(part, {}).items() <= now.items()

    def read(self, part: str, now: Fields) -> Fields:
        """Return the fields to read a part with: its own where known, as its rows lack others."""
        changes = self.changes(now)
        if changes and self.policy == "error":
            raise ColumnError(
                f"the columns of {part} have changed: {'; '.join(changes)}; new_columns is 'error'"
            )
        own = self.known.get(part)
        if own is not None and self.policy != "null":
            return {name: kind for name, kind in now.items() if name in own}
        if self.every and self.policy == "ignore":
            return {name: kind for name, kind in now.items() if self.every.get(name) == kind}
        return now

    def changes(self, now: Fields) -> list[str]:
        """Return in words how fields differ from those before; none of the first part."""
        if not self.every:
            return []
        return differences(self.every, now)


def differences(before: Fields, now: Fields) -> list[str]:
    """Return in words how the fields of a table differ from what they were."""
    told = [f"new column '{name}'" for name in now if name not in before]
    told += [f"column '{name}' is gone" for name in before if name not in now]
    return told + [
        f"column '{name}' is {now[name]}, before {kind}"
        for name, kind in before.items() if now.get(name, kind) != kind
    ]  # fmt: skip


def levels_of(terms: Iterable[Terms]) -> dict[str, set[str]]:
    """Return the levels of each category."""
    found: dict[str, set[str]] = {}
    for category in (category for each in terms for category in each.categories):
        found.setdefault(category.column, set()).update(category.texts)
    return found


def new_levels(before: Mapping[str, set[str]], now: Mapping[str, set[str]]) -> list[str]:
    """Return in words which levels of categories there were not before."""
    return [
        f"new level '{level}' of '{column}'"
        for column in now if column in before for level in sorted(now[column] - before[column])
    ]  # fmt: skip


def without_gone(schema: pa.Schema, now: Fields, kept: Fields) -> pa.Schema:
    """Return a schema without those fields of `now` that are not kept."""
    return pa.schema([each for each in schema if each.name in kept or each.name not in now])


def names_in(leaves: Sequence[Leaf], fields: Fields) -> tuple[str, ...]:
    """Return the columns that lie in some fields."""
    return tuple(leaf.name for leaf in leaves if leaf.field in fields)
