"""DuckDB: native aggregates, functions for selection, and macros with named arguments."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from itertools import count, pairwise
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import duckdb
import polars as pl
import pyarrow as pa

from dbselect.doors.extension import LOWEST_DUCKDB, extension_path
from dbselect.errors import ArgumentError, EngineError, SourceError, shown
from dbselect.methods.anytime import sequence_in_passes
from dbselect.options.names import PROBLEM_FIELDS
from dbselect.options.option import REQUIRED, options_of
from dbselect.options.option import checked_options as check_options
from dbselect.problem.problem import Problem
from dbselect.record.gram import RECORD_TYPE, Gram
from dbselect.record.steps import STEP_TYPE
from dbselect.results.glm.store import GLM_TYPE, to_scalar
from dbselect.results.store import write_sequences
from dbselect.sources.joins.key_sums import KeySums
from dbselect.spec.fields import ProblemOptions
from dbselect.spec.methods import OF_RECORDS, Method, places_of
from dbselect.spec.options import AnytimeOptions, LedOptions

_SQL_TYPES = {
    pa.int64(): "BIGINT",
    pa.string(): "VARCHAR",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
}
_GROUPS = ("groups", "costs")
#: Reserved words of SQL -> names of their parameters.
RESERVED = {"offset": "offset_column", "limit": '"limit"'}


@dataclass(frozen=True)
class Macro:
    """An SQL macro: its parameters, and the function that it calls."""

    name: str
    first: tuple[str, ...]  # parameters without a default
    placed: tuple[str, ...]  # positional parameters with a default
    named: tuple[str, ...]  # parameters passed by name, collected in one STRUCT
    call: str  # the function, with arguments before those of the macro
    direct: int  # number of parameters passed directly; the others go into the STRUCT

    @property
    def parameters(self) -> dict[str, str]:
        """Name of each parameter in the macro -> its name in the function."""
        return {RESERVED.get(name, name): name for name in (*self.first, *self.placed, *self.named)}

    @property
    def head(self) -> str:
        """The name of the macro with its parameters and defaults."""
        defaults = ["", " := NULL"]
        parameters = [
            key + defaults[name not in self.first] for key, name in self.parameters.items()
        ]
        return f"{self.name}({', '.join(parameters)})"

    @property
    def statement(self) -> str:
        """The statement that creates the macro."""
        keys = list(self.parameters)
        fields = [f"'{name}': {key}" for key, name in self.parameters.items()][self.direct :]
        arguments = [*keys[: self.direct], f"{{{', '.join(fields)}}}"]
        return f"CREATE OR REPLACE TEMP MACRO {self.head} AS {self.call}{', '.join(arguments)});"


def texts() -> dict[str, str]:
    """Return the statement of every macro by name; those in ``sql/`` with their comments."""
    statements = {macro.name: macro.statement for macro in made()}
    for file in resources.files("dbselect.sql").iterdir():
        if file.name.endswith(".sql"):
            statements[file.name.removesuffix(".sql")] = file.read_text()
    return dict(sorted(statements.items()))


def made() -> list[Macro]:
    """Return the macros that are made from options."""
    of_rows = [key for key in options_of(ProblemOptions) if key not in ("family", "gram", "terms")]
    of_wide = ("weight", "scale", "ridge", "null_policy", "always", "rows", "seed")
    first = ("query_or_table", "target")
    return [
        *(_of_record(name, method) for name, method in OF_RECORDS.items()),
        _of_table("anytime_sequence_glm", (*first, "family"), of_rows, ("c_min", "screen")),
        _of_table("anytime_sequence_wide", first, of_wide, ("max_iter", "tol")),
    ]


def sql_type(type_: pa.DataType) -> str:
    """Return the SQL name of an Arrow type."""
    if isinstance(type_, pa.StructType):
        fields = ", ".join(f'"{field.name}" {sql_type(field.type)}' for field in type_)
        return f"STRUCT({fields})"
    if isinstance(type_, pa.MapType):
        return f"MAP({sql_type(type_.key_type)}, {sql_type(type_.item_type)})"
    if isinstance(type_, pa.ListType):
        return f"{sql_type(type_.value_type)}[]"
    return _SQL_TYPES[type_]


def _of_record(name: str, method: Method) -> Macro:
    """Return the macro of a method of a record: positional parameters, then options by name."""
    places = places_of(method)
    required = [place for place in places if method.known[place].default is REQUIRED]
    first = ("record", "target", *required)
    placed = (*(place for place in places if place not in required), "options")
    groups = () if "columns" in places else _GROUPS
    options = (key for key in method.in_engines if key not in places)
    named = (*groups, *options, *method.fields_in_engines)
    return Macro(name, first, placed, named, f"system.main.{name}(", len(first) + len(placed))


def _of_table(
    name: str, first: tuple[str, ...], fields: Iterable[str], without: tuple[str, ...]
) -> Macro:
    """Return a macro of `anytime_sequence` for a table that is read in passes."""
    excluded = ("callback", "resume", *options_of(LedOptions), *without)
    options = (key for key in options_of(AnytimeOptions) if key not in excluded)
    function = name.replace("anytime", "dbselect")
    call = f"{function}(getvariable('dbselect_connection'), current_setting('search_path'), "
    return Macro(name, first, ("options",), (*_GROUPS, *options, *fields), call, len(first))


#: Arguments that are fields of the problem.
_FIELDS = ("groups", "costs", *PROBLEM_FIELDS)

#: The registered connections, weakly: a reference in a function would keep the database open.
_CONNECTIONS: WeakValueDictionary[int, duckdb.DuckDBPyConnection] = WeakValueDictionary()
_NUMBERS = count(1)


def connect(
    database: str | Path = ":memory:",
    read_only: bool = False,
    config: Mapping[str, Any] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB database with the extension loaded and all functions registered.

    Parameters
    ----------
    database : path of the database, or ``":memory:"``
    read_only : whether to open it for reading only
    config : DuckDB settings, such as ``{"threads": 4}``. A new file has the storage version of
        DuckDB 1.3, the oldest with the extension, unless ``storage_compatibility_version`` is set

    Returns
    -------
    duckdb connection; ``allow_unsigned_extensions`` is on for the whole database

    Raises
    ------
    EngineError : the database is already open with other settings

    Examples
    --------
    >>> import dbselect as ds
    >>> con = ds.connect()
    >>> con.execute("SELECT (gram({'x': i})).mean FROM range(5) t(i)").fetchone()
    ([2.0],)
    """
    storage = {"storage_compatibility_version": f"v{LOWEST_DUCKDB}.0"}
    settings = {**storage, **(config or {}), "allow_unsigned_extensions": True}
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
    """Register the SQL functions on a connection; a second call has no effect.

    The aggregates and functions are registered for the whole database. The macros with
    named arguments are temporary objects of this connection, so nothing is
    written to the database; register a cursor, too, to use them on it.

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
    names = ", ".join(f"'{name}'" for name in ("gram_merge", *_FUNCTIONS))
    rows = connection.execute(
        f"SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name IN ({names})"
    ).fetchall()
    registered = {name for (name,) in rows}
    if "gram_merge" not in registered:
        _load(connection)
    as_arrow: Any = {"type": "arrow", "null_handling": "special"}
    for name, (function, returns) in _FUNCTIONS.items():
        if name not in registered:
            reads_tables = name in _READING
            connection.create_function(
                name, function, None, returns, side_effects=reads_tables, **as_arrow
            )
    connection.execute(f"SET VARIABLE dbselect_connection = {_number_of(connection)}")
    for text in texts().values():
        connection.execute(text)


def _load(connection: duckdb.DuckDBPyConnection) -> None:
    row = connection.execute("PRAGMA platform").fetchone()
    platform = row[0] if row else ""
    path = extension_path(platform)
    if not path.exists():  # another process has removed it as unused
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


def _merged_options(method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Merge arguments given by name with those in a STRUCT of options."""
    by_name = dict(arguments)
    options = by_name.pop("options", {})
    for name, value in arguments.items():
        # A STRUCT in place of the list of columns is the options.
        if name in ("columns", "tested") and isinstance(value, dict):
            options = by_name.pop(name)
    if not isinstance(options, dict):
        raise ArgumentError(f"options is {shown(options)}; it must be a STRUCT of options by name")
    # Field names of a STRUCT are case-insensitive.
    options = {name.lower(): value for name, value in options.items() if value is not None}
    for name in by_name:
        if name in options:
            raise ArgumentError(f"{method} is given {name} twice")
    return by_name | options


def _glm_sequences(*chunks: pa.ChunkedArray) -> pa.StructArray:
    """Implement `dbselect_sequence_glm(connection, path, table, target, family, options)`."""
    records = _of_tables(
        "anytime_sequence_glm", chunks,
        lambda problem, options: to_scalar(sequence_in_passes(problem, **options).to_struct()),
        lambda family: {"family": family},
    )  # fmt: skip
    return pa.array(records, GLM_TYPE)


def _wide_sequences(*chunks: pa.ChunkedArray) -> pa.ListArray:
    """Implement `dbselect_sequence_wide(connection, path, table, target, options)`."""
    sequences = _of_tables(
        "anytime_sequence_wide", chunks,
        lambda problem, options: problem.anytime_sequence(**options), lambda: {"gram": "lazy"},
    )  # fmt: skip
    return write_sequences(sequences)


def _of_tables(
    method: str,
    chunks: Sequence[pa.ChunkedArray],
    answer: Callable[[Problem, dict[str, Any]], Any],
    fields: Callable[..., dict[str, Any]],
) -> list[Any]:
    """Return one answer per row, computed once for equal rows; None without a table."""
    *columns, options_column = map(_combined, chunks)
    answers: list[Any] = []
    for start, end in _runs(*columns, *options_column.flatten()):
        number, path, table, target, *rest = (column[start].as_py() for column in columns)
        result = None
        if table is not None:
            arguments = _merged_options(method, _options_of(options_column[start])) | fields(*rest)
            options = {name: value for name, value in arguments.items() if name not in _FIELDS}
            # Refuse invalid options before reading a table.
            check_options(AnytimeOptions, "anytime_sequence", options)
            problem_fields = {name: value for name, value in arguments.items() if name in _FIELDS}
            problem = Problem(None, target, **problem_fields)
            with _reading(number, path, table) as relation:
                result = answer(problem.on(relation), options)
        answers += [result] * (end - start)
    return answers


def _number_of(connection: duckdb.DuckDBPyConnection) -> int:
    """Return a number by which functions find a connection while it exists."""
    number = next(_NUMBERS)
    _CONNECTIONS[number] = connection
    return number


@contextmanager
def _reading(number: int | None, path: str, source: str) -> Iterator[duckdb.DuckDBPyRelation]:
    """Open a committed table or query on a cursor with the search path of the calling query."""
    connection = None if number is None else _CONNECTIONS.get(number)
    if connection is None:
        raise EngineError(
            "the connection that dbselect.register was given is closed; keep it open "
            "while queries run"
        )
    with connection.cursor() as cursor:
        # Names must be those of the database, not of Python variables.
        cursor.execute("SET python_enable_replacements = false")
        cursor.execute("SET search_path = ?", [path])
        # The calling query may show its own progress bar.
        cursor.execute("SET enable_progress_bar = false")
        cursor.execute("BEGIN TRANSACTION READ ONLY")
        query = _query(cursor, source)
        try:
            relation = cursor.sql(query)
        except duckdb.Error as error:
            hint = "; only what is committed is seen, and no temporary table or view"
            if not isinstance(error, duckdb.CatalogException):
                hint = ""
            reason = " ".join(str(error).split())
            raise SourceError(f"DuckDB cannot read {source!r}: {reason}{hint}") from error
        yield relation


def _query(cursor: duckdb.DuckDBPyConnection, source: str) -> str:
    if not isinstance(source, str):
        raise SourceError(
            "query_or_table is no text, but a record or another value; families need the rows, so "
            "give the name of a table or view, or one query, as 'FROM loans'"
        )
    for text in (source, f"FROM {source}"):
        try:
            statements = cursor.extract_statements(text)
        except duckdb.ParserException:
            continue
        if [statement.type for statement in statements] == [duckdb.StatementType.SELECT]:
            return text
        break
    raise SourceError(
        f"query_or_table is {source!r}; it must be the name of a table or view, or one query"
    )


def _runs(*arguments: pa.Array) -> list[tuple[int, int]]:
    """Return the start and end of each run of rows with equal arguments."""
    rows = len(arguments[0])
    # DuckDB passes constants as full columns.
    varied = [column for column in arguments if not column[1:].equals(column[:-1])]
    starts = [
        row for row in range(rows)
        if not row or any(not column[row].equals(column[row - 1]) for column in varied)
    ]  # fmt: skip
    return list(pairwise([*starts, rows]))


def _options_of(options: pa.StructScalar) -> dict[str, Any]:
    """Return the options of a row; NULL means the default."""
    values = {name: _python_value(value) for name, value in options.as_py().items()}
    return {name: value for name, value in values.items() if value is not None}


def _extended(*arguments: pa.ChunkedArray) -> pa.StructArray:
    """Implement `dbselect_extend(record, sums, table, options)`; sums and table are lists."""
    records, sums, tables, options = (_combined(argument) for argument in arguments)
    extended = [
        _with_table(records[row], sums[row], tables[row], _options_of(options[row]))
        for row in range(len(records))
    ]
    return pa.array(extended, PLAIN_RECORD)


def _with_table(
    record: pa.StructScalar, sums: pa.ListScalar, rows: pa.ListScalar, options: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Extend a record by a table, given as a list of rows; None if an argument is NULL."""
    if not (record.is_valid and sums.is_valid and rows.is_valid):
        return None
    type_ = sums.type.value_type
    if not (
        pa.types.is_struct(type_)
        and type_.names == ["key", "gram"]
        and pa.types.is_struct(type_.field("key").type)
    ):
        raise ArgumentError(f"sums is a list of {type_}; it must be key_sums({{'k': k}}, gram)")
    if not pa.types.is_struct(rows.type.value_type):
        raise ArgumentError(
            f"table is a list of {rows.type.value_type}; it must list rows: (SELECT list(t) FROM t)"
        )
    parts = sums.values.flatten()
    keys = pl.DataFrame(pa.Table.from_struct_array(parts[0]))
    table = keys.with_columns(pl.Series("gram", pl.from_arrow(parts[1])))
    joined = pa.Table.from_struct_array(rows.values)
    gram = Gram.from_struct(record)
    return gram.extend(KeySums.from_records(table), joined, **options).to_struct()


def _python_value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: _python_value(item) for name, item in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {name: _python_value(item) for name, item in value}  # a MAP
    return value


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _plain(type_: pa.DataType) -> pa.DataType:
    """Replace large lists and texts in a type by the types of DuckDB."""
    if pa.types.is_large_list(type_):
        return pa.list_(_plain(type_.value_type))
    return pa.string() if pa.types.is_large_string(type_) else type_


#: Type of a record in DuckDB.
PLAIN_RECORD = pa.struct([(field.name, _plain(field.type)) for field in RECORD_TYPE])


_FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "dbselect_sequence_glm": (_glm_sequences, sql_type(GLM_TYPE)),
    "dbselect_sequence_wide": (_wide_sequences, sql_type(pa.list_(STEP_TYPE))),
    "dbselect_extend": (_extended, sql_type(PLAIN_RECORD)),
}
#: Functions that read tables, so that their results depend on more than their arguments.
_READING = {"dbselect_sequence_glm", "dbselect_sequence_wide"}
