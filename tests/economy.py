"""What `make test` leaves to `make test-more`, and that the tests it runs are quick.

A test marked `sample(n)` runs n of the cases of its parameters in `make test`, such that they
hold as many pairs of values as n cases can; the others are slow.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

import pytest

#: Seconds of processors, of the test's own process and of those that it starts.
MOST_SECONDS = 1.0
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
    own, others = (sum(os.times()[at : at + 2]) - sum(began[at : at + 2]) for at in (0, 2))
    if others > MOST_OF_OTHERS:
        pytest.fail("it starts a process: mark it as system", pytrace=False)
    if own + others > MOST_SECONDS:
        seconds = f"{own + others:.1f} s of processors"
        pytest.fail(f"it takes {seconds}: mark it as slow", pytrace=False)
    return result
