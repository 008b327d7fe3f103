"""From fits of generalised linear models to the models and sequences that users see."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from dbselect.glm.expansion import Coefficients
from dbselect.glm.newton import GlmFit, Problem, Status
from dbselect.glm.passes import Data
from dbselect.linear.condition import warn_of
from dbselect.record.gram import Matrix, Vector
from dbselect.record.groups import Groups
from dbselect.record.steps import Step, Stop, spent_after
from dbselect.results.glm import GlmSequence
from dbselect.results.glm_model import GlmModel, on_table

M = TypeVar("M", bound=GlmModel)


@dataclass(frozen=True, eq=False)
class Prefix:
    """What is kept of the fit of a prefix; its matrices are not."""

    intercept: Vector  # (K,)
    coef: Matrix  # (D, K)
    deviance: float
    explained: float
    status: Status
    passes: int


def model_of(
    data: Data,
    problem: Problem,
    fit: GlmFit,
    columns: Sequence[str],
    make: Callable[..., M],
    *,
    groups: Sequence[str] = (),
    spent: float = 0.0,
    **more: Any,
) -> M:
    """Return the model of a fit.

    Parameters
    ----------
    columns : those that have coefficients, in the model's order
    make : the kind of model
    groups, spent : groups held, and their cost
    more : what else the kind of model has
    """
    family = data.roles.family
    intercept, coef = in_units(data, fit.point)
    at = [data.roles.members.index(name) for name in columns]
    intercept, coefficients = on_table(family.classes, intercept, coef[at], columns)
    return make(
        target=data.roles.target,
        family=family.name,
        classes=family.classes,
        offset=data.roles.offset,
        intercept=intercept,
        coefficients=coefficients,
        groups=list(groups),
        spent=spent,
        deviance=fit.deviance,
        null_deviance=problem.null_deviance,
        explained=fit.explained,
        status=fit.status,
        aliased=aliased_of(data, fit),
        rows=data.rows,
        skipped=data.skipped,
        passes=data.passes.count,
        rows_read=data.passes.rows_read,
        bytes_read=data.passes.bytes_read,
        **more,
    )


def sequence_of(
    data: Data,
    last: GlmFit,
    groups: Groups,
    rule: str,
    ridge: float,
    scale: bool,
    empty: Prefix,
    taken: Sequence[tuple[Step, Prefix]],
    stop: Stop,
) -> GlmSequence:
    """Return the sequence of some steps, each with the fit after it.

    Parameters
    ----------
    last : the fit after the last step
    empty : the fit without columns
    """
    steps = [step for step, _ in taken]
    prefixes = [empty, *(prefix for _, prefix in taken)]
    return GlmSequence(
        target=data.roles.target,
        family=data.roles.family.name,
        classes=data.roles.family.classes,
        offset=data.roles.offset,
        groups=groups,
        rule=rule,
        ridge=ridge,
        scale=scale,
        records=steps,
        spent=spent_after(steps, groups),
        explained=np.array([prefix.explained for prefix in prefixes]),
        deviance=np.array([prefix.deviance for prefix in prefixes]),
        intercept=np.stack([prefix.intercept for prefix in prefixes]),
        coef=np.stack([prefix.coef for prefix in prefixes]),
        status=[prefix.status for prefix in prefixes],
        passes=np.array([prefix.passes for prefix in prefixes]),
        aliased=aliased_of(data, last),
        stop=stop,
        rows=data.rows,
        skipped=data.skipped,
        passes_made=data.passes.count,
        rows_read=data.passes.rows_read,
        bytes_read=data.passes.bytes_read,
    )


def warn_of_fit(fit: GlmFit) -> None:
    """Warn of coefficients without digits; rows separated are another matter."""
    if fit.status is Status.CONVERGED:
        warn_of(fit.state.condition(), stacklevel=5)


def prefix_of(data: Data, fit: GlmFit) -> Prefix:
    """Return what is kept of a fit."""
    intercept, coef = in_units(data, fit.point)
    return Prefix(intercept, coef, fit.deviance, fit.explained, fit.status, data.passes.count)


def in_units(data: Data, point: Coefficients) -> tuple[Vector, Matrix]:
    """Return intercepts (K,) and coefficients (D, K) in the table's units."""
    basis = data.roles.family.basis
    coef = point.coef @ basis.T / data.spread[:, None]
    return basis @ point.intercept - data.mean @ coef, coef


def aliased_of(data: Data, fit: GlmFit) -> tuple[str, ...]:
    """Return the columns that are aliased; of several predictors, for any of them."""
    numbers = [wide // data.roles.family.basis.shape[1] for wide in fit.state.aliased]
    return tuple(data.roles.members[j] for j in dict.fromkeys(numbers))
