"""Methods that choose k groups: DASH, greedy, their baselines, and exchanges of single groups."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np

from dbselect.errors import ArgumentError, GroupError, shown
from dbselect.objectives.contract import Objective, check_unselected, is_objective, with_added
from dbselect.objectives.diversity import Coverage, Sum, coverage_of
from dbselect.objectives.score import Score, set_by_set
from dbselect.options.option import shows
from dbselect.record.groups import Groups
from dbselect.record.prices import APART
from dbselect.record.steps import Ended, Stop
from dbselect.results.call import Call
from dbselect.results.selected import Diagnostics, Selected
from dbselect.search.compiled import compiled_choice
from dbselect.search.gram import GramSearch, gram_search
from dbselect.search.lazy import LazySearch
from dbselect.search.open import asked, open_search
from dbselect.search.protocol import Search, check_first
from dbselect.search.rows import GlmObjective
from dbselect.search.score import OF_SCORES
from dbselect.selection.dash import (
    LITERAL,
    PRACTICE,
    DashSettings,
    Limits,
    Report,
    Run,
    best_guess,
    greedy_choice,
    random_choice,
    top_k_choice,
)
from dbselect.selection.exchange import improved
from dbselect.selection.moves import Mask
from dbselect.sources.progress import turns
from dbselect.spec.options import (
    BaselineOptions,
    CoverageOptions,
    DashOptions,
    ExchangeOptions,
    GreedyOptions,
)
from dbselect.spec.spec import Spec


@shows(DashOptions)
def dash(problem: Spec, **options: Unpack[DashOptions]) -> Selected[Any]:
    """Choose k groups in few adaptive rounds, each of which adds a random set of good groups.

    Returns
    -------
    Selected, with the Model on the groups; with a family a GlmModel, for
    other objectives None; its `diagnostics` describe the run

    Raises
    ------
    ArgumentError : k, rounds, samples, epsilon, opt or alpha out of range; an objective
        with selected candidates, or with `groups`, or without names for `costs`;
        `diversity` is no objective over the same candidates
    ColumnError, GroupError, DataError, SourceError : as `anytime_sequence`

    Warns
    -----
    WideWarning : as `anytime_sequence`

    Notes
    -----
    About ``2 rounds`` adaptive rounds, never more than k unless `rounds` or `literal` are given. A
    round is one batch of questions: with an `executor` whose workers suffice, a slow score takes
    as many times the seconds of one answer.
    Guesses of `opt` and `alpha` run in parallel: in the diagnostics `rounds` is the longest
    guess, `queries` counts the distinct queries over all guesses, each `samples` times
    O(D |S| k / rounds) and all gains. On a Gram the exact greedy search is cheap as well; use
    DASH if evaluations of the objective are slow and can run in parallel. There
    is no budget: the thresholds and the guarantee hold for any k candidates. A seed draws the
    same sets in SQL, Polars and Python.

    References
    ----------
    Qian, Singer (2019), Algorithm 1, appendix G.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> model = ds.dash(table, "y", k=1)
    >>> model.groups, round(model.r2, 3)
    (['a'], 0.952)
    """
    checked, call = asked(problem, "dash", DashOptions, options)
    k, rounds = checked["k"], checked["rounds"]
    if rounds is not None and rounds > k:
        raise ArgumentError(f"rounds is {rounds!r}; there are only k = {k} to choose")

    with turns(None, "rounds", checked["callback"]) as turn:

        def run(start: Objective, limits: Limits) -> Run[Any]:
            ask = DashSettings(
                k, rounds, checked["samples"], checked["epsilon"], checked["opt"], checked["alpha"],
                problem.seed, LITERAL if checked["literal"] else PRACTICE,
            )  # fmt: skip
            first = with_added(start, limits.first)
            return best_guess(first, ask, lambda value: turn(None, value))

        def in_library(search: GramSearch) -> Run[Any]:
            chosen, notes = compiled_choice(search, turn)
            queries, guess, ease, stalled, completed, bound, *history = notes
            return Run(
                with_added(search.state, chosen), history, int(queries), guess, ease,
                int(stalled), int(completed), None if math.isnan(bound) else bound,
            )  # fmt: skip

        return choice_of(problem, call, checked, run, in_library=in_library, lazy=True)


@shows(GreedyOptions)
def greedy(problem: Spec, **options: Unpack[GreedyOptions]) -> Selected[Any]:
    """Choose k groups greedily, by the largest gain each time: k adaptive rounds.

    Returns
    -------
    Selected, as `dash`

    Notes
    -----
    All groups of a step are one batch of questions to a score. `lazy` asks one group after the
    other, or as many as the executor has workers, far fewer in all but in more rounds, which the
    diagnostics count; `sample` draws the groups of each step by the seed.

    References
    ----------
    Minoux (1978), lazy; Mirzasoleiman and others (2015), of a sample.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.greedy(table, "y", k=1).groups
    ['a']
    """
    checked, call = asked(problem, "greedy", GreedyOptions, options)
    with turns(checked["k"], "rounds", checked["callback"]) as turn:
        run = partial(greedy_choice, report=lambda value: turn(None, value))
        return choice_of(problem, call, checked, run, lazy=True, sharing=True)


@shows(BaselineOptions)
def top_k(problem: Spec, **options: Unpack[BaselineOptions]) -> Selected[Any]:
    """Choose the k groups with the largest single gains: one adaptive round.

    Returns
    -------
    Selected, as of `dash`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.reference.top_k(table, "y", k=1).groups
    ['a']
    """
    checked, call = asked(problem, "top_k", BaselineOptions, options)
    return choice_of(problem, call, checked, top_k_choice, sharing=True)


@shows(BaselineOptions)
def random_k(problem: Spec, **options: Unpack[BaselineOptions]) -> Selected[Any]:
    """Choose k groups at random.

    Returns
    -------
    Selected, as of `dash`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> len(ds.reference.random_k(table, "y", k=1).groups)
    1
    """
    checked, call = asked(problem, "random_k", BaselineOptions, options)
    run = partial(random_choice, rng=np.random.default_rng(problem.seed))
    return choice_of(problem, call, checked, run, sharing=True)


@shows(CoverageOptions)
def coverage(problem: Spec, **options: Unpack[CoverageOptions]) -> Coverage:
    """Reward groups by the clusters of correlated columns that they cover.

    d(S) = reward times the share of clusters with a column of S. Clusters come from
    average linkage of the absolute correlations, from the Gram alone.

    Returns
    -------
    Coverage, for ``diversity`` of `dash` and its baselines

    Raises
    ------
    ArgumentError : similarity or reward out of range

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3], "b": [1, 2, 4], "c": [0, 5, 0], "y": [1, 2, 3]})
    >>> ds.objectives.coverage(table, "y", reward=1.0).gains().tolist()  # a and b are one cluster
    [0.5, 0.5, 0.5]
    """
    checked, call = asked(problem, "coverage", CoverageOptions, options)
    search = gram_search(problem, call)
    return coverage_of(
        search.linear.G, search.groups.positions, checked["similarity"], checked["reward"]
    )


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

    history = improved(state, open_to, limits.first, report, limits.prices)
    queries = len(history) * len(state.held) * (state.size - len(state.held))
    return replace(greedy, history=[*greedy.history, *history], queries=greedy.queries + queries)


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
        budget = options.get("budget")
        check_first(groups, first, budget)
        if len(first) > options["k"]:
            raise ArgumentError(f"always names {len(first)} groups; k allows {options['k']}")
        return Limits(options["k"], tuple(first), budget, groups.prices)

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
