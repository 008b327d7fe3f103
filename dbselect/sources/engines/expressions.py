"""Expressions of ibis for the values of a column: numbers, levels and their counts."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import ibis
import polars as pl
import sqlglot

from dbselect.errors import SourceError
from dbselect.record.categories import Category
from dbselect.record.columns import Leaf


class NotSummedError(Exception):
    """An engine, or ibis for it, lacks an operation that the sums need."""


def run(query: Any) -> pl.DataFrame:
    """Run a query whose result has few rows."""
    try:
        return pl.DataFrame(pl.from_arrow(query.to_pyarrow()))
    except (
        ibis.common.exceptions.OperationNotDefinedError,
        ibis.common.exceptions.UnsupportedOperationError,
    ) as error:
        raise NotSummedError(str(error)) from None
    except Exception as error:  # the errors of engines have no common base class
        raise SourceError(f"ibis cannot sum the table: {error}") from error


def run_text(table: Any, keys: Sequence[str], sums: Mapping[str, str]) -> pl.DataFrame:
    """Run a query of very many sums as SQL text, which ibis would take seconds to build."""
    engine = table.get_backend()
    columns = {name: _quoted(name, engine) for name in table.columns}
    key_columns = [columns[key] for key in keys]
    named = (f"{text.format(**columns)} AS {_quoted(name, engine)}" for name, text in sums.items())
    listed = ", ".join([*key_columns, *named])
    rest = f" GROUP BY {', '.join(key_columns)}" if keys else ""
    query = f"SELECT {listed} FROM ({engine.compile(table)}) rows_used{rest}"
    if not keys and hasattr(engine, "_safe_raw_sql"):
        try:
            # ``engine.begin`` commits, which would end the transaction of the call.
            with engine._safe_raw_sql(query) as cursor:
                # Spark returns a frame, not a cursor.
                row = cursor.fetchone() if hasattr(cursor, "fetchone") else cursor.collect()[0]
        except Exception as error:  # the errors of engines have no common base class
            raise SourceError(f"ibis cannot sum the table: {error}") from error
        return pl.DataFrame([tuple(row)], schema=list(sums), orient="row")
    kinds = {key: table[key].type() for key in keys}
    kinds |= {name: "int64" if name == "rows" else "float64" for name in sums}
    return run(engine.sql(query, schema=ibis.schema(kinds)))


def exact(table: Any) -> Any:
    """Return the table with texts that compare byte by byte, and with types that frames support.

    A column of SQLite or PostgreSQL may have a collation of its own; a result of ``||`` compares
    byte by byte. MySQL takes 'e' and 'É' as equal, unless a query names a collation.
    """
    schema, engine = table.schema(), table.get_backend()
    changed = {}
    for name in schema.names:
        type_ = schema[name]
        if type_.is_uuid():
            changed[name] = table[name].cast("string")
        elif type_.is_decimal() and None in (type_.precision, type_.scale):
            changed[name] = table[name].cast("float64")
    texts = [name for name in schema.names if schema[name].is_string()]
    if texts and engine.name == "postgres":
        plain = _plain_texts(table, engine)
        texts = [name for name in texts if name not in plain]
    if engine.name in ("sqlite", "postgres"):
        changed |= {name: table[name] + "" for name in texts}
    collated = table.mutate(**changed) if changed else table
    return _collated(collated, engine, texts) if texts and engine.name == "mysql" else collated


def _collated(table: Any, engine: Any, texts: Sequence[str]) -> Any:
    """Return the table of MySQL or MariaDB with texts that compare byte by byte."""
    is_mariadb = "MariaDB" in engine.con.get_server_info()
    collation = "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"
    columns = {name: _quoted(name, engine) for name in table.columns}
    exactly = "CONVERT({0} USING utf8mb4) COLLATE {1} AS {0}"
    listed = ", ".join(
        exactly.format(text, collation) if name in texts else text for name, text in columns.items()
    )
    query = f"SELECT {listed} FROM ({engine.compile(table)}) rows_given"
    return engine.sql(query, schema=table.schema())


def _quoted(name: str, engine: Any) -> str:
    return str(sqlglot.to_identifier(name, quoted=True).sql(engine.dialect))


def _plain_texts(table: Any, engine: Any) -> set[str]:
    """Return the columns of PostgreSQL of the built-in text types: text, varchar, char."""
    engine._run_pre_execute_hooks(table)
    try:
        with engine._safe_raw_sql(
            f"SELECT * FROM ({engine.compile(table)}) no_rows LIMIT 0"
        ) as row:
            return {c.name for c in row.description if c.type_code in (25, 1042, 1043)}
    except Exception as error:  # psycopg is imported by ibis only
        raise SourceError(f"ibis cannot read the table: {error}") from error


def double_of(table: Any, leaf: Leaf) -> Any:
    """Return a column as a double."""
    value = value_of(table, leaf)
    type_ = value.type()
    if type_.is_boolean():
        # Not every engine casts a boolean to a number.
        return ibis.cases((value, 1), (~value, 0)).cast("float64")
    if type_.is_date():
        return value.epoch_days().cast("float64")
    if type_.is_timestamp():
        return _seconds(value, table.get_backend().name)
    # Cast before summing, as sums of integers overflow.
    return value.cast("float64")


def value_of(table: Any, leaf: Leaf) -> Any:
    """Return a column, or a nested child of one, uncast."""
    field, *steps = leaf.path
    value = table[field]
    for step in steps:
        if isinstance(step, int):
            raise NotSummedError(f"'{leaf.name}' is an element of an array")
        value = value[step]
    return value


def _seconds(value: Any, engine: str) -> Any:
    """Return seconds since 1970 with fractions; the expression differs by engine."""
    if engine == "postgres":
        return value.epoch_seconds().cast("float64")
    if engine == "sqlite":
        fraction = value.strftime("%f").cast("float64") - value.second()
        return value.epoch_seconds().cast("float64") + fraction
    if engine == "mysql":
        units = [(value.hour(), 3600), (value.minute(), 60), (value.second(), 1)]
        days = value.cast("date").epoch_days().cast("float64") * 86400
        return sum((part * size for part, size in units), days) + value.microsecond() / 1e6
    if engine == "pyspark":
        return value.cast("timestamp").cast("float64")
    raise NotSummedError("ibis cannot ask for the fractions of seconds of a timestamp")


def counts_of(table: Any, leaf: Leaf, limit: int | None, most: int | None) -> pl.DataFrame:
    """Count the rows of each value of a column, as `RemoteTable.counts_of`."""
    value = double_of(table, leaf) if limit is not None else level_of(value_of(table, leaf))
    table = table.select(value=value).filter(lambda row: row.value.notnull())
    if limit == 0:
        ends = run(table.aggregate(low=table.value.min(), high=table.value.max()))
        return pl.DataFrame({"value": ends.row(0), "rows": [1, 1]})
    counts = table.group_by("value").aggregate(rows=table.count())
    return run(counts if most is None else counts.limit(most + 1))


def level_of(value: Any) -> Any:
    """Return a value in a type of levels: text, boolean or integer, else cast to text."""
    is_level = value.type().is_string() or value.type().is_boolean() or value.type().is_integer()
    return value if is_level else value.cast("string")


def kept_level(value: Any, category: Category) -> Any:
    """Return the level if it has a column, else NULL, as there may be very many others."""
    null = ibis.null(value.type())
    if not category.levels:
        return null
    return ibis.ifelse(value.isin(list(category.levels)), value, null)


def weight_of(table: Any, weight: Any, where: Any = None) -> Any:
    """Return the sum of the row weights, or the number of rows if there are none."""
    if weight is not None:
        return weight.sum() if where is None else null_if(~where, weight).sum()
    return (table.count() if where is None else where.sum()).cast("float64")


def null_if(missing: Any, value: Any) -> Any:
    """Return a number, or NULL where it is missing."""
    return ibis.ifelse(missing, ibis.null("float64"), value)


def stand_in(value: Any, key: int) -> dict[str, Any]:
    """Return a key with NULL replaced, and whether it was NULL, as NULL never joins."""
    type_ = value.type()
    if type_.is_string():
        substitute: Any = ""
    elif type_.is_boolean():
        substitute = False
    elif type_.is_numeric():
        substitute = 0
    elif type_.is_date():
        substitute = date(1970, 1, 1)
    elif type_.is_timestamp():
        substitute = datetime(1970, 1, 1, tzinfo=None if type_.timezone is None else UTC)
    else:
        raise NotSummedError(f"by names a column of type {type_}")
    return {f"key{key}": value.fill_null(substitute), f"null{key}": value.isnull()}


def all_of(conditions: Sequence[Any]) -> Any:
    """Combine conditions in a balanced tree, as engines limit the depth of expressions."""
    if not conditions:
        return ibis.literal(True)
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return all_of(conditions[:half]) & all_of(conditions[half:])
