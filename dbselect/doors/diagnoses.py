"""What least squares on a record are worth, for DuckDB and Polars alike: one answer a record."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa

from dbselect.doors.results import Call, Method
from dbselect.methods.diagnoses import (
    ConditionOptions,
    DiagnosisOptions,
    FTestOptions,
    PartialOptions,
    VifOptions,
    diagnosis,
)
from dbselect.methods.fit import fit
from dbselect.methods.segments import by_blocks, result_of
from dbselect.methods.setup import check_target
from dbselect.record.gram import check_type


def _by_column(*names: str) -> pa.DataType:
    numbers = [(name, pa.float64()) for name in names]
    return pa.list_(pa.struct([("column", pa.string()), *numbers]))


#: What each answers, in Arrow.
TYPES: dict[str, pa.DataType] = {
    "vif": _by_column("vif"),
    "partial_correlations": _by_column("correlation", "partial", "semipartial"),
    "condition_number": pa.float64(),
    "f_test": pa.struct(
        [
            ("df", pa.int64()),
            ("df_residual", pa.int64()),
            ("statistic", pa.float64()),
            ("p_value", pa.float64()),
        ]
    ),
}


def _method(options: type[DiagnosisOptions]) -> Method:
    """Return what answers for each of some records; NULL for an unusable one."""

    def run(records: pa.Array, target: str, given: Call) -> pa.Array:
        check_type(records)
        ask = diagnosis(_asked(given))
        found = [result_of(lambda gram: ask(gram, target), one, target) for one in records]
        return pa.array(found, TYPES[options.method])

    return Method(fit, options, run)


def _asked(given: Call) -> DiagnosisOptions:
    """Return the options with the columns, which a door reads by name."""
    assert isinstance(given.options, DiagnosisOptions)
    return replace(given.options, **given.named)


#: What is asked of a record, by the name of the method of `Model`.
DIAGNOSES: dict[str, Method] = {
    options.method: _method(options)
    for options in (VifOptions, PartialOptions, ConditionOptions, FTestOptions)
}


class Diagnosing:
    """Methods of an expression of records, of least squares on each; null for an unusable one."""

    _expr: pl.Expr

    def vif(
        self, target: str, columns: Sequence[str] | None = None, *, intercept: bool = True
    ) -> pl.Expr:
        """Return a list of struct(column, vif) for each record, as in SQL.

        Parameters
        ----------
        target, columns, intercept : as in `dbselect.fit`; `Model.vif` says what is told

        Examples
        --------
        >>> import dbselect, polars as pl
        >>> df = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, 2, 3, 5], "y": [3, 4, 6, 9]})
        >>> found = df.select(pl.struct("a", "b", "y").dbselect.gram().dbselect.vif("y"))
        >>> found["a"].explode().struct.unnest().with_columns(pl.col("vif").round(3)).rows()
        [('a', 29.167), ('b', 29.167)]
        """
        return self._diagnosed("vif", target, columns=columns, intercept=intercept)

    def partial_correlations(
        self, target: str, columns: Sequence[str] | None = None, *, intercept: bool = True
    ) -> pl.Expr:
        """Return a list of struct(column, correlation, partial, semipartial), as in SQL.

        Parameters
        ----------
        target, columns, intercept : as in `dbselect.fit`; `Model.partial_correlations` says
            what is told
        """
        return self._diagnosed("partial_correlations", target, columns=columns, intercept=intercept)

    def condition_number(
        self, target: str, columns: Sequence[str] | None = None, *, intercept: bool = True
    ) -> pl.Expr:
        """Return the condition number of the scaled columns of each record, as in SQL.

        Parameters
        ----------
        target, columns, intercept : as in `dbselect.fit`; `Model.condition_number` says what is
            told
        """
        return self._diagnosed("condition_number", target, columns=columns, intercept=intercept)

    def f_test(
        self,
        target: str,
        tested: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        *,
        intercept: bool = True,
    ) -> pl.Expr:
        """Return struct(df, df_residual, statistic, p_value) for each record, as in SQL.

        Parameters
        ----------
        target : as in `dbselect.fit`
        tested : columns whose coefficients may all be 0; default: all, as in `Model.f_test`
        columns, intercept : as in `dbselect.fit`
        """
        return self._diagnosed(
            "f_test", target, tested=tested, columns=columns, intercept=intercept
        )

    def _diagnosed(self, name: str, target: str, **options: Any) -> pl.Expr:
        check_target(target)
        method = DIAGNOSES[name]
        given = method.read({name: one for name, one in options.items() if one is not None})
        _asked(given)
        empty: Any = pl.from_arrow(pa.array([], TYPES[name]))
        return self._answered(method, target, given, empty.dtype)

    def _answered(self, method: Method, target: str, given: Call, dtype: Any) -> pl.Expr:
        """Return the answer of a method for each record, many at a time."""

        def answers(records: pl.Series) -> pl.Series:
            return by_blocks(records, lambda block: method.run(block, target, given), dtype)

        return self._expr.map_batches(answers, return_dtype=dtype, is_elementwise=True)
