"""The selected groups of a generalised linear model, with gains and losses.

The value is the explained share of the null deviance, less the ridge penalty. Gains and losses are
from refits in batches (`glm.refits`); those below `REFIT_ROUNDING`, their tolerance, are 0.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dbselect.glm.newton import GlmFit, GlmProblem, Read, best_of, completed, extended, solved
from dbselect.linear.problem import Index
from dbselect.linear.state import LinearState
from dbselect.record.gram import Matrix, Vector

#: Share of the null deviance below which a gain is the error of two refits: each ends if
#: the next step would explain a tenth of that, and sums of n terms err by less.
REFIT_ROUNDING = 1e-12
#: Bytes of evaluations that are kept: a thousand fits of 180 columns.
MEMORY = 2**28


@dataclass(frozen=True, eq=False)
class Slope:
    """The deviance at some coefficients, and the gradient of half of it, downwards."""

    deviance: float  # in all
    settled: float  # decrease of the deviance by the intercept alone, per unit of weight
    start: Vector  # shape (P,), the step of the intercept that does that
    gradient: Matrix  # shape (D, P), per unit of weight, the intercept minimised out


@dataclass(eq=False)
class _Evaluation:
    """The fit of some groups, with gains and losses once they are computed."""

    fit: GlmFit
    gains: Vector | None = None
    losses: Vector | None = None


class GlmState:
    """The selected groups as an `Objective`; copies share `MEMORY` bytes of evaluations."""

    def __init__(self, refits: Any, fit: GlmFit) -> None:
        self.refits = refits
        self._held = list(fit.groups)
        self._current = _Evaluation(fit)
        self._cache: dict[frozenset[int], _Evaluation] = {frozenset(self._held): self._current}
        bytes_of_fit = 8 * len(fit.state.problem.c) ** 2
        self._most = max(2, MEMORY // bytes_of_fit)

    @property
    def fit(self) -> GlmFit:
        """The fit of the selected groups."""
        return self._current.fit

    @property
    def size(self) -> int:
        """J, the number of groups."""
        return len(self.members)

    @property
    def members(self) -> Sequence[Index]:
        """The columns of each of the J groups."""
        members: Sequence[Index] = self.refits.problem.members
        return members

    @property
    def held(self) -> list[int]:
        """The selected groups, in the order taken."""
        return list(self._held)

    @property
    def value(self) -> float:
        """Explained share of the null deviance, less the ridge penalty."""
        return self.fit.explained

    @property
    def local(self) -> LinearState:
        """The linear problem near the fit: its gains are score tests, its `b` the gradient."""
        return self.fit.state

    def coef(self) -> Matrix:
        """Return the coefficients on unit-variance columns; shape (D, P)."""
        return self.fit.point.coef

    def gains(self) -> Vector:
        """Return the gain of each of the J groups; 0 for the selected ones."""
        current, value = self._current, self.value
        if current.gains is None:
            current.gains = np.zeros(self.size)
            waiting = [group for group in range(self.size) if group not in current.fit.groups]
            if waiting:
                current.gains[waiting] = self.refits.with_each(current.fit, waiting) - value
        return np.where(current.gains > REFIT_ROUNDING, current.gains, 0.0)

    def losses(self) -> Vector:
        """Return the loss of removing each selected group; 0 for the others."""
        current, value = self._current, self.value
        if current.losses is None:
            current.losses = np.zeros(self.size)
            if current.fit.groups:
                current.losses[current.fit.groups] = value - self.refits.without_each(current.fit)
        return np.where(current.losses > REFIT_ROUNDING, current.losses, 0.0)

    def add(self, group: int) -> float:
        """Select a group and return its gain."""
        return self.add_all([group])

    def add_all(self, groups: Sequence[int]) -> float:
        """Select several groups at once and return their joint gain."""
        return self._move(
            [*self._held, *groups], lambda: self.refits.extended(self.fit, list(groups))
        )

    def remove(self, group: int) -> float:
        """Remove a selected group and return its loss."""
        held = [other for other in self._held if other != group]
        return -self._move(held, lambda: self.refits.reduced(self.fit, group))

    def copy(self) -> Self:
        """Return an independent copy; rows or passes, and evaluations, are shared."""
        copied = copy.copy(self)
        copied._held = list(self._held)
        return copied

    def _move(self, held: list[int], fit: Callable[[], GlmFit]) -> float:
        """Select other groups, by a new fit only if needed, and return the gain."""
        before, key = self.value, frozenset(held)
        evaluation = self._cache.pop(key, None) or _Evaluation(fit())
        self._cache[key] = evaluation  # the least recently used is dropped first
        if len(self._cache) > self._most:
            del self._cache[next(iter(self._cache))]
        self._held, self._current = held, evaluation
        return self.value - before


class PassState:
    """The selected groups of a search in passes, with gains."""

    def __init__(self, problem: GlmProblem, fit: GlmFit, read: Read) -> None:
        self.problem = problem
        self.fit = fit
        self._read = read
        self._tried: dict[int, GlmFit] = {}
        self.in_companies = False  # whether gains are of companies

    @property
    def value(self) -> float:
        """Explained share of the null deviance, less the ridge penalty."""
        return self.fit.explained

    @property
    def held(self) -> list[int]:
        """The selected groups, in the order taken."""
        return list(self.fit.groups)

    def copy(self) -> "PassState":
        """Return an independent copy."""
        return PassState(self.problem, self.fit, self._read)

    def try_all(self, companies: Sequence[Sequence[int]], costs: Vector) -> Vector:
        """Return the gains of groups behind those they need; too low for what cannot be best.

        `costs` are by the last group of each company.
        """
        before = self.value
        fittings = [extended(self.problem, self.fit, list(new), alone=True) for new in companies]
        fits, explained = best_of(
            fittings, self._read, lambda n, reached: (reached - before) / costs[companies[n][-1]]
        )
        self._tried = {companies[n][0]: fit for n, fit in fits.items() if len(companies[n]) == 1}
        return explained - before

    def add(self, group: int) -> float:
        """Select a group and return its gain."""
        before = self.value
        tried = self._tried.get(group)
        if tried is None:
            (fit,) = solved([extended(self.problem, self.fit, [group])], self._read)
        else:
            fit = completed(self.problem, tried, self._read)
        self.fit = fit
        self._tried = {}
        return self.value - before
