"""The highest price at which each group is still bought within a budget."""

import warnings
from collections.abc import Collection
from typing import Any, Unpack, cast

from polars import DataFrame, Float64, String

from dbselect.errors import ConvergenceWarning, warn_caller
from dbselect.methods.best_within import best_within, check_budget
from dbselect.options.conditions import CONDITIONS
from dbselect.options.option import checked_options, shows
from dbselect.record.groups import groups_of
from dbselect.record.missing import features_of
from dbselect.results.selected import Proof
from dbselect.selection.ties import TIE_SHARE
from dbselect.spec.combination import require_single_target
from dbselect.spec.options import BreakEvenOptions
from dbselect.spec.refusals import refuse
from dbselect.spec.spec import Spec, answer_of

#: Prices are exact up to this share of the budget, where costs have no unit.
PRECISION = 1e-9
#: Decimals of costs that may have one.
DECIMALS = 6


@shows(BreakEvenOptions)
def break_even(problem: Spec, budget: float, **options: Unpack[BreakEvenOptions]) -> DataFrame:
    """Return the highest price at which each group is still bought within a budget.

    A group is bought if the best set within the budget has it, at the costs of the others; the
    price is of the group itself, without set-ups that it shares and groups that it needs.

    Returns
    -------
    DataFrame, one row per group: group, and price, in the unit of cost; 0 if it is not bought at
    any price, the budget if it is worth all other groups together

    Raises
    ------
    As `best_within`

    Warns
    -----
    ConvergenceWarning : some set is not proven to be the best within the time limit, so that prices
        may be off

    Notes
    -----
    The best set with the group is no better at a higher price, so that bisection finds it: exactly
    for costs of at most six decimals, else to 1e-9 of the budget. About log2(budget / unit) calls
    of `best_within` per group, at most thirty, where costs are whole multiples of unit.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.Problem(table, "y", costs={"a": 5.0, "b": 1.0}).break_even(6.0).rows()
    [('a', 6.0), ('b', 1.0)]
    """
    check_budget(budget)
    checked_options(BreakEvenOptions, "break_even", options)
    refuse(problem, "break_even")
    require_single_target(problem.target)
    gram, _ = answer_of(problem, "_gram_of_problem")
    features = features_of(gram.columns, problem.targets, gram.terms)
    groups = groups_of(
        features, problem.groups, problem.costs, problem.targets, gram.terms, told=problem.told
    )
    costs = dict(zip(groups.names, groups.costs.tolist(), strict=True))
    whole = problem.on_gram(gram).replace(groups=groups.columns, costs=costs)
    told, prices = problem.told, groups.prices
    unit = _unit([*costs.values(), *(cost for cost, _ in told.shared.values())])
    unproven: list[str] = []
    every = range(len(groups.names))

    def best(asked: Spec, name: str) -> tuple[float, float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = best_within(asked, budget, **options)
        unproven.extend([] if cast(Proof, found.how).proven else [name])
        return found.explained, found.spent

    def price(name: str) -> float:
        others = [one for one in problem.always if one != name]
        number = groups.names.index(name)
        forced = prices.closed([*(groups.number(one, "always") for one in others), number])
        if not prices.may_hold(forced):
            return 0.0
        gone = {groups.names[one] for one in prices.with_dependents(number, every)}
        kept = {one: columns for one, columns in groups.columns.items() if one not in gone}
        # Without a group that others need which are bought in any case, there is no set.
        rival = -1.0 if gone.intersection(others) else 0.0
        if kept and rival == 0.0:
            own = {one: costs[one] for one in kept}
            among = dict.fromkeys(CONDITIONS) | told.only(kept).renamed(str)
            rival, _ = best(whole.replace(groups=kept, costs=own, always=others, **among), name)
        high = budget - (prices.spent(forced) - costs[name])

        def paid(asked: float) -> float | None:
            """Return the price at which the best set with the group leaves nothing."""
            with_it = whole.replace(costs={**costs, name: asked}, always=[*others, name])
            explained, spent = best(with_it, name)
            is_bought = explained > rival + TIE_SHARE
            return min(max(asked, asked + budget - spent), high) if is_bought else None

        # Most groups are worth nothing, or a whole number of units.
        low = paid(PRECISION * budget) if high > 0 else None
        if low is None or low == high or paid(high) is not None:
            return 0.0 if low is None else high
        while high - low > max(PRECISION * budget, unit):
            asked = (low + high) / 2
            more = paid(asked)
            low, high = (low, asked) if more is None else (more, high)
        return float(f"{low:.12g}")

    found = [(name, price(name)) for name in groups.names]
    if unproven:
        warn_caller(
            f"{len(set(unproven))} of {len(found)} prices are not exact: a set is not proven to be "
            "the best within the time limit; set time_limit higher",
            ConvergenceWarning,
        )
    schema: Any = {"group": String, "price": Float64}
    return DataFrame(found, schema, orient="row")


def _unit(costs: Collection[float]) -> float:
    """Return the largest power of ten up to 1 that divides all costs; 0 for more decimals."""
    for decimals in range(DECIMALS + 1):
        if all(round(cost, decimals) == cost for cost in costs):
            return float(10.0**-decimals)
    return 0.0
