"""Every set of groups within a budget that explains nearly as much as the best."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError
from dbselect.methods.best_within import check_budget, warn_of_no_proof
from dbselect.options.option import shows
from dbselect.record.columns import match
from dbselect.results.near import NearBest
from dbselect.search.compiled import compiled_sets
from dbselect.search.gram import gram_search
from dbselect.search.open import asked
from dbselect.search.protocol import check_first
from dbselect.search.table import gram_with
from dbselect.sources.progress import turns
from dbselect.spec.options import NearBestOptions
from dbselect.spec.spec import Spec

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
