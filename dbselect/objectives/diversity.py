"""Diversity as a term of an objective: the share of clusters of columns that are covered."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import scipy

from dbselect.linear.problem import Index
from dbselect.objectives.contract import (
    Objective,
    SetFunction,
    ask_sets,
    sets_around,
    with_added,
)
from dbselect.record.gram import Matrix, Vector

First = TypeVar("First", bound=Objective)


class Coverage(SetFunction):
    """d(S) = weight times the share of clusters with a selected candidate.

    Monotone and submodular: a candidate adds the clusters that were not covered before.

    Parameters
    ----------
    covers : shape (n, clusters), whether a candidate has a column in a cluster
    weight : >= 0, d of all candidates

    Examples
    --------
    >>> import dbselect as ds
    >>> import numpy as np
    >>> covers = np.array([[True, False, False], [True, True, False]])
    >>> ds.objectives.Coverage(covers, 3.0).gains().tolist()
    [1.0, 2.0]
    """

    def __init__(self, covers: npt.NDArray[np.bool_], weight: float) -> None:
        self.covers = covers
        self.weight = weight
        self.held: list[int] = []

    @property
    def size(self) -> int:
        """Number of candidates."""
        return len(self.covers)

    @property
    def value(self) -> float:
        """Diversity of the selected candidates."""
        return self._worth(self._times() > 0)

    def gains(self) -> Vector:
        """Return the gain of each candidate; 0 for the selected ones."""
        gains = self._share(self.covers[:, self._times() == 0])
        gains[self.held] = 0.0
        return gains

    def losses(self) -> Vector:
        """Return the loss of removing each selected candidate."""
        losses = np.zeros(self.size)
        losses[self.held] = self._share(self.covers[self.held][:, self._times() == 1])
        return losses

    def _times(self) -> npt.NDArray[np.intp]:
        """Return how many selected candidates cover each cluster."""
        return np.asarray(self.covers[self.held].sum(axis=0))

    def _share(self, covers: npt.NDArray[np.bool_]) -> Vector:
        return np.asarray(self.weight * covers.sum(axis=1) / self.covers.shape[1])

    def _worth(self, covered: npt.NDArray[np.bool_]) -> float:
        return float(self.weight * covered.mean())


def _of_both(name: str) -> Any:
    def both(self: "Sum[Any]", *arguments: Any) -> Any:
        """Return the sum of both results."""
        return getattr(self.first, name)(*arguments) + getattr(self.second, name)(*arguments)

    return both


@dataclass
class Sum(Generic[First]):
    """An objective plus a diversity, over the same candidates."""

    first: First
    second: Objective

    @property
    def size(self) -> int:
        """Number of candidates."""
        return self.first.size

    @property
    def held(self) -> list[int]:
        """The selected candidates."""
        return self.first.held

    @property
    def value(self) -> float:
        """The sum of both values."""
        return self.first.value + self.second.value

    gains, losses = _of_both("gains"), _of_both("losses")
    add, add_all, remove = _of_both("add"), _of_both("add_all"), _of_both("remove")

    def ask(self, sets: Iterable[Sequence[int]]) -> None:
        """Evaluate several sets in one batch, if the objective takes batches."""
        ask_sets(self.first, sets)

    def around(self) -> list[list[int]]:
        """Return the sets that the objective evaluates for its gains and losses."""
        return sets_around(self.first)

    def hold(self, candidates: Sequence[int]) -> None:
        """Select several candidates, without evaluating a score."""
        self.first = with_added(self.first, candidates)
        self.second = with_added(self.second, candidates)

    def copy(self) -> "Sum[First]":
        """Return an independent copy."""
        return Sum(self.first.copy(), self.second.copy())


def coverage_of(G: Matrix, members: Sequence[Index], similarity: float, weight: float) -> Coverage:
    """Cover clusters of average correlation above `similarity`; zero rows are constant columns."""
    labels = np.zeros(len(G), dtype=np.intp)
    if len(G) > 1:
        distance = 1.0 - np.clip(np.abs(G), 0.0, 1.0)
        np.fill_diagonal(distance, 0.0)
        tree = scipy.cluster.hierarchy.linkage(
            scipy.spatial.distance.squareform(distance, checks=False), method="average"
        )
        labels = scipy.cluster.hierarchy.fcluster(tree, 1.0 - similarity, criterion="distance") - 1
    covers = np.zeros((len(members), labels.max() + 1), dtype=bool)
    for candidate, columns in enumerate(members):
        covers[candidate, labels[columns]] = True
    return Coverage(covers, weight)
