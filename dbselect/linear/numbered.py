"""A Gram for the compiled library: numbers are names that no glob and no suffix can mean."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dbselect.record.gram import Gram

#: The target's name.
TARGET = "target"


def numbered(gram: Gram, columns: Sequence[str], target: str) -> pa.StructArray:
    """Return the record of some columns, called by their numbers from 0 on, and the target."""
    number = {name: at for at, name in enumerate(gram.columns)}
    at = np.array([number[name] for name in [*columns, target]])
    lower = gram.comoment[np.ix_(at, at)][np.tri(len(at), dtype=bool)]
    fields = {
        "columns": pa.array([*map(str, range(len(columns))), TARGET]),
        "mean": pa.array(gram.mean[at]),
        "mean_low": pa.array(gram.mean_low[at]),
        "comoment": pa.array(lower),
    }
    lists = {
        name: pa.FixedSizeListArray.from_arrays(values, len(values))
        for name, values in fields.items()
    }
    counts = {
        "rows": pa.array([gram.rows], pa.int64()),
        "skipped": pa.array([gram.skipped], pa.int64()),
        "weight": pa.array([gram.weight], pa.float64()),
    }
    return pa.StructArray.from_arrays([*lists.values(), *counts.values()], names=[*lists, *counts])
