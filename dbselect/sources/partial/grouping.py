"""The keys of the groups of a table that arrives batch by batch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from dbselect._arrow import empty_table
from dbselect._native import folds
from dbselect.errors import ColumnError, DataError, FoldsWarning, warn_caller
from dbselect.record.categories import kind_of
from dbselect.record.columns import Leaf
from dbselect.record.foreign import wide_decimals
from dbselect.sources.engines.polars import FAILURES
from dbselect.sources.request import FOLD, Folding, Request

#: Name of the column of folds in a batch; no column of a table may have it.
FOLDED = "__dbselect_fold"


def folds_of(batch: Any, folding: Folding) -> pa.Array:
    """Return the fold of every row."""
    named = list(folding.columns) if folding.key is None else []
    table = batch if folding.key is None else batch.select([folding.key])
    if folding.edges and folding.key is not None:
        places = np.searchsorted(
            folding.edges, moments_of(pl.DataFrame(table), folding.key), "right"
        )
        return pa.array(places, pa.int64())
    if folding.values and folding.key is not None:
        rows = in_arrow(table)
        values = pa.array(folding.values)
        numbers = pc.index_in(rows.column(0).cast(values.type), value_set=values)
        return (
            numbers.combine_chunks().cast(pa.int64()) if rows.num_rows else pa.array([], pa.int64())
        )
    try:
        return folds(table, named, folding.k, folding.seed)
    except DataError as error:
        raise ColumnError(str(error)) from None


def in_arrow(batch: Any) -> pa.Table:
    """Return a batch as Arrow, without string views, for which Arrow has no kernels."""
    if isinstance(batch, pl.DataFrame):
        return batch.to_arrow(compat_level=pl.CompatLevel.oldest())
    return batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])


def moments_of(rows: pl.DataFrame, time: str) -> npt.NDArray[np.float64]:
    """Return a column of numbers or dates as numbers in the same order; NaN for NULL."""
    return rows[time].to_physical().cast(pl.Float64).to_numpy()


def warn_of_folds(present: Sequence[int], folding: Folding) -> None:
    """Warn if some group has rows in fewer folds than requested."""
    few = [count for count in present if 0 < count < folding.k]
    if not few:
        return
    where = "" if len(present) == 1 else f" in {len(few)} of {len(present)} groups"
    rows = "equal rows" if folding.key is None else f"rows of equal '{folding.key}'"
    warn_caller(
        f"only {min(few)} of {folding.k} folds have rows{where}: {rows} stay together, and the "
        "hash of so few different ones leaves folds empty; ask for fewer folds",
        FoldsWarning,
    )


class Grouping:
    """The keys of groups, numbered by the native library; `types` includes the key of folds."""

    def __init__(self, request: Request, schema: pa.Schema) -> None:
        self._request = request
        self.fields = request.by if request.folding is None else [*request.by, FOLDED]
        no_rows = self._keys(self.prepared(self._no_rows(schema)))
        #: (Set of sums, number of groups it had before) -> the keys of its new groups
        self._new_keys = {(-1, 0): no_rows}
        self.types = [*map(str, no_rows.dtypes)]
        if request.folding is not None and request.folding.key is not None:
            self.types.append(counted_as(schema.field(request.folding.key).type, False))

    def prepared(self, batch: Any) -> Any:
        """Return the batch, with a column of folds if rows are grouped by fold."""
        folding = self._request.folding
        if folding is None:
            return batch
        numbers = folds_of(batch, folding)
        if isinstance(batch, pl.DataFrame):
            return batch.with_columns(pl.Series(FOLDED, numbers))
        return batch.append_column(FOLDED, numbers)

    def meet(self, new_rows: npt.NDArray[Any], batch: Any) -> None:
        """Keep the keys of the rows with new groups, as `Reader.add` returns them."""
        if len(new_rows) > 2:
            self._new_keys[int(new_rows[0]), int(new_rows[1])] = self._keys(batch)[new_rows[2:]]

    def settle(self, origins: npt.NDArray[Any]) -> pl.DataFrame:
        """Return the keys of the groups in the order that `Reader.settle` returns."""
        keys = pl.concat([self._new_keys[key] for key in sorted(self._new_keys)])[origins]
        self._new_keys = {(-1, 0): keys.clear(), (0, 0): keys}
        return keys

    def _keys(self, batch: Any) -> pl.DataFrame:
        return self._frame(batch.select(self.fields)).rename({FOLDED: FOLD}, strict=False)

    def _no_rows(self, schema: pa.Schema) -> pa.Table:
        """Return an empty table of the fields read; other fields may have unsupported types."""
        read = pa.schema([schema.field(name) for name in self._request.fields])
        try:
            return empty_table(read)
        except pa.ArrowException as error:
            raise self._no_keys(read, error) from None

    def _no_keys(self, schema: pa.Schema, error: BaseException) -> ColumnError:
        types = {name: str(schema.field(name).type) for name in self._request.by}
        return ColumnError(
            f"by names columns of types {types}, of which there are no keys ({error}); cast them "
            "to text or to a number"
        )

    def _frame(self, keys: Any) -> pl.DataFrame:
        if isinstance(keys, pl.DataFrame):
            return keys
        try:
            return pl.DataFrame(wide_decimals(keys))
        except (pa.ArrowException, *FAILURES) as error:
            raise self._no_keys(keys.schema, error) from None


def counted_as(type_: pa.DataType, is_key: bool) -> str:
    """Return the kind of a type, by which values compare: numbers of all types have one kind."""
    leaf = Leaf("", ("",), type_)
    if leaf.is_numeric and leaf.unit is None and not is_key:
        return "number"
    is_coded = is_key and pa.types.is_dictionary(type_)
    return "text" if kind_of(type_) == "text" and not is_coded else str(type_)
