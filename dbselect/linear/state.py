"""Linear state: the selected groups of a linear problem and the gains of the others.

The computation is in the compiled library, `native/src/linear/state.rs`: a new group costs
O(D |S| |g|), a full sequence O(D^3). Memory: at most 8 D^2 bytes for U, and as much for the
coefficients; correlations are not copied.

Source: Hu, Grubb, Bagnell, Hebert (2016), eq. 1 and section 3.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dbselect._native import LinearProblem
from dbselect.record.gram import Matrix, Vector

Index = npt.NDArray[np.intp]

#: A column is aliased if its conditional variance is below this share of its variance: the error
#: is about 1e-15 for a small w, so a larger conditional variance has at least three digits.
RANK_SHARE = 1e-12
#: Removing a column whose weight in an aliased column is below this leaves that one aliased: the
#: square stays below RANK_SHARE even if a hundred of them add up.
DEPENDENT_WEIGHT = 1e-7

#: Codes of the quantities of a state, as in `dbselect_linear_read`.
GAINS, LOSSES, GRADIENT, LEFT, COEF, COEFFICIENTS, RESPONSE_GAINS = range(7)
EXPLAINED, DEGREES, CONDITION, INDEFINITE, INVERSE, COORDINATES = range(7, 13)


class LinearState:
    """The selected groups of a `linear.problem.Linear`, and the gains of the others.

    A problem without a dense G provides ``rows`` on demand, and ``blocks`` of groups.
    """

    def __init__(self, problem: Any, members: Sequence[Index]) -> None:
        self.problem = problem
        self.members = members
        self._select([])

    def _select(self, held: Sequence[int]) -> None:
        """Replace the selection."""
        self._select_of(self.members, held)

    def _select_of(self, members: Sequence[Index], held: Sequence[int]) -> None:
        self.selection = _problem_of(self.problem, members).state()
        for group in held:
            self.selection.add([group])

    def _number(self, what: int) -> float:
        return float(self.selection.read(what, (1,))[0])

    @property
    def blocked(self) -> Iterable[tuple[Index, Index]]:
        """The groups whose blocks are formed, by size (`by_size`)."""
        return by_size(self.members)

    @property
    def apart(self) -> Sequence[tuple[int, Any]]:
        """The groups whose blocks are not formed, each with its `LevelBlock`."""
        return []

    @property
    def size(self) -> int:
        """J, the number of groups."""
        return len(self.members)

    @property
    def held(self) -> list[int]:
        """The selected groups."""
        return list(self.selection.selected()[0])

    @property
    def support(self) -> list[int]:
        """The columns of the selected groups that are not aliased, in the order of rows of U."""
        return list(self.selection.selected()[1])

    @property
    def aliased(self) -> list[int]:
        """The columns of the selected groups that depend on earlier ones, in order."""
        return sorted(self.selection.selected()[2])

    @property
    def variance(self) -> Vector:
        """The diagonal of C; shape (D,)."""
        return np.asarray(self.problem.variances + self.problem.ridge)

    @property
    def b(self) -> Matrix:
        """The gradient of each response; shape (K, D)."""
        return self.selection.read(GRADIENT, np.atleast_2d(self.problem.c).shape)

    @property
    def explained(self) -> float:
        """F of the selected groups, as a share of the target's variance."""
        return min(self._number(EXPLAINED), 1.0)  # rounding may exceed 1

    @property
    def value(self) -> float:
        """The objective of a search: `explained`."""
        return self.explained

    @property
    def is_indefinite(self) -> bool:
        """Whether a conditional variance is negative, which no rows can have."""
        return bool(self._number(INDEFINITE))

    def gains(self) -> Vector:
        """Return gain(g | S) of each of the J groups; 0 for the selected ones."""
        return self.selection.read(GAINS, (self.size,))

    def losses(self) -> Vector:
        """Return loss(g | S) after aliased columns replace g; 0 if not selected. O(|S|^2)."""
        return self.selection.read(LOSSES, (self.size,))

    def factor(self, columns: Index) -> Matrix:
        """Return columns of U, with a row for each column of `support`."""
        return self.selection.factor(columns, len(self.selection.selected()[1]))

    def add(self, group: int) -> float:
        """Select a group and return its gain."""
        return self.add_all([group])

    def add_all(self, groups: Sequence[int]) -> float:
        """Select several groups at once and return their joint gain."""
        return self.selection.add(groups)

    def remove(self, group: int) -> float:
        """Remove a selected group and return its loss."""
        return self.selection.remove(group)

    def dependent(self) -> tuple[Index, Vector, Vector]:
        """Return dependent columns, their conditional variances and squared gradients (shares)."""
        remaining, variance = self.selection.read(LEFT, self.variance.shape), self.variance
        depends = remaining <= RANK_SHARE * variance
        depends[self.selection.selected()[2]] = True
        depends &= (variance > 0) & ~self.problem.constant
        depends[self.selection.selected()[1]] = False
        columns = np.flatnonzero(depends)
        total = variance[columns]
        return columns, remaining[columns] / total, (self.b[:, columns] ** 2).sum(axis=0) / total

    def settled(self) -> Self:
        """Return the state in which the last of dependent columns are aliased."""
        return self

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        copied.selection = self.selection.copy()
        return copied

    def __copy__(self) -> Self:
        return self.copy()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "selection": self.held}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept)
        self._select(kept["selection"])

    def coef(self) -> Vector:
        """Return w(S) on unit-variance columns; shape (D,), or (K, D) for several responses."""
        return self.selection.read(COEF, self.problem.c.shape)

    def coefficients(self) -> Matrix:
        """Return w(S) after 0, 1, 2, ... groups; shape (groups + 1, D), or (.., K, D)."""
        return self.selection.read(
            COEFFICIENTS, (len(self.selection.selected()[0]) + 1, *self.problem.c.shape)
        )

    def response_gains(self) -> Matrix:
        """Return the gain of each response by each group added so far; shape (groups added, K)."""
        responses = len(np.atleast_2d(self.problem.c))
        return self.selection.read(RESPONSE_GAINS, (len(self.selection.selected()[0]), responses))

    def degrees(self) -> float:
        """Return tr(C_SS^-1 G_SS), the effective number of columns; the rank at ridge 0."""
        return self._number(DEGREES)

    def condition(self) -> float:
        """Bound the condition number of C_SS, in the 1-norm."""
        return self._number(CONDITION)

    def inverse_factor(self) -> Matrix:
        """Return ``L'^-1``, upper triangular."""
        rank = len(self.selection.selected()[1])
        return self.selection.read(INVERSE, (rank, rank)).T

    def coordinates(self) -> Matrix:
        """Return the coordinates of each response; their squares add up to F; shape (K, |S|)."""
        responses = len(np.atleast_2d(self.problem.c))
        return self.selection.read(COORDINATES, (len(self.selection.selected()[1]), responses)).T


def explained(C: Matrix, c: Vector, scale: Vector) -> float:
    """Return ``c' C^-1 c`` over the columns that are not aliased relative to `scale`."""
    if not len(c):
        return 0.0
    none = np.zeros(len(c))
    problem = LinearProblem(
        [np.arange(len(c))], c[None], none, none, np.diagonal(C), none > 0,
        correlations=C, scale=scale,
    )  # fmt: skip
    return problem.state().add([0])


def shares_columns(members: Sequence[Index]) -> bool:
    """Whether a column lies in two groups."""
    return bool(np.bincount(np.concatenate([np.empty(0, np.intp), *members])).max(initial=0) > 1)


def by_size(members: Sequence[Index]) -> Iterator[tuple[Index, Index]]:
    """Yield the groups by size: numbers, shape (B,), and columns, shape (B, size)."""
    sizes = np.array([len(columns) for columns in members])
    for size in np.unique(sizes):
        groups = np.flatnonzero(sizes == size)
        columns = np.concatenate([members[group] for group in groups.tolist()])
        yield groups, columns.reshape(len(groups), size)


def _problem_of(problem: Any, members: Sequence[Index]) -> LinearProblem:
    target = np.atleast_2d(problem.c)
    numbers = target, problem.ridge, problem.unit, problem.variances, problem.constant
    if len(problem.G) == len(problem.ridge):
        return LinearProblem(members, *numbers, correlations=problem.G, scale=problem.scale)
    by_group: list[Any] = [np.empty(0)] * len(members)
    for groups, columns in by_size(members):
        blocks = problem.blocks(columns) if columns.shape[1] else np.empty((len(groups), 0, 0))
        for group, block in zip(groups.tolist(), blocks, strict=True):
            by_group[group] = block.ravel()
    blocks = np.concatenate([np.empty(0), *by_group])
    return LinearProblem(
        members, *numbers, blocks=blocks, read_rows=problem.rows, scale=problem.scale
    )
