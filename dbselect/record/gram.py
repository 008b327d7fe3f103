"""The Gram record: count, weight, mean and comoment of the columns of a table."""

import numbers
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from dbselect.errors import RecordError
from dbselect.record import files
from dbselect.record.columns import match, position

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

#: Share of a column's variation that rounding may take away too much when rows are
#: removed: stored means are rounded, which costs digits far from zero.
REMOVED_SHARE = 1e-6

FIELDS = ("columns", "rows", "skipped", "weight", "mean", "comoment")

#: The record in Arrow; frozen, as stored data depend on it.
RECORD_TYPE = pa.struct(
    [
        ("columns", pa.large_list(pa.large_string())),
        ("rows", pa.int64()),
        ("skipped", pa.int64()),
        ("weight", pa.float64()),
        ("mean", pa.large_list(pa.float64())),
        ("comoment", pa.large_list(pa.float64())),
    ]
)

#: The record in Polars.
RECORD_DTYPE = pl.Struct(
    {
        "columns": pl.List(pl.String),
        "rows": pl.Int64,
        "skipped": pl.Int64,
        "weight": pl.Float64,
        "mean": pl.List(pl.Float64),
        "comoment": pl.List(pl.Float64),
    }
)


@dataclass(frozen=True, eq=False)
class Gram(files.Stored):
    """Weighted count, mean and comoment of d columns: all that selection needs.

    Parameters
    ----------
    columns : d names
    rows : rows used
    skipped : rows left out: a NULL or NaN in any column or the weight, or weight 0
    weight : sum of the row weights; equals `rows` when no weight is given
    mean : shape (d,), weighted means
    comoment : shape (d, d), symmetric: sum of w (x - mean)(x - mean)'
    missing : column -> rows in which it is NULL or NaN, of all rows read; columns
        without any are not in it. No field of the record: it is lost where the Gram
        is written to a file or handed to an engine

    Raises
    ------
    RecordError : lengths disagree, a value is not finite or a variance negative

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> g = ds.gram(pl.DataFrame({"x": [1, 2, 3], "y": [1, 3, 8]}))
    >>> g.mean.tolist(), g.comoment.tolist()
    ([2.0, 4.0], [[2.0, 7.0], [7.0, 26.0]])
    >>> (g + g).rows
    6
    """

    columns: list[str]
    rows: int
    skipped: int
    weight: float
    mean: Vector
    comoment: Matrix
    missing: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", list(self.columns))
        # Counters add and subtract; a count that is not above zero is none.
        object.__setattr__(self, "missing", dict(+Counter(self.missing)))
        for name in ("mean", "comoment"):
            values = np.array(getattr(self, name), dtype=np.float64)
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        self._check()

    def _check(self) -> None:
        width = len(self.columns)
        for name, shape in (("mean", (width,)), ("comoment", (width, width))):
            values = getattr(self, name)
            if values.shape != shape:
                raise RecordError(
                    f"gram record has '{name}' of shape {values.shape}; "
                    f"{width} columns need {shape}"
                )
            if not np.isfinite(values).all():
                raise RecordError(f"gram record has a value in '{name}' that is not finite")
        for name in ("rows", "skipped", "weight"):
            value = getattr(self, name)
            if not 0 <= value < np.inf:
                raise RecordError(f"gram record has {value} in '{name}'; it must be >= 0")
        if (self.rows > 0) != (self.weight > 0):
            raise RecordError(
                f"gram record has {self.rows} rows of total weight {self.weight}; "
                "both must be 0 or neither"
            )
        if len(set(self.columns)) < width:
            doubled = next(name for name in self.columns if self.columns.count(name) > 1)
            raise RecordError(f"gram record has column '{doubled}' twice")
        negative = np.flatnonzero(np.diagonal(self.comoment) < 0)
        if negative.size:
            raise RecordError(
                f"gram record has a negative diagonal in 'comoment' "
                f"for column '{self.columns[negative[0]]}'"
            )

    def __repr__(self) -> str:
        return f"Gram({len(self.columns)} columns, {self.rows} rows, {self.skipped} skipped)"

    def __add__(self, other: Self) -> "Gram":
        """Merge the statistics of other rows (Chan, Golub, LeVeque 1983, eq. 2.1)."""
        if not isinstance(other, Gram):
            return NotImplemented
        self.check_columns(other)
        weight = self.weight + other.weight
        share = other.weight / weight if weight else 0.0
        distance = other.mean - self.mean
        between = self.weight * share * np.outer(distance, distance)
        return Gram(
            self.columns,
            self.rows + other.rows,
            self.skipped + other.skipped,
            weight,
            self.mean + share * distance,
            self.comoment + other.comoment + between,
            Counter(self.missing) + Counter(other.missing),
        )

    def __radd__(self, other: object) -> "Gram":
        """Let ``sum`` start from 0."""
        return self if other == 0 else NotImplemented

    def __sub__(self, other: Self) -> "Gram":
        """Remove rows that are a part of these: the inverse of ``+``."""
        if not isinstance(other, Gram):
            return NotImplemented
        self.check_columns(other)
        rows, skipped = self.rows - other.rows, self.skipped - other.skipped
        weight = self.weight - other.weight
        if rows < 0 or skipped < 0 or (rows > 0 and weight <= 0):
            raise RecordError(
                f"cannot remove {other.rows} rows of weight {other.weight} from {self.rows} "
                f"of weight {self.weight}; the second record must be a part of the first"
            )
        width = len(self.columns)
        missing = Counter(self.missing) - Counter(other.missing)
        if rows == 0:
            nothing = np.zeros(width), np.zeros((width, width))
            return Gram(self.columns, 0, skipped, 0.0, *nothing, missing)
        share = other.weight / weight
        distance = other.mean - self.mean
        comoment = (
            self.comoment - other.comoment - self.weight * share * np.outer(distance, distance)
        )
        if (np.diagonal(comoment) < -REMOVED_SHARE * np.diagonal(self.comoment)).any():
            raise RecordError(
                "cannot remove rows that vary more than all rows together; "
                "the second record must be a part of the first"
            )
        # Rounding may leave a variance of nothing just below zero.
        np.fill_diagonal(comoment, np.maximum(np.diagonal(comoment), 0.0))
        mean = self.mean - share * distance
        return Gram(self.columns, rows, skipped, weight, mean, comoment, missing)

    def check_columns(self, other: "Gram") -> None:
        """Refuse a Gram of other columns."""
        if self.columns == other.columns:
            return
        first = [name for name in self.columns if name not in other.columns]
        second = [name for name in other.columns if name not in self.columns]
        if not first and not second:
            raise RecordError(
                "gram records have the same columns in another order: "
                f"{self.columns} and {other.columns}"
            )
        raise RecordError(
            f"gram records have unequal columns; only in the first: {first}; "
            f"only in the second: {second}"
        )

    def select(self, columns: Sequence[str]) -> "Gram":
        """Return the Gram of some columns, by name or glob, in that order."""
        names = match(columns, self.columns, "columns")
        at = np.array([self.columns.index(name) for name in names], dtype=np.intp)
        return Gram(
            names, self.rows, self.skipped, self.weight, self.mean[at],
            self.comoment[np.ix_(at, at)],
            {name: rows for name, rows in self.missing.items() if name in names},
        )  # fmt: skip

    def position(self, column: str, what: str) -> int:
        """Return the index of a column."""
        return position(column, self.columns, what)

    def covariance(self) -> Matrix:
        """Return ``comoment / weight``, shape (d, d); NaN if there are no rows."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.comoment / np.float64(self.weight))

    def correlation(self) -> Matrix:
        """Return the correlation matrix, shape (d, d); NaN for constant columns."""
        deviation = np.sqrt(np.diagonal(self.comoment))
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation = self.comoment / np.outer(deviation, deviation)
        np.fill_diagonal(correlation, np.where(deviation > 0, 1.0, np.nan))
        return np.asarray(correlation)

    def to_struct(self) -> dict[str, Any]:
        """Return the record as plain Python data, comoment as a packed lower triangle."""
        lower = self.comoment[np.tril_indices(len(self.columns))]
        return {
            "columns": list(self.columns),
            "rows": int(self.rows),
            "skipped": int(self.skipped),
            "weight": float(self.weight),
            "mean": self.mean.tolist(),
            "comoment": lower.tolist(),
        }

    @classmethod
    def from_struct(cls, record: Any) -> "Gram":
        """Read a record: a mapping, or an Arrow struct scalar.

        Raises
        ------
        RecordError : a field is missing or of the wrong length, or a value not finite
        """
        if isinstance(record, pa.Scalar):
            record = _from_arrow(record)
        if not isinstance(record, Mapping):
            raise RecordError(f"a gram record must be a mapping, not {type(record).__name__}")
        missing = [field for field in FIELDS if record.get(field) is None]
        if missing:
            raise RecordError(f"gram record lacks {missing}; its fields must be {list(FIELDS)}")
        columns = record["columns"]
        if not isinstance(columns, list | tuple) or not all(
            isinstance(name, str) for name in columns
        ):
            raise RecordError(f"gram record has {columns!r} in 'columns'; it must list names")
        for name in ("rows", "skipped"):
            if not isinstance(record[name], numbers.Integral):
                raise RecordError(
                    f"gram record has {record[name]!r} in '{name}'; it must be a whole number"
                )
        try:
            mean = np.asarray(record["mean"], dtype=np.float64)
            lower = np.asarray(record["comoment"], dtype=np.float64)
            weight = float(record["weight"])
        except (TypeError, ValueError) as error:
            raise RecordError(f"gram record holds something else than numbers: {error}") from None
        rows, skipped = int(record["rows"]), int(record["skipped"])
        width = len(columns)
        if lower.shape != (width * (width + 1) // 2,):
            raise RecordError(
                f"gram record has {lower.size} values in 'comoment'; "
                f"{width} columns need {width * (width + 1) // 2}"
            )
        comoment = np.zeros((width, width))
        comoment[np.tril_indices(width)] = lower
        comoment += np.tril(comoment, -1).T
        return cls(list(columns), rows, skipped, weight, mean, comoment)

    def to_arrow(self) -> pa.StructArray:
        """Return the record as an Arrow array of length 1."""
        return pa.array([self.to_struct()], RECORD_TYPE)

    def write_parquet(self, path: str | Path) -> None:
        """Write a Parquet file of one row with the record in its column ``gram``."""
        files.write_parquet(pa.table({"gram": self.to_arrow()}), path)

    @classmethod
    def read_parquet(cls, path: str | Path) -> "Gram":
        """Read what `write_parquet`, DuckDB or Polars wrote: one row, column ``gram``.

        Raises
        ------
        SourceError : there is no such file, no such column or not exactly one row
        """
        return cls.from_struct(files.read_row(path, ["gram"], "a gram")["gram"])


def _from_arrow(record: pa.Scalar) -> Any:
    """Take an Arrow struct apart without making a Python object of every number."""
    if not pa.types.is_struct(record.type) or not record.is_valid:
        return record.as_py()
    return {
        name: value.values.to_numpy(zero_copy_only=False)
        if name in ("mean", "comoment") and value.is_valid
        else value.as_py()
        for name, value in record.items()
    }
