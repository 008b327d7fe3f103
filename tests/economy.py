"""What `make test` leaves to `make test-more`, and that the tests it runs are quick.

A test marked `sample(n)` runs n of the cases of its parameters in `make test`, such that they
hold as many pairs of values as n cases can; the others are slow.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import combinations, groupby
from typing import Any

import pytest

#: Seconds of processors, of the test's own process and of those that it starts.
MOST_SECONDS = 1.0
#: What Python says before a process is started.
STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
_started: list[str] = []

Pair = tuple[tuple[str, int], ...]


def _watch(event: str, _: Any) -> None:
    if event in STARTS:
        _started.append(event)


sys.addaudithook(_watch)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what samples leave out."""
    for _, same in groupby(items, key=lambda item: (item.parent, getattr(item, "originalname", 0))):
        cases = list(same)
        sample = cases[0].get_closest_marker("sample")
        if sample:
            kept = set(sampled([pairs(case.callspec.indices) for case in cases], sample.args[0]))
            for at, case in enumerate(cases):
                if at not in kept:
                    case.add_marker(pytest.mark.slow)


def pairs(values: dict[str, int]) -> set[Pair]:
    """Return the pairs of values of a case, by parameter and place; of one parameter its value."""
    size = min(2, len(values))
    return set(combinations(sorted(values.items()), size))


def sampled(cases: list[set[Pair]], n: int) -> Iterator[int]:
    """Give the places of n cases, each the first of those that hold most pairs not yet held."""
    left = dict(enumerate(cases))
    new = set().union(*cases)
    for _ in range(min(n, len(cases))):
        at = max(left, key=lambda at: len(left[at] & new))
        new -= left.pop(at)
        yield at


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterable[Any]:
    """Fail a test that is not marked as what it is: slow, or with processes of its own."""
    if any(item.get_closest_marker(name) for name in ("slow", "system", "far")):
        return (yield)
    _started.clear()
    began = os.times()
    result = yield
    own, others = (sum(os.times()[at : at + 2]) - sum(began[at : at + 2]) for at in (0, 2))
    seconds = own + others
    if _started or others:
        pytest.fail("it starts a process: mark it as system", pytrace=False)
    if seconds > MOST_SECONDS:
        pytest.fail(f"it takes {seconds:.1f} s of processors: mark it as slow", pytrace=False)
    return result
