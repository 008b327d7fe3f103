"""What a sandwich covariance needs of rows and of a fit, and what it refuses."""

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

#: How often a row's square is divided by 1 - its leverage.
POWERS = {"HC2": 1, "HC3": 2}
#: Distance of the coefficients from those that the rows would give, in standard errors, above
#: which they were fitted to other rows: a fit leaves its rounding, other rows leave about 1.
OTHER_ROWS = 0.1
#: Share of the target's length that counts as rounding there.
ROUNDING_SHARE = 1e-10
#: Share by which weights of the same rows may differ, added in another order.
WEIGHT_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class SandwichPlan:
    """What the rows are read for."""

    predictors: LinearPredictors  # the model's, then the coordinates
    constant: float | None  # the coordinate of every row, or None
    # what brings coefficients of white coordinates to those of terms; None if A is summed
    back: Matrix | None
    terms: list[str]  # that are not aliased
    chosen: bool  # whether the rows also chose the columns


def of_linear(model: Model) -> SandwichPlan:
    """Return the white coordinates of a row, and that every column of the record is read."""
    fit = model._least_squares
    white = model._white
    if fit.moments.rows <= len(white.terms):
        raise DataError(_too_few_left(fit.moments.rows, len(white.terms)))
    predictors = model._with_coordinates(white)
    assert fit.gram is not None
    others = [name for name in fit.gram.columns if name != model.target]
    none = dict.fromkeys(others, 0.0)
    each = [Predictor(one.intercept, none | dict(one.coefficients)) for one in predictors.each]
    return SandwichPlan(
        LinearPredictors(each, fit.gram.terms), white.constant, white.back, white.terms, fit.chosen
    )


def _too_few_left(rows: int, rank: int) -> str:
    """Say that a model has as many coefficients as rows."""
    return f"{rows} rows for {rank} coefficients leave no row to judge the model by"


def of_family(model: GlmModel, kind: str) -> SandwichPlan:
    """Return the columns themselves as coordinates."""
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
    model._tested()  # refuses what has no greatest likelihood
    assert model.errors is not None
    (own,) = model._predictors
    none = dict.fromkeys(own.coefficients, 0.0)
    kept = [name for name in model.columns if name not in model.aliased]
    each = [own, *(Predictor(0.0, none | {name: 1.0}) for name in kept)]
    terms = [INTERCEPT, *kept] if model.has_intercept else kept
    if model.rows <= len(terms):
        raise DataError(_too_few_left(model.rows, len(terms)))
    constant = 1.0 if model.has_intercept else None
    predictors = LinearPredictors(each, model._prepared)
    return SandwichPlan(predictors, constant, None, terms, model.errors.chosen)


def scoring_of(
    found: Model | GlmModel,
    wanted: SandwichPlan,
    data: Any,
    kind: str,
    weight: str | None,
    clusters: Sequence[str],
) -> tuple[Scoring, Any]:
    """Return what to sum over the rows, and the table."""
    named = dict.fromkeys(clusters, "cluster")
    reading, table = fields_read(found, wanted.predictors, data, weight, named)
    known = {leaf.name: leaf for leaf in leaves(table.schema)}
    for cluster in clusters:
        type_ = table.schema.field(cluster).type
        if kind == "HAC" and not (cluster in known and known[cluster].is_numeric):
            raise ColumnError(f"time '{cluster}' has type {type_}; it must be a number or a date")
        if pa.types.is_nested(type_):
            raise ColumnError(f"cluster '{cluster}' has type {type_}; it must be one value a row")
    scoring = Scoring(
        **reading, constant=wanted.constant, white=wanted.back is not None,
        power=POWERS.get(kind, 0),
    )  # fmt: skip
    return scoring, table


def check_rows(
    sums: MeatSums, found: Model | GlmModel, weight: str | None, clusters: Sequence[str]
) -> None:
    """Refuse rows that are not those of the fit, or that no sandwich is made of."""
    usable = sums.rows + sums.lost
    if not usable:
        raise DataError(no_rows(sums.skipped))
    if usable != found.rows:
        raise DataError(
            f"data has {usable} usable rows, and the model was fitted to {found.rows}; it must "
            "have the rows of the fit and no others"
        )
    if sums.lost:
        raise DataError(
            f"{listed(clusters)!r} is missing in {sums.lost} rows of the fit; fit the model to "
            "rows that have one"
        )
    fit = found.fit if isinstance(found, Model) else None
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


def whitener(sums: MeatSums, wanted: SandwichPlan) -> tuple[Matrix, Matrix]:
    """Return W with ``W A W' = 1``, and what makes terms of coordinates; DataError if singular."""
    if wanted.back is not None:
        return np.eye(len(wanted.terms)), wanted.back
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


def check_gradient(sums: MeatSums, gradient: Vector, found: Model | GlmModel) -> None:
    """Refuse rows whose gradient, in white coordinates, shows that the coefficients are no fit."""
    noise = sums.left / sums.rows
    allowed = OTHER_ROWS**2 * noise + ROUNDING_SHARE**2 * sums.squares
    if gradient @ gradient <= allowed:
        return
    wrong = "the rows do not give the model's coefficients, so they are not those of the fit"
    mend = "give the rows and the weight that it was fitted with"
    if isinstance(found, Model):
        column, mean, part = _largest_part(found)
        if sums.weight * (np.finfo(np.float64).eps * part) ** 2 > allowed:
            wrong += f", or column '{column}', about {mean:.1e}, loses its last digits as a double"
            mend += f", or fit and judge '{column}' less about {mean:.1e}"
    raise DataError(f"{wrong}; {mend}")


def _largest_part(model: Model) -> tuple[str, float, float]:
    """Return the column, or the target, that is largest in a residual, its mean and that part."""
    assert model.fit is not None
    assert model.fit.gram is not None
    gram = model.fit.gram
    factors = {**model.coefficients, model.target: 1.0}
    means = {name: float(gram.mean[gram.columns.index(name)]) for name in factors}
    parts = {name: abs(factors[name] * means[name]) for name in factors}
    column = max(parts, key=lambda name: parts[name])
    return column, means[column], parts[column]
