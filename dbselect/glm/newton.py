"""Generalised linear models, group by group, when the rows are seen only in passes.

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

By links that are not the canonical one the expected information is not the curvature, and steps are
by the curvature that the gradients of the passes show (`glm.expansion`).

A step that does not decrease the objective is halved. The last step is taken without a pass, as its
error is of the order of its square; where not every predictor has a mean, a pass sees it, and a fit
has converged only where the gradient vanishes as well: near the last mean allowed an information
without bound makes every step short. Which columns depend on others is known from the columns and
the row weights alone, whatever a pass finds; where the information of the last pass lacks more of
them, nothing is said of a minimum. Steps that hardly decrease the objective but become no shorter,
with no rise far out along them, are endless: columns determine the target of some rows. O(T D^2 n)
a pass for T pairs, O(D^3 P^3) between passes, 16 (D P)^2 bytes, P predictors.

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
#: Length of a step, as a share of the one before, above which it is as long.
AS_LONG = 0.9
#: What a step towards infinity predicts, at least, as a share of what the one before did: that
#: falls by e. Near a minimum a step may be as long as the one before where the intercept settled.
STEADY_SHARE = 0.05
#: The same, above which a step is too long to be the last: quadratic convergence makes the
#: last one far shorter than the one before.
TOO_LONG = 0.3
#: Curvature along a step, as a share of that along the one before, below which it is on its way to
#: nothing, as it is on the way to infinity; near a minimum it stays what it is.
WANING = 0.7
#: Steps out at which the objective is higher, if there is a minimum near.
FAR_OUT = 8.0
#: Halvings of a step before it is given up: then it is a thousandth.
HALVINGS = 10
#: What a step must predict for its decrease to exceed the rounding of a sum over rows.
HIDDEN_SHARE = 1e-12
#: What a step by the information of the model without columns may gain at a minimum, as a share of
#: the null deviance.
FLAT = 1e-8
#: More than all that is left to gain, as a multiple of what the next step predicts, once steps
#: become shorter by `TOO_LONG`.
MOST_LEFT = 4.0


class Status(Enum):
    """How a fit ended."""

    CONVERGED = "converged"
    SEPARATED = "separated: some columns determine the target of some rows"
    LIMIT = "max_iter was reached"
    STALLED = "no part of a step decreased the deviance"


@dataclass(frozen=True, eq=False)
class GlmProblem:
    """What does not change from pass to pass."""

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
    # the mean weight of a row in the model without columns, where not every predictor has a mean
    bounded_weight: float | None = None
    _dependent: dict[tuple[int, ...], frozenset[int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def penalty(self, point: Coefficients) -> float:
        """Return what the ridge adds to the deviance."""
        return float(self.weight * self.ridge @ (point.coef**2).sum(axis=1))

    def length(self, coef: Matrix) -> float:
        """Return the standard deviation of what coefficients add to the predictors."""
        return float(np.sqrt(max(np.sum(coef * (self.correlation @ coef)), 0.0)))

    def predicted(self, model: Expansion, state: LinearState) -> float:
        """Return what the next step should explain, as a share of the null deviance."""
        return state.explained + model.settled * self.weight / self.null_deviance

    @property
    def scale(self) -> float:
        """What a coefficient is in the units of the linear problem, per unit."""
        return float(np.sqrt(self.null_deviance / self.weight))

    def state(self, at: Coefficients, model: Expansion, groups: Sequence[int]) -> LinearState:
        """Return the linear problem near a point, with some groups selected."""
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
        dependent = self.dependent(groups)
        if dependent.issubset(state.aliased):
            return state
        constant = local.constant.copy()
        constant[list(dependent)] = True
        state = LinearState(replace(local, constant=constant), members)
        state.add_all(groups)
        return state

    def dependent(self, groups: Sequence[int]) -> frozenset[int]:
        """Return the coefficients of columns that depend on those before them in some groups."""
        key = tuple(groups)
        if key not in self._dependent:
            columns = self.columns(groups)
            none = np.zeros(len(columns))
            own = Linear(
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
            state = LinearState(own, [np.arange(len(columns))])
            if len(columns):
                state.add(0)
            self._dependent[key] = frozenset(self.wide(columns[state.aliased]).tolist())
        return self._dependent[key]

    def is_flat(self, at: Coefficients, model: Expansion, groups: Sequence[int]) -> bool:
        """Whether the gradient vanishes, where an information without bound may hide it."""
        if self.bounded_weight is None:
            return True
        columns = self.columns(groups)
        wide, free = self.wide(columns), self.free
        dependent = self.dependent(groups)
        columns = columns[[j not in dependent for j in wide[::free].tolist()]]
        of_intercept = model.corner @ model.start
        gradient = model.gradient + model.follow.T @ of_intercept
        gradient -= np.repeat(self.ridge, free) * at.coef.ravel()
        own = gradient.reshape(-1, free)[columns]
        C = self.correlation[np.ix_(columns, columns)] + np.diag(self.ridge[columns])
        gain = float(np.vdot(own, np.linalg.lstsq(C, own)[0]))
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


@dataclass(frozen=True, eq=False)
class Ask:
    """A request for a quadratic model from a pass."""

    point: Coefficients  # coefficients
    # those of the model, at least all whose coefficients are not 0; None = all D
    columns: Index | None = None
    sure: float = 0.0  # what the fit explains without this step
    hoped: float = np.inf  # what the step should explain, where the quadratic model can be trusted
    is_trial: bool = False  # whether the point may be so far that nothing can be summed there


#: A fit under way: yields what it needs of a pass and receives the expansion.
Fitting = Generator[Ask, Expansion, GlmFit]
#: Makes one pass that answers all that is asked.
Read = Callable[[Sequence[Ask]], list[Expansion]]


def start(problem: GlmProblem, point: Coefficients, model: Expansion) -> GlmFit:
    """Return the model without columns."""
    state = problem.state(point, model, [])
    return GlmFit([], point, model.deviance, 0.0, Status.CONVERGED, point, model, state)


def extended(
    problem: GlmProblem, fit: GlmFit, groups: Sequence[int], *, alone: bool = False
) -> Fitting:
    """Fit again with more groups; after passes `alone` nothing is known about other groups."""
    held = [*fit.groups, *groups]
    state = fit.state.copy()
    state.add_all(groups)
    if not problem.dependent(held).issubset(state.aliased):
        state = problem.state(fit.base, fit.model, held)
    columns = problem.columns(held) if alone else None
    return (yield from _Descent(problem, held, columns, fit.base, fit.model, state).run())


def reduced(problem: GlmProblem, fit: GlmFit, group: int, *, alone: bool = False) -> Fitting:
    """Fit again without a group, from where the quadratic model sees the minimum."""
    held = [other for other in fit.groups if other != group]
    columns = problem.columns(held) if alone else None
    return (yield from _descent(problem, held, columns, _without(problem, fit, group)))


def fitted_again(problem: GlmProblem, fit: GlmFit) -> Fitting:
    """Fit the same groups again, from where a fit of another family ended."""
    return (yield from _descent(problem, fit.groups, problem.columns(fit.groups), fit.point))


def _descent(
    problem: GlmProblem, held: list[int], columns: Index | None, point: Coefficients
) -> Fitting:
    """Fit some groups from a point of which nothing is known."""
    model = yield Ask(point, columns)
    state = problem.state(point, model, held)
    return (yield from _Descent(problem, held, columns, point, model, state).run())


@dataclass(eq=False)
class _Descent:
    """Newton steps on the groups held, from where a quadratic model is known."""

    problem: GlmProblem
    held: list[int]
    columns: Index | None  # as of `Ask`
    # base, model, state: where it is, and the expansion and the linear problem there
    base: Coefficients
    model: Expansion
    state: LinearState

    def run(self) -> Fitting:
        """Take steps to the end."""
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
            # What a step leaves is known once steps become shorter, as those near a minimum do. By
            # other links the deviance need not be convex, and nothing is known before the end.
            near = problem.is_canonical and length <= TOO_LONG * before < np.inf
            found = yield from self._shortened(step, predicted, predicted if near else np.inf)
            if found is None and predicted <= HIDDEN_SHARE:
                # Below the digits of the deviance no step can be seen to decrease it.
                return (yield from self._closed(step, predicted))
            if found is None:
                return self.ended(Status.STALLED)
            taken, point, answer = found
            if not problem.is_canonical:
                last = secant(self.model, answer, taken)
                if WANING * last.before < last.after < last.before / WANING:
                    secants.append(last)
                else:
                    secants.clear()  # what is shown of another curvature is out of date
            self.base, self.model = point, answer
            self.state = problem.state(point, answer, self.held)
            longest, before, foreseen = TOO_LONG * before, length, predicted
        # Rows that are certain keep a least weight, so that steps may become shorter at last.
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
            found = yield from self._shortened(step, predicted, predicted)
            if found is not None:
                _, self.base, self.model = found
                self.state = problem.state(self.base, self.model, self.held)
        flat = problem.is_flat(self.base, self.model, self.held)
        return self.ended(Status.CONVERGED if flat else Status.STALLED)

    def _next_step(self, secants: Sequence[Secant]) -> tuple[Coefficients, float]:
        """Return a step, and what it should explain, as a share of the null deviance."""
        problem = self.problem
        if secants:
            free = problem.free
            ridge = np.concatenate([np.zeros(free), np.repeat(problem.ridge, free)])
            fixed = np.arange(free if problem.has_intercept else 0)
            used = np.concatenate([fixed, free + np.array(self.state.support, dtype=np.intp)])
            found = secant_step(self.model, self.base, ridge, used, secants)
            if found is not None:
                return found[0], found[1] * problem.weight / problem.null_deviance
        step = _step(problem, self.model, self.state)
        return step, problem.predicted(self.model, self.state)

    def _objective(self, point: Coefficients, model: Expansion) -> float:
        """Return the penalised deviance at a point."""
        return model.deviance + self.problem.penalty(point)

    def _is_endless(self, step: Coefficients) -> Generator[Ask, Expansion, bool]:
        """Whether the objective is no higher far out along a step: it has no minimum near."""
        if (self.problem.ridge > 0).all():
            return False  # there is one, far out as it may lie
        known = self._objective(self.base, self.model)
        point = _moved(self.base, step, FAR_OUT)
        share = 1.0 - known / self.problem.null_deviance
        answer = yield Ask(point, self.columns, share, is_trial=True)
        return bool(self._objective(point, answer) <= known)

    def _shortened(
        self, step: Coefficients, predicted: float, hoped: float
    ) -> Generator[Ask, Expansion, tuple[Coefficients, Coefficients, Expansion] | None]:
        """Halve a step until the objective decreases; return the part taken, point and model."""
        known = self._objective(self.base, self.model)
        sure = 1.0 - known / self.problem.null_deviance
        # No step explains more than is left.
        whole = min(1.0, (1.0 - sure) / predicted)
        for halvings in range(HALVINGS + 1):
            share = whole * 0.5**halvings
            point = _moved(self.base, step, share)
            answer = yield Ask(point, self.columns, sure, hoped, is_trial=True)
            rise = self._objective(point, answer) - known
            if rise <= ROUNDING_SHARE * self.problem.null_deviance:
                return Coefficients(share * step.intercept, share * step.coef), point, answer
        return None

    def ended(self, end: Coefficients | Status, predicted: float = 0.0) -> GlmFit:
        """Return the fit that ends with a step that predicts a decrease, or for a reason."""
        point, status = self.base, Status.CONVERGED
        if isinstance(end, Coefficients):
            point = _moved(self.base, end, 1.0)
        else:
            status = end
        problem, model = self.problem, self.model
        objective = self._objective(self.base, model) - predicted * problem.null_deviance
        # Of an exact fit rounding is all that is left, of either sign.
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
    fits = _run(fittings, read, lambda asked, fits: [])
    return [fits[number] for number in range(len(fittings))]


def best_of(
    fittings: Sequence[Fitting], read: Read, score: Callable[[int, float], float]
) -> tuple[dict[int, GlmFit], Vector]:
    """Run fits until that of most `score` is done; return those kept, and what each explained."""
    explained = np.zeros(len(fittings))

    def hopeless(asked: dict[int, Ask], fits: dict[int, GlmFit]) -> list[int]:
        for number, ask in asked.items():
            explained[number] = ask.sure
        for number, fit in fits.items():
            explained[number] = fit.explained
        reached = max(score(number, explained[number]) for number in (*asked, *fits))
        return [
            number
            for number, ask in asked.items()
            if score(number, ask.sure + MOST_LEFT * ask.hoped) < reached
        ]

    fits = _run(fittings, read, hopeless)
    for number, fit in fits.items():
        explained[number] = fit.explained
    return fits, explained


def _run(
    fittings: Sequence[Fitting],
    read: Read,
    hopeless: Callable[[dict[int, Ask], dict[int, GlmFit]], list[int]],
) -> dict[int, GlmFit]:
    """Make passes until all fits have ended that are not hopeless."""
    fits: dict[int, GlmFit] = {}
    asked: dict[int, Ask] = {}

    def proceed(number: int, answer: Expansion | None) -> None:
        try:
            fitting = fittings[number]
            asked[number] = next(fitting) if answer is None else fitting.send(answer)
        except StopIteration as end:
            fits[number] = end.value

    for number in range(len(fittings)):
        proceed(number, None)
    while True:
        for number in hopeless(asked, fits) if asked else []:
            del asked[number]
        if not asked:
            return fits
        numbers, asks = list(asked), list(asked.values())
        asked.clear()
        for number, answer in zip(numbers, read(asks), strict=True):
            proceed(number, answer)


def _step(problem: GlmProblem, model: Expansion, state: LinearState) -> Coefficients:
    """Return the Newton step on the selected groups."""
    flat = state.coef() * problem.scale
    return Coefficients(model.start - model.follow @ flat, flat.reshape(-1, problem.free))


def _without(problem: GlmProblem, fit: GlmFit, group: int) -> Coefficients:
    """Return where the quadratic model is least while a group has the coefficients 0."""
    base, model, rows = fit.base, fit.model, fit.state.support
    coef = (base.coef + _step(problem, model, fit.state).coef).ravel()
    local = fit.state.problem
    inverse = np.linalg.inv(local.G[np.ix_(rows, rows)] + np.diag(local.ridge[rows]))
    gone = problem.wide(problem.members[group])
    out = np.isin(rows, gone)
    coef[rows] -= inverse[:, out] @ np.linalg.solve(inverse[np.ix_(out, out)], coef[rows][out])
    coef[gone] = 0.0
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
    """Return a fit whose expansion has all groups, from one that lacks some."""
    (model,) = read([Ask(fit.point)])
    state = problem.state(fit.point, model, fit.groups)
    return _Descent(problem, fit.groups, None, fit.point, model, state).ended(fit.status)
