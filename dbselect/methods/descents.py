"""The descent of SGHT (Xiang, Yang, Ye 2014) on a Gram or of a family, and its model."""

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError, ConvergenceWarning, warn_caller
from dbselect.glm.expansion import Coefficients
from dbselect.glm.newton import GlmFit, extended, solved
from dbselect.glm.newton import start as start_fit
from dbselect.glm.refits import InMemory
from dbselect.glm.state import Slope
from dbselect.linear.condition import check_held, warn_of, warn_of_dropped
from dbselect.linear.state import LinearState
from dbselect.objectives.smooth import Point
from dbselect.options.kinds import one_of
from dbselect.options.names import StartName
from dbselect.options.option import options_of
from dbselect.record.dependences import shares_of
from dbselect.record.gram import Matrix, Vector
from dbselect.record.groups import Groups
from dbselect.record.policies import clip_share
from dbselect.results.glm.build import model_of, warn_of_fit
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import JointModel, Model
from dbselect.results.selected import AnyModel
from dbselect.search.compiled import compiled_descent
from dbselect.search.gram import GramSearch
from dbselect.search.rows import GlmObjective, RowSearch, refitted
from dbselect.selection.descent import (
    OWN_START,
    STARTS,
    VARIANTS,
    Descent,
    Settings,
    descend,
    lengths,
    restricted,
)
from dbselect.selection.exchange import LEAST_RISE
from dbselect.selection.layout import Layout
from dbselect.selection.projection import project
from dbselect.selection.ties import levelled
from dbselect.spec.options import DescentOptions

#: Share of the null deviance that a step of the intercept may explain without being taken:
#: what is then counted errs by less than the power 3/2 of that.
SETTLED = 1e-9
#: Steps of the intercept, halved ones included, before it is taken as it is.
INTERCEPT_STEPS = 50
#: How much larger a curvature may become than at the model without columns: that of a
#: count grows with its mean.
STEEPER = 1e6


class Deviance:
    """The deviance of a family with P free predictors, which `refits` compute."""

    def __init__(self, refits: InMemory, null: GlmFit) -> None:
        self._refits = refits
        self._problem = problem = refits.problem
        self._intercept = null.point.intercept
        self.unit = problem.scale / np.sqrt(np.trace(null.model.corner) / problem.free)
        self.G: Matrix = problem.correlation
        self.ceiling = STEEPER * len(self.G)
        self.c: Vector = -self.at(np.zeros((problem.free, len(self.G)))).gradient

    def at(self, x: Vector) -> Point:
        """Return f and its gradient, shape (P, D)."""
        point, slope = self._settled(self.unit * x.T)
        problem = self._problem
        objective = slope.deviance - problem.weight * slope.settled + problem.penalty(point)
        gradient = slope.gradient - problem.ridge[:, None] * point.coef
        value = 0.5 * (objective / problem.null_deviance - 1.0)
        own = -gradient.T * (self.unit / problem.scale**2)
        return Point(x, value, lambda: own)

    def bregman(self, u: Point, after: Point) -> float:
        """Return the Bregman divergence: how far f at a point lies above its tangent at u."""
        return float(after.value - u.value - np.vdot(u.gradient, after.x - u.x))

    def point(self, x: Vector) -> tuple[Coefficients, float]:
        """Return the coefficients of a model on unit-variance columns, and its deviance."""
        point, slope = self._settled(self.unit * x.T)
        deviance = slope.deviance - self._problem.weight * slope.settled
        return Coefficients(point.intercept + slope.start, point.coef), deviance

    def _settled(self, coef: Matrix) -> tuple[Coefficients, Slope]:
        """Return the point with the best intercept, and what is known there."""
        problem, refits = self._problem, self._refits
        intercept, step = self._intercept, np.zeros(problem.free)
        slope = refits.rows.slope(Coefficients(intercept, coef))
        for _ in range(INTERCEPT_STEPS):
            if slope.settled * problem.weight <= SETTLED * problem.null_deviance:
                break
            step = slope.start if not step.any() else step
            after = refits.rows.slope(Coefficients(intercept + step, coef))
            if after.deviance <= slope.deviance:
                intercept, slope, step = intercept + step, after, np.zeros(problem.free)
            else:
                step = 0.5 * step
        self._intercept = intercept
        return Coefficients(intercept, coef), slope


def check_start(start: Any) -> None:
    """Refuse what no descent can start from."""
    if not isinstance(start, Mapping):
        one_of(StartName).check("start", start)


def descent_of(task: "DescentTask", limits: tuple[int, int], known: DescentOptions) -> Descent:
    """Descend within two limits, and polish by exchanges where that is cheap."""
    best = task.descend(limits, known)
    if not best.is_settled:
        warn_caller(
            f"the descent within {limits} had not converged after max_iter = "
            f"{known['max_iter']} steps; raise max_iter",
            ConvergenceWarning,
        )
    return best


def _of_record(search: GramSearch, limits: tuple[int, int], known: DescentOptions) -> Descent:
    options = {name: one for name, one in known.items() if name in options_of(DescentOptions)}
    if not isinstance(start := known["start"], str):
        if search.is_joint:
            raise ArgumentError("start is a mapping; of several responses it must be a name")
        x = _own_start(search.groups.members, start)
        options["start"] = {str(j): x[j] for j in np.flatnonzero(x)}
    return compiled_descent(search, limits, options)


def _of_family(
    objective: GlmObjective, deviance: Deviance, limits: tuple[int, int], known: DescentOptions
) -> Descent:
    settings = Settings(VARIANTS[known["variant"]], float(known["tol"]), int(known["max_iter"]))
    start = known["start"]
    sizes = [len(members) for members in objective.about.columns.values()]
    layout = Layout(None, np.cumsum([0, *sizes]))
    if isinstance(start, str):
        name: str = start
        starts = STARTS[name](deviance)
    else:
        name, starts = OWN_START, [_start_of_family(objective, deviance, start)]
    within = [restricted(x, project(levelled(lengths(x)), layout, *limits)) for x in starts]
    descents = [descend(deviance, layout, x, limits, settings) for x in within]
    least = min(descent.objective for descent in descents)
    # Of those that differ by rounding the first.
    lowest = next(each for each in descents if each.objective <= least + LEAST_RISE)
    return replace(lowest, start=name)


@dataclass(frozen=True)
class DescentTask:
    """The groups of some columns, how to descend, and who makes the model of a descent."""

    groups: Groups
    descend: Callable[[tuple[int, int], DescentOptions], Descent]
    model: Callable[[Descent], AnyModel]


def task_of(search: GramSearch | RowSearch, refit: bool) -> DescentTask:
    """Return how to descend for a search that is set up, and how its models are made."""
    # Partial functions have no frame, which a warning would point to.
    if isinstance(search, RowSearch):
        objective = search.state
        if objective.whole is not None and not refit:
            raise ArgumentError(
                f"refit is False; the search looks at {objective.whole.searched:,} rows, and "
                "coefficients are those of all: leave refit out, or give rows="
            )
        deviance = Deviance(objective.refits, objective.fit)
        return DescentTask(
            search.groups,
            partial(_of_family, objective, deviance),
            partial(_glm_model, objective, deviance, refit),
        )
    return DescentTask(
        search.groups,
        partial(_of_record, search),
        partial(_joint if search.is_joint else _model, search, refit),
    )


def _start_of_family(
    objective: GlmObjective, deviance: Deviance, given: Mapping[str, float]
) -> Vector:
    """Return coefficients of columns as they are in the units of the descent."""
    if objective.refits.problem.free > 1:
        raise ArgumentError("start is a mapping; with several classes it must be a name")
    x = _own_start(objective.about.members, given)
    return np.asarray(x * objective.data.spread / deviance.unit)[None]


def _own_start(columns: Sequence[str], given: Mapping[str, float]) -> Vector:
    """Return a start that is given by name as a vector of all columns."""
    x = np.zeros(len(columns))
    place = {column: j for j, column in enumerate(columns)}
    for column, value in given.items():
        if column not in place:
            raise ArgumentError(f"start has '{column}', which is in no group")
        if not (isinstance(value, numbers.Real) and math.isfinite(value)):
            raise ArgumentError(f"start of '{column}' is {value!r}; it must be a finite number")
        x[place[column]] = value
    return x


def groups_held(groups: Groups, columns: Iterable[str]) -> list[int]:
    """Return the numbers of the groups with a column that is kept."""
    kept = set(columns)
    return [i for i, members in enumerate(groups.columns.values()) if kept.intersection(members)]


def _glm_model(
    objective: GlmObjective, deviance: Deviance, refit: bool, descent: Descent
) -> GlmModel:
    at = np.flatnonzero(lengths(descent.x))
    groups, data, searched = objective.about, objective.data, None
    problem = replace(objective.refits.problem, members=[at])
    null = start_fit(problem, objective.fit.point, objective.fit.model)
    if refit and objective.whole is not None:
        (fit,), data, problem = refitted(objective.whole, groups, [[0]], [at])
        searched = objective.whole.searched
        warn_of_fit(data, fit)
    elif refit:
        (fit,) = solved([extended(problem, null, [0], alone=True)], objective.refits.rows.read)
        warn_of_fit(data, fit)
    else:
        point, value = deviance.point(descent.x)
        explained = 1.0 - (value + problem.penalty(point)) / problem.null_deviance
        fit = replace(null, groups=[0], point=point, deviance=value, explained=explained)
    columns = [groups.members[j] for j in at]
    held = groups_held(groups, columns)
    return model_of(
        data, problem, fit, columns, objective.call, groups=[groups.names[i] for i in held],
        spent=float(groups.costs[held].sum()), rows_searched=searched,
    )  # fmt: skip


def _model(search: GramSearch, refit: bool, descent: Descent) -> Model:
    """Return the model of one response, which the library answered."""
    if (found := descent.chosen) is None:
        raise TypeError("a descent of one response has a model")
    groups, members = search.groups, search.groups.members
    if refit:
        warn_of(found.condition)
        # Of columns that are not kept, too.
        state = LinearState(search.linear, [np.array(list(found.coefficients), np.intp)])
        state.add(0)
        warn_of_dropped(state, members)
    coefficients = {members[j]: value for j, value in found.coefficients.items()}
    is_choice = refit and 0 < len(coefficients) < len(members)
    return Model(
        target=search.target,
        intercept=found.intercept,
        coefficients=coefficients,
        groups=[groups.names[g] for g in found.groups],
        spent=groups.spent(found.groups),
        explained=float(clip_share(found.explained)),
        r2=float(clip_share(found.r2)),
        aliased=tuple(members[j] for j in found.aliased),
        rows=search.gram.rows,
        skipped=search.gram.skipped,
        terms=search.gram.terms.of(coefficients).with_shares(shares_of(search.gram)),
        call=search.call,
        fit=search.fitted_rows(is_choice) if refit else None,
    )


def _joint(search: GramSearch, refit: bool, descent: Descent) -> JointModel:
    members, x = search.groups.members, descent.x
    aliased: tuple[str, ...] = ()
    at = np.flatnonzero(lengths(x))
    if refit:
        state = LinearState(search.linear, [at])
        state.add(0)
        check_held(state, members)
        x, aliased = state.coef(), tuple(members[j] for j in state.aliased)
    held = groups_held(search.groups, [members[j] for j in at])
    fit = search.fitted_rows(0 < len(at) < len(members)) if refit else None
    x = x / np.sqrt(search.linear.share)[:, None]
    responses = {}
    for k, target in enumerate(search.call.problem.targets):
        own, kept = search.linear.response(k), x[k, at]
        left = own.G[np.ix_(at, at)] @ kept + own.ridge[at] * kept
        explained = float(clip_share(kept @ (2.0 * own.c[at] - left)))
        coef = x[k] * (own.target_spread / own.spread)
        parts = search.parts_of(target, own, coef, at, held, explained)
        responses[target] = Model(**parts, aliased=aliased, fit=fit)
    return JointModel(responses, search.linear.share)
