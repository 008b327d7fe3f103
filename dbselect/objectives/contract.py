"""The contract between a search and an objective."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, Self, TypeGuard, TypeVar, runtime_checkable

from dbselect.errors import ArgumentError
from dbselect.record.gram import Vector


class MonotoneObjective(Protocol):
    """A monotone objective with its selected candidates.

    Candidates are numbered from 0: groups of columns, single columns, rows. The value of a set
    never falls when a candidate is added; that of the empty set is 0.
    """

    @property
    def value(self) -> float:
        """f(S) of the selected candidates."""

    def add(self, candidate: int) -> float:
        """Select a candidate and return its gain."""


class Objective(MonotoneObjective, Protocol):
    """An objective with its selected candidates, and the gains of all others."""

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
        """Remove a selected candidate and return its loss."""

    def copy(self) -> Self:
        """Return an independent copy, so that several sets can be evaluated side by side."""


@runtime_checkable
class ReadsAhead(Protocol):
    """An objective that can read the rows of several candidates in one pass."""

    @property
    def most(self) -> float:
        """An upper bound on the value of any set, without reading the rows of all candidates."""

    def expect(self, candidates: Sequence[int]) -> None:
        """Read the rows that are needed to select the candidates."""


O = TypeVar("O", bound=Objective)  # noqa: E741 - the objective


def with_added(objective: O, candidates: Sequence[int]) -> O:
    """Return a copy of an objective with more candidates selected; a score is not evaluated."""
    copied = objective.copy()
    if candidates:
        getattr(copied, "hold", copied.add_all)(candidates)
    return copied


def check_unselected(name: str, objective: Objective) -> None:
    """Refuse an objective with selected candidates."""
    if objective.held:
        raise ArgumentError(
            f"{name} has {len(objective.held)} candidates selected; it must have none"
        )


def ask_sets(objective: object, sets: Iterable[Sequence[int]]) -> None:
    """Evaluate several sets in one batch, if the objective takes batches."""
    ask = getattr(objective, "ask", None)
    if ask is not None:
        ask(sets)


def sets_around(objective: object) -> list[list[int]]:
    """Return the sets of the gains and losses of an objective that takes batches."""
    around: Callable[[], list[list[int]]] = getattr(objective, "around", list)
    return around()


def ask_around(objectives: Sequence[object]) -> None:
    """Evaluate the gains and losses of copies of one objective in a batch, if it takes batches."""
    sets = [held for objective in objectives for held in sets_around(objective)]
    if sets:
        ask_sets(objectives[0], sets)


class SetFunction(ABC):
    """Base class of objectives whose value depends on the selected set alone."""

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
        """Remove a selected candidate and return its loss."""
        return -self._become([other for other in self.held if other != candidate])

    def copy(self) -> Self:
        """Return an independent copy; data that no selection changes are shared."""
        copied = copy.copy(self)
        copied.held = list(self.held)
        return copied

    def _become(self, held: list[int]) -> float:
        before, previous = self.value, self.held
        self.held = held
        try:
            return self.value - before
        except BaseException:
            self.held = previous
            raise


def is_objective(value: object) -> TypeGuard[Objective]:
    """Whether a value is an objective."""
    return hasattr(value, "add_all") and hasattr(value, "gains")
