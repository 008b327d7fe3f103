"""Formulas of a row, written once and evaluated by Polars, DuckDB or NumPy.

A formula is a tree of operations on columns and numbers. An `Algebra` implements the
operations in one engine; `translate` builds the tree in it. A missing value gives a missing
value, except in `choose`, which returns its last part, in `if_finite` and `Lookup`, which handle
it, and in `largest`, which may ignore it.
"""

import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from polars import selectors

from dbselect.errors import ArgumentError, ColumnError, DataError
from dbselect.record.entries import Weighed, is_entries

T = TypeVar("T")
#: A field, then names of children and numbers of elements, counted from 1.
Path = tuple[str | int, ...]
#: Microseconds in each unit of dates and timestamps.
UNITS = {"days": 86_400e6, "seconds": 1e6}
#: From this many values on, SQL looks values up in a set or a list, not in CASE branches.
MANY = 100


@dataclass(frozen=True, eq=False)
class Formula:
    """A number for every row: an operation on other formulas."""

    operation: str  # its name
    parts: tuple[Any, ...]  # formulas; for a leaf, a path or a value

    def __add__(self, other: "Formula | float") -> "Formula":
        return _of("+", self, other)

    def __sub__(self, other: "Formula | float") -> "Formula":
        return _of("-", self, other)

    def __mul__(self, other: "Formula | float") -> "Formula":
        return _of("*", self, other)

    def __truediv__(self, other: "Formula | float") -> "Formula":
        return _of("/", self, other)

    def __rtruediv__(self, other: float) -> "Formula":
        return _of("/", other, self)

    def fields(self) -> set[str]:
        """Return the fields of the table that the formula reads."""
        names: set[str] = set()
        seen: set[int] = set()
        waiting = [self]
        while waiting:
            formula = waiting.pop()
            if id(formula) in seen:
                continue
            seen.add(id(formula))
            if formula.operation in ("column", "equals", "date"):
                names.add(str(formula.parts[0][0]))
            elif formula.operation == "lookup":
                names.add(str(formula.parts[0].path[0]))
            elif formula.operation == "entries":
                names.add(formula.parts[0].field.column)
            else:
                waiting += [part for part in formula.parts if isinstance(part, Formula)]
        return names


@dataclass(frozen=True, eq=False)
class Lookup:
    """A table from values of a column to numbers."""

    path: Path
    values: tuple[Any, ...]  # all text, all whole numbers or all booleans
    numbers: tuple[float, ...]  # one a value
    other: float | None = None  # the number of all other values; None where it is missing
    missing: float | None = None  # the number where the column is NULL; None: NULL
    refuses: bool = False  # whether another value is an error

    @property
    def is_text(self) -> bool:
        """Whether the values are texts."""
        return all(isinstance(value, str) for value in self.values)

    def refusal(self, shown: str) -> str:
        """Return the error message for a value that is not in the table."""
        name = ".".join(map(str, self.path))
        return f"column '{name}' has the level {shown}, which the fit has not seen"


def column(path: Path) -> Formula:
    """Return a column as a double."""
    return Formula("column", (path,))


def date(path: Path, unit: str) -> Formula:
    """Return a date or a timestamp as ``"days"`` or ``"seconds"`` since 1970, a double."""
    return Formula("date", (path, unit))


def lookup(table: Lookup) -> Formula:
    """Return the number of a column's value."""
    return Formula("lookup", (table,))


def entry_sum(entries: Weighed) -> Formula:
    """Return the sum of a field's entries, each times its coefficient."""
    return Formula("entries", (entries,))


def nothing() -> Formula:
    """Return a missing value for every row."""
    return Formula("nothing", ())


def number(value: float) -> Formula:
    """Return the same number for every row."""
    return Formula("number", (float(value),))


def equals(path: Path, value: Any) -> Formula:
    """Return 1 where a column has a value, 0 where it has another."""
    return Formula("equals", (path, value))


def _of(operation: str, *parts: Formula | float) -> Formula:
    return Formula(operation, tuple(p if isinstance(p, Formula) else number(p) for p in parts))


#: Functions of one formula. `log1p` is log(1 + x), accurate for small x.
exp, log, log1p, atan, sqrt, absolute = (
    partial(_of, name) for name in ("exp", "log", "log1p", "atan", "sqrt", "absolute")
)


def largest(formulas: Sequence[Formula]) -> Formula:
    """Return the largest of some formulas."""
    return _of("largest", *formulas)


def at_least(x: Formula, floor: float) -> Formula:
    """Return x, or the floor where x is below."""
    return Formula("at_least", (x, float(floor)))


def choose(x: Formula, positive: Formula | float, other: Formula | float) -> Formula:
    """Return `positive` where x > 0, `other` elsewhere."""
    return _of("choose", x, positive, other)


def if_finite(x: Formula, finite: Formula | float, missing: Formula | float) -> Formula:
    """Return `finite` where x is finite, `missing` where it is NULL, NaN or infinite."""
    return _of("if_finite", x, finite, missing)


def kept(x: Formula) -> Formula:
    """Mark x as a shared subexpression, which is evaluated once."""
    return Formula("kept", (x,))


def total(formulas: Sequence[Formula]) -> Formula:
    """Return the sum of formulas, in pairs: engines limit how deep a tree may be."""
    if len(formulas) == 1:
        return formulas[0]
    half = len(formulas) // 2
    return total(formulas[:half]) + total(formulas[half:])


@dataclass(frozen=True)
class Algebra(Generic[T]):
    """Operations of formulas in one engine."""

    operations: Mapping[str, Callable[..., T]]  # name -> function of the parts
    # returns the stored value of a formula marked by `kept`; None evaluates it in place
    kept: Callable[[Formula], T] | None = None


def translate(formula: Formula, algebra: Algebra[T]) -> T:
    """Translate a formula for an engine; one that is used twice is translated once."""
    return _translated(formula, algebra, {})


def _translated(formula: Formula, algebra: Algebra[T], translated: dict[int, T]) -> T:
    if id(formula) in translated:
        return translated[id(formula)]
    name = formula.operation
    if name == "kept":
        inner = formula.parts[0]
        result = algebra.kept(formula) if algebra.kept else _translated(inner, algebra, translated)
    else:
        terms = (
            _translated(part, algebra, translated) if isinstance(part, Formula) else part
            for part in formula.parts
        )
        result = algebra.operations[name](*terms)
    translated[id(formula)] = result
    return result


@dataclass(frozen=True)
class Plan:
    """Formulas in the order of their evaluation."""

    # new columns by name; a formula reads only columns of earlier layers
    layers: list[dict[str, Formula]]
    names: dict[int, str]  # identity of a formula marked by `kept` -> the column that holds it


def plan(formulas: Mapping[str, Formula], prefix: str) -> Plan:
    """Cut formulas into layers; shared ones become columns with a prefix, computed once."""
    depths: dict[int, int] = {}
    shared: dict[int, Formula] = {}
    for formula in formulas.values():
        _depth(formula, depths, shared)
    names = {identity: f"{prefix}{n}" for n, identity in enumerate(shared)}
    deepest = max((depths[identity] for identity in shared), default=0)
    inner = [
        {names[i]: formula.parts[0] for i, formula in shared.items() if depths[i] == level}
        for level in range(1, deepest + 1)
    ]
    return Plan([*inner, dict(formulas)], names)


def _depth(formula: Formula, depths: dict[int, int], shared: dict[int, Formula]) -> int:
    """Return how many layers a formula needs; add formulas marked by `kept` to `shared`."""
    identity = id(formula)
    if identity not in depths:
        inside = [part for part in formula.parts if isinstance(part, Formula)]
        depths[identity] = max((_depth(part, depths, shared) for part in inside), default=0)
        if formula.operation == "kept":
            depths[identity] += 1
            shared[identity] = formula
    return depths[identity]


_ARITHMETIC = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def polars_field(name: str) -> pl.Expr:
    """Return a column by its name, even if Polars would read the name as a pattern."""
    return selectors.by_name(name).as_expr() if _is_pattern(name) else pl.col(name)


def _is_pattern(name: str) -> bool:
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def polars_column(path: Path) -> pl.Expr:
    """Return a column unchanged; ColumnError for a child whose name is a Polars pattern."""
    field, *steps = path
    expr = polars_field(str(field))
    for step in steps:
        if isinstance(step, str) and _is_pattern(step):
            raise ColumnError(
                f"'{step}' is a child of '{field}', and Polars reads its name as a pattern; "
                "rename it"
            )
        expr = expr.arr.get(step - 1) if isinstance(step, int) else expr.struct.field(step)
    return expr


def _polars_number(path: Path) -> pl.Expr:
    """Return a column as a double; multiplied by 1, which Polars refuses for a date."""
    return polars_column(path) * pl.lit(1.0, pl.Float64)


def _polars_date(path: Path, unit: str) -> pl.Expr:
    """Return a date as a double; numbers are taken as dates already converted."""

    def counted(values: pl.Series) -> pl.Series:
        # The dtype is only known when the batch is evaluated.
        if values.dtype in (pl.Date, pl.Datetime):
            return values.dt.timestamp("us") / UNITS[unit]
        if values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.Null):
            return values.cast(pl.Float64)
        raise DataError(
            f"column '{'.'.join(map(str, path))}' has type {values.dtype}; it must be a date, a "
            f"timestamp or the number of {unit} since 1970"
        )

    return polars_column(path).map_batches(counted, return_dtype=pl.Float64, is_elementwise=True)


def _polars_lookup(table: Lookup) -> pl.Expr:
    values = value_column(table)
    column = polars_column(table.path)
    same = column.cast(values.dtype, strict=False)
    if table.refuses:
        same = same.map_batches(
            lambda rows: refuse_others(table, rows), return_dtype=values.dtype, is_elementwise=True
        )
    numbers = pl.Series(table.numbers, dtype=pl.Float64)
    looked_up = same.replace_strict(values, numbers, default=table.other, return_dtype=pl.Float64)
    return pl.when(column.is_null()).then(pl.lit(table.missing, pl.Float64)).otherwise(looked_up)


def value_column(table: Lookup) -> pl.Series:
    """Return the values of a lookup as a Series; booleans as 0 and 1."""
    if table.is_text:
        return pl.Series(table.values, dtype=pl.String)
    small = all(-(2**63) <= value < 2**63 for value in table.values)
    return pl.Series(map(int, table.values), dtype=pl.Int64 if small else pl.Int128)


def refuse_others(table: Lookup, values: pl.Series) -> pl.Series:
    """Return the values unchanged; DataError if one is not in the lookup."""
    unseen = values.filter(~values.is_in(value_column(table).implode()) & values.is_not_null())
    if len(unseen):
        raise DataError(table.refusal(repr(unseen[0])))
    return values


def _polars_entries(entries: Weighed) -> pl.Expr:
    """Return a weighted sum of entries, computed in Arrow: Polars lacks such sums of a MAP."""

    def summed(rows: pl.Series) -> pl.Series:
        return pl.Series(entries.values(entries_of(rows, entries.field.column))).fill_nan(None)

    column = polars_field(entries.field.column)
    return column.map_batches(summed, return_dtype=pl.Float64, is_elementwise=True)


def entries_of(rows: pl.Series, name: str) -> pa.Array:
    """Return a field of entries as an Arrow array; ArgumentError for another type."""
    field = rows.to_arrow()
    if not is_entries(field.type):
        raise ArgumentError(
            f"column '{name}' has type {rows.dtype}; the fit had entries there: a MAP from whole "
            "numbers to numbers, or a LIST of STRUCTs of these two"
        )
    return field


def polars(kept: Callable[[Formula], pl.Expr] | None = None) -> Algebra[pl.Expr]:
    """Return the algebra of Polars expressions."""
    operations: dict[str, Callable[..., pl.Expr]] = {
        **_ARITHMETIC,
        "column": _polars_number,
        "number": pl.lit,
        "equals": lambda path, value: (polars_column(path) == value).cast(pl.Float64),
        "date": _polars_date,
        "lookup": _polars_lookup,
        "entries": _polars_entries,
        "nothing": lambda: pl.lit(None, pl.Float64),
        "at_least": lambda x, floor: x.clip(lower_bound=floor),
        "exp": pl.Expr.exp,
        "log": pl.Expr.log,
        "log1p": pl.Expr.log1p,
        "atan": pl.Expr.arctan,
        "sqrt": pl.Expr.sqrt,
        "absolute": pl.Expr.abs,
        "largest": pl.max_horizontal,
        "choose": lambda x, a, b: pl.when(x > 0.0).then(a).otherwise(b),
        "if_finite": lambda x, a, b: pl.when(x.is_finite()).then(a).otherwise(b),
    }
    return Algebra(operations, kept)


def _sql_column(path: Path) -> str:
    field, *steps = path
    # Without parentheses the engine would read the field as a table name.
    text = f"({quote(str(field))})" if steps else quote(str(field))
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{quote(step)}"
    return text


def _sql_value(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return _sql_number(value) if isinstance(value, float) else str(value)


def _sql_number(value: float) -> str:
    """Write a double with an exponent; without one an engine would read a decimal."""
    mantissa, _, exponent = repr(value).partition("e")
    text = f"{mantissa}e{exponent or 0}"
    return f"({text})" if math.copysign(1.0, value) < 0 else text


def _sql_date(path: Path, unit: str) -> str:
    seconds = f"epoch({_sql_column(path)})"
    return seconds if unit == "seconds" else f"({seconds} / {_sql_number(UNITS[unit] / 1e6)})"


def _sql_lookup(table: Lookup, duckdb: bool) -> str:
    name = _sql_column(table.path)
    # The cast is needed for an ENUM, which DuckDB does not compare with other text.
    value = f"CAST({name} AS VARCHAR)" if table.is_text else name
    if not table.refuses:
        other = _sql_or_null(table.other)
    elif duckdb:
        other = _sql_error(table, name)
    else:
        raise ArgumentError(
            "handle_unknown is 'error', which only dialect 'duckdb' supports; use "
            "'unavailable' or 'mean'"
        )
    is_by_place = duckdb and table.is_text and len(table.values) > MANY
    text = (_by_place if is_by_place else _by_cases)(table, value, other)
    if not table.refuses and table.other == table.missing:
        return text
    return f"CASE WHEN {name} IS NULL THEN {_sql_or_null(table.missing)} ELSE {text} END"


def _sql_error(source: Lookup | Weighed, value: str) -> str:
    """Return SQL that raises an error for a value that the fit has not seen."""
    before, after = (_sql_value(text) for text in source.refusal("\0").split("\0"))
    return f"error({before} || CAST({value} AS VARCHAR) || {after})"


def _by_cases(table: Lookup, value: str, other: str) -> str:
    pairs = list(zip(table.values, table.numbers, strict=True))
    zeros = [_sql_value(level) for level, number in pairs if not number]
    if len(zeros) >= MANY:
        pairs = [(level, number) for level, number in pairs if number]
        other = f"CASE WHEN {value} IN ({', '.join(zeros)}) THEN 0e0 ELSE {other} END"
    cases = " ".join(f"WHEN {_sql_value(level)} THEN {_sql_number(x)}" for level, x in pairs)
    return f"CASE {value} {cases} ELSE {other} END" if cases else other


def _by_place(table: Lookup, value: str, other: str) -> str:
    """Look a text up by its ENUM code: DuckDB hashes the text, faster than many CASE branches."""
    levels = ", ".join(map(_sql_value, table.values))
    place = f"CAST(enum_code(TRY_CAST({value} AS ENUM({levels}))) AS BIGINT) + 1"
    # One text literal: 100,000 numbers would become as many nodes in the parser.
    number = f"(CAST('{list(map(float, table.numbers))}' AS DOUBLE[]))[{place}]"
    return number if table.other is None and not table.refuses else f"coalesce({number}, {other})"


def _sql_entries(entries: Weighed, can_read: bool) -> str:
    if not can_read:
        raise ArgumentError(
            f"field '{entries.field.column}' lists entries, which only dialect 'duckdb' reads"
        )
    name = quote(entries.field.column)
    rows, (at, value) = name, entries.field.children or ("key", "value")
    if not entries.field.children:
        rows = f"map_entries({name})"
    at, nan = f"entry.{quote(at)}", "CAST('nan' AS DOUBLE)"
    # SUM ignores NULL but not NaN, so NULL becomes NaN here.
    value = f"coalesce(CAST(entry.{quote(value)} AS DOUBLE), {nan})"
    cases = " ".join(
        f"WHEN {number} THEN {_sql_number(weight)} * {value}"
        for number, weight in entries.coefficients.items()
    )
    new = _sql_number(0.0) if entries.other is not None else nan
    if entries.refuses:
        new = _sql_error(entries, at)
    weighted = f"CASE {at} {cases} ELSE 0e0 END"
    term = f"CASE WHEN {at} >= {entries.field.width} THEN {new} ELSE {weighted} END"
    total = f"nullif(list_sum([{term} for entry in {rows}]), {nan})"
    return f"CASE WHEN len({rows}) = 0 THEN 0e0 ELSE {total} END"


def _sql_or_null(number: float | None) -> str:
    return "CAST(NULL AS DOUBLE)" if number is None else _sql_number(number)


def sql(
    kept: Callable[[Formula], str] | None = None,
    *,
    duckdb: bool = True,
    booleans: Collection[Path] = (),
) -> Algebra[str]:
    """Return the algebra of SQL; without `duckdb` it uses no NaN, errors or ENUM casts."""

    def column(path: Path) -> str:
        name = _sql_column(path)
        if path in booleans:
            name = f"CASE WHEN {name} THEN 1 WHEN NOT {name} THEN 0 END"
        return f"CAST({name} AS DOUBLE)"

    def if_finite(x: str, finite: str, missing: str) -> str:
        is_odd = f" OR NOT isfinite({x})" if duckdb else ""
        return f"CASE WHEN {x} IS NULL{is_odd} THEN {missing} ELSE {finite} END"

    operations: dict[str, Callable[..., str]] = {
        **{sign: f"({{}} {sign} {{}})".format for sign in _ARITHMETIC},
        "column": column,
        "number": _sql_number,
        "equals": lambda path, value: f"CAST({_sql_column(path)} = {_sql_value(value)} AS DOUBLE)",
        "date": _sql_date,
        "lookup": lambda table: _sql_lookup(table, duckdb),
        "entries": lambda entries: _sql_entries(entries, duckdb),
        "nothing": lambda: _sql_or_null(None),
        "at_least": lambda x, floor: (
            f"CASE WHEN {x} < {_sql_number(floor)} THEN {_sql_number(floor)} ELSE {x} END"
        ),
        "exp": "exp({})".format,
        "log": "ln({})".format,
        # SQL has no log1p; atanh is as accurate for small arguments.
        "log1p": "(2e0 * atanh({0} / (2e0 + {0})))".format,
        "atan": "atan({})".format,
        "sqrt": "sqrt({})".format,
        "absolute": "abs({})".format,
        "largest": lambda *parts: f"greatest({', '.join(parts)})",
        "choose": "CASE WHEN {} > 0e0 THEN {} ELSE {} END".format,
        "if_finite": if_finite,
    }
    return Algebra(operations, kept)


def arrays(
    column: Callable[[Path], npt.NDArray[np.float64]],
    kept: Callable[[Formula], npt.NDArray[np.float64]] | None = None,
    **leaves: Callable[..., npt.NDArray[np.float64]],
) -> Algebra[Any]:
    """Return the algebra of NumPy arrays; `column` reads a path, `leaves` add operations."""
    operations: dict[str, Callable[..., Any]] = {
        **_ARITHMETIC,
        **leaves,
        "column": column,
        "number": lambda value: value,
        "nothing": lambda: np.nan,
        "at_least": np.maximum,
        "exp": np.exp,
        "log": np.log,
        "log1p": np.log1p,
        "atan": np.arctan,
        "sqrt": np.sqrt,
        "absolute": np.abs,
        "largest": lambda *parts: reduce(np.maximum, parts),
        "choose": lambda x, a, b: np.where(np.greater(x, 0.0), a, b),
        "if_finite": lambda x, a, b: np.where(np.isfinite(x), a, b),
    }
    return Algebra(operations, kept)


def quote(name: str) -> str:
    """Quote an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
