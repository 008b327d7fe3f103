"""Predictions ``link(intercept_k + sum_j coef_jk x_j)`` in Polars, in SQL or of rows in memory.

`record.formulas` has the formulas of a row; `record.inputs` turns fields into columns x_j.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from scipy.sparse import issparse

from dbselect._arrow import empty_table
from dbselect.errors import ArgumentError, ColumnError, shown, unknown
from dbselect.pages.html import Glance, InNotebooks, listed
from dbselect.record import formulas
from dbselect.record.columns import lacking, leaves
from dbselect.record.entries import as_map
from dbselect.record.foreign import is_frame, rows_in_memory
from dbselect.record.formulas import Formula, arrays, column, number, quote, total, translate
from dbselect.record.gram import Matrix
from dbselect.record.inputs import (
    HandleUnknown,
    Input,
    Levels,
    Listing,
    MissingColumns,
    Number,
    Product,
    check_missing_columns,
    check_unknown,
    inputs_as_fitted,
    inputs_of,
    single_fields,
)
from dbselect.record.terms import Terms
from dbselect.sources.open import brought_here, table_elsewhere
from dbselect.sources.request import Table


@dataclass(frozen=True)
class Predictor:
    """A linear predictor: its intercept, and column -> coefficient, in the table's units."""

    intercept: float
    coefficients: Mapping[str, float]

    def formula(self, inputs: Sequence[Input], unknown: HandleUnknown) -> Formula:
        """Return the predictor as a formula of the fields that are read."""
        terms = [field.formula(self.coefficients, unknown) for field in inputs]
        return total([number(self.intercept), *terms])


class Predicting(InNotebooks):
    """Base class of models that predict from a row of a table, by linear predictors and a link."""

    @property
    @abstractmethod
    def _predictors(self) -> list[Predictor]:
        """The linear predictors, which have the same columns."""

    @property
    def _prepared(self) -> Terms:
        """The terms that turn fields of the table into columns of the predictors."""
        return Terms()

    @property
    def _fields(self) -> list[str] | None:
        """Names of the predictions of a row; None for a single number."""
        return None

    @property
    def _glance(self) -> Glance:
        predictors = self._predictors
        names = self._fields or ["coefficient"]
        terms = ["(intercept)", *predictors[0].coefficients]
        values = {
            name: [predictor.intercept, *predictor.coefficients.values()]
            for name, predictor in zip(names, predictors, strict=True)
        }
        return Glance(pl.DataFrame({"term": terms}).with_columns(pl.DataFrame(values)))

    @property
    def _inputs(self) -> list[str]:
        """The columns that are read, in the order of an unnamed array."""
        return list(self._predictors[0].coefficients)

    def _link(self, predictors: Sequence[Formula]) -> list[Formula]:
        """Return the predictions as formulas of the linear predictors."""
        return list(predictors)

    def expr(
        self, *, nested: bool | None = None, handle_unknown: HandleUnknown = "unavailable"
    ) -> pl.Expr:
        """Return the prediction as a Polars expression; NULL where a column is NULL.

        An infinite value, which `predict` takes as missing, makes an infinite prediction here.

        It reads the table as the fit did: categories as text, ages as ages, dates as dates;
        missing values that were filled there are filled here. For a generalised linear model
        it is the mean of the target. Several responses, and the probabilities of several
        classes, are a struct with a field for each.

        Parameters
        ----------
        nested : True if ``demo.age`` and ``emb[3]`` are the child of a struct and the
            element of an array; False if the table has a plain column for every column of the
            model, levels and indicators included; None = as in the fit
        handle_unknown : how to treat a level that the fit has not seen and that no column
            ``other`` covers: ``"unavailable"`` predicts NULL, ``"error"`` raises, and ``"mean"``
            adds the mean effect of the levels over the rows of the fit. An entry (of a MAP)
            beyond all numbers of the fit adds nothing with ``"mean"``

        Raises
        ------
        ArgumentError : another `handle_unknown`; ``"mean"`` for a model that was stored without
            the shares of its levels

        Notes
        -----
        An indicator ``x.missing`` of a model that also has ``x`` is computed, not read: where
        ``x`` is NULL, NaN or infinite, ``x`` counts as 0 and the indicator as 1. If the table of
        the fit had a column of such a name, it is read; with ``nested=True`` it is computed, and
        with ``nested=False`` all indicators are read. Where the fit had dates, numbers are taken
        as days or seconds since 1970; where it had numbers, dates are an error.
        """
        means = [translate(mean, formulas.polars()) for mean in self._means(nested, handle_unknown)]
        if self._fields is None:
            return means[0]
        return pl.struct(mean.alias(name) for mean, name in zip(means, self._fields, strict=True))

    def sql(
        self,
        dialect: str = "duckdb",
        *,
        nested: bool | None = None,
        handle_unknown: HandleUnknown = "unavailable",
        booleans: Collection[str] = (),
    ) -> str:
        """Return the prediction as an SQL expression, with quoted names.

        Parameters
        ----------
        dialect : ``"duckdb"``, or a dialect of sqlglot (``pip install 'dbselect[sql]'``)
        nested, handle_unknown : as in `expr`; in other dialects only a NULL is missing, not
            a NaN, and no level raises
        booleans : columns of numbers that are BOOLEAN in the SQL table, for engines that do not
            cast BOOLEAN to a double, such as PostgreSQL and BigQuery: true is 1

        Raises
        ------
        ArgumentError : an unknown dialect, or sqlglot is not installed; another
            `handle_unknown`, or ``"error"`` in another dialect
        ColumnError : columns of the model differ only in case, which SQL ignores; `booleans`
            names a column that is not a column of numbers of the model
        """
        inputs = self._read(self._inputs, nested)
        _check_case(inputs)
        algebra = formulas.sql(duckdb=dialect == "duckdb", booleans=_flags(booleans, inputs))
        means = [translate(mean, algebra) for mean in self._means(nested, handle_unknown)]
        text = means[0]
        if self._fields is not None:
            named = [
                f"{quote(name)} := {mean}" for mean, name in zip(means, self._fields, strict=True)
            ]
            text = f"struct_pack({', '.join(named)})"
        return text if dialect == "duckdb" else translated(text, dialect)

    def predict(
        self,
        X: npt.ArrayLike,
        columns: Sequence[str] | None = None,
        *,
        handle_unknown: HandleUnknown = "unavailable",
        missing_columns: MissingColumns = "error",
    ) -> npt.NDArray[np.float64]:
        """Return predictions for rows in memory; NaN where a value is missing or infinite.

        Parameters
        ----------
        X : a frame or Arrow table with the column names of the fit, nested or with the derived
            columns already computed; a row as a mapping, a list of such rows, or a mapping of
            names to columns; numbers of shape (n, d); or a sparse matrix of SciPy, if the
            model reads a single field of entries
        columns : names of d columns; default: the columns of the model, in their order,
            then the offset. If ``x.missing`` is not among them, it is 1 where ``x`` is NaN
        handle_unknown : as in `expr`
        missing_columns : how to treat a column of the model that X lacks: ``"error"`` raises,
            ``"unavailable"`` predicts NaN for every row; a sequence then uses a shorter prefix

        Returns
        -------
        shape (n,); for K responses, or the probabilities of K classes, shape (n, K)

        Raises
        ------
        ArgumentError : X has another shape, or text in a column of numbers; another
            `handle_unknown` or `missing_columns`; ``"mean"`` as in `expr`
        ColumnError : X lacks a column of the model, or a category has another type
        DataError : with ``"error"``, a level that the fit has not seen
        SourceError : Spark, or the engine of a table of ibis, cannot read it

        Warns
        -----
        DriverWarning : X is of Spark or ibis; the columns read are copied into this process
        """
        inputs = inputs_of(list(self._predictors[0].coefficients), self._prepared)
        self._check_unknown(handle_unknown, inputs)
        check_missing_columns(missing_columns)
        if columns is None and _is_plain(X) and not self._prepared.dates:
            # A row of numbers needs no frame, which would take three times as long.
            columns, X = list(X), [list(X.values())]

        def check_columns(frame: pl.DataFrame) -> None:
            check_present(read_of(frame, inputs)[1], frame, inputs, missing_columns)

        frame = prediction_table(X, columns, inputs, check_columns)
        if frame is None:
            names = self._inputs if columns is None else list(columns)
            rows = array_of(X, names)
            read = [part for field in inputs for part in field.on(names)]
            positions = {name: at for at, name in enumerate(names)}
            numbers = [x for x in read if isinstance(x, Number) and x.source in positions]
            if len(numbers) == len(read):
                used = [positions[number.source] for number in numbers]
                rows = rows if used == [*range(len(names))] else rows[:, used]
                return self._linked(self._of_numbers(rows, numbers))
            frame = frame_of(rows, names)
        read, absent = read_of(frame, inputs)
        if absent:
            check_present(absent, frame, inputs, missing_columns)
            return self._linked(np.full((frame.height, len(self._predictors)), np.nan))
        return self._linked(self._of_read(frame, read, handle_unknown))

    def _means(self, nested: bool | None, unknown: HandleUnknown) -> list[Formula]:
        predictors = self._predictors
        inputs = self._read(list(predictors[0].coefficients), nested)
        self._check_unknown(unknown, inputs)
        return self._link([predictor.formula(inputs, unknown) for predictor in predictors])

    def _check_unknown(self, unknown: HandleUnknown, inputs: Sequence[Input]) -> None:
        check_unknown(unknown, inputs)

    def _read(self, columns: Sequence[str], nested: bool | None) -> list[Input]:
        """Return the inputs for a table that is not at hand; None: nested as in the fit."""
        if nested is None:
            return inputs_as_fitted(columns, self._prepared)
        return inputs_of(columns, self._prepared, nested)

    def _of_read(
        self, frame: pl.DataFrame, read: Sequence[Input], unknown: HandleUnknown
    ) -> Matrix:
        """Return the linear predictors of rows that have all inputs; shape (n, K)."""
        numbers = [field for field in read if isinstance(field, Number)]
        other_fields = [field for field in read if not isinstance(field, Number)]
        values = {field.source: translate(field.value(), formulas.polars()) for field in numbers}
        rows = np.empty((frame.height, 0))
        if values:
            filled = {name: value.fill_null(np.nan) for name, value in values.items()}
            rows = frame.select(**filled).to_numpy()
        result = self._of_numbers(rows, numbers)
        coefs = [predictor.coefficients for predictor in self._predictors]
        for field in other_fields:
            if isinstance(field, Listing):
                entries = formulas.entries_of(frame[field.source], field.source)
                weighted = [field.weighed(coef, unknown) for coef in coefs]
                result += np.column_stack([sums.values(entries) for sums in weighted])
                continue
            for part in single_fields(field):
                if isinstance(part, Levels):
                    check_levels(part, frame, unknown)
            terms = [translate(field.formula(coef, unknown), formulas.polars()) for coef in coefs]
            named = {str(k): term.fill_null(np.nan) for k, term in enumerate(terms)}
            result += frame.select(**named).to_numpy()
        return result

    def _linked(self, values: Matrix) -> npt.NDArray[np.float64]:
        """Apply the link to the linear predictors of rows, shape (n, K)."""
        values = np.where(np.isfinite(values), values, np.nan)
        algebra = arrays(lambda path: values[:, int(path[0])])
        with np.errstate(all="ignore"):  # the mean of an infinite predictor may not exist
            predictions = [
                translate(mean, algebra)
                for mean in self._link([column((k,)) for k in range(values.shape[1])])
            ]
        return np.asarray(predictions[0] if self._fields is None else np.column_stack(predictions))

    def _of_numbers(self, rows: Matrix, numbers: Sequence[Number]) -> Matrix:
        """Return intercepts plus the terms of the columns of numbers, shape (n, K)."""
        predictors = self._predictors
        result = np.tile([predictor.intercept for predictor in predictors], (len(rows), 1))
        filled = [j for j, number in enumerate(numbers) if number.missing is not None]
        if filled:
            rows = rows.copy()
        for j in filled:
            missing = ~np.isfinite(rows[:, j])
            rows[missing, j] = 0.0
            result[missing] += [numbers[j].where_missing(p.coefficients) for p in predictors]
        coef = np.array(
            [[p.coefficients.get(number.source, 0.0) for number in numbers] for p in predictors]
        )
        return np.asarray(result + rows @ coef.T)


def prediction_table(
    X: Any,
    columns: Sequence[str] | None,
    inputs: list[Input],
    refuse: Callable[[pl.DataFrame], object],
) -> pl.DataFrame | None:
    """Return rows with names as a frame, else None; `refuse` checks the schema before a read."""
    rows: Any = as_table(X, inputs) if issparse(X) else X
    if isinstance(rows, Mapping) or are_mappings(rows):
        rows = _of_mapping(rows)
    if columns is not None:
        return None
    elsewhere = table_elsewhere(rows)
    if elsewhere is not None:
        rows = _fetched(elsewhere, inputs, refuse)
    return rows_in_memory(rows) if is_frame(rows) else None


def are_mappings(rows: Any) -> bool:
    """Whether rows are a list of mappings; ArgumentError if only the first is one."""
    if not (isinstance(rows, list) and rows and isinstance(rows[0], Mapping)):
        return False
    at = next((at for at, row in enumerate(rows) if not isinstance(row, Mapping)), None)
    if at is not None:
        raise ArgumentError(f"row {at} is {shown(rows[at])}; it must be a mapping, as the first is")
    return True


def _is_plain(X: Any) -> TypeGuard[dict[str, float]]:
    """Whether X is a single row, a mapping of names to numbers."""
    return type(X) is dict and {*map(type, X.values())} <= {int, float} and bool(X)


def _of_mapping(rows: Any) -> pl.DataFrame:
    """Convert a row as a mapping, a list of such rows, or named columns to a frame."""
    is_columns = isinstance(rows, Mapping) and any(
        isinstance(value, list | tuple | np.ndarray | pl.Series) for value in rows.values()
    )
    try:
        several = is_columns or isinstance(rows, list)
        return pl.DataFrame(rows if several else [rows], infer_schema_length=None)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise ArgumentError(f"X is no table: {error}") from None


def _fetched(
    table: Table, inputs: list[Input], refuse: Callable[[pl.DataFrame], object]
) -> pl.DataFrame:
    """Read the needed columns of another engine's table, after a check of its schema."""
    empty = pl.DataFrame(empty_table(table.schema))
    refuse(empty)
    read, _ = read_of(empty, inputs)
    fields = dict.fromkeys(str(field.path[0]) for field in single_fields(*read))
    return brought_here(table, list(fields) or table.schema.names[:1])


def array_of(X: Any, names: Sequence[str]) -> Matrix:
    """Convert rows without names to doubles, shape (n, d)."""
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"X holds something else than numbers: {error}") from None
    if rows.ndim != 2 or rows.shape[1] != len(names):
        shape = f"(n, {len(names)}): {listed(names)}"
        raise ArgumentError(f"X has shape {rows.shape}; it must be {shape}")
    return rows


def frame_of(rows: Matrix, names: Sequence[str]) -> pl.DataFrame:
    """Convert rows of numbers to a frame, which keeps its height even without names."""
    if not names:
        return pl.DataFrame({"": np.zeros(len(rows))})
    return pl.DataFrame({name: rows[:, at] for at, name in enumerate(names)})


def as_table(X: Any, inputs: Sequence[Input]) -> pa.Table:
    """Convert a sparse matrix to a table with the single field that is read."""
    names = [field.source for field in inputs if not isinstance(field, Listing)]
    if names or len(inputs) != 1:
        raise ArgumentError(
            f"X is a {type(X).__name__}; the model reads {names or 'no field of entries'}: give a "
            "table, as sparse_table makes one of a matrix and other columns"
        )
    return pa.table({inputs[0].source: as_map(X)})


def read_of(frame: pl.DataFrame, inputs: Sequence[Input]) -> tuple[list[Input], list[str]]:
    """Return the inputs that a frame has, and the columns that it lacks."""
    schema = frame.schema
    read: list[Input] = []
    absent: dict[str, None] = {}
    for field in (part for group in inputs for part in group.on(schema.keys())):
        placed = [(part, _placed(part, schema)) for part in single_fields(field)]
        lacks = [part.source for part, located in placed if located is None]
        typed = [_typed(located, frame, schema) for _, located in placed if located is not None]
        absent |= dict.fromkeys(lacks)
        if not lacks:
            read.append(field if isinstance(field, Product) else typed[0])
    return read, list(absent)


def check_present(
    absent: Sequence[str],
    frame: pl.DataFrame,
    inputs: Sequence[Input] = (),
    missing_columns: MissingColumns | None = None,
) -> None:
    """Refuse rows that lack columns, unless allowed; None if the call has no such option."""
    if absent and missing_columns != "unavailable":
        # A column that is read itself is no misspelt other one.
        fields = (part for group in inputs for part in group.on(frame.columns))
        own = {part.source for field in fields for part in single_fields(field)}
        names = [leaf.name for leaf in leaves(frame.head(0).to_arrow().schema)]
        names = [name for name in names if name not in own]
        advice = "" if missing_columns is None else "; missing_columns='unavailable' allows this"
        raise ColumnError(lacking(absent, names) + advice)


def _flags(names: Collection[str], inputs: Sequence[Input]) -> list[formulas.Path]:
    """Return the paths of columns of numbers that are BOOLEAN in the engine."""
    if isinstance(names, str):
        raise ArgumentError(f"booleans is {names!r}; it must be a list of columns")
    numbers = {x.source: x.path for x in inputs if isinstance(x, Number) and not x.unit}
    for name in names:
        if name not in numbers:
            raise ColumnError(f"booleans names {unknown('column', name, list(numbers))}")
    return [numbers[name] for name in names]


def _check_case(inputs: Sequence[Input]) -> None:
    """Refuse fields whose names differ only in case, which SQL ignores."""
    sources: dict[tuple[str, ...], str] = {}
    for field in single_fields(*inputs):
        path = tuple(str(step).casefold() for step in field.path)
        other = sources.setdefault(path, field.source)
        if other != field.source:
            raise ColumnError(
                f"columns '{other}' and '{field.source}' are one column to SQL, which ignores "
                "case; rename one, or use expr or predict"
            )


def _typed(field: Input, frame: pl.DataFrame, schema: Mapping[str, Any]) -> Input:
    """Return a field with the type that it has in a frame; refuse types that do not fit."""
    dtype = _type_at(schema, field.path)
    if isinstance(field, Levels):
        if dtype != pl.Null and field.category.kind not in (_kind(dtype), None):
            raise ColumnError(
                f"column '{field.source}' has type {dtype}; the levels of its category are "
                f"{field.category.kind}"
            )
        return field
    if isinstance(field, Listing):
        formulas.entries_of(frame[field.source].head(0), field.source)
        return field
    if isinstance(field, Number) and field.unit is not None:
        if dtype in (pl.Date, pl.Datetime):
            return field
        field = replace(field, unit=None)
    if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
        raise ArgumentError(
            f"X holds something else than numbers: column '{field.source}' has type {dtype}"
        )
    return field


def _kind(dtype: Any) -> str | None:
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    if dtype == pl.Boolean:
        return "boolean"
    return "integer" if dtype.is_integer() else None


def check_levels(levels: Levels, frame: pl.DataFrame, unknown: HandleUnknown) -> None:
    """Refuse an unseen level if that is an error; Polars would hide it in its own error."""
    if unknown == "error" and (lookup := levels.lookup({}, unknown)).refuses:
        values = formulas.polars_column(levels.path).cast(formulas.value_column(lookup).dtype)
        formulas.refuse_others(lookup, frame.select(values).to_series())


def _placed(field: Input, schema: Mapping[str, Any]) -> Input | None:
    """Return a field with its path in a frame, cut at a field of NULLs; None if it is absent."""
    for end in range(1, len(field.path)):
        path = field.path[:end]
        if _type_at(schema, path) == pl.Null:
            return field if isinstance(field, Listing | Product) else replace(field, path=path)
    return None if _type_at(schema, field.path) is None else field


def _type_at(schema: Mapping[str, Any], path: Sequence[str | int]) -> Any:
    """Return the type at the end of a path; None if the path does not exist."""
    root, *steps = path
    dtype: Any = schema.get(str(root))
    for step in steps:
        if isinstance(step, int):
            inside = isinstance(dtype, pl.Array) and 1 <= step <= dtype.size
            dtype = dtype.inner if inside else None
        else:
            children = dtype.to_schema() if isinstance(dtype, pl.Struct) else {}
            dtype = children.get(step)
    return dtype


def _compared_exactly(part: Any) -> Any:
    """Make a CASE of sqlglot compare its levels byte by byte; leave other parts alone."""
    from sqlglot import exp

    if isinstance(part, exp.Case) and isinstance(part.this, exp.Cast):
        part.set("this", exp.Collate(this=part.this, expression=exp.Var(this="BINARY")))
    return part


def translated(text: str, dialect: str) -> str:
    """Translate an SQL expression of DuckDB to another dialect."""
    try:
        import sqlglot
    except ImportError:
        raise ArgumentError(
            f"dialect is {dialect!r}; other dialects than 'duckdb' need sqlglot: "
            "pip install 'dbselect[sql]'"
        ) from None
    try:
        statement = sqlglot.parse_one(f"SELECT {text}", read="duckdb")
        if dialect == "sqlite":
            # The collation of a column may treat different texts as equal; levels must differ.
            statement = statement.transform(_compared_exactly)
        return statement.sql(dialect=dialect)[len("SELECT ") :]
    except ValueError as error:
        raise ArgumentError(f"dialect is {dialect!r}: {error}") from None
