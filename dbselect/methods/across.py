"""One set of groups, or one order, for several records.

The compiled library finds the set: `native/src/methods/sets/across.rs`.
"""

from time import perf_counter
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from dbselect import _native
from dbselect.errors import ArgumentError, RecordError, shown
from dbselect.linear.problem import TARGET, numbered
from dbselect.record.gram import Gram
from dbselect.record.steps import fits
from dbselect.results.selected import Proof
from dbselect.results.sets import BestAcross, OrderAcross
from dbselect.search.gram import GramSearch, gram_search
from dbselect.search.open import call_of
from dbselect.search.protocol import check_first
from dbselect.sources.open import stored_gram
from dbselect.spec.spec import Spec

#: Gains below this share of the variance of the target are rounding.
LEAST_GAIN = 1e-13


def records_in(source: Any) -> list[Gram] | None:
    """Return the Grams of a list of Grams or records; None for any other source."""
    if not isinstance(source, list | tuple):
        return None
    grams = [stored_gram(one) for one in source]
    known = [gram for gram in grams if gram is not None]
    if known and len(known) < len(grams):
        at = grams.index(None)
        raise ArgumentError(
            f"source has {shown(source[at])} at {at}; a list of records has Grams or records only"
        )
    return known or None


def check_share(source: Any, share: str | None) -> None:
    """Refuse `share` for a single source."""
    if share is not None and records_in(source) is None:
        raise ArgumentError(
            f"share is {share!r}; it is for several records: source must be a list of Grams"
        )


def _searches(problem: Spec, grams: list[Gram], method: str) -> list[GramSearch]:
    """Open the search of each record; refuse records with other groups than the first."""
    if problem.ridge and not problem.scale:
        raise ArgumentError(
            "scale is False; the columns of several records have variance 1 in each for a ridge"
        )
    searches: list[GramSearch] = []
    for at, gram in enumerate(grams):
        own = problem.on_gram(gram)
        search = gram_search(own, call_of(own, method, {}))
        first = searches[0].groups if searches else search.groups
        if search.groups.members != first.members or search.groups.names != first.names:
            raise ArgumentError(
                f"record {at} has other columns than record 0: all must have the same groups"
            )
        searches.append(search)
    return searches


def best_across(problem: Spec, grams: list[Gram], budget: float, options: Any) -> BestAcross:
    """Find the set whose worst or mean explained share is largest, with a proof."""
    share = options["share"] or "worst"
    start = perf_counter()
    searches = _searches(problem, grams, "best_within")
    groups, first = searches[0].groups, searches[0].first
    check_first(groups, first, budget)
    parts = [numbered(search.gram, groups.members, search.target) for search in searches]
    request = {
        "groups": {str(g): [str(j) for j in at] for g, at in enumerate(groups.positions)},
        "costs": {str(g): cost for g, cost in enumerate(groups.costs.tolist())},
        "always": [str(group) for group in first] or None, "share": share,
        "budget": budget, "time_limit": options["time_limit"],
        "ridge": problem.ridge, "scale": problem.scale,
        **groups.told.renamed(lambda name: str(groups.names.index(name))),
    }  # fmt: skip
    answer = _native.answers(pa.concat_arrays(parts), "best_across", TARGET, request)
    if (status := answer.field("status")[0]).is_valid:
        raise RecordError(str(status))
    nodes, _, bound, proven = answer.field("notes")[0].as_py()
    chosen = [int(group) for group in answer.field("found").field("groups")[0].as_py()]
    models = []
    for search in searches:
        if chosen:
            search.state.add_all(chosen)
        models.append(search.model(search.state))
    shares = [model.explained for model in models]
    explained = float(min(shares) if share == "worst" else np.mean(shares))
    proof = Proof(
        explained, explained if proven else max(bound, explained), bool(proven), int(nodes),
        perf_counter() - start,
    )  # fmt: skip
    names = [groups.names[group] for group in chosen]
    return BestAcross(names, groups.spent(chosen), share, explained, models, proof)


def order_across(problem: Spec, grams: list[Gram], options: Any) -> OrderAcross:
    """Add the group whose gain of the worst or the mean share per cost is largest, and again.

    If no group gains in the worst record, the one with the largest mean gain per cost.
    """
    share, budget, most = options["share"] or "worst", options["budget"], options["max_groups"]
    searches = _searches(problem, grams, "anytime_sequence")
    groups, first = searches[0].groups, list(searches[0].first)
    if told := groups.told.renamed(str):
        raise ArgumentError(
            f"{next(iter(told))} is given; an order for several records adds up the costs of groups"
        )
    check_first(groups, first, budget, most)
    costs, spent = groups.costs, 0.0
    held: list[int] = []
    each = np.zeros(len(searches))
    rows: list[dict[str, Any]] = [_row(0, None, None, 0.0, 0.0, each, share, 0.0)]
    while len(held) < len(costs) and (most is None or len(held) < most):
        open_to = [
            group for group in range(len(costs))
            if group not in held and fits(spent + costs[group], budget)
        ]  # fmt: skip
        if first:
            open_to = [first.pop(0)]
        if not open_to:
            break
        gains = np.array([search.state.gains()[open_to] for search in searches])
        ahead = each[:, None] + gains
        of_mean = gains.mean(axis=0) / costs[open_to]
        score = (ahead.min(axis=0) - each.min()) / costs[open_to] if share == "worst" else of_mean
        if score.max() <= LEAST_GAIN:
            score = of_mean
        best = int(score.argmax())
        group = open_to[best]
        for search in searches:
            search.state.add(group)
        before, each = each, np.array([search.state.explained for search in searches])
        held.append(group)
        spent += float(costs[group])
        gain = _of(each, share) - _of(before, share)
        name, cost = groups.names[group], float(costs[group])
        rows.append(_row(len(held), name, cost, spent, gain / cost, each, share, gain))
    schema: dict[str, Any] = {
        "step": pl.Int64, "group": pl.String, **dict.fromkeys(
            ["cost", "spent", "score", "gain", "explained"], pl.Float64
        ), "each": pl.List(pl.Float64),
    }  # fmt: skip
    return OrderAcross(pl.DataFrame(rows, schema=schema), share)


def _of(each: Any, share: str) -> float:
    return float(each.min() if share == "worst" else each.mean())


def _row(
    step: int, group: str | None, cost: float | None, spent: float, score: float, each: Any,
    share: str, gain: float,
) -> dict[str, Any]:  # fmt: skip
    return {
        "step": step, "group": group, "cost": cost, "spent": spent, "score": score, "gain": gain,
        "explained": _of(each, share), "each": each.tolist(),
    }  # fmt: skip
