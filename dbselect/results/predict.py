"""A linear model as a Polars expression, as SQL text and on a NumPy array."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, ColumnError
from dbselect.record.columns import SUFFIX
from dbselect.record.gram import Vector

#: A flattened column: a field, then children ``.name`` and elements ``[number]``.
_PATH = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")

Term = TypeVar("Term")


def expression(intercept: float, coefficients: Mapping[str, float], nested: bool) -> pl.Expr:
    """Return the prediction as a Polars expression; NULL where a column is NULL."""
    marks = _marks(coefficients) if nested else {}

    def column(name: str) -> pl.Expr:
        field, *steps = path_of(name) if nested else [name]
        found = pl.col(field)
        for step in steps:
            found = found.arr.get(step - 1) if isinstance(step, int) else found.struct.field(step)
        return found.cast(pl.Float64)

    def term(name: str, coef: float) -> pl.Expr:
        value = column(name)
        if name not in marks:
            return value * coef
        missing = value.is_null() | value.is_nan()
        return pl.when(missing).then(marks[name]).otherwise(value * coef)

    terms = [term(name, coef) for name, coef in _unmarked(coefficients, marks).items()]
    return _sum([pl.lit(intercept), *terms], lambda a, b: a + b)


def sql(intercept: float, coefficients: Mapping[str, float], dialect: str, nested: bool) -> str:
    """Return the prediction as the text of an SQL expression; NULL where a column is NULL."""
    marks = _marks(coefficients) if nested else {}

    def column(name: str) -> str:
        field, *steps = path_of(name) if nested else [name]
        found = _quoted(field)
        for step in steps:
            found += f"[{step}]" if isinstance(step, int) else f".{_quoted(step)}"
        return f"CAST({found} AS DOUBLE)"

    def term(name: str, coef: float) -> str:
        value = column(name)
        product = f"{value} * {_number(coef)}"
        if name not in marks:
            return product
        # The other dialects have no one name for it, or no NaN.
        nan = f" OR isnan({value})" if dialect == "duckdb" else ""
        missing = f"{value} IS NULL{nan}"
        return f"CASE WHEN {missing} THEN {_number(marks[name])} ELSE {product} END"

    terms = [term(name, coef) for name, coef in _unmarked(coefficients, marks).items()]
    text = _sum([_number(intercept), *terms], lambda a, b: f"({a} + {b})")
    return text if dialect == "duckdb" else translated(text, dialect)


def on_array(
    X: Any,
    columns: Sequence[str] | None,
    intercept: float,
    coefficients: Mapping[str, float],
) -> Vector:
    """Return predictions for the rows of X, shape (n, d); NaN where a value is NaN."""
    if columns is None and is_frame(X):
        frame = pl.DataFrame(X)
        columns = [name for name in coefficients if name in frame.columns]
        X = frame.select(columns) if columns else np.empty((frame.height, 0))
    names = list(coefficients) if columns is None else list(columns)
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"X holds something else than numbers: {error}") from None
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise ArgumentError(f"X has shape {rows.shape}; it must be (n, {len(names)}): {names}")
    numbers = {name: j for j, name in enumerate(names)}
    marks = {
        name: coef for name, coef in _marks(coefficients).items() if name + SUFFIX not in numbers
    }
    terms = _unmarked(coefficients, marks)
    lacking = [name for name in terms if name not in numbers]
    if lacking:
        raise ColumnError(f"columns lacks {lacking}, which the model needs")
    rows = rows[:, [numbers[name] for name in terms]]
    found = np.full(len(rows), intercept)
    for j, name in enumerate(terms):
        if name in marks:
            missing = np.isnan(rows[:, j])
            rows[missing, j] = 0.0
            found[missing] += marks[name]
    return np.asarray(found + rows @ np.array(list(terms.values())))


def _marks(coefficients: Mapping[str, float]) -> dict[str, float]:
    """Return the columns that have an indicator ``x.missing`` beside them, with its coefficient.

    Nothing nested has that name: a number has no children.
    """
    marked = [name for name in coefficients if name + SUFFIX in coefficients]
    return {name: coefficients[name + SUFFIX] for name in marked}


def _unmarked(coefficients: Mapping[str, float], marks: Mapping[str, float]) -> dict[str, float]:
    """Return the columns but for the indicators of some."""
    left_out = {name + SUFFIX for name in marks}
    return {name: coef for name, coef in coefficients.items() if name not in left_out}


def is_frame(X: Any) -> bool:
    """Whether X names its columns, whatever their order: a frame or an Arrow table."""
    return hasattr(X, "__arrow_c_stream__")


def _sum(terms: Sequence[Term], add: Callable[[Term, Term], Term]) -> Term:
    """Add terms pairwise: engines limit how deep an expression may nest."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return add(_sum(terms[:half], add), _sum(terms[half:], add))


def path_of(column: str) -> list[Any]:
    """Split a flattened column: ``demo.age`` and ``emb[3]`` into field and steps."""
    start = _PATH.search(column)
    if start is None:
        return [column]
    tail = column[start.start() :]
    found = list(_PATH.finditer(tail))
    if start.start() == 0 or "".join(part[0] for part in found) != tail:
        return [column]  # no field's flattened name
    return [column[: start.start()], *(int(p[2]) if p[2] else p[1] for p in found)]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _number(value: float) -> str:
    """Write a double: with an exponent, or an engine would take it for a decimal."""
    mantissa, _, exponent = repr(float(value)).partition("e")
    text = f"{mantissa}e{exponent or 0}"
    return f"({text})" if math.copysign(1.0, value) < 0 else text


def translated(text: str, dialect: str) -> str:
    """Return an SQL expression of DuckDB in another dialect."""
    try:
        import sqlglot
    except ImportError:
        raise ArgumentError(
            f"dialect is {dialect!r}; other dialects than 'duckdb' need sqlglot: "
            "pip install 'dbselect[sql]'"
        ) from None
    try:
        return sqlglot.transpile(f"SELECT {text}", read="duckdb", write=dialect)[0][
            len("SELECT ") :
        ]
    except ValueError as error:
        raise ArgumentError(f"dialect is {dialect!r}: {error}") from None
