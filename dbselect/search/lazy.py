"""Search of a table that is too wide for its Gram; only some rows of the Gram are read.

The result is the sequence on the Gram of the groups that were taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.linear.condition import check_held
from dbselect.linear.lazy_gram import LazyGram, WideLevelState, WideState, distinct_columns
from dbselect.linear.level_state import LevelState, beside_levels, fitted_rows_of
from dbselect.linear.problem import Index
from dbselect.record.dependences import LevelGroup, shares_of
from dbselect.record.gram import Matrix, Vector
from dbselect.record.groups import Groups, numbers_of
from dbselect.record.steps import Choice, Step, Stop, fits, held_after
from dbselect.results.call import Call
from dbselect.results.model import Model
from dbselect.results.wide import WideSequence
from dbselect.search.gram import GramSearch, prefix_coefficients
from dbselect.search.protocol import Search
from dbselect.search.wide_table import WideTable, wide_table
from dbselect.selection.criteria import RULES, Criterion
from dbselect.spec.spec import Spec


@dataclass(eq=False)
class LazySearch(Search):
    """A linear problem on rows of its Gram, which are read when the state needs them."""

    table: WideTable  # read once
    members: list[Index]  # positions of the columns of each group
    sums: LazyGram  # reads the rows that the state needs
    chosen: Mapping[int, Choice] = field(default_factory=dict)  # of the groups of a resumed search
    before: Groups | None = None  # the groups before screening left some out
    levels: int | None = None  # number of the group that is summed by level

    @cached_property
    def state(self) -> WideState:
        """The selected groups, none at first; the rows of `first` are read in one scan."""
        spec = self.call.problem
        problem = self.table.problem(self.sums, spec.ridge, spec.scale)
        ends = np.cumsum([0, *map(len, self.members[:-1])])
        promise = np.add.reduceat(problem.c[np.concatenate(self.members)] ** 2, ends)
        self.sums.promise = promise / self.groups.prices.offers([]).counted
        self.sums.expect(self.first)
        if self.levels is not None:
            return WideLevelState(problem, self.members, self.levels)
        return WideState(problem, self.members)

    def criterion(self, rule: str, budget: float | None = None) -> Criterion:
        """Return the criterion that a rule maximises; its scores rank the groups to read ahead."""
        criterion = RULES[rule].criterion(self.state)

        def scores(state: Any) -> Vector:
            values = criterion(state)
            self.sums.promise = values / self.groups.prices.offers(state.held).counted
            return values

        return scores

    def named(self, step: Step) -> Step:
        """Return a step; a group of a resumed search keeps its original choice."""
        choice = self.chosen.get(step.group) if step.choice is Choice.FORCED else None
        return step if choice is None else replace(step, choice=choice)

    def sequence(self, rule: str, steps: list[Step], kept: list[Any], stop: Stop) -> WideSequence:
        """Build the sequence on the Gram of the groups that were taken."""
        # A sequence needs a group, even if none was taken.
        taken = list(dict.fromkeys(step.group for step in steps))
        search, levels = self.among(taken or [0], is_read=bool(taken))
        number = {group: at for at, group in enumerate(taken)}
        numbered = [replace(step, group=number[step.group]) for step in steps]
        coef = _replayed(search, numbered)
        search.state = search.state.settled()
        sequence = search.sequence(rule, numbered, list(coef), stop)
        all_groups = self.before or self.groups
        return WideSequence(
            **vars(sequence),
            by_level=levels,
            scans=self.table.scans.count,
            rows_fetched=self.sums.rows_fetched,
            n_groups=len(all_groups.names),
            n_columns=len(all_groups.members),
            n_searched=len(self.groups.members),
        )

    def model(self, state: WideState) -> Model:
        """Return the model on the selected groups of a state, whose rows were read."""
        chosen = state.held
        search, levels = self.among(chosen)
        search.state.add_all(range(len(chosen)))
        settled = search.state.settled()
        check_held(settled, search.groups.members)
        is_chosen = 0 < len(chosen) < len(self.groups.names)
        ridge = self.call.problem.ridge
        fit = fitted_rows_of(search.gram, search.groups.members, settled, ridge, is_chosen)
        model = Model(**search.parts(settled), fit=fit)
        if levels is None:
            return model
        shares = shares_of(search.gram, levels, search.groups.columns[levels.group])
        return replace(model, terms=model.terms.with_shares(shares))

    def among(
        self, chosen: Sequence[int], *, is_read: bool = True
    ) -> tuple[GramSearch, LevelGroup | None]:
        """Return the search of some groups, none selected, and the sums by level outside its Gram.

        Correlations of columns whose rows were not read are 0.
        """
        groups = self.groups.only(chosen)
        by_row = [group for group in chosen if group != self.levels]
        at = distinct_columns(self.members[group] for group in by_row)
        target, columns = self.table.target, self.groups.only(by_row).members
        comoment = self.table.comoment(at, self.sums.among(at) if is_read and by_row else None)
        gram = self.table.gram([*columns, target], comoment)
        spec = self.call.problem
        if len(by_row) == len(chosen):
            return GramSearch(self.call, groups, [], gram), None
        assert self.levels is not None
        levels = self._level_group(at, is_read=is_read)
        beside: Any = beside_levels(gram, target, groups, levels, spec.ridge, spec.scale)
        search = GramSearch(self.call, groups, [], gram)
        search.linear = beside
        number = groups.number(levels.group, "groups")
        search.state = LevelState(beside, groups.positions, number)
        return search, levels

    def _level_group(self, others: Index, *, is_read: bool) -> LevelGroup:
        assert self.levels is not None
        assert isinstance(self.state, WideLevelState)
        problem, at = self.state.whole, self.members[self.levels]
        totals = self.table.totals
        weight = totals.means[0][at] * float(totals.weight[-1])
        target = totals.products[at][:, None]
        between = problem.by_level(at).sums(others) if is_read and len(others) else target[:, :0]
        return LevelGroup(self.groups.names[self.levels], weight, np.hstack([between, target]))


def lazy_search(
    problem: Spec, call: Call, *, sharing: bool = False, adds_only: bool = False
) -> LazySearch:
    """Read a table once, match its groups and set up the search, like `gram_search`."""
    table = wide_table(problem)
    groups, members, levels = table.matched(
        problem.groups, problem.costs, sharing, adds_only, problem.told
    )
    sums = LazyGram(table.scans, members, levels)
    first = numbers_of(problem.always, groups)
    return LazySearch(call, groups, first, table, members, sums, levels=levels)


def resumed(
    search: LazySearch, before: WideSequence, budget: float | None, max_groups: int | None
) -> LazySearch:
    """Return a search that starts from the final groups of an earlier one."""
    groups, names = search.groups, before.groups.names
    missing = [names[g] for g in held_after(before.records) if names[g] not in groups.columns]
    if missing:
        raise ArgumentError(f"resume has group '{missing[0]}', which this search has not")
    number = {g: groups.number(names[g], "resume") for g in held_after(before.records)}
    first = list(dict.fromkeys([*search.first, *number.values()]))
    spent = groups.spent(first)
    if max_groups is not None and len(first) > max_groups:
        raise ArgumentError(f"resume has {len(first)} groups; max_groups allows {max_groups}")
    if not fits(spent, budget):
        raise ArgumentError(f"resume spent {spent:g}; that is over the budget of {budget}")
    chosen = {
        number[step.group]: step.choice
        for step in before.records
        if step.group in number and number[step.group] not in search.first
    }
    return replace(search, first=first, chosen=chosen)


def _replayed(search: GramSearch, steps: Sequence[Step]) -> Matrix:
    """Repeat steps, and return the coefficients after each; shape (steps + 1, D)."""
    state = search.state
    if all(step.action == "add" for step in steps):
        for step in steps:
            state.add(step.group)
        return state.coefficients() if state.apart else prefix_coefficients(search)
    coef = [state.coef()]
    for step in steps:
        (state.add if step.action == "add" else state.remove)(step.group)
        coef.append(state.coef())
    return np.array(coef)


def screened(search: LazySearch, most: int) -> LazySearch:
    """Restrict a search to `always` and the most promising groups, of `most` columns in all.

    The promise of a group is the largest squared correlation of a column with the target, per cost.
    That is not exact: if two columns have correlation r, and correlations 0 and s with the target,
    the first gains ``(r s)^2 / (1 - r^2)`` after the second, which may be nearly all that is left.
    The search itself is exact.

    Source: Fan, Lv (2008), Sure independence screening for ultrahigh dimensional feature space,
    Journal of the Royal Statistical Society B 70: with probability to 1 nothing that matters is
    left out, if what matters is correlated with the target by itself.
    """
    kept = _best(search, most)
    number = {group: at for at, group in enumerate(kept)}
    at = np.unique(np.concatenate([search.members[group] for group in kept]))
    table = search.table.of_columns(at)
    members = [np.searchsorted(at, search.members[group]) for group in kept]
    levels = None if search.levels is None else number.get(search.levels)
    return replace(
        search,
        table=table,
        groups=search.groups.only(kept),
        members=members,
        sums=LazyGram(table.scans, members, levels),
        levels=levels,
        first=[number[group] for group in search.first],
        chosen={number[group]: choice for group, choice in search.chosen.items()},
        before=search.groups,
    )


def _best(search: LazySearch, most: int) -> list[int]:
    """Return the groups to keep, ascending; ties go to the first group."""
    kept = set(search.first)
    columns = set(distinct_columns(search.members[group] for group in kept).tolist())
    if len(columns) > most:
        raise ArgumentError(
            f"screen is {most}; the groups to take first have {len(columns)} columns"
        )
    for group in _by_promise(search):
        if len(columns) == most:
            break
        new = [column for column in search.members[group].tolist() if column not in columns]
        if len(columns) + len(new) <= most:
            kept.add(group)
            columns.update(new)
    if not kept:
        smallest = min(map(len, search.members))
        raise ArgumentError(f"screen is {most}; the smallest group has {smallest} columns")
    return sorted(kept)


def _by_promise(search: LazySearch) -> Sequence[int]:
    """Return the groups by falling promise, equal ones in their order."""
    totals = search.table.totals
    squares = totals.squares[:-1] * totals.squares[-1]
    shares: Vector = np.zeros(len(squares))
    np.divide(totals.products[:-1] ** 2, squares, out=shares, where=squares > 0)
    ends = np.cumsum([0, *map(len, search.members[:-1])])
    largest = np.maximum.reduceat(shares[np.concatenate(search.members)], ends)
    order: list[int] = np.argsort(
        -largest / search.groups.prices.offers([]).counted, kind="stable"
    ).tolist()
    return order
