"""The highest price at which each group is still bought, within a budget or at a worth."""

from dataclasses import replace
from typing import Any, Unpack

import pyarrow as pa
from polars import DataFrame, Float64, String

from dbselect import _native
from dbselect.errors import ConvergenceWarning, warn_caller
from dbselect.methods.best_within import check_budget
from dbselect.options.option import shows
from dbselect.record.gram import RECORD_TYPE
from dbselect.search.compiled import compiled_prices
from dbselect.search.gram import gram_search
from dbselect.search.open import asked
from dbselect.search.protocol import check_first
from dbselect.search.table import gram_of_problem
from dbselect.sources.progress import turns
from dbselect.spec.options import BreakEvenOptions
from dbselect.spec.spec import Spec


@shows(BreakEvenOptions)
def break_even(
    problem: Spec, budget: float | None = None, **options: Unpack[BreakEvenOptions]
) -> DataFrame:
    """Return the highest price at which each group is still bought, for a budget or a worth.

    Within a budget, a group is bought if the best set has it, at the costs of the others. At a
    worth, the best prefix of `anytime_sequence` has it, as in `AnytimeSequence.break_even`; groups
    of ``always`` are in every prefix. The price is of the group itself, without set-ups that it
    shares and groups that it needs.

    Parameters
    ----------
    budget : limit on the summed cost, >= 0; or None, and `worth`

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
