"""A search of a table too wide for its Gram, of which it reads the rows that it needs.

The result is the sequence on the Gram of the groups that were taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.linear.beside_levels import beside_levels, fitted_rows_of
from dbselect.linear.condition import check_held
from dbselect.linear.lazy_gram import LazyGram, WideLevelState, WideState, each_once
from dbselect.linear.level_state import LevelState
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
    """A linear problem on rows of its Gram, which are read when the state asks for them."""

    table: WideTable  # read once
    members: list[Index]  # the columns of each group, as they stand in the rows
    sums: LazyGram  # reads the rows that the state asks for
    chosen: Mapping[int, Choice] = field(default_factory=dict)  # of groups an earlier search took
    before: Groups | None = None  # the groups before screening left some out
    levels: int | None = None  # number of a group of which sums by level are read

    @cached_property
    def state(self) -> WideState:
        """No group is selected at first; the rows of those to take first are read at once."""
        asked = self.call.problem
        problem = self.table.problem(self.sums, asked.ridge, asked.scale)
        ends = np.cumsum([0, *map(len, self.members[:-1])])
        promise = np.add.reduceat(problem.c[np.concatenate(self.members)] ** 2, ends)
        self.sums.promise = promise / self.groups.costs
        self.sums.expect(self.first)
        if self.levels is not None:
            return WideLevelState(problem, self.members, self.levels)
        return WideState(problem, self.members)

    def criterion(self, rule: str, budget: float | None = None) -> Criterion:
        """Return what a rule maximises per unit of cost; its scores say what to read ahead."""
        criterion = RULES[rule].criterion(self.state)

        def scores(state: Any) -> Vector:
            found = criterion(state)
            self.sums.promise = found / self.groups.counted(state.held)
            return found

        return scores

    def named(self, step: Step) -> Step:
        """Return a step; one of an earlier search among as many groups as it was chosen of."""
        choice = self.chosen.get(step.group) if step.choice is Choice.FORCED else None
        return step if choice is None else replace(step, choice=choice)

    def sequence(self, rule: str, steps: list[Step], kept: list[Any], stop: Stop) -> WideSequence:
        """Return the sequence on the Gram of the groups that were taken."""
        # A sequence has a group, if only one that it did not take.
        taken = list(dict.fromkeys(step.group for step in steps))
        own, levels = self.among(taken or [0], is_read=bool(taken))
        number = {group: at for at, group in enumerate(taken)}
        numbered = [replace(step, group=number[step.group]) for step in steps]
        coef = _again(own, numbered)
        own.state = own.state.settled()
        found = own.sequence(rule, numbered, list(coef), stop)
        every = self.before or self.groups
        return WideSequence(
            **vars(found),
            by_level=levels,
            scans=self.table.scans.count,
            rows_fetched=self.sums.rows_fetched,
            n_groups=len(every.names),
            n_columns=len(every.members),
            n_searched=len(self.groups.members),
        )

    def model(self, state: WideState) -> Model:
        """Return the model on the selected groups of a state, whose rows were read."""
        chosen = state.held
        own, levels = self.among(chosen)
        own.state.add_all(range(len(chosen)))
        settled = own.state.settled()
        check_held(settled, own.groups.members)
        is_chosen = 0 < len(chosen) < len(self.groups.names)
        ridge = self.call.problem.ridge
        fit = fitted_rows_of(own.gram, own.groups.members, settled, ridge, is_chosen)
        model = Model(**own.parts(settled), fit=fit)
        if levels is None:
            return model
        shares = shares_of(own.gram, levels, own.groups.columns[levels.group])
        return replace(model, terms=model.terms.with_shares(shares))

    def among(
        self, chosen: Sequence[int], *, is_read: bool = True
    ) -> tuple[GramSearch, LevelGroup | None]:
        """Return the problem of some groups, none selected, and what its Gram lacks of levels.

        Correlations of columns whose rows were not read are 0.
        """
        groups = self.groups.only(chosen)
        others = [group for group in chosen if group != self.levels]
        at = each_once(self.members[group] for group in others)
        target, columns = self.table.target, self.groups.only(others).members
        comoment = self.table.comoment(at, self.sums.among(at) if is_read and others else None)
        gram = self.table.gram([*columns, target], comoment)
        asked = self.call.problem
        if len(others) == len(chosen):
            return GramSearch(self.call, groups, [], gram), None
        assert self.levels is not None
        levels = self._level_group(at, is_read=is_read)
        beside: Any = beside_levels(gram, target, groups, levels, asked.ridge, asked.scale)
        search = GramSearch(self.call, groups, [], gram)
        search.linear = beside
        number = groups.number(levels.group, "groups")
        search.state = LevelState(beside, groups.positions, number)
        return search, levels

    def _level_group(self, others: Index, *, is_read: bool) -> LevelGroup:
        assert self.levels is not None
        assert isinstance(self.state, WideLevelState)
        problem, own = self.state.whole, self.members[self.levels]
        totals = self.table.totals
        weight = totals.means[0][own] * float(totals.weight[-1])
        target = totals.products[own][:, None]
        between = problem.by_level(own).sums(others) if is_read and len(others) else target[:, :0]
        return LevelGroup(self.groups.names[self.levels], weight, np.hstack([between, target]))


def lazy_search(
    problem: Spec, call: Call, *, sharing: bool = False, adds_only: bool = False
) -> LazySearch:
    """Read a table once, match its groups and set up the search, as `gram_search` does."""
    table = wide_table(problem)
    groups, members, levels = table.matched(problem.groups, problem.costs, sharing, adds_only)
    sums = LazyGram(table.scans, members, levels)
    first = numbers_of(problem.always, groups)
    return LazySearch(call, groups, first, table, members, sums, levels=levels)


def resumed(
    search: LazySearch, before: WideSequence, budget: float | None, max_groups: int | None
) -> LazySearch:
    """Return a search that begins with the groups that an earlier one held in the end."""
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


def _again(search: GramSearch, steps: Sequence[Step]) -> Matrix:
    """Make steps again, and return the coefficients after each; shape (steps + 1, D)."""
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
