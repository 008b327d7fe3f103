"""Columns within two limits, at most s1 of them in at most s2 groups, by exact gains.

    forward: add the column that fits and gains most
    polish:  while one of these gains
                 add the column that fits and gains most
                 else exchange the two columns that fit and gain most
                 else exchange two groups, whose columns forward steps choose

A descent ends where no small step helps; here every exchange is a whole one. Ties go to the
column named first. An exchange that rounding alone promised ends the search.

Source: Efroymson (1960) and Miller (2002), section 3.3, for exchanges one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dbselect.engine.linear_state import LinearState
from dbselect.linear.problem import Index
from dbselect.selection.exchange import LEAST_RISE, first_rise
from dbselect.selection.ties import Mask, best_first, first_of_the_best

#: Groups that are tried in the place of another: those with the best single columns.
GROUPS_TRIED = 8


@dataclass(frozen=True, eq=False)
class Within:
    """What may be held."""

    group: Index  # shape (D,), the group of each column
    # most_columns, most_groups: s1, s2
    most_columns: int
    most_groups: int

    def open_to(self, held: list[int]) -> Mask:
        """Return which columns may be added to those held; shape (D,)."""
        if len(held) >= self.most_columns:
            return np.zeros(len(self.group), dtype=bool)
        groups = np.unique(self.group[held])
        if len(groups) < self.most_groups:
            fitting = np.ones(len(self.group), dtype=bool)
        else:
            fitting = np.isin(self.group, groups)
        fitting[held] = False
        return fitting


def forward(state: LinearState, within: Within, among: Sequence[int] | None = None) -> int:
    """Add columns, of some groups, as long as one fits and gains; return how many."""
    allowed = True if among is None else np.isin(within.group, among)
    added = 0
    while True:
        gains = state.gains()
        fitting = within.open_to(state.held) & (gains > LEAST_RISE) & allowed
        if not fitting.any():
            return added
        state.add(first_of_the_best(gains, fitting))
        added += 1


def polish(state: LinearState, within: Within) -> tuple[LinearState, int]:
    """Return the state that no single change improves, and how many led there; O(D s1^2) a turn."""
    turns = 0
    while True:
        better = _filled(state, within) or _exchanged(state, within) or _regrouped(state, within)
        if better is None or better.value <= state.value + LEAST_RISE:
            return state, turns
        state, turns = better, turns + 1


def _filled(state: LinearState, within: Within) -> LinearState | None:
    filled = state.copy()
    return filled if forward(filled, within) else None


def _exchanged(state: LinearState, within: Within) -> LinearState | None:
    best, found = 0.0, None
    for out in state.held:
        without = state.copy()
        rises = -without.remove(out) + without.gains()
        fitting = within.open_to(without.held)
        fitting[out] = False
        into = first_rise(rises, fitting, best)
        if into is not None:
            best, found = float(rises[into]), (without, into)
    if found is None:
        return None
    without, into = found
    without.add(into)
    return without


def _regrouped(state: LinearState, within: Within) -> LinearState | None:
    best, found = state.value, None
    held = np.unique(within.group[state.held])
    for out in held:
        without = state.copy()
        for column in [one for one in without.held if within.group[one] == out]:
            without.remove(column)
        most = np.zeros(within.group.max() + 1)
        np.maximum.at(most, within.group, without.gains())
        most[held] = 0.0
        for into in best_first(most)[:GROUPS_TRIED]:
            other = without.copy()
            forward(other, within, among=[*held[held != out], into])
            if other.value > best + LEAST_RISE:
                best, found = other.value, other
    return found
