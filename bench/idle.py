"""Measure how idle the machine is: the share of processors that other processes take."""

import time
from dataclasses import dataclass

import psutil
from measure import processor

#: Largest share of other processes at which figures are kept.
LIMIT = 0.05
#: Seconds of a sample, and most samples until the machine is idle.
SAMPLE, PATIENCE = 5.0, 12


@dataclass(frozen=True)
class Reading:
    """Seconds of all processors since the machine started: in all, busy, busy with this run."""

    total: float
    busy: float
    run: float


def reading() -> Reading:
    """Read the clocks of the processors; what a hypervisor gave to others counts as busy."""
    spent = psutil.cpu_times()
    total = sum(spent) - spent.guest - spent.guest_nice  # they are in `user` and `nice` too
    return Reading(total, total - spent.idle - spent.iowait, processor())


def foreign_share(since: Reading, until: Reading) -> float:
    """Return the share of processor time that was busy with other processes.

    What the kernel does in threads of its own, such as writing files back, counts as others.
    """
    busy, run = until.busy - since.busy, until.run - since.run
    return max(0.0, (busy - run) / (until.total - since.total))


def settled(samples: int = PATIENCE) -> float:
    """Wait until other processes are within the limit, at most some samples; return the share."""
    share = 1.0
    for _ in range(samples):
        since = reading()
        time.sleep(SAMPLE)
        share = foreign_share(since, reading())
        if share <= LIMIT:
            break
    return share
