"""The door to DuckDB: native aggregates, selection as functions, macros from ``sql/``."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from dbselect.doors.designs import chosen_of
from dbselect.doors.extension import extension_path
from dbselect.doors.sequences import STEP_TYPE, plain, sequence_of, write_sequences
from dbselect.errors import EngineError, RecordError
from dbselect.gram import Gram
from dbselect.objectives.linear import unusable

_SEQUENCE_TYPE = (
    'STRUCT(step BIGINT, action VARCHAR, "group" VARCHAR, cost DOUBLE, spent DOUBLE, '
    "score DOUBLE, gain DOUBLE, explained DOUBLE, r2 DOUBLE, useful BOOLEAN, "
    "intercept DOUBLE, coefficients MAP(VARCHAR, DOUBLE))[]"
)
#: DuckDB calls from several threads, which would only take the interpreter from each other.
_TURN = Lock()
_OPTIONS = ("groups", "costs", "rule", "ridge", "budget", "max_groups", "always")


def connect(
    database: str | Path = ":memory:",
    read_only: bool = False,
    config: Mapping[str, Any] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB database that takes the extension, with all functions registered.

    Parameters
    ----------
    database : path of the database, or ``":memory:"``
    read_only : whether to open it for reading only
    config : DuckDB settings, such as ``{"threads": 4}``

    Returns
    -------
    duckdb connection; ``allow_unsigned_extensions`` is on for the whole database

    Raises
    ------
    EngineError : the database is open already with other settings

    Examples
    --------
    >>> import dbselect as ds
    >>> con = ds.connect()
    >>> con.execute("SELECT (gram({'x': i})).mean FROM range(5) t(i)").fetchone()
    ([2.0],)
    """
    settings = {**(config or {}), "allow_unsigned_extensions": True}
    try:
        connection = duckdb.connect(str(database), read_only=read_only, config=settings)
    except duckdb.ConnectionException as error:
        raise EngineError(
            f"cannot open '{database}': {error}; a database that is open already keeps its settings"
        ) from error
    try:
        register(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Add the SQL functions to a connection; a second call is harmless.

    The aggregates and functions hold for the whole database. The macros that give
    them named arguments are temporary objects of this connection, so nothing is
    written to the database; a cursor that uses them is registered, too.

    Raises
    ------
    EngineError : the database refuses unsigned extensions
    """
    known = _functions(connection)
    if "gram_merge" not in known:
        _load(connection)
    as_arrow: Any = {"type": "arrow", "null_handling": "special"}
    if "dbselect_sequence" not in known:
        connection.create_function("dbselect_sequence", _sequence, None, _SEQUENCE_TYPE, **as_arrow)
    if "dbselect_check" not in known:
        connection.create_function("dbselect_check", _check, None, "VARCHAR", **as_arrow)
    if "dbselect_a_optimal" not in known:
        connection.create_function("dbselect_a_optimal", _a_optimal, None, "BIGINT[]", **as_arrow)
    for file in sorted(resources.files("dbselect.sql").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            connection.execute(file.read_text())


def _functions(connection: duckdb.DuckDBPyConnection) -> set[str]:
    rows = connection.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() "
        "WHERE function_name IN "
        "('gram_merge', 'dbselect_sequence', 'dbselect_check', 'dbselect_a_optimal')"
    ).fetchall()
    return {name for (name,) in rows}


def _load(connection: duckdb.DuckDBPyConnection) -> None:
    row = connection.execute("PRAGMA platform").fetchone()
    path = extension_path(row[0] if row else "")
    try:
        connection.execute(f"LOAD '{str(path).replace(chr(39), chr(39) * 2)}'")
    except duckdb.Error as error:
        if "unsigned" not in str(error) and "signature" not in str(error):
            raise EngineError(f"DuckDB cannot load the extension: {error}") from error
        raise EngineError(
            "this database refuses unsigned extensions; open it with dbselect.connect(), or with "
            "duckdb.connect(config={'allow_unsigned_extensions': True}); without the extension, "
            "dbselect.gram(con.sql(...)) works on every connection"
        ) from None


def _sequence(*arguments: pa.ChunkedArray) -> pa.ListArray:
    """Answer a chunk of `dbselect_sequence(record, target, options...)`."""
    records, targets, *options = (_flat(argument) for argument in arguments)
    if len(records) == 0:
        return pa.array([], pa.list_(STEP_TYPE))
    read = _Options(options)
    with _TURN:
        return write_sequences(
            sequence_of(record, target.as_py(), **read.at(row))
            for row, (record, target) in enumerate(zip(records, targets, strict=True))
        )


class _Options:
    """Options row by row; a value that repeats is converted once."""

    def __init__(self, columns: list[pa.Array]) -> None:
        self._columns = columns
        self._last: list[pa.Scalar | None] = [None] * len(columns)
        self._values: dict[str, Any] = {}

    def at(self, row: int) -> dict[str, Any]:
        """Return the options of a row; NULL means the default."""
        for i, (name, column) in enumerate(zip(_OPTIONS, self._columns, strict=True)):
            scalar = column[row]
            last = self._last[i]
            if last is None or not scalar.equals(last):
                self._last[i] = scalar
                value = plain(scalar.as_py())
                if value is None:
                    self._values.pop(name, None)
                else:
                    self._values[name] = value
        return self._values


def _check(records: pa.ChunkedArray, targets: pa.ChunkedArray) -> pa.Array:
    """Answer a chunk of `dbselect_check(record, target)`."""
    return pa.array(
        [
            _reason(record, target.as_py())
            for record, target in zip(_flat(records), _flat(targets), strict=True)
        ],
        pa.string(),
    )


def _reason(record: pa.Scalar, target: str) -> str | None:
    if not record.is_valid:
        return "no rows"
    try:
        gram = Gram.from_struct(record)
    except RecordError as error:
        return str(error)
    return unusable(gram, target)


def _a_optimal(*arguments: pa.ChunkedArray) -> pa.ListArray:
    """Answer a chunk of `dbselect_a_optimal(candidates, k, options...)`.

    Candidates are lists of STRUCT(key, row); places in them come back, counted from 1.
    """
    lists, *options = (_flat(argument) for argument in arguments)
    with _TURN:
        places = [
            _places(candidates, *(plain(option[i].as_py()) for option in options))
            for i, candidates in enumerate(lists)
        ]
    return pa.array(places, pa.list_(pa.int64()))


def _places(candidates: pa.ListScalar, k: Any, *options: Any) -> list[int] | None:
    if not candidates.is_valid:
        return None
    names = ("beta2", "sigma2", "scale_rows")
    # NULL means the default.
    given = {name: value for name, value in zip(names, options, strict=True) if value is not None}
    return [at + 1 for at in chosen_of(candidates.values.field("row"), k, **given)]


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
