"""Generalised linear models with their standard errors, and the fields that GLM results share."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import polars as pl
import scipy

from dbselect.errors import ArgumentError, DataError, FieldError
from dbselect.glm.families import Offset
from dbselect.glm.links import family_of, kind_of_family
from dbselect.glm.newton import Status
from dbselect.linear import information
from dbselect.linear.least_squares import NOT_NORMAL, Constraint
from dbselect.pages.html import listed
from dbselect.pages.summary import test_text
from dbselect.record.columns import INTERCEPT
from dbselect.record.formulas import Formula
from dbselect.record.gram import Matrix, Vector
from dbselect.record.policies import is_saturated, row_counts
from dbselect.record.terms import Terms
from dbselect.results.call import Answer, Call, Of
from dbselect.results.fields import StoredFields
from dbselect.results.fitted import FittedModel, tables_under
from dbselect.results.prediction.predict import Predicting, Predictor


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OfFamily(Answer):
    """Base class of the results of a family, with one target and an optional offset."""

    family: str
    classes: tuple[Any, ...]
    levels: tuple[Any, ...] = ()
    rows: int
    skipped: int
    rows_searched: int | None = None
    rows_read: int
    bytes_read: int
    terms: Terms = field(default_factory=Terms)
    call: Call

    @property
    def _common(self) -> dict[str, Any]:
        """The fields of this base class, for another result of the same rows."""
        return {part.name: getattr(self, part.name) for part in fields(OfFamily)}

    @property
    def _has_likelihood(self) -> bool:
        """Whether the deviance determines the likelihood."""
        is_gaussian = kind_of_family(self.family) == "gaussian"
        return is_gaussian or not family_of(self.family, self.classes).has_dispersion

    def _loss(self, rows: int, deviance: Vector, null_deviance: float) -> Vector:
        """Return -2 log-likelihood of models on the same rows, up to a constant."""
        if kind_of_family(self.family) == "gaussian":
            left = np.maximum(deviance / null_deviance, information.SMALLEST_SHARE)
            return information.gaussian_loss(rows, left * null_deviance)
        if not self._has_likelihood:
            raise FieldError(
                f"family is {self.family!r}; there is no likelihood to compare, because the "
                "deviance does not determine the dispersion: choose by held-out rows, with "
                "cross_validate"
            )
        return deviance

    @property
    def target(self) -> str:
        """The column that is predicted."""
        return self.problem.targets[0]

    offset = Of[str | None]("problem", "Column that is added to the predictor.")
    exposure = Of[str | None]("problem", "Column whose logarithm is added to the predictor.")

    @property
    def offsets(self) -> Offset:
        """Offset and exposure, which are added to every predictor."""
        return Offset(self.offset, self.exposure)


@dataclass(frozen=True, eq=False)
class StandardErrors:
    """Standard errors of maximum likelihood, from the information of the last pass."""

    values: Matrix  # shape (K, 1 + d), of intercept and columns of each predictor; NaN if aliased
    ridge: float  # ridge of the model; the errors are valid at 0 only
    chosen: bool  # whether the same rows chose the columns
    dispersion: float  # dispersion, included in the errors
    centre: Vector  # shape (d,), mean of each column over the rows
    # shape (K (1 + d), K (1 + d)), predictor by predictor; `values` are the roots of its diagonal;
    # None for a prefix of a sequence, which keeps `values` only
    covariance: Matrix | None = None
    constraint: Constraint | None = None  # of a fit under signs, which has no standard errors


@dataclass(frozen=True, eq=False)
class GlmModel(OfFamily, FittedModel, StoredFields, Predicting):
    """A generalised linear model on some columns.

    Parameters
    ----------
    intercept : on the scale of the predictor; multinomial: class -> intercept
    coefficients : column -> coefficient, in the table's units; aliased columns have 0;
        multinomial: class -> column -> coefficient, which sum to 0 over the classes
    groups : groups held, in the order added
    spent : summed cost of the groups
    deviance, null_deviance : of this model and of the one without columns
    explained : share of the null deviance explained, less what the ridge takes
    status : how the fit ended
    aliased : columns that depend linearly on columns before them
    passes : times that the table was read for the fit
    errors : standard errors, for `summary`; None if unknown
    family : as in `fit`, with its link or parameter in brackets
    classes : classes of a multinomial target, in order
    levels : of a binomial target that is not 0/1, the level that counts as 0 and the one that
        counts as 1, whose probability is predicted
    rows, skipped : numbers of rows used by each pass, and left out
    rows_searched : number of rows searched, if the search used a sample; else None
    rows_read, bytes_read : totals over all passes; bytes as Arrow holds numbers in memory
    terms : how the columns of the table became those of the model
    call : the problem, without rows, and the method

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"x": [0, 0, 0, 1, 1, 1, 1], "y": [0, 0, 1, 0, 1, 1, 1]})
    >>> model = ds.fit(table, "y", family="binomial")
    >>> model.predict(pl.DataFrame({"x": [0, 1]})).round(6).tolist()  # 1 in 3, 3 in 4
    [0.333333, 0.75]
    >>> table.select(model.expr().round(6).alias("p"))["p"].unique().sort().to_list()
    [0.333333, 0.75]
    """

    intercept: Any
    coefficients: dict[Any, Any]
    groups: list[str]
    spent: float
    deviance: float
    null_deviance: float
    explained: float
    status: Status
    aliased: tuple[str, ...]
    passes: int
    errors: StandardErrors | None = None

    def __repr__(self) -> str:
        # A fit of columns has no groups, and so no costs.
        spent = f", spent {self.spent:g}" if self.groups else ""
        return (
            f"{type(self).__name__}({self.family}, {predicted(self.target, self.levels)} ~ "
            f"{listed(self.columns)}; "
            f"explained {self.explained:.4f}{spent}; "
            f"{row_counts(self.rows, self.skipped, self.rows_searched)}; {self.status.value}, "
            f"{self.passes} passes)"
        )

    @property
    def columns(self) -> list[str]:
        """The columns of the groups held."""
        return list(self.coefficients[self.classes[0]] if self.classes else self.coefficients)

    @property
    def saturated(self) -> bool:
        """Whether each predictor has as many coefficients as there are rows."""
        ridge = 0.0 if self.errors is None else self.errors.ridge
        coefficients = self.has_intercept + len(self.columns) - len(self.aliased)
        return is_saturated(self.rows, coefficients, ridge)

    @property
    def dispersion(self) -> float:
        """The estimated dispersion, a factor of the variance; 1 for families that fix it.

        Pearson's statistic / (rows - rank), NaN if rows <= rank; the standard errors of `summary`
        include it. The parameter of a negative binomial is in the name of its family.

        Raises
        ------
        ArgumentError : the model has no standard errors, as in `summary`
        """
        if not family_of(self.family, self.classes).has_dispersion:
            return 1.0
        return self._known_errors.dispersion

    @property
    def _known_errors(self) -> StandardErrors:
        if self.errors is None:
            raise FieldError(
                "the model has no standard errors, which files do not hold and a descent does not "
                "give; fit its columns with dbselect.fit"
            )
        self._check_free()
        return self.errors

    def _check_free(self) -> None:
        """Refuse what is computed of maximum likelihood for a model under signs."""
        if self._constraint is not None:
            raise FieldError(NOT_NORMAL)

    @property
    def _constraint(self) -> Constraint | None:
        return None if self.errors is None else self.errors.constraint

    def covariance(self) -> pl.DataFrame:
        """Return the covariance of the coefficients; its diagonal has the squared standard errors.

        Returns
        -------
        DataFrame: term, ``"(intercept)"`` first if there is one, then columns that have a standard
        error; then a column for each of these terms. The terms of a multinomial model are named
        ``"class: term"``

        Raises
        ------
        ArgumentError, DataError : as `summary`; the model is a prefix of a sequence, which keeps
            only standard errors

        Warns
        -----
        SelectionWarning : the same rows chose the columns, so the variances are too small

        Notes
        -----
        The inverse of the information of the last pass, times the dispersion; no pass. Source:
        McCullagh, Nelder (1989), section 4.4.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"x": [0, 0, 0, 1, 1, 1, 1], "y": [0, 0, 1, 0, 1, 1, 1]})
        >>> model = ds.fit(table, "y", family="binomial")
        >>> model.covariance().select(pl.col("(intercept)", "x").round(3)).rows()
        [(1.5, -1.5), (-1.5, 2.833)]
        """
        self._warned()
        errors = self._known_errors
        if errors.covariance is None:
            raise ArgumentError(
                "the model is a prefix of a sequence, which keeps standard errors alone; fit its "
                "columns with dbselect.fit"
            )
        terms = [INTERCEPT, *self.columns]
        names = [f"{label}: {term}" for label in self.classes for term in terms] or terms
        at = np.flatnonzero(np.isfinite(errors.values.ravel())).tolist()
        kept, covariance = [names[j] for j in at], errors.covariance[np.ix_(at, at)]
        return pl.DataFrame({"term": kept} | dict(zip(kept, covariance, strict=True)))

    @property
    def df_residual(self) -> int:
        """Residual degrees of freedom: rows less the parameters of all predictors."""
        return self.rows - self._parameters

    @property
    def aic(self) -> float:
        """Akaike's criterion, ``-2 L + 2 parameters``, as in `GlmSequence.criteria`.

        L is relative to a perfect fit: for classes it is the log-likelihood itself, for counts
        it differs by a constant, the same for all models of the same rows.

        Raises
        ------
        ArgumentError : the family has a quasi-likelihood, or the model has a ridge
        """
        return self._criterion(2.0)

    @property
    def bic(self) -> float:
        """Schwarz' criterion, ``-2 L + parameters log n``; otherwise as `aic`."""
        return self._criterion(math.log(self.rows))

    def _criterion(self, penalty: float) -> float:
        self._check_free()
        if self.errors is not None and self.errors.ridge:
            raise FieldError(f"ridge is {self.errors.ridge}; criteria of a model are at ridge 0")
        loss = self._loss(self.rows, np.array([self.deviance]), self.null_deviance)
        return float(loss[0]) + penalty * self._parameters

    @property
    def _parameters(self) -> int:
        per_predictor = self.has_intercept + len(self.columns) - len(self.aliased)
        return per_predictor * (len(self.classes) - 1 if self.classes else 1)

    def lr_test(self) -> pl.DataFrame:
        """Return the likelihood-ratio test that all coefficients but the intercept are 0.

        Returns
        -------
        DataFrame, one row: df; statistic, the drop in deviance divided by the dispersion;
        p_value by the chi-squared distribution

        Raises
        ------
        ArgumentError, DataError : as `summary`

        Warns
        -----
        SelectionWarning : the same rows chose the columns, so the p-value is too small

        Notes
        -----
        A dispersion is estimated and then treated as known, as in `summary`.

        References
        ----------
        McCullagh, Nelder (1989), section 4.4.
        """
        self._warned()
        return pl.DataFrame([self._lr_test])

    @property
    def _lr_test(self) -> dict[str, Any]:
        predictors = len(self.classes) - 1 if self.classes else 1
        df = self._parameters - self.has_intercept * predictors
        statistic = (self.null_deviance - self.deviance) / self.dispersion
        return {
            "df": df,
            "statistic": statistic,
            "p_value": float(scipy.special.chdtrc(df, statistic)),
        }

    @property
    def _facts(self) -> dict[str, Any]:
        test = self._lr_test
        criteria = {"AIC": self.aic, "BIC": self.bic} if self._has_likelihood else {}
        return {
            "formula": self.terms.formula,
            "target": predicted(self.target, self.levels), "family": self.family,
            "rows": self.rows, "residual df": self.df_residual, "deviance": self.deviance,
            "null deviance": self.null_deviance, "explained": self.explained,
            "dispersion": self.dispersion, **criteria,
            f"LR({test['df']})": test_text(test["statistic"], test["p_value"]),
        }  # fmt: skip

    def _tested(self) -> pl.DataFrame:
        errors = self._known_errors
        if errors.ridge:
            raise ArgumentError(
                f"ridge is {errors.ridge}; standard errors are those of maximum likelihood, "
                "at ridge 0"
            )
        # If levels are separated, the other coefficients may still have standard errors.
        has_some = self.status is Status.SEPARATED and np.isfinite(errors.values).any()
        if self.status is not Status.CONVERGED and not has_some:
            raise DataError(
                f"the fit ended as {self.status.name} before it converged, so its "
                "coefficients have no standard errors"
            )
        tables = [
            wald(predictor.intercept, predictor.coefficients, values)
            for predictor, values in zip(self._predictors_of_columns, errors.values, strict=True)
        ]
        if not self.has_intercept:
            tables = [table[1:] for table in tables]
        if not self.classes:
            return tables[0]
        return tables_under("class", dict(zip(self.classes, tables, strict=True)))

    def _quantile(self, level: float) -> float:
        return float(scipy.special.ndtri(0.5 + 0.5 * level))

    @property
    def _was_chosen(self) -> bool:
        return self.errors is not None and self.errors.chosen

    @property
    def _predictors_of_columns(self) -> list[Predictor]:
        """The linear predictors without offset and exposure."""
        if not self.classes:
            return [Predictor(self.intercept, self.coefficients)]
        return [Predictor(self.intercept[k], self.coefficients[k]) for k in self.classes]

    @property
    def _centre(self) -> dict[str, float]:
        errors = self.errors
        return dict(zip(self.columns, errors.centre.tolist(), strict=True)) if errors else {}

    @property
    def _prepared(self) -> Terms:
        return self.offsets.with_log(self.terms)

    @property
    def _predictors(self) -> list[Predictor]:
        fixed = self.offsets.coefficients
        return [
            Predictor(predictor.intercept, {**fixed, **predictor.coefficients})
            for predictor in self._predictors_of_columns
        ]

    @property
    def _inputs(self) -> list[str]:
        return [*self.columns, *self.offsets.names]

    @property
    def _fields(self) -> list[str] | None:
        return [str(name) for name in self.classes] or None

    def _link(self, predictors: Sequence[Formula]) -> list[Formula]:
        return family_of(self.family, self.classes).means(predictors)


def predicted(target: str, levels: Sequence[Any]) -> str:
    """Return the name of the prediction: the target, or ``target = level`` for a probability."""
    return f"{target} = {levels[1]!r}" if levels else target


def wald(intercept: float, coefficients: Mapping[str, float], errors: Vector) -> pl.DataFrame:
    """Return the Wald tests of coefficients; `errors` has the intercept first."""
    values = np.array([intercept, *coefficients.values()])
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = values / errors
    table = {
        "estimate": values,
        "std_error": errors,
        "statistic": statistic,
        "p_value": 2.0 * scipy.special.ndtr(-np.abs(statistic)),
    }
    return pl.DataFrame(
        {"term": [INTERCEPT, *coefficients]} | table, schema_overrides={"term": pl.String}
    ).fill_nan(None)


def on_table(
    classes: Sequence[Any], intercept: Vector, coef: Matrix, columns: Sequence[str]
) -> tuple[Any, Any]:
    """Convert intercept (K,) and coefficients (d, K) to the fields of a `GlmModel`."""
    coefs = [dict(zip(columns, w.tolist(), strict=True)) for w in coef.T]
    if not classes:
        return float(intercept[0]), coefs[0]
    return (
        dict(zip(classes, intercept.tolist(), strict=True)),
        dict(zip(classes, coefs, strict=True)),
    )
