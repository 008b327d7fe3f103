"""The (max,+) convolution of some sequences with a concave one.

    best(k) = max over t of row(k - t) + gains(t)

As `gains` is concave, a later source k - t that beats an earlier one for some k beats it
for every larger k: the best source never falls as k grows. So when every second k is
solved, the sources of the others lie between their neighbours', K of them in all.
"""

import numpy as np
import numpy.typing as npt

from dbselect.linear.problem import Index

#: Groups with fewer entries are tried entry by entry, which is faster than halving.
ONE_BY_ONE_SIZE = 32
#: Cells of the table that are solved at once by halving: what a cache holds.
CACHED_CELLS = 2**14

Whole = npt.NDArray[np.int64]


def max_plus(rows: Whole, gains: Whole) -> tuple[Whole, Index]:
    """Return ``max_t rows[:, k - t] + gains[t]`` and the smallest such t, for every k.

    Each row of `rows`, shape (J, K + 1), starts with 0 and never falls; `gains`, shape
    (m + 1,), starts with 0 and is concave.
    """
    if len(gains) <= ONE_BY_ONE_SIZE:
        return _one_by_one(rows, gains)
    width = rows.shape[1]
    padded = np.pad(gains, (0, width - len(gains)), "edge")
    at_once = max(1, CACHED_CELLS // width)
    parts = [
        _by_halving(rows[first : first + at_once], padded) for first in range(0, len(rows), at_once)
    ]
    best, taken = zip(*parts, strict=True)
    return np.concatenate(best), np.concatenate(taken)


def _one_by_one(rows: Whole, gains: Whole) -> tuple[Whole, Index]:
    """Try every t, O(J K m)."""
    best = rows.copy()
    taken = np.zeros(rows.shape, dtype=np.intp)
    for t, gain in enumerate(gains[1:].tolist(), start=1):
        sums = rows[:, :-t] + gain
        np.copyto(taken[:, t:], t, where=sums > best[:, t:])
        np.maximum(best[:, t:], sums, out=best[:, t:])
    return best, taken


def _by_halving(rows: Whole, gains: Whole) -> tuple[Whole, Index]:
    """Solve every 2^l-th k, then those halfway between, O(J K log K).

    The last best source of k lies between those of its solved neighbours. Sources are
    positions in the flat array, so that all rows are searched at once.
    """
    here = np.arange(rows.size).reshape(rows.shape)
    source = here.copy()
    best = rows.copy()
    step = 1 << (rows.shape[1] - 1).bit_length() - 1
    while step:
        at = here[:, step :: 2 * step]
        low = source[:, : -step : 2 * step]
        high = at.copy()
        solved = source[:, 2 * step :: 2 * step]
        np.minimum(high[:, : solved.shape[1]], solved, out=high[:, : solved.shape[1]])
        counts = (high - low + 1).ravel()
        ends = np.cumsum(counts)
        starts = ends - counts
        tried = np.arange(ends[-1]) + np.repeat(low.ravel() - starts, counts)
        sums = rows.take(tried) + gains.take(np.repeat(at.ravel(), counts) - tried)
        most = np.maximum.reduceat(sums, starts)
        hits = np.flatnonzero(sums == np.repeat(most, counts))
        best[:, step :: 2 * step] = most.reshape(at.shape)
        source[:, step :: 2 * step] = tried[hits[np.searchsorted(hits, ends) - 1]].reshape(at.shape)
        step //= 2
    return best, here - source
