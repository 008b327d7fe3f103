"""What `make test` leaves to `make test-more`, and that the tests it runs are quick.

A test marked `sample(n)` runs n of the cases of its parameters in `make test`, such that they
hold as many pairs of values as n cases can; the others are slow.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import combinations
from typing import Any

import pytest

#: Seconds of processors, of the test's own process and of those that it starts, where `paced`
#: takes `PACE`; a slower machine has more.
MOST_SECONDS = 1.0
PACE = 0.02
#: The same of started processes alone, of a test that is not marked as `system`.
MOST_OF_OTHERS = 0.1

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
    """Fail a test that is not marked as what it is: slow, or with processes of its own."""
    if any(item.get_closest_marker(name) for name in ("slow", "system", "far")):
        return (yield)
    began = os.times()
    result = yield
    own, others = since(began)
    if others > MOST_OF_OTHERS:
        pytest.fail("it starts a process: mark it as system", pytrace=False)
    if own > MOST_SECONDS and (again := repeated(item)) > MOST_SECONDS * max(1, paced() / PACE):
        pytest.fail(f"it takes {again:.1f} s of processors: mark it as slow", pytrace=False)
    return result


def since(began: os.times_result) -> tuple[float, float]:
    """Return the seconds of processors since then, of this process and of those it started."""
    now = os.times()
    return sum(now[:2]) - sum(began[:2]), sum(now[2:4]) - sum(began[2:4])


def repeated(item: pytest.Item) -> float:
    """Return the seconds of a second run, which imports nothing and finds caches filled."""
    began = os.times()
    with suppress(Exception):  # the first run has left its files
        item.runtest()
    return since(began)[0]


def paced() -> float:
    """Return the seconds that a fixed piece of work takes on this machine, as it is now."""
    began = time.process_time()
    sum(n * n for n in range(300_000))
    return time.process_time() - began
