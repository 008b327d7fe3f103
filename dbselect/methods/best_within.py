"""The best set of groups within a budget, proven, sets near it, and prices that keep a group."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, Unpack, cast

import numpy as np
import polars as pl
import pyarrow as pa
from polars import DataFrame, Float64, String

from dbselect import _native
from dbselect.errors import ArgumentError, ConditionWarning, ConvergenceWarning, shown, warn_caller
from dbselect.methods.across import best_across, check_share, records_in
from dbselect.methods.choice import choice_of
from dbselect.objectives.contract import with_added
from dbselect.objectives.score import Score
from dbselect.options.kinds import AT_LEAST_ZERO
from dbselect.options.option import checked_options, shows
from dbselect.record.columns import match
from dbselect.record.gram import RECORD_TYPE
from dbselect.results.call import Call
from dbselect.results.model import Model
from dbselect.results.selected import Proof, Selected
from dbselect.results.sets import NearBest
from dbselect.search.compiled import compiled_choice, compiled_prices, compiled_sets
from dbselect.search.gram import GramSearch, gram_search
from dbselect.search.open import asked, open_search
from dbselect.search.protocol import check_first
from dbselect.search.table import gram_of_problem, gram_with
from dbselect.selection.dash import Limits, Run
from dbselect.selection.exchange import climbed
from dbselect.selection.moves import Mask
from dbselect.sources.progress import turns
from dbselect.spec.options import BestWithinOptions, BreakEvenOptions, NearBestOptions
from dbselect.spec.refusals import refuse
from dbselect.spec.spec import Spec


@shows(BestWithinOptions)
def best_within(
    problem: Spec, budget: float, **options: Unpack[BestWithinOptions]
) -> Selected[Model]:
    """Find the groups that explain most within a budget, with a proof of optimality.

    Maximises F(S) = 1/2 c_S' C_SS^-1 c_S over all S whose summed cost is at most the budget,
    by branch and bound. A prefix ``seq.at(budget)`` is limited by the order of the sequence; if
    the budget is below the first group's cost, it is empty.

    Of a list of Grams or records with the same groups, such as months or markets, it is the set
    whose worst or mean explained share over them is largest (`share`): each record has a model
    of its own, all on the same groups.

    A `Score` has no bounds: greedy steps, exchanges and removals, without proof.

    Returns
    -------
    Selected, whose ``how`` says whether the set is proven to be the best; of several records
    BestAcross, whose ``proof`` does; otherwise an upper
    bound and the gap. Its groups are those of `always`, then the others in their order

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
    is returned if there is time to prove it, and exchanges of single groups prefer those
    named first. The search starts from the greedy sequence within the budget and from the best
    single group, both improved by exchanges. It takes O(D^3) per node and 2^J nodes at
    worst; some tens for 30 groups, some thousands if columns are nearly dependent. If columns
    are linearly dependent, or outnumber the rows, bounds are weak. The result of a stopped
    search depends on the machine; the root of the tree, once begun, is always finished.

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
    >>> best = ds.best_within(table, "y", 4.0, costs=costs)
    >>> best
    Selected(best_within: b; explained 0.0476, spent 1; proven; 4 rows)
    >>> best.how.proven, best.how.gap
    (True, 0.0)
    """
    check_budget(budget)
    if (grams := records_in(problem.source)) is not None:
        checked = checked_options(BestWithinOptions, "best_within", options)
        refuse(problem, "best_within")
        across: Any = best_across(problem, grams, budget, checked)
        return across  # type: ignore[no-any-return]
    checked, call = asked(problem, "best_within", BestWithinOptions, options)
    check_share(problem.source, checked["share"])
    call = replace(call, options={"budget": budget, **call.options})
    if isinstance(problem.source, Score):
        return _without_proof(problem, call, budget, checked)
    search = cast("GramSearch", open_search(problem, call))
    check_first(search.groups, search.first, budget)
    start = perf_counter()
    with turns(None, "questions", checked["callback"]) as turn:
        chosen, (nodes, is_certain, bound, proven) = compiled_choice(search, turn)
    if not is_certain:
        warn_of_no_proof()
    state = search.state
    if chosen:
        state.add_all(chosen)
    proof = Proof(
        explained=state.explained,
        bound=state.explained if proven else max(bound, state.explained),
        proven=bool(proven),
        nodes=int(nodes),
        seconds=perf_counter() - start,
    )
    return Selected(search.model(state), tuple(chosen), call.method, proof, call=call)


def warn_of_no_proof() -> None:
    """Warn that double precision proves no set of groups."""
    warn_caller(
        "columns are so nearly dependent that doubles do not tell what every set of them "
        "explains: no set is proven to be the best; leave columns out, or take the difference "
        "of two as a column of its own",
        ConditionWarning,
    )


def _without_proof(
    problem: Spec, call: Call, budget: float, options: BestWithinOptions
) -> Selected[Any]:
    """Search by greedy steps and exchanges, for a score without bounds."""
    start = perf_counter()
    source: Any = problem.source
    # The default time limit is for Grams, not for scores.
    own = {"time_limit": call.options.get("time_limit"), "budget": budget}
    of_choice: dict[str, Any] = {**options, **own, "k": source.size, "diversity": None}

    def best(objective: Any, limits: Limits) -> Run[Any]:
        def open_to(held: Sequence[int]) -> Mask:
            return limits.fitting(held, source.size)

        state = with_added(objective, limits.first)
        costs = limits.prices.offers([]).counted
        results = [
            climbed(state.copy(), open_to, limits.first, divisors, limits.prices)
            for divisors in (np.ones(source.size), costs)
        ]
        return Run(max(results, key=lambda result: result.value), [], 0)

    selected = choice_of(problem, call, of_choice, best)
    how, seconds = selected.diagnostics, perf_counter() - start
    proof = Proof(selected.explained, None, False, how.queries, seconds, how.stop)
    return replace(selected, how=proof)


def check_budget(budget: Any) -> None:
    """Refuse an invalid limit on the summed cost."""
    if isinstance(budget, Mapping):
        raise ArgumentError(
            f"budget is {shown(budget)}; it must be a number >= 0: groups and costs are given by "
            "name, as best_within(source, target, 3, groups={...}, costs={...})"
        )
    AT_LEAST_ZERO.check("budget", budget)


#: Columns of the table of sets, besides those of watched columns.
_OWN = ("groups", "spent", "explained", "r2")


@shows(NearBestOptions)
def near_best(problem: Spec, budget: float, **options: Unpack[NearBestOptions]) -> NearBest:
    """List all sets of groups within a budget that explain nearly as much as the best.

    A set is near the best S* if ``F(S) >= (1 - within) F(S*)``: another vendor, a cheaper or
    simpler model, or one whose predictions depend less on a watched column.

    Returns
    -------
    NearBest, whose `table` has the sets, the best first; of ties the cheapest first

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`; `watch` names no column
    ArgumentError : an option out of range; groups of `always` that cost more than the budget

    Warns
    -----
    ConditionWarning : as `best_within`

    Notes
    -----
    The best set is that of `best_within`. Branch and bound then leaves out what its bounds rule
    out, so that it is complete unless the time limit ends it, or there are more sets than
    `limit`: then `cut` counts those found beyond it, and `bound` limits what they explain. Sets
    with groups that add nothing are different sets. Ties are within 1e-10 of the target's
    variance. O(D^3) per node; the nodes are some J per set that is found.

    Rows with missing values of a watched column count as those of any other column.

    References
    ----------
    Furnival, Wilson (1974), Technometrics 16; Xin, Zhong, Chen, Takagi, Seltzer, Rudin (2022),
    arXiv 2209.08040, on sets of near-best models and what they are for.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, 2, 3, 5], "y": [3, 4, 6, 9]})
    >>> near = ds.near_best(table, "y", 1.0, within=0.1)
    >>> near
    NearBest(2 sets; best b explains 0.9918; complete)
    >>> near.table.select("groups", pl.col("r2").round(3)).rows()
    [(['b'], 0.992), (['a'], 0.952)]
    """
    check_budget(budget)
    checked, call = asked(problem, "near_best", NearBestOptions, options)
    call = replace(call, options={"budget": budget, **call.options})
    watch: Sequence[str] = list(checked["watch"])
    if isinstance(problem.source, np.ndarray) or hasattr(problem.source, "ask"):
        raise ArgumentError(
            f"source is a {type(problem.source).__name__}; near_best takes a table with named "
            "columns, or a Gram"
        )
    gram = gram_with(problem, watch)
    search = gram_search(problem.on_gram(gram), call)
    check_first(search.groups, search.first, budget)
    watched = match(watch, gram.columns, "watch")
    for name in watched:
        if name in _OWN:
            raise ArgumentError(
                f"watch names column '{name}', as a column of the result; rename it"
            )
    with turns(None, "questions", checked["callback"]) as turn:
        sets, is_certain = compiled_sets(search, watched, turn)
    if not is_certain:
        warn_of_no_proof()
    names = search.groups.names
    rows: list[dict[str, Any]] = [
        {
            "groups": [names[int(group)] for group in one["groups"]],
            **{name: one[name] for name in _OWN[1:]},
            **dict(zip(watched, one["correlations"], strict=True)),
        }
        for one in sets
    ]
    numbers = dict.fromkeys([*_OWN[1:], *watched], pl.Float64)
    table = pl.DataFrame(rows, schema={"groups": pl.List(pl.String), **numbers})
    first = sets[0]
    return NearBest(table, first["complete"], first["cut"], first["bound"], call=call)


@shows(BreakEvenOptions)
def break_even(
    problem: Spec, budget: float | None = None, **options: Unpack[BreakEvenOptions]
) -> DataFrame:
    """Return the highest price at which each group is still bought, for a budget or a worth.

    Within a budget, a group is bought if the best set has it, at the costs of the others. At a
    worth, the best prefix of `anytime_sequence` has it, as in `AnytimeSequence.break_even`; groups
    of ``always`` are in every prefix. The price is of the group itself, without set-ups that it
    shares and groups that it needs.

    Returns
    -------
    DataFrame, one row per group: group, and price, in the unit of cost; 0 if it is not bought at
    any price, the budget if it is worth all other groups together

    Raises
    ------
    ArgumentError : `budget` and `worth` are both given, or none of them
    As `best_within`

    Warns
    -----
    ConvergenceWarning : some set is not proven to be the best within the time limit, so that prices
        may be off

    Notes
    -----
    The best set with the group is no better at a higher price, so that bisection finds it: exactly
    for costs of at most six decimals, else to 1e-9 of the budget. About log2(budget / unit) calls
    of `best_within` per group, at most thirty, where costs are whole multiples of unit. At a worth,
    O(J) searches of O(D^3).

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> problem = ds.Problem(table, "y", costs={"a": 5.0, "b": 1.0})
    >>> problem.break_even(6.0).rows()
    [('a', 6.0), ('b', 1.0)]
    >>> problem.break_even(worth=21).with_columns(pl.col("price").round(6)).rows()
    [('a', 20.0), ('b', 1.0)]
    """
    if budget is not None:
        check_budget(budget)
    _, call = asked(problem, "break_even", BreakEvenOptions, options)
    given = {"budget": budget, **options}
    _native.answers(pa.array([], RECORD_TYPE), "break_even", "y", given)  # checks that they agree
    gram, _ = gram_of_problem(problem)
    call = replace(call, options={"budget": budget, **call.options})
    search = gram_search(problem.on_gram(gram), call)
    check_first(search.groups, search.first, budget)
    with turns(None, "sets", None) as turn:
        found = compiled_prices(search, turn)
    unproven = [name for name, _, proven in found if proven is False]
    if unproven:
        warn_caller(
            f"{len(unproven)} of {len(found)} prices are not exact: a set is not proven to be "
            "the best within the time limit; set time_limit higher",
            ConvergenceWarning,
        )
    schema: Any = {"group": String, "price": Float64}
    return DataFrame([row[:2] for row in found], schema, orient="row")
