"""Linear problem with a group of levels outside the Gram, and its standard errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbselect.linear.inference import Deviations, FittedRows
from dbselect.linear.level_state import LevelState
from dbselect.linear.levels import ByLevel
from dbselect.linear.problem import Index, Linear, linear
from dbselect.linear.state import LinearState
from dbselect.record.columns import INTERCEPT
from dbselect.record.dependences import LevelGroup
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.groups import Groups

#: Message where a model has no Gram.
NO_GRAM = (
    "the model has a group of so many levels that there is no Gram of its columns, of which this "
    "is computed; summary() and intervals() have its standard errors"
)


@dataclass(frozen=True)
class BesideLevels(Linear):
    """A problem of columns and one group of levels, whose block is never formed."""

    others: Any = None  # the problem of the other columns
    place: Any = None  # shape (D - L,), their positions
    beside: Any = None  # the products of the levels with the other columns

    @property
    def variances(self) -> Vector:
        """The diagonal of G; shape (D,)."""
        return np.where(self.constant, 0.0, 1.0)

    def _number(self, columns: Index) -> Index:
        return np.searchsorted(self.place, columns)

    def rows(self, columns: Index) -> Matrix:
        """Return the rows of G of columns other than levels; shape (k, D)."""
        rows = np.zeros((len(columns), len(self.mean)))
        rows[:, self.place] = self.others.rows(self._number(columns))
        rows[:, self.beside.levels] = self.beside.of(columns).T
        return rows

    def block(self, columns: Index) -> Matrix:
        """Return the block of G of columns other than levels; shape (k, k)."""
        return np.asarray(self.others.block(self._number(columns)))

    def blocks(self, columns: Index) -> Matrix:
        """Return the diagonal blocks of G of B groups of s columns; shape (B, s, s)."""
        return np.asarray(self.others.blocks(self._number(columns)))

    def by_level(self, _: Index) -> ByLevel:
        """Return the products of the levels with all columns."""
        return self.beside  # type: ignore[no-any-return]


def beside_levels(
    gram: Gram, target: str, groups: Groups, levels: LevelGroup, ridge: float, scale: bool
) -> BesideLevels:
    """Set up the problem of groups, one of them levels that are not in the Gram."""
    level_places = groups.positions[groups.number(levels.group, "levels")]
    place = np.delete(np.arange(len(groups.members)), level_places)
    others = linear(gram, target, [groups.members[j] for j in place.tolist()], ridge, scale)
    share, root = levels.weight / gram.weight, np.sqrt(gram.weight)
    deviation = np.sqrt(np.maximum(share * (1.0 - share), 0.0))
    constant = deviation == 0

    def joined(of_others: Any, of_levels: Any) -> Any:
        values = np.empty(len(groups.members), dtype=of_levels.dtype)
        values[place], values[level_places] = of_others, of_levels
        return values

    spread = joined(others.spread, np.where(constant, 1.0, deviation))
    is_constant = joined(others.constant, constant)
    mean = joined(others.mean, share)
    unit = np.ones_like(spread) if scale else spread
    inverse = np.where(is_constant, 0.0, 1.0 / (spread * root))
    c = levels.sums[:, -1] * inverse[level_places] / (others.target_spread * root)
    sums = levels.sums[:, :-1]
    return BesideLevels(
        G=np.empty((0, 0)),
        c=joined(others.c, c),
        ridge=ridge / unit**2,
        unit=unit,
        spread=spread,
        constant=is_constant,
        mean=mean,
        target_mean=others.target_mean,
        target_spread=others.target_spread,
        others=others,
        place=place,
        beside=ByLevel(sums, place, None, len(mean), levels.weight, mean, inverse, level_places),
    )


def fitted_rows_of(
    gram: Gram, names: Sequence[str], state: LinearState, ridge: float, chosen: bool
) -> FittedRows:
    """Return the rows of a state's model, with standard errors if it has levels and no Gram."""
    if not (isinstance(state, LevelState) and state.is_within):
        return FittedRows(gram, ridge, chosen)
    deviations = None if ridge else _deviations(gram, names, state)
    return FittedRows(None, ridge, chosen, known=deviations, without=NO_GRAM)


def _deviations(gram: Gram, names: Sequence[str], state: LevelState) -> Deviations:
    problem: Any = state.whole
    free = gram.rows - state.rank - 1
    total = float(problem.target_spread) ** 2 * gram.weight
    variance = max(1.0 - state.explained, 0.0) * total / free if free > 0 else np.nan
    unit = 1.0 / (problem.spread * np.sqrt(gram.weight))
    intercept = np.sqrt(variance * (1.0 / gram.weight + state.lever(problem.mean * unit)))
    diagonal = state.inverse_diagonal()
    kept = np.flatnonzero(diagonal)
    errors = np.sqrt(variance * diagonal[kept]) * unit[kept]
    by_name = {names[j]: e for j, e in zip(kept.tolist(), errors.tolist(), strict=True)}
    share = (problem.spread / float(problem.target_spread)).tolist()
    spread = {names[j]: share[j] for j in kept.tolist()}
    return Deviations({INTERCEPT: float(intercept), **by_name}, free, spread)
