"""Thresholding by columns and groups (SGHT): its projection, its limits, its memory."""

from collections.abc import Iterator

import numpy as np
from measure import apart, once, seconds
from problems import redundant
from rows import Row

import dbselect as ds


def projections() -> Iterator[Row]:
    """Project onto few entries in few of 100 groups."""
    rng = np.random.default_rng(0)
    for p, groups, entries, bar in ((5_000_000, 20, 100, 0.5), (1_000_000, 60, 1200, 3.0)):
        v, labels = rng.standard_normal(p), np.repeat(np.arange(100), p // 100)
        shuffled = rng.permutation(labels)
        largest, *times = seconds(
            lambda v=v, k=entries: np.argpartition(abs(v), len(v) - k),
            *(
                lambda by=by, v=v, k=entries, j=groups: ds.reference.sght_project(v, by, k, j)
                for by in (labels, shuffled)
            ),
        )
        table = ds.reference.sght_table(v, labels, entries, groups)
        note = f"table of choices {table.choices.nbytes / 1e6:.1f} MB"
        what = f"sght_project, p = {p:,} in 100 groups, {groups} groups, {entries} entries"
        for time, order in zip(times, ("sorted", "shuffled"), strict=True):
            base = "argpartition of all"
            yield Row(f"{what}, labels {order}", time, largest, base, limit=bar, note=note)


def limits() -> Iterator[Row]:
    """Choose the limits of SGHT by cross-validation."""
    grid = {"max_columns": [10, 20, 40], "max_groups": [4, 8]}
    table = redundant(20, 6, 10)
    names = [name for name in table.columns if name.startswith("theme")]
    folds = ds.gram_by(table, fold=5, categories=names)
    forward, _ = once(lambda: ds.cross_validate(folds, "y"))
    took, _ = once(lambda: ds.cross_validate(folds, "y", "sght", grid))
    what = f"6 pairs of limits in 5 folds, D = {len(folds['gram'][0]['columns']) - 1}"
    yield Row(what, took, forward, "a forward search in 5 folds")


#: A descent on the Gram of `{p}` columns, which are normal numbers in groups of 100.
WIDE = """
import numpy as np, dbselect as ds
rows = np.random.default_rng(0).standard_normal((1000, {p} + 1))
rows -= rows.mean(axis=0)
names = [*(f"x{{j}}" for j in range({p})), "y"]
# A copy: of a matrix with itself, 20,000 wide, OpenBLAS's product ends the process.
gram = ds.Gram(names, 1000, 0, 1000.0, np.zeros({p} + 1), rows.T.copy() @ rows)
groups = {{f"g{{i}}": names[100 * i : 100 * i + 100] for i in range({p} // 100)}}
ds.sght(gram, "y", groups, max_columns=100, max_groups=20, start="zero", polish=False)
"""


def wide_descents() -> Iterator[Row]:
    """Measure the memory of SGHT on many columns, the making of the Gram included."""
    for p in (10_000, 20_000):
        took = apart(WIDE.format(p=p))
        yield Row(
            f"peak memory of SGHT, 100 of {p:,} columns in 20 groups, from 0",
            took.megabytes,
            p**2 / 2**20,
            "D² bytes",
            unit="MB",
            most=40.0,
            note=f"{took.seconds:.0f} s, the Gram of 1,000 rows included",
        )


PARTS = (projections, limits, wide_descents)
