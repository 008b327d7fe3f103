"""Rows of a table read batch by batch for sums: which columns, and what is kept."""

import pickle
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa

from dbselect.errors import ColumnError
from dbselect.record.columns import leaf_of, leaves
from dbselect.record.formulas import Path
from dbselect.record.inputs import inputs_of, single_fields
from dbselect.results.prediction.contributions import LinearPredictors
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


@dataclass(frozen=True)
class SummedRows(ABC):
    """Sums over the rows so far, as `sources.partial.partial_aggregates` asks for them."""

    #: Rows that are looked at together; None for a batch as it comes.
    at_once: ClassVar[int | None] = None

    sums: Any = field(kw_only=True)  # over no rows at first; others are added by their ``add``
    _lock: Any = field(default_factory=Lock, kw_only=True)

    def add(self, batch: Any) -> None:
        """Add some rows; may be called from several threads at once.

        DataError for an infinite value, or a negative weight; SourceError if a prediction is not
        finite.
        """
        for part in pa.table(batch).to_batches(max_chunksize=self.at_once):
            if part.num_rows:
                found = self._sums_of(part)
                with self._lock:
                    self.sums.add(found)

    def load(self, part: bytes) -> None:
        """Add what another process has summed."""
        self.sums.add(pickle.loads(part))

    def state(self) -> bytes:
        """Return the sums."""
        return pickle.dumps(self.sums)

    @abstractmethod
    def _sums_of(self, batch: pa.RecordBatch) -> Any:
        """Return the sums over some rows."""
