"""Base class of fitted models of all families: tests, intervals, refit and contributions."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from dbselect import _forked
from dbselect.errors import ArgumentError, FieldError, warn_of_choice
from dbselect.linear.inference import with_ends
from dbselect.linear.least_squares import Constraint
from dbselect.options.kinds import SHARE
from dbselect.pages.summary import Summary
from dbselect.record.gram import Gram
from dbselect.record.inputs import HandleUnknown
from dbselect.record.terms import Terms
from dbselect.results.prediction.contributions import contributions_of
from dbselect.spec.spec import Spec, answer_of


def tables_under(label: str, tables: Mapping[Any, pl.DataFrame]) -> pl.DataFrame:
    """Return tables one below the other; the first column, `label`, has their names."""
    named = (table.select(pl.lit(name).alias(label), pl.all()) for name, table in tables.items())
    return pl.concat(named)


class FittedModel:
    """A model of some columns of a problem, fitted to rows."""

    terms: Terms

    if TYPE_CHECKING:  # a field of models

        @property
        def target(self) -> str:
            """The column that is predicted."""

    @property
    def problem(self) -> Spec:
        """The problem, without its rows."""
        raise NotImplementedError

    @property
    def columns(self) -> list[str]:
        """The columns of the groups held."""
        raise NotImplementedError

    @property
    def _facts(self) -> dict[str, Any]:
        """Facts that `summary` prints above the terms."""
        raise NotImplementedError

    @property
    def constraint(self) -> Constraint:
        """What `signs` and `uncorrelated` cost; FieldError for a model without them."""
        if self._constraint is None:
            raise FieldError("the model has no constraints; fit(signs=...) makes one that has")
        return self._constraint

    @property
    def _constraint(self) -> Constraint | None:
        raise NotImplementedError

    @property
    def _was_chosen(self) -> bool:
        """Whether the same rows chose the columns."""
        raise NotImplementedError

    def _tested(self) -> pl.DataFrame:
        """Return term, estimate, std_error, statistic and p_value of each coefficient."""
        raise NotImplementedError

    def _quantile(self, level: float) -> float:
        """Return the two-sided quantile of the test statistic at a level of confidence."""
        raise NotImplementedError

    def _extra_term_columns(self) -> list[pl.Series]:
        """Return further columns of `summary`."""
        return []

    def _warned(self) -> pl.DataFrame:
        _forked.check_threads()
        table = self._tested()
        if self._was_chosen:
            warn_of_choice()
        return table

    def summary(self) -> pl.DataFrame:
        """Return each coefficient with its standard error and the test that it is 0.

        Returns
        -------
        DataFrame: term, ``"(intercept)"`` first if there is one, then the columns; estimate;
        std_error; statistic, estimate / std_error; p_value, two-sided. NULL for aliased columns,
        and if n <= rank.

        For linear models p-values are by Student's t with n - rank degrees of freedom, and
        standardized is the estimate for target and column of standard deviation 1, through the
        origin about 0; NULL for the intercept. The printed table has a
        head with rows, residual degrees of freedom, sigma, r2, AIC, BIC, the F test and the
        condition number. For a GLM p-values are by the normal distribution (Wald), and the head has
        rows, deviances, dispersion and the likelihood-ratio test. A multinomial model has these
        rows for each class, named in the first column, ``class``: its coefficients sum to 0 over
        the classes, and the test is against their mean, not against a reference class

        Raises
        ------
        ArgumentError : the model has a ridge, or its coefficients are not least squares or maximum
            likelihood, or it has no statistics of its rows: it came from SQL or, for a GLM, from
            a file
        DataError : the columns are too nearly dependent for standard errors from a Gram; a fit of
            a GLM did not converge

        Warns
        -----
        SelectionWarning : the same rows chose the columns, so standard errors and p-values
            ignore the selection and are too small. Choose on some rows and call `dbselect.fit`
            with these columns on other rows for valid p-values.

        Notes
        -----
        Linear: n is the number of rows, also with weights (statsmodels' WLS). O(D^3). GLM: the
        covariance is the inverse of the information at the last pass, which differs from that at
        the final coefficients by a share of some 1e-5; for links that are not canonical the
        expected information. Families gaussian, gamma, inverse_gaussian and tweedie: times
        Pearson's statistic / (rows - rank). A weight multiplies the log-likelihood of its row.

        References
        ----------
        Seber, Lee (2003), Linear Regression Analysis; Berk, Brown, Buja, Zhang, Zhao
        (2013), Valid post-selection inference, Annals of Statistics 41; McCullagh, Nelder (1989),
        Generalized Linear Models, section 4.4; Wald (1943), Transactions of the AMS 54.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"x": [0, 0, 0, 1, 1, 1, 1], "y": [0, 0, 1, 0, 1, 1, 1]})
        >>> model = ds.fit(table, "y", family="binomial")
        >>> model.summary()["std_error"].round(3).to_list()  # roots of 3/2 and 3/2 + 4/3
        [1.225, 1.683]
        """
        return Summary.of(
            self._warned().with_columns(self._extra_term_columns()), lambda: self._facts
        )

    def intervals(self, level: float = 0.95) -> pl.DataFrame:
        """Return each coefficient with its confidence interval.

        Parameters
        ----------
        level : in (0, 1)

        Returns
        -------
        DataFrame: term, estimate and std_error of `summary`, for a multinomial model also class;
        low and high, the ends, by Student's t with n - rank degrees of freedom, for a GLM by the
        normal distribution (Wald). NULL where `summary` has NULL

        Raises
        ------
        ArgumentError : level is out of range; else as `summary`
        DataError : as `summary`

        Warns
        -----
        SelectionWarning : the same rows chose the columns, so the intervals are too short

        References
        ----------
        Seber, Lee (2003), Linear Regression Analysis, section 5.1; McCullagh, Nelder (1989),
        section 4.4.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"x": [1, 2, 3, 4, 5], "y": [2, 3, 5, 6, 9]})
        >>> ds.fit(table, "y").intervals(0.9).select("term", pl.col("low", "high").round(3)).rows()
        [('(intercept)', -1.595, 1.395), ('x', 1.249, 2.151)]
        """
        SHARE.check("level", level)
        return with_ends(self._warned(), self._quantile(level))

    def refit(self, source: Any) -> Any:
        """Return the model on the same columns, fitted to the rows of another source.

        Fields are converted to columns as before: with the same levels, curves and means for
        missing values. A model under constraints keeps them.

        Parameters
        ----------
        source : table, or Gram of a linear model, with the columns of this one

        Raises
        ------
        ArgumentError : the model has no columns
        """
        if not self.columns:
            raise ArgumentError("the model has no columns, so that there is nothing to fit again")
        # The problem may have several responses; this is the model of one of them.
        problem = self.problem.of_columns(source=source, target=self.target)
        given = {} if self._constraint is None else self._constraint.given
        if isinstance(source, Gram) or not self.terms:
            return answer_of(problem, "fit", self.columns, **given)
        names = self.terms.sources()
        read = list(dict.fromkeys(names.get(name, name) for name in self.columns))
        return answer_of(problem.replace(terms=self.terms.of(self.columns)), "fit", read, **given)

    @property
    def _centre(self) -> Mapping[str, float]:
        """The means of the columns over the rows of the fit; empty if unknown."""
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
        DataFrame, one row per row and one column per group, in the order added: the group's part of
        the linear predictor less its mean. They add up to the prediction less the mean prediction,
        for a GLM on the scale of the link; several classes are stacked, by ``class``. An offset is
        a group of its own. NaN where a value is missing

        Raises
        ------
        ArgumentError : the means of the columns over the rows of the fit are not known, as for a
            model from a file or with an offset; give `background`
        ColumnError, DataError : as `Predicting.predict`

        Notes
        -----
        O(D) per row; exact Shapley values for independent groups, as shap's ``LinearExplainer``
        (Lundberg, Lee 2017, Advances in Neural Information Processing Systems 30).

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
        cov_type: str | None = None,
        cluster: str | Sequence[str] | None = None,
        time: str | None = None,
        maxlags: int | None = None,
        weight: str | None = None,
    ) -> Any:
        """Read the rows of the fit once more for robust standard errors.

        Parameters
        ----------
        source : the table of the fit: the same rows, in any order and any form that `gram` reads.
            For a prefix the columns of the whole search are read, because a missing value in any
            of them excluded a row
        cov_type : as named by statsmodels; default ``"HC1"``, with `cluster` ``"cluster"``, with
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
        cluster : column whose values are the clusters, within which errors may be correlated; or
            two columns, for two-way clusters (Cameron, Gelbach, Miller 2011)
        time : column that orders the rows; rows of equal time are summed (Driscoll, Kraay 1998)
        maxlags : number of lags, with Bartlett's weights; default 4 (T / 100)^(2/9) for T times,
            rounded down
        weight : column of row weights of the fit; default: that of its problem

        Returns
        -------
        RobustErrors. For least squares, tests are by Student's t with n - r degrees of freedom, for
        G clusters G - 1, for two-way clusters with the smaller G; for a GLM by the normal
        distribution

        Raises
        ------
        ArgumentError : there is no such cov_type, or it contradicts `cluster` or `time`; the model
            has a ridge, or no statistics or Gram of its rows; several
            responses or classes; the source is a Gram, which holds no rows
        ColumnError : the table lacks a column, or has one of another type
        DataError : the rows are not those of the fit; n <= r; a row of the fit has no cluster, or
            all rows have the same; HC2 and HC3 with rows that are fitted exactly; the columns are
            too nearly dependent

        Notes
        -----
        One streamed pass, O(D r + r^2) per row; Spark, Dask and Ray compute the sums where their
        rows are. Memory 32,768 rows of r numbers at a time for each thread; for G clusters or
        times 8 G r bytes more and the keys, so that clusters of one row each cost as much as the
        rows.

        Row weights are precisions, ``var_weights`` in statsmodels; results are those of its OLS and
        WLS by ``get_robustcov_results`` with ``use_t``. For a GLM with a link that is not canonical
        the expected information is used, as in R's sandwich; HC1 of statsmodels' GLM is its HC0.

        The rows are checked by their number, their weight and their gradient, which vanishes at
        the coefficients of a fit.

        References
        ----------
        White (1980), Econometrica 48; MacKinnon, White (1985), Journal of Econometrics 29; Long,
        Ervin (2000), American Statistician 54, on the choice; Cameron, Miller (2015), Journal of
        Human Resources 50, on clusters: fewer than some 40 give p-values that are too small.

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
        return answer_of(
            self.problem, "_robust_errors", self, source, weight=weight or self.problem.weight,
            cov_type=cov_type, cluster=cluster, time=time, maxlags=maxlags,
        )  # fmt: skip
