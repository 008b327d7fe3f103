"""Times of alternatives in one run, and peak memory of a fresh process."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

#: What was measured, the figures, the bar.
Row = tuple[str, str, str]

REPEATS = 5


def seconds(*alternatives: Callable[[], object], repeats: int = REPEATS) -> list[float]:
    """Return the median time of each alternative, run in turns after one warm-up each."""
    for work in alternatives:
        work()
    times: list[list[float]] = [[] for _ in alternatives]
    for _ in range(repeats):
        for work, spent in zip(alternatives, times, strict=True):
            start = time.perf_counter()
            work()
            spent.append(time.perf_counter() - start)
    return [statistics.median(spent) for spent in times]


def peak_megabytes(code: str, python: str = sys.executable) -> float:
    """Return the peak resident set of a new Python process that runs some code."""
    report = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    command = [python, "-c", f"{code}\n{report}"]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(result.stdout.split()[-1]) / 1024


def process(code: str, python: str = sys.executable) -> tuple[float, float]:
    """Return the seconds and the peak megabytes of a new Python process, its start included."""
    start = time.perf_counter()
    peak = peak_megabytes(code, python)
    return time.perf_counter() - start, peak
