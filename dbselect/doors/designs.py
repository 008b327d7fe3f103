"""Designs from a column of rows, for DuckDB and Polars alike."""

from typing import Any

import pyarrow as pa

from dbselect.errors import ColumnError
from dbselect.methods.tables.design import chosen
from dbselect.record.columns import leaves
from dbselect.sources.request import request_of
from dbselect.sources.rows import matrix


def chosen_of(rows: pa.StructArray, k: int, **options: Any) -> list[int]:
    """Return the positions of the rows chosen, in order; fewer than k if there are fewer.

    Parameters
    ----------
    rows : structs of numbers; a row with a NULL or NaN is no candidate
    k, options : as in `dbselect.methods.tables.design.chosen`
    """
    if not pa.types.is_struct(rows.type):
        raise ColumnError(f"row must be a STRUCT of numbers, not {rows.type}")
    schema = pa.schema(list(rows.type))
    request = request_of(schema, [leaf.name for leaf in leaves(schema)])
    for name in request.left_out:
        type_ = next(leaf.type for leaf in leaves(schema) if leaf.name == name)
        raise ColumnError(f"column '{name}' has type {type_}; columns must be numeric")
    return chosen(matrix(rows, request.columns), request.names, k, **options)
