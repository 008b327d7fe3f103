"""Passes over a table that fit a generalised linear model.

The first reads the plain Gram of columns and responses, which gives the null model. Predictors of
later passes are of centred columns, so that a mean far from zero costs no digits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dbselect.errors import DataError, RecordError, SourceError
from dbselect.glm.expansion import Coefficients, Expansion, Pair, expansion
from dbselect.glm.families import (
    LARGEST_DEVIANCE,
    LARGEST_LOG,
    FamilyFormulas,
    Null,
    Offset,
    count,
    multinomial,
)
from dbselect.glm.newton import PassRequest
from dbselect.linear.problem import Index, is_constant
from dbselect.record.formulas import Formula, absolute, choose, kept, number, total
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.sources.passes import PREFIX, Passes, Weighted

#: Names of columns by formula in a Gram; no column of a table has them.
RESIDUAL, DEVIANCE, RESPONSE, REFUSED, SUMMED, EXPOSURE, UNEXPOSED, FAR = (
    f"{PREFIX}{name}"
    for name in (
        "residual", "deviance", "response", "refused", "summed", "exposure", "unexposed", "far",
    )
)  # fmt: skip
#: Smallest number whose square times the least weight of a row keeps its digits.
LEAST = 1e-140

#: With an offset the intercept is settled once its next step would explain less than this share of
#: the deviance, and after so many passes at most.
SETTLED, INTERCEPT_PASSES = 1e-14, 200
#: Shifts of the intercept to try in turn if a row has no mean at that of the mean offset, in units
#: of the predictor.
SHIFTS = [sign * 2.0**power for power in (*range(8), *range(-1, -7, -1)) for sign in (-1, 1)]


@dataclass(frozen=True)
class Roles:
    """The roles of the columns of a table."""

    family: FamilyFormulas
    target: str  # column to predict
    members: list[str]  # D columns, group by group
    offsets: Offset  # columns added to the predictor
    has_intercept: bool = True  # False for models through the origin


@dataclass(frozen=True, eq=False)
class Data:
    """A table after its first pass."""

    passes: Passes  # the table
    roles: Roles  # of its columns
    # number of rows that every pass uses, and that it skips
    rows: int
    skipped: int
    weight: float  # sum of the row weights
    centre: Vector  # shape (D,), mean of each column
    # mean, spread: shape (D,); the spread of a constant column is 1. Through the origin the mean is
    # 0, the spread the root of the mean square, and constant only what is always 0
    mean: Vector
    spread: Vector
    constant: npt.NDArray[np.bool_]  # shape (D,), whether a column is constant
    correlation: Matrix  # shape (D, D); a constant column has a zero row
    covariance: Matrix  # shape (D, R), of unit-variance columns and responses
    null: Null  # the model without columns
    # mean offset in the predictor: for link log the logarithm of the mean of exp(offset), else the
    # mean of the offset
    shift: float

    def start(self) -> tuple[Coefficients, Expansion]:
        """Return the null model and its expansion; an offset takes a pass or more."""
        basis = self.roles.family.basis
        if not self.roles.has_intercept:
            origin = Coefficients(
                np.zeros(basis.shape[1]), np.zeros((len(self.mean), basis.shape[1]))
            )
            return origin, self.read([PassRequest(origin)])[0]
        predictors = self.null.predictors - self.shift
        point = Coefficients(basis.T @ predictors, np.zeros((len(self.mean), basis.shape[1])))
        if self.roles.offsets.names:
            return self._settled(point)
        pairs = [
            Pair(weight, np.zeros_like(self.mean), weight * self.correlation, 0.0, cross, np.nan)
            for weight, cross in zip(
                self.null.weights,
                self.null.weights[:, None] * self.null.residuals @ self.covariance.T,
                strict=True,
            )
        ]
        return point, expansion(pairs, self.roles.family.contrasts, self.null.deviance)

    def _settled(self, point: Coefficients) -> tuple[Coefficients, Expansion]:
        """Return the best intercept with an offset; for counts the first is the best."""
        (model,) = self.read([PassRequest(point)])
        # A row with an offset far from the mean may have no mean; with other intercepts it has one.
        scale = max(1.0, float(np.abs(point.intercept + self.shift).max()))
        for shift in SHIFTS:
            if model.deviance < LARGEST_DEVIANCE * self.weight:
                break
            trial = Coefficients(point.intercept + scale * shift, point.coef)
            (model,) = self.read([PassRequest(trial, is_trial=True)])
            if model.deviance < LARGEST_DEVIANCE * self.weight:
                point = trial
        share = 1.0
        for _ in range(INTERCEPT_PASSES):
            if share * model.settled * self.weight <= SETTLED * model.deviance:
                break
            trial = Coefficients(point.intercept + share * model.start, point.coef)
            (attempt,) = self.read([PassRequest(trial, is_trial=True)])
            if attempt.deviance <= model.deviance:
                point, model, share = trial, attempt, min(2.0 * share, 1.0)
            else:
                share *= 0.5
        return point, model

    def read(self, requests: Sequence[PassRequest]) -> list[Expansion]:
        """Make one pass for all requests; SourceError if the table has changed since the first.

        If sums overflow at a trial point, the point is too far: its deviance is infinite.
        """
        weighted = [gram for request in requests for gram in self._weighted(request)]
        try:
            grams = self.passes.read(weighted)
        except RecordError:
            if len(requests) > 1:
                return [self.read([request])[0] for request in requests]
            if not requests[0].is_trial:
                raise
            return [self._far()]
        for gram in grams:
            if (gram.rows, gram.skipped) != (self.rows, self.skipped):
                raise SourceError(
                    f"source had {self.rows} usable rows in the first pass and has {gram.rows} "
                    "now; a table must not change while a model is fitted"
                )
        contrasts = self.roles.family.contrasts
        size = len(contrasts)
        return [
            self._model(request, grams[size * number : size * (number + 1)], contrasts)
            for number, request in enumerate(requests)
        ]

    def _far(self) -> Expansion:
        width, contrasts = len(self.mean), self.roles.family.contrasts
        flat = np.eye(width)
        pair = Pair(1.0, np.zeros(width), flat, 0.0, np.zeros(width), np.nan)
        return expansion([pair] * len(contrasts), contrasts, np.inf, self.roles.has_intercept)

    def of_rows(self, point: Coefficients) -> tuple[list[Formula], list[Formula], Formula | None]:
        """Return predictors at a point, responses, and a factor, missing in unused rows."""
        return self._predictors(point), self._responses, self._missing + 1.0

    def _model(self, request: PassRequest, grams: Sequence[Gram], contrasts: Matrix) -> Expansion:
        # The first Gram has the deviance as a column, divided by the weight of the row.
        deviance = grams[0].weight * grams[0].mean[grams[0].columns.index(DEVIANCE)]
        columns = np.arange(len(self.mean)) if request.columns is None else request.columns
        pairs = [self._pair(gram, columns) for gram in grams]
        return expansion(pairs, contrasts, float(deviance), self.roles.has_intercept)

    def _weighted(self, request: PassRequest) -> list[Weighted]:
        row = self.roles.family.row(self._predictors(request.point), self._responses)
        columns = None
        if request.columns is not None:
            columns = [self.roles.members[j] for j in request.columns.tolist()]
        weighted: list[Weighted] = []
        for weight, residual in row.pairs:
            added = {RESIDUAL: with_square(residual)}
            if not weighted:
                added[DEVIANCE] = with_square(row.deviance / weight)
            same_rows = columns is None or not self.skipped
            factor = weight if same_rows else weight + self._missing
            weighted.append(Weighted(added, factor, columns))
        return weighted

    @cached_property
    def _missing(self) -> Formula:
        """0, or missing if any column is, so that every pass uses the same rows."""
        return kept(total([self.passes.column(name) for name in self.roles.members]) * 0.0)

    def _predictors(self, point: Coefficients) -> list[Formula]:
        """Return the K linear predictors of centred columns."""
        basis = self.roles.family.basis
        coef = point.coef @ basis.T / self.spread[:, None]
        used = np.flatnonzero(coef.any(axis=1)).tolist()
        centred = {j: self.passes.column(self.roles.members[j]) - self.mean[j] for j in used}
        fixed = [] if self._offset is None else [self._offset]
        return [
            kept(total([number(constant), *fixed, *(centred[j] * slopes[j] for j in used)]))
            for constant, slopes in zip(basis @ point.intercept, coef.T, strict=True)
        ]

    @cached_property
    def _offset(self) -> Formula | None:
        formula = self.roles.offsets.formula(self.passes.column)
        return None if formula is None else kept(formula)

    @cached_property
    def _responses(self) -> list[Formula]:
        return responses(self.passes, self.roles)

    def _pair(self, gram: Gram, columns: Index) -> Pair:
        """Return a weighted Gram on unit-variance columns, per row weight; 0 if not read."""
        at = places(gram, [self.roles.members[j] for j in columns.tolist()])
        residual = gram.columns.index(RESIDUAL)
        inverse = np.where(self.constant, 0.0, 1.0 / self.spread)[columns]
        per_weight = inverse / self.weight
        width = len(self.mean)
        mean, cross, comoment = np.zeros(width), np.zeros(width), np.zeros((width, width))
        mean[columns] = (gram.mean[at] - self.mean[columns]) * inverse
        cross[columns] = gram.comoment[at, residual] * per_weight
        comoment[np.ix_(columns, columns)] = (
            gram.comoment[np.ix_(at, at)] * inverse * per_weight[:, None]
        )
        share = gram.weight / self.weight
        centre = float(gram.mean[residual])
        squares = gram.comoment[residual, residual] / self.weight + share * centre**2
        return Pair(share, mean, comoment, centre, cross, float(squares))


def first_pass(passes: Passes, roles: Roles) -> Data:
    """Read the table once; DataError for no usable rows, or a target that the family refuses."""
    family = roles.family
    y = responses(passes, roles)
    # A number is read as a column of the table, so that an error names that column.
    is_made = bool(family.classes or family.levels)
    added = {f"{RESPONSE}{r}": response for r, response in enumerate(y)} if is_made else {}
    named = list(added) or [roles.target]
    columns = passes.names if is_made else [*passes.names, roles.target]
    if family.refused is not None:
        added[REFUSED] = family.refused(y[0])
    if family.summed is not None:
        added[SUMMED] = family.summed(y[0])
    offset = roles.offsets.formula(passes.column, is_checked=False)
    if offset is not None:
        added[EXPOSURE] = count(offset) if family.is_log else offset
        if family.is_log:
            added[FAR] = choose(absolute(offset) - LARGEST_LOG, 1.0, 0.0)
    if roles.offsets.exposure is not None:
        added[UNEXPOSED] = choose(passes.column(roles.offsets.exposure, "exposure"), 0.0, 1.0)
    (gram,) = passes.read([Weighted(added, columns=columns)])
    if gram.rows == 0:
        raise DataError(
            f"no usable rows: {gram.skipped} rows were skipped, as a value is NULL or NaN or "
            "the weight is 0"
        )
    passes.check_skipped(gram, [*passes.names, roles.target, *roles.offsets.names])
    mean = dict(zip(gram.columns, gram.mean.tolist(), strict=True))
    if mean.get(REFUSED, 0.0) > 0:
        raise DataError(
            f"target '{roles.target}' has a value that is not {family.allowed}, as a "
            f"{family.name} target must be"
        )
    _check_offsets(mean, roles.offsets)
    variance = np.diagonal(gram.comoment) / gram.weight
    constant = is_constant(np.sqrt(variance), gram.mean, gram.mean_low)
    moments, centre = gram.comoment / gram.weight, gram.mean
    if not roles.has_intercept:
        moments, centre = moments + np.outer(centre, centre), np.zeros_like(centre)
    at = places(gram, roles.members)
    of_y = places(gram, named)
    if family.classes:
        # A class may occur in skipped rows only.
        present = gram.mean[of_y] > 0
        of_y = of_y[present]
        classes = [value for value, used in zip(family.classes, present, strict=True) if used]
        family = multinomial(classes)
        roles = replace(roles, family=family)
    explains = roles.has_intercept and not roles.offsets.names
    if constant[of_y].any() and (explains or gram.mean[of_y[0]] == 0):
        raise DataError(_one_value(roles, gram.mean[of_y]))
    squares = np.diagonal(moments)[at]
    flat = constant[at] if roles.has_intercept else squares == 0
    spread = np.where(flat, 1.0, np.sqrt(squares))
    inverse = np.where(flat, 0.0, 1.0 / spread)
    correlation = moments[np.ix_(at, at)] * inverse * inverse[:, None]
    null = family.null(gram.mean[of_y], variance[of_y], mean.get(SUMMED, 0.0), gram.weight)
    if np.isnan(null.predictors).any():
        raise DataError(
            f"target '{roles.target}' has the mean {gram.mean[of_y[0]]:g}, which no predictor of "
            f"family '{family.name}' gives"
        )
    return Data(
        passes=passes,
        roles=roles,
        rows=gram.rows,
        skipped=gram.skipped,
        weight=gram.weight,
        centre=gram.mean[at],
        mean=np.where(flat, 0.0, 1.0) * centre[at],
        spread=spread,
        constant=flat,
        correlation=correlation,
        covariance=moments[np.ix_(at, of_y)] * inverse[:, None],
        null=null,
        shift=shift_of(family, mean.get(EXPOSURE)),
    )


def _check_offsets(mean: Mapping[str, float], offsets: Offset) -> None:
    """Refuse an exposure that is not above 0, and an offset too large for a logarithm of one."""
    if mean.get(UNEXPOSED, 0.0) > 0:
        raise DataError(f"exposure '{offsets.exposure}' has a value that is not above 0")
    if mean.get(FAR, 0.0) > 0:
        name, option = next(iter(offsets.named.items()))
        raise DataError(
            f"{option} '{name}' has a value beyond {LARGEST_LOG:g} or -{LARGEST_LOG:g} in the "
            "predictor; an offset must be the logarithm of an exposure"
        )


def shift_of(family: FamilyFormulas, exposure: float | None) -> float:
    """Return the shift of the predictor by the mean offset, or by the mean of its exponential."""
    if exposure is None:
        return 0.0
    return float(np.log(exposure)) if family.is_log else exposure


def responses(passes: Passes, roles: Roles) -> list[Formula]:
    """Return the responses as formulas."""
    return roles.family.responses(passes.leaf(roles.target, "target").path)


def with_square(x: Formula) -> Formula:
    """Return x, or 0 if its square, times the least weight, has no digits; NULL stays NULL."""
    return choose(absolute(x) - LEAST, x, x * 0.0)


def places(gram: Gram, names: Sequence[str]) -> Index:
    """Return the positions of columns in a Gram."""
    numbers = {name: j for j, name in enumerate(gram.columns)}
    return np.array([numbers[name] for name in names], dtype=np.intp)


def _one_value(roles: Roles, means: Vector) -> str:
    if roles.family.classes:
        only = roles.family.classes[int(np.argmax(means))]
        return f"target '{roles.target}' is {only!r} in all usable rows; classes must differ"
    if roles.family.levels:
        only = roles.family.levels[round(means[0])]
        return f"target '{roles.target}' is {only!r} in all usable rows; there must be two levels"
    return (
        f"target '{roles.target}' is {means[0]:g} in all usable rows; there is nothing to explain"
    )
