"""Least squares on each of many Gram records: one segment of a table each."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from dbselect import _native
from dbselect.methods.fits.fit import check_columns
from dbselect.methods.records import (
    answer_type,
    answered,
    asked_of,
    warn_of_condition,
    warn_of_traces,
)
from dbselect.record.gram import check_type, dtype_of

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem

#: Methods that choose groups, and are no sequence, which the compiled library has.
CHOICES = (
    "exchange", "dash", "best_within", "sght", "lasso", "sparse_group_lasso", "knockoffs"
)  # fmt: skip


def fits_of_records(
    grams: pl.DataFrame, problem: "Problem", columns: Sequence[str] | None
) -> pl.DataFrame:
    """Return the linear model of every segment, and why there is none where there is none.

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
    >>> found = ds.fit_by(ds.gram_by(table, by=["k"]), "y")
    >>> found.select("k", pl.col("fit").struct.field("intercept", "r2").round(6), "status").rows()
    [(1, 1.0, 1.0, None), (2, None, None, "target 'y' is constant (1 rows)")]
    """
    check_columns(columns)

    def answer(records: pa.Array) -> pa.StructArray:
        found = answers_of(records, problem, "fit", {"columns": columns})
        return pa.StructArray.from_arrays(
            [found.field("found"), found.field("status")], ["fit", "status"]
        )

    return answered(grams, "fit", dtype_of(answer_type("fit")), answer)


def answers_of(
    records: pa.Array, problem: "Problem", method: str, options: Mapping[str, Any]
) -> pa.StructArray:
    """Ask each record, by a method of the compiled library that returns no sequence.

    Columns are among the options. Arguments raise as in `fit`; an unusable record raises nothing,
    an array of something else than records RecordError.
    """
    check_type(records)
    lists = {
        name: list(value) for name, value in options.items()
        if isinstance(value, Sequence) and not isinstance(value, str)
    }  # fmt: skip
    own, target = {**options, **lists}, problem.targets[0]
    if method in CHOICES:
        found = asked_of(
            records, problem, own, lambda some, asked: _native.answers(some, method, target, asked)
        )
    else:
        found = _native.answers(records, method, target, {**problem.changed(), **own})
    warn_of_condition(found.field("condition"))
    warn_of_traces(found.field("trace"))
    return found
