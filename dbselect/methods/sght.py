"""Selection by group hard thresholding (SGHT; Xiang, Yang, Ye 2014), linear or with a family."""

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np

from dbselect.errors import ArgumentError, ConvergenceWarning, warn_caller
from dbselect.glm.expansion import Coefficients
from dbselect.glm.newton import GlmFit, extended, solved
from dbselect.glm.newton import start as start_fit
from dbselect.glm.refits import InMemory
from dbselect.glm.state import Slope
from dbselect.linear.condition import check_held, warn_of, warn_of_dropped
from dbselect.linear.state import LinearState
from dbselect.options.kinds import one_of
from dbselect.options.names import StartName
from dbselect.options.option import options_of, shows
from dbselect.record.dependences import shares_of
from dbselect.record.gram import Matrix, Vector
from dbselect.record.groups import Groups
from dbselect.record.policies import clip_share
from dbselect.results.glm.build import model_of, warn_of_fit
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import JointModel, Model
from dbselect.results.selected import AnyModel, Convergence, Selected
from dbselect.search.compiled import compiled_descent
from dbselect.search.gram import GramSearch
from dbselect.search.open import asked, open_search
from dbselect.search.rows import GlmObjective, RowSearch, refitted
from dbselect.selection.descent import (
    OWN_START,
    STARTS,
    VARIANTS,
    Descent,
    Point,
    Settings,
    descend,
    lengths,
    restricted,
)
from dbselect.selection.exchange import LEAST_RISE
from dbselect.selection.moves import levelled
from dbselect.selection.projection import Layout, check_limit, project
from dbselect.spec.options import DescentOptions, SghtOptions
from dbselect.spec.spec import Spec

#: Stop when the next step of the intercept would lower the deviance by less than this share of
#: the null deviance: the error of the predicted decrease is of the power 3/2 of it.
SETTLED = 1e-9
#: Largest number of steps of the intercept, including halved ones.
INTERCEPT_STEPS = 50
#: Limit on the curvature, relative to the null model: the curvature of a count grows with its
#: mean.
STEEPER = 1e6


class Deviance:
    """The deviance of a family with P free predictors, computed by `refits`."""

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
        scaled = -gradient.T * (self.unit / problem.scale**2)
        return Point(x, value, lambda: scaled)

    def bregman(self, u: Point, after: Point) -> float:
        """Return the Bregman divergence: f at a point minus its tangent at u."""
        return float(after.value - u.value - np.vdot(u.gradient, after.x - u.x))

    def point(self, x: Vector) -> tuple[Coefficients, float]:
        """Return the coefficients of a model on unit-variance columns, and its deviance."""
        point, slope = self._settled(self.unit * x.T)
        deviance = slope.deviance - self._problem.weight * slope.settled
        return Coefficients(point.intercept + slope.start, point.coef), deviance

    def _settled(self, coef: Matrix) -> tuple[Coefficients, Slope]:
        """Return the point with the best intercept, and the slope there."""
        problem, refits = self._problem, self._refits
        intercept, step = self._intercept, np.zeros(problem.free)
        slope = refits.rows.slope(Coefficients(intercept, coef))
        for _ in range(INTERCEPT_STEPS):
            if slope.settled * problem.weight <= SETTLED * problem.null_deviance:
                break
            step = slope.start if not step.any() else step
            next_slope = refits.rows.slope(Coefficients(intercept + step, coef))
            if next_slope.deviance <= slope.deviance:
                intercept, slope, step = intercept + step, next_slope, np.zeros(problem.free)
            else:
                step = 0.5 * step
        self._intercept = intercept
        return Coefficients(intercept, coef), slope


def descent_of(task: "DescentTask", limits: tuple[int, int], options: DescentOptions) -> Descent:
    """Descend within two limits; warn if the descent has not converged."""
    descent = task.descend(limits, options)
    if not descent.is_settled:
        warn_caller(
            f"the descent within {limits} had not converged after max_iter = "
            f"{options['max_iter']} steps; raise max_iter",
            ConvergenceWarning,
        )
    return descent


def _of_record(search: GramSearch, limits: tuple[int, int], options: DescentOptions) -> Descent:
    passed = {name: v for name, v in options.items() if name in options_of(DescentOptions)}
    if not isinstance(start := options["start"], str):
        if search.is_joint:
            raise ArgumentError("start is a mapping; of several responses it must be a name")
        x = _own_start(search.groups.members, start)
        passed["start"] = {str(j): x[j] for j in np.flatnonzero(x)}
    return compiled_descent(search, limits, passed)


def _of_family(
    objective: GlmObjective, deviance: Deviance, limits: tuple[int, int], options: DescentOptions
) -> Descent:
    start, tol, max_iter = options["start"], float(options["tol"]), int(options["max_iter"])
    settings = Settings(VARIANTS[options["variant"]], tol, max_iter)
    sizes = [len(members) for members in objective.about.columns.values()]
    layout = Layout(None, np.cumsum([0, *sizes]))
    if isinstance(start, str):
        name: str = start
        starts = STARTS[name](deviance)
    else:
        name, starts = OWN_START, [_start_of_family(objective, deviance, start)]
    projected = [restricted(x, project(levelled(lengths(x)), layout, *limits)) for x in starts]
    descents = [descend(deviance, layout, x, limits, settings) for x in projected]
    least = min(descent.objective for descent in descents)
    # Among descents that differ only by rounding, take the first.
    best = next(descent for descent in descents if descent.objective <= least + LEAST_RISE)
    return replace(best, start=name)


@dataclass(frozen=True)
class DescentTask:
    """The groups, the function that descends, and the one that builds the model."""

    groups: Groups
    descend: Callable[[tuple[int, int], DescentOptions], Descent]
    model: Callable[[Descent], AnyModel]


def task_of(search: GramSearch | RowSearch, refit: bool) -> DescentTask:
    """Return the descent and model functions of an open search."""
    # Partial functions have no frame of their own, so that warnings point to the caller.
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
    objective: GlmObjective, deviance: Deviance, start: Mapping[str, float]
) -> Vector:
    """Convert start coefficients of the columns to the units of the descent."""
    if objective.refits.problem.free > 1:
        raise ArgumentError("start is a mapping; with several classes it must be a name")
    x = _own_start(objective.about.members, start)
    return np.asarray(x * objective.data.spread / deviance.unit)[None]


def _own_start(columns: Sequence[str], start: Mapping[str, float]) -> Vector:
    """Return the start, given by name, as a vector over all columns."""
    x = np.zeros(len(columns))
    position = {column: j for j, column in enumerate(columns)}
    for column, value in start.items():
        if column not in position:
            raise ArgumentError(f"start has '{column}', which is in no group")
        if not (isinstance(value, numbers.Real) and math.isfinite(value)):
            raise ArgumentError(f"start of '{column}' is {value!r}; it must be a finite number")
        x[position[column]] = value
    return x


def groups_held(groups: Groups, columns: Iterable[str]) -> list[int]:
    """Return the numbers of the groups with a kept column."""
    kept = set(columns)
    return [i for i, members in enumerate(groups.columns.values()) if kept.intersection(members)]


def _glm_model(
    objective: GlmObjective, deviance: Deviance, refit: bool, descent: Descent
) -> GlmModel:
    kept = np.flatnonzero(lengths(descent.x))
    groups, data, searched = objective.about, objective.data, None
    problem = replace(objective.refits.problem, members=[kept])
    null = start_fit(problem, objective.fit.point, objective.fit.model)
    if refit and objective.whole is not None:
        (fit,), data, problem = refitted(objective.whole, groups, [[0]], [kept])
        searched = objective.whole.searched
        warn_of_fit(data, fit)
    elif refit:
        (fit,) = solved([extended(problem, null, [0], alone=True)], objective.refits.rows.read)
        warn_of_fit(data, fit)
    else:
        point, value = deviance.point(descent.x)
        explained = 1.0 - (value + problem.penalty(point)) / problem.null_deviance
        fit = replace(null, groups=[0], point=point, deviance=value, explained=explained)
    columns = [groups.members[j] for j in kept]
    numbers = groups_held(groups, columns)
    return model_of(
        data, problem, fit, columns, objective.call, groups=[groups.names[i] for i in numbers],
        spent=groups.spent(numbers), rows_searched=searched,
    )  # fmt: skip


def _model(search: GramSearch, refit: bool, descent: Descent) -> Model:
    """Build the model of one response from the library's descent."""
    if (chosen := descent.chosen) is None:
        raise TypeError("a descent of one response has a model")
    groups, members = search.groups, search.groups.members
    if refit:
        warn_of(chosen.condition)
        # Warn of columns that were not kept, too.
        state = LinearState(search.linear, [np.array(list(chosen.coefficients), np.intp)])
        state.add(0)
        warn_of_dropped(state, members)
    coefficients = {members[j]: value for j, value in chosen.coefficients.items()}
    is_choice = refit and 0 < len(coefficients) < len(members)
    return Model(
        target=search.target,
        intercept=chosen.intercept,
        coefficients=coefficients,
        groups=[groups.names[g] for g in chosen.groups],
        spent=groups.spent(chosen.groups),
        explained=float(clip_share(chosen.explained)),
        r2=float(clip_share(chosen.r2)),
        aliased=tuple(members[j] for j in chosen.aliased),
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
    numbers = groups_held(search.groups, [members[j] for j in at])
    fit = search.fitted_rows(0 < len(at) < len(members)) if refit else None
    x = x / np.sqrt(search.linear.share)[:, None]
    responses = {}
    for k, target in enumerate(search.call.problem.targets):
        response, coef_kept = search.linear.response(k), x[k, at]
        product = response.G[np.ix_(at, at)] @ coef_kept + response.ridge[at] * coef_kept
        explained = float(clip_share(coef_kept @ (2.0 * response.c[at] - product)))
        coef = x[k] * (response.target_spread / response.spread)
        parts = search.parts_of(target, response, coef, at, numbers, explained)
        responses[target] = Model(**parts, aliased=aliased, fit=fit)
    return JointModel(responses, search.linear.share)


@shows(SghtOptions)
def sght(problem: Spec, **options: Unpack[SghtOptions]) -> Selected[Any]:
    """Select at most `max_columns` columns in at most `max_groups` groups by hard thresholding.

    Finds a local minimum of 1/2 |y - Xw|^2 within both limits, on unit-variance columns; for
    several responses, of the sum over them, each of unit variance, on the same columns; with
    another family, of the deviance, by the same descent.

    Returns
    -------
    Selected, with a Model on the kept columns; for a list of responses a JointModel, with
    another family a GlmModel

    Raises
    ------
    ColumnError : an unknown column
    GroupError : groups overlap or are empty
    ArgumentError : a limit is below 1 or above what exists; another option out of range
    DataError : no usable rows, or a constant target

    Warns
    -----
    ConditionWarning : the kept columns are so nearly dependent that their coefficients
        keep fewer than six digits

    Notes
    -----
    With D columns O(D^3) for the ridge solutions; a step costs O(D s1) and one
    projection for each step length tried. Memory 16 D^2 bytes from zero, 28 D^2 from
    the ridge solutions. The objective never rises for the two ISTA variants. There is neither a
    budget nor `always`: the projection within both limits is exact
    only if all groups cost the same and none is forced.

    References
    ----------
    Xiang, Yang, Ye (2014), Algorithms 1 and 2, Table 1.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b, c = [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]
    >>> y = [3 * i + 2 * j + k for i, j, k in zip(a, b, c)]
    >>> g = ds.gram(pl.DataFrame({"a": a, "b": b, "c": c, "y": y}))
    >>> model = ds.sght(g, "y", groups={"u": ["a", "c"], "v": ["b"]}, max_columns=2, max_groups=1)
    >>> {name: round(value, 6) for name, value in model.coefficients.items()}
    {'a': 3.0, 'c': 1.0}
    """
    checked, call = asked(problem, "sght", SghtOptions, options)
    if not isinstance(checked["start"], Mapping):
        one_of(StartName).check("start", checked["start"])
    search: Any = open_search(problem, call, several=True)
    task = task_of(search, checked["refit"])
    limits = (
        check_limit("max_columns", checked["max_columns"], len(task.groups.members)),
        check_limit("max_groups", checked["max_groups"], len(task.groups.names)),
    )
    descent = descent_of(task, limits, checked)
    model = task.model(descent)
    convergence = Convergence(
        descent.history, descent.converged, descent.start, descent.exchanges, descent.projections
    )
    chosen = tuple(groups_held(task.groups, model.columns))
    return Selected(model, chosen, call.method, convergence, call=search.call)
