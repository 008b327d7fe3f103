"""The compiled library: where it is, and its entry points for Python."""

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

#: The library's letters for policies; what is an error is known when all rows are read.
_LETTERS = {"skip": "s", "error": "s", "mean": "m", "indicator": "i", "near": "n", "zero": "z"}

#: Why a walk ended, by the library's numbers.
STOPS = (
    "EXHAUSTED", "BUDGET", "MAX_GROUPS", "MAX_STEPS", "THRESHOLD", "EMPTY", "INTERRUPTED",
    "SATURATED",
)  # fmt: skip

#: The largest whole number that the library reads; more means no more to a limit.
_MOST = 2**63 - 1

#: Errors that the library names before their sentence.
_ERRORS = {
    error.__name__: error
    for error in (ArgumentError, ColumnError, GroupError, RecordError, SourceError)
}


class _Turn(ctypes.Structure):
    """A step, and whether the search goes on: no, unless that is set."""

    _fields_ = (
        ("group", ctypes.c_size_t),
        ("explained", ctypes.c_double),
        ("is_added", ctypes.c_bool),
        ("goes_on", ctypes.c_bool),
    )


_OnTurn = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Turn))


class _Moments(ctypes.Structure):
    """Moments of D columns and a target, where they are."""

    _fields_ = (
        ("width", ctypes.c_size_t),
        ("rows", ctypes.c_int64),
        ("weight", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("mean", "mean_low", "comoment")),
    )


class _Grouped(ctypes.Structure):
    """A Gram and groups of its columns, where their numbers are."""

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
    """A linear problem and its groups, where its numbers are."""

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
    """A greedy search, where its numbers are."""

    _fields_ = (
        ("rule", ctypes.c_char_p),
        *((name, ctypes.c_void_p) for name in ("costs", "prices")),
        ("n_prices", ctypes.c_size_t),
        *((name, ctypes.c_void_p) for name in ("parts", "ends", "always")),
        ("n_always", ctypes.c_size_t),
        *((name, ctypes.c_double) for name in ("budget", "first_cost")),
        ("max_groups", ctypes.c_size_t),
    )


class _Needed(ctypes.Structure):
    """Rows that are needed, where to write them, and whether they are there: not unless set."""

    _fields_ = (
        ("columns", ctypes.POINTER(ctypes.c_size_t)),
        ("count", ctypes.c_size_t),
        ("rows", ctypes.POINTER(ctypes.c_double)),
        ("is_read", ctypes.c_bool),
    )


_OnNeed = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Needed))


@cache
def library_path() -> Path:
    """Path of the compiled library, which Polars and DuckDB load as well."""
    spec = importlib.util.find_spec("dbselect._library")
    if spec is None or spec.origin is None:
        raise ImportError("the compiled library of dbselect is missing; install dbselect again")
    return Path(spec.origin)


_POINTER, _TEXT, _SIZE, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64
_FLAG, _DOUBLE = ctypes.c_bool, ctypes.c_double
_TEXTS, _SIZES = (ctypes.POINTER(_TEXT), _SIZE), (ctypes.POINTER(_SIZE), _SIZE)
#: The structures of the Arrow C data interface.
_ArrowArray, _ArrowSchema = ctypes.c_char * 80, ctypes.c_char * 72
#: Where an Arrow array and its type are written.
_ARRAY = (_POINTER, _POINTER)
_BYTES = (_TEXT, _SIZE)
_VECTOR = (_POINTER, _SIZE, _POINTER, _POINTER, _SIZE, _SIZE, _SIZE)
#: What each function of the library returns, and what it takes.
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "reader_new": (_POINTER, *_TEXTS, _TEXT, *_TEXTS, _TEXT, _TEXT),
    "reader_category": (_FLAG, _POINTER, _TEXT, *_TEXTS, *_TEXTS, _TEXT),
    "reader_add": (_POINTER, _POINTER, _POINTER, *_ARRAY),
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
    for name, (returned, *taken) in _SIGNATURES.items():
        function = getattr(library, f"dbselect_{name}")
        function.restype, function.argtypes = returned, taken
    return library


class Reader:
    """Accumulates Arrow batches, from several threads at once, into Gram records.

    `columns` are flattened, `by` names fields whose values make groups, each with a record.
    There is one policy a column; `terms` is the records' JSON, without means and indicators.
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
        """Add indicators of levels, which are texts, before any rows, after the other columns.

        One name more than levels is that of all other values; the last, of gaps if `policy` fills.
        """
        given = column, *_texts(levels), *_texts(names), letters([policy])
        if not _call("reader_category", self._handle, *given):
            raise DataError(f"levels are {list(levels)!r}; they must be valid text")

    def order(self, order: Sequence[int]) -> None:
        """Set the order of the columns: numbers of all, then of the categories, each once."""
        numbers = (ctypes.c_size_t * len(order))(*order)
        if not _call("reader_order", self._handle, numbers, len(order)):
            raise DataError(f"order is {list(order)!r}; it must have every column once")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _call("reader_free", self._handle)
        self._handle = None

    def add(self, batch: Any) -> _Index:
        """Add rows, the GIL released; return set of sums, its keys before, and rows of new keys."""
        return _numbers("reader_add", self._handle, _Stream(batch))

    def settle(self) -> _Index:
        """Merge all sets of sums to one; return each group's number among the keys of all sets."""
        return _numbers("reader_settle", self._handle)

    def finish(self, order: Any = (0,)) -> pa.StructArray:
        """Return the records of some groups, each named once, and forget the sums."""
        order = np.ascontiguousarray(order, np.uintp)
        return _array("reader_finish", self._handle, order, len(order))

    def state(self, note: bytes) -> bytes:
        """Return all that was added so far, for `load` in another process, with a note."""
        return bytes(_array("reader_state", self._handle, note, len(note))[0].as_py())

    def note_of(self, state: bytes) -> bytes:
        """Return the note of a state."""
        return bytes(_array("state_note", self._handle, state, len(state))[0].as_py())

    def load(self, state: bytes, keys: Any = None) -> _Index:
        """Add a reader's state, as exactly as its rows, and its groups' keys; returns as `add`."""
        groups = None if keys is None else _Stream(keys)
        return _numbers("reader_load", self._handle, state, len(state), groups)


def folds(table: Any, columns: Sequence[str], k: int, seed: int) -> pa.Int64Array:
    """Return the fold, 0 to k - 1, of each row, by `columns`, without any by the first field."""
    return _array("folds", _Stream(table), *_texts(columns), k, seed)


def distinct(table: Any) -> pa.StructArray:
    """Return ``row``, one for each value of the first field, and ``rows``, how many have it.

    That has no NULLs and a type that Polars exports; a value of two chunks comes twice.
    """
    return _array("distinct", _Stream(table))


def projection(
    v: _Vector, order: _Index | None, starts: _Index, max_columns: int, max_groups: int
) -> _Vector:
    """Return the nearest vector with few nonzeros in few groups.

    `v`, (p,), is finite; the order is as in `penalised.layout.Layout`; limits are at least 1.
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
    """Return where groups begin, and the last ends, as the library takes it."""
    return np.ascontiguousarray(starts, np.intp), len(starts) - 1


class RandomSets:
    """Random sets that a seed, 0 to 2^63 - 1, decides in every engine; `drawn` counts numbers."""

    def __init__(self, seed: int, drawn: int = 0) -> None:
        self.seed, self.drawn = seed, drawn

    def sets(self, of: _Index, size: int, count: int) -> list[list[int]]:
        """Return so many sets of some numbers, each in random order."""
        numbers = np.ascontiguousarray(of, np.uintp)
        found = np.empty((count, min(size, len(numbers))), np.uintp)
        drawn = ctypes.c_uint64(self.drawn)
        given = numbers, len(numbers), size, count, self.seed
        _run("sets", *given, ctypes.byref(drawn), found)
        self.drawn = drawn.value
        return found.tolist()


class RowDesign:
    """Rows of d = `width` columns, taken one by one, so that coefficients are known best.

    `beta2` > 0 is the prior precision of each coefficient, `sigma2` > 0 the variance of the noise;
    `capacity` >= 2 rows of 24 d bytes are held in memory.
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
        """Read some rows, shape (m, d); True for those that may be taken before the next reading.

        SourceError if a row that was taken is another one now.
        """
        numbers, near = np.ascontiguousarray(numbers, np.uintp), np.empty(len(numbers), np.bool_)
        given = numbers, np.ascontiguousarray(X), len(numbers)
        _run("design_read", self._handle, *given, near)
        return near

    def best(self) -> tuple[int, float] | None:
        """Take the best row in memory: its number and gain; None if all must be read first."""
        found = self._next(is_read=False)
        return None if found[0] == np.iinfo(np.uintp).max else found

    def best_read(self) -> tuple[int, float]:
        """Take the best row since the last one was taken so; SourceError as `read`."""
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
        found = np.empty((self._width, self._width))
        _call("design_covariance", self._handle, found)
        return found


@dataclass(frozen=True, eq=False)
class Moments:
    """Those of D >= 1 columns and a target, which is the last and varies, over some rows."""

    rows: int
    weight: float
    mean: _Vector  # shape (D + 1,)
    mean_low: _Vector  # shape (D + 1,), what rounding took from the means
    comoment: npt.NDArray[np.float64]  # shape (D + 1, D + 1)

    def least_squares(
        self, ridge: float, scale: bool, intercept: bool, has_factor: bool
    ) -> dict[str, _Vector]:
        """Return the fields of `LeastSquares`, flat; RecordError for what no rows can have."""
        with self._given() as given:
            return _vectors(_array("least_squares", given, ridge, scale, intercept, has_factor))

    def refine(self, ranks: _Index, coef: npt.NDArray[np.float64]) -> None:
        """Refine M models on columns and target of unit variance, (M, D), in place.

        Model i has the first `ranks[i]` columns; none depends on others.
        """
        ranks = np.ascontiguousarray(ranks, np.uintp)
        with self._given() as given:
            _run("refined", given, ranks, len(ranks), coef)

    @contextmanager
    def _given(self) -> Iterator[Any]:
        """Give them as the library takes them, while it needs them."""
        lower = self.comoment[np.tri(len(self.mean), dtype=bool)]
        parts = [np.ascontiguousarray(part) for part in (self.mean, self.mean_low, lower)]
        places = (part.ctypes.data for part in parts)
        yield ctypes.byref(_Moments(len(self.mean) - 1, self.rows, self.weight, *places))


def student_beyond(free: float, statistics: _Vector) -> _Vector:
    """Return how often |t| of > 0 degrees of freedom is as large by chance; of inf the normal."""
    statistics = np.ascontiguousarray(statistics, np.float64)
    beyond = np.empty(len(statistics))
    _call("student_beyond", min(float(free), _MOST), statistics, len(statistics), beyond)
    return beyond


def student_within(free: float, probability: float) -> float:
    """Return what |t| of > 0 degrees of freedom is within with a probability, 0 to 1."""
    return float(_call("student_within", min(float(free), _MOST), probability))


#: Reads rows of the correlations of some columns, shape (k, D).
ReadRows = Callable[[_Index], _Vector]


class LinearProblem:
    """A linear problem on D columns, of K responses, and J groups, as the library takes it.

    `target` has shape (K, D); `ridge`, `unit`, `variances`, the diagonal of the correlations, and
    `constant` have shape (D,). `correlations` is (D, D); without it `read_rows` brings rows, and
    `blocks` are the correlations within each group, one group after the other. `scale` are
    variances by which rounding is judged, by default those of C.
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
        self._given = _Linear(self.width, len(target), *places, len(members))
        self._kept = doubles, constant, columns, starts

    def state(self) -> "Selection":
        """Return the state without selected groups."""
        handle = ctypes.c_void_p()
        _run("linear_new", ctypes.byref(self._given), ctypes.byref(handle))
        return Selection(self, handle)

    def run(self, name: str, state: ctypes.c_void_p, *given: Any) -> None:
        """Call a function of a state that may read rows; raise what reading them raised."""
        if self._read_rows is None:
            return _run(name, state, _OnNeed(), *given)
        read_rows, width = self._read_rows, self.width

        def write(needed: Any) -> None:
            columns = np.ctypeslib.as_array(needed.columns, (needed.count,)).astype(np.intp)
            np.ctypeslib.as_array(needed.rows, (needed.count, width))[:] = read_rows(columns)
            needed.is_read = True

        on_need, raised = _called(_OnNeed, write)
        try:
            _run(name, state, on_need, *given)
        finally:
            if raised:
                raise raised[0]


class Selection:
    """The selected groups of a linear problem, by a handle that is freed with it."""

    def __init__(self, problem: LinearProblem, handle: ctypes.c_void_p) -> None:
        self._problem, self._handle = problem, handle
        weakref.finalize(self, _library().dbselect_linear_free, handle)

    def copy(self) -> "Selection":
        """Return a copy that changes alone."""
        handle = ctypes.c_void_p()
        _run("linear_copy", self._handle, ctypes.byref(handle))
        return Selection(self._problem, handle)

    def add(self, groups: Sequence[int]) -> float:
        """Select some groups and return what they gain; nothing changes if reading rows fails."""
        gain, numbers = ctypes.c_double(), np.array(groups, np.uintp)
        self._problem.run("linear_add", self._handle, numbers, len(groups), ctypes.byref(gain))
        return gain.value

    def remove(self, group: int) -> float:
        """Give a group back and return its loss; nothing changes if reading rows fails."""
        loss = ctypes.c_double()
        self._problem.run("linear_remove", self._handle, group, ctypes.byref(loss))
        return loss.value

    def selected(self) -> tuple[list[int], list[int], list[int]]:
        """Return the groups, the columns of the rows of U, and the aliased columns."""
        members = self._problem.members
        found = np.empty(3 + len(members) + sum(map(len, members)), np.uintp)
        _run("linear_selected", self._handle, found)
        held, support, aliased = np.split(found[3:], np.cumsum(found[:3]))[:3]
        return held.tolist(), support.tolist(), aliased.tolist()

    def read(self, what: int, shape: tuple[int, ...]) -> _Vector:
        """Return numbers of it, by the table of `dbselect_linear_read` in the library."""
        found = np.zeros(shape)
        self._problem.run("linear_read", self._handle, what, found)
        return found

    def factor(self, columns: _Index, rank: int) -> _Vector:
        """Return U, of so many rows, at some columns."""
        columns = np.ascontiguousarray(columns, np.uintp)
        found = np.empty((rank, len(columns)))
        _run("linear_factor", self._handle, columns, len(columns), found)
        return found

    def greedy(
        self,
        rule: str,
        costs: _Vector,
        turn: Callable[[int, bool, float], None],
        *,
        parts: tuple[_Vector, _Index, _Index] | None = None,
        always: Sequence[int] = (),
        budget: float | None = None,
        first_cost: float | None = None,
        max_groups: int | None = None,
    ) -> tuple[_Vector, int, list[BaseException]]:
        """Select groups, each the best for its cost; return steps, why it ended, what turns raised.

        A step is a group, its score and gain, what is explained, and the number of the choice.
        `parts` are prices, the parts of each group in turn, and where those of each begin and end.
        """
        on_turn, raised = _called(_OnTurn, _turning(turn))
        none = math.nan
        prices, of_groups, ends = parts or (np.empty(0), np.empty(0), np.empty(1))
        arrays = [np.ascontiguousarray(costs, np.float64), np.ascontiguousarray(prices, np.float64)]
        arrays += [np.array(each, np.uintp) for each in (of_groups, ends[1:], always)]
        own, of_parts, groups, of_ends, first = (each.ctypes.data for each in arrays)
        given = _Greedy(
            rule.encode(), own, of_parts if parts else None, len(prices), groups, of_ends, first,
            len(always), none if budget is None else budget,
            none if first_cost is None else first_cost,
            np.iinfo(np.uintp).max if max_groups is None else max_groups,
        )  # fmt: skip
        steps, ended = np.empty((len(costs), 5)), np.empty(2, np.uintp)
        self._problem.run("linear_greedy", self._handle, ctypes.byref(given), on_turn, steps, ended)
        return steps[: int(ended[0])], int(ended[1]), raised

    def bounds(self, order: Sequence[int], costs: _Vector, budgets: _Vector) -> _Vector:
        """Return the most that groups within each budget explain, by the prefixes of an order."""
        numbers, bounds = np.array(order, np.uintp), np.empty(len(budgets))
        costs, budgets = (np.ascontiguousarray(each, np.float64) for each in (costs, budgets))
        given = numbers, len(numbers), costs, budgets, len(budgets), bounds
        self._problem.run("linear_bounds", self._handle, *given)
        return bounds


def knockoff_copies(
    R: _Vector, c: _Vector, starts: _Index, rows: int, kind: str, seed: int, draws: int
) -> tuple[_Vector, _Vector]:
    """Draw knockoffs, of kind ``"fixed"`` or ``"second_order"``, of independent columns.

    `R`, (D, D), and `c`, (D,), are the correlations of the columns and those with the target, over
    at least D + 2 rows, of the fixed kind 2 D + 1. Returns S, (D, D): knockoffs have correlations
    R - S with the columns; and theirs with the target in each draw, (draws, D).
    """
    R, c = (np.ascontiguousarray(each, np.float64) for each in (R, c))
    S, drawn = np.empty(R.shape), np.empty((draws, len(c)))
    _run("knockoffs", R, c, *_starts(starts), rows, kind == "fixed", seed, draws, S, drawn)
    return S, drawn


def knockoff_select(statistics: _Vector, q: float) -> tuple[_Vector, _Vector, Any]:
    """Return each group's share of draws that select it, mean e-value, and whether it is selected.

    `statistics`, (draws, J), are by how long before their copies groups come; `q` bounds the
    expected share of false groups among those selected.
    """
    statistics = np.ascontiguousarray(statistics, np.float64)
    found = np.empty((statistics.shape[1], 3))
    _run("knockoff_select", statistics, *statistics.shape, q, found)
    return found[:, 0], found[:, 1], found[:, 2] > 0


def walk(
    gram: Any,
    target: int,
    members: _Index,
    groups: tuple[_Index, _Index, _Vector],
    method: str,
    given: Mapping[str, Any],
    turn: Callable[[int, bool, float], None],
) -> _Vector:
    """Search one Gram by numbers, as `search` does; DataError or RecordError if that cannot be.

    `target` and `members`, (D,), are columns of the Gram; `groups` has positions in `members`,
    group by group, where those of each begin, and the last end, and costs. In `given` the names of
    groups are their numbers. `turn` is called after each step with the number of the group, whether
    it was added, and the share explained; when it raises a KeyboardInterrupt, the answer has the
    steps so far. The numbers are in the order that `written` of the library says.
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
        # Results hold parts of it, which their owner may write to.
        found = np.array(to_numpy(_array("walk", ctypes.byref(grouped), request, on_turn)))
    except (DataError, RecordError):
        if raised:
            raise raised[0] from None
        raise
    # An interrupt that came too late to end the search is raised.
    is_ended = STOPS[int(found[1])] == "INTERRUPTED"
    if raised and not (is_ended and isinstance(raised[0], KeyboardInterrupt)):
        raise raised[0]
    return found


def search(records: pa.Array, method: str, target: str, given: Mapping[str, Any]) -> pa.StructArray:
    """Search every Gram record of an array, without the GIL, on all cores, in O(D^3) each.

    Groups in `given` are lists of names and globs by name.

    Returns a row for each record: ``sequence``, steps as in SQL; ``status``, null, or why there is
    none; ``stop`` and ``choices``, why it ended and among which groups each step chose, by name;
    ``aliased``, columns that depend on columns before them; ``condition``, of those selected.
    """
    return _array("search", _Stream(_batch(records)), _request(method, target, given))


def _turning(turn: Callable[[int, bool, float], None]) -> Callable[[Any], None]:
    """Return what calls a function for every step that the library sends."""

    def take(step: Any) -> None:
        turn(step.group, step.is_added, step.explained)
        step.goes_on = True

    return take


def _called(kind: Any, function: Callable[[Any], None]) -> tuple[Any, list[BaseException]]:
    """Return a function that the library can call on what it sends, and a list for its error."""
    raised: list[BaseException] = []
    calls = _calls(function, raised)
    next(calls)
    return kind(calls.send), raised


def _calls(
    function: Callable[[Any], None], raised: list[BaseException]
) -> Generator[None, Any, None]:
    """Call a function on all that is sent until it raises, and keep the error.

    In a function, a Ctrl-C could come before its ``try``, and ctypes would print it and go on; a
    generator goes on inside of its ``try``.
    """
    try:
        while True:
            function((yield).contents)
    except GeneratorExit:
        return
    except BaseException as error:  # none can pass through the library
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
    """Ask every Gram record of an array, as `search` does, a method that returns no sequence.

    The last argument of `turn` is what is explained, NaN if unknown. Returns a row for each record:
    ``found``, as SQL returns it; ``status``; ``condition``; ``trace``, the column left out as
    dependent that may explain much; and ``notes``, as of the method's ``Choice::choose``.
    """
    raised: list[BaseException] = []
    on_turn = _OnTurn()  # a null pointer: nothing is called
    if turn is not None:
        on_turn, raised = _called(_OnTurn, _turning(turn))
    request = _request(method, target, given)
    found = _array("answer", _Stream(_batch(records)), request, on_turn)
    if raised:
        raise raised.pop()
    return found


def _request(method: str, target: str, given: Mapping[str, Any]) -> str:
    """Return what is asked of every record as JSON; what is None has its default."""
    return json.dumps({"method": method, "target": target, "given": _plain(given)})


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, a number that it lacks by the name NUL, others as text."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(one) for one in value]
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


def check_moments(
    columns: Sequence[str],
    rows: int,
    weight: float,
    mean: _Vector,
    mean_low: _Vector,
    comoment: npt.NDArray[np.float64],
) -> None:
    """Raise RecordError for moments that no rows have; `comoment`, (d, d), is contiguous."""
    _run("fault", *_texts(columns), int(rows), float(weight), mean, mean_low, comoment)


def without_variation(
    columns: Sequence[str],
    rows_left: int,
    weight: float,
    mean: _Vector,
    before: _Vector,
    after: _Vector,
) -> npt.NDArray[np.bool_]:
    """Return which columns vary no more after a removal; RecordError if too little is left."""
    gone = np.zeros(len(columns), dtype=bool)
    _run("left", *_texts(columns), int(rows_left), float(weight), mean, before, after, gone)
    return gone


class RowPredictor:
    """Predicts single rows from whatever groups they have, from several threads at once.

    `record` is an array of one Gram record, `asked` the JSON of the target and the options.
    """

    def __init__(self, record: pa.Array, asked: str) -> None:
        handle = ctypes.c_void_p()
        _run("arrived_new", _Stream(_batch(record)), asked, ctypes.byref(handle))
        self._handle, self._row = handle, _library().dbselect_arrived_row
        weakref.finalize(self, _library().dbselect_arrived_free, handle)

    def predict(self, row: bytes, budget: float) -> bytes:
        """Return the prediction of a row, JSON of JSON."""
        found = ctypes.c_void_p()
        error = self._row(self._handle, row, len(row), budget, ctypes.byref(found))
        if error:
            _check(error)
        text = ctypes.string_at(found)
        _call("text_free", found)
        return text


def _batch(records: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([records], ["gram"])


class _Stream:
    """The Arrow C stream of a table, as ctypes passes it on."""

    def __init__(self, table: Any) -> None:
        self._capsule = table.__arrow_c_stream__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self._as_parameter_ = ctypes.c_void_p(pointer(self._capsule, b"arrow_array_stream"))


def _call(name: str, *given: Any) -> Any:
    """Return what a function of the library returns of texts, arrays and numbers."""
    return getattr(_library(), f"dbselect_{name}")(*map(_argument, given))


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.ctypes
    return value.encode() if isinstance(value, str) else value


def _run(name: str, *given: Any) -> None:
    """Call a function that returns an error, or nothing."""
    _check(_call(name, *given))


def _array(name: str, *given: Any) -> Any:
    array, schema = _ArrowArray(), _ArrowSchema()
    addresses = ctypes.addressof(array), ctypes.addressof(schema)
    _run(name, *given, *addresses)
    return pa.Array._import_from_c(*addresses)


def _vectors(found: pa.StructArray) -> dict[str, _Vector]:
    """Return the lists of numbers of one row, by name."""
    return {field.name: to_numpy(found.field(field.name)[0].values) for field in found.type}


def _numbers(name: str, *given: Any) -> _Index:
    return to_numpy(_array(name, *given))


def letters(policies: Sequence[str]) -> str:
    """Return policies as the library takes them, a letter each."""
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
