"""A column of Gram records as arrays, without a Python object for each record.

Records of the same columns lie side by side in a `Stack`, whose last axis numbers them:
what is computed for one entry of a small matrix is computed for all records at once, on
memory without gaps.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from dbselect.errors import RecordError
from dbselect.record.columns import position
from dbselect.record.gram import FIELDS, Matrix, Vector

Index = npt.NDArray[np.intp]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stack:
    """B Gram records of the same d columns.

    Parameters
    ----------
    at : shape (B,), where the records stand in their column
    columns : d names
    rows, skipped : shape (B,)
    weight : shape (B,)
    mean : shape (d, B)
    comoment : shape (d (d + 1) / 2, B), lower triangles
    """

    at: Index
    columns: list[str]
    rows: Counts
    skipped: Counts
    weight: Vector
    mean: Matrix
    comoment: Matrix

    def __len__(self) -> int:
        return len(self.at)

    def take(self, which: Any) -> "Stack":
        """Return some of the records: a slice, numbers or a mask."""
        return Stack(
            self.at[which], self.columns, self.rows[which], self.skipped[which],
            self.weight[which], self.mean[:, which], self.comoment[:, which],
        )  # fmt: skip

    def position(self, column: str, what: str) -> int:
        """Return the index of a column."""
        return position(column, self.columns, what)

    def entries(self, rows: Index, columns: Index) -> Matrix:
        """Return comoments, one for each pair of a row and a column, shape (..., B)."""
        low, high = np.minimum(rows, columns), np.maximum(rows, columns)
        return np.asarray(self.comoment[triangle(high) + low])


@dataclass(frozen=True)
class _Lists:
    """A column of lists: all values in one array, and where each list begins and ends."""

    values: pa.Array
    start: Index
    length: Index


def triangle(width: Any) -> Any:
    """Return how many entries the lower triangle of a matrix has."""
    return width * (width + 1) // 2


def is_record(type_: pa.DataType) -> bool:
    """Whether a type is that of Gram records."""
    return bool(types.is_struct(type_)) and set(FIELDS) <= {child.name for child in type_}


def check_type(records: pa.Array) -> None:
    """Refuse a column that holds something else than records.

    Raises
    ------
    RecordError : it is no struct, or lacks a field
    """
    if records.null_count == len(records):
        return
    if not types.is_struct(records.type):
        raise RecordError(f"a gram record must be a mapping, not {records.type}")
    missing = [name for name in FIELDS if name not in records.type.names]
    if missing:
        raise RecordError(f"gram record lacks {missing}; its fields must be {list(FIELDS)}")


def read_stacks(records: pa.Array) -> list[Stack]:
    """Return the sound records of a column, those of equal columns together.

    Notes
    -----
    O(d^2) time and memory a record. What is NULL, malformed or of unusual types is in no
    stack: `Gram.from_struct` reads it or says what is wrong.
    """
    if not _has_record_type(records.type):
        return []
    fields = dict(zip(records.type.names, records.flatten(), strict=True))
    present = np.logical_and.reduce([_present(fields[name]) for name in FIELDS])
    numbers = {
        name: fields[name].fill_null(0).to_numpy(zero_copy_only=False)
        for name in ("rows", "skipped")
    }
    weight = _doubles(fields["weight"])
    names, mean, lower = (_lists(fields[name]) for name in ("columns", "mean", "comoment"))
    width = names.length
    sound = present & (mean.length == width) & (lower.length == triangle(width))
    sound &= (numbers["rows"] >= 0) & (numbers["skipped"] >= 0) & np.isfinite(weight)
    sound &= (weight >= 0) & ((numbers["rows"] > 0) == (weight > 0))
    stacks = [
        Stack(
            at, columns, numbers["rows"][at], numbers["skipped"][at], weight[at],
            _gather(_doubles(mean.values), mean.start[at], len(columns)),
            _gather(_doubles(lower.values), lower.start[at], triangle(len(columns))),
        )
        for at, columns in _equal_columns(names, np.flatnonzero(sound))
    ]  # fmt: skip
    return [stack.take(_is_finite(stack)) for stack in stacks]


def _has_record_type(type_: pa.DataType) -> bool:
    if not types.is_struct(type_) or not set(FIELDS) <= set(type_.names):
        return False
    kinds = {name: type_.field(name).type for name in FIELDS}
    lists = [kinds[name] for name in ("columns", "mean", "comoment")]
    if not all(types.is_list(kind) or types.is_large_list(kind) for kind in lists):
        return False
    names, *values = (kind.value_type for kind in lists)
    return (
        bool(types.is_string(names) or types.is_large_string(names))
        and all(_is_number(kind) for kind in (*values, kinds["weight"]))
        and all(types.is_integer(kinds[name]) for name in ("rows", "skipped"))
    )


def _is_number(type_: pa.DataType) -> bool:
    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_))


def _present(field: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.is_valid(field).to_numpy(zero_copy_only=False))


def _doubles(values: pa.Array) -> Vector:
    """Return numbers as doubles, NaN for NULL."""
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def _lists(field: pa.Array) -> _Lists:
    length = pc.list_value_length(field).fill_null(0).to_numpy(zero_copy_only=False)
    length = length.astype(np.intp)
    # Lists that are NULL have no values.
    return _Lists(field.flatten(), np.cumsum(length) - length, length)


def _gather(values: Any, start: Index, size: int) -> Any:
    """Return lists of equal size as an array of shape (size, B)."""
    return values[start + np.arange(size)[:, None]]


def _equal_columns(names: _Lists, at: Index) -> Iterator[tuple[Index, list[str]]]:
    """Yield the records whose lists of names are equal and good, and the names."""
    encoded = names.values.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    widths = names.length[at]
    for width in np.unique(widths).tolist():
        same = at[widths == width]
        lists = _gather(codes, names.start[same], width)
        for which in _equal_lists(lists):
            found = lists[:, which[0]].tolist()
            if -1 not in found and len(set(found)) == width:
                yield same[which], [texts[code] for code in found]


def _equal_lists(lists: npt.NDArray[np.int32]) -> list[Index]:
    """Return the numbers of the columns of an array that are equal, set by set."""
    if (lists == lists[:, :1]).all():
        return [np.arange(lists.shape[1])]
    _, kind = np.unique(lists, axis=1, return_inverse=True)
    order = np.argsort(kind, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(kind[order])) + 1)


def _is_finite(stack: Stack) -> npt.NDArray[np.bool_]:
    diagonal = np.arange(len(stack.columns))
    variances = stack.entries(diagonal, diagonal)
    finite = np.isfinite(stack.mean).all(axis=0) & np.isfinite(stack.comoment).all(axis=0)
    return np.asarray(finite & (variances >= 0).all(axis=0))
