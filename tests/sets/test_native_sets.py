"""The sets that the compiled library chooses: those of Python, and of brute force.

Thousands of random problems more: `make oracle`.
"""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import test_native_search as searches

import dbselect as ds
from dbselect.linear.state import State
from dbselect.search import compiled


def random_choice(rng: np.random.Generator, widest: int) -> tuple[ds.Gram, dict[str, Any]]:
    """Return a problem of `exchange` with any options."""
    width = min(widest, int(np.exp(rng.uniform(0, np.log(widest + 1)))))
    gram = searches.gram_of(rng, *searches.columns_and_target(rng, width))
    given = searches.groups_and_costs(rng, width)
    names, costs = rng.permutation(list(given["groups"])).tolist(), given["costs"]
    first = int(rng.integers(0, min(len(names), 3))) if rng.random() < 0.3 else 0
    more = int(rng.integers(0, 3)) if rng.random() < 0.3 else 0
    k = int(rng.integers(max(1, min(first + more, len(names))), len(names) + 1))
    given |= {"always": names[:first], "start": names[first : min(first + more, k)], "k": k}
    given["ridge"] = float(rng.choice([0, 0, 0, 1e-6, 0.1, 5]))
    if rng.random() < 0.2:
        given["intercept"] = False
    if rng.random() < 0.3:
        least = sum(costs[name] for name in [*given["always"], *given["start"]])
        given["budget"] = least + rng.uniform(0, sum(costs.values()))
    return gram, given


def assert_same(gram: ds.Gram, given: dict[str, Any], context: Any) -> str:
    """Compare the library's choice with Python's; tell what became of it."""
    found = chosen(gram, given)
    with context as patch:
        patch.setattr(compiled, "MOST_COLUMNS", -1)
        expected = chosen(gram, given)
    if isinstance(expected, str):
        assert found == expected
        return "none"
    allowed = searches.EXACT + searches.SUMS * condition_of(gram, given)
    assert found.explained == pytest.approx(expected.explained, rel=0, abs=allowed)
    if found.chosen != expected.chosen:
        return "rounding"
    history, other = found.diagnostics.history, expected.diagnostics.history
    if len(history) == len(other):
        np.testing.assert_allclose(history, other, rtol=0, atol=allowed)
        assert found.diagnostics.queries == expected.diagnostics.queries
    return "same"


def chosen(gram: ds.Gram, given: dict[str, Any]) -> ds.results.Selected | str:
    try:
        return ds.exchange(gram, "y", **given)
    except ds.errors.DataError as error:
        return str(error)


def condition_of(gram: ds.Gram, given: dict[str, Any]) -> float:
    """Return the condition of the columns of all groups."""
    search = ds.anytime_sequence(gram, "y", given["groups"], ridge=given["ridge"])
    whole = State(search.linear, search.positions)
    whole.add_all(range(whole.size))
    return whole.condition()


@pytest.mark.filterwarnings("ignore::dbselect.errors.ConditionWarning")
@pytest.mark.filterwarnings("ignore::dbselect.errors.DependenceWarning")
@pytest.mark.parametrize("seed", range(3))
def test_exchanges_are_those_of_python(seed, monkeypatch):
    problems = (random_choice(np.random.default_rng([seed, i]), 12) for i in range(40))
    became = Counter(assert_same(*one, monkeypatch.context()) for one in problems)
    assert became["same"] >= 30
