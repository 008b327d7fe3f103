"""What Polars asks of a column of records: the searches, and fits of columns that are named."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from dbselect.doors.diagnoses import Diagnosing
from dbselect.doors.results import BESIDE, FITS, MODELS, PENALISED, PROVEN, SEQUENCES, Method
from dbselect.methods.many_fits import FIT_DTYPE, SUMMARY_DTYPE, check_columns
from dbselect.methods.segments import by_blocks, statuses
from dbselect.methods.setup import check_target
from dbselect.methods.types import Costs, GroupColumns
from dbselect.record.steps import SEQUENCE_DTYPE

_MODEL_FIELDS: dict[str, Any] = {
    "columns": pl.List(pl.String),
    "groups": pl.List(pl.String),
    "intercept": pl.Float64,
    "coefficients": pl.List(pl.Struct({"key": pl.String, "value": pl.Float64})),
    "explained": pl.Float64,
    "r2": pl.Float64,
    "spent": pl.Float64,
}
MODEL_DTYPE = pl.Struct(_MODEL_FIELDS)
BESIDE_DTYPE = pl.List(
    pl.Struct(
        {
            "group": pl.String,
            **dict.fromkeys(("cost", "statistic", "frequency", "e_value"), pl.Float64),
            "selected": pl.Boolean,
        }
    )
)
PROVEN_DTYPE = pl.Struct(
    {**_MODEL_FIELDS, "bound": pl.Float64, "gap": pl.Float64, "proven": pl.Boolean}
)
PENALISED_DTYPE = pl.Struct(
    {**_MODEL_FIELDS, **dict.fromkeys(("penalty", "df", "gap", "violation"), pl.Float64)}
)


class Searching(Diagnosing):
    """Methods of an expression of records, one answer each; null for an unusable one."""

    def anytime_sequence(
        self,
        target: str,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        **options: Any,
    ) -> pl.Expr:
        """Return a list of steps for each record, as in SQL; empty if it is unusable.

        Parameters
        ----------
        target, groups, costs, options : as in `dbselect.anytime_sequence`
        """
        return self._sequences("anytime_sequence", target, groups, costs, options)

    def foba(
        self,
        target: str,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        **options: Any,
    ) -> pl.Expr:
        """Return a list of steps for each record, as in SQL; empty if it is unusable.

        Parameters
        ----------
        target, groups, costs, options : as in `dbselect.foba`
        """
        return self._sequences("foba", target, groups, costs, options)

    def backward(
        self,
        target: str,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        **options: Any,
    ) -> pl.Expr:
        """Return a list of steps for each record, as in SQL; empty if it is unusable.

        Parameters
        ----------
        target, groups, costs, options : as in `dbselect.backward`
        """
        return self._sequences("backward", target, groups, costs, options)

    def floating(
        self,
        target: str,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        **options: Any,
    ) -> pl.Expr:
        """Return a list of steps for each record, as in SQL; empty if it is unusable.

        Parameters
        ----------
        target, groups, costs, options : as in `dbselect.floating`
        """
        return self._sequences("floating", target, groups, costs, options)

    def step(
        self,
        target: str,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        **options: Any,
    ) -> pl.Expr:
        """Return a list of steps for each record, as in SQL; empty if it is unusable.

        Parameters
        ----------
        target, groups, costs, options : as in `dbselect.step`
        """
        return self._sequences("step", target, groups, costs, options)

    def dash(
        self,
        target: str,
        k: int,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        **options: Any,
    ) -> pl.Expr:
        """Return struct(columns, groups, intercept, coefficients, explained, r2, spent) as in SQL.

        Parameters
        ----------
        target, k, groups, costs, options : as in `dbselect.dash`
        """
        return self._models("dash", target, {"k": k, "groups": groups, "costs": costs, **options})

    def exchange(
        self,
        target: str,
        k: int,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        **options: Any,
    ) -> pl.Expr:
        """Return struct(columns, groups, intercept, coefficients, explained, r2, spent) as in SQL.

        Parameters
        ----------
        target, k, groups, costs, options : as in `dbselect.exchange`
        """
        named = {"k": k, "groups": groups, "costs": costs, **options}
        return self._models("exchange", target, named)

    def knockoffs(
        self,
        target: str,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        **options: Any,
    ) -> pl.Expr:
        """Return a list of struct(group, cost, statistic, frequency, e_value, selected) as in SQL.

        Parameters
        ----------
        target, groups, costs, options : as in `dbselect.knockoffs`, but for those of its search
        """
        named = {"groups": groups, "costs": costs, **options}
        return self._call(BESIDE["knockoffs"], target, named, BESIDE_DTYPE)

    def sght(
        self,
        target: str,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        **options: Any,
    ) -> pl.Expr:
        """Return struct(columns, groups, intercept, coefficients, explained, r2, spent) as in SQL.

        Parameters
        ----------
        target, groups, costs, options : as in `dbselect.sght`
        """
        return self._models("sght", target, {"groups": groups, "costs": costs, **options})

    def best_within(
        self,
        target: str,
        budget: float,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        **options: Any,
    ) -> pl.Expr:
        """Return the struct of `sght` with bound, gap and proven beside it, as in SQL.

        Parameters
        ----------
        target, budget, groups, costs, options : as in `dbselect.best_within`

        Examples
        --------
        >>> import dbselect, polars as pl
        >>> df = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
        >>> gram = pl.struct("a", "b", "y").dbselect.gram()
        >>> best = gram.dbselect.best_within("y", 4.0, costs={"a": 5.0, "b": 1.0})
        >>> df.select(best.struct.field("groups", "spent", "proven")).row(0)
        (['b'], 1.0, True)
        """
        named = {"budget": budget, "groups": groups, "costs": costs, **options}
        return self._call(PROVEN["best_within"], target, named, PROVEN_DTYPE)

    def lasso(
        self,
        target: str,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        **options: Any,
    ) -> pl.Expr:
        """Return the struct of `sght` with penalty, df, gap and violation beside it, as in SQL.

        Parameters
        ----------
        target, groups, costs, options : as in `dbselect.lasso`

        Examples
        --------
        >>> import dbselect, polars as pl
        >>> df = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
        >>> found = pl.struct("a", "b", "y").dbselect.gram().dbselect.lasso("y", penalty=0.5)
        >>> df.select(found.struct.field("columns", "penalty")).row(0)
        (['a'], 0.5)
        """
        named = {"groups": groups, "costs": costs, **options}
        return self._call(PENALISED["lasso"], target, named, PENALISED_DTYPE)

    def sparse_group_lasso(
        self,
        target: str,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        **options: Any,
    ) -> pl.Expr:
        """Return the struct of `lasso` for columns in groups, as in SQL.

        Parameters
        ----------
        target, groups, costs, options : as in `dbselect.sparse_group_lasso`
        """
        named = {"groups": groups, "costs": costs, **options}
        return self._call(PENALISED["sparse_group_lasso"], target, named, PENALISED_DTYPE)

    def fit(self, target: str, columns: Sequence[str] | None = None, **options: Any) -> pl.Expr:
        """Return struct(intercept, coefficients, explained, r2, sigma, rows, ...) as in SQL.

        Parameters
        ----------
        target, columns, options : as in `dbselect.fit_each`

        Examples
        --------
        >>> import dbselect, polars as pl
        >>> df = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
        >>> gram = pl.struct("a", "b", "y").dbselect.gram()
        >>> model = df.select(gram.dbselect.fit("y", ["a"]).alias("fit")).unnest("fit")
        >>> model.select(pl.col("intercept", "r2").round(3), "rows").row(0)
        (0.5, 0.952, 4)
        """
        return self._fits("fit", target, columns, options, FIT_DTYPE)

    def summary(self, target: str, columns: Sequence[str] | None = None, **options: Any) -> pl.Expr:
        """Return a list of struct(term, estimate, std_error, statistic, p_value, ..., low, high).

        Parameters
        ----------
        target, columns : as in `dbselect.fit_each`
        options : intercept, as there; level, of the intervals from low to high, in (0, 1)

        Notes
        -----
        `Model.summary` and `Model.intervals` of `dbselect.fit` in one; null for an unusable record.

        Examples
        --------
        >>> import dbselect, polars as pl
        >>> df = pl.DataFrame({"a": [1, 2, 3, 4], "y": [3, 4, 6, 9]})
        >>> terms = df.select(pl.struct("a", "y").dbselect.gram().dbselect.summary("y"))
        >>> terms["a"].explode().struct.unnest().select("term", pl.col("p_value").round(3)).rows()
        [('(intercept)', 0.622), ('a', 0.024)]
        """
        return self._fits("summary", target, columns, options, SUMMARY_DTYPE)

    def _fits(
        self,
        method: str,
        target: str,
        columns: Sequence[str] | None,
        options: Mapping[str, Any],
        dtype: Any,
    ) -> pl.Expr:
        check_columns(columns)
        return self._call(FITS[method], target, {"columns": columns, **options}, dtype)

    def _models(self, method: str, target: str, options: Mapping[str, Any]) -> pl.Expr:
        return self._call(MODELS[method], target, options, MODEL_DTYPE)

    def _sequences(
        self,
        method: str,
        target: str,
        groups: GroupColumns | None,
        costs: Costs | None,
        options: Mapping[str, Any],
    ) -> pl.Expr:
        named = {"groups": groups, "costs": costs, **options}
        return self._call(SEQUENCES[method], target, named, SEQUENCE_DTYPE)

    def _call(self, method: Method, target: str, options: Mapping[str, Any], dtype: Any) -> pl.Expr:
        check_target(target)
        return self._answered(method, target, method.read(options), dtype)

    def check(self, target: str) -> pl.Expr:
        """Return why no sequence can be computed from each record, as `gram_check` in SQL.

        It looks at all columns together, a search at those it meets: a record that no rows can
        have may be refused here, and give a sequence that ends before the columns that are wrong.

        Parameters
        ----------
        target : column to predict

        Examples
        --------
        >>> import dbselect, polars as pl
        >>> df = pl.DataFrame({"k": [1, 1, 2], "x": [1, 2, 3], "y": [2, 4, 8]})
        >>> grams = df.group_by("k", maintain_order=True).agg(
        ...     gram=pl.struct("x", "y").dbselect.gram())
        >>> grams.select(pl.col("gram").dbselect.check("y"))["gram"].to_list()
        [None, "target 'y' is constant (1 rows)"]
        """

        def reasons(records: pl.Series) -> pl.Series:
            return by_blocks(records, lambda block: statuses(block, target), pl.String)

        return self._expr.map_batches(reasons, return_dtype=pl.String, is_elementwise=True)
