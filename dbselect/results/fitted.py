"""What fitted models of all families answer alike: how sure their coefficients are, other rows."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from dbselect.errors import ArgumentError, warn_of_choice
from dbselect.linear.inference import with_ends
from dbselect.options.kinds import SHARE
from dbselect.pages.summary import Summary
from dbselect.record.gram import Gram
from dbselect.record.inputs import HandleUnknown
from dbselect.record.terms import Terms
from dbselect.results.prediction.contributions import contributions_of
from dbselect.spec.spec import Spec, answer_of


class FittedModel:
    """A model of some columns of a problem, fitted to rows."""

    terms: Terms

    if TYPE_CHECKING:  # a field of models

        @property
        def target(self) -> str:
            """The column that is predicted."""

    @property
    def problem(self) -> Spec:
        """What is asked about the data, without its rows."""
        raise NotImplementedError

    @property
    def columns(self) -> list[str]:
        """The columns of the groups held."""
        raise NotImplementedError

    @property
    def _facts(self) -> dict[str, Any]:
        """What `summary` prints above the terms."""
        raise NotImplementedError

    @property
    def _was_chosen(self) -> bool:
        """Whether the rows also chose the columns."""
        raise NotImplementedError

    def _tested(self) -> pl.DataFrame:
        """Return term, estimate, std_error, statistic and p_value of each coefficient."""
        raise NotImplementedError

    def _quantile(self, level: float) -> float:
        """Return within how many standard errors an estimate lies, with a probability."""
        raise NotImplementedError

    def _more_of_terms(self) -> list[pl.Series]:
        """Return what `summary` has besides of each term."""
        return []

    def _warned(self) -> pl.DataFrame:
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
        and where n <= rank.

        Of a linear model p-values are by Student's t with n - rank degrees of freedom, and
        standardized is the estimate in deviations of the target for one of the column, through the
        origin about 0; NULL for the intercept, and with ``exact=True``, which keeps none. It prints
        below rows, residual degrees of freedom, sigma, r2, AIC, BIC, the F test and the condition
        number. Of a family they are by the normal distribution (Wald), below rows, deviances,
        dispersion and the likelihood-ratio test. A multinomial model has these rows for each class,
        named in the first column, ``class``: its coefficients sum to 0 over the classes, and the
        test is against that mean, not against a class of reference

        Raises
        ------
        ArgumentError : the model has a ridge, or its coefficients are not least squares or of
            greatest likelihood, or nothing is known of its rows: it came from SQL, or, of a
            family, from a file
        DataError : the columns are too nearly dependent for standard errors from a Gram; a fit of a
            family did not converge, so that the best coefficients are not known

        Warns
        -----
        SelectionWarning : the rows also chose the columns. A column that was chosen for
            its size looks more certain than it is: p-values are too small, and so are
            standard errors. Choose on some rows and call `dbselect.fit` with these
            columns on others for p-values that hold.

        Notes
        -----
        Linear: n is the number of rows, also where they have weights (statsmodels' WLS). O(D^3).
        Of a family the covariance is the inverse of the information at the last pass, which the
        last step of the fit leaves by a share of some 1e-5; of links that are not canonical the
        expected information. Families gaussian, gamma, inverse_gaussian and tweedie: times
        Pearson's statistic / (rows - rank). A row weight is how much its row counts.

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
        return Summary.of(self._warned().with_columns(self._more_of_terms()), lambda: self._facts)

    def intervals(self, level: float = 0.95) -> pl.DataFrame:
        """Return each coefficient with the interval that it lies in at a level of confidence.

        Parameters
        ----------
        level : in (0, 1)

        Returns
        -------
        DataFrame: term, estimate and std_error of `summary`, of a multinomial model also class; low
        and high, the ends, by Student's t with n - rank degrees of freedom, of a family by the
        normal distribution (Wald). NULL where `summary` has NULL

        Raises
        ------
        ArgumentError : level is out of range; else as `summary`
        DataError : as `summary`

        Warns
        -----
        SelectionWarning : the rows also chose the columns: the interval is too short

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
            return answer_of(asked, "fit", self.columns)
        names = self.terms.sources()
        read = list(dict.fromkeys(names.get(name, name) for name in self.columns))
        return answer_of(asked.replace(terms=self.terms.of(self.columns)), "fit", read)

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
        cov_type: str | None = None,
        cluster: str | Sequence[str] | None = None,
        time: str | None = None,
        maxlags: int | None = None,
        weight: str | None = None,
    ) -> Any:
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
        return answer_of(
            self.problem, "_robust_errors", self, source, weight=weight or self.problem.weight,
            cov_type=cov_type, cluster=cluster, time=time, maxlags=maxlags,
        )  # fmt: skip
