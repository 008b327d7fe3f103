"""What no implementation goes below: flops and bytes at what one core was measured to do."""

import os
import time
from collections.abc import Callable
from functools import cache

import numpy as np
from measure import CLOCK
from threadpoolctl import threadpool_limits

SIDE, DOUBLES = 1500, 20_000_000


def _best(work: Callable[[], object]) -> float:
    """Return the least processor seconds of five runs."""
    took = []
    for _ in range(5):
        start = time.process_time()
        work()
        took.append(time.process_time() - start)
    return min(took)


@cache
def flops() -> float:
    """Return the flops a second of one core, in a product of matrices."""
    a = np.ones((SIDE, SIDE))
    with threadpool_limits(1):
        return 2 * SIDE**3 / _best(lambda: a @ a)


@cache
def bandwidth() -> float:
    """Return the bytes a second that one core reads and writes, in a copy."""
    a = np.ones(DOUBLES)
    b = np.ones(DOUBLES)
    return 2 * a.nbytes / _best(lambda: np.copyto(b, a))


def limit(base: float, work: float = 0.0, moved: float = 0.0, *, scans: bool = True) -> str:
    """Return the least ratio to a base of so many seconds, as a note.

    `work` is flops, `moved` bytes read or written; both on all cores where seconds are those of
    the wall. With `scans` they come beyond what the base does.
    """
    cores = len(os.sched_getaffinity(0)) if CLOCK is time.perf_counter else 1
    least = (work / flops() + moved / bandwidth()) / cores / base
    return f"limit {least + scans:.2f}x"
