"""A linear model as a Polars expression, as SQL text and on a NumPy array."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, ColumnError
from dbselect.gram import Vector

#: A flattened column: a field, then children ``.name`` and elements ``[number]``.
_PATH = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")

Term = TypeVar("Term")


def expression(intercept: float, coefficients: Mapping[str, float], nested: bool) -> pl.Expr:
    """Return the prediction as a Polars expression; NULL where a column is NULL."""

    def column(name: str) -> pl.Expr:
        field, *steps = path_of(name) if nested else [name]
        found = pl.col(field)
        for step in steps:
            found = found.arr.get(step - 1) if isinstance(step, int) else found.struct.field(step)
        return found.cast(pl.Float64)

    terms = [column(name) * coef for name, coef in coefficients.items()]
    return _sum([pl.lit(intercept), *terms], lambda a, b: a + b)


def sql(intercept: float, coefficients: Mapping[str, float], dialect: str, nested: bool) -> str:
    """Return the prediction as the text of an SQL expression; NULL where a column is NULL."""

    def column(name: str) -> str:
        field, *steps = path_of(name) if nested else [name]
        found = _quoted(field)
        for step in steps:
            found += f"[{step}]" if isinstance(step, int) else f".{_quoted(step)}"
        return f"CAST({found} AS DOUBLE)"

    terms = [f"{column(name)} * {_number(coef)}" for name, coef in coefficients.items()]
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
    missing = [name for name in coefficients if name not in numbers]
    if missing:
        raise ColumnError(f"columns lacks {missing}, which the model needs")
    at = [numbers[name] for name in coefficients]
    return np.asarray(rows[:, at] @ np.array(list(coefficients.values())) + intercept)


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
