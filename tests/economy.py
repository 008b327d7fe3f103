"""What `make test` leaves to `make test-more`, and how quick the tests it runs are.

A test marked `sample(n)` runs n of the cases of its parameters in `make test`, such that they
hold as many pairs of values as n cases can; the others are slow.

A run ends with the slowest tests that are not marked. It is a report, never a failure: seconds are
those of the machine as it is now, and the first test to need a module imports it.
"""

import os
from collections.abc import Iterable, Iterator
from heapq import nlargest
from itertools import combinations
from typing import Any

import pytest

#: How many tests the report names.
SLOWEST = 10
#: Seconds of processors of a test, and those of the processes it started; workers send them so.
SECONDS = "seconds of processors"

Pair = tuple[tuple[str, int], ...]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what samples leave out."""
    tests: dict[Any, list[Any]] = {}
    for item in items:
        if item.get_closest_marker("sample"):
            tests.setdefault(item.function, []).append(item)
    for cases in tests.values():
        cases.sort(key=lambda case: case.nodeid)  # whatever shuffled them
        n = cases[0].get_closest_marker("sample").args[0]
        kept = set(sampled([pairs(case.callspec.indices) for case in cases], n))
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
    """Time a test that is not marked as slow or with processes of its own."""
    if any(item.get_closest_marker(name) for name in ("slow", "system", "far")):
        return (yield)
    began = os.times()
    try:
        return (yield)
    finally:
        ended = os.times()
        seconds = sum(ended[:2]) - sum(began[:2]), sum(ended[2:4]) - sum(began[2:4])
        item.user_properties.append((SECONDS, seconds))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the slowest of the tests that were timed, of all workers."""
    timed = [
        (sum(seconds), seconds[1], report.nodeid)
        for report in terminalreporter.getreports("passed")
        for name, seconds in report.user_properties
        if name == SECONDS
    ]
    if timed:
        terminalreporter.section("slowest unmarked tests, seconds of processors (of processes)")
    for seconds, others, nodeid in nlargest(SLOWEST, timed):
        terminalreporter.line(f"{seconds:6.2f} ({others:.2f}) {nodeid}")
