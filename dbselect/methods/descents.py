"""What the calls of SGHT have in common: options, descents, and the models of what they keep.

The descent (`selection.descent`) starts from projected ridge solutions; what it keeps is
fitted again by least squares, or by Newton's method. Source: Xiang, Yang, Ye (2014).
"""

import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.glm.deviance import Deviance
from dbselect.glm.families import FAMILY_NAMES
from dbselect.glm.newton import extended, solved
from dbselect.glm.newton import start as start_fit
from dbselect.linear.condition import warn_of
from dbselect.linear.inference import FittedRows
from dbselect.linear.problem import Linear, linear
from dbselect.linear.state import State
from dbselect.methods.glm_objective import GlmObjective, ObjectiveSetup
from dbselect.methods.options import Options
from dbselect.methods.setup import LinearSetup
from dbselect.methods.types import (
    FamilyName,
    NullPolicy,
)
from dbselect.objectives.smooth import LeastSquares, Smooth
from dbselect.record.checks import check_choice, check_whole
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups
from dbselect.record.policies import check_policies
from dbselect.record.rows import at_most_all
from dbselect.results.glm.build import model_of, warn_of_fit
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import JointModel, Model
from dbselect.results.selected import AnyModel
from dbselect.selection.descent import (
    STARTS,
    VARIANTS,
    Descent,
    Settings,
    descend,
    lengths,
    restricted,
)
from dbselect.selection.layout import Layout
from dbselect.selection.projection import tabulate

VariantName = Literal["ista", "ista-l", "fista", "fista-c"]
StartName = Literal["ridge", "zero"]


@dataclass(frozen=True, kw_only=True)
class DescentOptions(Options):
    """The options of every descent."""

    family: FamilyName = "gaussian"
    variant: VariantName = "ista"
    start: StartName = "ridge"
    refit: bool = True
    tol: float = 1e-8
    max_iter: int = 500
    null_policy: NullPolicy = "skip"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_policies(self.null_policy)
        check_choice("family", self.family, FAMILY_NAMES)
        check_choice("variant", self.variant, VARIANTS)
        check_choice("start", self.start, STARTS)
        if not isinstance(self.refit, bool | np.bool_):
            raise ArgumentError(f"refit is {self.refit!r}; it must be True or False")
        if not (isinstance(self.tol, numbers.Real) and 0 <= float(self.tol) < math.inf):
            raise ArgumentError(f"tol is {self.tol!r}; it must be a number >= 0")
        check_whole("max_iter", self.max_iter)

    @property
    def settings(self) -> Settings:
        """The descent that these options ask for."""
        return Settings(
            VARIANTS[self.variant], STARTS[self.start], float(self.tol), int(self.max_iter)
        )


def descents_of(
    problem: Smooth, groups: Groups, limits: Sequence[tuple[int, int]], settings: Settings
) -> list[Descent]:
    """Descend for every pair of limits, from projections of the same vectors."""
    ends = np.cumsum([len(members) for members in groups.columns.values()])
    layout = Layout(None, np.append(0, ends))
    most_columns, most_groups = np.max(limits, axis=0).tolist()
    starts = settings.starts(problem)
    tables = [tabulate(lengths(start), layout, most_columns, most_groups) for start in starts]
    best = []
    for pair in limits:
        descents = [
            descend(problem, layout, restricted(start, table.project(*pair)), pair, settings)
            for start, table in zip(starts, tables, strict=True)
        ]
        best.append(min(descents, key=lambda descent: descent.objective))
    return best


@dataclass(frozen=True)
class DescentTask:
    """What is minimised, the groups of its columns, and who makes the model of a descent."""

    problem: Smooth
    groups: Groups
    model: Callable[[Descent], AnyModel]


def task_of(search: LinearSetup | ObjectiveSetup, refit: bool) -> DescentTask:
    """Return what a search that is set up minimises, and how its models are made."""
    # Partial functions have no frame, which a warning would point to.
    if isinstance(search, ObjectiveSetup):
        objective = search.state
        deviance = Deviance(objective.refits, objective.fit)
        return DescentTask(deviance, search.groups, partial(_glm_model, objective, deviance, refit))
    make = _joint_model if search.is_joint else _model
    return DescentTask(LeastSquares(search.problem), search.groups, partial(make, search, refit))


def groups_held(groups: Groups, columns: Iterable[str]) -> list[int]:
    """Return the numbers of the groups with a column that is kept."""
    kept = set(columns)
    return [i for i, members in enumerate(groups.columns.values()) if kept.intersection(members)]


def _bought(groups: Groups, columns: Iterable[str]) -> dict[str, Any]:
    """Return groups and spent of a model on some columns."""
    held = groups_held(groups, columns)
    names = groups.names
    return {"groups": [names[i] for i in held], "spent": float(groups.costs[held].sum())}


def _glm_model(
    objective: GlmObjective, deviance: Deviance, refit: bool, descent: Descent
) -> GlmModel:
    """Fit the kept columns, or keep the coefficients of the descent."""
    at = np.flatnonzero(lengths(descent.x))
    groups = objective.about.groups
    problem = replace(objective.refits.problem, members=[at])
    null = start_fit(problem, objective.fit.point, objective.fit.model)
    if refit:
        (fit,) = solved([extended(problem, null, [0], alone=True)], objective.refits.read)
        warn_of_fit(fit)
    else:
        point, value = deviance.point(descent.x)
        explained = 1.0 - (value + problem.penalty(point)) / problem.null_deviance
        fit = replace(null, groups=[0], point=point, deviance=value, explained=explained)
    columns = [groups.members[j] for j in at]
    return model_of(
        objective.about.data, problem, fit, columns, GlmModel, **_bought(groups, columns)
    )


def _model(search: LinearSetup, refit: bool, descent: Descent) -> Model:
    found = _fit(search, search.target, refit, descent)
    return Model(**_parts(search, search.target, refit, found, found.problem, found.coef))


def _joint_model(search: LinearSetup, refit: bool, descent: Descent) -> JointModel:
    found = _fit(search, search.targets, refit, descent)
    share = found.problem.share
    coef = found.coef / np.sqrt(share)[:, None]
    responses = {
        target: Model(**_parts(search, target, refit, found, found.problem.response(k), coef[k]))
        for k, target in enumerate(search.targets)
    }
    return JointModel(responses, share)


@dataclass(frozen=True)
class _Fit:
    """Coefficients of the kept columns, shape (s,) or (K, s), on unit-variance columns."""

    columns: list[str]
    problem: Linear
    coef: Vector
    aliased: tuple[str, ...] = ()


def _fit(search: LinearSetup, target: str | list[str], refit: bool, descent: Descent) -> _Fit:
    """Fit the kept columns by least squares, or keep the coefficients of the descent."""
    at = np.flatnonzero(lengths(descent.x))
    columns = [search.groups.members[j] for j in at]
    problem = linear(search.gram, target, columns)
    if not refit:
        return _Fit(columns, problem, descent.x[..., at])
    state = State(problem, [np.arange(len(columns))])
    state.add(0)
    warn_of(state.condition(), stacklevel=5)
    aliased = tuple(columns[j] for j in state.aliased)
    return _Fit(columns, problem, state.coefficients()[-1], aliased)


def _parts(
    search: LinearSetup, target: str, refit: bool, found: _Fit, problem: Linear, coef: Vector
) -> dict[str, Any]:
    """Return the parts of the `Model` of one response.

    Parameters
    ----------
    problem, coef : of this response alone, coef on unit-variance columns
    """
    columns = found.columns
    own = coef * (problem.target_spread / problem.spread)
    explained = float(at_most_all(coef @ (2.0 * problem.c - problem.G @ coef)))
    chosen = 0 < len(columns) < len(search.groups.members)
    return {
        "target": target,
        "intercept": float(problem.target_mean - own @ problem.mean),
        "coefficients": dict(zip(columns, own.tolist(), strict=True)),
        **_bought(search.groups, columns),
        "explained": explained,
        "r2": explained,
        "aliased": found.aliased,
        "rows": search.gram.rows,
        "skipped": search.gram.skipped,
        "fit": FittedRows(search.gram, chosen=chosen) if refit else None,
        "terms": search.gram.terms.of(columns),
    }
