"""What results of a family have in common, and one model with its standard errors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import polars as pl
import scipy

from dbselect.errors import ArgumentError, DataError, FieldError
from dbselect.glm.named import family_of, kind_of_family
from dbselect.glm.newton import Status
from dbselect.glm.offset import Offset
from dbselect.linear import information
from dbselect.pages.html import listed
from dbselect.pages.summary import test_text
from dbselect.record.columns import INTERCEPT
from dbselect.record.formulas import Formula
from dbselect.record.gram import Matrix, Vector
from dbselect.record.policies import is_saturated, row_counts
from dbselect.record.terms import Terms
from dbselect.results.call import Answer, Call
from dbselect.results.fields import StoredFields
from dbselect.results.fitted import FittedModel
from dbselect.results.prediction.predict import Predicting, Predictor


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OfFamily(Answer):
    """A result of a family: one target, and what is added to its predictor."""

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
        """These fields, for another result of the same rows."""
        return {one.name: getattr(self, one.name) for one in fields(OfFamily)}

    @property
    def _has_likelihood(self) -> bool:
        """Whether the deviance determines the likelihood."""
        is_gaussian = kind_of_family(self.family) == "gaussian"
        return is_gaussian or not family_of(self.family, self.classes).has_dispersion

    def _loss(self, rows: int, deviance: Vector, null_deviance: float) -> Vector:
        """Return -2 log-likelihood of models on the same rows, up to what these all share."""
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

    @property
    def offset(self) -> str | None:
        """Column that is added to the predictor."""
        return self.problem.offset

    @property
    def exposure(self) -> str | None:
        """Column whose logarithm is added to the predictor."""
        return self.problem.exposure

    @property
    def offsets(self) -> Offset:
        """What is added to every predictor."""
        return Offset(self.offset, self.exposure)


@dataclass(frozen=True, eq=False)
class StandardErrors:
    """How sure coefficients of greatest likelihood are, by the information of the last pass."""

    values: Matrix  # shape (K, 1 + d), of intercept and columns of each predictor; NaN if aliased
    ridge: float  # as of the model; with a ridge they are not valid
    chosen: bool  # whether the rows also chose the columns
    dispersion: float  # the factor of the variance that is in the errors
    centre: Vector  # shape (d,), mean of each column over the rows
    # shape (K (1 + d), K (1 + d)), predictor by predictor, of which `values` are the roots of the
    # diagonal; None of a prefix, which keeps these alone
    covariance: Matrix | None = None


@dataclass(frozen=True, eq=False)
class GlmModel(OfFamily, FittedModel, StoredFields, Predicting):
    """A generalised linear model on some columns.

    Parameters
    ----------
    intercept : on the scale of the predictor; multinomial: class -> intercept
    coefficients : column -> coefficient, in the table's units; aliased columns have 0;
        multinomial: class -> column -> coefficient, which sum to 0 over the classes
    groups : groups held, in the order taken
    spent : summed cost of the groups
    deviance, null_deviance : of this model and of the one without columns
    explained : share of the null deviance explained, less what the ridge takes
    status : how the fit ended
    aliased : columns that depend linearly on columns before them
    passes : times that the table was read for the fit
    errors : of its coefficients, for `summary`; None if they are not known
    family : as in `fit`, its link or number in brackets
    classes : of a multinomial target, in their order
    levels : of a binomial target that is not 0/1, the level that counts as 0 and the one that
        counts as 1, whose probability is predicted
    rows, skipped : rows used by each pass, and left out
    rows_searched : of a search that held some rows of the table, how many
    rows_read, bytes_read : by all these passes; bytes as Arrow holds numbers in memory
    terms : how the columns of the table became those of the model
    call : the problem that it answers, without rows, and the method

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
        # A fit of columns has no groups, and they no costs.
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
        own = self.has_intercept + len(self.columns) - len(self.aliased)
        return is_saturated(self.rows, own, ridge)

    @property
    def dispersion(self) -> float:
        """The estimated factor of the variance; 1 for families that fix it.

        Pearson's statistic / (rows - rank), NaN where no rows are left; `summary` has it in its
        standard errors. The number of a negative binomial is in the name of its family.

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
        return self.errors

    def covariance(self) -> pl.DataFrame:
        """Return the covariance of the coefficients, whose diagonal has the standard errors.

        Returns
        -------
        DataFrame: term, ``"(intercept)"`` first if there is one, then columns that have a standard
        error; a column of each of these terms. Of a multinomial model a term is named
        ``"class: term"``

        Raises
        ------
        ArgumentError, DataError : as `summary`; the model is a prefix of a sequence, which keeps
            only standard errors

        Warns
        -----
        SelectionWarning : the rows also chose the columns: the variances are too small

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
        each = [INTERCEPT, *self.columns]
        names = [f"{one}: {term}" for one in self.classes for term in each] or each
        at = np.flatnonzero(np.isfinite(errors.values.ravel())).tolist()
        terms, found = [names[j] for j in at], errors.covariance[np.ix_(at, at)]
        return pl.DataFrame({"term": terms} | dict(zip(terms, found, strict=True)))

    @property
    def df_residual(self) -> int:
        """Rows less parameters: those of every predictor, without aliased columns."""
        return self.rows - self._parameters

    @property
    def aic(self) -> float:
        """Akaike's criterion, ``-2 L + 2 parameters``, as of `GlmSequence.criteria`.

        L is relative to the model that fits every row: of classes this is the log-likelihood
        itself, of counts it lacks a constant of the rows, the same for all models of these.

        Raises
        ------
        ArgumentError : the family is of a quasi-likelihood, or there is a ridge
        """
        return self._criterion(2.0)

    @property
    def bic(self) -> float:
        """Schwarz' criterion, ``-2 L + parameters log n``; otherwise as `aic`."""
        return self._criterion(math.log(self.rows))

    def _criterion(self, price: float) -> float:
        if self.errors is not None and self.errors.ridge:
            raise FieldError(f"ridge is {self.errors.ridge}; criteria of a model are at ridge 0")
        loss = self._loss(self.rows, np.array([self.deviance]), self.null_deviance)
        return float(loss[0]) + price * self._parameters

    @property
    def _parameters(self) -> int:
        each = self.has_intercept + len(self.columns) - len(self.aliased)
        return each * (len(self.classes) - 1 if self.classes else 1)

    def lr_test(self) -> pl.DataFrame:
        """Return the likelihood-ratio test that all coefficients but the intercept are 0.

        Returns
        -------
        DataFrame, one row: df; statistic, what the columns take of the deviance, by the
        dispersion; p_value by the chi-squared distribution

        Raises
        ------
        ArgumentError, DataError : as `summary`

        Warns
        -----
        SelectionWarning : the rows also chose the columns: the p-value is too small

        Notes
        -----
        Where the family has a dispersion, it is estimated and taken as known, as in `summary`.

        References
        ----------
        McCullagh, Nelder (1989), section 4.4.
        """
        self._warned()
        return pl.DataFrame([self._lr_test])

    @property
    def _lr_test(self) -> dict[str, Any]:
        several = len(self.classes) - 1 if self.classes else 1
        df = self._parameters - self.has_intercept * several
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
        # Beside levels that are separated the other coefficients are known.
        beside = self.status is Status.SEPARATED and np.isfinite(errors.values).any()
        if self.status is not Status.CONVERGED and not beside:
            raise DataError(
                f"the fit ended as {self.status.name} before it converged, so its "
                "coefficients have no standard errors"
            )
        tables = [
            wald(one.intercept, one.coefficients, own)
            for one, own in zip(self._predictors_of_columns, errors.values, strict=True)
        ]
        if not self.has_intercept:
            tables = [table[1:] for table in tables]
        if not self.classes:
            return tables[0]
        named = zip(self.classes, tables, strict=True)
        return pl.concat(
            table.select(pl.lit(name).alias("class"), pl.all()) for name, table in named
        )

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
        known = self.errors
        return {} if known is None else dict(zip(self.columns, known.centre.tolist(), strict=True))

    @property
    def _prepared(self) -> Terms:
        return self.offsets.with_log(self.terms)

    @property
    def _predictors(self) -> list[Predictor]:
        fixed = self.offsets.coefficients
        return [
            Predictor(one.intercept, {**fixed, **one.coefficients})
            for one in self._predictors_of_columns
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
    """Return what a model predicts, in words: a number, or which level has a probability."""
    return f"{target} = {levels[1]!r}" if levels else target


def wald(intercept: float, coefficients: Mapping[str, float], errors: Vector) -> pl.DataFrame:
    """Return term, estimate, std_error, statistic, p_value; `errors` of the intercept first."""
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
    """Return intercept, shape (K,), and coefficients, (d, K), as a `GlmModel` has them."""
    each = [dict(zip(columns, own.tolist(), strict=True)) for own in coef.T]
    if not classes:
        return float(intercept[0]), each[0]
    return (
        dict(zip(classes, intercept.tolist(), strict=True)),
        dict(zip(classes, each, strict=True)),
    )
