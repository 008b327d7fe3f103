"""The gain of each group, alone and given all others, and the group it overlaps most."""

from typing import Any

import numpy as np
import polars as pl

from dbselect.engine.linear_state import LinearState

#: Groups of which overlap is computed, each against each other: J states of one group.
MOST_GROUPS = 300
#: Groups that take less than this share of each other's gain do not overlap.
OVERLAP = 0.1


def worth_of_groups(sequence: Any) -> pl.DataFrame:
    """Return the role of each group in a quadratic problem; O(J D^2) and O(D^3) for all together.

    Gains and losses are shares of variance, beside no other groups and beside all; the overlap is
    the largest share of a group's gain that another takes.
    """
    groups = sequence.groups
    state = LinearState(sequence.linear, groups.positions)
    alone = np.asarray(state.gains())
    whole = state.copy()
    whole.add_all(list(range(len(groups.names))))
    rest = np.asarray(whole.losses())
    partner, share = _partners(state, alone)
    names = groups.names
    near = [(names[one], own) if own >= OVERLAP else (None, None)
            for one, own in zip(partner, share.tolist(), strict=True)]  # fmt: skip
    table = {
        "group": names,
        "cost": groups.costs,
        "columns": [len(own) for own in groups.columns.values()],
        "gain alone": alone,
        "gain per cost": alone / groups.costs,
        "lost without it": rest,
        "overlaps with": [name for name, _ in near],
        "overlap": [own for _, own in near],
    }
    types = {"overlaps with": pl.String, "overlap": pl.Float64}
    return pl.DataFrame(table, schema_overrides=types).sort("gain per cost", descending=True)


def _partners(state: LinearState, alone: Any) -> tuple[Any, Any]:
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
