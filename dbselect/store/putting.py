"""Records that were computed elsewhere, put into a store."""

from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa

from dbselect.backends.shelf import Shelf
from dbselect.errors import ArgumentError, ColumnError, shown
from dbselect.record.foreign import in_memory, is_frame
from dbselect.record.gram import Gram, is_record
from dbselect.store.fields import PartFields, differences
from dbselect.store.merging import fields_of_gram, of_columns
from dbselect.store.parts import labelled
from dbselect.store.reading import GRAM, PUT, Reading, reading_of
from dbselect.store.refresh import Refreshed, fields_in, of_types, write


def put(shelf: Shelf, records: Any, part: str, version: str | int | None) -> Refreshed:
    """Put records into a store, as `GramStore.put`."""
    before = shelf.read()
    known, kept = before.fingerprints, reading_of(before)
    fingerprint = PUT if version is None else f"{PUT}{version}"
    others = len(known) - (part in known)
    if version is not None and known.get(part) == fingerprint:
        return Refreshed([], [], [], others + 1)
    frame = _frame(records, part, before.frame, kept)
    reading = kept or Reading(tuple(name for name in frame.columns if name != GRAM))
    if {*reading.by} != {*frame.columns} - {GRAM}:
        raise ArgumentError(
            f"records has the keys {frame.drop(GRAM).columns}; those of the store are "
            f"{list(reading.by)}"
        )
    fields = PartFields(reading.new_columns, fields_in(before))
    grams = [_allowed(Gram.from_struct(each), fields) for each in frame[GRAM].to_arrow()]
    column = pl.Series(GRAM, [gram.to_struct() for gram in grams], frame.schema[GRAM])
    now = {name: kind for gram in grams for name, kind in fields_of_gram(gram).items()}
    new = labelled(frame.with_columns(column), part, fingerprint, reading, now)
    write(shelf, before, [part] if part in known else [], of_types([new], before, reading), reading)
    changes = fields.changes(now)
    if part in known:
        return Refreshed([], [part], [], others, schema=changes)
    return Refreshed([part], [], [], others, schema=changes)


def _frame(
    records: Any, part: str, state: pl.DataFrame | None, kept: Reading | None
) -> pl.DataFrame:
    """Return keys and ``gram`` of what a caller gives."""
    if isinstance(records, Gram | Mapping | pa.Scalar):
        gram = records if isinstance(records, Gram) else Gram.from_struct(records)
        by = ("key",) if kept is None else kept.by
        if len(by) > 1:
            raise ArgumentError(f"records is one Gram; a table with the keys {list(by)} is needed")
        keys = pl.DataFrame({by[0]: [part]}) if state is None else state.select(by)
        type_ = keys.to_arrow(compat_level=pl.CompatLevel.oldest()).schema.types[0]
        try:
            key = pl.Series(by[0], pa.array([part]).cast(type_))
        except pa.ArrowException:
            raise ArgumentError(
                f"part is {part!r}; of one Gram it is its key '{by[0]}', of type {type_}"
            ) from None
        return pl.DataFrame([key]).with_columns(pl.DataFrame({GRAM: gram.to_arrow()})[GRAM])
    if not is_frame(records):
        raise ArgumentError(f"records is {shown(records)}; it must be a table, a Gram or a record")
    frame = in_memory(records)
    grams = [field.name for field in frame.clear().to_arrow().schema if is_record(field.type)]
    if len(grams) != 1 or frame[grams[0]].null_count() or not frame.height:
        raise ArgumentError(
            f"records has the columns {frame.columns}; it needs the keys and one column of Gram "
            "records, of which none is NULL"
        )
    return frame.rename({grams[0]: GRAM})


def _allowed(gram: Gram, fields: PartFields) -> Gram:
    """Return a Gram with the columns that a store takes."""
    now = fields_of_gram(gram)
    if not fields.every or fields.policy in ("version", "null"):
        return gram
    changes = differences(fields.every, now)
    if changes and fields.policy == "error":
        raise ColumnError(f"the records have other columns: {'; '.join(changes)}; "
                          "new_columns is 'error'")  # fmt: skip
    kept = [name for name, kind in now.items() if fields.every.get(name) == kind]
    return gram if len(kept) == len(now) else of_columns(gram, kept)
