"""A group of very many levels beside a Gram, which lacks its columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dbselect.record.gram import Matrix, Vector

#: A stored group of levels.
LEVEL_GROUP_TYPE = pa.struct(
    [
        ("group", pa.string()),
        ("weight", pa.list_(pa.float64())),
        ("sums", pa.list_(pa.float64())),
    ]
)


@dataclass(frozen=True, eq=False)
class LevelGroup:
    """What a Gram would tell of the columns of a group, of which each row has one at most.

    Parameters
    ----------
    group : its name
    weight : shape (L,), of the rows of each level
    sums : shape (L, K + 1), sums by level of the K columns of the other groups and of the target,
        around the means of all rows
    """

    group: str
    weight: Vector
    sums: Matrix

    def to_struct(self) -> dict[str, Any]:
        """Return it as plain data."""
        sums = self.sums.ravel().tolist()
        return {"group": self.group, "weight": self.weight.tolist(), "sums": sums}

    @classmethod
    def from_struct(cls, record: Mapping[str, Any]) -> "LevelGroup":
        """Read what `to_struct` gave.

        Raises
        ------
        LookupError, TypeError, ValueError : the record is damaged
        """
        weight, sums = (np.array(record[name], dtype=float) for name in ("weight", "sums"))
        if not (np.isfinite(weight).all() and np.isfinite(sums).all() and len(weight)):
            raise ValueError("a number of its levels is not finite, or it has none")
        return cls(str(record["group"]), weight, sums.reshape(len(weight), -1))
