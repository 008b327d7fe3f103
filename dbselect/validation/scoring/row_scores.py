"""Generalised linear models on other rows than they were found on, in one pass over a table.

Every prefix has a column by formula, what a row adds to its deviance, and for classes
another, whether it foresees the row's class. Their weighted means are all that is kept.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dbselect.errors import DataError, SourceError
from dbselect.glm.families import count
from dbselect.glm.named import family_of, kind_of_family
from dbselect.glm.passes import (
    DEVIANCE,
    INTERCEPT_PASSES,
    RESIDUAL,
    SETTLED,
    Roles,
    places,
    responses,
    shift_of,
)
from dbselect.linear.problem import is_constant, no_rows
from dbselect.record.categories import Category
from dbselect.record.formulas import Formula, kept, number, total
from dbselect.record.gram import Gram, Vector
from dbselect.record.inputs import Product, inputs_as_fitted
from dbselect.results.glm.model import GlmModel
from dbselect.results.glm.sequence import GlmSequence
from dbselect.sources.passes import PREFIX, Passes, Weighted
from dbselect.validation.scoring.coefficients import coefficients_of
from dbselect.validation.scoring.metrics import correct
from dbselect.validation.unknown import unseen_in, with_mean_effects

#: Columns by formula in one Gram: it has the products of each two of them, which nobody
#: asks for, so that many small Grams are cheaper than a large one.
AT_ONCE = 8
#: Share of the weight that may lie in no class: that of the rounding of a mean.
UNKNOWN_SHARE = 1e-12
#: Columns by formula that describe the target; no column of a table has these names.
RESPONSE, REFUSED, SUMMED, EXPOSURE, SHIFTED = (
    f"{PREFIX}{name}" for name in ("response", "refused", "summed", "exposure", "shifted")
)

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowScores:
    """How M prefixes do on some rows, each number a mean over their weight."""

    # rows, skipped: that are used, and left out
    rows: int
    skipped: int
    deviance: Vector  # shape (M,)
    # of the model without columns that is best on these rows; 0 if it is exact
    null_deviance: float
    # shape (M,), share of the rows whose class is foreseen; None if there are no classes
    accuracy: Vector | None

    @property
    def r2(self) -> Vector:
        """Share of the null deviance that is explained; shape (M,), NaN where it is 0."""
        if self.null_deviance == 0:
            return np.full(len(self.deviance), np.nan)
        return np.asarray(1.0 - self.deviance / self.null_deviance)


def row_scores(found: GlmSequence | GlmModel, source: Any, weight: str | None = None) -> RowScores:
    """Read a table once and judge every prefix on the rows that all of them can predict.

    Raises as `fit`; DataError for no usable rows, or a value of the target that the model does not
    allow. UnknownLevelWarning as `evaluate`; SkippedRowsWarning if more than half of the rows are
    left out.
    """
    family = family_of(found.family, found.classes or found.levels)
    apart = [found.target, *found.offsets.names]
    inputs = inputs_as_fitted(found.columns, found.terms)
    plain = [one.source for one in inputs if not isinstance(one, Product)]
    columns = plain or ([] if inputs else None)
    names = list(found.columns)
    passes = Passes(source, columns, weight, apart, found.terms.of(names), names)
    roles = Roles(family, found.target, list(found.columns), found.offsets, found.has_intercept)
    y = responses(passes, roles)
    names, *models = with_mean_effects(
        roles.members, *coefficients_of(found), _whole(passes, found), marks=False
    )
    first = _of_target(passes, roles, y, names)
    missing = _missing(passes, roles)
    named = dict(_scores(passes, roles, y, names, *models))
    names = list(named)
    parts = [names[at : at + AT_ONCE] for at in range(0, len(names), AT_ONCE)]
    wanted = [Weighted({name: named[name] for name in part}, missing, []) for part in parts]
    grams = passes.read([first, *wanted])
    _refuse_rows(grams, roles)
    unseen_in(grams[0], found.terms.of(found.columns))
    passes.check_skipped(grams[0], [*found.columns, *apart])
    mean = {
        name: value
        for gram in grams[1:]
        for name, value in zip(gram.columns, gram.mean.tolist(), strict=True)
    }

    def of(kind: str) -> Vector:
        return np.array([value for name, value in mean.items() if name.startswith(kind)])

    accuracy = of("correct")
    at_intercept = partial(_at_intercept, passes, roles, y, missing)
    of_null = _null_deviance if found.has_intercept else _deviance_at_0
    null = of_null(grams[0], roles, at_intercept)
    used, skipped = grams[0].rows, grams[0].skipped
    return RowScores(used, skipped, of("deviance"), null, accuracy if accuracy.size else None)


def _of_target(
    passes: Passes, roles: Roles, y: Sequence[Formula], names: Sequence[str]
) -> Weighted:
    """Return the columns that decide which rows are used and describe the target on them.

    Those of `names` also show which rows have a level that the fit has not seen.
    """
    family = roles.family
    added = {f"{RESPONSE}{r}": one for r, one in enumerate(y)}
    if family.refused is not None:
        added[REFUSED] = family.refused(y[0])
    if family.summed is not None:
        added[SUMMED] = family.summed(y[0])
    offset = roles.offsets.formula(passes.column)
    if offset is not None:
        added |= {
            EXPOSURE: count(offset) if family.is_log else offset,
            SHIFTED: y[0] * offset,
        }
    return Weighted(added, None, list(names))


def _missing(passes: Passes, roles: Roles) -> Formula | None:
    """Return 1, and missing where a column is, so that all prefixes have the same rows."""
    columns = [passes.column(name) for name in roles.members]
    offset = roles.offsets.formula(passes.column)
    columns += [] if offset is None else [offset]
    if not columns:
        return None
    return kept(total(columns) * 0.0 + 1.0)


def _scores(
    passes: Passes,
    roles: Roles,
    y: Sequence[Formula],
    names: Sequence[str],
    constants: Numbers,
    coefs: Numbers,
) -> Iterator[tuple[str, Formula]]:
    """Yield the columns by formula, in the order of the prefixes.

    Of M prefixes on D columns `constants` has shape (M, K), `coefs` (M, D, K).
    """
    columns = [passes.column(name) for name in names]
    offset = roles.offsets.formula(passes.column)
    fixed = [] if offset is None else [kept(offset)]
    for step, (intercepts, coef) in enumerate(zip(constants, coefs, strict=True)):
        eta = [
            kept(
                total(
                    [
                        number(constant),
                        *fixed,
                        *(columns[j] * float(own[j]) for j in np.flatnonzero(own).tolist()),
                    ]
                )
            )
            for constant, own in zip(intercepts.tolist(), coef.T, strict=True)
        ]
        yield f"deviance{step}", roles.family.row(eta, y).deviance
        foreseen = correct(roles.family, eta, y)
        if foreseen is not None:
            yield f"correct{step}", foreseen


def _whole(passes: Passes, found: GlmSequence | GlmModel) -> list[Category]:
    """Return the categories of which a pass has every column."""
    categories = found.terms.of(found.columns).categories
    return [one for one in categories if {*one.names} <= {*passes.names}]


def _refuse_rows(grams: Sequence[Gram], roles: Roles) -> None:
    """Refuse rows that cannot be judged."""
    first = grams[0]
    if first.rows == 0:
        raise DataError(no_rows(first.skipped))
    mean = dict(zip(first.columns, first.mean.tolist(), strict=True))
    if mean.get(REFUSED, 0.0) > 0:
        raise DataError(
            f"target '{roles.target}' has a value that is not {roles.family.allowed}, as a "
            f"{roles.family.name} target must be"
        )
    known = sum(mean[f"{RESPONSE}{r}"] for r in range(len(roles.family.classes)))
    if roles.family.classes and 1.0 - known > UNKNOWN_SHARE:
        raise DataError(
            f"target '{roles.target}' has a value that is none of the model's classes "
            f"{list(roles.family.classes)}"
        )
    if any(gram.rows != first.rows for gram in grams):
        raise SourceError(
            f"the models predict no finite number for some of the {first.rows} usable rows; "
            "values must be of the size that the models were found on"
        )


def _at_intercept(
    passes: Passes, roles: Roles, y: Sequence[Formula], missing: Formula | None, intercept: float
) -> tuple[float, float, float]:
    """Return the next step of an intercept beside an offset, what it explains, the deviance."""
    offset = roles.offsets.formula(passes.column)
    eta = kept(number(intercept) if offset is None else offset + intercept)
    row = roles.family.row([eta], y)
    ((weight, residual),) = row.pairs
    factor = weight if missing is None else weight * missing
    added = {RESIDUAL: residual, DEVIANCE: row.deviance / weight}
    (gram,) = passes.read([Weighted(added, factor, [])])
    mean = dict(zip(gram.columns, gram.mean.tolist(), strict=True))
    step = mean[RESIDUAL]
    return step, gram.weight * step**2, gram.weight * mean[DEVIANCE]


def _null_deviance(
    gram: Gram, roles: Roles, at_intercept: Callable[[float], tuple[float, float, float]]
) -> float:
    """Return the mean deviance of the best model without columns, the offset kept.

    Of counts it has a formula; beside the offset of another family a pass is made for each
    step of the intercept.
    """
    family = roles.family
    at = places(gram, [f"{RESPONSE}{r}" for r in range(max(len(family.classes), 1))])
    share = gram.mean[at]
    if family.classes:
        there = share[share > 0]
        return float(-2.0 * there @ np.log(there))
    variance = np.diagonal(gram.comoment)[at] / gram.weight
    if share[0] == 0 and kind_of_family(family.name) != "gaussian":
        return 0.0
    deviation, low = np.sqrt(variance[0]), gram.mean_low[at[0]]
    if not roles.offsets.names and is_constant(deviation, share[0], low):
        return 0.0
    mean = dict(zip(gram.columns, gram.mean.tolist(), strict=True))
    summed = mean.get(SUMMED, 0.0)
    if roles.offsets.names and family.name == "poisson":
        rate = share[0] / mean[EXPOSURE]
        return float(2.0 * (summed - share[0] * np.log(rate) - mean[SHIFTED]))
    null = family.null(share, variance, summed, gram.weight)
    if not roles.offsets.names:
        return null.deviance / gram.weight
    intercept = float(null.predictors[0]) - shift_of(family, mean[EXPOSURE])
    for _ in range(INTERCEPT_PASSES):
        step, explained, deviance = at_intercept(intercept)
        if explained <= SETTLED * deviance:
            break
        intercept += step
    return deviance / gram.weight


def _deviance_at_0(
    gram: Gram, roles: Roles, at_intercept: Callable[[float], tuple[float, float, float]]
) -> float:
    """Return the mean deviance of the predictor 0, the offset kept; one pass but of classes."""
    classes = len(roles.family.classes)
    return 2.0 * math.log(classes) if classes else at_intercept(0.0)[2] / gram.weight
