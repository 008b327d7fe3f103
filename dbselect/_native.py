"""Bindings of the compiled library."""

import ctypes
import importlib.util
import json
import math
import numbers
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dbselect._arrow import to_numpy
from dbselect.errors import (
    ArgumentError,
    ColumnError,
    DataError,
    GroupError,
    RecordError,
    SourceError,
)

_Vector = npt.NDArray[np.float64]
_Index = npt.NDArray[np.intp]

#: Policy -> letter in the library; "error" is checked later, when all rows are read.
_LETTERS = {"skip": "s", "error": "s", "mean": "m", "indicator": "i", "near": "n", "zero": "z"}

#: Reasons why a search ended, by their codes in the library.
STOPS = (
    "EXHAUSTED", "BUDGET", "MAX_GROUPS", "MAX_STEPS", "THRESHOLD", "EMPTY", "INTERRUPTED",
    "SATURATED", "EXCLUDED",
)  # fmt: skip

#: The largest integer that the library reads; larger limits are equivalent.
_MOST = 2**63 - 1

#: Errors by name, with which messages of the library begin.
_ERRORS = {
    error.__name__: error
    for error in (ArgumentError, ColumnError, GroupError, RecordError, SourceError)
}


class _Turn(ctypes.Structure):
    """A step; the search stops unless the callback sets `goes_on`."""

    _fields_ = (
        ("group", ctypes.c_size_t),
        ("explained", ctypes.c_double),
        ("is_added", ctypes.c_bool),
        ("goes_on", ctypes.c_bool),
    )


_OnTurn = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Turn))


class _Moments(ctypes.Structure):
    """Pointers to the moments of D columns and a target."""

    _fields_ = (
        ("width", ctypes.c_size_t),
        ("rows", ctypes.c_int64),
        ("weight", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("mean", "mean_low", "comoment")),
    )


class _Grouped(ctypes.Structure):
    """Pointers to a Gram and groups of its columns."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("mean", "mean_low", "comoment")),
        ("members", ctypes.c_void_p),
        ("names", ctypes.POINTER(ctypes.c_char_p)),
        *((name, ctypes.c_void_p) for name in ("columns", "starts", "costs")),
        *((name, ctypes.c_size_t) for name in ("width", "target", "n_members", "n_groups")),
        *((name, ctypes.c_int64) for name in ("rows", "skipped")),
        ("weight", ctypes.c_double),
    )


class _Linear(ctypes.Structure):
    """Pointers to a linear problem and its groups."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("width", "responses")),
        *(
            (name, ctypes.c_void_p)
            for name in (
                "correlations", "blocks", "variances", "scale", "target", "ridge", "unit",
                "constant", "members", "starts",
            )
        ),
        ("groups", ctypes.c_size_t),
    )  # fmt: skip


class _Greedy(ctypes.Structure):
    """Pointers to the options of a greedy search."""

    _fields_ = (
        ("rule", ctypes.c_char_p),
        *((name, ctypes.c_void_p) for name in ("costs", "prices")),
        ("n_prices", ctypes.c_size_t),
        *((name, ctypes.c_void_p) for name in ("parts", "ends")),
        ("told", ctypes.c_char_p),
        ("always", ctypes.c_void_p),
        ("n_always", ctypes.c_size_t),
        *((name, ctypes.c_double) for name in ("budget", "first_cost")),
        ("max_groups", ctypes.c_size_t),
    )


class _Needed(ctypes.Structure):
    """Rows to read, and where to write them; the callback sets `is_read` on success."""

    _fields_ = (
        ("columns", ctypes.POINTER(ctypes.c_size_t)),
        ("count", ctypes.c_size_t),
        ("rows", ctypes.POINTER(ctypes.c_double)),
        ("is_read", ctypes.c_bool),
    )


_OnNeed = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Needed))


@cache
def library_path() -> Path:
    """Return the path of the compiled library, which Polars and DuckDB also load."""
    spec = importlib.util.find_spec("dbselect._library")
    if spec is None or spec.origin is None:
        raise ImportError("the compiled library of dbselect is missing; install dbselect again")
    return Path(spec.origin)


_POINTER, _TEXT, _SIZE, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64
_FLAG, _DOUBLE = ctypes.c_bool, ctypes.c_double
_TEXTS, _SIZES = (ctypes.POINTER(_TEXT), _SIZE), (ctypes.POINTER(_SIZE), _SIZE)
#: The structures of the Arrow C data interface.
_ArrowArray, _ArrowSchema = ctypes.c_char * 80, ctypes.c_char * 72
#: Output pointers for an Arrow array and its type.
_ARRAY = (_POINTER, _POINTER)
_BYTES = (_TEXT, _SIZE)
_VECTOR = (_POINTER, _SIZE, _POINTER, _POINTER, _SIZE, _SIZE, _SIZE)
#: Function of the library -> its return type and argument types.
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "reader_new": (_POINTER, *_TEXTS, _TEXT, *_TEXTS, _TEXT, _TEXT),
    "reader_category": (_FLAG, _POINTER, _TEXT, *_TEXTS, *_TEXTS, _TEXT),
    "reader_add": (_POINTER, _POINTER, _POINTER, ctypes.c_int64, *_ARRAY),
    "reader_order": (_FLAG, _POINTER, *_SIZES),
    "reader_settle": (_POINTER, _POINTER, *_ARRAY),
    "reader_finish": (_POINTER, _POINTER, _POINTER, _SIZE, *_ARRAY),
    "reader_state": (_POINTER, _POINTER, *_BYTES, *_ARRAY),
    "state_note": (_POINTER, _POINTER, *_BYTES, *_ARRAY),
    "reader_load": (_POINTER, _POINTER, *_BYTES, _POINTER, *_ARRAY),
    "reader_free": (None, _POINTER),
    "folds": (_POINTER, _POINTER, *_TEXTS, _INT, _INT, *_ARRAY),
    "distinct": (_POINTER, _POINTER, *_ARRAY),
    "project": (_POINTER, *_VECTOR, _POINTER),
    "support_table": (_POINTER, *_VECTOR, *_ARRAY),
    "sets": (_POINTER, _POINTER, _SIZE, _SIZE, _SIZE, _INT, _POINTER, _POINTER),
    "search": (_POINTER, _POINTER, _POINTER, *_ARRAY),
    "walk": (_POINTER, _POINTER, _TEXT, _OnTurn, *_ARRAY),
    "answer": (_POINTER, _POINTER, _POINTER, _OnTurn, *_ARRAY),
    "check": (_POINTER, _POINTER, _TEXT, *_ARRAY),
    "patterns": (_POINTER, _POINTER, _POINTER, _SIZE, *_ARRAY),
    "em": (_POINTER, _POINTER, _TEXT, *_ARRAY),
    "fault": (_POINTER, *_TEXTS, _INT, _DOUBLE, _POINTER, _POINTER, _POINTER),
    "left": (_POINTER, *_TEXTS, _INT, _DOUBLE, _POINTER, _POINTER, _POINTER, _POINTER),
    "least_squares": (_POINTER, _POINTER, _DOUBLE, _FLAG, _FLAG, _FLAG, *_ARRAY),
    "refined": (_POINTER, _POINTER, _POINTER, _SIZE, _POINTER),
    "student_beyond": (None, _DOUBLE, _POINTER, _SIZE, _POINTER),
    "student_within": (_DOUBLE, _DOUBLE, _DOUBLE),
    "knockoffs": (
        _POINTER, _POINTER, _POINTER, _POINTER, _SIZE, _SIZE, ctypes.c_uint8, _INT, _SIZE,
        _POINTER, _POINTER,
    ),
    "knockoff_select": (_POINTER, _POINTER, _SIZE, _SIZE, _DOUBLE, _POINTER),
    "allocate": (
        _POINTER, _POINTER, _SIZE, *[_POINTER] * 4, _DOUBLE, _POINTER, _POINTER,
    ),
    "design_new": (_POINTER, _SIZE, _DOUBLE, _DOUBLE, _SIZE),
    "design_read": (_POINTER, _POINTER, _POINTER, _POINTER, _SIZE, _POINTER),
    "design_next": (_POINTER, _POINTER, _FLAG, _POINTER, _POINTER),
    "design_take": (_DOUBLE, _POINTER, _POINTER),
    "design_covariance": (None, _POINTER, _POINTER),
    "design_free": (None, _POINTER),
    "linear_new": (_POINTER, _POINTER, _POINTER),
    "linear_copy": (_POINTER, _POINTER, _POINTER),
    "linear_free": (None, _POINTER),
    "linear_add": (_POINTER, _POINTER, _OnNeed, _POINTER, _SIZE, _POINTER),
    "linear_remove": (_POINTER, _POINTER, _OnNeed, _SIZE, _POINTER),
    "linear_selected": (_POINTER, _POINTER, _POINTER),
    "linear_read": (_POINTER, _POINTER, _OnNeed, ctypes.c_uint8, _POINTER),
    "linear_factor": (_POINTER, _POINTER, _POINTER, _SIZE, _POINTER),
    "linear_greedy": (_POINTER, _POINTER, _OnNeed, _POINTER, _OnTurn, _POINTER, _POINTER),
    "linear_prices": (_POINTER, _POINTER, _OnNeed, _POINTER, _DOUBLE, _DOUBLE, _POINTER),
    "linear_bounds": (
        _POINTER, _POINTER, _OnNeed, _POINTER, _SIZE, _POINTER, _POINTER, _SIZE, _POINTER,
    ),
    "arrived_new": (_POINTER, _POINTER, _TEXT, _POINTER),
    "arrived_row": (_POINTER, _POINTER, _TEXT, _SIZE, _DOUBLE, _POINTER),
    "arrived_free": (None, _POINTER),
    "text_free": (None, _POINTER),
}  # fmt: skip


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(library_path()))
    for name, (returned, *arguments) in _SIGNATURES.items():
        function = getattr(library, f"dbselect_{name}")
        function.restype, function.argtypes = returned, arguments
    return library


class Reader:
    """Accumulator of Arrow batches into Gram records; thread-safe.

    `columns` are flattened; each distinct value of the fields `by` gets a record. There is one
    policy per column; `terms` is the records' JSON, without means and indicators.
    """

    def __init__(
        self,
        columns: Sequence[str],
        weight: str | None = None,
        by: Sequence[str] = (),
        policies: Sequence[str] | None = None,
        terms: str | None = None,
    ) -> None:
        self._handle = _call(
            "reader_new", *_texts(columns), weight, *_texts(by),
            letters(policies or ["skip"] * len(columns)), terms,
        )  # fmt: skip
        if not self._handle:
            raise DataError(f"columns are {list(columns)!r}; their names must be valid text")

    def category(
        self, column: str, levels: Sequence[str], names: Sequence[str], policy: str
    ) -> None:
        """Add indicator columns of levels, as text; call it before adding rows.

        An additional name is for all other values; a last one for NULL, if `policy` fills.
        """
        arguments = column, *_texts(levels), *_texts(names), letters([policy])
        if not _call("reader_category", self._handle, *arguments):
            raise DataError(f"levels are {list(levels)!r}; they must be valid text")

    def order(self, order: Sequence[int]) -> None:
        """Set the order of the columns, a permutation of columns and then categories."""
        numbers = (ctypes.c_size_t * len(order))(*order)
        if not _call("reader_order", self._handle, numbers, len(order)):
            raise DataError(f"order is {list(order)!r}; it must have every column once")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _call("reader_free", self._handle)
        self._handle = None

    def add(self, batch: Any, block: int = -1) -> _Index:
        """Add rows without the GIL; return set of sums, its keys before, and rows of new keys.

        Numbered blocks, of rows without keys, are merged in the order of their numbers, from 0.
        """
        return _numbers("reader_add", self._handle, _Stream(batch), block)

    def settle(self) -> _Index:
        """Merge all sets of sums; return each group's number among the keys of all sets."""
        return _numbers("reader_settle", self._handle)

    def finish(self, order: Any = (0,)) -> pa.StructArray:
        """Return the records of groups, each given once, and discard the sums."""
        order = np.ascontiguousarray(order, np.uintp)
        return _array("reader_finish", self._handle, order, len(order))

    def state(self, note: bytes) -> bytes:
        """Serialise the sums with a note, for `load` in another process."""
        return bytes(_array("reader_state", self._handle, note, len(note))[0].as_py())

    def note_of(self, state: bytes) -> bytes:
        """Return the note of a state."""
        return bytes(_array("state_note", self._handle, state, len(state))[0].as_py())

    def load(self, state: bytes, keys: Any = None) -> _Index:
        """Add a serialised state, exactly as its rows, and its group keys; returns as `add`."""
        groups = None if keys is None else _Stream(keys)
        return _numbers("reader_load", self._handle, state, len(state), groups)


def folds(table: Any, columns: Sequence[str], k: int, seed: int) -> pa.Int64Array:
    """Return the fold of each row, 0 to k - 1, by `columns`; default: by the first field."""
    return _array("folds", _Stream(table), *_texts(columns), k, seed)


def distinct(table: Any) -> pa.StructArray:
    """Return ``row``, an index for each distinct value of the first field, and ``rows``, its count.

    The field has no NULL and a type that Polars exports; a value in two chunks is listed twice.
    """
    return _array("distinct", _Stream(table))


def projection(
    v: _Vector, order: _Index | None, starts: _Index, max_columns: int, max_groups: int
) -> _Vector:
    """Return the nearest vector with limited numbers of nonzeros and groups.

    `v`, (p,), is finite; `order` is as in `selection.projection.Layout`; limits are at least 1.
    """
    nearest = np.empty(len(v))
    _run("project", *_vector(v, order, starts), max_columns, max_groups, nearest)
    return nearest


def support_table(
    v: _Vector, order: _Index | None, starts: _Index, max_columns: int, max_groups: int
) -> pa.StructScalar:
    """Return the best support for every pair of limits, for the arguments of `projection`.

    Its fields: entries, starts of groups among them, totals by 2 ** power, choices in bytes.
    """
    return _array("support_table", *_vector(v, order, starts), max_columns, max_groups)[0]


def _vector(v: _Vector, order: _Index | None, starts: _Index) -> tuple[Any, ...]:
    at = None if order is None else np.ascontiguousarray(order, np.intp)
    return np.ascontiguousarray(v), len(v), at, *_starts(starts)


def _starts(starts: npt.NDArray[Any]) -> tuple[_Index, int]:
    """Return group offsets and the number of groups, as arguments of the library."""
    return np.ascontiguousarray(starts, np.intp), len(starts) - 1


class RandomSets:
    """Random sets, equal in every engine for a seed, 0 to 2^63 - 1; `drawn` counts numbers."""

    def __init__(self, seed: int, drawn: int = 0) -> None:
        self.seed, self.drawn = seed, drawn

    def sets(self, of: _Index, size: int, count: int) -> list[list[int]]:
        """Draw `count` sets of `size` numbers, each in random order."""
        numbers = np.ascontiguousarray(of, np.uintp)
        sets = np.empty((count, min(size, len(numbers))), np.uintp)
        drawn = ctypes.c_uint64(self.drawn)
        arguments = numbers, len(numbers), size, count, self.seed
        _run("sets", *arguments, ctypes.byref(drawn), sets)
        self.drawn = drawn.value
        return sets.tolist()


def allocation(
    ends: _Index,
    spent: _Vector,
    explained: _Vector,
    rows: _Vector,
    worth: _Vector,
    budget: float,
) -> tuple[npt.NDArray[np.int64], float, float, float]:
    """Return the step of each segment, -1 without one; and value, spent and bound, a row.

    The steps of segment i lie at ``ends[i]`` to ``ends[i + 1]`` of `spent` and `explained`.
    """
    steps, totals = np.empty(len(rows), np.int64), np.empty(3)
    points = [np.ascontiguousarray(of) for of in (spent, explained, rows, worth)]
    _run("allocate", ends, len(rows), *points, budget, steps, totals)
    value, cost, bound = totals.tolist()
    return steps, value, cost, bound


class RowDesign:
    """Greedy A-optimal design over rows of d = `width` columns.

    `beta2` > 0 is the prior precision of each coefficient, `sigma2` > 0 the variance of the noise;
    `capacity` >= 2 rows of 24 d bytes each are kept in memory.
    """

    def __init__(self, width: int, beta2: float, sigma2: float, capacity: int) -> None:
        self._width = width
        self._handle = _call("design_new", width, beta2, sigma2, capacity)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _call("design_free", self._handle)
        self._handle = None

    def read(self, numbers: _Index, X: _Vector) -> npt.NDArray[np.bool_]:
        """Read rows, shape (m, d); True for those that may be taken before the next read.

        SourceError if a row that was taken has changed.
        """
        numbers, near = np.ascontiguousarray(numbers, np.uintp), np.empty(len(numbers), np.bool_)
        arguments = numbers, np.ascontiguousarray(X), len(numbers)
        _run("design_read", self._handle, *arguments, near)
        return near

    def best(self) -> tuple[int, float] | None:
        """Take the best row in memory: its number and gain; None if all rows must be read again."""
        best = self._next(is_read=False)
        return None if best[0] == np.iinfo(np.uintp).max else best

    def best_read(self) -> tuple[int, float]:
        """Take the best row read since the last call; SourceError as `read`."""
        return self._next(is_read=True)

    def _next(self, is_read: bool) -> tuple[int, float]:
        row, gain = ctypes.c_size_t(), ctypes.c_double()
        _run("design_next", self._handle, is_read, ctypes.byref(row), ctypes.byref(gain))
        return row.value, gain.value

    def take(self, x: _Vector) -> float:
        """Take a row that was never read and return its gain."""
        return float(_call("design_take", self._handle, np.ascontiguousarray(x)))

    def covariance(self) -> _Vector:
        """Return the posterior covariance, shape (d, d)."""
        covariance = np.empty((self._width, self._width))
        _call("design_covariance", self._handle, covariance)
        return covariance


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of D >= 1 columns and a target, which is last and varies."""

    rows: int
    weight: float
    mean: _Vector  # shape (D + 1,)
    mean_low: _Vector  # shape (D + 1,), rounding error of the means
    comoment: npt.NDArray[np.float64]  # shape (D + 1, D + 1)

    def least_squares(
        self, ridge: float, scale: bool, intercept: bool, has_factor: bool
    ) -> dict[str, _Vector]:
        """Return the fields of `LeastSquares`, flat; RecordError for impossible moments."""
        with self._pointers() as pointers:
            return _vectors(_array("least_squares", pointers, ridge, scale, intercept, has_factor))

    def refine(self, ranks: _Index, coef: npt.NDArray[np.float64]) -> None:
        """Refine the coefficients of M models, (M, D), for unit variances, in place.

        Model i has the first `ranks[i]` columns, which are independent.
        """
        ranks = np.ascontiguousarray(ranks, np.uintp)
        with self._pointers() as pointers:
            _run("refined", pointers, ranks, len(ranks), coef)

    @contextmanager
    def _pointers(self) -> Iterator[Any]:
        """Yield the moments as a structure, valid inside the block."""
        lower = self.comoment[np.tri(len(self.mean), dtype=bool)]
        parts = [np.ascontiguousarray(part) for part in (self.mean, self.mean_low, lower)]
        places = (part.ctypes.data for part in parts)
        yield ctypes.byref(_Moments(len(self.mean) - 1, self.rows, self.weight, *places))


def student_beyond(free: float, statistics: _Vector) -> _Vector:
    """Return two-sided p-values of Student's t with `free` > 0 degrees; inf is the normal."""
    statistics = np.ascontiguousarray(statistics, np.float64)
    beyond = np.empty(len(statistics))
    _call("student_beyond", min(float(free), _MOST), statistics, len(statistics), beyond)
    return beyond


def student_within(free: float, probability: float) -> float:
    """Return q with P(|t| <= q) = `probability` for Student's t with `free` > 0 degrees."""
    return float(_call("student_within", min(float(free), _MOST), probability))


#: Function that reads rows of the correlations, shape (k, D), by their columns.
ReadRows = Callable[[_Index], _Vector]


class LinearProblem:
    """A linear problem of D columns, K responses and J groups, as an argument of the library.

    `target` has shape (K, D); `ridge`, `unit`, `variances` (the diagonal of the correlations) and
    `constant` have shape (D,). `correlations` is (D, D); without it `read_rows` reads rows, and
    `blocks` are the correlations within each group, concatenated. `scale` are reference variances
    for rank decisions, by default those of C.
    """

    def __init__(
        self,
        members: Sequence[_Index],
        target: _Vector,
        ridge: _Vector,
        unit: _Vector,
        variances: _Vector,
        constant: npt.NDArray[np.bool_],
        *,
        correlations: _Vector | None = None,
        blocks: _Vector | None = None,
        read_rows: ReadRows | None = None,
        scale: _Vector | None = None,
    ) -> None:
        doubles = [
            None if part is None else np.ascontiguousarray(part, np.float64)
            for part in (correlations, blocks, variances, scale, target, ridge, unit)
        ]
        columns = np.concatenate([np.empty(0, np.intp), *members]).astype(np.uintp)
        starts = np.cumsum([0, *map(len, members)], dtype=np.uintp)
        self.width, self.members, self._read_rows = len(ridge), members, read_rows
        constant = np.ascontiguousarray(constant, np.bool_)
        places = [
            None if part is None else part.ctypes.data
            for part in (*doubles, constant, columns, starts)
        ]
        self._pointers = _Linear(self.width, len(target), *places, len(members))
        self._arrays = doubles, constant, columns, starts

    def state(self) -> "Selection":
        """Return a state without selected groups."""
        handle = ctypes.c_void_p()
        _run("linear_new", ctypes.byref(self._pointers), ctypes.byref(handle))
        return Selection(self, handle)

    def run(self, name: str, state: ctypes.c_void_p, *arguments: Any) -> None:
        """Call a function of a state that may read rows; raise the error of a failed read."""
        if self._read_rows is None:
            return _run(name, state, _OnNeed(), *arguments)
        read_rows, width = self._read_rows, self.width

        def write(needed: Any) -> None:
            columns = np.ctypeslib.as_array(needed.columns, (needed.count,)).astype(np.intp)
            np.ctypeslib.as_array(needed.rows, (needed.count, width))[:] = read_rows(columns)
            needed.is_read = True

        on_need, raised = _called(_OnNeed, write)
        try:
            _run(name, state, on_need, *arguments)
        finally:
            if raised:
                raise raised[0]


class Selection:
    """Selected groups of a linear problem, a handle of the library that is freed with it."""

    def __init__(self, problem: LinearProblem, handle: ctypes.c_void_p) -> None:
        self._problem, self._handle = problem, handle
        self._selected: tuple[list[int], list[int], list[int]] | None = None
        weakref.finalize(self, _library().dbselect_linear_free, handle)

    def copy(self) -> "Selection":
        """Return an independent copy."""
        handle = ctypes.c_void_p()
        _run("linear_copy", self._handle, ctypes.byref(handle))
        return Selection(self._problem, handle)

    def add(self, groups: Sequence[int]) -> float:
        """Select groups and return their joint gain; nothing changes if reading rows fails."""
        gain, numbers = ctypes.c_double(), np.array(groups, np.uintp)
        self._change("linear_add", numbers, len(groups), ctypes.byref(gain))
        return gain.value

    def remove(self, group: int) -> float:
        """Remove a group and return its loss; nothing changes if reading rows fails."""
        loss = ctypes.c_double()
        self._change("linear_remove", group, ctypes.byref(loss))
        return loss.value

    def _change(self, function: str, *arguments: Any) -> None:
        """Change what is selected; another thread may read it until the change begins."""
        try:
            self._problem.run(function, self._handle, *arguments)
        finally:
            self._selected = None

    def selected(self) -> tuple[list[int], list[int], list[int]]:
        """Return the groups, the columns of the rows of U, and the aliased columns."""
        if self._selected is None:
            members = self._problem.members
            numbers = np.empty(3 + len(members) + sum(map(len, members)), np.uintp)
            _run("linear_selected", self._handle, numbers)
            held, support, aliased = np.split(numbers[3:], np.cumsum(numbers[:3]))[:3]
            self._selected = held.tolist(), support.tolist(), aliased.tolist()
        return self._selected

    def read(self, what: int, shape: tuple[int, ...]) -> _Vector:
        """Return a quantity of the state, by the codes of `dbselect_linear_read`."""
        values = np.zeros(shape)
        self._problem.run("linear_read", self._handle, what, values)
        return values

    def factor(self, columns: _Index, rank: int) -> _Vector:
        """Return columns of U, which has `rank` rows."""
        columns = np.ascontiguousarray(columns, np.uintp)
        factor = np.empty((rank, len(columns)))
        _run("linear_factor", self._handle, columns, len(columns), factor)
        return factor

    def greedy(
        self,
        rule: str,
        costs: _Vector,
        turn: Callable[[int, bool, float], None],
        *,
        parts: tuple[_Vector, _Index, _Index] | None = None,
        told: Mapping[str, Any] | None = None,
        always: Sequence[int] = (),
        budget: float | None = None,
        first_cost: float | None = None,
        max_groups: int | None = None,
    ) -> tuple[_Vector, int, list[BaseException]]:
        """Select groups by score per cost; return steps, the code of the stop, errors of `turn`.

        A step is group, score, gain, explained share and the code of the choice. `parts` are the
        prices of parts, the parts of all groups, concatenated, and the offsets of the groups;
        `told` are conditions on groups, which are named by their numbers; set-ups are parts.
        """
        on_turn, raised = _called(_OnTurn, _turning(turn))
        setup = _greedy(rule, costs, parts, told, always, budget, first_cost, max_groups)
        steps, ended = np.empty((len(costs), 5)), np.empty(2, np.uintp)
        self._change("linear_greedy", ctypes.byref(setup), on_turn, steps, ended)
        return steps[: int(ended[0])], int(ended[1]), raised

    def prices(
        self,
        order: Sequence[int],
        costs: _Vector,
        worth: float,
        spread: float | None,
        *,
        parts: tuple[_Vector, _Index, _Index] | None = None,
        told: Mapping[str, Any] | None = None,
    ) -> _Vector:
        """Return up to which price prefixes of an order have each group, from none selected on.

        `worth` is of the whole variance, or of a unit of the error if the target's deviation is
        given as `spread`. Others as in `greedy`.
        """
        setup = _greedy("", costs, parts, told, order, None, None, None)
        prices, none = np.empty(len(costs)), math.nan
        arguments = ctypes.byref(setup), worth, none if spread is None else spread, prices
        self._problem.run("linear_prices", self._handle, *arguments)
        return prices

    def bounds(self, order: Sequence[int], costs: _Vector, budgets: _Vector) -> _Vector:
        """Return upper bounds on the explained share of any groups within each budget; shape (B,).

        For any selected groups S and any other groups T ::

            F(S + T) - F(S) <= 1/mu sum_{g in T} gain(g | S)

        with mu the least eigenvalue of the conditional covariance of all unselected groups, after
        each group's block is whitened. S runs over the prefixes of `order`, whatever is selected;
        the least bound is returned. If groups share columns, mu is 0 and the bound is F(all).
        O(D^3 + J^2 B).

        Source: Hu, Grubb, Bagnell, Hebert (2016), Lemmas 3.1, 3.3, 3.4, where S is empty in mu; Das
        and Kempe (2011), Lemma 2.5.
        """
        numbers, bounds = np.array(order, np.uintp), np.empty(len(budgets))
        costs, budgets = (np.ascontiguousarray(values, np.float64) for values in (costs, budgets))
        arguments = numbers, len(numbers), costs, budgets, len(budgets), bounds
        self._problem.run("linear_bounds", self._handle, *arguments)
        return bounds


def _greedy(
    rule: str,
    costs: _Vector,
    parts: tuple[_Vector, _Index, _Index] | None,
    told: Mapping[str, Any] | None,
    always: Sequence[int],
    budget: float | None,
    first_cost: float | None,
    max_groups: int | None,
) -> _Greedy:
    """Return pointers to the arguments of `Selection.greedy`, and keep what they point to."""
    prices, of_groups, ends = parts or (np.empty(0), np.empty(0), np.empty(1))
    arrays = [np.ascontiguousarray(costs, np.float64), np.ascontiguousarray(prices, np.float64)]
    arrays += [np.array(values, np.uintp) for values in (of_groups, ends[1:], always)]
    costs_at, prices_at, parts_at, ends_at, always_at = (a.ctypes.data for a in arrays)
    setup = _Greedy(
        rule.encode(), costs_at, prices_at if parts else None, len(prices), parts_at, ends_at,
        json.dumps({name: one for name, one in (told or {}).items() if name != "shared"}).encode(),
        always_at, len(always),
        math.nan if budget is None else budget,
        math.nan if first_cost is None else first_cost,
        np.iinfo(np.uintp).max if max_groups is None else max_groups,
    )  # fmt: skip
    setup.arrays = arrays
    return setup


def knockoff_copies(
    R: _Vector, c: _Vector, starts: _Index, rows: int, kind: str, seed: int, draws: int
) -> tuple[_Vector, _Vector]:
    """Draw knockoffs, of kind ``"fixed"`` or ``"second_order"``, of independent columns.

    `R`, (D, D), and `c`, (D,), are the correlations between columns and with the target, over at
    least D + 2 rows, or 2 D + 1 for the fixed kind. Returns S, (D, D), where knockoffs have
    correlations R - S with the columns; and their correlations with the target, (draws, D).
    """
    R, c = (np.ascontiguousarray(values, np.float64) for values in (R, c))
    S, drawn = np.empty(R.shape), np.empty((draws, len(c)))
    _run("knockoffs", R, c, *_starts(starts), rows, kind == "fixed", seed, draws, S, drawn)
    return S, drawn


def knockoff_select(statistics: _Vector, q: float) -> tuple[_Vector, _Vector, Any]:
    """Return for each group the share of draws that select it, mean e-value, and the selection.

    `statistics`, (draws, J), are the leads of groups over their copies, > 0 if the group is first;
    `q` bounds the expected share of false groups among those selected.
    """
    statistics = np.ascontiguousarray(statistics, np.float64)
    results = np.empty((statistics.shape[1], 3))
    _run("knockoff_select", statistics, *statistics.shape, q, results)
    return results[:, 0], results[:, 1], results[:, 2] > 0


def walk(
    gram: Any,
    target: int,
    members: _Index,
    groups: tuple[_Index, _Index, _Vector],
    method: str,
    given: Mapping[str, Any],
    turn: Callable[[int, bool, float], None],
) -> _Vector:
    """Search a Gram, as `search` does, with groups by number; DataError or RecordError on failure.

    `target` and `members`, (D,), are columns of the Gram; `groups` are positions in `members`,
    group by group, the offsets of groups, and costs. In `given`, groups are named by their numbers.
    `turn` is called after each step with the number of the group, whether it was added, and the
    share explained; if it raises a KeyboardInterrupt, the result has the steps so far. The layout
    of the result is that of `written` in the library.
    """
    of_gram, of_groups = (
        [array.ctypes.data for array in arrays]
        for arrays in ((gram.mean, gram.mean_low, gram.comoment, members), groups)
    )
    names, _ = _texts([gram.columns[column] for column in members.tolist()])
    grouped = _Grouped(
        *of_gram,
        names,
        *of_groups,
        len(gram.mean),
        target,
        len(members),
        len(groups[2]),
        gram.rows,
        gram.skipped,
        gram.weight,
    )
    on_turn, raised = _called(_OnTurn, _turning(turn))
    request = _request(method, "target", given)
    try:
        # A copy, as results keep views of it that a user may modify.
        result = np.array(to_numpy(_array("walk", ctypes.byref(grouped), request, on_turn)))
    except (DataError, RecordError):
        if raised:
            raise raised[0] from None
        raise
    # An interrupt after the last step did not end the search, so it is raised here.
    is_ended = STOPS[int(result[1])] == "INTERRUPTED"
    if raised and not (is_ended and isinstance(raised[0], KeyboardInterrupt)):
        raise raised[0]
    return result


def search(records: pa.Array, method: str, target: str, given: Mapping[str, Any]) -> pa.StructArray:
    """Search every Gram record of an array, without the GIL, on all cores, in O(D^3) each.

    Groups in `given` are lists of names and globs by name.

    Returns a row for each record: ``sequence``, steps as in SQL; ``status``, null or the error;
    ``stop`` and ``choices``, names of the reason to stop and of the candidates of each step;
    ``aliased``, columns that depend on earlier ones; ``condition`` of the selected columns.
    """
    return _array("search", _Stream(_batch(records)), _request(method, target, given))


def _turning(turn: Callable[[int, bool, float], None]) -> Callable[[Any], None]:
    """Wrap `turn` as a callback for the steps of the library."""

    def take(step: Any) -> None:
        turn(step.group, step.is_added, step.explained)
        step.goes_on = True

    return take


def _called(kind: Any, function: Callable[[Any], None]) -> tuple[Any, list[BaseException]]:
    """Wrap a function as a callback of the library; its first error goes to the list."""
    raised: list[BaseException] = []
    calls = _calls(function, raised)
    next(calls)
    return kind(calls.send), raised


def _calls(
    function: Callable[[Any], None], raised: list[BaseException]
) -> Generator[None, Any, None]:
    """Call a function on each value sent, until it raises, and keep the error.

    This is a generator, as it resumes inside its ``try``: in a function, Ctrl-C could arrive before
    the ``try``, and ctypes would print it and continue.
    """
    try:
        while True:
            function((yield).contents)
    except GeneratorExit:
        return
    except BaseException as error:  # no exception can pass through the library
        raised.append(error)
    while True:
        yield


def answers(
    records: pa.Array,
    method: str,
    target: str,
    given: Mapping[str, Any],
    turn: Callable[[int, bool, float], None] | None = None,
) -> pa.StructArray:
    """Run a method that returns no sequence on every Gram record of an array, as `search` does.

    The last argument of `turn` is the share explained, NaN if unknown. Returns a row for each
    record: ``found``, the result as in SQL; ``status``; ``condition``; ``trace``, the dependent
    column that may explain much; and ``notes``, as from the method's ``Choice::choose``.
    """
    raised: list[BaseException] = []
    on_turn = _OnTurn()  # a null pointer: nothing is called
    if turn is not None:
        on_turn, raised = _called(_OnTurn, _turning(turn))
    request = _request(method, target, given)
    results = _array("answer", _Stream(_batch(records)), request, on_turn)
    if raised:
        raise raised.pop()
    return results


def _request(method: str, target: str, given: Mapping[str, Any]) -> str:
    """Return method, target and options as JSON; None means the default."""
    return json.dumps({"method": method, "target": target, "given": _plain(given)})


def _plain(value: Any) -> Any:
    """Convert a value for JSON: infinite and NaN as an object with key NUL, others as text."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return max(-_MOST, min(int(value), _MOST))
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else {"\0": str(float(value))}
    return value if value is None else str(value)


def check(records: pa.Array, target: str) -> pa.StringArray:
    """Return why each Gram record cannot be searched for a target; NULL if it can."""
    return _array("check", _Stream(_batch(records)), target)


def sum_patterns(records: pa.Array, less: pa.Array, most: int) -> pa.StructArray:
    """Add up records of patterns of gaps, take `less` away, and join the rarest beyond `most`."""
    return _array("patterns", _Stream(_batch(records)), _Stream(_batch(less)), min(most, _MOST))


def em(records: pa.Array, groups: Sequence[int], options: Mapping[str, Any]) -> pa.StructArray:
    """Complete each group of patterns, 0, 1, ..., by the mean and covariance of all together."""
    numbers = pa.array(groups, pa.int64())
    batch = pa.RecordBatch.from_arrays([records, numbers], ["gram", "group"])
    return _array("em", _Stream(batch), json.dumps(options))


def check_moments(
    columns: Sequence[str],
    rows: int,
    weight: float,
    mean: _Vector,
    mean_low: _Vector,
    comoment: npt.NDArray[np.float64],
) -> None:
    """Raise RecordError for moments that no rows can have; `comoment`, (d, d), is contiguous."""
    _run("fault", *_texts(columns), int(rows), float(weight), mean, mean_low, comoment)


def without_variation(
    columns: Sequence[str],
    rows_left: int,
    weight: float,
    mean: _Vector,
    before: _Vector,
    after: _Vector,
) -> npt.NDArray[np.bool_]:
    """Return which columns are constant after a removal; RecordError if too little is left."""
    constant = np.zeros(len(columns), dtype=bool)
    _run("left", *_texts(columns), int(rows_left), float(weight), mean, before, after, constant)
    return constant


class RowPredictor:
    """Predictor of single rows from the groups that they have; thread-safe.

    `record` is an array of one Gram record, `request` the JSON of the target and the options.
    """

    def __init__(self, record: pa.Array, request: str) -> None:
        handle = ctypes.c_void_p()
        _run("arrived_new", _Stream(_batch(record)), request, ctypes.byref(handle))
        self._handle, self._row = handle, _library().dbselect_arrived_row
        weakref.finalize(self, _library().dbselect_arrived_free, handle)

    def predict(self, row: bytes, budget: float) -> bytes:
        """Return the prediction of a row; both are JSON."""
        address = ctypes.c_void_p()
        error = self._row(self._handle, row, len(row), budget, ctypes.byref(address))
        if error:
            _check(error)
        text = ctypes.string_at(address)
        _call("text_free", address)
        return text


def _batch(records: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([records], ["gram"])


class _Stream:
    """Arrow C stream of a table, as an argument of ctypes."""

    def __init__(self, table: Any) -> None:
        self._capsule = table.__arrow_c_stream__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self._as_parameter_ = ctypes.c_void_p(pointer(self._capsule, b"arrow_array_stream"))


def _call(name: str, *arguments: Any) -> Any:
    """Call a function of the library with texts, arrays and numbers."""
    return getattr(_library(), f"dbselect_{name}")(*map(_argument, arguments))


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.ctypes
    return value.encode() if isinstance(value, str) else value


def _run(name: str, *arguments: Any) -> None:
    """Call a function that returns an error or NULL, and raise the error."""
    _check(_call(name, *arguments))


def _array(name: str, *arguments: Any) -> Any:
    array, schema = _ArrowArray(), _ArrowSchema()
    addresses = ctypes.addressof(array), ctypes.addressof(schema)
    _run(name, *arguments, *addresses)
    return pa.Array._import_from_c(*addresses)


def _vectors(row: pa.StructArray) -> dict[str, _Vector]:
    """Return the lists of numbers of one row, by name."""
    return {field.name: to_numpy(row.field(field.name)[0].values) for field in row.type}


def _numbers(name: str, *arguments: Any) -> _Index:
    return to_numpy(_array(name, *arguments))


def letters(policies: Sequence[str]) -> str:
    """Return the letters of policies, as an argument of the library."""
    return "".join(_LETTERS[policy] for policy in policies)


def _texts(texts: Sequence[str]) -> tuple[Any, int]:
    encoded = [text.encode() for text in texts]
    return (ctypes.c_char_p * len(encoded))(*encoded), len(encoded)


def _check(error: int | None) -> None:
    if error:
        message = ctypes.string_at(error).decode(errors="replace")
        _call("text_free", error)
        kind, _, sentence = message.partition(": ")
        if kind in _ERRORS:
            raise _ERRORS[kind](sentence)
        raise DataError(message)
