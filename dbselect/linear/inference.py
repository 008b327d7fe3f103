"""Standard errors of the coefficients of a model, and tests from them.

For ``y = X w + e`` with e independent of variance s2, on n rows, X of rank r::

    s2 = RSS / (n - r)          var(w) = s2 (X'X)^-1          t = w / se ~ t(n - r)

With row weights X'X and RSS are weighted, e of a row has variance s2 / weight, and n is
the number of rows, as in statsmodels' WLS.

Source: Seber, Lee (2003), Linear Regression Analysis, chapters 3, 4 and 10.2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from dbselect import _native
from dbselect.errors import DataError, FieldError
from dbselect.linear.least_squares import NOT_NORMAL, Constraint, LeastSquares, least_squares
from dbselect.record.columns import INTERCEPT
from dbselect.record.gram import Gram, Matrix, Vector


@dataclass(frozen=True)
class Deviations:
    """Standard errors of the terms of a model."""

    errors: dict[str, float]  # term -> standard error; aliased terms are left out
    # n - r, the residual degrees of freedom; may be <= 0; infinite for a normal distribution
    # instead of Student's t
    free: float
    # column -> its deviation / the target's deviation, where known
    spread: Mapping[str, float] = field(default_factory=dict)


#: Message where a model has no Gram.
NO_GRAM = (
    "the model has a group of so many levels that there is no Gram of its columns, of which this "
    "is computed; summary() and intervals() have its standard errors"
)


@dataclass(frozen=True, eq=False)
class FittedRows:
    """The rows that a model was fitted to, and the kind of fit."""

    gram: Gram | None  # Gram of the rows; None if the standard errors are in `known`
    ridge: float = 0.0  # of the model
    chosen: bool = False  # whether the columns were selected on the same rows
    intercept: bool = True  # False for a model through the origin
    constraint: Constraint | None = None  # of a fit under signs or without correlations
    known: Deviations | None = None  # the standard errors, if computed with the model

    def check_least_squares(self) -> None:
        """Raise FieldError for a model with a ridge or constraints, or that EM completed."""
        check_read(self.gram)
        if self.ridge:
            raise FieldError(
                f"ridge is {self.ridge:g}; standard errors are those of least squares, at ridge 0"
            )
        if self.constraint is not None:
            raise FieldError(NOT_NORMAL)

    @property
    def moments(self) -> Gram:
        """The Gram about means, or about the origin without an intercept; FieldError if none."""
        if self.gram is None:
            raise FieldError(NO_GRAM)
        return self.gram if self.intercept else through_origin(self.gram)

    def on(self, target: str, columns: Sequence[str], *, has_factor: bool = False) -> LeastSquares:
        """Return least squares on columns; FieldError without a Gram."""
        if self.gram is None:
            raise FieldError(NO_GRAM)
        return least_squares(
            self.gram, target, columns, intercept=self.intercept, has_factor=has_factor
        )

    def fitted(self, target: str, columns: Sequence[str], *, has_factor: bool) -> LeastSquares:
        """Return least squares on the columns of a model, none of which may depend on others.

        FieldError without a Gram, or with one that EM completed; DataError if they depend.
        """
        check_read(self.gram)
        fit = self.on(target, columns, has_factor=has_factor)
        if fit.is_aliased.any():
            raise DataError(
                "the columns are too nearly dependent for standard errors from a Gram; "
                "leave some out, or give their differences as columns"
            )
        return fit


def check_read(gram: Gram | None, what: str = "standard errors, tests and criteria") -> None:
    """Raise FieldError for a Gram that EM completed; `what` needs the rows as they were read."""
    if gram is not None and gram.terms.em is not None:
        raise FieldError(
            f"the Gram is completed by EM: {what} of its {gram.rows} rows would count what is "
            "filled in as read; fit the rows that have all columns, with null_policy 'skip'"
        )


def through_origin(gram: Gram) -> Gram:
    """Return a Gram with raw second moments and means of 0; DataError if they overflow."""
    with np.errstate(over="ignore"):
        raw = gram.comoment + gram.weight * np.outer(gram.mean, gram.mean)
    for j in np.flatnonzero(~np.isfinite(np.diagonal(raw))).tolist():
        raise DataError(
            f"column '{gram.columns[j]}' is too large for a model through the origin: its mean is "
            f"{gram.mean[j]:g}, and its squares overflow a double; divide it by a power of ten"
        )
    zeros = np.zeros(len(gram.columns))
    return replace(gram, mean=zeros, mean_low=zeros, comoment=raw)


def tests(estimates: Mapping[str, float], deviations: Deviations) -> pl.DataFrame:
    """Return term, estimate, std_error, statistic and p_value; NULL where not defined."""
    has_errors = deviations.free > 0
    errors = np.array([deviations.errors.get(term, np.nan) for term in estimates])
    values = np.array(list(estimates.values()))
    errors = errors if has_errors else np.full(len(values), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = values / errors
    p_value = _native.student_beyond(max(deviations.free, 1), statistic)
    table = {"estimate": values, "std_error": errors, "statistic": statistic, "p_value": p_value}
    return pl.DataFrame(
        {"term": list(estimates)} | table, schema_overrides={"term": pl.String}
    ).fill_nan(None)


def with_ends(summary: pl.DataFrame, quantile: float) -> pl.DataFrame:
    """Return the estimates of a summary with confidence limits, `quantile` errors away."""
    reach = pl.col("std_error") * quantile
    ends = {"low": pl.col("estimate") - reach, "high": pl.col("estimate") + reach}
    return summary.drop("statistic", "p_value").with_columns(**ends)


def t_quantile(level: float, free: float) -> float:
    """Return q with P(abs(t) <= q) = level for Student's t; NaN without degrees of freedom."""
    return _native.student_within(free, level) if free > 0 else np.nan


@dataclass(frozen=True, eq=False)
class Whitening:
    """Linear map of rows to coordinates that are orthonormal over the rows of a fit.

    With the comoment C = L L' of the columns about their means, and W the total weight::

        u(x) = (1 / sqrt(W), L^-1 (x - mean))        sum w u u' = I

    A row of weight w has leverage w |u|^2, and the mean at x has variance s2 |u|^2. The error grows
    with the condition number, not with its square as in x' (X'X)^-1 x.
    """

    columns: tuple[str, ...]  # r linearly independent columns
    rows: Matrix  # shape (r, r), L^-1 in the table's units, lower triangular
    mean: Vector  # shape (r,); zeros through the origin
    constant: float | None  # 1 / sqrt(W), the coordinate of every row; None through the origin

    @property
    def terms(self) -> list[str]:
        """The intercept, if there is one, and the columns."""
        return [*([] if self.constant is None else [INTERCEPT]), *self.columns]

    @property
    def shift(self) -> Vector:
        """The constant added to ``rows @ x``; shape (r,)."""
        return -self.rows @ self.mean

    @property
    def back(self) -> Matrix:
        """The matrix from coefficients of coordinates to coefficients of `terms`."""
        if self.constant is None:
            return self.rows.T
        constant = np.array([[self.constant]])
        return np.block(
            [[constant, self.shift[None, :]], [np.zeros((len(self.mean), 1)), self.rows.T]]
        )


def whitening(gram: Gram, fit: LeastSquares) -> Whitening:
    """Return the whitening of a Gram, from a fit with `inverse_factor`."""
    at = [gram.position(name, "columns") for name in fit.columns]
    constant = float(gram.weight**-0.5) if fit.has_intercept else None
    mean = gram.mean[at] if fit.has_intercept else np.zeros(len(at))
    return Whitening(fit.columns, fit.inverse_factor, mean, constant)
