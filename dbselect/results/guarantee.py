"""Optimality of prefixes: the guarantee of the rule, and bounds from the data."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError
from dbselect.linear.bounds import submodularity
from dbselect.linear.problem import Linear
from dbselect.linear.state import LinearState
from dbselect.options.kinds import BUDGET, POSITIVE
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups
from dbselect.record.steps import Choice, Step, longest_within
from dbselect.selection.criteria import RULES

#: Groups with gamma above 1 less this are orthogonal, up to rounding.
ORTHOGONAL = 1e-9


@dataclass(frozen=True)
class Guarantee:
    """The guaranteed share of the optimum for each prefix of a sequence.

    Parameters
    ----------
    gamma : 0 to 1, from the correlations of all columns; 0 if columns of different
        groups depend linearly
    steps : step, spent, factor: the prefix explains more than factor times the share
        of any set of groups of the competing cost (Theorem 3.2)
    doubling : rule ``doubling`` only: at every budget B above c_min, by default the
        cost of the cheapest group, the prefix explains more than this factor times the best
        within B / 4 (Theorem 4.3; the ratio of equation 9 is computed by trying all sets);
        None for other rules, for more than ten groups, if a step had no group within the
        cost limit, or if not all groups were free to be taken
    reason : why nothing is promised, where factors are null; else None

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> guarantee = ds.anytime_sequence(table, "y").guarantee()
    >>> round(guarantee.gamma, 6)  # a and b are uncorrelated
    1.0
    >>> guarantee.steps["factor"].round(3).to_list()  # 1 - 1/e
    [0.0, 0.632, 0.632]
    """

    gamma: float
    steps: pl.DataFrame
    doubling: float | None
    reason: str | None = None


#: Why a rule promises nothing where prices are no sums.
NO_SUMS = (
    "prices are no sums: the theorems compare gains per cost that a group has whatever is held, "
    "and let every group be taken; certificate bounds what any allowed set explains"
)


def guaranteed(
    problem: Linear,
    groups: Groups,
    rule: str,
    records: Sequence[Step],
    spent: Vector,
    cost: float | None,
) -> Guarantee:
    """Return `Prefixes.guarantee`, for any number of responses."""
    if rule not in RULES:
        raise ArgumentError(f"rule is {rule!r}; guarantees exist for the rules {list(RULES)}")
    POSITIVE.or_none().check("cost", cost)
    greedy_rule = RULES[rule]
    gamma = greedy_rule.gamma(problem, groups.positions)
    if not groups.prices.are_sums:
        frame = pl.DataFrame({"step": np.arange(len(spent)), "spent": spent})
        steps = frame.with_columns(factor=pl.lit(None, pl.Float64))
        return Guarantee(gamma, steps, None, NO_SUMS)
    free = [step.choice is Choice.FREE for step in records]
    earned = np.concatenate([[0.0], np.cumsum(np.diff(spent) * free)])
    rivals = np.maximum(spent, groups.costs.min()) if cost is None else cost
    factor = 1.0 - np.exp(-gamma * earned / rivals)
    steps = pl.DataFrame({"step": np.arange(len(spent)), "spent": spent, "factor": factor})
    limited = {Choice.CHEAPEST, Choice.FORCED} & {step.choice for step in records}
    whole = len(records) == len(groups.names)
    holds = greedy_rule.doubling and not limited and whole
    # Gains of orthogonal groups do not depend on the groups held.
    ratio = None
    if holds:
        orthogonal = gamma > 1.0 - ORTHOGONAL
        ratio = gamma if orthogonal else submodularity(problem, groups.positions)
    doubling = None if ratio is None else -math.expm1(-(ratio**2) / (1.0 + ratio))
    return Guarantee(gamma, steps, doubling)


def certified(
    problem: Linear,
    groups: Groups,
    records: Sequence[Step],
    spent: Vector,
    explained: Vector,
    budgets: Iterable[float] | None,
) -> pl.DataFrame:
    """Return the bounds of `Prefixes.certificate`, for any number of responses."""
    if not isinstance(budgets, Iterable | None):
        raise ArgumentError(f"budgets is {budgets!r}; it must be a list of numbers >= 0")
    limits = list(spent if budgets is None else budgets)
    for budget in limits:
        BUDGET.check("budget", budget)
        if budget is None:
            raise ArgumentError("budgets has None; each must be a number >= 0")
    order = list(dict.fromkeys(step.group for step in records if step.action == "add"))
    state = LinearState(problem, groups.positions)
    bounds = state.selection.bounds(
        order, groups.prices.from_below(), np.array(limits, dtype=float)
    )
    step = [longest_within(spent, budget) for budget in limits]
    # Rounding may put the bound below the explained share.
    bounds = np.maximum(bounds, explained[step])
    ratio = np.divide(explained[step], bounds, out=np.ones_like(bounds), where=bounds > 0)
    return pl.DataFrame(
        {
            "budget": np.array(limits, dtype=float),
            "spent": spent[step],
            "explained": explained[step],
            "bound": bounds,
            "ratio": ratio,
        }
    )
