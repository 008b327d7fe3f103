"""Ten thousand random searches, by the compiled library and by Python: `make oracle`.

The problems and comparisons are those of tests/sequences/test_native_search.py and of
tests/sets/test_native_penalised.py, which have some hundred of them. Columns, 1 to 200, may be
equal, dependent, nearly dependent or constant, scores tie; all methods, rules and options.
"""

import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from dbselect.search import compiled

# Before this folder, which has `problems` of its own.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sequences"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sets"))
import test_native_penalised
import test_native_search

BATCHES, BATCH, WIDEST = 40, 250, 200
#: Share of the problems in which rounding may decide between groups.
ROUNDING_SHARE = 0.02


def batch(seed: int) -> Counter[str]:
    """Compare some searches; an assertion names the first number that differs."""
    compiled.MOST_COLUMNS = -1  # Python's own
    became: Counter[str] = Counter()
    for i in range(BATCH):
        rng = np.random.default_rng([seed, i])
        if i % 4:
            asked = test_native_search.random_search(rng, WIDEST)
            became[test_native_search.assert_same(asked)] += 1
        else:
            model = test_native_penalised.random_model(rng, WIDEST)
            became[test_native_penalised.assert_same(model)] += 1
    return became


def main() -> int:
    """Compare all; 1 if too many problems were left to rounding."""
    became: Counter[str] = Counter()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for done, found in enumerate(pool.map(batch, range(100, 100 + BATCHES)), start=1):
            became += found
            print(f"{done * BATCH:,} problems: {dict(became)}", flush=True)
    return int(became["rounding"] > ROUNDING_SHARE * BATCHES * BATCH)


if __name__ == "__main__":
    sys.exit(main())
