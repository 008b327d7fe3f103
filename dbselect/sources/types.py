"""Types of the sources that can be read as a table, or used in place of one."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.record.foreign import Stream
from dbselect.record.gram import Gram
from dbselect.sources.request import Table

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation


class Dataset(Protocol):
    """A dataset of pyarrow."""

    def scanner(self, *args: Any, **options: Any) -> Any:
        """Return a scanner of the rows."""


class Wrapped(Protocol):
    """A frame of narwhals, lazy or not."""

    def to_native(self) -> Any:
        """Return the frame that it wraps."""


class ArrowScalar(Protocol):
    """One value in Arrow, here a Gram record."""

    def as_py(self) -> Any:
        """Return the value in Python."""


#: A table: rows that an engine reads; `Table` is a table already open.
TableSource: TypeAlias = Union[
    str, Path, pl.DataFrame, pl.LazyFrame, Stream, Dataset, Wrapped, Table, "DuckDBPyRelation",
    npt.NDArray[np.generic],
]  # fmt: skip
#: A table, or the Gram of one, or its record as a mapping or an Arrow scalar.
Source: TypeAlias = TableSource | Gram | Mapping[str, Any] | ArrowScalar
