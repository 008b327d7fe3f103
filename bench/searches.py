"""Searches on a ready Gram, each beside one that does less."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from limits import limit
from measure import seconds
from problems import problem, redundant
from rows import Row

import dbselect as ds


def sequences() -> Iterator[Row]:
    """Measure a full sequence by both main rules."""
    for width, n_groups, bar in ((500, 100, 0.3), (2000, 200, 2.0)):
        gram, groups = problem(width, n_groups)
        rules = (partial(ds.anytime_sequence, gram, "y", groups, rule=r) for r in ("fr", "omp"))
        fr, omp = seconds(*rules)
        what = f"full fr sequence, D = {width} in {n_groups} groups"
        yield Row(what, fr, omp, "rule omp", most=1.5, limit=bar)


def responses() -> Iterator[Row]:
    """Measure a full sequence for several responses against that for one."""
    width, count = 500, 10
    gram, groups = problem(width, 100)
    # Any columns will do as further responses: the search takes as long.
    extra = [f"y{k}" for k in range(count - 1)]
    rng = np.random.default_rng(1)
    mixing = np.vstack([rng.standard_normal((width, count - 1)), np.ones((1, count - 1))])
    maps = np.hstack([np.eye(width + 1), mixing])
    names = [*gram.columns, *extra]
    more = ds.Gram(
        names, gram.rows, 0, gram.weight, np.zeros(len(names)), maps.T @ gram.comoment @ maps
    )
    several, single = seconds(
        lambda: ds.anytime_sequence(more, ["y", *extra], groups),
        lambda: ds.anytime_sequence(gram, "y", groups),
    )
    what = f"full fr sequence for {count} responses, D = {width} in 100 groups"
    yield Row(what, several, single, "one response", most=3.0)


def certificates() -> Iterator[Row]:
    """Measure the bounds at every step of a sequence."""
    gram, groups = problem(500, 100)
    sequence = ds.anytime_sequence(gram, "y", groups)
    search, bounds = seconds(lambda: ds.anytime_sequence(gram, "y", groups), sequence.certificate)
    what = "certificate at 101 budgets, D = 500 in 100 groups"
    # The extreme eigenvalues of what is left at four of its steps.
    work = 4 / 3 * sum((500 * quarter / 4) ** 3 for quarter in range(1, 5))
    note = limit(search, work, scans=False)
    yield Row(what, bounds, search, "the sequence", most=2.0, note=note)


def removals() -> Iterator[Row]:
    """Measure the searches that give groups back, to their end."""
    gram, groups = problem(500, 100)
    yield from _beside_forward("D = 500 in 100 groups", gram, groups, 0.0)
    for numbers, themes, levels in ((20, 6, 10), (30, 7, 14)):
        table = redundant(numbers, themes, levels)
        names = [name for name in table.columns if name.startswith("theme")]
        gram = ds.gram(table, categories=names)
        what = f"D = {len(gram.columns) - 1}: {numbers} numbers, {3 * themes} dependent categories"
        yield from _beside_forward(what, gram, None, 0.01)


def _beside_forward(
    what: str, gram: ds.Gram, groups: dict[str, list[str]] | None, ridge: float
) -> Iterator[Row]:
    forward, foba, backward = seconds(
        lambda: ds.anytime_sequence(gram, "y", groups),
        lambda: ds.foba(gram, "y", groups),
        lambda: ds.backward(gram, "y", groups, ridge=ridge),
    )
    base = "the forward search"
    yield Row(f"foba, {what}", foba, forward, base, most=5.0)
    yield Row(f"backward, ridge {ridge:g}, {what}", backward, forward, base, most=5.0)


PARTS = (sequences, responses, certificates, removals)
