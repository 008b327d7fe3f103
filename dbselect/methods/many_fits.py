"""Least squares on each of many Gram records: one segment of a table each.

The compiled library fits a whole column of records, on all cores and without the interpreter:
the twin of the plain mode of `dbselect.fit`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa

from dbselect import _native
from dbselect.errors import ArgumentError
from dbselect.methods.fit import FitOptions
from dbselect.methods.options import Options
from dbselect.methods.segments import by_blocks, warn_of_condition, warn_of_traces
from dbselect.methods.setup import check_target
from dbselect.record.checks import check_share
from dbselect.record.gram import check_type

_NAMED = pl.List(pl.Struct({"key": pl.String, "value": pl.Float64}))
#: A model, as SQL has it; a MAP is a list of its entries in Polars.
FIT_DTYPE = pl.Struct(
    {
        "intercept": pl.Float64,
        "coefficients": _NAMED,
        "explained": pl.Float64,
        "r2": pl.Float64,
        "sigma": pl.Float64,
        "rows": pl.Int64,
        "skipped": pl.Int64,
        "aliased": pl.List(pl.String),
        "note": pl.String,
    }
)
_NUMBERS = ("estimate", "std_error", "statistic", "p_value", "standardized", "low", "high")
#: The summary of a model: a term an element.
SUMMARY_DTYPE = pl.List(pl.Struct({"term": pl.String, **dict.fromkeys(_NUMBERS, pl.Float64)}))


@dataclass(frozen=True, kw_only=True)
class SummaryOptions(Options):
    """The options of `summary` of a record."""

    method: ClassVar[str] = "summary"

    intercept: bool = FitOptions.intercept
    level: float = 0.95

    def __post_init__(self) -> None:
        """Refuse options that no data could make right."""
        super().__post_init__()
        FitOptions(intercept=self.intercept)
        check_share("level", self.level)


def fit_each(
    grams: pl.DataFrame,
    target: str,
    columns: Sequence[str] | None = None,
    *,
    intercept: bool = FitOptions.intercept,
    ridge: float = FitOptions.ridge,
    scale: bool = FitOptions.scale,
) -> pl.DataFrame:
    """Return the linear model of every segment, and why there is none where there is none.

    Parameters
    ----------
    grams : DataFrame with a column ``gram`` of Gram records, as `gram_by` returns it
    target, columns, intercept, ridge, scale : as in `fit`

    Returns
    -------
    DataFrame: the other columns of `grams`; ``fit``, a struct as of ``fit`` in SQL, null where
    there is none: intercept, coefficients, explained, r2, sigma (the residuals' standard
    deviation, null with a ridge and where no row is left to estimate it), rows, skipped, the
    aliased columns, and as note what `fit` warns of; ``status``, null, or why there is none

    Raises
    ------
    As `fit`, for arguments; an unusable record raises nothing

    Warns
    -----
    ConditionWarning : a segment has columns so nearly dependent that their coefficients keep
        fewer than six digits
    DependenceWarning : a segment leaves out a column that depends on others but for a trace, by
        which it may explain much

    Notes
    -----
    O(D^3) a segment, some microseconds for a few columns, on all cores; memory beside the result
    does not grow with the number of segments. Standard errors and p-values of each:
    ``pl.col("gram").dbselect.summary(target)``.

    References
    ----------
    As `fit`.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"k": [1, 1, 1, 2], "x": [1, 2, 3, 4], "y": [3, 5, 7, 8]})
    >>> found = ds.fit_each(ds.gram_by(table, by=["k"]), "y")
    >>> found.select("k", pl.col("fit").struct.field("intercept", "r2").round(6), "status").rows()
    [(1, 1.0, 1.0, None), (2, None, None, "target 'y' is constant (1 rows)")]
    """
    check_target(target)
    if not isinstance(grams, pl.DataFrame) or "gram" not in grams.columns:
        raise ArgumentError("grams has no column 'gram'; it must be a DataFrame as of gram_by")
    taken = [name for name in ("fit", "status") if name in grams.columns]
    if taken:
        raise ArgumentError(f"grams has a column '{taken[0]}'; rename it, as the result has one")
    options = FitOptions(intercept=intercept, ridge=ridge, scale=scale)
    check_columns(columns)

    def answer(records: pa.Array) -> pa.StructArray:
        found = fitted_records(records, target, columns, options)
        return pa.StructArray.from_arrays(
            [found.field("found"), found.field("status")], ["fit", "status"]
        )

    dtype = pl.Struct({"fit": FIT_DTYPE, "status": pl.String})
    found = by_blocks(grams["gram"], answer, dtype).struct.unnest()
    return grams.drop("gram").with_columns(found)


def check_columns(columns: Any) -> None:
    """Refuse columns that are no list of names and globs."""
    is_list = isinstance(columns, Sequence) and not isinstance(columns, str)
    if columns is None or (is_list and all(isinstance(name, str) for name in columns)):
        return
    raise ArgumentError(f"columns is {columns!r}; it must be a list of column names and globs")


def fitted_records(
    records: pa.Array, target: str, columns: Sequence[str] | None, options: Options
) -> pa.StructArray:
    """Fit each record, or summarise its fit, by the record of options.

    Parameters
    ----------
    records : Arrow structs
    columns : names and globs
    options : `FitOptions` or `SummaryOptions`

    Returns
    -------
    A row for each record: ``found``, null where there is none; ``status``, null, or why there is
    none

    Raises
    ------
    ArgumentError, ColumnError : as `fit`

    Warns
    -----
    ConditionWarning, DependenceWarning : as `fit_each`
    """
    check_type(records)
    named = None if columns is None else list(columns)
    given = {**options.given(), "columns": named}
    found = _native.fit_records(records, options.method, target, given)
    warn_of_condition(found.field("condition"))
    warn_of_traces(found.field("trace"))
    return found
