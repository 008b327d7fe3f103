"""Greedy search in passes over a table: one refit per step, many candidates per pass."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dbselect.glm.constrained import fitted_under_signs
from dbselect.glm.newton import GlmFit, extended, solved
from dbselect.glm.passes import Data
from dbselect.glm.state import PassState
from dbselect.linear.blas import SMALL_SQUARE
from dbselect.linear.constrained import Constraint, sign_numbers
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups, numbers_of
from dbselect.record.steps import Step, Stop, within
from dbselect.results.call import Call
from dbselect.results.glm.build import aliased_of, model_of, prefix_of, sequence_of, warn_of_fit
from dbselect.results.glm.model import GlmModel
from dbselect.results.glm.sequence import GlmSequence
from dbselect.search.family import FIT_TOL, STEP_TOL, begun, family_table, opened, passes_of
from dbselect.search.protocol import Search, check_first
from dbselect.selection.criteria import RULES, Criterion, OnGlm
from dbselect.selection.on_glm import criterion_near
from dbselect.sources.passes import Passes
from dbselect.sources.progress import Callback, Turn, turns
from dbselect.spec.spec import Spec


class FamilySearch(Search):
    """Base of the searches of a generalised linear model, whose states have a fit."""

    if TYPE_CHECKING:

        @property
        def data(self) -> Data:
            """The rows after their first pass."""

    def dependent(self) -> list[str]:
        """Return the selected columns that depend linearly on others."""
        return list(aliased_of(self.data, self.state.fit))

    def kept(self) -> Any:
        """Return the fit without its matrices."""
        return prefix_of(self.data, self.state.fit)

    def sequence(self, rule: str, steps: list[Step], kept: list[Any], stop: Stop) -> GlmSequence:
        """Build the sequence of the steps, with the fit after each."""
        return self.fitted(self.data, self.state.fit, rule, steps, kept, stop)

    def fitted(
        self, data: Data, last: GlmFit, rule: str, steps: list[Step], kept: list[Any], stop: Stop,
        rows_searched: int | None = None,
    ) -> GlmSequence:  # fmt: skip
        """Build the sequence from steps and their fits to the rows of `data`."""
        warn_of_fit(data, last)
        return sequence_of(data, self.groups, rule, self.call, steps, kept, stop, rows_searched)


@dataclass(eq=False)
class PassSearch(FamilySearch):
    """A generalised linear model that is fitted in passes over its table."""

    state: PassState
    data: Data

    @contextmanager
    def progress(self, total: int | None, unit: str, callback: Callback | None) -> Iterator[Turn]:
        """Count the passes on a terminal, and call back after each turn of a walk."""
        with turns(total, unit, callback, bar=False) as turn, self.data.passes.shown():
            yield turn

    @property
    def is_small(self) -> bool:
        """Whether products are so small that one BLAS thread is fastest."""
        return len(self.groups.members) <= SMALL_SQUARE

    def criterion(self, rule: str, budget: float | None = None) -> Criterion:
        """Return the criterion that a rule maximises per unit of cost."""
        if self.state.problem.exact or RULES[rule].on_glm is not OnGlm.REFITS:
            return lambda state: criterion_near(state.problem, state.fit, RULES[rule])
        groups = self.groups
        self.state.in_companies = True

        def gains_of_refits(state: PassState) -> Vector:
            offers = groups.prices.offers(state.held)
            waiting = np.ones(len(groups.costs), dtype=bool)
            waiting[state.held] = False
            fitting = offers.among(waiting) & within(
                groups.spent(state.held) + offers.costs, budget
            )
            candidates = np.flatnonzero(fitting).tolist()
            gains = np.zeros(len(waiting))
            companies = [groups.prices.with_needs(group, state.held) for group in candidates]
            gains[candidates] = state.try_all(companies, offers.counted)
            return gains

        return gains_of_refits

    def model(self, state: PassState) -> GlmModel:
        """Return the model on the selected groups of a state."""
        return model_of_groups(self.call, self.data, self.groups, state.problem, state.fit)


def pass_search(
    problem: Spec,
    call: Call,
    *,
    budget: float | None,
    most: int | None,
    tol: float | None,
    max_iter: int | None,
) -> PassSearch:
    """Check `always` against `budget` and `most`, and make the first pass over the table."""
    passes, groups = opened(problem)
    first = numbers_of(problem.always, groups)
    check_first(groups, first, budget, most)
    with passes.shown():
        data, settled, null = begun(problem, passes, groups, tol or STEP_TOL, max_iter)
    return PassSearch(call, groups, first, PassState(settled, null, data.read), data)


def fitted_in_passes(
    problem: Spec,
    call: Call,
    columns: Sequence[str] | None,
    groups_of: Any,
    *,
    tol: float | None,
    max_iter: int | None,
    signs: Mapping[str, str] | None = None,
) -> GlmModel:
    """Fit all columns at once, in passes; `groups_of` makes groups of the columns of passes."""
    passes: Passes = passes_of(problem, family_table(problem, columns), columns)
    groups = groups_of(passes)
    signed = sign_numbers(signs or {}, groups.members)
    with passes.shown():
        data, settled, null = begun(problem, passes, groups, tol or FIT_TOL, max_iter)
        every = range(len(groups.costs))
        fittings = [extended(settled, null, every)]
        if signs:
            # The passes also serve the fit without signs, which shows what they cost.
            fittings.append(fitted_under_signs(settled, null, every, signed))
        free, *under_signs = solved(fittings, data.read)
    fit = under_signs[0] if under_signs else free
    constraint = None
    if fit.violation is not None:
        cost = max(fit.deviance - free.deviance, 0.0) / settled.null_deviance
        at_zero = (fit.point.coef[:, 0] == 0.0) & (signed != 0.0)
        names = tuple(np.array(groups.members)[at_zero].tolist())
        constraint = Constraint(cost, names, fit.violation, {"signs": dict(signs or {})})
    warn_of_fit(data, fit)
    return model_of_groups(call, data, groups, settled, fit, constraint=constraint)


def model_of_groups(
    call: Call, data: Data, groups: Groups, settled: Any, fit: GlmFit, **more: Any
) -> GlmModel:
    """Return the model of a fit on some groups."""
    return model_of(
        data, settled, fit,
        [groups.members[j] for j in settled.columns(fit.groups).tolist()],
        call,
        groups=[groups.names[group] for group in fit.groups],
        spent=groups.spent(fit.groups),
        **more,
    )  # fmt: skip
