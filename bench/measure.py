"""Times of alternatives in one run, and what a fresh process takes."""

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

REPEATS = 5
#: The Python of an environment of peers, whose packages come after those of this one.
PEERS = os.environ.get("DBSELECT_PEERS")
if PEERS:
    sys.path += map(str, Path(PEERS).parent.parent.glob("lib/python*/site-packages"))
Clock = Callable[[], float]
#: With `--processor`, for a machine that others use, times are seconds of processors.
CLOCK: Clock = time.process_time if "--processor" in sys.argv else time.perf_counter


def spent(
    *alternatives: Callable[[], object], clocks: tuple[Clock, ...], repeats: int = REPEATS
) -> list[list[float]]:
    """Return, by clock, the median of each alternative, run in turns after one warm-up each."""
    for work in alternatives:
        work()
    samples: list[list[list[float]]] = [[[] for _ in alternatives] for _ in clocks]
    for _ in range(repeats):
        for at, work in enumerate(alternatives):
            start = [clock() for clock in clocks]
            work()
            for clock, since, times in zip(clocks, start, samples, strict=True):
                times[at].append(clock() - since)
    return [[statistics.median(sample) for sample in times] for times in samples]


def seconds(*alternatives: Callable[[], object], repeats: int = REPEATS) -> list[float]:
    """Return the median time of each alternative, run in turns after one warm-up each."""
    (medians,) = spent(*alternatives, clocks=(CLOCK,), repeats=repeats)
    return medians


def once(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of one call, and what it returns."""
    start = CLOCK()
    result = work()
    return CLOCK() - start, result


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def processor() -> float:
    """Return the processor seconds so far of this process and all below it, ended ones too."""
    this, total = psutil.Process(), 0.0
    for process in [this, *this.children(recursive=True)]:
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


@dataclass(frozen=True)
class Apart:
    """What a process took: seconds of work, peak memory, and its result."""

    seconds: float
    megabytes: float
    result: Any


#: Begins the line of an answer: libraries print lines of their own, some as the process ends.
ANSWER = "answer: "
START = f"import time; result, start = None, time.{CLOCK.__name__}()"
#: `VmHWM` is the process's own; `ru_maxrss` begins at the peak of the process that starts it.
END = f"""
took = time.{CLOCK.__name__}() - start
import json, re
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
print("\\n{ANSWER}" + json.dumps([took, peak, result]))
"""


def apart(work: str, prepare: str = "", python: str = sys.executable) -> Apart:
    """Run code in a fresh process, timed after what prepares it; it may set `result`."""
    command = [python, "-c", "\n".join([prepare, START, work, END])]
    folder = Path(__file__).parent
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"{work}: {done.stderr}")
    answer = done.stdout.rpartition(f"\n{ANSWER}")[2].splitlines()[0]
    return Apart(*json.loads(answer))
