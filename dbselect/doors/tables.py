"""Tables that an SQL function reads by itself, while the query that calls it is running.

It reads on a cursor, in a transaction of its own that sees what was committed when the call began.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from weakref import WeakValueDictionary

import duckdb

from dbselect.errors import EngineError, SourceError

#: The registered connections; a function that kept one would keep its database open.
_CONNECTIONS: WeakValueDictionary[int, duckdb.DuckDBPyConnection] = WeakValueDictionary()
_NUMBERS = count(1)


def number_of(connection: duckdb.DuckDBPyConnection) -> int:
    """Return a number by which functions find a connection for as long as it lives."""
    number = next(_NUMBERS)
    _CONNECTIONS[number] = connection
    return number


@contextmanager
def reading(number: int | None, path: str, source: str) -> Iterator[duckdb.DuckDBPyRelation]:
    """Open a table, view or query on a cursor, with a search path for its names."""
    connection = None if number is None else _CONNECTIONS.get(number)
    if connection is None:
        raise EngineError(
            "the connection that dbselect.register was given is closed; keep it open "
            "while queries run"
        )
    with connection.cursor() as cursor:
        # Names are those of the database, not of variables that happen to be in Python.
        cursor.execute("SET python_enable_replacements = false")
        cursor.execute("SET search_path = ?", [path])
        # The query that calls may show one.
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
    """Return the query that a name or a text means."""
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
        if [one.type for one in statements] == [duckdb.StatementType.SELECT]:
            return text
        break
    raise SourceError(
        f"query_or_table is {source!r}; it must be the name of a table or view, or one query"
    )
