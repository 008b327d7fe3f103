"""The best groups for a budget, with proof or with the gap that the time left."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, Unpack, cast

import numpy as np

from dbselect.errors import ArgumentError, ConditionWarning, shown, warn_caller
from dbselect.methods.choose import choice_of
from dbselect.objectives.contract import with_added
from dbselect.objectives.score import Score
from dbselect.options.kinds import AT_LEAST_ZERO
from dbselect.options.option import shows
from dbselect.results.call import Call
from dbselect.results.model import Model
from dbselect.results.selected import Proof, Selected
from dbselect.search.compiled import compiled_choice
from dbselect.search.gram import GramSearch
from dbselect.search.open import asked, open_search
from dbselect.search.protocol import check_first
from dbselect.selection.dash import Limits, Run
from dbselect.selection.exchange import climbed
from dbselect.selection.ties import Mask
from dbselect.sources.progress import turns
from dbselect.spec.options import BestWithinOptions
from dbselect.spec.spec import Spec


@shows(BestWithinOptions)
def best_within(
    problem: Spec, budget: float, **options: Unpack[BestWithinOptions]
) -> Selected[Model]:
    """Return the model on the groups that explain most for a budget, with proof.

    The largest F(S) = 1/2 c_S' C_SS^-1 c_S of all S whose summed cost is at most the budget,
    by branch and bound. A prefix ``seq.at(budget)`` of a sequence only is what the order of
    the sequence leaves for a budget; below the first group's cost it is empty.

    Of a `Score`, which has no bounds, the best that greedy steps, exchanges and removals find.

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
    if isinstance(problem.source, Score):
        return _without_proof(problem, call, budget, known)
    search = cast(GramSearch, open_search(problem, call))
    check_first(search.groups, search.first, budget)
    begin = perf_counter()
    with turns(None, "questions", known["callback"]) as turn:
        chosen, (nodes, is_sure, bound, proven) = compiled_choice(search, turn)
    if not is_sure:
        warn_caller(
            "columns are so nearly dependent that doubles do not tell what every set of them "
            "explains: no set is proven to be the best; leave columns out, or take the difference "
            "of two as a column of its own",
            ConditionWarning,
        )
    state = search.state
    if chosen:
        state.add_all(chosen)
    how = Proof(
        explained=state.explained,
        bound=state.explained if proven else max(bound, state.explained),
        proven=bool(proven),
        nodes=int(nodes),
        seconds=perf_counter() - begin,
    )
    return Selected(search.model(state), tuple(chosen), call.method, how, call=call)


def _without_proof(
    problem: Spec, call: Call, budget: float, known: BestWithinOptions
) -> Selected[Any]:
    """Return the best groups that greedy steps and exchanges find, of a score without bounds."""
    begin = perf_counter()
    source: Any = problem.source
    # The default is that of a search which asks nothing.
    own = {"time_limit": call.options.get("time_limit"), "budget": budget}
    named: dict[str, Any] = {**known, **own, "k": source.size, "diversity": None}

    def best(objective: Any, limits: Limits) -> Run[Any]:
        def open_to(held: Sequence[int]) -> Mask:
            return limits.fitting(held, source.size)

        begun = with_added(objective, limits.first)
        prices = [np.ones(source.size), np.asarray(limits.costs)]
        ends = [climbed(begun.copy(), open_to, limits.first, each) for each in prices]
        return Run(max(ends, key=lambda end: end.value), [], 0)

    found = choice_of(problem, call, named, best)
    how, seconds = found.diagnostics, perf_counter() - begin
    return replace(found, how=Proof(found.explained, None, False, how.queries, seconds, how.stop))


def check_budget(budget: Any) -> None:
    """Refuse what is no limit on the summed cost."""
    if isinstance(budget, Mapping):
        raise ArgumentError(
            f"budget is {shown(budget)}; it must be a number >= 0: groups and costs are given by "
            "name, as best_within(source, target, 3, groups={...}, costs={...})"
        )
    AT_LEAST_ZERO.check("budget", budget)
