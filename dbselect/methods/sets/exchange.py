"""Exchange search: k groups, of which no one can be exchanged for a better one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.linear.state import State
from dbselect.methods.sets.choose import choice_of, limits_within, with_first
from dbselect.objectives.contract import Objective
from dbselect.options.option import shows
from dbselect.options.table import ExchangeOptions
from dbselect.record.groups import Groups
from dbselect.results.selected import Selected
from dbselect.search.compiled import compiled_choice, is_narrow
from dbselect.search.gram import GramSearch
from dbselect.search.open import asked
from dbselect.selection.dash import Limits, Run, Told, greedy_choice
from dbselect.selection.exchange import LEAST_RISE, improved
from dbselect.selection.ties import Mask, first_of_the_best
from dbselect.sources.progress import turns

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem

#: Columns up to which least squares also starts from backward elimination: it takes a second there.
MOST_FROM_ABOVE = 300


@shows(ExchangeOptions)
def exchange(problem: "Problem", **options: Unpack[ExchangeOptions]) -> Selected[Any]:
    """Choose k groups greedily, then exchange one for another until none of that helps.

    Each time the pair that gains most is exchanged. What `start` names is polished: the groups
    of a sequence at a size or a budget, ``seq.at(size=3).groups``.

    Returns
    -------
    Selected, as of `dash`

    Raises
    ------
    ArgumentError : as `dash`; `start` and `always` name more than k groups, or more than the
        budget buys
    ColumnError, GroupError, DataError : as `anytime_sequence`

    Notes
    -----
    An exchange costs k removals and k times all gains: O(D k^2) on a Gram, and of a family
    (J - k) k refits. In least squares on at most 300 columns, without `start`, exchanges also
    begin with what backward elimination leaves, O(D^3), and the better end is taken. It is a
    local optimum: no single exchange helps, two at a time might. `best_within` proves the best.

    References
    ----------
    Miller (2002), Subset Selection in Regression, section 3.3; Fedorov (1972) for designs.

    Examples
    --------
    Greedy search takes c, the best alone, and keeps it; a and b explain all:

    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b = [1, 2, 3, 4, 5, 6], [3, 1, 4, 1, 5, 9]
    >>> c = [i + j + d for i, j, d in zip(a, b, [0.1, -0.2, 0.1, 0.2, -0.1, -0.1])]
    >>> table = pl.DataFrame({"a": a, "b": b, "c": c, "y": [i + j for i, j in zip(a, b)]})
    >>> ds.greedy(table, "y", k=2).groups, ds.exchange(table, "y", k=2).groups
    (['c', 'b'], ['b', 'a'])
    """
    known, call = asked(problem, "exchange", ExchangeOptions, options)
    named = cast(Mapping[str, Any], known)
    with turns(None, "exchanges", known["callback"]) as turn:

        def run(objective: Objective, limits: Limits) -> Run[Any]:
            return exchange_choice(objective, limits, lambda value: turn(None, value))

        def changed(_latest: str | None, value: float | None) -> None:
            # What is tried between two changes is no turn; an interrupt comes there, too.
            if value is not None:
                turn(None, value)

        def in_library(search: GramSearch) -> Run[Any] | None:
            found = compiled_choice(search, changed) if is_narrow(search) else "too wide"
            if isinstance(found, str):
                return None
            chosen, (queries, *history) = found
            return Run(with_first(search.state, chosen), history, int(queries))

        return choice_of(problem, call, named, run, _limits(named), in_library=in_library)


def _limits(known: Mapping[str, Any]) -> Any:
    """Return the limits of a choice that begins with the groups of `start`."""
    within = limits_within(known)

    def limits(groups: Groups, first: list[int]) -> Limits:
        found = within(groups, first)
        start = [groups.number(name, "start") for name in known["start"]]
        begin = [one for one in dict.fromkeys(start) if one not in found.first]
        every = (*found.first, *begin)
        if len(every) > known["k"]:
            raise ArgumentError(f"start and always name {len(every)} groups; k allows {known['k']}")
        for at, group in enumerate(every):
            if not found.fitting(every[:at], len(groups.costs))[group]:
                raise ArgumentError(
                    f"start has '{groups.names[group]}', which the budget {known['budget']:g} does "
                    "not buy beside those before it"
                )
        return replace(found, start=every)

    return limits


def exchange_choice(objective: Objective, limits: Limits, told: Told = lambda _: None) -> Run[Any]:
    """Choose greedily from the start in `limits`, and exchange until nothing improves.

    In least squares the same from what backward elimination leaves; the better end counts.
    """
    begun = greedy_choice(objective, replace(limits, first=limits.start or limits.first), told)
    best, history = _exchanged(begun.objective, limits, told)
    is_small = isinstance(objective, State) and len(objective.problem.c) <= MOST_FROM_ABOVE
    if is_small and limits.start == limits.first:
        other, changes = _exchanged(_from_above(objective, limits), limits, told)
        if other.value > best.value + LEAST_RISE:
            best, history = other, changes
    queries = len(history) * len(best.held) * (best.size - len(best.held))
    return replace(
        begun, objective=best, history=[*begun.history, *history], queries=begun.queries + queries
    )


def _exchanged(begun: Objective, limits: Limits, told: Told) -> tuple[Objective, list[float]]:
    """Return where exchanges end, and the value after each."""
    state = begun.copy()

    def open_to(held: Sequence[int]) -> Mask:
        return limits.fitting(held, state.size)

    return state, improved(state, open_to, limits.first, told)


def _from_above(objective: Objective, limits: Limits) -> Objective:
    """Return what is left of all candidates when the least useful ones are gone."""
    state = objective.copy()
    rest = np.setdiff1d(np.arange(state.size), limits.first).tolist()
    state.add_all([*limits.first, *rest])
    costs = limits.costs if limits.budget is not None else None
    while not _is_within(state.held, limits, state.size):
        may_go = np.isin(np.arange(state.size), state.held)
        may_go[list(limits.first)] = False
        worth = state.losses() if costs is None else state.losses() / costs
        state.remove(first_of_the_best(-worth, may_go))
    return state


def _is_within(held: Sequence[int], limits: Limits, size: int) -> bool:
    """Whether the last candidate held may be added to the others."""
    return not held or bool(limits.fitting(held[:-1], size)[held[-1]])
