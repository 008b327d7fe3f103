"""The states of a linear problem whose Gram is read row by row."""

from collections.abc import Sequence
from typing import Any

from dbselect.linear.lazy_gram import LazyGram
from dbselect.linear.levels.level_state import LevelState
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
        self._sums.expect(candidates)

    @property
    def _sums(self) -> LazyGram:
        return self.problem.sums  # type: ignore[no-any-return]


class WideLevelState(WideState, LevelState):
    """The same where one of the groups has very many levels."""

    @property
    def _sums(self) -> LazyGram:
        return self._whole.sums  # type: ignore[no-any-return]
