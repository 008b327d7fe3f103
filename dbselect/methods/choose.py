"""Choose k candidates: the common frame of DASH, exchange and the greedy baselines."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dbselect.errors import ArgumentError, shown
from dbselect.objectives.contract import check_unselected, is_objective, with_added
from dbselect.objectives.diversity import Sum
from dbselect.objectives.score import Score, set_by_set
from dbselect.record.groups import Groups
from dbselect.record.steps import Ended, Stop
from dbselect.results.call import Call
from dbselect.results.selected import Diagnostics, Selected
from dbselect.search.gram import GramSearch
from dbselect.search.lazy import LazySearch
from dbselect.search.open import open_search
from dbselect.search.protocol import Search, check_first
from dbselect.search.rows import GlmObjective
from dbselect.search.score import OF_SCORES
from dbselect.selection.dash import Limits, Run
from dbselect.spec.spec import Spec

#: Groups, and numbers of those to take first -> the limits of a choice.
LimitsOf = Callable[[Groups, list[int]], Limits]


def choice_of(
    problem: Spec,
    call: Call,
    options: Any,
    run: Callable[[Any, Limits], Run[Any]],
    limits_of: LimitsOf | None = None,
    *,
    in_library: Callable[[GramSearch], Run[Any]] | None = None,
    lazy: bool = False,
    sharing: bool = False,
) -> Selected[Any]:
    """Search for k candidates: by `in_library` on a Gram without diversity, else by `run`."""
    search: Search | None = None
    source = problem.source
    if is_objective(source) and not isinstance(source, GlmObjective | Score):
        check_unselected("objective", source)
        _check_nameless(problem, options)
        start: Any = source
    else:
        search = open_search(problem, call, options, lazy=lazy, sharing=sharing)
        start = search.state
    by_sets = not isinstance(start, Score) and any(
        options.get(n) not in (None, False) for n in OF_SCORES
    )
    if by_sets:
        start = set_by_set(start, options, problem.seed)
    slow = start if isinstance(start, Score) else None
    k = options["k"]
    if k > start.size:
        raise ArgumentError(f"k is {k!r}; it must be a whole number from 1 to {start.size}")
    limits = (
        Limits(k)
        if search is None
        else (limits_of or limits_within(options))(search.groups, search.first)
    )
    diversity = options["diversity"]
    if diversity is not None:
        _check_diversity(diversity, start)
        if isinstance(search, LazySearch):
            raise ArgumentError("diversity is given; it needs gram='full'")
        start = Sum(start, diversity)
    try:
        result = (
            in_library(search)
            if in_library and isinstance(search, GramSearch) and diversity is None
            else run(start, limits)
        )
    except (Ended, KeyboardInterrupt) as ended:
        if slow is None:
            raise
        stop = ended.stop if isinstance(ended, Ended) else Stop.INTERRUPTED
        best = slow.best_known(limits.first, limits.k, limits.budget)
        total = None if diversity is None else Sum(best, with_added(diversity, best.held))
        result = Run(total or best, [], 0, stop=stop)
    state = result.objective if diversity is None else result.objective.first
    if by_sets and search is not None:
        state = with_added(search.state, result.objective.held)
    how = Diagnostics.of(result)
    if slow is not None:
        # Lazy evaluation waits several times in a step.
        how = replace(how, queries=slow.queries, rounds=max(how.rounds, slow.answers.batches))
    if isinstance(search, LazySearch):
        how = replace(how, scans=search.table.scans.count, rows_fetched=search.sums.rows_fetched)
    model = None if search is None else search.model(state)
    chosen = tuple(result.objective.held)
    return Selected(model, chosen, call.method, how, call=None if search is None else search.call)


def limits_within(options: Any) -> LimitsOf:
    """Return the limits of a choice: k, a budget, and groups to take first."""

    def limits(groups: Groups, first: list[int]) -> Limits:
        check_first(groups, first, options["budget"])
        if len(first) > options["k"]:
            raise ArgumentError(f"always names {len(first)} groups; k allows {options['k']}")
        return Limits(options["k"], tuple(first), options["budget"], groups.prices)

    return limits


def _check_nameless(problem: Spec, options: Any) -> None:
    """Refuse options that need names, for an objective whose candidates are numbers."""
    needs_names = {
        "costs": problem.costs, **problem.told.renamed(str), "always": problem.always or None,
        "budget": options.get("budget"),
        "start": options.get("start") or None,
    }  # fmt: skip
    for name, value in needs_names.items():
        if value is not None:
            raise ArgumentError(
                f"{name} is {shown(value)}; it is for groups, and a "
                f"{type(problem.source).__name__} has candidates without names"
            )


def _check_diversity(diversity: Any, start: Any) -> None:
    if not is_objective(diversity):
        raise ArgumentError(f"diversity is {shown(diversity)}; it must be an objective")
    check_unselected("diversity", diversity)
    if diversity.size != start.size:
        raise ArgumentError(
            f"diversity is over {diversity.size} candidates; there are {start.size}"
        )
