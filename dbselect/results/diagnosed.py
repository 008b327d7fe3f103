"""Diagnostics of least-squares models from their Gram; tests and intervals need ridge 0."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect import _native
from dbselect.errors import DataError, FieldError, warn_of_choice
from dbselect.linear.condition import warn_of_dependence
from dbselect.linear.inference import (
    FittedRows,
    Whitening,
    t_quantile,
    whitening,
)
from dbselect.linear.information import Fits, criteria
from dbselect.linear.least_squares import LeastSquares
from dbselect.linear.problem import TARGET, numbered
from dbselect.options.kinds import SHARE
from dbselect.pages.summary import test_text
from dbselect.record.columns import match
from dbselect.record.inputs import HandleUnknown, MissingColumns
from dbselect.record.terms import Terms
from dbselect.results.fitted import FittedModel
from dbselect.results.prediction.contributions import LinearPredictors
from dbselect.results.prediction.predict import Predictor

_F_TEST = {"df": pl.Int64, "df_residual": pl.Int64, "statistic": pl.Float64, "p_value": pl.Float64}


class Diagnosed(FittedModel):
    """Base class of least-squares models with diagnostics from their Gram."""

    # Fields of a model.
    target: str
    intercept: float
    coefficients: dict[str, float]
    aliased: tuple[str, ...]
    rows: int
    r2: float
    fit: FittedRows | None  # statistics of the rows it was fitted to
    terms: Terms

    def vif(self) -> pl.DataFrame:
        """Return the variance inflation factor of each column.

        Returns
        -------
        DataFrame: column; vif, 1 / (1 - r2 of the column on all others that are not aliased), >= 1.
        Infinite for aliased columns: those that columns before them determine. Through the origin
        r2 is about 0, not about the mean

        Raises
        ------
        ArgumentError : the model has no statistics of its rows, or no Gram of them

        Notes
        -----
        O(D^3), no pass. Columns of one category or curve inflate each other because of their
        coding; use `f_test` for the whole group.

        References
        ----------
        Marquardt (1970), Technometrics 12.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, 2, 3, 5], "y": [3, 4, 6, 9]})
        >>> ds.fit(table, "y").vif().with_columns(pl.col("vif").round(3)).rows()
        [('a', 29.167), ('b', 29.167)]
        """
        return self._by_column("vif", "vif")

    def partial_correlations(self) -> pl.DataFrame:
        """Return correlation, partial and semipartial correlation of each column and the target.

        Returns
        -------
        DataFrame: column; correlation of column and target; partial, the correlation of their
        residuals on the other columns; semipartial, of the target and the residual of the column:
        its square is the r2 that the column adds last. NULL for aliased columns, which do not
        count among the others; partial is also NULL if the target's residual is only rounding.
        The test that a partial correlation is 0 has the p-value of `Model.summary`

        Raises
        ------
        ArgumentError : as `vif`

        Notes
        -----
        O(D^3), no pass. For models through the origin all three are about 0, not about the means.

        References
        ----------
        Cohen, Cohen, West, Aiken (2003), Applied Multiple Regression, section 3.5.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
        >>> correlations = ds.fit(table, "y").partial_correlations()
        >>> correlations.with_columns(pl.col(pl.Float64).round(3)).rows()
        [('a', 0.976, 1.0, 0.976), ('b', 0.218, 1.0, 0.218)]
        """
        return self._by_column("partial_correlations", "correlation", "partial", "semipartial")

    @property
    def df_residual(self) -> int:
        """Residual degrees of freedom: rows less rank."""
        return self.rows - len(self._kept) - self._fit_rows.intercept

    @property
    def sigma(self) -> float:
        """The standard deviation of the errors, ``sqrt(RSS / (n - rank))``, in the target's unit.

        With row weights, that of an error of weight 1. NaN if n <= rank.

        Raises
        ------
        ArgumentError : the model has a ridge, or no statistics or Gram of its rows
        """
        return math.sqrt(self._fitted.variance)

    def covariance(self) -> pl.DataFrame:
        """Return the covariance of the coefficients; its diagonal has the squared standard errors.

        Returns
        -------
        DataFrame: term, ``"(intercept)"`` first if there is one, then columns that are not
        aliased; then a column for each of these terms. NaN if n <= rank

        Raises
        ------
        ArgumentError : as `sigma`
        DataError : the columns are too nearly dependent for a Gram

        Warns
        -----
        SelectionWarning : the same rows chose the columns, so the variances are too small

        Notes
        -----
        ``sigma^2 (X'X)^-1``; O(D^3), no pass. Source: Seber, Lee (2003), section 3.2.
        """
        fit = self._least_squares
        if fit.chosen:
            warn_of_choice()
        white = self._white
        covariance = self._fitted.variance * (white.back @ white.back.T)
        return pl.DataFrame({"term": white.terms} | dict(zip(white.terms, covariance, strict=True)))

    @property
    def aic(self) -> float | None:
        """Akaike's criterion, ``-2 L + 2 rank``, as in `Sequence.criteria`; lower is better.

        None if n <= rank. With weights it differs from that of statsmodels' WLS by a constant,
        the same for all models of these rows.

        Raises
        ------
        ArgumentError : as `sigma`
        """
        return self._criteria["aic"]

    @property
    def bic(self) -> float | None:
        """Schwarz' criterion, ``-2 L + rank log n``; otherwise as `aic`."""
        return self._criteria["bic"]

    @property
    def adjusted_r2(self) -> float | None:
        """``1 - (RSS / (n - rank)) / (TSS / (n - 1))``; otherwise as `aic`."""
        return self._criteria["adjusted_r2"]

    @property
    def condition_number(self) -> float:
        """The condition number of the columns, scaled to length 1 and not centred.

        The intercept counts as a column, aliased columns do not count. Above 30 coefficients are
        considered unreliable (Belsley, Kuh, Welsch 1980, section 3.2).

        Raises
        ------
        ArgumentError : as `vif`
        """
        return float(self._from_library("condition_number")) if self.columns else 1.0

    def f_test(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the F test that all coefficients of these columns are 0.

        Parameters
        ----------
        columns : names and globs of the model's columns; a field stands for all its columns;
            default: all, the F test of the model

        Returns
        -------
        DataFrame, one row: df, the rank that the columns add; df_residual, n - rank;
        statistic; p_value. NULL if the other columns determine these, or n <= rank

        Raises
        ------
        ColumnError : `columns` names none of the model's
        ArgumentError : `columns` is no list; else as `sigma`

        Warns
        -----
        SelectionWarning : the same rows chose the columns, so the p-value is too small
        ConditionWarning, DependenceWarning : as for `fit` on the model's columns: the statistic
            has as few correct digits as the coefficients

        Notes
        -----
        n is the number of rows, also with weights. O(D^3), no pass. A column whose residual on
        the others is about 1e-12 of its variance may or may not count in the rank, because its
        last digits depend on the order in which the rows were read.

        References
        ----------
        Seber, Lee (2003), Linear Regression Analysis, section 4.3.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, 1, 2], "y": [3, 4, 6, 9]})
        >>> ds.fit(table, "y").f_test(["b"]).with_columns(pl.col("p_value").round(3)).row(0)[::3]
        (1, 0.408)
        """
        tested = self.columns if columns is None else match(columns, self.columns, "columns")
        if self._least_squares.chosen:
            warn_of_choice()
        if self.columns:
            warn_of_dependence(self._least_squares.on(self.target, self.columns))
        return pl.DataFrame([self._f_row(tested)], schema=_F_TEST)

    def prediction_intervals(
        self,
        X: npt.ArrayLike,
        columns: Sequence[str] | None = None,
        level: float = 0.95,
        *,
        handle_unknown: HandleUnknown = "unavailable",
        missing_columns: MissingColumns = "error",
    ) -> pl.DataFrame:
        """Return predictions for rows in memory, with intervals of the mean and of an observation.

        Parameters
        ----------
        X, columns : as in `Predicting.predict`
        level : in (0, 1)
        handle_unknown, missing_columns : as in `Predicting.predict`

        Returns
        -------
        DataFrame, one row per row, with the names of statsmodels' ``summary_frame``: mean, the
        prediction; mean_se, its standard error; mean_ci_lower, mean_ci_upper, the interval of
        the mean of rows with these values; obs_ci_lower, obs_ci_upper, the interval of a new row
        of weight 1. NULL where a value is missing; all but mean are NULL if n <= rank

        Raises
        ------
        ArgumentError : level is out of range; the model has a ridge, or no statistics or Gram
            of its rows; else as `Predicting.predict`
        ColumnError, SourceError : as `Predicting.predict`
        DataError : as `Predicting.predict`; the columns are too nearly dependent for a Gram

        Warns
        -----
        SelectionWarning : the same rows chose the columns, so the intervals are too short

        Notes
        -----
        By Student's t with n - rank degrees of freedom; pointwise, not simultaneous. The interval
        of an observation needs normal errors; that of the mean holds approximately without.
        O(D^3), then O(D) numbers and at most O(D^2) per row.

        References
        ----------
        Seber, Lee (2003), Linear Regression Analysis, section 5.3.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"x": [1, 2, 3, 4, 5], "y": [2, 3, 5, 6, 9]})
        >>> at = ds.fit(table, "y").prediction_intervals(pl.DataFrame({"x": [3, 8]}), level=0.9)
        >>> at.select(pl.col("mean", "mean_ci_lower", "obs_ci_lower").round(3)).rows()
        [(5.0, 4.363, 3.439), (13.5, 11.158, 10.759)]
        """
        SHARE.check("level", level)
        fit = self._least_squares
        white = self._white
        values = self._with_coordinates(white).predict(
            X, columns, handle_unknown=handle_unknown, missing_columns=missing_columns
        )
        if fit.chosen:
            warn_of_choice()
        variance = self._fitted.variance
        leverage = (white.constant or 0.0) ** 2 + (values[:, 1:] ** 2).sum(axis=1)
        quantile = t_quantile(level, self._fitted.free)
        mean, of_mean = values[:, 0], np.sqrt(variance * leverage)
        of_row = np.sqrt(variance * (1.0 + leverage))
        return pl.DataFrame(
            {
                "mean": mean,
                "mean_se": of_mean,
                "mean_ci_lower": mean - quantile * of_mean,
                "mean_ci_upper": mean + quantile * of_mean,
                "obs_ci_lower": mean - quantile * of_row,
                "obs_ci_upper": mean + quantile * of_row,
            }
        ).fill_nan(None)

    @property
    def _was_chosen(self) -> bool:
        return self._fit_rows.chosen

    @property
    def _kept(self) -> dict[str, float]:
        """The coefficients of the columns that are not aliased."""
        return {name: w for name, w in self.coefficients.items() if name not in self.aliased}

    @cached_property
    def _fitted(self) -> LeastSquares:
        """The least-squares fit on the columns that are not aliased."""
        return self._least_squares.fitted(self.target, list(self._kept), has_factor=False)

    @property
    def _criteria(self) -> dict[str, float | None]:
        fit, gram = self._fitted, self._fit_rows.moments
        y = gram.position(self.target, "target")
        total, degrees = float(gram.comoment[y, y]), float(len(fit.terms))
        unexplained = fit.rss / total
        fits = Fits(
            rows=gram.rows, total=total, unexplained=np.array([unexplained]),
            degrees=np.array([degrees]), sizes=np.ones(1), n_groups=1,
            n_columns=len(fit.columns), unexplained_all=unexplained, degrees_all=degrees,
            degrees_none=float(fit.has_intercept),
        )  # fmt: skip
        return criteria(fits).row(0, named=True)

    @property
    def _facts(self) -> dict[str, Any]:
        fit = self._fit_rows
        facts: dict[str, Any] = {"target": self.target, "rows": self.rows, "r2": self.r2}
        facts |= {"formula": self.terms.formula}
        if fit.gram is None or fit.gram.terms.em is not None:
            return facts
        test = self._f_row(self.columns)
        return facts | {
            "residual df": self.df_residual, "sigma": self.sigma, "adjusted r2": self.adjusted_r2,
            "AIC": self.aic, "BIC": self.bic, "condition number": self.condition_number,
            f"F({test['df']}, {test['df_residual']:,})": test_text(
                test["statistic"], test["p_value"]
            ),
        }  # fmt: skip

    @property
    def _fit_rows(self) -> FittedRows:
        """Statistics of the rows of the fit, with any ridge."""
        if self.fit is None:
            raise FieldError(
                "the model has no statistics of its rows; fit its columns with dbselect.fit"
            )
        return self.fit

    @property
    def _least_squares(self) -> FittedRows:
        """Statistics of the rows of the fit; refuses a model with a ridge."""
        fit = self._fit_rows
        fit.check_least_squares()
        return fit

    @property
    def _white(self) -> Whitening:
        """Coordinates in which the columns are orthonormal; dependent columns have none."""
        fit = self._fit_rows
        factored = fit.fitted(self.target, list(self._kept), has_factor=True)
        assert fit.gram is not None
        return whitening(fit.gram, factored)

    def _with_coordinates(self, white: Whitening) -> LinearPredictors:
        """Return predictors of the mean and of the coordinates, without the constant one."""
        zeros = dict.fromkeys(self.columns, 0.0)
        coordinates = [
            Predictor(shift, zeros | dict(zip(white.columns, row, strict=True)))
            for shift, row in zip(white.shift.tolist(), white.rows.tolist(), strict=True)
        ]
        return LinearPredictors(
            [Predictor(self.intercept, self.coefficients), *coordinates], self.terms
        )

    def _standardized(self) -> pl.Series:
        """Return standardised coefficients; through the origin, deviations are about 0."""
        fit = self._fit_rows
        if fit.known is None:
            unit = dict(zip(self._fitted.columns, self._fitted.units.tolist(), strict=True))
        else:
            unit = dict(fit.known.spread)
        scaled = [w * unit.get(name, math.nan) for name, w in self.coefficients.items()]
        values = np.append(np.nan, scaled) if fit.intercept else scaled
        return pl.Series("standardized", values, pl.Float64).fill_nan(None)

    def _f_row(self, columns: Sequence[str]) -> dict[str, Any]:
        if not self.columns:
            degrees = {"df": 0, "df_residual": self.df_residual}
            return degrees | {"statistic": None, "p_value": None}
        numbers = [str(at) for at, name in enumerate(self.columns) if name in columns]
        return dict(self._from_library("f_test", tested=numbers))

    def _by_column(self, method: str, *names: str) -> pl.DataFrame:
        rows = self._from_library(method) if self.columns else []
        values = {name: [row[name] for row in rows] for name in names}
        numbers = dict.fromkeys(names, pl.Float64)
        return pl.DataFrame(
            {"column": self.columns, **values}, schema={"column": pl.String, **numbers}
        )

    def _from_library(self, method: str, **options: Any) -> Any:
        """Call a method of the compiled library on the columns of the model."""
        fit = self._fit_rows
        record = numbered(fit.moments, self.columns, self.target)
        answer = _native.answers(record, method, TARGET, {"intercept": fit.intercept, **options})
        if (status := answer.field("status")[0]).is_valid:
            raise DataError(status.as_py())
        return answer.field("found")[0].as_py()
