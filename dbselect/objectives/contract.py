"""The contract between a search and an objective, whatever it selects."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Protocol, Self, TypeGuard, TypeVar, runtime_checkable

from dbselect.errors import ArgumentError
from dbselect.record.gram import Vector


class MonotoneObjective(Protocol):
    """Selected candidates, to which others are added.

    Candidates are numbered from 0: groups of columns, single columns, rows. The value of a set
    never falls when a candidate is added; that of the empty set is 0.
    """

    @property
    def value(self) -> float:
        """f(S) of the selected candidates."""

    def add(self, candidate: int) -> float:
        """Select a candidate and return its gain."""


class Objective(MonotoneObjective, Protocol):
    """Selected candidates, and what every other one would add."""

    @property
    def size(self) -> int:
        """Number of candidates."""

    @property
    def held(self) -> list[int]:
        """The selected candidates."""

    def gains(self) -> Vector:
        """Return f(S + a) - f(S) of each of the n candidates; 0 for the selected ones."""

    def losses(self) -> Vector:
        """Return f(S) - f(S - a) of each of the n candidates; 0 for those not selected."""

    def add_all(self, candidates: Sequence[int]) -> float:
        """Select several candidates at once and return their gain."""

    def remove(self, candidate: int) -> float:
        """Give a selected candidate back and return its loss."""

    def copy(self) -> Self:
        """Return an independent copy, so that several sets can be evaluated side by side."""


@runtime_checkable
class ReadsAhead(Protocol):
    """An objective that reads rows, those of several candidates in one pass."""

    @property
    def most(self) -> float:
        """An upper bound on the value of any set, without reading the rows of all candidates."""

    def expect(self, candidates: Sequence[int]) -> None:
        """Read what is needed to select some candidates."""


O = TypeVar("O", bound=Objective)  # noqa: E741 - the objective


def with_added(objective: O, candidates: Sequence[int]) -> O:
    """Return an objective that changes alone, with some more candidates selected."""
    found = objective.copy()
    if candidates:
        found.add_all(candidates)
    return found


def check_unselected(name: str, objective: Objective) -> None:
    """Refuse an objective that does not begin with the empty set."""
    if objective.held:
        raise ArgumentError(
            f"{name} has {len(objective.held)} candidates selected; it must have none"
        )


def ask_sets(objective: object, sets: Iterable[Sequence[int]]) -> None:
    """Ask at once for the values of some sets, of an objective that has to be asked."""
    ask = getattr(objective, "ask", None)
    if ask is not None:
        ask(sets)


def ask_around(objectives: Sequence[object]) -> None:
    """Ask at once for the gains and losses of copies of one objective that has to be asked."""
    sets = [held for one in objectives for held in getattr(one, "around", list)()]
    if sets:
        ask_sets(objectives[0], sets)


class SetFunction(ABC):
    """An objective that is a function of the selected set: what adding and removing mean then."""

    held: list[int]

    @property
    @abstractmethod
    def value(self) -> float:
        """f(S) of the selected candidates."""

    def add(self, candidate: int) -> float:
        """Select a candidate and return its gain."""
        return self.add_all([candidate])

    def add_all(self, candidates: Sequence[int]) -> float:
        """Select several candidates at once and return their gain."""
        return self._become([*self.held, *candidates])

    def remove(self, candidate: int) -> float:
        """Give a selected candidate back and return its loss."""
        return -self._become([one for one in self.held if one != candidate])

    def copy(self) -> Self:
        """Return a copy that changes alone; what no selection changes is shared."""
        copied = copy.copy(self)
        copied.held = list(self.held)
        return copied

    def _become(self, held: list[int]) -> float:
        before, was = self.value, self.held
        self.held = held
        try:
            return self.value - before
        except BaseException:
            self.held = was
            raise


def is_objective(thing: object) -> TypeGuard[Objective]:
    """Whether a search can run on a thing."""
    return hasattr(thing, "add_all") and hasattr(thing, "gains")
