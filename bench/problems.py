"""Grams and tables that several benchmarks search."""

import numpy as np
import polars as pl
from tables import columns

import dbselect as ds


def problem(width: int, n_groups: int, seed: int = 0) -> tuple[ds.Gram, dict[str, list[str]]]:
    """Return the Gram of correlated columns and a noisy target, and groups of equal size."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(width) + 0.1 * rng.standard_normal((width, width)) / np.sqrt(width)
    features = rng.standard_normal((10 * width, width)) @ mixing
    target = features @ rng.standard_normal(width) + 5 * rng.standard_normal(10 * width)
    rows = np.column_stack([features, target])
    rows -= rows.mean(axis=0)
    n, names = len(rows), [*columns(width), "y"]
    gram = ds.Gram(names, n, 0, float(n), np.zeros(width + 1), rows.T @ rows)
    size = width // n_groups
    return gram, {f"g{i}": names[i * size : (i + 1) * size] for i in range(n_groups)}


def redundant(numbers: int, themes: int, levels: int) -> pl.DataFrame:
    """Return a table of numbers and of categories, three of a theme.

    The categories of a theme share the level "none", as those of a basement that a house
    does not have.
    """
    rng = np.random.default_rng(0)
    n = 3000
    X = rng.standard_normal((n, numbers))
    y = X @ (0.3 * rng.standard_normal(numbers))
    table = {f"x{j}": X[:, j] for j in range(numbers)}
    for theme in range(themes):
        none = rng.random(n) < 0.1
        for number in range(3):
            level = np.where(none, 0, rng.integers(1, levels, n))
            y = y + 0.4 * rng.standard_normal(levels)[level]
            table[f"theme{theme}_{number}"] = level
    table["near"] = y + 0.5 * rng.standard_normal(n)
    table["y"] = y + 0.3 * rng.standard_normal(n)
    return pl.DataFrame(table)
