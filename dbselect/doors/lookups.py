"""Tables looked up by key, where sums and rows are values of an engine."""

from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa

from dbselect.errors import ArgumentError
from dbselect.record.gram import RECORD_TYPE, Gram
from dbselect.sources.joins.key_sums import KeySums


def _plain(type_: pa.DataType) -> pa.DataType:
    """Return a type with the lists and texts of DuckDB."""
    if pa.types.is_large_list(type_):
        return pa.list_(_plain(type_.value_type))
    return pa.string() if pa.types.is_large_string(type_) else type_


#: The record as DuckDB has it.
PLAIN_RECORD = pa.struct([(field.name, _plain(field.type)) for field in RECORD_TYPE])


def with_table(
    record: pa.StructScalar, sums: pa.ListScalar, rows: pa.ListScalar, given: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return a record with the columns of a table; None if any of the three is NULL.

    `sums` holds STRUCT(key, gram) for each key, where the key is a STRUCT of its fields, `rows` a
    STRUCT for each row of the table, and `given` the options of `KeySums.extend`.
    """
    if not (record.is_valid and sums.is_valid and rows.is_valid):
        return None
    keyed = sums.type.value_type
    if not (
        pa.types.is_struct(keyed)
        and keyed.names == ["key", "gram"]
        and pa.types.is_struct(keyed.field("key").type)
    ):
        raise ArgumentError(f"sums is a list of {keyed}; it must be key_sums({{'k': k}}, gram)")
    if not pa.types.is_struct(rows.type.value_type):
        raise ArgumentError(
            f"table is a list of {rows.type.value_type}; it must list rows: (SELECT list(t) FROM t)"
        )
    parts = sums.values.flatten()
    keys = pl.DataFrame(pa.Table.from_struct_array(parts[0]))
    table = keys.with_columns(pl.Series("gram", pl.from_arrow(parts[1])))
    found = pa.Table.from_struct_array(rows.values)
    gram = Gram.from_struct(record)
    return gram.extend(KeySums.from_records(table), found, **given).to_struct()
