"""The best groups for a budget, with proof or with the gap that the time left."""

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Unpack, cast

from dbselect.errors import ArgumentError, ConditionWarning, shown, warn_caller
from dbselect.linear.condition import check_possible, is_certain
from dbselect.linear.relaxation import Groupwise
from dbselect.linear.state import State
from dbselect.options.kinds import AT_LEAST_ZERO
from dbselect.options.option import shows
from dbselect.options.table import BestWithinOptions
from dbselect.record.steps import fits
from dbselect.results.model import Model
from dbselect.results.selected import Proof, Selected
from dbselect.search.gram import GramSearch
from dbselect.search.open import asked, open_search
from dbselect.search.protocol import check_first
from dbselect.selection.branch_and_bound import branch_and_bound
from dbselect.selection.exchange import TimeUp, improve
from dbselect.selection.greedy import greedy_search
from dbselect.sources.progress import turns

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem

#: Share of the time limit for leaps and bounds, and most seconds: what they do not prove in
#: these they hardly ever prove.
LEAPS_SHARE, LEAPS_SECONDS = 0.25, 2.0


@shows(BestWithinOptions)
def best_within(
    problem: "Problem", budget: float, **options: Unpack[BestWithinOptions]
) -> Selected[Model]:
    """Return the model on the groups that explain most for a budget, with proof.

    The largest F(S) = 1/2 c_S' C_SS^-1 c_S of all S whose summed cost is at most the budget,
    by branch and bound. A prefix ``seq.at(budget)`` of a sequence only is what the order of
    the sequence leaves for a budget; below the first group's cost it is empty.

    Returns
    -------
    Selected, whose ``how`` says whether the set is proven to be the best; otherwise what
    none can exceed, and the gap. Its groups are those of `always`, then in their order

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : an option out of range; groups of `always` that cost more than the budget

    Warns
    -----
    ConditionWarning : columns are so nearly dependent that their coefficients keep fewer than
        six digits, or that no set can be proven to be the best

    Notes
    -----
    Sets that explain the same up to 1e-10 of the target's variance are ties: the cheapest
    is taken, if time is left to prove that, too, and exchanges of single groups prefer those
    named first. The search starts from the greedy sequence within the budget and from the group
    that is best alone, both improved by exchanges. It takes O(D^3) a node and 2^J nodes at
    worst; some tens of 30 groups, some thousands where columns are nearly dependent. Where
    they depend on each other, or there are more columns than rows, bounds are weak. What a
    search finds that is stopped depends on the machine; the root of the tree, once it is
    begun, is always finished.

    References
    ----------
    Furnival, Wilson (1974), Technometrics 16; Frangioni, Gentile (2006), Mathematical
    Programming 106; Bertsimas, Van Parys (2020), Annals of Statistics 48.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> costs = {"a": 5.0, "b": 1.0}
    >>> ds.anytime_sequence(table, "y", costs=costs).at(4.0).groups  # a is first
    []
    >>> found = ds.best_within(table, "y", 4.0, costs=costs)
    >>> found
    Selected(best_within: b; explained 0.0476, spent 1; proven; 4 rows)
    >>> found.how.proven, found.how.gap
    (True, 0.0)
    """
    check_budget(budget)
    known, call = asked(problem, "best_within", BestWithinOptions, options)
    call = replace(call, options={"budget": budget, **call.options})
    search = cast(GramSearch, open_search(problem, call))
    check_first(search.groups, search.first, budget)
    begin = perf_counter()
    with turns(None, "questions", known["callback"]) as turn:

        def time_up() -> bool:
            turn(None, None)
            return perf_counter() - begin >= known["time_limit"]

        found = branch_and_bound(
            search.state,
            Groupwise(search.linear, search.groups.positions, search.groups.costs),
            budget,
            _start(search, budget, time_up),
            search.first,
            time_up,
            min(LEAPS_SHARE * known["time_limit"], LEAPS_SECONDS),
        )
    is_sure = _is_certain(search, budget)
    bound = found.bound if is_sure else 1.0
    state = search.state
    if found.groups:
        state.add_all(found.groups)
    how = Proof(
        explained=state.explained,
        bound=state.explained if is_sure and found.proven else max(bound, state.explained),
        proven=is_sure and found.proven,
        nodes=found.nodes,
        seconds=perf_counter() - begin,
    )
    return Selected(search.model(state), tuple(found.groups), call.method, how, call=call)


def check_budget(budget: Any) -> None:
    """Refuse what is no limit on the summed cost."""
    if isinstance(budget, Mapping):
        raise ArgumentError(
            f"budget is {shown(budget)}; it must be a number >= 0: groups and costs are given by "
            "name, as best_within(source, target, 3, groups={...}, costs={...})"
        )
    AT_LEAST_ZERO.check("budget", budget)


def _is_certain(search: GramSearch, budget: float) -> bool:
    """Whether doubles tell what the sets within a budget explain.

    Warns
    -----
    ConditionWarning : they do not
    """
    whole, costs = search.state.copy(), search.groups.costs
    left = budget - float(costs[search.first].sum())
    rest = [g for g in range(whole.size) if g not in search.first and fits(costs[g], left)]
    whole.add_all([*search.first, *rest])
    check_possible(whole)
    found = is_certain(whole)
    if not found:
        warn_caller(
            "columns are so nearly dependent that doubles do not tell what every set of them "
            "explains: no set is proven to be the best; leave columns out, or take the difference "
            "of two as a column of its own",
            ConditionWarning,
        )
    return found


def _start(search: GramSearch, budget: float, time_up: TimeUp) -> State:
    """Return the better of two sets: the greedy one, and that around the best single group."""
    costs = search.groups.costs
    greedy, single = search.state.copy(), search.state.copy()
    greedy_search(greedy, search.groups, State.gains, budget=budget, always=search.first)
    if search.first:
        single.add_all(search.first)
    for state in (greedy, single):
        improve(state, costs, budget, search.first, time_up)
    return max(greedy, single, key=lambda state: state.explained)
