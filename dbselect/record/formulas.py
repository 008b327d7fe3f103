"""Formulas of a row, written once and computed by Polars, by DuckDB or on NumPy arrays.

A formula is a tree of operations on columns and numbers. An algebra says what each of
them is in one engine; `translate` puts a tree together in it. A missing value gives a
missing value, except in `choose`, which takes its last part there, in `given` and a `Lookup`,
which handle it, and in `largest`, which may leave it out.
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
#: Microseconds of what a date or a timestamp counts.
UNITS = {"days": 86_400e6, "seconds": 1e6}
#: Values that SQL looks up in a set or by their place in a list, and not one after the other.
MANY = 100


@dataclass(frozen=True, eq=False)
class Formula:
    """A number for every row: an operation on other formulas."""

    operation: str  # its name
    parts: tuple[Any, ...]  # formulas; for a leaf, what it names

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
        found: set[str] = set()
        seen: set[int] = set()
        waiting = [self]
        while waiting:
            formula = waiting.pop()
            if id(formula) in seen:
                continue
            seen.add(id(formula))
            if formula.operation in ("column", "equals", "date"):
                found.add(str(formula.parts[0][0]))
            elif formula.operation == "lookup":
                found.add(str(formula.parts[0].path[0]))
            elif formula.operation == "entries":
                found.add(formula.parts[0].field.column)
            else:
                waiting += [part for part in formula.parts if isinstance(part, Formula)]
        return found


@dataclass(frozen=True, eq=False)
class Lookup:
    """A number for each of some values of a column."""

    path: Path
    values: tuple[Any, ...]  # all text, all whole numbers or all booleans
    numbers: tuple[float, ...]  # one a value
    other: float | None = None  # the number of all other values; None where it is missing
    missing: float | None = None  # the number where the column is NULL; None: it is missing, too
    refuses: bool = False  # whether another value is an error

    @property
    def is_text(self) -> bool:
        """Whether the values are texts."""
        return all(isinstance(value, str) for value in self.values)

    def refusal(self, shown: str) -> str:
        """Return what is wrong with another value."""
        name = ".".join(map(str, self.path))
        return f"column '{name}' has the level {shown}, which the fit has not seen"


def column(path: Path) -> Formula:
    """Return a column as a double."""
    return Formula("column", (path,))


def date(path: Path, unit: str) -> Formula:
    """Return a date or a timestamp as ``"days"`` or ``"seconds"`` since 1970, a double."""
    return Formula("date", (path, unit))


def lookup(found: Lookup) -> Formula:
    """Return the number of a column's value."""
    return Formula("lookup", (found,))


def entry_sum(found: Weighed) -> Formula:
    """Return the sum of a field's entries, each times its coefficient."""
    return Formula("entries", (found,))


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


#: Of one formula: e to its power, its natural logarithm and that of 1 more, which keeps the digits
#: of a small one, its arc tangent, its square root, and it without its sign.
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
    """Return the one formula where x > 0, the other elsewhere."""
    return _of("choose", x, positive, other)


def given(x: Formula, there: Formula | float, missing: Formula | float) -> Formula:
    """Return the one formula where x is finite, the other where it is NULL, NaN or infinite."""
    return _of("given", x, there, missing)


def kept(x: Formula) -> Formula:
    """Return x, marked to be computed once for all its uses."""
    return Formula("kept", (x,))


def total(formulas: Sequence[Formula]) -> Formula:
    """Return the sum of formulas, in pairs: engines limit how deep a tree may be."""
    if len(formulas) == 1:
        return formulas[0]
    half = len(formulas) // 2
    return total(formulas[:half]) + total(formulas[half:])


@dataclass(frozen=True)
class Algebra(Generic[T]):
    """What the operations of formulas are in one engine."""

    operations: Mapping[str, Callable[..., T]]  # name -> what an operation makes of its parts
    # what a formula marked by `kept` is, where it was computed before; None computes it
    kept: Callable[[Formula], T] | None = None


def translate(formula: Formula, algebra: Algebra[T]) -> T:
    """Return the formula in an engine; a formula used twice is translated once."""
    return _translated(formula, algebra, {})


def _translated(formula: Formula, algebra: Algebra[T], known: dict[int, T]) -> T:
    if id(formula) in known:
        return known[id(formula)]
    name = formula.operation
    if name == "kept":
        inner = formula.parts[0]
        found = algebra.kept(formula) if algebra.kept else _translated(inner, algebra, known)
    else:
        terms = (
            _translated(part, algebra, known) if isinstance(part, Formula) else part
            for part in formula.parts
        )
        found = algebra.operations[name](*terms)
    known[id(formula)] = found
    return found


@dataclass(frozen=True)
class Plan:
    """Formulas in the order of their computation."""

    # new columns by name; a formula needs only those of layers before its own
    layers: list[dict[str, Formula]]
    names: dict[int, str]  # identity of a formula marked by `kept` -> the column that holds it


def plan(formulas: Mapping[str, Formula], prefix: str) -> Plan:
    """Cut formulas into layers, so that what is shared, named by a prefix, is computed once."""
    depths: dict[int, int] = {}
    shared: dict[int, Formula] = {}
    for formula in formulas.values():
        _depth(formula, depths, shared)
    names = {identity: f"{prefix}{n}" for n, identity in enumerate(shared)}
    deepest = max((depths[identity] for identity in shared), default=0)
    inner = [
        {names[i]: one.parts[0] for i, one in shared.items() if depths[i] == level}
        for level in range(1, deepest + 1)
    ]
    return Plan([*inner, dict(formulas)], names)


def _depth(formula: Formula, depths: dict[int, int], shared: dict[int, Formula]) -> int:
    """Return how many layers it takes to have a formula, and note what is to be kept."""
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
    """Return the column of a name, also where Polars would take the name for a pattern."""
    return selectors.by_name(name).as_expr() if _is_pattern(name) else pl.col(name)


def _is_pattern(name: str) -> bool:
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def polars_column(path: Path) -> pl.Expr:
    """Return a column as it is; ColumnError for a child whose name is a pattern to Polars."""
    field, *steps = path
    found = polars_field(str(field))
    for step in steps:
        if isinstance(step, str) and _is_pattern(step):
            raise ColumnError(
                f"'{step}' is a child of '{field}', and Polars reads its name as a pattern; "
                "rename it"
            )
        found = found.arr.get(step - 1) if isinstance(step, int) else found.struct.field(step)
    return found


def _polars_number(path: Path) -> pl.Expr:
    """Return a column as a double: a product, which Polars refuses to make of a date."""
    return polars_column(path) * pl.lit(1.0, pl.Float64)


def _polars_date(path: Path, unit: str) -> pl.Expr:
    """Return a date as a double; numbers, which stand for one, are as they are."""

    def counted(values: pl.Series) -> pl.Series:
        # Only here is the type known.
        if values.dtype in (pl.Date, pl.Datetime):
            return values.dt.timestamp("us") / UNITS[unit]
        if values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.Null):
            return values.cast(pl.Float64)
        raise DataError(
            f"column '{'.'.join(map(str, path))}' has type {values.dtype}; it must be a date, a "
            f"timestamp or the number of {unit} since 1970"
        )

    return polars_column(path).map_batches(counted, return_dtype=pl.Float64, is_elementwise=True)


def _polars_lookup(found: Lookup) -> pl.Expr:
    values = value_column(found)
    column = polars_column(found.path)
    same = column.cast(values.dtype, strict=False)
    if found.refuses:
        same = same.map_batches(
            lambda own: refuse_others(found, own), return_dtype=values.dtype, is_elementwise=True
        )
    numbers = pl.Series(found.numbers, dtype=pl.Float64)
    looked_up = same.replace_strict(values, numbers, default=found.other, return_dtype=pl.Float64)
    return pl.when(column.is_null()).then(pl.lit(found.missing, pl.Float64)).otherwise(looked_up)


def value_column(found: Lookup) -> pl.Series:
    """Return the values that are looked up; booleans as 0 and 1."""
    if found.is_text:
        return pl.Series(found.values, dtype=pl.String)
    small = all(-(2**63) <= value < 2**63 for value in found.values)
    return pl.Series(map(int, found.values), dtype=pl.Int64 if small else pl.Int128)


def refuse_others(found: Lookup, values: pl.Series) -> pl.Series:
    """Return values of the type of `value_column`; DataError if one cannot be looked up."""
    others = values.filter(~values.is_in(value_column(found).implode()) & values.is_not_null())
    if len(others):
        raise DataError(found.refusal(repr(others[0])))
    return values


def _polars_entries(found: Weighed) -> pl.Expr:
    """Return a sum of entries: Arrow's own arrays, as Polars has no such sum of a MAP."""

    def summed(rows: pl.Series) -> pl.Series:
        return pl.Series(found.values(entries_of(rows, found.field.column))).fill_nan(None)

    column = polars_field(found.field.column)
    return column.map_batches(summed, return_dtype=pl.Float64, is_elementwise=True)


def entries_of(rows: pl.Series, name: str) -> pa.Array:
    """Return a field of entries as Arrow has it; ArgumentError for another field."""
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
        "given": lambda x, a, b: pl.when(x.is_finite()).then(a).otherwise(b),
    }
    return Algebra(operations, kept)


def _sql_column(path: Path) -> str:
    field, *steps = path
    # In brackets, or the field would be taken for a table of that name.
    found = f"({quote(str(field))})" if steps else quote(str(field))
    for step in steps:
        found += f"[{step}]" if isinstance(step, int) else f".{quote(step)}"
    return found


def _sql_value(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return _sql_number(value) if isinstance(value, float) else str(value)


def _sql_number(value: float) -> str:
    """Write a double: with an exponent, or an engine would take it for a decimal."""
    mantissa, _, exponent = repr(value).partition("e")
    text = f"{mantissa}e{exponent or 0}"
    return f"({text})" if math.copysign(1.0, value) < 0 else text


def _sql_date(path: Path, unit: str) -> str:
    seconds = f"epoch({_sql_column(path)})"
    return seconds if unit == "seconds" else f"({seconds} / {_sql_number(UNITS[unit] / 1e6)})"


def _sql_lookup(found: Lookup, duckdb: bool) -> str:
    name = _sql_column(found.path)
    # Of an ENUM, too, which no other text may be compared with.
    value = f"CAST({name} AS VARCHAR)" if found.is_text else name
    if not found.refuses:
        other = _sql_or_null(found.other)
    elif duckdb:
        other = _sql_error(found, name)
    else:
        raise ArgumentError(
            "handle_unknown is 'error', which only dialect 'duckdb' supports; use "
            "'unavailable' or 'mean'"
        )
    is_by_place = duckdb and found.is_text and len(found.values) > MANY
    text = (_by_place if is_by_place else _by_cases)(found, value, other)
    if not found.refuses and found.other == found.missing:
        return text
    return f"CASE WHEN {name} IS NULL THEN {_sql_or_null(found.missing)} ELSE {text} END"


def _sql_error(found: Lookup | Weighed, value: str) -> str:
    """Raise DuckDB's error for a value that the fit has not seen."""
    before, after = (_sql_value(text) for text in found.refusal("\0").split("\0"))
    return f"error({before} || CAST({value} AS VARCHAR) || {after})"


def _by_cases(found: Lookup, value: str, other: str) -> str:
    both = list(zip(found.values, found.numbers, strict=True))
    idle = [_sql_value(one) for one, number in both if not number]
    if len(idle) >= MANY:
        both = [(one, number) for one, number in both if number]
        other = f"CASE WHEN {value} IN ({', '.join(idle)}) THEN 0e0 ELSE {other} END"
    cases = " ".join(f"WHEN {_sql_value(one)} THEN {_sql_number(number)}" for one, number in both)
    return f"CASE {value} {cases} ELSE {other} END" if cases else other


def _by_place(found: Lookup, value: str, other: str) -> str:
    """Look a text up by its place in an ENUM: DuckDB hashes texts, and compares no cases."""
    levels = ", ".join(map(_sql_value, found.values))
    place = f"CAST(enum_code(TRY_CAST({value} AS ENUM({levels}))) AS BIGINT) + 1"
    # A list in one literal: of 100,000 of them the parser would make as many nodes.
    number = f"(CAST('{list(map(float, found.numbers))}' AS DOUBLE[]))[{place}]"
    return number if found.other is None and not found.refuses else f"coalesce({number}, {other})"


def _sql_entries(found: Weighed, can_read: bool) -> str:
    if not can_read:
        raise ArgumentError(
            f"field '{found.field.column}' lists entries, which only dialect 'duckdb' reads"
        )
    name = quote(found.field.column)
    rows, (at, value) = name, found.field.children or ("key", "value")
    if not found.field.children:
        rows = f"map_entries({name})"
    at, nan = f"entry.{quote(at)}", "CAST('nan' AS DOUBLE)"
    # A sum leaves out what is NULL, and not a NaN.
    value = f"coalesce(CAST(entry.{quote(value)} AS DOUBLE), {nan})"
    cases = " ".join(
        f"WHEN {number} THEN {_sql_number(weight)} * {value}"
        for number, weight in found.coefficients.items()
    )
    new = _sql_number(0.0) if found.other is not None else nan
    if found.refuses:
        new = _sql_error(found, at)
    own = f"CASE {at} {cases} ELSE 0e0 END"
    each = f"CASE WHEN {at} >= {found.field.width} THEN {new} ELSE {own} END"
    total = f"nullif(list_sum([{each} for entry in {rows}]), {nan})"
    return f"CASE WHEN len({rows}) = 0 THEN 0e0 ELSE {total} END"


def _sql_or_null(number: float | None) -> str:
    return "CAST(NULL AS DOUBLE)" if number is None else _sql_number(number)


def sql(
    kept: Callable[[Formula], str] | None = None,
    *,
    duckdb: bool = True,
    booleans: Collection[Path] = (),
) -> Algebra[str]:
    """Return the algebra of SQL; but for `duckdb` engines may lack NaN, errors or such casts."""

    def column(path: Path) -> str:
        name = _sql_column(path)
        if path in booleans:
            name = f"CASE WHEN {name} THEN 1 WHEN NOT {name} THEN 0 END"
        return f"CAST({name} AS DOUBLE)"

    def given(x: str, there: str, missing: str) -> str:
        is_odd = f" OR NOT isfinite({x})" if duckdb else ""
        return f"CASE WHEN {x} IS NULL{is_odd} THEN {missing} ELSE {there} END"

    operations: dict[str, Callable[..., str]] = {
        **{sign: f"({{}} {sign} {{}})".format for sign in _ARITHMETIC},
        "column": column,
        "number": _sql_number,
        "equals": lambda path, value: f"CAST({_sql_column(path)} = {_sql_value(value)} AS DOUBLE)",
        "date": _sql_date,
        "lookup": lambda found: _sql_lookup(found, duckdb),
        "entries": lambda found: _sql_entries(found, duckdb),
        "nothing": lambda: _sql_or_null(None),
        "at_least": lambda x, floor: (
            f"CASE WHEN {x} < {_sql_number(floor)} THEN {_sql_number(floor)} ELSE {x} END"
        ),
        "exp": "exp({})".format,
        "log": "ln({})".format,
        # There is no log1p; atanh keeps the digits of small arguments as well.
        "log1p": "(2e0 * atanh({0} / (2e0 + {0})))".format,
        "atan": "atan({})".format,
        "sqrt": "sqrt({})".format,
        "absolute": "abs({})".format,
        "largest": lambda *parts: f"greatest({', '.join(parts)})",
        "choose": "CASE WHEN {} > 0e0 THEN {} ELSE {} END".format,
        "given": given,
    }
    return Algebra(operations, kept)


def arrays(
    column: Callable[[Path], npt.NDArray[np.float64]],
    kept: Callable[[Formula], npt.NDArray[np.float64]] | None = None,
    **leaves: Callable[..., npt.NDArray[np.float64]],
) -> Algebra[Any]:
    """Return the algebra of NumPy arrays, given how to find columns, and other leaves by name."""
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
        "given": lambda x, a, b: np.where(np.isfinite(x), a, b),
    }
    return Algebra(operations, kept)


def quote(name: str) -> str:
    """Quote an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
