"""What a greedy search by passes has selected: a refit a step, many candidates in each pass."""

from collections.abc import Sequence

from dbselect.glm.newton import GlmFit, GlmProblem, Read, best_of, completed, extended, solved
from dbselect.record.gram import Vector


class PassState:
    """The selected groups of a search, and what every other group would add.

    `fit` is at first the model without columns, then that of the selected groups; `read` makes
    passes.
    """

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
        """Return the gain of each of some groups by a fit of its own, side by side.

        The gain of a group that cannot have the largest for its cost is too low.
        """
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
