"""Exchange search: k groups that no exchange of a single group improves."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

from dbselect.errors import ArgumentError, GroupError, shown
from dbselect.methods.choose import choice_of, limits_within
from dbselect.objectives.contract import Objective, with_added
from dbselect.options.option import shows
from dbselect.record.groups import Groups
from dbselect.record.prices import APART, SUMS
from dbselect.results.selected import Selected
from dbselect.search.compiled import compiled_choice
from dbselect.search.gram import GramSearch
from dbselect.search.open import asked
from dbselect.selection.dash import Limits, Report, Run, greedy_choice
from dbselect.selection.exchange import improved
from dbselect.selection.moves import Mask
from dbselect.sources.progress import turns
from dbselect.spec.options import ExchangeOptions
from dbselect.spec.spec import Spec


@shows(ExchangeOptions)
def exchange(problem: Spec, **options: Unpack[ExchangeOptions]) -> Selected[Any]:
    """Choose k groups greedily, then exchange single groups until no exchange helps.

    Each exchange takes the pair with the largest gain. `start` names groups to improve, such as
    those of a sequence at a size or a budget, ``seq.at(size=3).groups``.

    Returns
    -------
    Selected, as `dash`

    Raises
    ------
    ArgumentError : as `dash`; `start` and `always` name more than k groups, or exceed the
        budget
    ColumnError, GroupError, DataError : as `anytime_sequence`

    Notes
    -----
    An exchange costs k removals and k times all gains: O(D k^2) on a Gram, and with a family
    (J - k) k refits. For least squares on at most 300 columns, without `start`, a second run
    starts from backward elimination, O(D^3), and the better result is returned. It is a
    local optimum: no single exchange helps, two at a time might. `best_within` proves optimality.

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
    checked, call = asked(problem, "exchange", ExchangeOptions, options)
    with turns(None, "exchanges", checked["callback"]) as turn:

        def run(objective: Objective, limits: Limits) -> Run[Any]:
            return exchange_choice(objective, limits, lambda value: turn(None, value))

        def changed(_latest: str | None, value: float | None) -> None:
            # The library also calls this between exchanges, without a value, for interrupts.
            if value is not None:
                turn(None, value)

        def in_library(search: GramSearch) -> Run[Any]:
            chosen, (queries, *history) = compiled_choice(search, changed)
            return Run(with_added(search.state, chosen), history, int(queries))

        return choice_of(problem, call, checked, run, _limits(checked), in_library=in_library)


def _limits(options: ExchangeOptions) -> Any:
    within, k = limits_within(options), options["k"]

    def limits(groups: Groups, first: list[int]) -> Limits:
        result = within(groups, first)
        start = [groups.number(name, "start") for name in options["start"]]
        named = tuple(groups.prices.closed(dict.fromkeys([*result.first, *start])))
        if not groups.prices.may_hold(named):
            raise GroupError(f"start is {shown(list(options['start']))}; {APART}")
        if len(named) > k:
            raise ArgumentError(f"start and always name {len(named)} groups; k allows {k}")
        for i, group in enumerate(named):
            if not result.fitting(named[:i], len(groups.costs))[group]:
                raise ArgumentError(
                    f"start has '{groups.names[group]}', which the budget {options['budget']:g} "
                    "does not buy beside those before it"
                )
        return replace(result, start=named)

    return limits


def exchange_choice(start: Objective, limits: Limits, report: Report = lambda _: None) -> Run[Any]:
    """Choose greedily from the start in `limits`, then exchange until nothing improves."""
    greedy = greedy_choice(start, replace(limits, first=limits.start or limits.first), report)
    state = greedy.objective

    def open_to(held: Sequence[int]) -> Mask:
        return limits.fitting(held, state.size)

    history = improved(state, open_to, limits.first, report, limits.prices or SUMS)
    queries = len(history) * len(state.held) * (state.size - len(state.held))
    return replace(greedy, history=[*greedy.history, *history], queries=greedy.queries + queries)
