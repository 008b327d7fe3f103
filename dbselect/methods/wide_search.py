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
from dbselect.linear.lazy_gram import LazyGram
from dbselect.linear.problem import Index, linear
from dbselect.linear.state import State
from dbselect.methods.setup import LinearSetup, finish, numbers_of, prefix_coefficients
from dbselect.methods.types import Costs, GroupColumns, GroupNames, NullPolicy
from dbselect.methods.wide import WideTable, wide_table
from dbselect.record.gram import Matrix, Vector
from dbselect.record.groups import Groups
from dbselect.record.steps import Choice, Record, Step, Stop, fits, held_after, name_of
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
    """

    table: WideTable
    groups: Groups
    members: list[Index]
    ridge: float
    scale: bool
    sums: LazyGram
    first: list[int]
    chosen: Mapping[int, Choice] = field(default_factory=dict)

    @property
    def is_joint(self) -> bool:
        """Whether the problem is one of several responses."""
        return False

    @cached_property
    def state(self) -> State:
        """No group is selected at first; the rows of those to take first are read at once."""
        problem = self.table.problem(self.sums, self.ridge, self.scale)
        promise = [float((problem.c[columns] ** 2).sum()) for columns in self.members]
        self.sums.promise = np.array(promise) / self.groups.costs
        if self.first:
            self.sums.fetch(self.first)
        return State(problem, self.members)

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
        own = self.among(taken or [0], is_read=bool(taken))
        number = {group: at for at, group in enumerate(taken)}
        numbered = [replace(step, group=number[step.group]) for step in steps]
        found = finish(own, rule, numbered, _again(own, numbered), stop, depth=2)
        return WideSequence(
            **vars(found),
            scans=self.table.scans.count,
            rows_fetched=self.sums.rows_fetched,
            n_groups=len(self.groups.names),
            n_columns=len(self.groups.members),
        )

    def among(self, chosen: Sequence[int], *, is_read: bool = True) -> LinearSetup:
        """Return the problem of some groups on their Gram, of which nothing is selected.

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
        at = np.concatenate([self.members[group] for group in chosen])
        target = self.table.target
        comoment = self.table.comoment(at, self.sums.among(at) if is_read else None)
        gram = self.table.gram([*groups.members, target], comoment)
        problem = linear(gram, target, groups.members, self.ridge, self.scale)
        state = State(problem, groups.positions)
        return LinearSetup(gram, [target], groups, self.ridge, self.scale, problem, state, [])


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
    matched, members = table.matched(groups, costs)
    sums = LazyGram(table.scans.products, members)
    return WideSearch(table, matched, members, ridge, scale, sums, numbers_of(always, matched))


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
        return prefix_coefficients(search)
    coef = [state.coef()]
    for step in steps:
        (state.add if step.action == "add" else state.remove)(step.group)
        coef.append(state.coef())
    return np.array(coef)
