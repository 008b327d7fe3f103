"""The rows of a table read once, batch by batch, each for its sums: predictors, target and keys.

All is plain data, so that an engine sums rows in its own processes (`sources.partial`).
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from dbselect._arrow import empty_table
from dbselect.errors import ColumnError, DataError, SourceError
from dbselect.glm.families import FamilyFormulas
from dbselect.glm.named import family_of
from dbselect.record.columns import leaf_of, leaves
from dbselect.record.formulas import Path, translate
from dbselect.record.gram import Matrix, Vector
from dbselect.record.inputs import inputs_of, single_fields
from dbselect.results.prediction.contributions import LinearPredictors
from dbselect.sources.open import open_table
from dbselect.sources.partial.partial_aggregates import Summing
from dbselect.sources.passes import algebra_of, gaps_of
from dbselect.sources.read import with_digits_of
from dbselect.sources.request import check_field
from dbselect.sources.rows import part_of, values
from dbselect.sources.target import check_numeric

#: Predictions at a time, and the rows that are looked at together at least: what is made of each
#: stays in the cache.
PREDICTIONS_AT_ONCE, LEAST_ROWS = 1 << 17, 1 << 9


@dataclass(eq=False, kw_only=True)
class Sums:
    """Sums over some rows."""

    # rows, skipped, lost: that are used, and left out; of these, those that lack a key only
    rows: int = 0
    skipped: int = 0
    lost: int = 0
    weight: float = 0.0  # of the rows used
    # rows, as None, and of each column those in which it is missing
    missing: Counter[str | None] = field(default_factory=Counter)

    def add(self, other: Any) -> None:
        """Add the sums over other rows, which are used up."""
        for one in fields(self):
            own = getattr(self, one.name)
            own += getattr(other, one.name)
            setattr(self, one.name, own)


@dataclass(frozen=True, eq=False)
class UsedRows:
    """Some n rows that are used."""

    found: Matrix  # what is predicted, shape (n, P)
    y: Matrix  # the responses, shape (R, n)
    weight: Vector  # shape (n,)
    keys: pl.DataFrame  # a column for each key

    def parts(self) -> Iterator["UsedRows"]:
        """Yield them some at a time."""
        n, width = self.found.shape
        step = max(LEAST_ROWS, PREDICTIONS_AT_ONCE // width)
        for part in (slice(at, at + step) for at in range(0, n, step)):
            yield UsedRows(self.found[part], self.y[:, part], self.weight[part], self.keys[part])


@dataclass(frozen=True)
class RowReading(Summing):
    """Where a table has what the sums are made of; plain data."""

    predictors: LinearPredictors
    # family, classes, levels: of the models
    family: str
    classes: tuple[Any, ...]
    levels: tuple[Any, ...]
    target: Path
    weight: Path | None
    keys: tuple[Path, ...]  # of a query, or of clusters
    columns: Mapping[str, Path]  # those that are read, and the target: name -> path
    needed: tuple[str, ...]  # those of them whose missing values leave rows out

    @property
    def told(self) -> FamilyFormulas:
        """The family of the models."""
        return family_of(self.family, self.classes or self.levels)

    @property
    def fields(self) -> list[str]:
        """The fields of the table that are read."""
        paths = [*self.columns.values(), self.target, self.weight, *self.keys]
        return list(dict.fromkeys(str(path[0]) for path in paths if path is not None))

    @abstractmethod
    def sum_up(self, sums: Any, rows: UsedRows) -> None:
        """Set the sums over rows, of which there are some."""

    def predicted(self, batch: pl.DataFrame) -> Matrix:
        """Return what is predicted of all rows of a batch, NaN where a value is missing."""
        return self.predictors.predict(batch)

    def of(self, batch: Any) -> Iterator[Any]:
        """Sum some rows; DataError for unusable values, SourceError for predictions not finite."""
        return (self._sums_of(part) for part in pa.table(batch).to_batches() if part.num_rows)

    def added(self, sums: Any, more: Any) -> Any:
        """Return the sums over both."""
        sums.add(more)
        return sums

    def _sums_of(self, batch: pa.RecordBatch) -> Any:
        """Return the sums over a batch."""
        rows = batch.to_struct_array()
        self._refuse_infinite(rows)
        algebra = algebra_of(batch)
        y = np.array([translate(one, algebra) for one in self.told.responses(self.target)])
        found = self.predicted(pl.DataFrame(batch))
        weight = np.ones(len(found)) if self.weight is None else values(rows, self.weight)
        there = ~(np.isnan(found).any(axis=1) | np.isnan(y).any(axis=0)) & (weight > 0)
        keys = pl.DataFrame({str(n): _key_of(rows, path) for n, path in enumerate(self.keys)})
        has_keys = ~np.any([key.is_null().to_numpy() for key in keys], axis=0)
        sums = self.none()
        sums.lost = int((there & ~has_keys).sum())
        there = there & has_keys
        sums.skipped = int((~there).sum())
        sums.missing = gaps_of({name: self.columns[name] for name in self.needed}, batch)
        found = found[there]
        if not np.isfinite(found).all():
            raise SourceError(
                "the models predict no finite number for some of the usable rows; values must be "
                "of the size that the models were found on"
            )
        keys = keys.filter(pl.Series(there)) if self.keys else keys
        for part in UsedRows(found, y[:, there], weight[there], keys).parts():
            own = self.none()
            own.rows, own.weight = len(part.found), float(part.weight.sum())
            self.sum_up(own, part)
            sums.add(own)
        return sums

    def _refuse_infinite(self, rows: pa.StructArray) -> None:
        """Refuse infinite values, which 0 times makes a missing one, and negative weights."""
        for name, path in self.columns.items():
            found = part_of(rows, path)
            if pa.types.is_floating(found.type) and pc.any(pc.is_inf(found)).as_py():
                raise DataError(f"column '{name}' has an infinite value; values must be finite")
        if self.weight is not None:
            weights = values(rows, self.weight)
            bad = weights[np.isinf(weights) | (weights < 0)]
            if bad.size:
                raise DataError(f"a weight is {bad[0]:g}; weights must be finite and >= 0")


def fields_read(
    found: Any, predictors: LinearPredictors, data: Any, weight: str | None, keys: Mapping[str, str]
) -> tuple[dict[str, Any], Any]:
    """Return the fields of the `RowReading` of a result, and the table; keys are by argument."""
    inputs = inputs_of(list(predictors.each[0].coefficients), predictors.terms)
    table = open_table(
        data, [found.target, *dict.fromkeys(one.source for one in single_fields(*inputs))]
    )
    # Refuses a table that lacks a column, or has one of another type, before it is read.
    predictors.check(pl.DataFrame(empty_table(table.schema)))
    known = {leaf.name: leaf for leaf in leaves(table.schema)}
    target = leaf_of(found.target, known, "target")
    classes, levels = getattr(found, "classes", ()), getattr(found, "levels", ())
    if not (classes or levels):
        check_numeric(table, [found.target])
    weights = None if weight is None else leaf_of(weight, known, "weight")
    if weights is not None and not weights.is_numeric:
        raise ColumnError(f"weight '{weight}' has type {weights.type}; it must be numeric")
    read = single_fields(*(each for one in inputs for each in one.on(table.schema.names)))
    needed = [one.source for one in read if one.missing is None]
    for key, what in keys.items():
        check_field(key, what, table.schema)
        table = with_digits_of(key, table)
    reading = {
        "predictors": predictors,
        "family": getattr(found, "family", "gaussian"),
        "classes": classes,
        "levels": levels,
        "target": target.path,
        "weight": None if weights is None else weights.path,
        "keys": tuple((key,) for key in keys),
        "columns": {**{one.source: one.path for one in read}, found.target: target.path},
        "needed": tuple(dict.fromkeys([*needed, found.target])),
    }
    return reading, table


def _key_of(rows: pa.StructArray, path: Path) -> pl.Series:
    """Return the keys of rows, texts as texts, as batches number them differently."""
    key = pl.Series(part_of(rows, path))
    if key.dtype in (pl.Categorical, pl.Enum):
        return key.cast(pl.String)
    return key.fill_nan(None) if key.dtype.is_float() else key
