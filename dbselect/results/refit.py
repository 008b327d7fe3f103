"""Refit a model on other rows, or read its own rows again."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from dbselect._lazy import load
from dbselect.errors import ArgumentError
from dbselect.record.gram import Gram
from dbselect.record.inputs import HandleUnknown
from dbselect.record.terms import Terms
from dbselect.results.prediction.contributions import contributions_of

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem
    from dbselect.validation.robust.robust import CovType, RobustErrors


class Refitted:
    """A model of some columns of a problem."""

    terms: Terms

    if TYPE_CHECKING:  # a field of models

        @property
        def target(self) -> str:
            """The column that is predicted."""

    @property
    def problem(self) -> "Problem":
        """What is asked about the data, without its rows."""
        raise NotImplementedError

    @property
    def columns(self) -> list[str]:
        """The columns of the groups held."""
        raise NotImplementedError

    def refit(self, source: Any) -> Any:
        """Return the model on the same columns, fitted to the rows of another source.

        Columns become what they became here: the same levels, curves and means of what is
        missing.

        Parameters
        ----------
        source : table, or Gram of a linear model, with the columns of this one

        Raises
        ------
        ArgumentError : the model has no columns
        """
        if not self.columns:
            raise ArgumentError("the model has no columns, so that there is nothing to fit again")
        # The problem may have several responses, of which this is the model of one.
        asked = self.problem.replace(
            source=source, target=self.target, groups=None, costs=None, always=()
        )
        if isinstance(source, Gram) or not self.terms:
            return asked.fit(self.columns)
        names = self.terms.sources()
        read = list(dict.fromkeys(names.get(name, name) for name in self.columns))
        return asked.replace(terms=self.terms.of(self.columns)).fit(read)

    @property
    def _centre(self) -> Mapping[str, float]:
        """The means of the columns over the rows of the fit; empty if they are not known."""
        return {}

    def contributions(
        self, rows: Any, background: Any = None, *, handle_unknown: HandleUnknown = "unavailable"
    ) -> pl.DataFrame:
        """Return what each group adds to the predictions of rows in memory.

        Parameters
        ----------
        rows : as `X` of `Predicting.predict`, with names
        background : rows whose mean is subtracted; default: those of the fit
        handle_unknown : as of `Predicting.expr`

        Returns
        -------
        DataFrame, one row a row and one column a group, in the order taken: the group's part of
        the linear predictor less its mean. They add up to the prediction less the mean prediction,
        of a family on the scale of the link; several classes follow each other, by ``class``. An
        offset is a group of its own. NaN where a value is missing

        Raises
        ------
        ArgumentError : the means of the columns over the rows of the fit are not known, as after
            a file or beside an offset; give `background`
        ColumnError, DataError : as `Predicting.predict`

        Notes
        -----
        O(D) a row; exact Shapley values of groups that are independent, as of shap's
        ``LinearExplainer`` (Lundberg, Lee 2017, Advances in Neural Information Processing Systems
        30).

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 6], "b": [1, -1, -1, 1], "y": [3, 3, 5, 13]})
        >>> model = ds.fit(table, "y")  # y = 2 a + b
        >>> model.contributions(table.tail(1)).select(pl.all().round(6)).rows()
        [(6.0, 1.0)]
        """
        return contributions_of(self, rows, background, self._centre, handle_unknown)

    def robust_errors(
        self,
        source: Any,
        *,
        cov_type: "CovType | None" = None,
        cluster: str | Sequence[str] | None = None,
        time: str | None = None,
        maxlags: int | None = None,
        weight: str | None = None,
    ) -> "RobustErrors":
        """Read the rows of the fit once more, for standard errors that hold if their errors differ.

        Parameters
        ----------
        source : the table that it was fitted to: the same rows, in any order and any form that
            `gram` reads. Of a prefix the columns of the whole search are read, as a missing value
            in any of them left a row out
        cov_type : as statsmodels names it; default ``"HC1"``, with `cluster` ``"cluster"``, with
            `time` ``"HAC"``:

            =============== ========================================================
            ``HC0``         squared residuals (White 1980)
            ``HC1``         times n / (n - r), r the rank
            ``HC2``         each over 1 - its leverage; unbiased where variances agree
            ``HC3``         each over the square of that; for few rows. HC2 and HC3 of
                            least squares only
            ``cluster``     sums of each cluster, times G / (G - 1) (n - 1) / (n - r)
            ``HAC``         sums of each time and of those before (Newey, West 1987)
            =============== ========================================================
        cluster : column whose values are the clusters, within which errors may go together; or two
            columns, clusters in two ways (Cameron, Gelbach, Miller 2011)
        time : column whose order is that of the rows; rows of equal time are summed (Driscoll,
            Kraay 1998)
        maxlags : times back that count, with Bartlett's weights; default 4 (T / 100)^(2/9) of T
            times, rounded down
        weight : column of row weights that the fit had; default: that of its problem

        Returns
        -------
        RobustErrors. Of least squares tests are by Student's t with n - r degrees of freedom, of G
        clusters G - 1, in two ways the smaller G; of a family by the normal distribution

        Raises
        ------
        ArgumentError : there is no such cov_type, or it does not go with `cluster` or `time`; the
            model has a ridge, knows no rows, or was fitted with ``exact=True``; several responses
            or classes; the source is a Gram, which holds no rows
        ColumnError : the table lacks a column, or has one of another type
        DataError : the rows are not those of the fit; no rows are left to judge the model, n <= r;
            a row of it has no cluster, or all have one; HC2 and HC3 of rows that are fitted
            exactly; the columns are too nearly dependent

        Notes
        -----
        One pass, O(D r + r^2) a row, streamed as any work over rows: Spark, Dask and Ray sum where
        their rows are. Memory 32,768 rows of r numbers at a time for each thread; of G clusters
        or times 8 G r bytes more and the keys, so that those of one row each cost as much as the
        rows.

        Row weights are precisions, ``var_weights`` in statsmodels; results are those of its OLS and
        WLS by ``get_robustcov_results`` with ``use_t``. Of families with a link that is not
        canonical the expected information is taken, as R's sandwich does; HC1 of statsmodels' GLM
        is its HC0.

        The same rows are recognised by their number, their weight, and by their gradient, which
        vanishes at the coefficients of a fit.

        References
        ----------
        White (1980), Econometrica 48; MacKinnon, White (1985), Journal of Econometrics 29; Long,
        Ervin (2000), American Statistician 54, of which to take; Cameron, Miller (2015), Journal of
        Human Resources 50, of clusters: fewer than some 40 give p-values that are too small.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame(
        ...     {"x": [1, 2, 3, 4, 5, 6], "shop": list("aabbcc"), "y": [2, 3, 5, 6, 9, 7]}
        ... )
        >>> model = ds.fit(table, "y", ["x"])
        >>> model.summary()["std_error"].round(4).to_list()
        [1.109, 0.2848]
        >>> model.robust_errors(table, cov_type="HC3").summary()["std_error"].round(4).to_list()
        [1.1617, 0.4994]
        >>> model.robust_errors(table, cluster="shop").summary()["std_error"].round(4).to_list()
        [0.5877, 0.1205]
        """
        found: RobustErrors = load("validation.robust.robust", "robust_errors")(
            self, source, weight=weight or self.problem.weight, cov_type=cov_type, cluster=cluster,
            time=time, maxlags=maxlags,
        )  # fmt: skip
        return found
