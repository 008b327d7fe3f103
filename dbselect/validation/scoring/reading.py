"""Sum over the rows of a table in one pass: predictions, target, weight and keys.

All objects are plain data, so that an engine can sum in its own processes (`sources.partial`).
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

from dbselect._arrow import empty_table, part_of
from dbselect.errors import ColumnError, DataError, SourceError
from dbselect.glm.families import FamilyFormulas
from dbselect.glm.links import family_of
from dbselect.record.columns import leaf_of, leaves
from dbselect.record.formulas import Path, translate
from dbselect.record.gram import Matrix, Vector
from dbselect.record.inputs import inputs_of, single_fields
from dbselect.results.prediction.contributions import LinearPredictors
from dbselect.sources.open import open_table
from dbselect.sources.partial.partial_aggregates import Summing
from dbselect.sources.passes import algebra_of, gaps_of
from dbselect.sources.read import with_digits_of
from dbselect.sources.request import check_field, check_numeric
from dbselect.sources.rows import values

#: Predictions processed at once, and the least number of rows, so that temporary arrays stay in
#: the cache.
PREDICTIONS_AT_ONCE, LEAST_ROWS = 1 << 17, 1 << 9


@dataclass(eq=False, kw_only=True)
class Sums:
    """Sums over rows."""

    # rows, skipped: used and skipped; lost: skipped only because a key is missing
    rows: int = 0
    skipped: int = 0
    lost: int = 0
    weight: float = 0.0  # of the rows used
    # number of rows (key None), and missing values per column
    missing: Counter[str | None] = field(default_factory=Counter)

    def add(self, other: Any) -> None:
        """Add the sums over other rows; `other` is not usable afterwards."""
        for item in fields(self):
            total = getattr(self, item.name)
            total += getattr(other, item.name)
            setattr(self, item.name, total)


@dataclass(frozen=True, eq=False)
class UsedRows:
    """Predictions, responses, weights and keys of n usable rows."""

    predictions: Matrix  # shape (n, P)
    y: Matrix  # the responses, shape (R, n)
    weight: Vector  # shape (n,)
    keys: pl.DataFrame  # a column for each key

    def parts(self) -> Iterator["UsedRows"]:
        """Yield the rows in small parts."""
        step = max(LEAST_ROWS, PREDICTIONS_AT_ONCE // self.predictions.shape[1])
        for part in (slice(at, at + step) for at in range(0, len(self.weight), step)):
            keys = self.keys[part]
            yield UsedRows(self.predictions[part], self.y[:, part], self.weight[part], keys)


@dataclass(frozen=True)
class RowReading(Summing):
    """Paths of the columns to read, and the predictors; plain data."""

    predictors: LinearPredictors
    # family, classes, levels: of the models
    family: str
    classes: tuple[Any, ...]
    levels: tuple[Any, ...]
    target: Path
    weight: Path | None
    keys: tuple[Path, ...]  # of queries or clusters
    columns: Mapping[str, Path]  # columns to read, with the target: name -> path
    needed: tuple[str, ...]  # columns whose missing values skip a row

    @property
    def formulas(self) -> FamilyFormulas:
        """Formulas of the models' family."""
        return family_of(self.family, self.classes or self.levels)

    @property
    def fields(self) -> list[str]:
        """The fields of the table that are read."""
        paths = [*self.columns.values(), self.target, self.weight, *self.keys]
        return list(dict.fromkeys(str(path[0]) for path in paths if path is not None))

    @abstractmethod
    def sum_up(self, sums: Any, rows: UsedRows) -> None:
        """Set the sums over one or more rows."""

    def predicted(self, batch: pl.DataFrame) -> Matrix:
        """Return the predictions of a batch, NaN where a value is missing."""
        return self.predictors.predict(batch)

    def of(self, batch: Any) -> Iterator[Any]:
        """Yield sums of the batches; DataError for unusable values, SourceError for overflow."""
        return (self._sums_of(part) for part in pa.table(batch).to_batches() if part.num_rows)

    def added(self, sums: Any, more: Any) -> Any:
        """Return the sums over both sets of rows."""
        sums.add(more)
        return sums

    def _sums_of(self, batch: pa.RecordBatch) -> Any:
        """Return the sums over a batch."""
        rows = batch.to_struct_array()
        self._refuse_infinite(rows)
        algebra = algebra_of(batch)
        y = np.array([translate(r, algebra) for r in self.formulas.responses(self.target)])
        predictions = self.predicted(pl.DataFrame(batch))
        weight = np.ones(len(predictions)) if self.weight is None else values(rows, self.weight)
        usable = ~(np.isnan(predictions).any(axis=1) | np.isnan(y).any(axis=0)) & (weight > 0)
        keys = pl.DataFrame({str(n): _key_of(rows, path) for n, path in enumerate(self.keys)})
        has_keys = ~np.any([key.is_null().to_numpy() for key in keys], axis=0)
        sums = self.none()
        sums.lost = int((usable & ~has_keys).sum())
        usable = usable & has_keys
        sums.skipped = int((~usable).sum())
        sums.missing = gaps_of({name: self.columns[name] for name in self.needed}, batch)
        predictions = predictions[usable]
        if not np.isfinite(predictions).all():
            raise SourceError(
                "the models predict no finite number for some of the usable rows; values must be "
                "of the size that the models were found on"
            )
        keys = keys.filter(pl.Series(usable)) if self.keys else keys
        for part in UsedRows(predictions, y[:, usable], weight[usable], keys).parts():
            part_sums = self.none()
            part_sums.rows, part_sums.weight = len(part.predictions), float(part.weight.sum())
            self.sum_up(part_sums, part)
            sums.add(part_sums)
        return sums

    def _refuse_infinite(self, rows: pa.StructArray) -> None:
        """Refuse infinite values, as 0 times infinity is NaN, and negative weights."""
        for name, path in self.columns.items():
            column = part_of(rows, path)
            if pa.types.is_floating(column.type) and pc.any(pc.is_inf(column)).as_py():
                raise DataError(f"column '{name}' has an infinite value; values must be finite")
        if self.weight is not None:
            weights = values(rows, self.weight)
            bad = weights[np.isinf(weights) | (weights < 0)]
            if bad.size:
                raise DataError(f"a weight is {bad[0]:g}; weights must be finite and >= 0")


def fields_read(
    model: Any, predictors: LinearPredictors, data: Any, weight: str | None, keys: Mapping[str, str]
) -> tuple[dict[str, Any], Any]:
    """Return the fields of a `RowReading`, and the table; `keys` maps columns to arguments."""
    inputs = inputs_of(list(predictors.each[0].coefficients), predictors.terms)
    table = open_table(
        data, [model.target, *dict.fromkeys(one.source for one in single_fields(*inputs))]
    )
    # Refuse missing columns and wrong types before reading.
    predictors.check(pl.DataFrame(empty_table(table.schema)))
    leaf_by_name = {leaf.name: leaf for leaf in leaves(table.schema)}
    target = leaf_of(model.target, leaf_by_name, "target")
    classes, levels = getattr(model, "classes", ()), getattr(model, "levels", ())
    if not (classes or levels):
        check_numeric(table, [model.target])
    weights = None if weight is None else leaf_of(weight, leaf_by_name, "weight")
    if weights is not None and not weights.is_numeric:
        raise ColumnError(f"weight '{weight}' has type {weights.type}; it must be numeric")
    names = table.schema.names
    read = single_fields(*(found for one in inputs for found in one.on(names)))
    needed = [field.source for field in read if field.missing is None]
    for key, role in keys.items():
        check_field(key, role, table.schema)
        table = with_digits_of(key, table)
    reading = {
        "predictors": predictors,
        "family": getattr(model, "family", "gaussian"),
        "classes": classes,
        "levels": levels,
        "target": target.path,
        "weight": None if weights is None else weights.path,
        "keys": tuple((key,) for key in keys),
        "columns": {**{field.source: field.path for field in read}, model.target: target.path},
        "needed": tuple(dict.fromkeys([*needed, model.target])),
    }
    return reading, table


def _key_of(rows: pa.StructArray, path: Path) -> pl.Series:
    """Return the keys of rows, categories as text: codes differ between batches."""
    key = pl.Series(part_of(rows, path))
    if key.dtype in (pl.Categorical, pl.Enum):
        return key.cast(pl.String)
    return key.fill_nan(None) if key.dtype.is_float() else key
