"""Fits of generalised linear models, group by group, in passes over the rows.

Columns are scaled to mean 0 and variance 1, by the row weights; ``n`` is the sum of these. On the
columns of the selected groups S the coefficients minimise::

    deviance / (2 n) + ridge / 2 * sum of squares of the coefficients

A pass at some coefficients gives the deviance, the gradient of *all* columns and the information of
all columns (`families`): a quadratic model of the objective, with the intercept minimised out.
Scaled by the null deviance that is the problem of `linear.problem`: the Newton step on S is its
``coef``, the predicted decrease its ``explained``, and for the groups outside S its ``gains`` are
the score test (gradient against the information conditional on S). Hence a pass pays for a Newton
step and for the scores of all groups, and the first step of a refit with one more group needs no
pass.

With links that are not canonical the expected information is not the curvature, and steps use the
curvature that the gradients of the passes show (`glm.expansion`).

A step that does not decrease the objective is halved. The last step is taken without a pass, as its
error is of the order of its square. If some predictors have no mean, it takes a pass too, and a fit
has converged only if the gradient vanishes: near the border an unbounded information makes every
step short. Which columns depend on others follows from the columns and the row weights
alone; if more of them are dependent in the information of the last pass, the fit has stalled. Steps
that hardly decrease the objective but become no shorter, with no rise far out along them, are
endless: columns determine the target of some rows. O(T D^2 n) a pass for T pairs, O(D^3 P^3)
between passes, 16 (D P)^2 bytes, P predictors.

Source: McCullagh, Nelder (1989), section 2.5 (iterative weighting is Newton's method); Hu, Grubb,
Bagnell, Hebert (2016), appendix B; Rao (1948) for the score test.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
import numpy.typing as npt

from dbselect.glm.expansion import Coefficients, Expansion, Secant, secant, secant_step
from dbselect.linear.problem import Index, Linear
from dbselect.linear.state import LinearState
from dbselect.record.gram import Matrix, Vector

#: A predicted decrease below this share of the null deviance is rounding.
ROUNDING_SHARE = 1e-15
#: A step that predicts less than this share of the null deviance but is as long as the
#: one before may be on its way to infinity: steps to a minimum shrink faster and faster. A
#: pass far out along it shows whether it is.
#: With a larger share at the limit of passes, a row far from all others would count as separated.
SEPARATION_SHARE, LIMIT_SHARE = 1e-7, 1e-5
#: Share of the length of the step before above which a step counts as long as that.
AS_LONG = 0.9
#: Least share of the decrease predicted before that a step towards infinity predicts: it falls
#: by e. Near a minimum a step may be as long as the one before, in which the intercept settled.
STEADY_SHARE = 0.05
#: Share of the length of the step before above which a step is too long to be the last:
#: quadratic convergence makes the last one far shorter.
TOO_LONG = 0.3
#: Share of the curvature along the step before below which the curvature vanishes, as it does on
#: the way to infinity; near a minimum it stays.
WANING = 0.7
#: Multiple of a step at which the objective is higher if there is a minimum near.
FAR_OUT = 8.0
#: Halvings of a step before it is given up: then it is a thousandth.
HALVINGS = 10
#: Least predicted decrease, a share of the null deviance, above the rounding of sums over rows.
HIDDEN_SHARE = 1e-12
#: Most that a step by the information of the null model may gain at a minimum, as a share of the
#: null deviance.
FLAT = 1e-8
#: Upper bound on what is left to gain, as a multiple of the next predicted decrease, once steps
#: become shorter by `TOO_LONG`.
MOST_LEFT = 4.0


class Status(Enum):
    """Reason why a fit ended."""

    CONVERGED = "converged"
    SEPARATED = "separated: some columns determine the target of some rows"
    LIMIT = "max_iter was reached"
    STALLED = "no part of a step decreased the deviance"


@dataclass(frozen=True, eq=False)
class GlmProblem:
    """The part of a fit that is the same in all passes."""

    correlation: Matrix  # shape (D, D), of the columns by the row weights
    constant: npt.NDArray[np.bool_]  # shape (D,), whether a column is constant
    ridge: Vector  # shape (D,), on unit-variance columns
    unit: Vector  # shape (D,), as in `linear.problem.Linear`
    members: Sequence[Index]  # the columns of each of the J groups
    weight: float  # n
    null_deviance: float  # of the model without columns
    free: int  # P
    exact: bool  # whether the objective is quadratic, so that the first pass determines the fit
    tol: float  # share of the null deviance that a step must predict for another pass
    max_iter: int  # limit on the passes of one fit
    has_intercept: bool = True  # False for models through the origin
    # whether the information is the curvature itself, as in `families.Family`
    is_canonical: bool = True
    # the mean weight of a row in the null model, if some predictors have no mean
    bounded_weight: float | None = None
    _dependent: dict[tuple[int, ...], frozenset[int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def penalty(self, point: Coefficients) -> float:
        """Return the ridge penalty, in units of the deviance."""
        return float(self.weight * self.ridge @ (point.coef**2).sum(axis=1))

    def length(self, coef: Matrix) -> float:
        """Return the standard deviation of the predictors of some coefficients."""
        return float(np.sqrt(max(np.sum(coef * (self.correlation @ coef)), 0.0)))

    def predicted(self, model: Expansion, state: LinearState) -> float:
        """Return the predicted decrease of the next step, as a share of the null deviance."""
        return state.explained + model.settled * self.weight / self.null_deviance

    @property
    def scale(self) -> float:
        """Factor from coefficients of the linear problem to those of the model."""
        return float(np.sqrt(self.null_deviance / self.weight))

    def state(
        self,
        at: Coefficients,
        model: Expansion,
        groups: Sequence[int],
        without: frozenset[int] | None = None,
    ) -> LinearState:
        """Return the linear problem near a point, with some groups selected.

        `without` are coefficients that stay 0; by default those of `dependent`.
        """
        repeat = self.free
        ridge = np.repeat(self.ridge, repeat)
        size = len(ridge)
        local = Linear(
            model.information,
            (model.gradient - ridge * at.coef.ravel()) / self.scale,
            ridge,
            np.repeat(self.unit, repeat),
            np.ones(size),
            np.repeat(self.constant, repeat),
            np.zeros(size),
            0.0,
            self.scale,
        )
        members = [self.wide(columns) for columns in self.members]
        state = LinearState(local, members)
        if groups:
            state.add_all(groups)
        dependent = self.dependent(groups) if without is None else without
        if dependent.issubset(state.aliased):
            return state
        constant = local.constant.copy()
        constant[list(dependent)] = True
        state = LinearState(replace(local, constant=constant), members)
        state.add_all(groups)
        return state

    def dependent(self, groups: Sequence[int]) -> frozenset[int]:
        """Return the coefficients of columns that depend on earlier columns of the groups."""
        key = tuple(groups)
        if key not in self._dependent:
            columns = self.columns(groups)
            none = np.zeros(len(columns))
            local = Linear(
                self.correlation[np.ix_(columns, columns)],
                none,
                self.ridge[columns],
                self.unit[columns],
                none + 1.0,
                self.constant[columns],
                none,
                0.0,
                1.0,
            )
            state = LinearState(local, [np.arange(len(columns))])
            if len(columns):
                state.add(0)
            self._dependent[key] = frozenset(self.wide(columns[state.aliased]).tolist())
        return self._dependent[key]

    def is_flat(self, at: Coefficients, model: Expansion, groups: Sequence[int]) -> bool:
        """Whether the gradient vanishes; True if no unbounded information can hide it."""
        if self.bounded_weight is None:
            return True
        columns = self.columns(groups)
        wide, free = self.wide(columns), self.free
        dependent = self.dependent(groups)
        columns = columns[[j not in dependent for j in wide[::free].tolist()]]
        of_intercept = model.corner @ model.start
        gradient = model.gradient + model.follow.T @ of_intercept
        gradient -= np.repeat(self.ridge, free) * at.coef.ravel()
        slopes = gradient.reshape(-1, free)[columns]
        C = self.correlation[np.ix_(columns, columns)] + np.diag(self.ridge[columns])
        gain = float(np.vdot(slopes, np.linalg.lstsq(C, slopes)[0]))
        if self.has_intercept:
            gain += float(of_intercept @ of_intercept)
        return gain * self.weight <= FLAT * self.bounded_weight * self.null_deviance

    def columns(self, groups: Sequence[int]) -> Index:
        """Return the columns of some groups, in their order."""
        return np.concatenate([np.empty(0, np.intp), *(self.members[group] for group in groups)])

    def wide(self, columns: Index) -> Index:
        """Return the positions of the P coefficients of some columns in the linear problem."""
        return np.asarray((columns[:, None] * self.free + np.arange(self.free)).ravel())


@dataclass(frozen=True, eq=False)
class GlmFit:
    """The best coefficients on some groups, as far as passes have shown."""

    groups: list[int]  # the selected groups, in the order taken
    point: Coefficients  # the coefficients
    deviance: float  # at the point
    explained: float  # decrease of the penalised deviance, as a share of the null deviance
    status: Status  # how the fit ended
    # base, model: coefficients of the last pass used, and the expansion there
    base: Coefficients
    model: Expansion
    state: LinearState  # the linear problem near `base`, the groups selected
    dependent: frozenset[int] = frozenset()  # coefficients of columns that depend on others: 0
    # largest violation of the optimality conditions under signs, in correlations; None without
    violation: float | None = None


@dataclass(frozen=True, eq=False)
class PassRequest:
    """A request for an expansion from a pass."""

    point: Coefficients  # coefficients
    # columns of the expansion, at least all with coefficients that are not 0; None = all D
    columns: Index | None = None
    explained: float = 0.0  # share explained without this step
    expected: float = np.inf  # predicted decrease, if the quadratic model can be trusted
    is_trial: bool = False  # whether the point may be so far out that sums overflow


#: A running fit: yields requests for passes and receives expansions.
Fitting = Generator[PassRequest, Expansion, GlmFit]
#: Makes one pass for all requests.
Read = Callable[[Sequence[PassRequest]], list[Expansion]]


def start(problem: GlmProblem, point: Coefficients, model: Expansion) -> GlmFit:
    """Return the fit of the null model."""
    state = problem.state(point, model, [])
    return GlmFit([], point, model.deviance, 0.0, Status.CONVERGED, point, model, state)


def extended(
    problem: GlmProblem, fit: GlmFit, groups: Sequence[int], *, alone: bool = False
) -> Fitting:
    """Fit again with more groups; `alone` omits other groups from the expansions."""
    held = [*fit.groups, *groups]
    state = fit.state.copy()
    state.add_all(groups)
    if not problem.dependent(held).issubset(state.aliased):
        state = problem.state(fit.base, fit.model, held)
    columns = problem.columns(held) if alone else None
    return (yield from NewtonRun(problem, held, columns, fit.base, fit.model, state).run())


def reduced(problem: GlmProblem, fit: GlmFit, group: int, *, alone: bool = False) -> Fitting:
    """Fit again without a group, starting at the minimum of the quadratic model."""
    held = [other for other in fit.groups if other != group]
    columns = problem.columns(held) if alone else None
    return (yield from _descent(problem, held, columns, _without(problem, fit, group)))


def fitted_again(problem: GlmProblem, fit: GlmFit) -> Fitting:
    """Fit the same groups again, starting at a fit of another family."""
    return (yield from _descent(problem, fit.groups, problem.columns(fit.groups), fit.point))


def _descent(
    problem: GlmProblem, held: list[int], columns: Index | None, point: Coefficients
) -> Fitting:
    """Fit some groups from a point whose expansion needs a pass."""
    model = yield PassRequest(point, columns)
    state = problem.state(point, model, held)
    return (yield from NewtonRun(problem, held, columns, point, model, state).run())


@dataclass(eq=False)
class NewtonRun:
    """Newton steps on the selected groups, from a point with its expansion."""

    problem: GlmProblem
    held: list[int]
    columns: Index | None  # as in `PassRequest`
    # base, model, state: the current point, with its expansion and its linear problem
    base: Coefficients
    model: Expansion
    state: LinearState

    def run(self) -> Fitting:
        """Take steps until the fit ends."""
        problem = self.problem
        before = foreseen = np.inf
        secants: list[Secant] = []
        for _ in range(problem.max_iter):
            step, predicted = self._next_step(secants)
            length = problem.length(step.coef)
            if _is_last(problem, predicted, length, before):
                return (yield from self._closed(step, predicted))
            # Below the digits of the deviance the length of a step is rounding.
            least = max(STEADY_SHARE * foreseen, HIDDEN_SHARE)
            is_steady = least < predicted < SEPARATION_SHARE
            falls = predicted * before**2 < WANING * foreseen * length**2
            wanes = falls and length > AS_LONG * before
            if wanes and is_steady and (yield from self._is_endless(step)):
                return self.ended(Status.SEPARATED)
            # What is left to gain has a bound once steps become shorter, as near a minimum. With
            # other links the deviance need not be convex, and there is no bound before the end.
            near = problem.is_canonical and length <= TOO_LONG * before < np.inf
            taken_step = yield from self._shortened(step, predicted, predicted if near else np.inf)
            if taken_step is None and predicted <= HIDDEN_SHARE:
                # Below the digits of the deviance no step can be seen to decrease it.
                return (yield from self._closed(step, predicted))
            if taken_step is None:
                return self.ended(Status.STALLED)
            taken, point, answer = taken_step
            if not problem.is_canonical:
                last = secant(self.model, answer, taken)
                if WANING * last.before < last.after < last.before / WANING:
                    secants.append(last)
                else:
                    secants.clear()  # secants of another curvature are out of date
            self.base, self.model = point, answer
            self.state = problem.state(point, answer, self.held)
            longest, before, foreseen = TOO_LONG * before, length, predicted
        # Certain rows keep a least weight, so that steps may become shorter in the end.
        late = length > longest and predicted < LIMIT_SHARE
        if (wanes or late) and (yield from self._is_endless(step)):
            return self.ended(Status.SEPARATED)
        return self.ended(Status.LIMIT)

    def _closed(self, step: Coefficients, predicted: float) -> Fitting:
        """End with a last step."""
        problem = self.problem
        if not problem.dependent(self.held).issuperset(self.state.aliased):
            return self.ended(Status.STALLED)
        if problem.bounded_weight is None:
            return self.ended(step, predicted)
        if predicted > ROUNDING_SHARE:
            taken_step = yield from self._shortened(step, predicted, predicted)
            if taken_step is not None:
                _, self.base, self.model = taken_step
                self.state = problem.state(self.base, self.model, self.held)
        flat = problem.is_flat(self.base, self.model, self.held)
        return self.ended(Status.CONVERGED if flat else Status.STALLED)

    def _next_step(self, secants: Sequence[Secant]) -> tuple[Coefficients, float]:
        """Return a step and its predicted decrease, as a share of the null deviance."""
        problem = self.problem
        if secants:
            free = problem.free
            ridge = np.concatenate([np.zeros(free), np.repeat(problem.ridge, free)])
            fixed = np.arange(free if problem.has_intercept else 0)
            used = np.concatenate([fixed, free + np.array(self.state.support, dtype=np.intp)])
            result = secant_step(self.model, self.base, ridge, used, secants)
            if result is not None:
                return result[0], result[1] * problem.weight / problem.null_deviance
        step = _step(problem, self.model, self.state)
        return step, problem.predicted(self.model, self.state)

    def _objective(self, point: Coefficients, model: Expansion) -> float:
        """Return the penalised deviance at a point."""
        return model.deviance + self.problem.penalty(point)

    def _is_endless(self, step: Coefficients) -> Generator[PassRequest, Expansion, bool]:
        """Whether the objective is no higher far out along a step: it has no minimum near."""
        if (self.problem.ridge > 0).all():
            return False  # there is a minimum, perhaps far out
        objective = self._objective(self.base, self.model)
        point = _moved(self.base, step, FAR_OUT)
        share = 1.0 - objective / self.problem.null_deviance
        model = yield PassRequest(point, self.columns, share, is_trial=True)
        return bool(self._objective(point, model) <= objective)

    def _shortened(
        self, step: Coefficients, predicted: float, expected: float
    ) -> Generator[PassRequest, Expansion, tuple[Coefficients, Coefficients, Expansion] | None]:
        """Halve a step until the objective decreases; return the part taken, point and model."""
        objective = self._objective(self.base, self.model)
        explained = 1.0 - objective / self.problem.null_deviance
        # No step can explain more than is unexplained.
        whole = min(1.0, (1.0 - explained) / predicted)
        for halvings in range(HALVINGS + 1):
            share = whole * 0.5**halvings
            point = _moved(self.base, step, share)
            model = yield PassRequest(point, self.columns, explained, expected, is_trial=True)
            rise = self._objective(point, model) - objective
            if rise <= ROUNDING_SHARE * self.problem.null_deviance:
                return Coefficients(share * step.intercept, share * step.coef), point, model
        return None

    def ended(self, end: Coefficients | Status, predicted: float = 0.0) -> GlmFit:
        """Return the fit that ends with a step and its predicted decrease, or with a status."""
        point, status = self.base, Status.CONVERGED
        if isinstance(end, Coefficients):
            point = _moved(self.base, end, 1.0)
        else:
            status = end
        problem, model = self.problem, self.model
        objective = self._objective(self.base, model) - predicted * problem.null_deviance
        # The deviance of an exact fit is rounding, of either sign.
        deviance = max(objective - problem.penalty(point), 0.0)
        objective = deviance + problem.penalty(point)
        explained = 1.0 - objective / problem.null_deviance
        state = self.state
        dependent = problem.dependent(self.held)
        return GlmFit(
            self.held, point, deviance, explained, status, self.base, model, state, dependent
        )


def solved(fittings: Sequence[Fitting], read: Read) -> list[GlmFit]:
    """Run several fits side by side, so that a pass serves all of them."""
    fits = _run(fittings, read, lambda requests, fits: [])
    return [fits[number] for number in range(len(fittings))]


def best_of(
    fittings: Sequence[Fitting], read: Read, score: Callable[[int, float], float]
) -> tuple[dict[int, GlmFit], Vector]:
    """Run fits until that of the largest score ends; return ended fits, and explained shares."""
    explained = np.zeros(len(fittings))

    def hopeless(requests: dict[int, PassRequest], fits: dict[int, GlmFit]) -> list[int]:
        for number, request in requests.items():
            explained[number] = request.explained
        for number, fit in fits.items():
            explained[number] = fit.explained
        reached = max(score(number, explained[number]) for number in (*requests, *fits))
        return [
            number
            for number, request in requests.items()
            if score(number, request.explained + MOST_LEFT * request.expected) < reached
        ]

    fits = _run(fittings, read, hopeless)
    for number, fit in fits.items():
        explained[number] = fit.explained
    return fits, explained


def _run(
    fittings: Sequence[Fitting],
    read: Read,
    hopeless: Callable[[dict[int, PassRequest], dict[int, GlmFit]], list[int]],
) -> dict[int, GlmFit]:
    """Make passes until all fits have ended, without the hopeless ones."""
    fits: dict[int, GlmFit] = {}
    pending: dict[int, PassRequest] = {}

    def proceed(number: int, model: Expansion | None) -> None:
        try:
            fitting = fittings[number]
            pending[number] = next(fitting) if model is None else fitting.send(model)
        except StopIteration as end:
            fits[number] = end.value

    for number in range(len(fittings)):
        proceed(number, None)
    while True:
        for number in hopeless(pending, fits) if pending else []:
            del pending[number]
        if not pending:
            return fits
        numbers, requests = list(pending), list(pending.values())
        pending.clear()
        for number, model in zip(numbers, read(requests), strict=True):
            proceed(number, model)


def _step(problem: GlmProblem, model: Expansion, state: LinearState) -> Coefficients:
    """Return the Newton step on the selected groups."""
    flat = state.coef() * problem.scale
    return Coefficients(model.start - model.follow @ flat, flat.reshape(-1, problem.free))


def _without(problem: GlmProblem, fit: GlmFit, group: int) -> Coefficients:
    """Return the minimum of the quadratic model with the coefficients of a group at 0."""
    base, model, rows = fit.base, fit.model, fit.state.support
    coef = (base.coef + _step(problem, model, fit.state).coef).ravel()
    local = fit.state.problem
    inverse = np.linalg.inv(local.G[np.ix_(rows, rows)] + np.diag(local.ridge[rows]))
    removed = problem.wide(problem.members[group])
    at = np.isin(rows, removed)
    coef[rows] -= inverse[:, at] @ np.linalg.solve(inverse[np.ix_(at, at)], coef[rows][at])
    coef[removed] = 0.0
    change = coef - base.coef.ravel()
    intercept = base.intercept + model.start - model.follow @ change
    return Coefficients(intercept, coef.reshape(base.coef.shape))


def _is_last(problem: GlmProblem, predicted: float, length: float, before: float) -> bool:
    if problem.exact or predicted <= ROUNDING_SHARE:
        return True
    return predicted <= problem.tol and (np.isinf(before) or length <= TOO_LONG * before)


def _moved(base: Coefficients, step: Coefficients, share: float) -> Coefficients:
    return Coefficients(base.intercept + share * step.intercept, base.coef + share * step.coef)


def completed(problem: GlmProblem, fit: GlmFit, read: Read) -> GlmFit:
    """Return a fit with an expansion for all groups, by one pass."""
    (model,) = read([PassRequest(fit.point)])
    state = problem.state(fit.point, model, fit.groups)
    return NewtonRun(problem, fit.groups, None, fit.point, model, state).ended(fit.status)
