"""Base class of the searches, and the loop that runs a walk over their states.

The loop keeps the model after each step, reports progress, and turns an interrupt into the
sequence so far.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dbselect.errors import ArgumentError
from dbselect.linear.blas import one_thread
from dbselect.record.groups import Groups
from dbselect.record.steps import Ended, Record, Step, Stop, fits, name_of
from dbselect.results.call import Call
from dbselect.results.joint import AnySequence
from dbselect.selection.criteria import Criterion
from dbselect.selection.moves import USEFULNESS, Usefulness
from dbselect.sources.progress import Callback, Turn, turns

#: Changes the state of a search, records each step, and returns why it stopped.
Walk = Callable[[Record], Stop]


@dataclass(eq=False)
class Search(ABC):
    """A problem set up for a search: its groups, the state that a walk changes, and its results."""

    call: Call  # the method and its options
    groups: Groups  # J groups, matched to the columns
    first: list[int]  # numbers of the groups to take first

    if TYPE_CHECKING:  # a field or a cached property of each subclass

        @property
        def state(self) -> Any:
            """The selected groups, an `Objective`; empty at first and changed by a walk."""

    @property
    def is_small(self) -> bool:
        """Whether products are so small that one BLAS thread is fastest."""
        return False

    @abstractmethod
    def criterion(self, rule: str, budget: float | None = None) -> Criterion:
        """Return the criterion that a rule maximises per unit of cost."""

    def usefulness(self, backward: str) -> Usefulness:
        """Return the measure by which the least useful group is removed."""
        return USEFULNESS[backward]

    def dependent(self) -> list[str]:
        """Return the selected columns that depend linearly on others; none by default."""
        return []

    def check_held(self) -> None:  # noqa: B027 - only a Gram can be impossible
        """Refuse an impossible Gram, and warn of nearly dependent columns."""

    def kept(self) -> Any:
        """Return what the result keeps of the current state, besides the step."""
        return None

    def compiled(self, rule: str, turn: Turn) -> Any:
        """Run the walk in the compiled library; None if the library lacks it."""
        del rule, turn
        return None

    @abstractmethod
    def sequence(self, rule: str, steps: list[Step], kept: list[Any], stop: Stop) -> Any:
        """Build the sequence of the steps; `kept` is of the states before and after each."""

    @abstractmethod
    def model(self, state: Any) -> Any:
        """Return the model on the selected groups of a state."""

    def named(self, step: Step) -> Step:
        """Return a step as the result stores it."""
        return step

    def progress(
        self, total: int | None, unit: str, callback: Callback | None
    ) -> AbstractContextManager[Turn]:
        """Count the turns of a walk on a terminal, and call back after each."""
        return turns(total, unit, callback)

    def restored(self, steps: Sequence[Step]) -> None:  # noqa: B027 - most states are never half changed
        """Restore the state after the last step, as an interrupt may leave it half changed."""

    def run(
        self,
        rule: str,
        walk: Walk,
        callback: Callback | None,
        *,
        total: int | None = None,
        unit: str = "steps",
    ) -> AnySequence:
        """Run a walk and return its sequence; if it is interrupted, of the steps so far."""
        steps: list[Step] = []
        with self.progress(total, unit, callback) as turn:
            result: AnySequence | None = self.compiled(rule, turn)
            if result is not None:
                return result

            def record(step: Step) -> None:
                kept.append(self.kept())
                steps.append(self.named(step))
                turn(name_of(step, self.groups), step.explained)

            with one_thread(self.is_small):
                kept = [self.kept()]
                try:
                    stop = walk(record)
                except (KeyboardInterrupt, Ended) as ended:
                    stop = ended.stop if isinstance(ended, Ended) else Stop.INTERRUPTED
                    self.restored(steps)
        sequence: AnySequence = self.sequence(rule, steps, kept[: len(steps) + 1], stop)
        return sequence


def check_first(
    groups: Groups, first: Sequence[int], budget: float | None, most: int | None = None
) -> None:
    """Refuse groups of `always` that exceed the budget or the number of groups."""
    cost = groups.spent(first)
    if not fits(cost, budget):
        raise ArgumentError(f"always costs {cost:g} in all; that is over the budget of {budget}")
    if most is not None and len(first) > most:
        raise ArgumentError(f"always names {len(first)} groups; max_groups allows {most}")
