"""What a model predicts: ``link(intercept_k + sum_j coef_jk x_j)``, in Polars, SQL or numbers.

`record.formulas` has it as formulas of a row; `record.inputs` how a field becomes columns x_j.
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
from dbselect.pages.glance import Glance, InNotebooks
from dbselect.pages.html import listed
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
from dbselect.sources.lazy import brought_here, table_elsewhere
from dbselect.sources.request import Table


@dataclass(frozen=True)
class Predictor:
    """A linear predictor: its intercept, and column -> coefficient, in the table's units."""

    intercept: float
    coefficients: Mapping[str, float]

    def formula(self, inputs: Sequence[Input], unknown: HandleUnknown) -> Formula:
        """Return the predictor of a row, given the fields that are read."""
        terms = [one.formula(self.coefficients, unknown) for one in inputs]
        return total([number(self.intercept), *terms])


class Predicting(InNotebooks):
    """What predicts from a row of a table: models, each with its predictors and its link."""

    @property
    @abstractmethod
    def _predictors(self) -> list[Predictor]:
        """The linear predictors, all of the same columns."""

    @property
    def _prepared(self) -> Terms:
        """How the fields of the table became the columns of the predictors."""
        return Terms()

    @property
    def _fields(self) -> list[str] | None:
        """Names of the numbers that are predicted; None for one number without a name."""
        return None

    @property
    def _glance(self) -> Glance:
        models = self._predictors
        names = self._fields or ["coefficient"]
        terms = ["(intercept)", *models[0].coefficients]
        values = {
            name: [one.intercept, *one.coefficients.values()]
            for name, one in zip(names, models, strict=True)
        }
        return Glance(pl.DataFrame({"term": terms}).with_columns(pl.DataFrame(values)))

    @property
    def _inputs(self) -> list[str]:
        """The columns that are read, in the order of an array without names."""
        return list(self._predictors[0].coefficients)

    def _link(self, predictors: Sequence[Formula]) -> list[Formula]:
        """Return what is predicted, given the linear predictors."""
        return list(predictors)

    def expr(
        self, *, nested: bool | None = None, handle_unknown: HandleUnknown = "unavailable"
    ) -> pl.Expr:
        """Return the prediction as a Polars expression; NULL where a column is NULL.

        An infinite value, which `predict` takes as missing, makes an infinite prediction here.

        It reads the table as it was read for the fit: categories as text, ages as ages,
        dates as dates; what was filled there is filled here. Of a generalised linear model
        it is the mean of the target. Several responses, and the probabilities of several
        classes, are a struct with a field for each.

        Parameters
        ----------
        nested : whether ``demo.age`` and ``emb[3]`` are the child of a struct and the
            element of an array; False if they are plain columns of these names, as are all
            columns of the model, levels and indicators among them; None = as in the fit
        handle_unknown : how to treat a level that the fit has not seen and no column ``other``
            takes: ``"unavailable"`` predicts nothing, ``"error"`` raises, and ``"mean"`` adds
            what the levels add on average over the rows of the fit. An entry (of a MAP) beyond
            all numbers of the fit adds nothing with ``"mean"``

        Raises
        ------
        ArgumentError : another `handle_unknown`; ``"mean"`` of a model that was stored without
            the shares of its levels

        Notes
        -----
        An indicator ``x.missing`` of a model that has ``x`` as well is no column of a
        table: where ``x`` is NULL, NaN or infinite, it counts as 0 and the indicator as 1. A column
        that the table of the fit had by such a name is a column here, too; with
        ``nested=True`` it is none either, and with ``nested=False`` all are. Where the fit
        had dates, numbers are taken for days or seconds since 1970; where it had numbers,
        dates are an error.
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
        """Return the prediction as the text of an SQL expression, with quoted names.

        Parameters
        ----------
        dialect : ``"duckdb"``, or a dialect of sqlglot (``pip install 'dbselect[sql]'``)
        nested, handle_unknown : as in `expr`; in other dialects only a NULL is missing, not
            a NaN, and no level raises
        booleans : columns of numbers that are of type BOOLEAN in the table of that SQL, where
            its engine casts none to a double, as PostgreSQL and BigQuery: true is 1

        Raises
        ------
        ArgumentError : an unknown dialect, or sqlglot is not installed; another
            `handle_unknown`, or ``"error"`` in another dialect
        ColumnError : columns of the model differ in nothing but capitals, as SQL knows none;
            `booleans` names no column of numbers that the model reads
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
        X : a frame or Arrow table as the one of the fit, read by its own names, nested
            columns and columns that were made already included; a row as a mapping, a list of
            these, or columns by name; or numbers of shape (n, d);
            or a sparse matrix of SciPy, if the model reads a field of entries and no other
        columns : names of d columns; default: the columns of the model, in their order,
            then the offset. Where ``x.missing`` is none of them, a NaN of ``x`` is what it
            marks
        handle_unknown : as in `expr`
        missing_columns : how to treat a column of the model that X lacks: ``"error"`` raises,
            ``"unavailable"`` predicts NaN for every row; a sequence then uses a shorter prefix

        Returns
        -------
        shape (n,); of K responses, or the probabilities of K classes, shape (n, K)

        Raises
        ------
        ArgumentError : X has another shape, or text where a number was learnt; another
            `handle_unknown` or `missing_columns`; ``"mean"`` as in `expr`
        ColumnError : X lacks a column of the model, or a category has another type
        DataError : with ``"error"``, a level that the fit has not seen
        SourceError : Spark, or the engine of a table of ibis, cannot read it

        Warns
        -----
        DriverWarning : X is of Spark or ibis; the columns that are read pass into this process
        """
        inputs = inputs_of(list(self._predictors[0].coefficients), self._prepared)
        self._check_unknown(handle_unknown, inputs)
        check_missing_columns(missing_columns)
        if columns is None and _is_plain(X) and not self._prepared.dates:
            # A row of numbers needs no frame, which takes three times as long to make and read.
            columns, X = list(X), [list(X.values())]

        def refuse(frame: pl.DataFrame) -> None:
            check_there(read_of(frame, inputs)[1], frame, missing_columns)

        frame = prediction_table(X, columns, inputs, refuse)
        if frame is None:
            names = self._inputs if columns is None else list(columns)
            rows = array_of(X, names)
            read = [each for one in inputs for each in one.on(names)]
            places = {name: at for at, name in enumerate(names)}
            numbers = [one for one in read if isinstance(one, Number) and one.source in places]
            if len(numbers) == len(read):
                used = [places[one.source] for one in numbers]
                rows = rows if used == [*range(len(names))] else rows[:, used]
                return self._linked(self._of_numbers(rows, numbers))
            frame = frame_of(rows, names)
        read, absent = read_of(frame, inputs)
        if absent:
            check_there(absent, frame, missing_columns)
            return self._linked(np.full((frame.height, len(self._predictors)), np.nan))
        return self._linked(self._of_read(frame, read, handle_unknown))

    def _means(self, nested: bool | None, unknown: HandleUnknown) -> list[Formula]:
        predictors = self._predictors
        inputs = self._read(list(predictors[0].coefficients), nested)
        self._check_unknown(unknown, inputs)
        return self._link([one.formula(inputs, unknown) for one in predictors])

    def _check_unknown(self, unknown: HandleUnknown, inputs: Sequence[Input]) -> None:
        check_unknown(unknown, inputs)

    def _read(self, columns: Sequence[str], nested: bool | None) -> list[Input]:
        """Return what columns are read of a table that is not at hand: one as that of the fit."""
        if nested is None:
            return inputs_as_fitted(columns, self._prepared)
        return inputs_of(columns, self._prepared, nested)

    def _of_read(
        self, frame: pl.DataFrame, read: Sequence[Input], unknown: HandleUnknown
    ) -> Matrix:
        """Return the linear predictors of rows that have all that is read; shape (n, K)."""
        numbers = [one for one in read if isinstance(one, Number)]
        others = [one for one in read if not isinstance(one, Number)]
        values = {one.source: translate(one.value(), formulas.polars()) for one in numbers}
        rows = np.empty((frame.height, 0))
        if values:
            filled = {name: value.fill_null(np.nan) for name, value in values.items()}
            rows = frame.select(**filled).to_numpy()
        found = self._of_numbers(rows, numbers)
        for one in others:
            if isinstance(one, Listing):
                entries = formulas.entries_of(frame[one.source], one.source)
                sums_of = [one.weighed(own.coefficients, unknown) for own in self._predictors]
                found += np.column_stack([sum_of.values(entries) for sum_of in sums_of])
                continue
            for part in single_fields(one):
                if isinstance(part, Levels):
                    check_levels(part, frame, unknown)
            sums = [one.formula(own.coefficients, unknown) for own in self._predictors]
            each = enumerate(translate(value, formulas.polars()) for value in sums)
            named = {str(k): value.fill_null(np.nan) for k, value in each}
            found += frame.select(**named).to_numpy()
        return found

    def _linked(self, values: Matrix) -> npt.NDArray[np.float64]:
        """Return what is predicted, given the linear predictors of rows, shape (n, K)."""
        values = np.where(np.isfinite(values), values, np.nan)
        algebra = arrays(lambda path: values[:, int(path[0])])
        with np.errstate(all="ignore"):  # an infinite predictor has a mean, or none
            found = [
                translate(mean, algebra)
                for mean in self._link([column((k,)) for k in range(values.shape[1])])
            ]
        return np.asarray(found[0] if self._fields is None else np.column_stack(found))

    def _of_numbers(self, rows: Matrix, numbers: Sequence[Number]) -> Matrix:
        """Return the linear predictors as far as they are numbers' part, shape (n, K)."""
        predictors = self._predictors
        found = np.tile([one.intercept for one in predictors], (len(rows), 1))
        filled = [j for j, one in enumerate(numbers) if one.missing is not None]
        if filled:
            rows = rows.copy()
        for j in filled:
            missing = ~np.isfinite(rows[:, j])
            rows[missing, j] = 0.0
            found[missing] += [numbers[j].where_missing(one.coefficients) for one in predictors]
        coef = np.array(
            [[own.coefficients.get(one.source, 0.0) for one in numbers] for own in predictors]
        )
        return np.asarray(found + rows @ coef.T)


def prediction_table(
    X: Any,
    columns: Sequence[str] | None,
    inputs: list[Input],
    refuse: Callable[[pl.DataFrame], object],
) -> pl.DataFrame | None:
    """Return rows with names as a frame, else None; `refuse` sees the schema before a read."""
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
    """Whether rows are a list of mappings; ArgumentError if the first is one, and another none."""
    if not (isinstance(rows, list) and rows and isinstance(rows[0], Mapping)):
        return False
    at = next((at for at, row in enumerate(rows) if not isinstance(row, Mapping)), None)
    if at is not None:
        raise ArgumentError(f"row {at} is {shown(rows[at])}; it must be a mapping, as the first is")
    return True


def _is_plain(X: Any) -> TypeGuard[dict[str, float]]:
    """Whether rows are one, of numbers by name."""
    return type(X) is dict and {*map(type, X.values())} <= {int, float} and bool(X)


def _of_mapping(rows: Any) -> pl.DataFrame:
    """Return one row as a mapping, a list of such, or columns by name as a frame."""
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
    """Read what is needed of a table that another engine has, once its schema fits."""
    empty = pl.DataFrame(empty_table(table.schema))
    refuse(empty)
    read, _ = read_of(empty, inputs)
    fields = dict.fromkeys(str(one.path[0]) for one in single_fields(*read))
    return brought_here(table, list(fields) or table.schema.names[:1])


def array_of(X: Any, names: Sequence[str]) -> Matrix:
    """Return rows without names as doubles, shape (n, d)."""
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"X holds something else than numbers: {error}") from None
    if rows.ndim != 2 or rows.shape[1] != len(names):
        shape = f"(n, {len(names)}): {listed(names)}"
        raise ArgumentError(f"X has shape {rows.shape}; it must be {shape}")
    return rows


def frame_of(rows: Matrix, names: Sequence[str]) -> pl.DataFrame:
    """Return rows of named numbers as a frame, which has rows even if there are no names."""
    if not names:
        return pl.DataFrame({"": np.zeros(len(rows))})
    return pl.DataFrame({name: rows[:, at] for at, name in enumerate(names)})


def as_table(X: Any, inputs: Sequence[Input]) -> pa.Table:
    """Return a sparse matrix as a table of the one field that is read."""
    others = [one.source for one in inputs if not isinstance(one, Listing)]
    if others or len(inputs) != 1:
        raise ArgumentError(
            f"X is a {type(X).__name__}; the model reads {others or 'no field of entries'}: give a "
            "table, as sparse_table makes one of a matrix and other columns"
        )
    return pa.table({inputs[0].source: as_map(X)})


def read_of(frame: pl.DataFrame, inputs: Sequence[Input]) -> tuple[list[Input], list[str]]:
    """Return what is read of a frame, and the columns that it lacks."""
    schema = frame.schema
    read: list[Input] = []
    absent: dict[str, None] = {}
    for one in (each for asked in inputs for each in asked.on(schema.keys())):
        placed = [(part, _placed(part, schema)) for part in single_fields(one)]
        lacks = [part.source for part, found in placed if found is None]
        typed = [_typed(found, frame, schema) for _, found in placed if found is not None]
        absent |= dict.fromkeys(lacks)
        if not lacks:
            read.append(one if isinstance(one, Product) else typed[0])
    return read, list(absent)


def check_there(
    absent: Sequence[str], frame: pl.DataFrame, missing_columns: MissingColumns | None = None
) -> None:
    """Refuse rows that lack some columns, unless they may; None of a call without the option."""
    if absent and missing_columns != "unavailable":
        names = [leaf.name for leaf in leaves(frame.head(0).to_arrow().schema)]
        advice = "" if missing_columns is None else "; missing_columns='unavailable' allows this"
        raise ColumnError(lacking(absent, names) + advice)


def _flags(names: Collection[str], inputs: Sequence[Input]) -> list[formulas.Path]:
    """Return where columns of numbers lie that an engine has as BOOLEAN."""
    if isinstance(names, str):
        raise ArgumentError(f"booleans is {names!r}; it must be a list of columns")
    numbers = {one.source: one.path for one in inputs if isinstance(one, Number) and not one.unit}
    for name in names:
        if name not in numbers:
            raise ColumnError(f"booleans names {unknown('column', name, list(numbers))}")
    return [numbers[name] for name in names]


def _check_case(inputs: Sequence[Input]) -> None:
    """Refuse fields that are one to SQL."""
    known: dict[tuple[str, ...], str] = {}
    for one in single_fields(*inputs):
        path = tuple(str(step).casefold() for step in one.path)
        other = known.setdefault(path, one.source)
        if other != one.source:
            raise ColumnError(
                f"columns '{other}' and '{one.source}' are one column to SQL, which ignores "
                "case; rename one, or use expr or predict"
            )


def _typed(one: Input, frame: pl.DataFrame, schema: Mapping[str, Any]) -> Input:
    """Return a field as a frame of a schema has it; refuse another type."""
    dtype = _type_at(schema, one.path)
    if isinstance(one, Levels):
        if dtype != pl.Null and one.category.kind not in (_kind(dtype), None):
            raise ColumnError(
                f"column '{one.source}' has type {dtype}; the levels of its category are "
                f"{one.category.kind}"
            )
        return one
    if isinstance(one, Listing):
        formulas.entries_of(frame[one.source].head(0), one.source)
        return one
    if isinstance(one, Number) and one.unit is not None:
        if dtype in (pl.Date, pl.Datetime):
            return one
        one = replace(one, unit=None)
    if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
        raise ArgumentError(
            f"X holds something else than numbers: column '{one.source}' has type {dtype}"
        )
    return one


def _kind(dtype: Any) -> str | None:
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    if dtype == pl.Boolean:
        return "boolean"
    return "integer" if dtype.is_integer() else None


def check_levels(one: Levels, frame: pl.DataFrame, unknown: HandleUnknown) -> None:
    """Refuse an unseen level where that is an error, which Polars would hide in its own."""
    if unknown == "error" and (found := one.lookup({}, unknown)).refuses:
        values = formulas.polars_column(one.path).cast(formulas.value_column(found).dtype)
        formulas.refuse_others(found, frame.select(values).to_series())


def _placed(one: Input, schema: Mapping[str, Any]) -> Input | None:
    """Return a field as it lies in a frame, or in a field of NULLs; None if it lacks it."""
    for end in range(1, len(one.path)):
        if _type_at(schema, one.path[:end]) == pl.Null:
            return one if isinstance(one, Listing | Product) else replace(one, path=one.path[:end])
    return None if _type_at(schema, one.path) is None else one


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


def _compared_exactly(part: Any) -> Any:
    """Return a part of an expression of sqlglot, with levels compared byte by byte."""
    from sqlglot import exp

    if isinstance(part, exp.Case) and isinstance(part.this, exp.Cast):
        part.set("this", exp.Collate(this=part.this, expression=exp.Var(this="BINARY")))
    return part


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
        found = sqlglot.parse_one(f"SELECT {text}", read="duckdb")
        if dialect == "sqlite":
            # A column may have a collation that compares other texts alike: levels must not.
            found = found.transform(_compared_exactly)
        return found.sql(dialect=dialect)[len("SELECT ") :]
    except ValueError as error:
        raise ArgumentError(f"dialect is {dialect!r}: {error}") from None
