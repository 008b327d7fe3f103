"""Prepare and check a sandwich covariance: its coordinates, rows and bread."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.linalg

from dbselect.errors import ArgumentError, ColumnError, DataError
from dbselect.glm.newton import Status
from dbselect.linear.problem import no_rows
from dbselect.pages.html import listed
from dbselect.record.columns import INTERCEPT, leaves
from dbselect.record.gram import Matrix, Vector
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import Model
from dbselect.results.prediction.contributions import LinearPredictors
from dbselect.results.prediction.predict import Predictor
from dbselect.validation.sandwich import MeatSums, Scoring
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
    if fit.moments.rows <= len(white.terms):
        raise DataError(_too_few_left(fit.moments.rows, len(white.terms)))
    predictors = model._with_coordinates(white)
    assert fit.gram is not None
    zeros = {name: 0.0 for name in fit.gram.columns if name != model.target}
    padded = [Predictor(p.intercept, zeros | dict(p.coefficients)) for p in predictors.each]
    linear = LinearPredictors(padded, fit.gram.terms)
    return SandwichPlan(linear, white.constant, white.back, white.terms, fit.chosen)


def _too_few_left(rows: int, rank: int) -> str:
    """Message for a model with as many coefficients as rows."""
    return f"{rows} rows for {rank} coefficients leave no row to judge the model by"


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
    if model.rows <= len(terms):
        raise DataError(_too_few_left(model.rows, len(terms)))
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
            "fit them on the table with exact=True"
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
