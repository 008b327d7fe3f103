"""A search of a table too wide for its Gram, of any method that adds and removes groups.

It has what a search on a Gram has (`methods.setup`), so that a method runs on either. What
comes back is the sequence on the Gram of the groups that were taken.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.linear.beside_levels import beside_levels
from dbselect.linear.lazy_gram import LazyGram
from dbselect.linear.level_rows import fitted_rows_of
from dbselect.linear.level_state import LevelState
from dbselect.linear.problem import Index, linear
from dbselect.linear.state import State
from dbselect.linear.wide_state import WideLevelState, WideState
from dbselect.methods.setup import LinearSetup, finish, fitted, numbers_of, prefix_coefficients
from dbselect.methods.types import Costs, GroupColumns, GroupNames, NullPolicy
from dbselect.methods.wide import WideTable, wide_table
from dbselect.record.gram import Matrix, Vector
from dbselect.record.groups import Groups
from dbselect.record.level_group import LevelGroup
from dbselect.record.steps import Choice, Record, Step, Stop, fits, held_after, name_of
from dbselect.results.model import Model
from dbselect.results.wide import WideSequence
from dbselect.selection.criteria import RULES, Criterion
from dbselect.sources.turns import Callback, turns


@dataclass(frozen=True)
class WideSearch:
    """A wide problem that is set up, and the state that a method changes.

    Parameters
    ----------
    table : read once
    groups : all groups
    members : the columns of each, as they stand in the rows
    ridge, scale : as in `LinearSetup`
    sums : which reads the rows that the state asks for
    first : numbers of the groups of ``always``, and of those that an earlier search took
    chosen : group that an earlier search took -> among which ones
    before : the groups that there were before some were left out by screening
    levels : number of a group of which sums by level are read; None if there is none
    """

    table: WideTable
    groups: Groups
    members: list[Index]
    ridge: float
    scale: bool
    sums: LazyGram
    first: list[int]
    chosen: Mapping[int, Choice] = field(default_factory=dict)
    before: Groups | None = None
    levels: int | None = None

    @property
    def is_joint(self) -> bool:
        """Whether the problem is one of several responses."""
        return False

    @cached_property
    def state(self) -> WideState:
        """No group is selected at first; the rows of those to take first are read at once."""
        problem = self.table.problem(self.sums, self.ridge, self.scale)
        ends = np.cumsum([0, *map(len, self.members[:-1])])
        promise = np.add.reduceat(problem.c[np.concatenate(self.members)] ** 2, ends)
        self.sums.promise = promise / self.groups.costs
        if self.first:
            self.sums.fetch(self.first)
        if self.levels is not None:
            return WideLevelState(problem, self.members, self.levels)
        return WideState(problem, self.members)

    def criterion(self, rule: str) -> Criterion:
        """Return what a rule maximises per unit of cost; the scores tell what is read ahead."""
        criterion = RULES[rule].criterion(self.state)

        def scores(state: Any) -> Vector:
            found = criterion(state)
            self.sums.promise = found / self.groups.costs
            return found

        return scores

    def recorded(
        self,
        rule: str,
        run: Callable[[Record], Stop],
        callback: Callback | None = None,
        total: int | None = None,
        unit: str = "steps",
    ) -> WideSequence:
        """Run a search that adds and removes, and return what it found, until Ctrl-C.

        Parameters
        ----------
        rule : name of the result
        run : the search, which writes down its steps
        callback : who is told of each
        total, unit : as in `turns`
        """
        steps: list[Step] = []
        with turns(total, unit, callback) as turn:

            def record(step: Step) -> None:
                steps.append(self._as_chosen(step))
                turn(name_of(step, self.groups), step.explained)

            try:
                stop = run(record)
            except KeyboardInterrupt:
                # The step under way is lost, and the last one stands.
                stop = Stop.INTERRUPTED
        return self.finished(rule, steps, stop)

    def _as_chosen(self, step: Step) -> Step:
        """Return a step, one of an earlier search among as many groups as it was chosen of."""
        choice = self.chosen.get(step.group) if step.choice is Choice.FORCED else None
        return step if choice is None else replace(step, choice=choice)

    def finished(self, rule: str, steps: Sequence[Step], stop: Stop) -> WideSequence:
        """Return the sequence on the Gram of the groups that were taken."""
        # A sequence has a group, if only one that it did not take.
        taken = list(dict.fromkeys(step.group for step in steps))
        own, levels = self.among(taken or [0], is_read=bool(taken))
        number = {group: at for at, group in enumerate(taken)}
        numbered = [replace(step, group=number[step.group]) for step in steps]
        coef = _again(own, numbered)
        own = replace(own, state=own.state.settled())
        found = finish(own, rule, numbered, coef, stop)
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

    def model(self, chosen: Sequence[int]) -> Model:
        """Return the model on some groups, whose rows were read."""
        own, _ = self.among(chosen)
        own.state.add_all(range(len(chosen)))
        state = own.state.settled()
        is_chosen = 0 < len(chosen) < len(self.groups.names)
        fit = fitted_rows_of(own.gram, own.groups.members, state, self.ridge, is_chosen)
        return Model(**{**fitted(own, state), "fit": fit})

    def among(
        self, chosen: Sequence[int], *, is_read: bool = True
    ) -> tuple[LinearSetup, LevelGroup | None]:
        """Return the problem of some groups on their Gram, of which nothing is selected.

        Also returns what the Gram lacks of a group of very many levels, if that is one of them.

        Parameters
        ----------
        is_read : whether their rows were read; correlations of others are 0
        """
        names, known = self.groups.names, self.groups
        groups = Groups(
            {names[group]: known.columns[names[group]] for group in chosen},
            known.costs[list(chosen)],
            known.unused,
        )
        others = [group for group in chosen if group != self.levels]
        at = np.concatenate([np.empty(0, np.intp), *(self.members[group] for group in others)])
        target, columns = (
            self.table.target,
            [name for g in others for name in groups.columns[names[g]]],
        )
        comoment = self.table.comoment(at, self.sums.among(at) if is_read and others else None)
        gram = self.table.gram([*columns, target], comoment)
        problem: Any
        state: State
        if len(others) == len(chosen):
            levels = None
            problem = linear(gram, target, groups.members, self.ridge, self.scale)
            state = State(problem, groups.positions)
        else:
            assert self.levels is not None
            levels = self._level_group(at, is_read=is_read)
            problem = beside_levels(gram, target, groups, levels, self.ridge, self.scale)
            number = groups.number(levels.group, "groups")
            state = LevelState(problem, groups.positions, number)
        own = LinearSetup(gram, [target], groups, self.ridge, self.scale, problem, state, [])
        return own, levels

    def _level_group(self, others: Index, *, is_read: bool) -> LevelGroup:
        """Return the sums by level of some other columns and the target."""
        assert self.levels is not None
        assert isinstance(self.state, WideLevelState)
        problem, own = self.state.whole, self.members[self.levels]
        totals = self.table.totals
        weight = totals.means[0][own] * self.table.one.weight
        target = totals.products[own][:, None]
        between = problem.by_level(own).sums(others) if is_read and len(others) else target[:, :0]
        return LevelGroup(self.groups.names[self.levels], weight, np.hstack([between, target]))


def wide_search(
    source: Any,
    target: Any,
    groups: GroupColumns | None,
    costs: Costs | None,
    *,
    ridge: float = 0.0,
    scale: bool = True,
    always: GroupNames = (),
    null_policy: NullPolicy = "skip",
    weight: str | None = None,
) -> WideSearch:
    """Read a table once, match the groups and set up the problem, as `methods.setup.prepare`.

    Raises
    ------
    SourceError : a stream that can be read only once
    ArgumentError : the source is a Gram; groups are so large that they are no better than one
    ColumnError, GroupError, DataError : as `prepare`
    """
    table = wide_table(source, target, groups, weight, null_policy)
    matched, members, levels = table.matched(groups, costs)
    sums = LazyGram(table.scans, members, levels)
    first = numbers_of(always, matched)
    return WideSearch(table, matched, members, ridge, scale, sums, first, levels=levels)


def resumed(
    search: WideSearch, before: WideSequence, budget: float | None, max_groups: int | None
) -> WideSearch:
    """Return a search that begins with the groups that an earlier one held in the end.

    Raises
    ------
    ArgumentError : there is no such group, or they are beyond the limits
    """
    groups, names = search.groups, before.groups.names
    missing = [names[g] for g in held_after(before.records) if names[g] not in groups.columns]
    if missing:
        raise ArgumentError(f"resume has group '{missing[0]}', which this search has not")
    number = {g: groups.number(names[g], "resume") for g in held_after(before.records)}
    first = list(dict.fromkeys([*search.first, *number.values()]))
    spent = float(groups.costs[first].sum())
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


def _again(search: LinearSetup, steps: Sequence[Step]) -> Matrix:
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
