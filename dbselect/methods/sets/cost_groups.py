"""Groups of features of one cost, drawn at random, as where a table has no groups of its own."""

import math
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.options.kinds import COUNT, whole


def cost_groups(
    costs: Mapping[str, float], size: int, *, seed: int = 0
) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Return groups of columns of the same cost, and what each group costs.

    Parameters
    ----------
    costs : column -> cost > 0, in any one unit
    size : columns of a group; the last of a cost has those that are left
    seed : of the order in which columns are dealt out

    Returns
    -------
    groups, name -> columns, and costs, name -> the sum over its columns: both as
    `anytime_sequence` takes them. A group is called ``"5, 1"``, the first of cost 5

    Raises
    ------
    ArgumentError : costs is no mapping to numbers > 0; size or seed is no whole number

    References
    ----------
    Hu, Grubb, Bagnell, Hebert (2016), section 5.1: the groups of Yahoo! Learning to Rank.

    Examples
    --------
    >>> import dbselect as ds
    >>> groups, costs = ds.reference.cost_groups({"f1": 5.0, "f2": 1.0, "f3": 5.0, "f4": 5.0}, 2)
    >>> groups
    {'1, 1': ['f2'], '5, 1': ['f4', 'f1'], '5, 2': ['f3']}
    >>> costs
    {'1, 1': 1.0, '5, 1': 10.0, '5, 2': 5.0}
    """
    if not isinstance(costs, Mapping) or not costs:
        raise ArgumentError(f"costs is {costs!r}; it must map columns to numbers > 0")
    for name, cost in costs.items():
        if not _is_cost(cost):
            raise ArgumentError(f"costs has {cost!r} for '{name}'; it must be a number > 0")
    COUNT.check("size", size)
    whole(0).check("seed", seed)
    rng = np.random.default_rng(seed)
    groups: dict[str, list[str]] = {}
    sums: dict[str, float] = {}
    for cost in sorted({float(cost) for cost in costs.values()}):
        names = [name for name, own in costs.items() if float(own) == cost]
        dealt = [names[j] for j in rng.permutation(len(names))]
        for start in range(0, len(dealt), size):
            group = f"{cost:g}, {start // size + 1}"
            groups[group] = dealt[start : start + size]
            sums[group] = cost * len(groups[group])
    return groups, sums


def _is_cost(cost: Any) -> bool:
    if isinstance(cost, bool) or not isinstance(cost, numbers.Real):
        return False
    return 0 < float(cost) < math.inf
