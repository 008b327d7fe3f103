"""The passes over a table that fit a generalised linear model.

The first is the plain Gram of columns and responses, which has the model without columns.
Predictors of later passes are of centred columns, so that a mean far from zero costs no digits.
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
    count,
    multinomial,
)
from dbselect.glm.newton import Ask
from dbselect.glm.offset import Offset
from dbselect.linear.problem import Index, is_constant
from dbselect.record.formulas import Formula, absolute, choose, kept, number, total
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.sources.passes import PREFIX, Passes, Weighted

#: Columns by formula in a Gram, which no column of a table is called.
RESIDUAL, DEVIANCE, RESPONSE, REFUSED, SUMMED, EXPOSURE, UNEXPOSED, FAR = (
    f"{PREFIX}{name}"
    for name in (
        "residual", "deviance", "response", "refused", "summed", "exposure", "unexposed", "far",
    )
)  # fmt: skip
#: Of a number below, the square times the least weight of a row is rounded.
LEAST = 1e-140

#: Share of the deviance that a step of the intercept beside an offset would explain, below which
#: it is settled, and passes after which it is taken as it is.
SETTLED, INTERCEPT_PASSES = 1e-14, 200
#: Intercepts beside that of the mean offset which are tried in turn where a row has no mean there,
#: in units of the predictor.
SHIFTS = [sign * 2.0**power for power in (*range(8), *range(-1, -7, -1)) for sign in (-1, 1)]


@dataclass(frozen=True)
class Roles:
    """Which columns of the table are what."""

    family: FamilyFormulas
    target: str  # column to predict
    members: list[str]  # D columns, group by group
    offsets: Offset  # what is added to the predictor
    has_intercept: bool = True  # False for models through the origin


@dataclass(frozen=True, eq=False)
class Data:
    """A table after its first pass."""

    passes: Passes  # the table
    roles: Roles  # which columns are what
    # rows, skipped: rows that every pass uses, and leaves out
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
    # what the mean offset adds to the predictor: of a link log the logarithm of the mean of
    # exp(offset), else that of the offset
    shift: float

    def start(self) -> tuple[Coefficients, Expansion]:
        """Return the model without columns, and what is known near it; a pass or more by offset."""
        basis = self.roles.family.basis
        if not self.roles.has_intercept:
            origin = Coefficients(
                np.zeros(basis.shape[1]), np.zeros((len(self.mean), basis.shape[1]))
            )
            return origin, self.read([Ask(origin)])[0]
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
        """Return the best intercept beside an offset; of counts the first is the best."""
        (model,) = self.read([Ask(point)])
        # An offset far from the mean one may leave a row without a mean; another intercept has one.
        scale = max(1.0, float(np.abs(point.intercept + self.shift).max()))
        for shift in SHIFTS:
            if model.deviance < LARGEST_DEVIANCE * self.weight:
                break
            there = Coefficients(point.intercept + scale * shift, point.coef)
            (model,) = self.read([Ask(there, is_trial=True)])
            if model.deviance < LARGEST_DEVIANCE * self.weight:
                point = there
        share = 1.0
        for _ in range(INTERCEPT_PASSES):
            if share * model.settled * self.weight <= SETTLED * model.deviance:
                break
            there = Coefficients(point.intercept + share * model.start, point.coef)
            (answer,) = self.read([Ask(there, is_trial=True)])
            if answer.deviance <= model.deviance:
                point, model, share = there, answer, min(2.0 * share, 1.0)
            else:
                share *= 0.5
        return point, model

    def read(self, asks: Sequence[Ask]) -> list[Expansion]:
        """Make one pass for all asks; SourceError if the table has changed since the first.

        What cannot be summed where a step is tried is too far: the deviance there is infinite.
        """
        wanted = [one for ask in asks for one in self._weighted(ask)]
        try:
            grams = self.passes.read(wanted)
        except RecordError:
            if len(asks) > 1:
                return [self.read([ask])[0] for ask in asks]
            if not asks[0].is_trial:
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
            self._model(ask, grams[size * number : size * (number + 1)], contrasts)
            for number, ask in enumerate(asks)
        ]

    def _far(self) -> Expansion:
        width, contrasts = len(self.mean), self.roles.family.contrasts
        flat = np.eye(width)
        pair = Pair(1.0, np.zeros(width), flat, 0.0, np.zeros(width), np.nan)
        return expansion([pair] * len(contrasts), contrasts, np.inf, self.roles.has_intercept)

    def of_rows(self, point: Coefficients) -> tuple[list[Formula], list[Formula], Formula | None]:
        """Return predictors at a point, responses, and what leaves out the rows not used."""
        return self._predictors(point), self._responses, self._missing + 1.0

    def _model(self, ask: Ask, grams: Sequence[Gram], contrasts: Matrix) -> Expansion:
        # The deviance rides along in the first Gram, divided by the weight of its row.
        deviance = grams[0].weight * grams[0].mean[grams[0].columns.index(DEVIANCE)]
        columns = np.arange(len(self.mean)) if ask.columns is None else ask.columns
        pairs = [self._pair(gram, columns) for gram in grams]
        return expansion(pairs, contrasts, float(deviance), self.roles.has_intercept)

    def _weighted(self, ask: Ask) -> list[Weighted]:
        row = self.roles.family.row(self._predictors(ask.point), self._responses)
        columns = None
        if ask.columns is not None:
            columns = [self.roles.members[j] for j in ask.columns.tolist()]
        wanted: list[Weighted] = []
        for weight, residual in row.pairs:
            added = {RESIDUAL: with_square(residual)}
            if not wanted:
                added[DEVIANCE] = with_square(row.deviance / weight)
            same_rows = columns is None or not self.skipped
            factor = weight if same_rows else weight + self._missing
            wanted.append(Weighted(added, factor, columns))
        return wanted

    @cached_property
    def _missing(self) -> Formula:
        """0, and missing where any column is, so that every pass uses the same rows."""
        return kept(total([self.passes.column(name) for name in self.roles.members]) * 0.0)

    def _predictors(self, point: Coefficients) -> list[Formula]:
        """Return the K linear predictors of centred columns."""
        basis = self.roles.family.basis
        coef = point.coef @ basis.T / self.spread[:, None]
        used = np.flatnonzero(coef.any(axis=1)).tolist()
        centred = {j: self.passes.column(self.roles.members[j]) - self.mean[j] for j in used}
        fixed = [] if self._offset is None else [self._offset]
        return [
            kept(total([number(constant), *fixed, *(centred[j] * own[j] for j in used)]))
            for constant, own in zip(basis @ point.intercept, coef.T, strict=True)
        ]

    @cached_property
    def _offset(self) -> Formula | None:
        found = self.roles.offsets.formula(self.passes.column)
        return None if found is None else kept(found)

    @cached_property
    def _responses(self) -> list[Formula]:
        return responses(self.passes, self.roles)

    def _pair(self, gram: Gram, columns: Index) -> Pair:
        """Return a weighted Gram on unit-variance columns, per row weight; 0 where unknown."""
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
    # A number is read as it is, so that an error names its own column.
    is_made = bool(family.classes or family.levels)
    added = {f"{RESPONSE}{r}": one for r, one in enumerate(y)} if is_made else {}
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
        # A class may lie in rows only that are left out.
        present = gram.mean[of_y] > 0
        of_y = of_y[present]
        classes = [one for one, there in zip(family.classes, present, strict=True) if there]
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
    """Refuse an exposure that is not above 0, and an offset that is none of its logarithms."""
    if mean.get(UNEXPOSED, 0.0) > 0:
        raise DataError(f"exposure '{offsets.exposure}' has a value that is not above 0")
    if mean.get(FAR, 0.0) > 0:
        name, what = next(iter(offsets.named.items()))
        raise DataError(
            f"{what} '{name}' has a value beyond {LARGEST_LOG:g} or -{LARGEST_LOG:g} in the "
            "predictor; an offset must be the logarithm of an exposure"
        )


def shift_of(family: FamilyFormulas, exposure: float | None) -> float:
    """Return what the mean offset, or the mean of its exponential, adds to the predictor."""
    if exposure is None:
        return 0.0
    return float(np.log(exposure)) if family.is_log else exposure


def responses(passes: Passes, roles: Roles) -> list[Formula]:
    """Return the responses as formulas."""
    return roles.family.responses(passes.leaf(roles.target, "target").path)


def with_square(x: Formula) -> Formula:
    """Return x, 0 where its square, times the least weight, has no digits; NULL stays so."""
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
