"""Ten thousand random searches, by the compiled library and by Python: `make oracle`.

The problems and comparisons are those of tests/sequences/test_native_search.py,
tests/sets/test_native_sets.py, tests/sets/test_penalised.py and
tests/sets/test_native_answers.py, which have some hundred of them. Columns, 1 to 200, may be equal,
dependent, nearly dependent or constant, scores tie; all methods, rules and options. Sets within a
budget are compared with all sets of at most ten groups, designs with all next rows, diagnostics
with least squares by NumPy.
"""

import os
import sys
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from dbselect.errors import ConditionWarning
from dbselect.search import compiled

# Before the folder of this file, which has a module of the same name as one of theirs.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sequences"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sets"))
import test_native_answers as answers
import test_native_search as comparison
import test_native_sets as sets
import test_penalised as penalised

BATCHES, BATCH, WIDEST = 40, 250, 200
#: Problems of a batch whose sets are compared, and the most groups that all sets are made of.
SETS, MOST_GROUPS = 25, 10
#: What is compared beside the sets of a problem.
ANSWERS = (answers.assert_design, answers.assert_diagnostics, answers.assert_knockoffs)
#: Share of the problems in which rounding may decide between groups.
ROUNDING_SHARE = 0.02


def batch(seed: int) -> Counter[str]:
    """Compare some searches; an assertion names the first number that differs."""
    compiled.MOST_COLUMNS = -1  # Python's own
    became: Counter[str] = Counter()
    for i in range(BATCH):
        rng = np.random.default_rng([seed, i])
        if i % 4:
            became[comparison.assert_same(comparison.random_search(rng, WIDEST))] += 1
        else:
            became[penalised.assert_same(penalised.random_model(rng, WIDEST))] += 1
    return became + sets_of(seed)


def sets_of(seed: int) -> Counter[str]:
    """Compare the sets of some problems with all sets."""
    became: Counter[str] = Counter()
    compiled.MOST_COLUMNS = WIDEST
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConditionWarning)
        for i in range(SETS):
            rng = np.random.default_rng([seed, i, 1])
            best = sets.assert_best(*sets.random_budget(rng, MOST_GROUPS))
            became["best_within: " + best] += 1
            for at, one in enumerate(ANSWERS):
                became[one(np.random.default_rng([seed, i, 2 + at]), WIDEST)] += 1
    return became


def main() -> int:
    """Compare all; 1 if too many problems were left to rounding."""
    became: Counter[str] = Counter()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for done, found in enumerate(pool.map(batch, range(100, 100 + BATCHES)), start=1):
            became += found
            print(f"{done * BATCH:,} problems: {dict(became)}", flush=True)
    return int(became["rounding"] / (BATCHES * BATCH) > ROUNDING_SHARE)


if __name__ == "__main__":
    sys.exit(main())
