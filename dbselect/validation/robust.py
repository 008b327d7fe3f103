"""Robust standard errors: the bread of a sandwich, and its covariance in one more pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa
import scipy.linalg

from dbselect.errors import ArgumentError, ColumnError, DataError, shown, warn_of_choice
from dbselect.glm.newton import Status
from dbselect.linear.inference import Deviations, t_quantile, tests, with_ends
from dbselect.linear.problem import no_rows
from dbselect.options.kinds import COLUMN, SHARE, one_of, whole
from dbselect.pages.html import Glance, InNotebooks, listed
from dbselect.record.columns import INTERCEPT, leaves
from dbselect.record.gram import Matrix, Vector
from dbselect.record.policies import row_counts
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import Model
from dbselect.results.prediction.contributions import LinearPredictors
from dbselect.results.prediction.predict import Predictor
from dbselect.sources.snapshots import one_snapshot
from dbselect.validation.sandwich import MeatSums, Scoring, lagged
from dbselect.validation.scoring.evaluate import is_gram
from dbselect.validation.scoring.reading import fields_read

#: Exponent of 1 - leverage, by which the square of a row is divided.
POWERS = {"HC2": 1, "HC3": 2}
#: Distance in standard errors between the coefficients and a fit to the rows, above which the
#: model was fitted to other rows: rounding is far smaller, other rows give about 1.
OTHER_ROWS = 0.1
#: Share of the target's norm that counts as rounding in that distance.
ROUNDING_SHARE = 1e-10
#: Share by which sums of the same weights may differ, added in another order.
WEIGHT_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class SandwichPlan:
    """Coordinates and terms of a sandwich covariance."""

    predictors: LinearPredictors  # the model's, then the coordinates
    constant: float | None  # the constant coordinate of all rows, or None
    # maps coefficients of white coordinates to those of the terms; None if A is summed
    back: Matrix | None
    terms: list[str]  # terms that are not aliased
    chosen: bool  # whether the rows also chose the columns


def of_linear(model: Model) -> SandwichPlan:
    """Plan for least squares: white coordinates; all columns of the Gram are read."""
    fit = model._least_squares
    white = model._white
    _check_rows_left(fit.moments.rows, white.terms)
    predictors = model._with_coordinates(white)
    assert fit.gram is not None
    zeros = {name: 0.0 for name in fit.gram.columns if name != model.target}
    padded = [Predictor(p.intercept, zeros | dict(p.coefficients)) for p in predictors.each]
    linear = LinearPredictors(padded, fit.gram.terms)
    return SandwichPlan(linear, white.constant, white.back, white.terms, fit.chosen)


def _check_rows_left(rows: int, terms: Sequence[str]) -> None:
    """Refuse a model with as many coefficients as rows."""
    if rows <= len(terms):
        raise DataError(
            f"{rows} rows for {len(terms)} coefficients leave no row to judge the model by"
        )


def of_family(model: GlmModel, kind: str) -> SandwichPlan:
    """Plan for a GLM: the columns themselves are the coordinates."""
    if model.classes:
        raise ArgumentError(
            f"family is {model.family!r}, whose classes have a predictor each; robust_errors are "
            "those of one predictor"
        )
    if kind in POWERS:
        raise ArgumentError(
            f"cov_type is {kind!r}; the leverages of family {model.family!r} are known only after "
            "the pass, so it has 'HC0', 'HC1', 'cluster' and 'HAC'"
        )
    if model.status is not Status.CONVERGED:
        raise DataError(
            f"the fit ended as {model.status.name}; robust_errors need one that converged"
        )
    model._tested()  # refuses fits without a maximum of the likelihood
    assert model.errors is not None
    (model_predictor,) = model._predictors
    zeros = dict.fromkeys(model_predictor.coefficients, 0.0)
    kept = [name for name in model.columns if name not in model.aliased]
    predictors = [model_predictor, *(Predictor(0.0, zeros | {name: 1.0}) for name in kept)]
    terms = [INTERCEPT, *kept] if model.has_intercept else kept
    _check_rows_left(model.rows, terms)
    constant = 1.0 if model.has_intercept else None
    linear_predictors = LinearPredictors(predictors, model._prepared)
    return SandwichPlan(linear_predictors, constant, None, terms, model.errors.chosen)


def scoring_of(
    model: Model | GlmModel,
    plan: SandwichPlan,
    data: Any,
    kind: str,
    weight: str | None,
    clusters: Sequence[str],
) -> tuple[Scoring, Any]:
    """Return the sums to compute over the rows, and the table."""
    arguments = dict.fromkeys(clusters, "cluster")
    reading, table = fields_read(model, plan.predictors, data, weight, arguments)
    leaf_by_name = {leaf.name: leaf for leaf in leaves(table.schema)}
    for cluster in clusters:
        type_ = table.schema.field(cluster).type
        if kind == "HAC" and not (cluster in leaf_by_name and leaf_by_name[cluster].is_numeric):
            raise ColumnError(f"time '{cluster}' has type {type_}; it must be a number or a date")
        if pa.types.is_nested(type_):
            raise ColumnError(f"cluster '{cluster}' has type {type_}; it must be one value a row")
    scoring = Scoring(
        **reading, constant=plan.constant, white=plan.back is not None,
        power=POWERS.get(kind, 0),
    )  # fmt: skip
    return scoring, table


def check_rows(
    sums: MeatSums, model: Model | GlmModel, weight: str | None, clusters: Sequence[str]
) -> None:
    """Refuse rows that are not those of the fit, and rows with leverage 1."""
    usable = sums.rows + sums.lost
    if not usable:
        raise DataError(no_rows(sums.skipped))
    if usable != model.rows:
        raise DataError(
            f"data has {usable} usable rows, and the model was fitted to {model.rows}; it must "
            "have the rows of the fit and no others"
        )
    if sums.lost:
        raise DataError(
            f"{listed(clusters)!r} is missing in {sums.lost} rows of the fit; fit the model to "
            "rows that have one"
        )
    fit = model.fit if isinstance(model, Model) else None
    if fit is not None and abs(sums.weight / fit.moments.weight - 1.0) > WEIGHT_ROUNDING:
        raise DataError(
            f"the rows weigh {sums.weight} in all, and those of the fit "
            f"{fit.moments.weight}; weight is {weight!r}, and must be the column of the fit"
        )
    if sums.exact:
        raise DataError(
            f"{sums.exact} rows have leverage 1, such as the only row with a level; HC2 "
            "and HC3 divide by 1 - leverage: use 'HC1'"
        )


def whitener(sums: MeatSums, plan: SandwichPlan) -> tuple[Matrix, Matrix]:
    """Return W with ``W A W' = 1``, and the map to the terms; DataError if A is singular."""
    if plan.back is not None:
        return np.eye(len(plan.terms)), plan.back
    unit = np.diagonal(sums.information) ** -0.5
    try:
        factor = scipy.linalg.cholesky(sums.information * unit * unit[:, None], lower=True)
    except scipy.linalg.LinAlgError:
        raise DataError(
            "the columns are too nearly dependent for standard errors from a Gram; "
            "leave some out, or give their differences as columns"
        ) from None
    inverse = scipy.linalg.solve_triangular(factor, np.diag(unit), lower=True)
    return inverse, inverse.T


def check_gradient(sums: MeatSums, gradient: Vector, model: Model | GlmModel) -> None:
    """Refuse rows whose gradient, in white coordinates, is not near 0: they are not the fit's."""
    noise = sums.rss / sums.rows
    allowed = OTHER_ROWS**2 * noise + ROUNDING_SHARE**2 * sums.squares
    if gradient @ gradient <= allowed:
        return
    wrong = "the rows do not give the model's coefficients, so they are not those of the fit"
    remedy = "give the rows and the weight that it was fitted with"
    if isinstance(model, Model):
        column, mean, part = _largest_part(model)
        if sums.weight * (np.finfo(np.float64).eps * part) ** 2 > allowed:
            wrong += f", or column '{column}', about {mean:.1e}, loses its last digits as a double"
            remedy += f", or fit and judge '{column}' less about {mean:.1e}"
    raise DataError(f"{wrong}; {remedy}")


def _largest_part(model: Model) -> tuple[str, float, float]:
    """Return the largest term of a residual: its column or the target, its mean and its size."""
    assert model.fit is not None
    assert model.fit.gram is not None
    gram = model.fit.gram
    factors = {**model.coefficients, model.target: 1.0}
    means = {name: float(gram.mean[gram.columns.index(name)]) for name in factors}
    parts = {name: abs(factors[name] * means[name]) for name in factors}
    column = max(parts, key=lambda name: parts[name])
    return column, means[column], parts[column]


#: Names of the covariances, those of statsmodels.
CovType = Literal["HC0", "HC1", "HC2", "HC3", "cluster", "HAC"]


@dataclass(frozen=True, eq=False)
class RobustErrors(InNotebooks):
    """Standard errors for errors of unequal variance, or correlated ones.

    Parameters
    ----------
    target : the column that is predicted
    cov_type : ``"HC0"`` to ``"HC3"``, ``"cluster"`` or ``"HAC"``
    estimates : term -> coefficient, the intercept first; aliased columns have 0
    terms : those that are not aliased, in the order of `covariance`
    covariance : of their coefficients, shape (len(terms), len(terms)), in the table's units
    free : degrees of freedom of Student's t; infinite for the normal distribution
    chosen : whether the columns were selected on the same rows
    rows, skipped : number of rows used and skipped
    clusters : number of clusters, the smaller of two columns; with HAC of times; None without

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"x": [1, 2, 3, 4, 5], "y": [2, 3, 5, 6, 9]})
    >>> errors = ds.fit(table, "y").robust_errors(table, cov_type="HC0")
    >>> errors
    RobustErrors(y by HC0; 2 terms; 5 rows)
    >>> errors.covariance.round(4).tolist()
    [[0.1874, -0.0638], [-0.0638, 0.0266]]
    """

    target: str
    cov_type: CovType
    estimates: Mapping[str, float]
    terms: tuple[str, ...]
    covariance: Matrix
    free: float
    chosen: bool
    rows: int
    skipped: int
    clusters: int | None

    def __repr__(self) -> str:
        noun = "times" if self.cov_type == "HAC" else "clusters"
        clusters = "" if self.clusters is None else f" in {self.clusters} {noun}"
        return (
            f"RobustErrors({self.target} by {self.cov_type}; {len(self.terms)} terms; "
            f"{row_counts(self.rows, self.skipped)}{clusters})"
        )

    @property
    def _glance(self) -> Glance:
        return Glance(self._tests)

    @property
    def _tests(self) -> pl.DataFrame:
        errors = dict(zip(self.terms, np.sqrt(np.diagonal(self.covariance)).tolist(), strict=True))
        return tests(self.estimates, Deviations(errors, self.free))

    def summary(self) -> pl.DataFrame:
        """Return each coefficient with its robust standard error and a test that it is 0.

        Returns
        -------
        DataFrame: term, estimate, std_error, statistic and p_value, as in `Model.summary` and
        `GlmModel.summary`; NULL for aliased columns

        Warns
        -----
        SelectionWarning : the columns were selected on the same rows: p-values are too small
        """
        if self.chosen:
            warn_of_choice()
        return self._tests

    def intervals(self, level: float = 0.95) -> pl.DataFrame:
        """Return each coefficient with its confidence interval.

        Parameters
        ----------
        level : confidence level, in (0, 1)

        Returns
        -------
        DataFrame: term, estimate, std_error, low, high

        Raises
        ------
        ArgumentError : level is out of range

        Warns
        -----
        SelectionWarning : the columns were selected on the same rows: intervals are too short
        """
        SHARE.check("level", level)
        if self.chosen:
            warn_of_choice()
        return with_ends(self._tests, t_quantile(level, self.free))


@one_snapshot
def robust_errors(
    model: Model | GlmModel,
    data: Any,
    *,
    weight: str | None = None,
    cov_type: CovType | None = None,
    cluster: str | Sequence[str] | None = None,
    time: str | None = None,
    maxlags: int | None = None,
) -> RobustErrors:
    """Compute robust errors of least squares or a GLM in one more pass over its rows."""
    kind, clusters = check_kind(cov_type, cluster, time)
    if maxlags is not None:
        whole(0).check("maxlags", maxlags)
        if kind != "HAC":
            raise ArgumentError(f"maxlags is {maxlags!r}; only cov_type 'HAC' has lags")
    COLUMN.or_none().check("weight", weight)
    if is_gram(data):
        raise ArgumentError("data is a Gram and holds no rows; give the table")
    plan = of_linear(model) if isinstance(model, Model) else of_family(model, kind)
    scoring, table = scoring_of(model, plan, data, kind, weight, clusters)
    sums = scoring.over(table, scoring.fields)
    check_rows(sums, model, weight, clusters)
    return _covariance(model, plan, sums, kind, maxlags)


def check_kind(cov_type: Any, cluster: Any, time: Any) -> tuple[CovType, list[str]]:
    """Return the covariance type, and the columns of clusters or time."""
    COLUMN.or_none().check("time", time)
    names = list(cluster) if isinstance(cluster, list | tuple) else [cluster]
    if not 1 <= len(names) <= 2 or len(set(names)) < len(names):
        raise ArgumentError(f"cluster is {shown(cluster)}; it must be a column, or two of them")
    for name in names:
        COLUMN.or_none().check("cluster", name)
    if cov_type is None:
        cov_type = "HAC" if time is not None else "HC1" if cluster is None else "cluster"
    one_of(CovType).check("cov_type", cov_type)
    for kind, name, value in (("cluster", "cluster", cluster), ("HAC", "time", time)):
        if (cov_type == kind) != (value is not None):
            raise ArgumentError(
                f"cov_type is {cov_type!r} and {name} is {value!r}; '{kind}' needs the column of "
                f"the {name}s, and no other type has one"
            )
    return cov_type, [name for name in (*names, time) if name is not None]


def _covariance(
    model: Model | GlmModel,
    plan: SandwichPlan,
    sums: MeatSums,
    kind: CovType,
    maxlags: int | None,
) -> RobustErrors:
    """Build the covariance from the sums."""
    n, r = sums.rows, len(plan.terms)
    white, back = whitener(sums, plan)
    check_gradient(sums, white @ sums.gradient, model)
    meat, factor, free, clusters = sums.meat, 1.0, n - r, None
    if kind == "HC1":
        factor = n / (n - r)
    if kind == "cluster":
        cluster_sums = [scores.settle() for scores in sums.clusters]
        clusters = min(map(len, cluster_sums))
        if clusters < 2:
            raise DataError("cluster has one value in all rows; at least two clusters are needed")
        signs = (1.0, 1.0, -1.0)  # pairs of rows in the same intersection are in both sums
        parts = zip(signs, cluster_sums, strict=False)
        meat = sum((s * len(u) / (len(u) - 1) * u.T @ u for s, u in parts), 0.0 * meat)
        factor, free = (n - 1) / (n - r), clusters - 1
    if kind == "HAC":
        (scores,) = [scores.settle() for scores in sums.clusters]
        clusters = len(scores)
        default_lags = int(4 * (clusters / 100) ** (2 / 9))
        meat = lagged(scores, default_lags if maxlags is None else maxlags)
    half = back @ white
    with np.errstate(over="ignore", invalid="ignore"):
        covariance = factor * half @ meat @ half.T
    if not np.isfinite(covariance).all():
        raise DataError(
            "variances of the coefficients overflow a double; divide the target, or multiply the "
            "columns, by a power of ten"
        )
    intercept = {INTERCEPT: model.intercept} if INTERCEPT in plan.terms else {}
    return RobustErrors(
        target=model.target,
        cov_type=kind,
        estimates=intercept | model.coefficients,
        terms=tuple(plan.terms),
        covariance=covariance,
        free=free if isinstance(model, Model) else np.inf,
        chosen=plan.chosen,
        rows=n,
        skipped=sums.skipped,
        clusters=clusters,
    )
