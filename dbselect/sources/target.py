"""Checks of the target's type, before any row is read."""

from collections.abc import Iterable

import pyarrow as pa

from dbselect.errors import ColumnError
from dbselect.record.categories import kind_of
from dbselect.record.columns import leaves
from dbselect.sources.request import Table


def check_numeric(table: Table, targets: Iterable[str]) -> None:
    """Refuse a target of a linear model that is not numeric."""
    types = {leaf.name: leaf.type for leaf in leaves(table.schema) if not leaf.is_numeric}
    for target in targets:
        if target in types:
            raise ColumnError(refusal(target, types[target], "numeric or boolean", "linear"))


def refusal(target: str, type_: pa.DataType, allowed: str, model: str) -> str:
    """Return the error message for a target of a type that the model does not allow."""
    if kind_of(type_) != "text":
        return f"target '{target}' has type {type_}; a {model} target must be {allowed}"
    return (
        f"target '{target}' is text; a {model} target must be {allowed}: cast it if it holds "
        "numbers, make a column of 0 and 1 of one of its values, or predict all of them with "
        "family 'multinomial'"
    )
