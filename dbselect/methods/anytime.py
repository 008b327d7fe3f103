"""The main call: from a Gram, a record or a table to an anytime sequence."""

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from dbselect.errors import ArgumentError
from dbselect.groups import Groups
from dbselect.methods.search import (
    check_choice,
    check_count,
    check_ridge,
    check_scale,
    finish,
    prefix_coefficients,
    prepare,
)
from dbselect.selection.criteria import RULES
from dbselect.selection.greedy import doubling, greedy
from dbselect.sequence import Sequence as AnytimeSequence
from dbselect.sequence import check_budget
from dbselect.sources.request import NullPolicy
from dbselect.steps import fits


def anytime_sequence(
    source: Any,
    target: str,
    groups: Mapping[str, Iterable[str]] | None = None,
    costs: Mapping[str, float] | None = None,
    *,
    rule: str = "fr",
    ridge: float = 0.0,
    scale: bool = True,
    budget: float | None = None,
    max_groups: int | None = None,
    always: Sequence[str] = (),
    c_min: float | None = None,
    null_policy: NullPolicy = "skip",
) -> AnytimeSequence:
    """Order groups of columns by how much prediction each buys for its cost.

    Each step takes the group with the largest ``criterion(g | S) / cost(g)``; the
    objective is F(S) = 1/2 c_S' C_SS^-1 c_S, C = G + ridge I.

    Parameters
    ----------
    source : Gram, a Gram record (mapping or Arrow scalar), a Parquet file or frame
        that holds one in its only column ``gram``, or any table that `gram` reads
    target : column to predict
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0, in any one unit; default: 1 each
    rule : ``"fr"``, the exact gain; ``"omp"``, the group-whitened gradient;
        ``"omp-unwhitened"``, the gradient as it is; ``"omp-single"``, its largest entry;
        ``"doubling"``, the exact gain among groups that at most double the cost
    ridge : >= 0, lambda on unit-variance columns; the intercept is not penalised
    scale : False takes `ridge` on the columns as they are
    budget : limit on the summed cost: only groups that still fit are candidates
    max_groups : limit on the number of groups
    always : groups taken first, in the order given
    c_min : rule ``doubling`` only: the largest cost of the first group, > 0;
        default: the cheapest cost there is
    null_policy : what becomes of missing values while a table is read, as in
        `dbselect.gram`; rows without the target are left out under every policy

    Returns
    -------
    Sequence with at most J + 1 steps

    Raises
    ------
    ColumnError : an unknown column
    GroupError : groups overlap or are empty; a cost is missing, surplus or not > 0
    ArgumentError : rule, ridge, scale, budget, max_groups or c_min out of range
    DataError : no usable rows, a constant target, or one that is 0 where it is missing

    Warns
    -----
    ConditionWarning : the selected columns are so nearly dependent that their
        coefficients keep fewer than six digits

    Notes
    -----
    O(D^3) for a full sequence over D columns, for every rule; about 40 D^2 bytes.
    Where no group may double the cost, rule ``doubling`` takes the cheapest and
    ``doubling_capable`` of the result is False.
    A table is read once, the columns of the groups and the target only, so a NULL
    in another column leaves no row out.

    References
    ----------
    Hu, Grubb, Bagnell, Hebert (2016), Algorithms 1 and 2, eq. 1 (papers 000, 001).

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.anytime_sequence(table, "y", costs={"a": 50.0, "b": 1.0})
    Sequence(y ~ b, a; r2 1.0000, spent 51; every group is in the sequence)
    """
    budget = float(budget) if isinstance(budget, Decimal) else budget
    c_min = float(c_min) if isinstance(c_min, Decimal) else c_min
    check_options(rule, ridge, scale, budget, max_groups, c_min)
    search = prepare(
        source, target, groups, costs, ridge=ridge, scale=scale, always=always,
        null_policy=null_policy,
    )  # fmt: skip
    check_first(search.groups, search.first, budget, max_groups)
    method, all_costs = RULES[rule], search.groups.costs
    steps, stop = greedy(
        search.state,
        search.groups,
        method.criterion(search.state),
        cost_limit=doubling(all_costs, c_min) if method.doubling else None,
        budget=budget,
        max_groups=max_groups,
        always=search.first,
    )
    return finish(search, rule, steps, prefix_coefficients(search), stop)


def check_options(
    rule: Any = "fr",
    ridge: Any = 0.0,
    scale: Any = True,
    budget: Any = None,
    max_groups: Any = None,
    c_min: Any = None,
    **_: Any,
) -> None:
    """Refuse options that no Gram could make right."""
    check_choice("rule", rule, RULES)
    check_ridge(ridge)
    check_scale(scale)
    check_budget(budget)
    check_count("max_groups", max_groups)
    if c_min is not None and not RULES[rule].doubling:
        raise ArgumentError(f"c_min is {c_min!r}; rule {rule!r} has none, rule 'doubling' has")
    if c_min is not None and not (isinstance(c_min, numbers.Real) and 0 < float(c_min) < math.inf):
        raise ArgumentError(f"c_min is {c_min!r}; it must be a number > 0")


def check_first(
    groups: Groups, first: Sequence[int], budget: float | None, max_groups: int | None
) -> None:
    """Refuse groups to take first that go beyond the limits."""
    cost = float(groups.costs[list(first)].sum())
    if not fits(cost, budget):
        raise ArgumentError(f"always costs {cost:g} in all; that is over the budget of {budget}")
    if max_groups is not None and len(first) > max_groups:
        raise ArgumentError(f"always names {len(first)} groups; max_groups allows {max_groups}")
