"""The highest price at which the best prefix of a sequence still has each group."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, shown
from dbselect.linear.problem import Linear
from dbselect.linear.state import Index, LinearState
from dbselect.options.kinds import POSITIVE
from dbselect.record.groups import Groups

#: What `worth` is of.
Per = Literal["explained", "rmse"]


def prices_of(
    problem: Linear, positions: Sequence[Index], groups: Groups, order: list[int],
    worth: float, per: Per,
) -> pl.DataFrame:  # fmt: skip
    """Return `Prefixes.break_even`; `order` has the groups of the sequence."""
    POSITIVE.check("worth", worth)
    if per not in get_args(Per):
        raise ArgumentError(f"per is {shown(per)}; it must be one of {list(get_args(Per))}")
    if per == "rmse" and np.size(problem.target_spread) > 1:
        raise ArgumentError("per is 'rmse', and several responses have no common unit")

    prices = groups.prices

    def value(explained: float) -> float:
        if per == "explained":
            return worth * explained
        error = np.sqrt(max(1.0 - explained, 0.0))
        return worth * float(problem.target_spread) * (1.0 - float(error))

    def price(group: int) -> float:
        state = LinearState(problem, positions)
        without, beside = -np.inf, -np.inf
        others = [one for one in order if group not in prices.closed([one])]
        for at in range(len(others) + 1):
            if at:
                state.add(others[at - 1])
            held, explained = others[:at], state.explained
            without = max(without, value(explained) - groups.spent(held))
            if prices.allows([*held, group]):
                spent = groups.spent([*held, group]) - groups.costs[group]
                beside = max(beside, value(explained + state.gains()[group]) - spent)
        return max(float(beside - without), 0.0)

    found: Any = [(name, price(group)) for group, name in enumerate(groups.names)]
    return pl.DataFrame(found, {"group": pl.String, "price": pl.Float64}, orient="row")
