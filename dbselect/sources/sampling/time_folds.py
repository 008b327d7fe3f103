"""Folds of rows in the order of a column: each is judged by what came before it."""

import numpy as np
import polars as pl

from dbselect.errors import ColumnError, DataError, SourceError
from dbselect.record.columns import leaf_of, leaves
from dbselect.sources.partial.grouping import moments_of
from dbselect.sources.request import Folding, Table


def time_folding(table: Table, time: str, k: int) -> Folding:
    """Return k folds and the rows before them, as of scikit-learn's ``TimeSeriesSplit``.

    Rows of equal time are in one. The column is read once; DataError if it has gaps or few values.
    """
    leaf = leaf_of(time, {one.name: one for one in leaves(table.schema)}, "time")
    if not leaf.is_numeric or leaf.field != time:
        raise ColumnError(f"time '{time}' has type {leaf.type}; it must be a number or a date")
    if not table.again:
        raise SourceError("source is a stream that can be read only once, and time needs a read")
    read = [moments_of(pl.DataFrame(batch), time) for batch in table.batches([time])]
    values = np.sort(np.concatenate(read)) if read else np.empty(0)
    missing = int(np.isnan(values).sum())
    if missing:
        raise DataError(f"time '{time}' is missing in {missing} rows, which have no place")
    size = len(values) // (k + 1)
    edges = values[len(values) - k * size :: size] if size else values[:0]
    if len(edges) < k or not (np.diff(edges, prepend=values[0]) > 0).all():
        raise DataError(
            f"time '{time}' has too few different values for {k} folds and rows before them; ask "
            "for fewer folds"
        )
    return Folding(k + 1, time, 0, tuple(edges.tolist()))
