"""Numbers for the groups of a table that arrives batch by batch."""

from collections.abc import Sequence
from threading import Lock
from typing import Any

import polars as pl
import pyarrow as pa

from dbselect._native import folds
from dbselect.errors import ColumnError, DataError, FoldsWarning, warn_caller
from dbselect.record.foreign import wide_decimals
from dbselect.sources.engines.polars import FAILURES
from dbselect.sources.request import FOLD, Folding, Request

#: Name of the column of group numbers.
GROUP = "__dbselect_group"


def folds_of(batch: Any, folding: Folding, columns: list[str]) -> pa.Array:
    """Return the fold of every row.

    Parameters
    ----------
    columns : flattened columns that decide it where there is no key

    Raises
    ------
    ColumnError : the key has a type that decides no fold
    """
    named = columns if folding.key is None else []
    table = batch if folding.key is None else batch.select([folding.key])
    try:
        return folds(table, named, folding.k, folding.seed)
    except DataError as error:
        raise ColumnError(str(error)) from None


def warn_of_folds(present: Sequence[int], folding: Folding) -> None:
    """Warn if fewer folds have rows than requested.

    Parameters
    ----------
    present : of each group of the table, how many folds have rows

    Warns
    -----
    FoldsWarning : a fold has no row
    """
    few = [count for count in present if 0 < count < folding.k]
    if not few:
        return
    where = "" if len(present) == 1 else f" in {len(few)} of {len(present)} groups"
    what = "equal rows" if folding.key is None else f"rows of equal '{folding.key}'"
    warn_caller(
        f"only {min(few)} of {folding.k} folds have rows{where}: {what} stay together, and the "
        "hash of so few different ones leaves folds empty; ask for fewer folds",
        FoldsWarning,
    )


class Grouping:
    """Gives equal keys the same number, whatever batch and thread they come on.

    Parameters
    ----------
    request : with the fields, and the folds, that make groups
    schema : the table's

    Attributes
    ----------
    types : of the keys, and of the field that decides folds
    """

    def __init__(self, request: Request, schema: pa.Schema) -> None:
        self._request = request
        self._by = request.keys
        self._known = self._keys(self._no_rows(schema)).with_row_index(GROUP)
        self.types = [*map(str, self.keys.dtypes), self._kind_of_key(schema)]
        self._lock = Lock()

    def number(self, batch: Any) -> Any:
        """Return the batch with a column of group numbers."""
        numbers = self.numbers(self._keys(batch))
        if isinstance(batch, pl.DataFrame):
            return batch.with_columns(numbers)
        # Polars gets only the keys of an Arrow batch: it cannot read every slice.
        return batch.append_column(GROUP, numbers.to_arrow())

    def numbers(self, keys: pl.DataFrame) -> pl.Series:
        """Return the number of each key; a new one gets the next."""
        found = keys.unique()
        with self._lock:
            new = found.join(self._known, on=self._by, how="anti", nulls_equal=True)
            numbered = new.with_row_index(GROUP, offset=self._known.height)
            known = self._known = pl.concat([self._known, numbered])
        return keys.join(known, on=self._by, how="left", nulls_equal=True, maintain_order="left")[
            GROUP
        ]

    def _kind_of_key(self, schema: pa.Schema) -> str:
        """Return what values of the key of the folds are; numbers of all types are alike."""
        if self._request.folding is None or self._request.folding.key is None:
            return ""
        key = schema.field(self._request.folding.key)
        dtype = self._frame(pa.schema([key]).empty_table()).dtypes[0]
        if dtype in (pl.Categorical, pl.Enum):
            return str(pl.String())
        return "number" if dtype.is_numeric() else str(dtype)

    @property
    def keys(self) -> pl.DataFrame:
        """The keys so far, in the order of their numbers."""
        return self._known.drop(GROUP)

    def _keys(self, batch: Any) -> pl.DataFrame:
        keys = self._frame(batch.select(self._request.by))
        folding = self._request.folding
        if folding is None:
            return keys
        numbers = pl.Series(FOLD, folds_of(batch, folding, self._request.taken))
        return pl.DataFrame([*keys, numbers])

    def _no_rows(self, schema: pa.Schema) -> pa.Table:
        """Return an empty table of the fields that are read; others may be of any type."""
        read = pa.schema([schema.field(name) for name in self._request.fields])
        try:
            return read.empty_table()
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

    def table(self, records: pa.StructArray) -> pl.DataFrame:
        """Return the keys with their records, in the order of the keys."""
        grams = pl.DataFrame(pa.table({"gram": records}))["gram"]
        return self.keys.with_columns(grams).sort(self._by, nulls_last=True)
