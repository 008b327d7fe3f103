"""The selected groups of a generalised linear model, and what every other one would add.

The value is the share of the null deviance that is explained, less what the ridge takes. Gains and
losses are of refits side by side (`glm.refits`), and none below `REFIT_ROUNDING`, their tolerance.
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

#: Share of the null deviance below which a gain is what two refits leave: each ends where
#: the next step would explain a tenth of that, and sums of n terms err by less.
REFIT_ROUNDING = 1e-12
#: Bytes of answers that are kept: a thousand fits of 180 columns.
MEMORY = 2**28


@dataclass(frozen=True, eq=False)
class Slope:
    """The deviance at some coefficients, and the gradient of half of it, downwards."""

    deviance: float  # in all
    settled: float  # decrease of the deviance by the intercept alone, per unit of weight
    start: Vector  # shape (P,), the step of the intercept that does that
    gradient: Matrix  # shape (D, P), per unit of weight, the intercept minimised out


@dataclass(eq=False)
class _Answers:
    """What is known of some groups; gains and losses once they were asked for."""

    fit: GlmFit
    gains: Vector | None = None
    losses: Vector | None = None


class GlmState:
    """The selected groups as an `Objective`; copies share `MEMORY` bytes of kept answers."""

    def __init__(self, refits: Any, fit: GlmFit) -> None:
        self.refits = refits
        self._held = list(fit.groups)
        self._now = _Answers(fit)
        self._known: dict[frozenset[int], _Answers] = {frozenset(self._held): self._now}
        bytes_of_fit = 8 * len(fit.state.problem.c) ** 2
        self._most = max(2, MEMORY // bytes_of_fit)

    @property
    def fit(self) -> GlmFit:
        """The fit of the selected groups."""
        return self._now.fit

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
        """Explained share of the null deviance, less what the ridge takes."""
        return self.fit.explained

    @property
    def local(self) -> LinearState:
        """The linear problem near the fit: its gains are score tests, its `b` the gradient."""
        return self.fit.state

    def coef(self) -> Matrix:
        """Return the coefficients on unit-variance columns; shape (D, P)."""
        return self.fit.point.coef

    def gains(self) -> Vector:
        """Return what each of the J groups would add; 0 for the selected ones."""
        now, value = self._now, self.value
        if now.gains is None:
            now.gains = np.zeros(self.size)
            waiting = [group for group in range(self.size) if group not in now.fit.groups]
            if waiting:
                now.gains[waiting] = self.refits.with_each(now.fit, waiting) - value
        return np.where(now.gains > REFIT_ROUNDING, now.gains, 0.0)

    def losses(self) -> Vector:
        """Return what removing each selected group would lose; 0 for the others."""
        now, value = self._now, self.value
        if now.losses is None:
            now.losses = np.zeros(self.size)
            if now.fit.groups:
                now.losses[now.fit.groups] = value - self.refits.without_each(now.fit)
        return np.where(now.losses > REFIT_ROUNDING, now.losses, 0.0)

    def add(self, group: int) -> float:
        """Select a group and return its gain."""
        return self.add_all([group])

    def add_all(self, groups: Sequence[int]) -> float:
        """Select several groups at once and return what they gain together."""
        return self._move(
            [*self._held, *groups], lambda: self.refits.extended(self.fit, list(groups))
        )

    def remove(self, group: int) -> float:
        """Give a selected group back and return its loss."""
        held = [other for other in self._held if other != group]
        return -self._move(held, lambda: self.refits.reduced(self.fit, group))

    def copy(self) -> Self:
        """Return a state that changes alone; rows or passes, and what is known, are shared."""
        copied = copy.copy(self)
        copied._held = list(self._held)
        return copied

    def _move(self, held: list[int], fit: Callable[[], GlmFit]) -> float:
        """Select other groups, by a fit unless that is known, and return the gain."""
        before, key = self.value, frozenset(held)
        answers = self._known.pop(key, None) or _Answers(fit())
        self._known[key] = answers  # the last one used is the last to be forgotten
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        self._held, self._now = held, answers
        return self.value - before


class PassState:
    """The groups that a search by passes has selected, and what every other would add."""

    def __init__(self, problem: GlmProblem, fit: GlmFit, read: Read) -> None:
        self.problem = problem
        self.fit = fit
        self._read = read
        self._tried: dict[int, GlmFit] = {}

    @property
    def value(self) -> float:
        """Explained share of the null deviance, less the penalty."""
        return self.fit.explained

    def try_all(self, groups: Sequence[int], costs: Vector) -> Vector:
        """Return the gain of each of some groups; too low where it cannot be best for its cost."""
        before = self.value
        fittings = [extended(self.problem, self.fit, [group], alone=True) for group in groups]
        fits, explained = best_of(
            fittings, self._read, lambda n, reached: (reached - before) / costs[groups[n]]
        )
        self._tried = {groups[number]: fit for number, fit in fits.items()}
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
