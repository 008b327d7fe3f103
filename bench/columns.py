"""Searches that remove groups, and searches of wide Grams, beside the forward search.

Prints ratios of medians, measured in turns in one process: `.venv/bin/python bench/columns.py`;
`--busy` beside two processes that do nothing but count.
"""

import multiprocessing
import sys
from functools import partial

import scipy.linalg
from measure import seconds
from problems import problem

import dbselect as ds

CALLS = (ds.anytime_sequence, ds.foba, ds.backward)


def count() -> None:
    """Keep a core busy."""
    while True:
        pass


def neighbours() -> None:
    """Print the time of 1,001 columns beside that of 1,000."""
    (narrow, groups), (wide, wide_groups) = problem(1000, 100), problem(1001, 91)
    for call in CALLS:
        base, took = seconds(
            partial(call, narrow, "y", groups), partial(call, wide, "y", wide_groups), repeats=3
        )
        print(f"{call.__name__}, D = 1,001 to 1,000: {took / base:.2f} ({base:.3f} s)", flush=True)


def wide() -> None:
    """Print the times of searches of 2,000 columns, beside one factorisation."""
    gram, groups = problem(2000, 200)
    columns = gram.comoment[:-1, :-1].copy()
    times = seconds(
        partial(scipy.linalg.cholesky, columns),
        *(partial(call, gram, "y", groups) for call in CALLS),
        repeats=3,
    )
    factor, forward, foba, backward = times
    print(f"forward to cholesky, D = 2,000: {forward / factor:.1f} ({factor:.3f} s)")
    print(f"foba to forward: {foba / forward:.2f}; backward: {backward / forward:.2f}")


def main() -> None:
    """Measure with or without other work on the cores."""
    loops = [multiprocessing.Process(target=count, daemon=True) for _ in range(2)]
    if "--busy" in sys.argv[1:]:
        [loop.start() for loop in loops]
    neighbours()
    wide()


if __name__ == "__main__":
    main()
