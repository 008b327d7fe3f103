"""The state of a linear problem whose Gram is read row by row."""

from collections.abc import Sequence
from typing import Any

from dbselect.linear.state import State


class WideState(State):
    """The selected groups and what every other would add, which reads rows for several at once.

    Its problem is a `WideLinear`.
    """

    problem: Any

    @property
    def most(self) -> float:
        """No groups at all explain more than the target's variance."""
        return 1.0

    def expect(self, candidates: Sequence[int]) -> None:
        """Read the rows of some groups, in one scan."""
        self.problem.sums.expect(candidates)
