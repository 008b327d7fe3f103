"""What the calls of SGHT (Xiang, Yang, Ye 2014) share: options, descents, and their models."""

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dbselect.engine.linear_state import LinearState
from dbselect.errors import ArgumentError, ConvergenceWarning, warn_caller
from dbselect.glm.deviance import Deviance
from dbselect.glm.newton import extended, solved
from dbselect.glm.newton import start as start_fit
from dbselect.linear.condition import check_held
from dbselect.linear.problem import Linear
from dbselect.objectives.smooth import Correlated, LeastSquares
from dbselect.options.kinds import one_of
from dbselect.options.names import StartName
from dbselect.options.option import options_of
from dbselect.options.table import DescentOptions
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups
from dbselect.record.rows import clip_share
from dbselect.results.glm.build import model_of, warn_of_fit
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import JointModel, Model
from dbselect.results.selected import AnyModel
from dbselect.search.compiled import compiled_descents
from dbselect.search.gram import GramSearch
from dbselect.search.rows import GlmObjective, RowSearch, refitted
from dbselect.selection.exchange import LEAST_RISE
from dbselect.selection.penalised.descent import (
    FORWARD_START,
    STARTS,
    VARIANTS,
    Descent,
    Settings,
    descend,
    lengths,
    restricted,
)
from dbselect.selection.penalised.layout import Layout
from dbselect.selection.penalised.polish import Within, forward, polish
from dbselect.selection.penalised.projection import tabulate
from dbselect.selection.ties import levelled
from dbselect.sources.progress import Turn

#: Columns times the square of most columns up to which exchanges are tried: a turn of them takes
#: a second there.
POLISH_WORK = 1e8
#: Options of a descent that the compiled library takes.
_OF_LIBRARY = [name for name in options_of(DescentOptions) if name != "start"]
#: How a result names what won from the user's own start.
OWN_START = "given"


def check_start(start: Any) -> None:
    """Refuse what no descent can start from."""
    if not isinstance(start, Mapping):
        one_of(StartName).check("start", start)


def settings_of(known: DescentOptions) -> Settings:
    """Return the descent that options ask for."""
    literal = bool(known.get("literal", False))
    return Settings(
        VARIANTS[known["variant"]], float(known["tol"]), int(known["max_iter"]), literal
    )


def descents_of(
    task: "DescentTask",
    limits: Sequence[tuple[int, int]],
    known: DescentOptions,
    turn: Turn = lambda *_: None,
) -> list[Descent]:
    """Descend for every pair of limits, and polish by exchanges where that is cheap."""
    best = None
    if task.search is not None and known["start"] == "ridge":
        options = {name: one for name, one in known.items() if name in _OF_LIBRARY}
        best = compiled_descents(task.search, limits, options, turn)
    if best is None:
        best = _descents(task, limits, known, turn)
    settings = settings_of(known)
    loose = [pair for pair, one in zip(limits, best, strict=True) if not one.is_settled]
    if loose:
        warn_caller(
            f"{len(loose)} of {len(limits)} descents had not converged after max_iter = "
            f"{settings.max_iter} steps, the first within {loose[0]}; raise max_iter",
            ConvergenceWarning,
        )
    return best


def _descents(
    task: "DescentTask", limits: Sequence[tuple[int, int]], known: DescentOptions, turn: Turn
) -> list[Descent]:
    """Descend in Python: of families, several responses, and other starts."""
    problem, groups, settings = task.problem, task.groups, settings_of(known)
    sizes = [len(members) for members in groups.columns.values()]
    layout = Layout(None, np.cumsum([0, *sizes]))
    most_columns, most_groups = np.max(limits, axis=0).tolist()
    start = known["start"]
    if isinstance(start, str):
        name: str = start
        starts = STARTS[name](problem)
    else:
        name, starts = OWN_START, [task.own(start)]
    tables = [tabulate(levelled(lengths(one)), layout, most_columns, most_groups) for one in starts]
    group = np.repeat(np.arange(len(sizes)), sizes)
    best = []
    for pair in limits:
        descents = [
            descend(problem, layout, restricted(one, table.project(*pair)), pair, settings)
            for one, table in zip(starts, tables, strict=True)
        ]
        descents = [replace(descent, start=name) for descent in descents]
        within = Within(group, *pair)
        work = len(group) * within.most_columns**2
        if known["polish"] and known["refit"] and work <= POLISH_WORK:
            descents = polished(problem, descents, within)
        best.append(_lowest(descents))
        turn(None, None)
    return best


def _lowest(descents: Sequence[Descent]) -> Descent:
    """Return the descent that ends lowest, of those that differ by rounding the first."""
    least = min(descent.objective for descent in descents)
    return next(descent for descent in descents if descent.objective <= least + LEAST_RISE)


def polished(problem: Correlated, descents: Sequence[Descent], within: Within) -> list[Descent]:
    """Return least-squares descents after exchanges, and what forward steps and these choose."""
    if not isinstance(problem, LeastSquares):
        return list(descents)
    columns = list(np.arange(len(problem.G))[:, None])
    ends, supports = [], set()
    for descent in descents:
        state = LinearState(problem.problem, columns)
        for column in np.flatnonzero(lengths(descent.x)).tolist():
            state.add(column)
        if (support := frozenset(state.held)) not in supports:
            supports.add(support)
            ends.append((descent, *polish(state, within)))
    state = LinearState(problem.problem, columns)
    forward(state, within)
    least = _lowest(descents)
    ends.append((replace(least, start=FORWARD_START), *polish(state, within)))
    return [_after(problem, *end) for end in ends]


def _after(problem: LeastSquares, descent: Descent, state: LinearState, exchanges: int) -> Descent:
    """Return a descent that ends at a state, which may have another support."""
    if not exchanges and descent.start != FORWARD_START:
        return replace(descent, exchanges=0)
    x = state.coef()
    return replace(descent, x=x, polished=problem.at(x).value, exchanges=exchanges)


@dataclass(frozen=True)
class DescentTask:
    """What is minimised, the groups of its columns, and who makes the model of a descent."""

    problem: Correlated
    groups: Groups
    model: Callable[[Descent], AnyModel]
    own: Callable[[Mapping[str, float]], Vector]
    #: One Gram of one response, which the compiled library takes.
    search: GramSearch | None = None


def task_of(search: GramSearch | RowSearch, refit: bool) -> DescentTask:
    """Return what a search that is set up minimises, and how its models are made."""
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
            deviance,
            search.groups,
            partial(_glm_model, objective, deviance, refit),
            partial(_start_of_family, objective, deviance),
        )
    return DescentTask(
        LeastSquares(search.linear),
        search.groups,
        partial(_model, search, refit),
        partial(_start, search),
        None if search.is_joint else search,
    )


def _start(search: GramSearch, given: Mapping[str, float]) -> Vector:
    """Return coefficients of columns as they are on unit-variance columns."""
    if search.is_joint:
        raise ArgumentError("start is a mapping; of several responses it must be a name")
    own = search.linear
    x = own_start(search.groups.members, given) * own.spread / own.target_spread
    return np.asarray(x)


def _start_of_family(
    objective: GlmObjective, deviance: Deviance, given: Mapping[str, float]
) -> Vector:
    """Return coefficients of columns as they are in the units of the descent."""
    if objective.refits.problem.free > 1:
        raise ArgumentError("start is a mapping; with several classes it must be a name")
    x = own_start(objective.about.members, given)
    return np.asarray(x * objective.data.spread / deviance.unit)[None]


def own_start(columns: Sequence[str], given: Mapping[str, float]) -> Vector:
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


def _model(search: GramSearch, refit: bool, descent: Descent) -> Model | JointModel:
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

    def of(target: str, own: Linear, x: Vector) -> Model:
        kept = x[at]
        left = own.G[np.ix_(at, at)] @ kept + own.ridge[at] * kept
        explained = float(clip_share(kept @ (2.0 * own.c[at] - left)))
        coef = x * (own.target_spread / own.spread)
        parts = search.parts_of(target, own, coef, at, held, explained)
        return Model(**parts, aliased=aliased, fit=fit)

    if not search.is_joint:
        return of(search.target, search.linear, x)
    share = search.linear.share
    x = x / np.sqrt(share)[:, None]
    responses = {
        target: of(target, search.linear.response(k), x[k])
        for k, target in enumerate(search.call.problem.targets)
    }
    return JointModel(responses, share)
