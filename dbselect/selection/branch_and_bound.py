"""The best groups within a budget, with proof: branch and bound.

    put the question "which of all groups?" on a heap
    while the largest bound of a question is above the best set found:
        take that question; decide every group that the bounds decide
        offer the groups that the relaxation prefers
        unless nothing is left: decide one more group, both ways, and put both back

Where the relaxation does not settle it soon, leaps and bounds (`linear.relaxation`) have their
turn: they prove most problems of some 30 groups in a second, and wide ones never.

A question holds some groups, has left out some others, and is about the rest. It is closed
if F of all of its groups, or the relaxed choice within the budget (`linear.relaxation`),
explains no more than the best set. A group is held if without it F of all others would
not; held or left out if the bound rules out the other decision. The largest bound of the
questions that are open is one for every set within the budget, at any time.

Of sets that explain the same, the cheapest is searched for in the same way, with less than
its cost for a budget; of those that cost the same, exchanges prefer the groups named first.

Source: Land, Doig (1960); Furnival, Wilson (1974), the bound by F of all groups; Bertsimas,
Van Parys (2020), that by relaxation. Departures: groups and costs; groups are decided.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from dbselect.linear.relaxation import Groupwise, Tangent, Undecided
from dbselect.objectives.contract import Objective
from dbselect.record.gram import Vector
from dbselect.record.steps import BUDGET_SLACK
from dbselect.selection.exchange import TimeUp, improve, prefer_cheaper
from dbselect.selection.ties import Mask

#: Sets nearer than this share of the target's variance are ties: what they explain is
#: known to some 1e-13 of columns that are not nearly dependent.
TIE = 1e-10
#: Tangents of a question: more lower its bound by little, and each costs a factorisation.
TANGENTS = 12
#: Share of the way from the best set to a bound within which the relaxed value lies once more
#: tangents are not worth their time: from 0.3 to 0.9 it makes little difference.
SETTLED_SHARE = 0.6
#: Questions after which leaps and bounds have their turn: most problems need fewer.
QUESTIONS_BEFORE_LEAPS = 20
#: What a cheaper set costs at most, as a share: more than the rounding of sums of costs.
CHEAPER = 1.0 - 1e-9


@dataclass(frozen=True)
class BestSet:
    """The best set that was found.

    Parameters
    ----------
    groups : numbers of the groups
    bound : no set within the budget explains more, ties apart
    proven : whether none is left that might
    nodes : questions that were asked
    """

    groups: list[int]
    bound: float
    proven: bool
    nodes: int


@dataclass
class _Best:
    """The best set found, and what another has to exceed."""

    value: float
    groups: list[int] | None = None


@dataclass(frozen=True)
class _Question:
    """Which of some groups to add to those held.

    Parameters
    ----------
    shares : shape (groups,), of the relaxed choice of the question that this one is part of
    """

    held: list[int]
    groups: list[int]
    shares: Vector

    def decided(self, inside: Mask, outside: Mask) -> "_Question":
        """Return the question with some of its groups held and others left out."""
        rest = np.flatnonzero(~(inside | outside)).tolist()
        taken = [self.groups[i] for i in np.flatnonzero(inside).tolist()]
        return _Question([*self.held, *taken], [self.groups[i] for i in rest], self.shares[rest])


@dataclass
class _Tree:
    """A search among the sets within one budget.

    Parameters
    ----------
    empty : the objective, without selected groups
    time_up : whether time is up
    leaps_seconds : to take for leaps and bounds
    """

    empty: Objective
    problem: Groupwise
    budget: float
    always: Sequence[int]
    time_up: TimeUp
    leaps_seconds: float
    nodes: int = 0

    def run(self, best: _Best) -> float:
        """Improve the best set, and return a bound for all; `best` changes in place."""
        rest = [g for g in range(self.empty.size) if g not in self.always]
        whole = _Question(list(self.always), rest, np.full(len(rest), 0.5))
        heap = [(-math.inf, 0, whole)]
        count, asked = 1, 0
        while heap and -heap[0][0] > best.value + TIE:
            if count > 1 and self.time_up():
                return -heap[0][0]
            if asked == QUESTIONS_BEFORE_LEAPS and self._leap(rest, best):
                return best.value
            asked += 1
            above, _, question = heapq.heappop(heap)
            self.nodes += 1
            bound, parts = self._ask(question, best)
            for part in parts:
                heapq.heappush(heap, (max(-bound, above), count, part))
                count += 1
        return best.value

    def _leap(self, groups: Sequence[int], best: _Best) -> bool:
        """Improve the best set by leaps and bounds; return whether it is proved optimal."""
        limit = self.budget * (1.0 + BUDGET_SLACK)
        costs = self.problem.costs
        left = limit - costs[list(self.always)].sum()
        fitting = [g for g in groups if costs[g] <= left]
        if not fitting:
            return False
        better, sets, is_best = self.problem.leaps(
            self.always, fitting, limit, best.value + TIE, self.leaps_seconds
        )
        self.nodes += sets
        if better:
            self._offer(better, best)
        return is_best

    def _ask(self, question: _Question, best: _Best) -> tuple[float, list[_Question]]:
        """Return a bound on all sets of a question, and its two parts unless it is closed."""
        limit = self.budget * (1.0 + BUDGET_SLACK)
        costs = self.problem.costs
        while True:
            left = limit - costs[question.held].sum()
            if left < 0:
                return -math.inf, []
            rest, question = self._affordable(question, left)
            if rest.value <= best.value + TIE:
                return rest.value, []
            if rest.costs.sum() <= left:
                self._offer([*question.held, *rest.groups], best)
                return rest.value, []
            none = np.zeros(len(rest.groups), dtype=bool)
            needed = rest.value - rest.losses() <= best.value + TIE
            if needed.any():
                question = question.decided(needed, none)
                continue
            bound, tangent, inside, outside = _relaxed(rest, left, question.shares, best)
            if bound <= best.value + TIE:
                return bound, []
            self._offer(_rounded(question, costs, limit, tangent), best)
            if inside.any() or outside.any():
                question = question.decided(inside, outside)
                continue
            one = none.copy()
            one[_most_open(rest, tangent)] = True
            question = _Question(question.held, question.groups, tangent.shares)
            return bound, [question.decided(one, none), question.decided(none, one)]

    def _affordable(self, question: _Question, left: float) -> tuple[Undecided, _Question]:
        """Leave out what does not fit and what adds nothing."""
        groups = [g for g in question.groups if self.problem.costs[g] <= left]
        rest = self.problem.undecided(question.held, groups)
        shares = dict(zip(question.groups, question.shares.tolist(), strict=True))
        kept = np.array([shares[g] for g in rest.groups])
        return rest, _Question(question.held, rest.groups, kept)

    def _offer(self, groups: list[int], best: _Best) -> None:
        """Take a set, and what exchanges make of it, if it is better than the best."""
        state = self.empty.copy()
        if groups:
            state.add_all(groups)
        if state.value > best.value:
            improve(state, self.problem.costs, self.budget, self.always, self.time_up)
            best.value, best.groups = state.value, state.held


def branch_and_bound(
    empty: Objective,
    problem: Groupwise,
    budget: float,
    start: Objective,
    always: Sequence[int],
    time_up: TimeUp,
    leaps_seconds: float,
) -> BestSet:
    """Return the set within a budget that explains most.

    Parameters
    ----------
    empty : the objective without selected groups; not changed
    problem : the same, for bounds
    budget : limit on the summed cost
    start : a set within the budget that holds `always`
    always : groups of every set, within the budget
    time_up : whether time is up; it is asked after the first question
    leaps_seconds : to take for leaps and bounds

    Notes
    -----
    O(D^3) a question, as many as it takes: 2^J at worst.
    """
    costs = problem.costs
    best = _Best(start.value, start.held)
    tree = _Tree(empty, problem, budget, always, time_up, leaps_seconds)
    bound = tree.run(best)
    proven, nodes = not bound > best.value + TIE, tree.nodes
    groups = best.groups or []
    state = _settled(empty, groups, costs, always, time_up)
    while proven and state.held and not time_up():
        cheaper = costs[state.held].sum() * CHEAPER
        if costs[list(always)].sum() > cheaper:
            break
        # Above this value a set ties with the best.
        other = _Best(best.value - 2 * TIE)
        tree = _Tree(empty, problem, cheaper, always, time_up, leaps_seconds)
        tree.run(other)
        nodes += tree.nodes
        if other.groups is None:
            break
        state = _settled(empty, other.groups, costs, always, time_up)
    rest = sorted(group for group in state.held if group not in always)
    return BestSet([*always, *rest], max(bound, best.value), proven, nodes)


def _settled(
    empty: Objective, groups: list[int], costs: Vector, always: Sequence[int], time_up: TimeUp
) -> Objective:
    """Return a set, or one that explains the same for less or with groups named earlier."""
    state = empty.copy()
    if groups:
        state.add_all(groups)
    prefer_cheaper(state, costs, always, time_up, tie=TIE)
    return state


def _relaxed(
    rest: Undecided, budget: float, shares: Vector, best: _Best
) -> tuple[float, Tangent, Mask, Mask]:
    """Return the least bound of some tangents, the last one, and the groups they decide."""
    target = best.value + TIE
    bound = rest.value
    inside = np.zeros(len(rest.groups), dtype=bool)
    outside = inside.copy()
    last = Tangent(shares, 0.0, bound, np.zeros(len(shares)), np.zeros(len(shares)))
    for last in islice(rest.tangents(budget, shares), TANGENTS):
        bound = min(bound, last.bound)
        sure = last.bound - np.abs(last.excess) <= target
        inside |= sure & (last.excess > 0)
        outside |= sure & (last.excess < 0)
        settled = last.bound - last.value < SETTLED_SHARE * (last.bound - target)
        decided = inside.any() or outside.any()
        if bound <= target or (settled and not decided):
            break
    return bound, last, inside, outside


def _rounded(question: _Question, costs: Vector, limit: float, tangent: Tangent) -> list[int]:
    """Return the groups of the largest shares that fit."""
    held = list(question.held)
    spent = costs[held].sum()
    for i in np.lexsort((-tangent.slope, -tangent.shares)).tolist():
        group = question.groups[i]
        if spent + costs[group] <= limit:
            held.append(group)
            spent += costs[group]
    return held


def _most_open(rest: Undecided, tangent: Tangent) -> int:
    """Return the place of the group whose decision is likely to lower the bounds most.

    Groups that take part in a dependence have no bound of their own, so they come first.
    """
    if rest.entangled.any():
        return int(np.argmax(np.where(rest.entangled, np.abs(rest.parts()), -1.0)))
    return int(np.argmax(np.minimum(tangent.shares, 1.0 - tangent.shares) * tangent.slope))
