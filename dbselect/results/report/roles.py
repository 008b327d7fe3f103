"""The gain of each group, alone and given all others, and the group it is redundant with."""

from typing import Any

import numpy as np
import polars as pl

from dbselect.linear.state import State

#: Groups of which redundancy is computed, each against each other: J states of one group.
MOST_GROUPS = 300
#: A group that takes less than this share of another's gain away is not redundant with it.
REDUNDANT = 0.1


def worth_of_groups(sequence: Any) -> pl.DataFrame:
    """Return the role of each group in a quadratic problem.

    Parameters
    ----------
    sequence : Sequence or JointSequence

    Returns
    -------
    DataFrame, one row a group: group, cost, columns; gain alone, the share of variance that it
    explains without others; gain given the rest, what is lost without it; redundant with, the
    group that takes the largest share of its gain, and that share (1: nothing is left beside it)

    Notes
    -----
    One state of each group: O(J D^2) and O(D^3) for all together.
    """
    groups = sequence.groups
    state = State(sequence.linear, groups.positions)
    alone = np.asarray(state.gains())
    whole = state.copy()
    whole.add_all(list(range(len(groups.names))))
    rest = np.asarray(whole.losses())
    partner, share = _partners(state, alone)
    names = np.array(groups.names, dtype=object)
    near = share >= REDUNDANT
    return pl.DataFrame(
        {
            "group": groups.names,
            "cost": groups.costs,
            "columns": [len(own) for own in groups.columns.values()],
            "gain alone": alone,
            "gain given the rest": rest,
            "redundant with": [
                str(names[one]) if there else None for one, there in zip(partner, near, strict=True)
            ],
            "share taken": np.where(near, share, np.nan),
        },
        schema_overrides={"redundant with": pl.String},
    ).with_columns(pl.col("share taken").fill_nan(None))


def _partners(state: State, alone: Any) -> tuple[Any, Any]:
    """Return for each group the other that takes most of its gain, and how much."""
    count = len(alone)
    partner, share = np.zeros(count, dtype=int), np.zeros(count)
    if count > MOST_GROUPS:
        return partner, share
    for other in range(count):
        held = state.copy()
        held.add(other)
        left = np.divide(held.gains(), alone, out=np.ones(count), where=alone > 0)
        taken = 1.0 - left
        taken[other] = 0.0
        better = taken > share
        partner[better], share[better] = other, taken[better]
    return partner, share
