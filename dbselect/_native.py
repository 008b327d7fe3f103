"""The compiled library: where it is, and its entry points for Python."""

import ctypes
import importlib.util
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dbselect.errors import ArgumentError, ColumnError, DataError, GroupError, RecordError

_Vector = npt.NDArray[np.float64]
_Index = npt.NDArray[np.intp]

#: The library's letters for policies; what is an error is known when all rows are read.
_LETTERS = {"skip": "s", "error": "s", "mean": "m", "indicator": "i", "near": "n", "zero": "z"}

#: Errors that the library names before their sentence.
_ERRORS = {error.__name__: error for error in (ArgumentError, ColumnError, GroupError, RecordError)}
#: What is a mapping in Python and no STRUCT in Arrow.
_MAPS = {
    "groups": pa.map_(pa.string(), pa.list_(pa.string())),
    "costs": pa.map_(pa.string(), pa.float64()),
    "penalty_factors": pa.map_(pa.string(), pa.float64()),
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


class _Penalised(ctypes.Structure):
    """What is minimised, where its numbers are."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("products", "target", "starts")),
        ("n_groups", ctypes.c_size_t),
        *((name, ctypes.c_void_p) for name in ("norm", "absolute", "square", "penalties")),
        ("n_penalties", ctypes.c_size_t),
        ("ratio", ctypes.c_double),
    )


@cache
def library_path() -> Path:
    """Path of the compiled library, which Polars and DuckDB load as well."""
    spec = importlib.util.find_spec("dbselect._library")
    if spec is None or spec.origin is None:
        raise ImportError("the compiled library of dbselect is missing; install dbselect again")
    return Path(spec.origin)


#: Functions that return a pointer: to an error text but for the first, or none.
_POINTERS = [
    "reader_new", "reader_add", "reader_finish", "reader_state", "state_note", "reader_load",
    "folds", "distinct", "project", "support_table", "sets", "search",
    "answer", "check", "penalised_path", "penalised_degrees", "knockoffs", "knockoff_select",
    "arrived_new", "arrived_row",
]  # fmt: skip


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(library_path()))
    text, pointer = ctypes.c_char_p, ctypes.c_void_p
    library.dbselect_reader_new.argtypes = [
        ctypes.POINTER(text), ctypes.c_size_t, text, text, text, text
    ]  # fmt: skip
    library.dbselect_reader_category.argtypes = [
        pointer, text,
        ctypes.POINTER(text), ctypes.c_size_t,
        ctypes.POINTER(text), ctypes.c_size_t, text,
    ]  # fmt: skip
    library.dbselect_reader_category.restype = ctypes.c_bool
    library.dbselect_reader_add.argtypes = [pointer, pointer]
    library.dbselect_reader_order.argtypes = [
        pointer, ctypes.POINTER(ctypes.c_size_t), ctypes.c_size_t
    ]  # fmt: skip
    library.dbselect_reader_order.restype = ctypes.c_bool
    library.dbselect_reader_finish.argtypes = [pointer, pointer, pointer]
    library.dbselect_reader_state.argtypes = [pointer, text, ctypes.c_size_t, pointer, pointer]
    library.dbselect_state_note.argtypes = [pointer, text, ctypes.c_size_t, pointer, pointer]
    library.dbselect_reader_load.argtypes = [
        pointer, text, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t), ctypes.c_size_t
    ]  # fmt: skip
    library.dbselect_reader_free.argtypes = [pointer]
    library.dbselect_reader_free.restype = None
    library.dbselect_folds.argtypes = [
        pointer, ctypes.POINTER(text), ctypes.c_size_t, ctypes.c_int64, ctypes.c_int64,
        pointer, pointer,
    ]  # fmt: skip
    library.dbselect_distinct.argtypes = [pointer, pointer, pointer]
    vector: list[Any] = [pointer, ctypes.c_size_t, pointer, pointer, *3 * [ctypes.c_size_t]]
    library.dbselect_project.argtypes = [*vector, pointer]
    library.dbselect_support_table.argtypes = [*vector, pointer, pointer]
    library.dbselect_sets.argtypes = [
        pointer, *3 * [ctypes.c_size_t], ctypes.c_int64, *2 * [pointer]
    ]  # fmt: skip
    library.dbselect_search.argtypes = [pointer, pointer, _OnTurn, pointer, pointer]
    library.dbselect_answer.argtypes = [pointer, pointer, _OnTurn, pointer, pointer]
    library.dbselect_check.argtypes = [pointer, text, pointer, pointer]
    library.dbselect_penalised_path.argtypes = [pointer, _OnTurn, pointer, pointer]
    library.dbselect_penalised_degrees.argtypes = [pointer, pointer, pointer]
    library.dbselect_knockoffs.argtypes = [
        *3 * [pointer], *2 * [ctypes.c_size_t], ctypes.c_uint8, ctypes.c_int64, ctypes.c_size_t,
        pointer, pointer,
    ]  # fmt: skip
    library.dbselect_knockoff_select.argtypes = [
        pointer, *2 * [ctypes.c_size_t], ctypes.c_double, pointer
    ]  # fmt: skip
    library.dbselect_arrived_new.argtypes = [pointer, text, pointer]
    library.dbselect_arrived_row.argtypes = [
        pointer, text, ctypes.c_size_t, ctypes.c_double, pointer
    ]  # fmt: skip
    library.dbselect_arrived_free.argtypes = [pointer]
    library.dbselect_arrived_free.restype = None
    library.dbselect_text_free.argtypes = [pointer]
    library.dbselect_text_free.restype = None
    for name in _POINTERS:
        getattr(library, f"dbselect_{name}").restype = pointer
    return library


class Reader:
    """Accumulates Arrow batches, from several threads at once, into Gram records.

    Parameters
    ----------
    columns : flattened columns, in the order of the record
    weight : column of row weights
    group : column that numbers each row's group, from 0; one record a group comes back
    policies : what becomes of missing values, one policy a column; default: skip all
    terms : JSON of the records' terms, without means and indicators
    """

    def __init__(
        self,
        columns: Sequence[str],
        weight: str | None = None,
        group: str | None = None,
        policies: Sequence[str] | None = None,
        terms: str | None = None,
    ) -> None:
        self._handle = _library().dbselect_reader_new(
            *_texts(columns),
            None if weight is None else weight.encode(),
            None if group is None else group.encode(),
            letters(policies or ["skip"] * len(columns)).encode(),
            None if terms is None else terms.encode(),
        )
        if not self._handle:
            raise DataError(f"columns are {list(columns)!r}; their names must be valid text")

    def category(
        self, column: str, levels: Sequence[str], names: Sequence[str], policy: str
    ) -> None:
        """Add, before any rows, columns of 0 and 1 for the levels of a column.

        Parameters
        ----------
        column : a field
        levels : values of the field, as text
        names : names of their columns, which follow those there are already; one more is
            that of all other values; the last is that of what is missing if `policy` fills
        policy : what becomes of what is missing
        """
        added = _library().dbselect_reader_category(
            self._handle, column.encode(), *_texts(levels), *_texts(names),
            letters([policy]).encode(),
        )  # fmt: skip
        if not added:
            raise DataError(f"levels are {list(levels)!r}; they must be valid text")

    def order(self, order: Sequence[int]) -> None:
        """Say in which order the records have the columns.

        Parameters
        ----------
        order : numbers of all columns, then of the categories, each once
        """
        numbers = (ctypes.c_size_t * len(order))(*order)
        if not _library().dbselect_reader_order(self._handle, numbers, len(order)):
            raise DataError(f"order is {list(order)!r}; it must have every column once")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _library().dbselect_reader_free(self._handle)
        self._handle = None

    def add(self, batch: Any) -> None:
        """Add all rows of an object with an Arrow C stream; the GIL is released."""
        with _stream(batch) as stream:
            _check(_library().dbselect_reader_add(self._handle, stream))

    def finish(self) -> pa.StructArray:
        """Return the records: one, or one a group."""

        def call(array: int, schema: int) -> int | None:
            error: int | None = _library().dbselect_reader_finish(self._handle, array, schema)
            return error

        return _array(call)

    def state(self, note: bytes) -> bytes:
        """Return all that was added so far, for `load` in another process, with a note."""
        call = partial(_library().dbselect_reader_state, self._handle, note, len(note))
        return bytes(_array(call)[0].as_py())

    def note_of(self, state: bytes) -> bytes:
        """Return the note of a state.

        Raises
        ------
        DataError : the bytes are no state, were altered or cut, or are of another version
            or of a reader of other columns
        """
        call = partial(_library().dbselect_state_note, self._handle, state, len(state))
        return bytes(_array(call)[0].as_py())

    def load(self, state: bytes, groups: Sequence[int]) -> None:
        """Add what a state holds, as exactly as if its rows were added.

        Parameters
        ----------
        state : of a reader of the same columns
        groups : the number here of each of its groups; ``[0]`` for a reader without groups

        Raises
        ------
        DataError : as `note_of`, or the state has another number of groups
        """
        numbers = (ctypes.c_size_t * len(groups))(*groups)
        given = state, len(state), numbers, len(groups)
        _check(_library().dbselect_reader_load(self._handle, *given))


def folds(table: Any, columns: Sequence[str], k: int, seed: int) -> pa.Int64Array:
    """Return the fold, 0 to k - 1, of every row of an object with an Arrow C stream.

    Parameters
    ----------
    columns : flattened columns whose values make the key; none: the first field is the key
    """
    with _stream(table) as stream:
        return _array(partial(_library().dbselect_folds, stream, *_texts(columns), k, seed))


def distinct(table: Any) -> pa.StructArray:
    """Return ``row``, one for each value of the first field, and ``rows``, how many have it.

    Parameters
    ----------
    table : an object with an Arrow C stream, its first field without NULLs and of a type
        that Polars exports; a value of two chunks comes twice
    """
    with _stream(table) as stream:
        return _array(partial(_library().dbselect_distinct, stream))


def projection(
    v: _Vector, order: _Index | None, starts: _Index, max_columns: int, max_groups: int
) -> _Vector:
    """Return the nearest vector with few nonzeros in few groups.

    Parameters
    ----------
    v : shape (p,), finite
    order : shape (p,), the entries by group, then by index; None where they stand so
    starts : shape (J + 1,), where each group starts in that order, and the last ends
    max_columns, max_groups : at least 1
    """
    nearest = np.empty(len(v))
    with _vector(v, order, starts) as given:
        limits = max_columns, max_groups
        _check(_library().dbselect_project(*given, *limits, nearest.ctypes.data))
    return nearest


def support_table(
    v: _Vector, order: _Index | None, starts: _Index, max_columns: int, max_groups: int
) -> pa.StructScalar:
    """Return the best support for every pair of limits, for the arguments of `projection`.

    Returns
    -------
    entries, starts of groups among them, totals as multiples of 2 to the power of power,
    choices in bytes
    """
    with _vector(v, order, starts) as given:
        limits = max_columns, max_groups
        return _array(partial(_library().dbselect_support_table, *given, *limits))[0]


@contextmanager
def _vector(v: _Vector, order: _Index | None, starts: _Index) -> Iterator[tuple[Any, ...]]:
    """Give a vector and its groups as the library takes them."""
    v, starts = np.ascontiguousarray(v), np.ascontiguousarray(starts, dtype=np.intp)
    order = None if order is None else np.ascontiguousarray(order, dtype=np.intp)
    at = None if order is None else order.ctypes.data
    yield v.ctypes.data, len(v), at, starts.ctypes.data, len(starts) - 1


class RandomSets:
    """Random sets that depend on a seed alone, in every engine.

    Parameters
    ----------
    seed : from 0 to 2^63 - 1
    drawn : how many numbers were drawn of it
    """

    def __init__(self, seed: int, drawn: int = 0) -> None:
        self.seed, self.drawn = seed, drawn

    def sets(self, of: _Index, size: int, count: int) -> list[list[int]]:
        """Return so many sets of some numbers, each in random order."""
        numbers = np.ascontiguousarray(of, np.uintp)
        found = np.empty((count, min(size, len(numbers))), np.uintp)
        drawn = ctypes.c_uint64(self.drawn)
        _check(
            _library().dbselect_sets(
                numbers.ctypes.data, len(numbers), size, count, self.seed,
                ctypes.addressof(drawn), found.ctypes.data,
            )
        )  # fmt: skip
        self.drawn = drawn.value
        return found.tolist()


class Penalised:
    """A quadratic on groups of columns, and a penalty of 1.

    Parameters
    ----------
    products : shape (D, D), positive semidefinite
    target : shape (D,), in its range
    starts : shape (J + 1,), where the columns of each group begin, and the last end
    norm : shape (J,), on the norm of each group
    absolute : shape (D,), on the absolute value of each column
    square : shape (J,), on half the square of each group's norm
    """

    def __init__(
        self,
        products: npt.NDArray[Any],
        target: npt.NDArray[Any],
        starts: npt.NDArray[Any],
        norm: npt.NDArray[Any],
        absolute: npt.NDArray[Any],
        square: npt.NDArray[Any],
    ) -> None:
        numbers = (products, target, norm, absolute, square)
        self._parts = [np.ascontiguousarray(part, np.float64) for part in numbers]
        self._parts.insert(2, np.ascontiguousarray(starts, np.intp))

    def at(self, penalties: _Vector | None, count: int, ratio: float = 0.0) -> _Penalised:
        """Return it as the library takes it, which keeps no array alive."""
        before, after = self._parts[:3], self._parts[3:]
        return _Penalised(
            *(part.ctypes.data for part in before),
            len(self._parts[2]) - 1,
            *(part.ctypes.data for part in after),
            None if penalties is None else penalties.ctypes.data,
            count,
            ratio,
        )


def penalised_path(
    asked: Penalised, grid: _Vector | tuple[int, float], turn: Callable[[], object]
) -> dict[str, _Vector]:
    """Return the minimum at each of some falling penalties, and what describes it.

    Parameters
    ----------
    grid : penalties, or how many and the last as a share of the first
    turn : is called after each penalty

    Raises
    ------
    RecordError : the columns are such as no rows have
    What `turn` raises
    """
    raised: list[BaseException] = []

    def turned(_: int, __: bool, ___: float) -> None:
        turn()

    turns = _turns(turned, raised)
    next(turns)
    penalties = np.ascontiguousarray(grid, np.float64) if isinstance(grid, np.ndarray) else None
    given = asked.at(None, *grid) if penalties is None else asked.at(penalties, len(penalties))
    call = partial(_library().dbselect_penalised_path, ctypes.byref(given), _OnTurn(turns.send))
    found = _array(call)
    if raised:
        raise raised.pop()
    return {field.name: found.field(field.name)[0].values.to_numpy() for field in found.type}


def penalised_degrees(asked: Penalised, penalties: _Vector, w: _Vector) -> _Vector:
    """Return the degrees of freedom at each of L penalties; shape (L,).

    Parameters
    ----------
    w : shape (L, D), the minima
    """
    penalties, w = (np.ascontiguousarray(each, np.float64) for each in (penalties, w))
    found, given = np.empty(len(penalties)), asked.at(penalties, len(penalties))
    _check(
        _library().dbselect_penalised_degrees(ctypes.byref(given), w.ctypes.data, found.ctypes.data)
    )
    return found


def knockoff_copies(
    R: _Vector, c: _Vector, starts: _Index, rows: int, kind: str, seed: int, draws: int
) -> tuple[_Vector, _Vector]:
    """Draw knockoffs of independent columns.

    Parameters
    ----------
    R : shape (D, D), correlations of the columns
    c : shape (D,), those with the target
    starts : shape (J + 1,), where the columns of each group begin, and the last end
    rows : at least D + 2, and 2 D + 1 of kind ``"fixed"``
    kind : ``"fixed"`` or ``"second_order"``

    Returns
    -------
    S, shape (D, D): knockoffs have correlations R - S with the columns; those that they have with
    the target in each draw, shape (draws, D)
    """
    R, c = (np.ascontiguousarray(each, np.float64) for each in (R, c))
    starts = np.ascontiguousarray(starts, np.intp)
    S, drawn = np.empty(R.shape), np.empty((draws, len(c)))
    _check(
        _library().dbselect_knockoffs(
            R.ctypes.data, c.ctypes.data, starts.ctypes.data, len(starts) - 1, rows,
            kind == "fixed", seed, draws, S.ctypes.data, drawn.ctypes.data,
        )
    )  # fmt: skip
    return S, drawn


def knockoff_select(statistics: _Vector, q: float) -> tuple[_Vector, _Vector, Any]:
    """Return which groups knockoffs select, from how long before their copies they come.

    Parameters
    ----------
    statistics : shape (draws, J)
    q : bound on the expected share of false groups among those selected

    Returns
    -------
    share of the draws that select each group; its mean e-value; whether it is selected
    """
    statistics = np.ascontiguousarray(statistics, np.float64)
    found = np.empty((statistics.shape[1], 3))
    given = statistics.ctypes.data, *statistics.shape, q, found.ctypes.data
    _check(_library().dbselect_knockoff_select(*given))
    return found[:, 0], found[:, 1], found[:, 2] > 0


def search(
    records: pa.Array,
    method: str,
    target: str,
    given: Mapping[str, Any],
    turn: Callable[[int, bool, float], None] | None = None,
) -> pa.StructArray:
    """Search every Gram record of an array.

    Parameters
    ----------
    records : Arrow structs, with or without `missing`, `mean_low` and `terms`
    method : one of `search.compiled.METHODS`
    target : column to predict
    given : the method's options by name; groups, lists of names and globs by name; costs
    turn : of one record, called after every step with the number of the group, whether it was
        added, and the share explained. A KeyboardInterrupt in it, Ctrl-C as well, ends the
        search: the answer has the steps so far and the stop ``"INTERRUPTED"``

    Returns
    -------
    A row for each record: ``sequence``, a list of steps as in SQL, empty where there is none;
    ``status``, null, or why there is none; and where there is one ``stop`` and ``choices``, the
    names of why it ended and among which groups each step chose, ``aliased``, columns that
    depend on columns before them, and ``condition``, that of the selected columns

    Raises
    ------
    ArgumentError, ColumnError, GroupError : the method does not take what it is given
    RecordError : the array holds something else than records
    What `turn` raises, but for that

    Notes
    -----
    A search costs O(D^3) for D columns; many run on all cores, each as it would alone. The GIL is
    released, and memory beside the answer does not grow with the number of records.
    """
    raised: list[BaseException] = []
    on_turn = _followed(turn, raised)
    with _stream(_batch(records)) as first, _stream(_request(method, target, given)) as second:
        found = _array(partial(_library().dbselect_search, first, second, on_turn))
    if raised:
        # An interrupt that came too late for that, or of a record that is refused, is raised.
        is_ended = found.field("stop")[0].as_py() == "INTERRUPTED"
        if not (is_ended and isinstance(raised[0], KeyboardInterrupt)):
            raise raised.pop()
    return found


def _followed(turn: Callable[[int, bool, float], None] | None, raised: list[BaseException]) -> Any:
    """Return what the library calls after every turn, a null pointer for nothing."""
    if turn is None:
        return _OnTurn()
    turns = _turns(turn, raised)
    next(turns)
    return _OnTurn(turns.send)


def _turns(
    turn: Callable[[int, bool, float], None], raised: list[BaseException]
) -> Generator[None, Any, None]:
    """Call a function for every step that is sent, and keep what it raises.

    The library calls `send`. Of a function, Python would raise a Ctrl-C that came in between
    where it begins, outside of any ``try``, and ctypes would print it and go on; a generator goes
    on inside of its ``try``.
    """
    try:
        while True:
            step = (yield).contents
            turn(step.group, step.is_added, step.explained)
            step.goes_on = True
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
    """Ask every Gram record of an array.

    Parameters
    ----------
    records : as in `search`
    method : one that returns no sequence
    target : as in `search`
    given : the method's options by name, columns or groups and costs among them
    turn : of one record, called after every turn with what is explained, NaN if that is not known;
        the other arguments mean nothing

    Returns
    -------
    A row for each record: ``found``, what SQL returns, null where there is none; ``status``, null,
    or why there is none; and where there is one ``condition``, that of the columns, ``trace``,
    the column left out as dependent that may explain much, and ``notes``, numbers that tell how
    it was found: ``Choice::choose`` of the method

    Raises
    ------
    ArgumentError, ColumnError, RecordError : as `search`
    What `turn` raises

    Notes
    -----
    As `search`: O(D^3) a record, on all cores, without the GIL.
    """
    raised: list[BaseException] = []
    on_turn = _followed(turn, raised)
    with _stream(_batch(records)) as first, _stream(_request(method, target, given)) as second:
        found = _array(partial(_library().dbselect_answer, first, second, on_turn))
    if raised:
        raise raised.pop()
    return found


def _request(method: str, target: str, given: Mapping[str, Any]) -> pa.RecordBatch:
    """Return what is asked of every record, a row of options; what is None has its default."""
    row = {"method": method, "target": target, **given}
    there = {name: value for name, value in row.items() if value is not None}
    columns = [pa.array([value], _MAPS.get(name)) for name, value in there.items()]
    return pa.RecordBatch.from_arrays(columns, list(there))


def check(records: pa.Array, target: str) -> pa.StringArray:
    """Say of every Gram record why it cannot be searched for a target; NULL if it can.

    Parameters
    ----------
    records, target : as in `search`

    Raises
    ------
    ColumnError : a record has no such column
    RecordError : the array holds something else than records
    """
    with _stream(_batch(records)) as stream:
        return _array(partial(_library().dbselect_check, stream, target.encode()))


class RowPredictor:
    """Predicts single rows from whatever groups they have, from several threads at once.

    Parameters
    ----------
    record : array of one Gram record
    asked : JSON of the target and the options
    """

    def __init__(self, record: pa.Array, asked: str) -> None:
        handle = ctypes.c_void_p()
        with _stream(_batch(record)) as stream:
            _check(_library().dbselect_arrived_new(stream, asked.encode(), ctypes.byref(handle)))
        self._handle, self._row = handle, _library().dbselect_arrived_row
        weakref.finalize(self, _library().dbselect_arrived_free, handle)

    def predict(self, row: bytes, budget: float) -> bytes:
        """Return the prediction of a row, JSON of JSON."""
        found = ctypes.c_void_p()
        error = self._row(self._handle, row, len(row), budget, ctypes.byref(found))
        if error:
            _check(error)
        text = ctypes.string_at(found)
        _library().dbselect_text_free(found)
        return text


def _batch(records: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([records], ["gram"])


@contextmanager
def _stream(table: Any) -> Iterator[int]:
    """Give the address of the Arrow C stream of a table."""
    capsule = table.__arrow_c_stream__()
    stream = ctypes.pythonapi.PyCapsule_GetPointer
    stream.restype, stream.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    yield stream(capsule, b"arrow_array_stream")


def _array(call: Callable[[int, int], int | None]) -> Any:
    """Return the Arrow array that a call writes."""
    # The structures of the Arrow C data interface are 80 and 72 bytes long.
    array, schema = ctypes.create_string_buffer(80), ctypes.create_string_buffer(72)
    addresses = ctypes.addressof(array), ctypes.addressof(schema)
    _check(call(*addresses))
    return pa.Array._import_from_c(*addresses)


def letters(policies: Sequence[str]) -> str:
    """Return policies as the library takes them, a letter each."""
    return "".join(_LETTERS[policy] for policy in policies)


def _texts(texts: Sequence[str]) -> tuple[Any, int]:
    encoded = [text.encode() for text in texts]
    return (ctypes.c_char_p * len(encoded))(*encoded), len(encoded)


def _check(error: int | None) -> None:
    if error:
        message = ctypes.string_at(error).decode(errors="replace")
        _library().dbselect_text_free(error)
        kind, _, sentence = message.partition(": ")
        if kind in _ERRORS:
            raise _ERRORS[kind](sentence)
        raise DataError(message)
