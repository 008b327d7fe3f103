"""The door to DuckDB: native aggregates, selection as functions, macros from ``sql/``."""

from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from dbselect.doors.designs import chosen_of
from dbselect.doors.extension import extension_path
from dbselect.doors.lookups import PLAIN_RECORD, with_table
from dbselect.doors.results import (
    MODEL_TYPE,
    MODELS,
    PROVEN,
    PROVEN_TYPE,
    SEQUENCES,
    Method,
    plain,
)
from dbselect.doors.tables import number_of, reading
from dbselect.errors import ArgumentError, EngineError
from dbselect.methods.family_options import AnytimeGlmOptions
from dbselect.methods.fit_glm import glm_sequence
from dbselect.methods.setup import check_target
from dbselect.record.steps import STEP_TYPE
from dbselect.results.glm.store import GLM_TYPE, to_scalar

_SQL_TYPES = {
    pa.int64(): "BIGINT",
    pa.string(): "VARCHAR",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
}
#: DuckDB calls from several threads; those that run in Python would only take the interpreter
#: from each other. The compiled library runs without it.
_TURN = Lock()


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

    Parameters
    ----------
    connection : of a database opened with ``allow_unsigned_extensions``

    Raises
    ------
    EngineError : the database refuses unsigned extensions

    Examples
    --------
    >>> import dbselect as ds
    >>> import duckdb
    >>> con = duckdb.connect(config={"allow_unsigned_extensions": True})
    >>> ds.register(con)
    >>> con.execute("SELECT (gram({'x': i})).rows FROM range(5) t(i)").fetchall()
    [(5,)]
    """
    known = _functions(connection)
    if "gram_merge" not in known:
        _load(connection)
    as_arrow: Any = {"type": "arrow", "null_handling": "special"}
    for name, (function, returns) in _FUNCTIONS.items():
        if name not in known:
            reads = name in _READING
            connection.create_function(
                name, function, None, returns, side_effects=reads, **as_arrow
            )
    connection.execute(f"SET VARIABLE dbselect_connection = {number_of(connection)}")
    for file in sorted(resources.files("dbselect.sql").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            connection.execute(file.read_text())


def _functions(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Return those of our functions that the database has."""
    names = ", ".join(f"'{name}'" for name in ("gram_merge", *_FUNCTIONS))
    rows = connection.execute(
        f"SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name IN ({names})"
    ).fetchall()
    return {name for (name,) in rows}


def _load(connection: duckdb.DuckDBPyConnection) -> None:
    row = connection.execute("PRAGMA platform").fetchone()
    platform = row[0] if row else ""
    path = extension_path(platform)
    if not path.exists():  # another process has taken it for one that nobody needs
        path = extension_path(platform)
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


def _sequences(*arguments: pa.ChunkedArray) -> pa.ListArray:
    """Answer a chunk of `dbselect_sequence(method, record, target, options)`.

    Macros call it for a rule that only Python has, the functions of the extension for all others.
    """
    return _answer(SEQUENCES, pa.list_(STEP_TYPE), *arguments)


def _models(*arguments: pa.ChunkedArray) -> pa.StructArray:
    """Answer a chunk of `dbselect_model(method, record, target, options)`."""
    with _TURN:
        return _answer(MODELS, MODEL_TYPE, *arguments)


def _proven(*arguments: pa.ChunkedArray) -> pa.StructArray:
    """Answer a chunk of `dbselect_proven(method, record, target, options)`."""
    with _TURN:
        return _answer(PROVEN, PROVEN_TYPE, *arguments)


def _answer(
    methods: Mapping[str, Method],
    empty: pa.DataType,
    names: pa.ChunkedArray,
    records: pa.ChunkedArray,
    targets: pa.ChunkedArray,
    options: pa.ChunkedArray,
) -> pa.Array:
    if len(records) == 0:
        return pa.array([], empty)
    method = methods[names[0].as_py()]
    records, targets, options = _flat(records), _flat(targets), _flat(options)
    read = _Options(options)
    return pa.concat_arrays(
        _run(method, records[start:end], targets[start].as_py(), _spread(read.at(start)))
        for start, end in _runs(targets, *options.flatten())
    )


def _spread(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was given by name, and in a STRUCT as the native functions take it."""
    named = dict(given)
    options = named.pop("options", {})
    if not isinstance(options, dict):
        raise ArgumentError("options must be a STRUCT, as {'budget': 5}")
    # A parameter at its default cannot be told from one that is not given.
    return named | {name: value for name, value in options.items() if value is not None}


def _run(method: Method, records: pa.Array, target: Any, given: Mapping[str, Any]) -> pa.Array:
    """Read the options, and then the records."""
    check_target(target)
    return method.run(records, target, method.read(given))


def _glm_sequences(
    connections: pa.ChunkedArray,
    paths: pa.ChunkedArray,
    tables: pa.ChunkedArray,
    targets: pa.ChunkedArray,
    families: pa.ChunkedArray,
    options: pa.ChunkedArray,
) -> pa.StructArray:
    """Answer a chunk of `dbselect_sequence_glm(connection, path, table, target, ...)`.

    Not in turn: a query that is read may call other functions of ours.
    """
    if len(tables) == 0:
        return pa.array([], GLM_TYPE)
    given = [_flat(column) for column in (connections, paths, tables, targets, families)]
    options = _flat(options)
    read = _Options(options)
    found: list[dict[str, Any] | None] = []
    for start, end in _runs(*given, *options.flatten()):
        number, path, table, target, family = (column[start].as_py() for column in given)
        record = None
        if table is not None:
            arguments = dict(read.at(start))
            groups, costs = arguments.pop("groups", None), arguments.pop("costs", None)
            known = AnytimeGlmOptions.read({"family": family, **arguments})
            with reading(number, path, table) as relation:
                sequence = glm_sequence(relation, target, groups, costs, known)
            record = to_scalar(sequence.to_struct())
        found += [record] * (end - start)
    return pa.array(found, GLM_TYPE)


def _runs(*arguments: pa.Array) -> list[tuple[int, int]]:
    """Return where rows of the same arguments begin and end, one run after the other."""
    rows = len(arguments[0])
    # DuckDB fills a column with what is usually one constant.
    varied = [column for column in arguments if not column[1:].equals(column[:-1])]
    starts = [0] + [
        row for row in range(1, rows) for column in varied[:1]
        if any(not column[row].equals(column[row - 1]) for column in varied)
    ]  # fmt: skip
    return list(zip(starts, [*starts[1:], rows], strict=True))


class _Options:
    """A struct of options row by row; a value that repeats is converted once."""

    def __init__(self, options: pa.StructArray) -> None:
        self._columns = dict(zip(options.type.names, options.flatten(), strict=True))
        self._last: dict[str, pa.Scalar] = {}
        self._values: dict[str, Any] = {}

    def at(self, row: int) -> dict[str, Any]:
        """Return the options of a row; NULL means the default."""
        for name, column in self._columns.items():
            scalar = column[row]
            if name not in self._last or not scalar.equals(self._last[name]):
                self._last[name] = scalar
                value = plain(scalar.as_py())
                if value is None:
                    self._values.pop(name, None)
                else:
                    self._values[name] = value
        return self._values


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


def _extended(*arguments: pa.ChunkedArray) -> pa.StructArray:
    """Answer a chunk of `dbselect_extend(record, sums, table, options)`.

    Sums are lists of STRUCT(key, gram), tables lists of their rows.
    """
    records, sums, tables, options = (_flat(argument) for argument in arguments)
    if len(records) == 0:
        return pa.array([], PLAIN_RECORD)
    read = _Options(options)
    with _TURN:
        found = [
            with_table(records[row], sums[row], tables[row], read.at(row))
            for row in range(len(records))
        ]
    return pa.array(found, PLAIN_RECORD)


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _sql_type(type_: pa.DataType) -> str:
    """Return what an Arrow type is called in SQL."""
    if isinstance(type_, pa.StructType):
        fields = ", ".join(f'"{field.name}" {_sql_type(field.type)}' for field in type_)
        return f"STRUCT({fields})"
    if isinstance(type_, pa.MapType):
        return f"MAP({_sql_type(type_.key_type)}, {_sql_type(type_.item_type)})"
    if isinstance(type_, pa.ListType):
        return f"{_sql_type(type_.value_type)}[]"
    return _SQL_TYPES[type_]


_FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "dbselect_sequence": (_sequences, _sql_type(pa.list_(STEP_TYPE))),
    "dbselect_model": (_models, _sql_type(MODEL_TYPE)),
    "dbselect_proven": (_proven, _sql_type(PROVEN_TYPE)),
    "dbselect_sequence_glm": (_glm_sequences, _sql_type(GLM_TYPE)),
    "dbselect_a_optimal": (_a_optimal, "BIGINT[]"),
    "dbselect_extend": (_extended, _sql_type(PLAIN_RECORD)),
}
#: Those that read tables: what they return is more than what they are given.
_READING = {"dbselect_sequence_glm"}
