"""The sets within a budget that the compiled library chooses: those of brute force."""

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import test_native_search as searches

import dbselect as ds


def random_budget(rng: np.random.Generator, most: int) -> tuple[ds.Gram, dict[str, Any]]:
    """Return a problem of `best_within` of at most some groups."""
    width = min(2 * most, int(np.exp(rng.uniform(0, np.log(2 * most + 1)))))
    gram = searches.gram_of(rng, *searches.columns_and_target(rng, width))
    given = searches.groups_and_costs(rng, width)
    given["ridge"] = float(rng.choice([0, 0, 0, 1e-6, 0.1, 5]))
    if rng.random() < 0.2:
        given["intercept"] = False
    names = list(given["groups"])[:most]
    given["groups"] = {name: given["groups"][name] for name in names}
    given["costs"] = {name: given["costs"][name] for name in names}
    always = rng.permutation(names)[: rng.integers(0, 2)].tolist()
    least = sum(given["costs"][name] for name in always)
    given |= {"always": always, "budget": least + rng.uniform(0, sum(given["costs"].values()))}
    return gram, given


def best_of_all(gram: ds.Gram, given: dict[str, Any]) -> tuple[float, float]:
    """Return what the best of all sets explains, by solving each, and how far that may err."""
    sums = gram.comoment
    if not given.get("intercept", True):
        sums = sums + gram.weight * np.outer(gram.mean, gram.mean)
    spread = np.sqrt(np.diagonal(sums))
    constant = spread <= 1e-13 * np.sqrt(gram.weight) * np.abs(gram.mean)
    spread[constant] = 1.0
    R = sums / spread / spread[:, None]
    R[constant], R[:, constant] = 0.0, 0.0
    C = R[:-1, :-1] + given["ridge"] * np.eye(len(R) - 1)
    groups, costs, always = given["groups"], given["costs"], given["always"]
    most, worst = 0.0, 1.0
    for size in range(len(groups) + 1):
        for held in combinations(groups, size):
            cost = sum(costs[name] for name in held)
            if not set(always) <= set(held) or cost > given["budget"] * (1 + 1e-12):
                continue
            at = [gram.columns.index(column) for name in held for column in groups[name]]
            values, vectors = np.linalg.eigh(C[np.ix_(at, at)])
            kept = values > 1e-11 * values.max(initial=0.0)
            part = (vectors.T @ R[at, -1])[kept]
            most = max(most, float((part**2 / values[kept]).sum()))
            worst = max([worst, *values[-1:] / values[kept][:1]])
    return most, 1e-9 + searches.SUMS * worst


def assert_best(gram: ds.Gram, given: dict[str, Any]) -> str:
    """Compare with all sets; tell whether the best is proven."""
    try:
        found = ds.best_within(gram, "y", time_limit=60.0, **given)
    except ds.errors.DataError:
        return "none"
    most, allowed = best_of_all(gram, given)
    assert found.spent <= given["budget"] * (1 + 1e-12)
    assert found.groups[: len(given["always"])] == given["always"]
    assert found.how.bound >= most - allowed
    if not found.how.proven:  # columns are too nearly dependent, for the sets here as well
        return "not proven"
    assert found.explained == pytest.approx(most, rel=0, abs=allowed)
    return "proven"


@pytest.mark.filterwarnings("ignore::dbselect.errors.ConditionWarning")
@pytest.mark.filterwarnings("ignore::dbselect.errors.DependenceWarning")
@pytest.mark.parametrize("seed", range(3))
def test_no_set_within_a_budget_explains_more(seed):
    problems = (random_budget(np.random.default_rng([seed, i]), 7) for i in range(12))
    became = Counter(assert_best(*one) for one in problems)
    assert became["proven"] >= 9
