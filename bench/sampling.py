"""Adaptive sampling (DASH) beside the greedy search: fewer rounds, each of many answers."""

from collections.abc import Iterator

import numpy as np
from measure import seconds
from problems import problem
from rows import Row
from tables import columns

import dbselect as ds


def linear() -> Iterator[Row]:
    """Choose 200 of 2,000 columns."""
    gram, _ = problem(2000, 2000)
    k = 200
    chosen, best = ds.dash(gram, "y", k=k), ds.greedy(gram, "y", k=k)
    run = chosen.diagnostics
    guessed, with_guess, greedy = seconds(
        lambda: ds.dash(gram, "y", k=k),
        lambda: ds.dash(gram, "y", k=k, opt=run.opt, alpha=run.alpha),
        lambda: ds.greedy(gram, "y", k=k),
        repeats=3,
    )
    base = f"greedy, {best.diagnostics.rounds} rounds"
    alone, guess = ds.reference.top_k(gram, "y", k=k), ds.reference.random_k(gram, "y", k=k)
    explained = (
        f"explained {chosen.explained:.4f}, greedy {best.explained:.4f}, "
        f"top-k {alone.explained:.4f}, random {guess.explained:.4f}"
    )
    what = f"DASH, {k} of 2,000 columns, {run.rounds} rounds"
    yield Row(f"{what}, OPT and alpha guessed", guessed, greedy, base, note=explained)
    yield Row(f"{what}, OPT and alpha given", with_guess, greedy, base)


def designs() -> Iterator[Row]:
    """Choose 100 of 1,024 correlated rows of norm 1 (Qian, Singer 2019, D1 of the designs)."""
    rng = np.random.default_rng(0)
    width, n, k = 256, 1024, 100
    rows = np.sqrt(0.8) * rng.standard_normal((n, 1)) + np.sqrt(0.2) * rng.standard_normal(
        (n, width)
    )
    names = columns(width)
    greedy, dash = seconds(
        lambda: ds.a_optimal(rows, names, k, scale_rows=True),
        lambda: ds.a_optimal(rows, names, k, scale_rows=True, method="dash"),
        repeats=3,
    )
    best = ds.a_optimal(rows, names, k, scale_rows=True)
    sampled = ds.a_optimal(rows, names, k, scale_rows=True, method="dash")
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    sample = unit[rng.choice(n, k, replace=False)]
    guess = width - np.trace(np.linalg.inv(np.eye(width) + sample.T @ sample))
    value = f"value {sampled.value[-1]:.2f}, greedy {best.value[-1]:.2f}, random {guess:.2f}"
    what = "DASH, A-optimal design, 100 of 1,024 rows of 256 correlated columns"
    yield Row(what, dash, greedy, "greedy", note=value)


PARTS = (linear, designs)
