"""Correlations between groups of columns: the strongest pair of each two groups."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl
import scipy

from dbselect.errors import ArgumentError
from dbselect.options.kinds import is_whole
from dbselect.pages.charts import between
from dbselect.record.bases import Matrix
from dbselect.record.groups import Groups, groups_of
from dbselect.record.policies import row_counts

#: The limit of altair: it draws at most 5,000 cells.
MOST_GROUPS = 70


def drawn_pairs(gram: Any, groups: Mapping[str, Iterable[str]] | None, most: int) -> Any:
    """Return the chart of `Gram.plot`."""
    if not (is_whole(most) and 2 <= int(most) <= MOST_GROUPS):
        raise ArgumentError(f"most is {most!r}; it must be a whole number from 2 to {MOST_GROUPS}")
    grouped = groups_of(gram.columns, groups, terms=gram.terms)
    frame, order = strongest_pairs(gram, grouped, int(most))
    notes = [f"{len(grouped.names)} groups of {len(gram.columns)} columns; "
            f"{row_counts(gram.rows, gram.skipped)}.",
            "A cell is the correlation of the two columns that correlate most."]  # fmt: skip
    if len(order) < len(grouped.names):
        notes.append(f"The {len(order)} groups that correlate most with another are drawn.")
    return between(frame, order, "How groups of columns correlate", notes)


def strongest_pairs(gram: Any, groups: Groups, most: int) -> tuple[pl.DataFrame, list[str]]:
    """Return the strongest correlations of `most` groups, and an order by similarity."""
    places = {name: at for at, name in enumerate(gram.columns)}
    at = [np.array([places[name] for name in members]) for members in groups.columns.values()]
    C = np.nan_to_num(gram.correlation())
    width = len(at)
    strength = np.zeros((width, width))
    row, column = np.zeros((2, width, width), dtype=int)
    for g, members in enumerate(at):
        for h in range(g):
            block = np.abs(C[np.ix_(members, at[h])])
            i, j = np.unravel_index(int(block.argmax()), block.shape)
            strength[g, h] = strength[h, g] = block[i, j]
            row[g, h], column[g, h] = members[i], at[h][j]
    kept = np.sort(np.argsort(-strength.max(axis=1), kind="stable")[:most])
    order = [int(kept[leaf]) for leaf in _similarity_order(strength[np.ix_(kept, kept)])]
    names = groups.names
    rows = []
    for g in order:
        for h in order:
            if g != h:
                i, j = (row[g, h], column[g, h]) if g > h else (column[h, g], row[h, g])
                pair = f"{gram.columns[i]}, {gram.columns[j]}"
                rows.append((names[g], names[h], float(C[i, j]), strength[g, h], pair))
    frame = pl.DataFrame(
        rows,
        schema={
            "group": pl.String, "other": pl.String, "correlation": pl.Float64,
            "strength": pl.Float64, "columns": pl.String,
        },
        orient="row",
    )  # fmt: skip
    return frame, [names[g] for g in order]


def _similarity_order(strength: Matrix) -> list[int]:
    """Return an order in which neighbours correlate, by hierarchical clustering."""
    if len(strength) < 3:
        return list(range(len(strength)))
    distance = np.maximum(1.0 - strength, 0.0)
    np.fill_diagonal(distance, 0.0)
    tree = scipy.cluster.hierarchy.linkage(
        scipy.spatial.distance.squareform(distance, checks=False), "average", optimal_ordering=True
    )
    return [int(leaf) for leaf in scipy.cluster.hierarchy.leaves_list(tree)]
