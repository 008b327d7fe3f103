"""The contract between a search and an objective, whatever it selects."""

from collections.abc import Sequence
from typing import Protocol, Self, TypeGuard, runtime_checkable

from dbselect.record.gram import Vector


class MonotoneObjective(Protocol):
    """Selected candidates, to which others are added.

    Candidates are numbered from 0: groups of columns, single columns, rows. The value
    of a set never falls when a candidate is added; that of the empty set is 0.
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


def is_objective(thing: object) -> TypeGuard[Objective]:
    """Whether a search can run on a thing."""
    return hasattr(thing, "add_all") and hasattr(thing, "gains")
