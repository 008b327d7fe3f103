"""Diagnostics of a least-squares model from its record; tests and intervals are without ridge."""

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
    """A least-squares model of a record, with diagnostics from the record."""

    # Fields of a model.
    target: str
    intercept: float
    coefficients: dict[str, float]
    aliased: tuple[str, ...]
    rows: int
    r2: float
    fit: FittedRows | None  # the rows it was fitted to
    terms: Terms

    def vif(self) -> pl.DataFrame:
        """Return by how much each column's dependence on the others inflates its variance.

        Returns
        -------
        DataFrame: column; vif, 1 / (1 - r2 of the column on all others that are not aliased), >= 1.
        Infinite for aliased columns: those that columns before them determine. Through the origin
        r2 is about 0

        Raises
        ------
        ArgumentError : the model knows no rows, or was fitted with ``exact=True``

        Notes
        -----
        O(D^3), no pass. Columns of one category or curve inflate each other by how they are
        coded; their group is judged whole by `f_test`.

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
        """Return how each column goes with the target, alone and given the other columns.

        Returns
        -------
        DataFrame: column; correlation, of the column and the target; partial, of what the other
        columns leave of both; semipartial, of the target and what the others leave of the
        column: its square is the r2 that the column adds last. NULL for aliased columns, which are
        none of the others, and partial where the others leave nothing of the target but rounding.
        That a partial correlation is 0 has the p-value of `Model.summary`

        Raises
        ------
        ArgumentError : as `vif`

        Notes
        -----
        O(D^3), no pass. Through the origin all three are of products about 0.

        References
        ----------
        Cohen, Cohen, West, Aiken (2003), Applied Multiple Regression, section 3.5.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
        >>> found = ds.fit(table, "y").partial_correlations()
        >>> found.with_columns(pl.col(pl.Float64).round(3)).rows()
        [('a', 0.976, 1.0, 0.976), ('b', 0.218, 1.0, 0.218)]
        """
        return self._by_column("partial_correlations", "correlation", "partial", "semipartial")

    @property
    def df_residual(self) -> int:
        """Rows less rank: what is left to estimate the variance of the errors."""
        return self.rows - len(self._kept) - self._known.intercept

    @property
    def sigma(self) -> float:
        """The standard deviation of the errors, ``sqrt(RSS / (n - rank))``, in the target's unit.

        Of rows with weights that of an error of weight 1. NaN where n <= rank.

        Raises
        ------
        ArgumentError : the model has a ridge, knows no rows, or was fitted with ``exact=True``
        """
        return math.sqrt(self._fitted.variance)

    def covariance(self) -> pl.DataFrame:
        """Return the covariance of the coefficients, whose diagonal has the standard errors.

        Returns
        -------
        DataFrame: term, ``"(intercept)"`` first if there is one, then columns that are not
        aliased; a column of each of these terms. NaN where n <= rank

        Raises
        ------
        ArgumentError : as `sigma`
        DataError : the columns are too nearly dependent for a Gram

        Warns
        -----
        SelectionWarning : the rows also chose the columns: the variances are too small

        Notes
        -----
        ``sigma^2 (X'X)^-1``; O(D^3), no pass. Source: Seber, Lee (2003), section 3.2.
        """
        fit = self._least_squares
        if fit.chosen:
            warn_of_choice()
        white = self._white
        found = self._fitted.variance * (white.back @ white.back.T)
        return pl.DataFrame({"term": white.terms} | dict(zip(white.terms, found, strict=True)))

    @property
    def aic(self) -> float | None:
        """Akaike's criterion, ``-2 L + 2 rank``, as of `Sequence.criteria`; less is better.

        None where n <= rank. With weights it lacks a constant of the rows that statsmodels'
        WLS has, the same for all models of these rows.

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
        """The condition number of the rows, each column scaled to length 1, none centred.

        The column of the intercept counts, aliased columns do not. Above 30 coefficients are said
        to suffer (Belsley, Kuh, Welsch 1980, section 3.2).

        Raises
        ------
        ArgumentError : as `vif`
        """
        return float(self._asked("condition_number")) if self.columns else 1.0

    def f_test(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the F test that the coefficients of some columns are all 0.

        Parameters
        ----------
        columns : names and globs of the model's columns, a field meaning all that came of it;
            default: all, the F test of the model

        Returns
        -------
        DataFrame, one row: df, by how much the columns raise the rank; df_residual, n - rank;
        statistic; p_value. NULL where the others determine the columns, or n <= rank

        Raises
        ------
        ColumnError : `columns` names none of the model's
        ArgumentError : `columns` is no list; the model has a ridge, knows no rows, or was fitted
            with ``exact=True``

        Warns
        -----
        SelectionWarning : the rows also chose the columns: the p-value is too small
        ConditionWarning, DependenceWarning : as of `fit` on the model's columns: the statistic
            keeps as few digits as the coefficients

        Notes
        -----
        n is the number of rows, also where they have weights. O(D^3), no pass. A column of which
        some 1e-12 of the variance are its own may count in the rank or not, as its last digits
        depend on the order in which the rows were read.

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
        """Return what is predicted of rows in memory, and the intervals of mean and observation.

        Parameters
        ----------
        X, columns : as of `Predicting.predict`
        level : in (0, 1)
        handle_unknown, missing_columns : as there

        Returns
        -------
        DataFrame, one row a row, by the names of statsmodels' ``summary_frame``: mean, the
        prediction; mean_se, its standard error; mean_ci_lower, mean_ci_upper, in which the
        mean of all rows like this lies; obs_ci_lower, obs_ci_upper, in which a new row of
        weight 1 lies. NULL where a value is missing, and all but mean where n <= rank

        Raises
        ------
        ArgumentError : level is out of range; the model has a ridge, knows no rows, or was
            fitted with ``exact=True``; else as `Predicting.predict`
        ColumnError, SourceError : as `Predicting.predict`
        DataError : as there; the columns are too nearly dependent for a Gram

        Warns
        -----
        SelectionWarning : the rows also chose the columns: the intervals are too short

        Notes
        -----
        By Student's t with n - rank degrees of freedom; one row at a time, not all at once. The
        interval of an observation holds for errors that are normal, that of the mean nearly for
        others, too. O(D^3), then O(D) numbers and O(D^2) at most a row.

        References
        ----------
        Seber, Lee (2003), Linear Regression Analysis, section 5.3.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"x": [1, 2, 3, 4, 5], "y": [2, 3, 5, 6, 9]})
        >>> found = ds.fit(table, "y").prediction_intervals(pl.DataFrame({"x": [3, 8]}), level=0.9)
        >>> found.select(pl.col("mean", "mean_ci_lower", "obs_ci_lower").round(3)).rows()
        [(5.0, 4.363, 3.439), (13.5, 11.158, 10.759)]
        """
        SHARE.check("level", level)
        fit = self._least_squares
        white = self._white
        predictors = self._with_coordinates(white)
        found = predictors.predict(
            X, columns, handle_unknown=handle_unknown, missing_columns=missing_columns
        )
        if fit.chosen:
            warn_of_choice()
        variance = self._fitted.variance
        place = (white.constant or 0.0) ** 2 + (found[:, 1:] ** 2).sum(axis=1)
        quantile = t_quantile(level, self._fitted.free)
        mean, of_mean = found[:, 0], np.sqrt(variance * place)
        of_row = np.sqrt(variance * (1.0 + place))
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
        return self._known.chosen

    @property
    def _kept(self) -> dict[str, float]:
        """The coefficients of the columns that are not aliased."""
        return {name: own for name, own in self.coefficients.items() if name not in self.aliased}

    @cached_property
    def _fitted(self) -> LeastSquares:
        """Least squares on the columns that are not aliased."""
        return self._least_squares.fitted(self.target, list(self._kept), has_factor=False)

    @property
    def _criteria(self) -> dict[str, float | None]:
        found, gram = self._fitted, self._known.moments
        y = gram.position(self.target, "target")
        total, degrees = float(gram.comoment[y, y]), float(len(found.terms))
        left = found.left / total
        alone = Fits(
            rows=gram.rows, total=total, left=np.array([left]),
            degrees=np.array([degrees]), sizes=np.ones(1), n_groups=1,
            n_columns=len(found.columns), left_all=left, degrees_all=degrees,
            degrees_none=float(found.has_intercept),
        )  # fmt: skip
        return criteria(alone).row(0, named=True)

    @property
    def _facts(self) -> dict[str, Any]:
        fit = self._known
        found: dict[str, Any] = {"target": self.target, "rows": self.rows, "r2": self.r2}
        found |= {"formula": self.terms.formula}
        if fit.gram is None:
            return found
        test = self._f_row(self.columns)
        return found | {
            "residual df": self.df_residual, "sigma": self.sigma, "adjusted r2": self.adjusted_r2,
            "AIC": self.aic, "BIC": self.bic, "condition number": self.condition_number,
            f"F({test['df']}, {test['df_residual']:,})": test_text(
                test["statistic"], test["p_value"]
            ),
        }  # fmt: skip

    @property
    def _known(self) -> FittedRows:
        """The rows it was fitted to, whatever the ridge."""
        if self.fit is None:
            raise FieldError(
                "the model has no statistics of its rows; fit its columns with dbselect.fit"
            )
        return self.fit

    @property
    def _least_squares(self) -> FittedRows:
        """The same of a model without ridge."""
        fit = self._known
        fit.check_least_squares()
        return fit

    @property
    def _white(self) -> Whitening:
        """Coordinates in which the columns are orthonormal; those that depend have none."""
        fit = self._known
        found = fit.fitted(self.target, list(self._kept), has_factor=True)
        assert fit.gram is not None
        return whitening(fit.gram, found)

    def _with_coordinates(self, white: Whitening) -> LinearPredictors:
        """Return the prediction of a row, then its coordinates but for the constant one."""
        none = dict.fromkeys(self.columns, 0.0)
        each = [
            Predictor(shift, none | dict(zip(white.columns, row, strict=True)))
            for shift, row in zip(white.shift.tolist(), white.rows.tolist(), strict=True)
        ]
        return LinearPredictors([Predictor(self.intercept, self.coefficients), *each], self.terms)

    def _standardized(self) -> pl.Series:
        """Return coefficients in deviations, which are about 0 through the origin."""
        fit = self._known
        if fit.known is None:
            unit = dict(zip(self._fitted.columns, self._fitted.units.tolist(), strict=True))
        else:
            unit = dict(fit.known.spread)
        own = [w * unit.get(name, math.nan) for name, w in self.coefficients.items()]
        values = np.append(np.nan, own) if fit.intercept else own
        return pl.Series("standardized", values, pl.Float64).fill_nan(None)

    def _f_row(self, columns: Sequence[str]) -> dict[str, Any]:
        if not self.columns:
            nothing = {"df": 0, "df_residual": self.df_residual}
            return nothing | {"statistic": None, "p_value": None}
        numbers = [str(at) for at, name in enumerate(self.columns) if name in columns]
        return dict(self._asked("f_test", tested=numbers))

    def _by_column(self, method: str, *names: str) -> pl.DataFrame:
        rows = self._asked(method) if self.columns else []
        own = {name: [row[name] for row in rows] for name in names}
        numbers = dict.fromkeys(names, pl.Float64)
        return pl.DataFrame(
            {"column": self.columns, **own}, schema={"column": pl.String, **numbers}
        )

    def _asked(self, method: str, **options: Any) -> Any:
        """Return what the compiled library answers about the columns of the model."""
        fit = self._known
        record = numbered(fit.moments, self.columns, self.target)
        found = _native.answers(record, method, TARGET, {"intercept": fit.intercept, **options})
        if (status := found.field("status")[0]).is_valid:
            raise DataError(status.as_py())
        return found.field("found")[0].as_py()
