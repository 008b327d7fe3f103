"""What a model predicts, of any family: a Polars expression, SQL text, numbers of rows in memory.

A model has one linear predictor or several, and a link that makes the means of them::

    eta_k = intercept_k + sum_j coef_jk x_j        mean = link(eta)

Engines get both as formulas of a row (`dbselect.formulas`). For rows in memory all
predictors are one matrix product, and the formulas of the link are computed of that.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect import formulas
from dbselect.errors import ArgumentError, ColumnError
from dbselect.formulas import Formula, arrays, column, given, number, quote, total, translate
from dbselect.record.columns import SUFFIX
from dbselect.record.foreign import in_memory, is_frame
from dbselect.record.gram import Matrix

#: A flattened column: a field, then children ``.name`` and elements ``[number]``.
_PATH = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True)
class Predictor:
    """A linear predictor.

    Parameters
    ----------
    intercept : in the predictor's unit
    coefficients : column -> coefficient, in the table's units
    """

    intercept: float
    coefficients: Mapping[str, float]

    def formula(self, nested: bool) -> Formula:
        """Return the predictor of a row.

        Parameters
        ----------
        nested : as in `Predicting.expr`
        """
        marks = _marked(self.coefficients) if nested else []
        skipped = {name + SUFFIX for name in marks}

        def term(name: str, coef: float) -> Formula:
            value = column(tuple(path_of(name)) if nested else (name,))
            if name not in marks:
                return value * coef
            return given(value, value * coef, self.coefficients[name + SUFFIX])

        terms = [term(name, one) for name, one in self.coefficients.items() if name not in skipped]
        return total([number(self.intercept), *terms])


class Predicting(ABC):
    """What predicts from a row of a table: models, each with its predictors and its link."""

    @property
    @abstractmethod
    def _predictors(self) -> list[Predictor]:
        """The linear predictors, all of the same columns."""

    @property
    def _fields(self) -> list[str] | None:
        """Names of the numbers that are predicted; None for one number without a name."""
        return None

    @property
    def _inputs(self) -> list[str]:
        """The columns that are read, in the order of an array without names."""
        return list(self._predictors[0].coefficients)

    def _link(self, predictors: Sequence[Formula]) -> list[Formula]:
        """Return what is predicted, given the linear predictors."""
        return list(predictors)

    def expr(self, *, nested: bool = True) -> pl.Expr:
        """Return the prediction as a Polars expression; NULL where a column is NULL.

        Of a generalised linear model it is the mean of the target. Several responses, and
        the probabilities of several classes, are a struct with a field for each.

        Parameters
        ----------
        nested : whether ``demo.age`` and ``emb[3]`` are the child of a struct and the
            element of an array; False if they are plain columns of these names

        Notes
        -----
        An indicator ``x.missing`` of a model that has ``x`` as well is no column of a
        table: where ``x`` is NULL or NaN, ``x`` counts as 0 and the indicator as 1. With
        ``nested=False`` both are columns like all others.
        """
        means = [translate(mean, formulas.polars()) for mean in self._means(nested)]
        if self._fields is None:
            return means[0]
        return pl.struct(mean.alias(name) for mean, name in zip(means, self._fields, strict=True))

    def sql(self, dialect: str = "duckdb", *, nested: bool = True) -> str:
        """Return the prediction as the text of an SQL expression, with quoted names.

        Parameters
        ----------
        dialect : ``"duckdb"``, or a dialect of sqlglot (``pip install 'dbselect[sql]'``)
        nested : as in `expr`; only a NULL is missing in other dialects, not a NaN

        Raises
        ------
        ArgumentError : an unknown dialect, or sqlglot is not installed
        """
        algebra = formulas.sql(nan=dialect == "duckdb")
        means = [translate(mean, algebra) for mean in self._means(nested)]
        text = means[0]
        if self._fields is not None:
            named = [
                f"{quote(name)} := {mean}" for mean, name in zip(means, self._fields, strict=True)
            ]
            text = f"struct_pack({', '.join(named)})"
        return text if dialect == "duckdb" else translated(text, dialect)

    def predict(
        self, X: npt.ArrayLike, columns: Sequence[str] | None = None
    ) -> npt.NDArray[np.float64]:
        """Return predictions for rows in memory; NaN where a value is missing.

        Parameters
        ----------
        X : shape (n, d), numbers; or a frame or Arrow table, read by its own names, nested
            columns included
        columns : d names; default: the columns of the model, in their order, then the
            offset. Where ``x.missing`` is none of them, a NaN of ``x`` is what it marks

        Returns
        -------
        shape (n,); of K responses, or the probabilities of K classes, shape (n, K)

        Raises
        ------
        ArgumentError : X has another shape, or holds something else than numbers
        ColumnError : a column of the model is missing
        """
        given_rows: Any = X
        if columns is None and is_frame(given_rows):
            rows, names = _of_frame(in_memory(given_rows), self._inputs)
        else:
            names = self._inputs if columns is None else list(columns)
            rows = _of_array(given_rows, names)
        values = self._values(rows, names)
        algebra = arrays(lambda path: values[:, int(path[0])], _no_values)
        with np.errstate(all="ignore"):  # an infinite predictor has a mean, or none
            found = [
                translate(mean, algebra)
                for mean in self._link([column((k,)) for k in range(values.shape[1])])
            ]
        return np.asarray(found[0] if self._fields is None else np.column_stack(found))

    def _means(self, nested: bool) -> list[Formula]:
        return self._link([one.formula(nested) for one in self._predictors])

    def _values(self, rows: Matrix, names: Sequence[str]) -> Matrix:
        """Return the linear predictors of rows, shape (n, K)."""
        predictors = self._predictors
        wanted = predictors[0].coefficients
        numbers = {name: j for j, name in enumerate(names)}
        marks = [name for name in _marked(wanted) if name + SUFFIX not in numbers]
        skipped = {name + SUFFIX for name in marks}
        used = [name for name in wanted if name not in skipped]
        lacking = [name for name in used if name not in numbers]
        if lacking:
            raise ColumnError(f"columns lacks {lacking}, which the model needs")
        if marks or used != list(names):
            rows = rows[:, [numbers[name] for name in used]]  # a copy, which marks change
        found = np.tile([one.intercept for one in predictors], (len(rows), 1))
        for name in marks:
            j = used.index(name)
            missing = np.isnan(rows[:, j])
            rows[missing, j] = 0.0
            found[missing] += [one.coefficients[name + SUFFIX] for one in predictors]
        coef = np.array([[one.coefficients[name] for name in used] for one in predictors])
        return np.asarray(found + rows @ coef.T)


def _of_array(X: Any, names: Sequence[str]) -> Matrix:
    """Return rows without names as doubles, shape (n, d)."""
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"X holds something else than numbers: {error}") from None
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise ArgumentError(f"X has shape {rows.shape}; it must be (n, {len(names)}): {names}")
    return rows


def _of_frame(frame: pl.DataFrame, wanted: Sequence[str]) -> tuple[Matrix, list[str]]:
    """Return those of some columns that a frame has, as doubles, and their names.

    A column may be flat already, or lie in a struct or an array.
    """
    found = {}
    for name in wanted:
        path = [name] if name in frame.columns else path_of(name)
        dtype = _type_at(frame.schema, path)
        if dtype is None:
            continue
        if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
            raise ArgumentError(
                f"X holds something else than numbers: column '{name}' has type {dtype}"
            )
        found[name] = translate(column(tuple(path)), formulas.polars()).fill_null(np.nan)
    if not found:
        return np.empty((frame.height, 0)), []
    return frame.select(**found).to_numpy(), list(found)


def _type_at(schema: Mapping[str, Any], path: Sequence[str | int]) -> Any:
    """Return the type of what a path leads to; None if there is nothing."""
    field, *steps = path
    dtype: Any = schema.get(str(field))
    for step in steps:
        if isinstance(step, int):
            inside = isinstance(dtype, pl.Array) and 1 <= step <= dtype.size
            dtype = dtype.inner if inside else None
        else:
            children = dtype.to_schema() if isinstance(dtype, pl.Struct) else {}
            dtype = children.get(step)
    return dtype


def _no_values(path: Any, _: object) -> Any:
    raise KeyError(path)  # a link is a function of the predictors alone


def _marked(coefficients: Mapping[str, float]) -> list[str]:
    """Return the columns that have an indicator ``x.missing`` beside them.

    Nothing nested has that name: a number has no children.
    """
    return [name for name in coefficients if name + SUFFIX in coefficients]


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
