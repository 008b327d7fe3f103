"""State of a linear problem with a group of very many levels, in or beside its Gram.

Until they are selected, the levels are columns like others, except for their block; then the
problem becomes that of all other columns within levels (`linear.levels`), and the search continues
in it.

Cost: adding or removing the levels rebuilds the state, O(D |S|^2); their gain is O(L |S|^2) per
step.

Source: Frisch, Waugh (1933), Lovell (1963): the part that columns explain beyond the levels is what
they explain within levels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dbselect.linear.inference import Deviations, FittedRows
from dbselect.linear.levels import ByLevel, LevelBlock, WithinLevels
from dbselect.linear.problem import Index, Linear, linear
from dbselect.linear.state import DEPENDENT_WEIGHT, LinearState, explained
from dbselect.record.columns import INTERCEPT
from dbselect.record.dependences import LevelGroup
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.groups import Groups


class LevelState(LinearState):
    """State of a problem with ``by_level``, where group number `group` is the levels.

    The library's state has all groups except the levels, on the whole problem or within levels.
    """

    problem: Any

    def __init__(self, problem: Any, members: Sequence[Index], group: int) -> None:
        self._whole = problem
        self._group = group
        self._levels = LevelBlock.of(problem, members[group])
        self._within: WithinLevels | None = None
        self._unsettled: WithinLevels | None = None
        self._held: list[int] = []
        super().__init__(problem, members)

    @property
    def blocked(self) -> Iterator[tuple[Index, Index]]:
        """The groups except the levels, by size."""
        for groups, columns in super().blocked:
            rest = groups != self._group
            if rest.any():
                yield groups[rest], columns[rest]

    @property
    def apart(self) -> list[tuple[int, LevelBlock]]:
        """The group of levels, for rules that leave out the ridge."""
        return [(self._group, LevelBlock.of(self._whole, self._levels.columns, ridge=False))]

    @property
    def held(self) -> list[int]:
        """The selected groups."""
        return list(self._held)

    @property
    def whole(self) -> Any:
        """The problem of all columns, whether or not the levels are selected."""
        return self._whole

    @property
    def is_within(self) -> bool:
        """Whether the levels are selected."""
        return self.problem is not self._whole

    @property
    def explained(self) -> float:
        """F of the selected groups, as a share of the target's variance."""
        levels = self.problem.explained if self.is_within else 0.0
        return min(super().explained + levels, 1.0)

    @property
    def rank(self) -> int:
        """The number of columns of the selected groups that are not aliased."""
        return len(self.support) + (int(self._levels.kept.sum()) if self.is_within else 0)

    @property
    def aliased(self) -> list[int]:
        """The columns of the selected groups that depend on earlier ones, in order."""
        of_levels = self._levels.columns[~self._levels.kept].tolist()
        return sorted({*super().aliased, *of_levels})

    def gains(self) -> Vector:
        """Return gain(g | S) of each of the J groups; 0 for the selected ones.

        With ``U = L^-1 C_S.`` the problem of S within levels is that of ``I - U_h C_hh^-1 U_h'``.
        """
        gains = super().gains()
        if self.is_within:
            return gains
        columns = self._levels.columns
        U, c = self.factor(columns), self._whole.c[columns]
        solved = self._levels.solve(U.T)
        (z,) = self.coordinates()
        within = explained(np.eye(len(U)) - U @ solved, z - c @ solved, np.ones(len(U)))
        gain = float(c @ self._levels.solve(c)) + within - float(z @ z)
        gains[self._group] = max(gain, 0.0)
        return gains

    def losses(self) -> Vector:
        """Return loss(g | S) of each of the J groups; 0 for those not selected."""
        losses = super().losses()
        if self.is_within:
            losses[self._group] = max(self.explained - self._without_levels(), 0.0)
        return losses

    def _without_levels(self) -> float:
        """Return F of the selected groups without the levels."""
        columns = np.array([*self.support, *super().aliased], dtype=np.intp)
        columns = columns[~self._whole.constant[columns]]
        C = self._whole.block(columns)
        C[np.diag_indices_from(C)] += self._whole.ridge[columns]
        return explained(C, self._whole.c[columns], np.diagonal(C))

    def add_all(self, groups: Sequence[int]) -> float:
        """Select several groups at once and return their joint gain."""
        if self._group not in groups:
            self._held += groups
            return super().add_all(groups)
        before = self.explained
        self._select([*self.held, *groups])
        return self.explained - before

    def remove(self, group: int) -> float:
        """Remove a selected group and return its loss."""
        if group != self._group:
            loss = super().remove(group)
            # The library re-added groups that depended on it, at the end.
            order = super().held
            places = [self._held.index(other) for other in order]
            falls = (at for at in range(1, len(order)) if places[at] < places[at - 1])
            end = next(falls, len(order))
            stay = {self._group, *order[:end]}
            self._held = [other for other in self._held if other in stay] + order[end:]
            return loss
        before = self.explained
        self._select([other for other in self.held if other != group])
        return before - self.explained

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = super().copy()
        copied._held = list(self._held)
        return copied

    def _select(self, held: Sequence[int]) -> None:
        """Replace the selection."""
        self.problem = self._inside() if self._group in held else self._whole
        rest = [group for group in held if group != self._group]
        members = list(self.members)
        members[self._group] = np.empty(0, np.intp)
        self._select_of(members, rest)
        self._held = list(held)

    def _inside(self) -> WithinLevels:
        if self._within is None:
            self._within = WithinLevels.of(self._whole, self._levels, self._beside)
        return self._within

    @property
    def _beside(self) -> ByLevel:
        return self._whole.by_level(self._levels.columns)  # type: ignore[no-any-return]

    def dependent(self) -> tuple[Index, Vector, Vector]:
        """Return dependent columns, including those constant within levels up to rounding."""
        dependent = super().dependent()
        if self.is_within:
            within = self._inside() if self._unsettled is None else self._unsettled
            lost, variance = within.lost, self._whole.variances
            remaining, squares = (values[lost] / variance[lost] for values in within.unclipped)
            parts = zip(dependent, (lost, remaining, squares), strict=True)
            columns, share, square = (np.concatenate(pair) for pair in parts)
            dependent = columns.astype(np.intp), share, square
        return dependent

    def settled(self) -> Self:
        """Return the state in which levels, not columns of earlier groups, are aliased."""
        if not self.is_within:
            return self
        before = self.held[: self.held.index(self._group)]
        free = LevelState(self._whole, self.members, self._group)
        free._select(before)
        lost = sorted({*super().aliased} & {*free.support})
        if not lost:
            return self
        settled = self.copy()
        dropped = np.flatnonzero(~self._levels.kept).tolist()
        settled._levels = LevelBlock.of(
            self._whole, self._levels.columns, [*dropped, *self._dependent_levels(lost)]
        )
        settled._unsettled, settled._within = self._inside(), None
        settled._select(self.held)
        return settled

    def _dependent_levels(self, lost: Sequence[int]) -> list[int]:
        """Return as many levels, the last possible, that depend on these columns and the others."""
        columns, support = np.array(lost), np.array(self.support, dtype=np.intp)
        between = self._beside.of(columns)
        if len(support):
            weights = self.inverse_factor() @ self.factor(columns)
            between -= self._beside.of(support) @ weights
        rest = self._levels.solve(between)
        rest /= np.maximum(np.abs(rest).max(axis=0), np.finfo(float).tiny)
        levels: list[int] = []
        while (weighty := np.flatnonzero((np.abs(rest) > DEPENDENT_WEIGHT).any(axis=1))).size:
            last = int(weighty[-1])
            column = int(np.abs(rest[last]).argmax())
            pivot = rest[:, column]
            rest = np.delete(rest - np.outer(pivot, rest[last] / pivot[last]), column, axis=1)
            rest[last:] = 0.0
            levels.append(last)
        return levels

    def coef(self) -> Vector:
        """Return w(S) of the selected groups, settled, on unit-variance columns; shape (D,)."""
        return self.settled()._coef()

    def _coef(self) -> Vector:
        coef = super().coef()
        if self.is_within:
            columns, support = self._levels.columns, np.array(self.support, dtype=np.intp)
            right = self._whole.c[columns]
            if len(support):
                right = right - self._beside.of(support) @ coef[support]
            coef[columns] = self._levels.solve(right)
        return coef

    def coefficients(self) -> Matrix:
        """Return w(S) after 0, 1, 2, ... of the selected groups; shape (groups + 1, D)."""
        state = LevelState(self._whole, self.members, self._group)
        coef = [state.coef()]
        for group in self.held:
            state.add(group)
            coef.append(state.coef())
        return np.array(coef)

    def degrees(self) -> float:
        """Return tr(C_SS^-1 G_SS), the effective number of columns; the rank at ridge 0."""
        others = super().degrees()
        if not self.is_within:
            return others
        columns = self._levels.columns
        ridge = self._whole.ridge[columns]
        return others + float(self._levels.kept.sum() - ridge @ self.inverse_diagonal()[columns])

    def inverse_diagonal(self) -> Vector:
        """Return the diagonal of C_SS^-1, 0 for other columns; shape (D,)."""
        diagonal = np.zeros(len(self.variance))
        inverse, support = self.inverse_factor(), np.array(self.support, dtype=np.intp)
        diagonal[support] = np.einsum("ij,ij->i", inverse, inverse)
        if self.is_within:
            along = self._levels.solve(self._beside.of(support)) @ inverse
            of_levels = self._levels.inverse_diagonal + np.einsum("lj,lj->l", along, along)
            diagonal[self._levels.columns] = of_levels
        return diagonal

    def lever(self, x: Vector) -> float:
        """Return x' C_SS^-1 x; x has shape (D,)."""
        inverse, support = self.inverse_factor(), np.array(self.support, dtype=np.intp)
        rest = x[support]
        of_levels = 0.0
        if self.is_within:
            levels = x[self._levels.columns]
            solved = self._levels.solve(levels)
            of_levels, rest = float(levels @ solved), rest - self._beside.of(support).T @ solved
        along = rest @ inverse
        return of_levels + float(along @ along)


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
    return FittedRows(None, ridge, chosen, known=deviations)


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
