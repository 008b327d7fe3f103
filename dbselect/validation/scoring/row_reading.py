"""What sums over the rows of a table read of it: predictors, target, weights and keys."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from dbselect.errors import ColumnError
from dbselect.record.columns import leaf_of, leaves
from dbselect.record.formulas import Path
from dbselect.record.inputs import inputs_of, single_fields
from dbselect.results.prediction.side_by_side import LinearPredictors
from dbselect.sources.open import open_table
from dbselect.sources.read import with_digits_of
from dbselect.sources.request import check_field
from dbselect.sources.target import check_numeric


@dataclass(frozen=True)
class RowReading:
    """Where a table has what the sums are made of; plain data."""

    predictors: LinearPredictors
    # family, classes, levels: of the models
    family: str
    classes: tuple[Any, ...]
    levels: tuple[Any, ...]
    target: Path
    weight: Path | None
    key: Path | None  # of a query, or of a cluster
    columns: Mapping[str, Path]  # those that are read, and the target: name -> path
    needed: tuple[str, ...]  # those of them whose missing values leave rows out

    @property
    def fields(self) -> list[str]:
        """The fields of the table that are read."""
        paths = [*self.columns.values(), self.target, self.weight, self.key]
        return list(dict.fromkeys(str(path[0]) for path in paths if path is not None))


def row_reading_of(
    found: Any, predictors: LinearPredictors, data: Any, weight: str | None, key: str | None,
    what: str,
) -> tuple[RowReading, Any]:  # fmt: skip
    """Return what is read for the predictors of a result, and the table; `what` the key is."""
    inputs = inputs_of(list(predictors.each[0].coefficients), predictors.terms)
    table = open_table(
        data, [found.target, *dict.fromkeys(one.source for one in single_fields(*inputs))]
    )
    # Refuses a table that lacks a column, or has one of another type, before it is read.
    predictors.check(pl.DataFrame(table.schema.empty_table()))
    known = {leaf.name: leaf for leaf in leaves(table.schema)}
    target = leaf_of(found.target, known, "target")
    classes, levels = getattr(found, "classes", ()), getattr(found, "levels", ())
    if not (classes or levels):
        check_numeric(table, [found.target])
    weights = None if weight is None else leaf_of(weight, known, "weight")
    if weights is not None and not weights.is_numeric:
        raise ColumnError(f"weight '{weight}' has type {weights.type}; it must be numeric")
    if key is not None:
        check_field(key, what, table.schema)
    read = single_fields(*(each for one in inputs for each in one.on(table.schema.names)))
    needed = [one.source for one in read if one.missing is None]
    reading = RowReading(
        predictors=predictors,
        family=getattr(found, "family", "gaussian"),
        classes=classes,
        levels=levels,
        target=target.path,
        weight=None if weights is None else weights.path,
        key=None if key is None else (key,),
        columns={**{one.source: one.path for one in read}, found.target: target.path},
        needed=tuple(dict.fromkeys([*needed, found.target])),
    )
    return reading, with_digits_of(key, table)
