"""The best row, again and again, of more rows than fit in memory.

    while fewer than k rows are taken:
        take the row with the largest gain f(S + x) - f(S)

Ties go to the lowest row number. The result is that of evaluating every gain at every
step, yet many are not: a row's variance x'Px never grows, so what it was at any earlier
time bounds the gain (`Posterior.least_variance`). The rows are held in parts, by falling
variance; a step evaluates parts until none that is left had enough variance to reach the
best gain found. The same holds for rows out of memory: a pass holds the rows of the largest
variances, as many as fit, and one number for all others; while that is too small for the
best gain in memory, no pass is needed.

With all rows in memory there is one pass. A step costs O(d) for each row evaluated; a pass,
O(n d^2), yields at least one row, so there are at most k. Memory is 24 d bytes a row held,
and some bytes for its number, variance and key.

Source: SDS_MA of Qian, Singer (2019); lazy evaluation as Minoux (1978), whose bounds, the
old gains, hold for submodular functions only and are replaced.
"""

from collections.abc import Callable, Iterable

import numpy as np

from dbselect.errors import SourceError
from dbselect.objectives.a_optimal import Posterior, Tracked
from dbselect.record.gram import Vector
from dbselect.selection.candidates import Block, Held, Pick

#: Gains closer than this share of the best are ties: they carry an error of some 1e-14.
TIE_SHARE = 1e-12
#: Rows evaluated together: enough for products to pay, few enough to leave many out.
PART_ROWS = 1024
#: No variance and no gain: of a row that was taken, of the rows outside if there are none.
NONE = -1.0
CHANGED = (
    "the source gives other rows, or the same in another order, each time that it is read; "
    "raise memory_limit, or write the rows to Parquet"
)


def lazy_greedy(
    posterior: Posterior, read: Callable[[], Iterable[Block]], k: int, capacity: int
) -> tuple[list[Pick], Vector]:
    """Take k rows one by one; `posterior` ends with all of them.

    Parameters
    ----------
    posterior : Posterior without rows; changed in place
    read : gives all rows, by increasing number; called once if there are at most
        `capacity`, else up to k times
    k : at most as many as there are rows
    capacity : >= 2, rows held in memory, beside a block

    Returns
    -------
    picks : the k rows, in order
    gains : shape (k,), f(S + x) - f(S)

    Raises
    ------
    SourceError : another reading gave other rows
    """
    pool = _Pool(capacity)
    picks: list[Pick] = []
    gains = np.empty(k)
    for step in range(k):
        pick = pool.best(posterior) or pool.fill(read(), posterior, picks)
        gains[step] = posterior.add(pick.x)
        picks.append(pick)
    return picks, gains


class _Part:
    """Rows that are evaluated together."""

    def __init__(self, block: Block, largest: float) -> None:
        self.block = block
        #: Largest variance when last seen.
        self.largest = largest
        self._tracked = Tracked(block.X)
        self._taken: list[int] = []

    def gains(self, posterior: Posterior) -> Vector:
        gains, variance = self._tracked.gains(posterior)
        gains[self._taken] = variance[self._taken] = NONE
        self.largest = float(variance.max())
        return gains

    def take(self, at: int) -> Pick:
        self._taken.append(at)
        return self.block.pick(at)


class _Pool:
    """The rows held in memory, and the largest variance of all others."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._parts: list[_Part] = []
        self._outside = NONE

    def best(self, posterior: Posterior) -> Pick | None:
        """Take the best row of all out of the pool; None if it may be elsewhere."""
        best = NONE
        seen: list[tuple[_Part, Vector]] = []
        for part in sorted(self._parts, key=lambda part: -part.largest):
            if part.largest < posterior.least_variance(_tie(best)):
                break
            gains = part.gains(posterior)
            best = max(best, float(gains.max()))
            seen.append((part, gains))
        if best == NONE or self._outside >= posterior.least_variance(_tie(best)):
            return None
        ties = []
        for part, gains in seen:
            near = np.flatnonzero(gains >= _tie(best))
            if near.size:
                at = int(near[np.argmin(part.block.numbers[near])])
                ties.append((int(part.block.numbers[at]), part, at))
        _, part, at = min(ties, key=lambda tie: tie[0])
        return part.take(at)

    def fill(self, blocks: Iterable[Block], posterior: Posterior, picks: list[Pick]) -> Pick:
        """Read all rows, return the best and hold those of the largest variances."""
        self._parts = []
        held = Held(self._capacity)
        taken = {pick.row: pick.x for pick in picks}
        leaders: list[tuple[float, Pick]] = []
        for block in blocks:
            left = _without(block, taken)
            gains, variance = Tracked(left.X).gains(posterior)
            leaders = _lead(leaders, left, gains)
            held.add(left, variance)
        if taken or not leaders:
            raise SourceError(CHANGED)
        _, pick = leaders[0]
        self._parts = _parts(held, pick.row)
        self._outside = held.outside
        return pick


def _parts(held: Held, without: int) -> list[_Part]:
    """Return the rows held but one, by falling variance."""
    block, variance = held.release()
    order = np.argsort(-variance, kind="stable")
    order = order[block.numbers[order] != without]
    cuts = [order[start : start + PART_ROWS] for start in range(0, len(order), PART_ROWS)]
    return [_Part(block.take(cut), float(variance[cut[0]])) for cut in cuts]


def _without(block: Block, taken: dict[int, Vector]) -> Block:
    """Leave out the rows taken before, which must be what they were."""
    again = np.flatnonzero(np.isin(block.numbers, list(taken)))
    for at in again:
        if not np.array_equal(block.X[at], taken.pop(int(block.numbers[at]))):
            raise SourceError(CHANGED)
    return block.take(np.delete(np.arange(len(block.X)), again)) if again.size else block


def _lead(
    leaders: list[tuple[float, Pick]], block: Block, gains: Vector
) -> list[tuple[float, Pick]]:
    """Add the rows that beat all before them; keep those that tie with the last.

    The first of all rows that ties with the best beats all before it, so it comes first.
    """
    best = leaders[-1][0] if leaders else NONE
    before = np.maximum.accumulate(np.concatenate([[best], gains[:-1]]))
    tie = _tie(max(best, gains.max(initial=NONE)))
    new = np.flatnonzero((gains > before[: len(gains)]) & (gains >= tie))
    found = [(float(gains[at]), block.pick(at)) for at in new]
    return [leader for leader in leaders if leader[0] >= tie] + found


def _tie(best: float) -> float:
    """Return the least gain that counts as the best."""
    return best * (1.0 - TIE_SHARE)
