"""The selected groups of a generalised linear model, and what every other one would add.

The value is the share of the null deviance that is explained, less what the ridge takes.
Gains and losses are those of exact refits, one for each group, all side by side. Who makes
these is told apart: `ByPasses` reads the table again for each Newton step of all refits, and
`objectives.glm_rows` has the rows in memory. So every search that asks an `Objective` runs
on a table of any size, or on some rows of it.

A search may end a few digits above the last one: refits end at a tolerance, and gains and
losses below `REFIT_ROUNDING` count as none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from dbselect.gram import Matrix, Vector
from dbselect.objectives.glm import (
    Ask,
    Fit,
    Point,
    Problem,
    Read,
    completed,
    extended,
    reduced,
    solved,
)
from dbselect.objectives.linear import Index, State

#: Share of the null deviance below which a gain is what two refits leave: each ends where
#: the next step would explain a tenth of that, and sums of n terms err by less.
REFIT_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Slope:
    """The deviance at some coefficients, and the gradient of half of it, downwards.

    Parameters
    ----------
    deviance : in all
    settled : decrease of the deviance by the intercept alone, per unit of weight
    start : shape (P,), the step of the intercept that does that
    gradient : shape (D, P), per unit of weight, the intercept minimised out
    """

    deviance: float
    settled: float
    start: Vector
    gradient: Matrix


class ByPasses:
    """Refits by passes, each of which serves all refits that are asked for.

    Parameters
    ----------
    problem : Problem
    read : makes passes
    """

    def __init__(self, problem: Problem, read: Read) -> None:
        self.problem = problem
        self.read = read
        # The last refits and the fit they began with: one of them is often the next.
        self._tried: tuple[Fit | None, dict[tuple[int, ...], Fit]] = (None, {})

    def extended(self, fit: Fit, groups: Sequence[int]) -> Fit:
        """Return the fit with more groups; one pass if just these were tried."""
        origin, tried = self._tried
        if origin is fit and tuple(groups) in tried:
            return completed(self.problem, tried[tuple(groups)], self.read)
        return solved([extended(self.problem, fit, groups)], self.read)[0]

    def reduced(self, fit: Fit, group: int) -> Fit:
        """Return the fit without one of its groups."""
        return solved([reduced(self.problem, fit, group)], self.read)[0]

    def with_each(self, fit: Fit, groups: Sequence[int]) -> Vector:
        """Return what each of some groups and those of the fit explain."""
        fits = solved([extended(self.problem, fit, [g], alone=True) for g in groups], self.read)
        self._tried = fit, {(g,): one for g, one in zip(groups, fits, strict=True)}
        return np.array([one.explained for one in fits])

    def without_each(self, fit: Fit) -> Vector:
        """Return what the groups of the fit explain without each of them."""
        fits = solved([reduced(self.problem, fit, g, alone=True) for g in fit.groups], self.read)
        return np.array([one.explained for one in fits])

    def slope(self, point: Point) -> Slope:
        """Return the deviance at some coefficients and its gradient; one pass."""
        (model,) = self.read([Ask(point)])
        gradient = model.gradient.reshape(point.coef.shape)
        return Slope(model.deviance, model.settled, model.start, gradient)


class GlmState:
    """The selected groups, as an `objectives.contract.Objective`.

    Parameters
    ----------
    refits : who makes the fits
    fit : of the groups selected so far

    Notes
    -----
    Gains and losses are computed when they are first asked for, and kept until the
    selected groups change.
    """

    def __init__(self, refits: ByPasses, fit: Fit) -> None:
        self.refits = refits
        self.fit = fit
        self._gains: Vector | None = None
        self._losses: Vector | None = None

    @property
    def size(self) -> int:
        """J, the number of groups."""
        return len(self.members)

    @property
    def members(self) -> Sequence[Index]:
        """The columns of each of the J groups."""
        return self.refits.problem.members

    @property
    def held(self) -> list[int]:
        """The selected groups, in the order taken."""
        return self.fit.groups

    @property
    def value(self) -> float:
        """Explained share of the null deviance, less what the ridge takes."""
        return self.fit.explained

    @property
    def local(self) -> State:
        """The linear problem near the fit: its gains are score tests, its `b` the gradient."""
        return self.fit.state

    def coef(self) -> Matrix:
        """Return the coefficients on unit-variance columns; shape (D, P)."""
        return self.fit.point.coef

    def gains(self) -> Vector:
        """Return what each of the J groups would add; 0 for the selected ones."""
        if self._gains is None:
            waiting = [group for group in range(self.size) if group not in self.held]
            self._gains = np.zeros(self.size)
            if waiting:
                self._gains[waiting] = self.refits.with_each(self.fit, waiting) - self.value
        return np.where(self._gains > REFIT_ROUNDING, self._gains, 0.0)

    def losses(self) -> Vector:
        """Return what removing each selected group would lose; 0 for the others."""
        if self._losses is None:
            self._losses = np.zeros(self.size)
            if self.held:
                self._losses[self.held] = self.value - self.refits.without_each(self.fit)
        return np.where(self._losses > REFIT_ROUNDING, self._losses, 0.0)

    def add(self, group: int) -> float:
        """Select a group and return its gain."""
        return self.add_all([group])

    def add_all(self, groups: Sequence[int]) -> float:
        """Select several groups at once and return what they gain together."""
        return self._move(self.refits.extended(self.fit, groups)) if len(groups) else 0.0

    def remove(self, group: int) -> float:
        """Give a selected group back and return its loss."""
        return -self._move(self.refits.reduced(self.fit, group))

    def copy(self) -> Self:
        """Return a state that changes alone; the rows or passes are shared."""
        return type(self)(self.refits, self.fit)

    def _move(self, fit: Fit) -> float:
        before, self.fit = self.value, fit
        self._gains = self._losses = None
        return self.value - before
