"""The levels of categories: a group of very many of them, and their shares in the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dbselect.record.gram import Gram, Matrix, Vector

#: Share by which the weights of the levels may add up to more than those of the rows.
ROUNDING = 1e-9
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
    """Sums for a group of indicator columns of which each row has at most one."""

    group: str  # its name
    weight: Vector  # shape (L,), of the rows of each level
    # shape (L, K + 1), sums by level of the K columns of the other groups and of the target, around
    # the means of all rows
    sums: Matrix

    def to_struct(self) -> dict[str, Any]:
        """Return it as plain data."""
        sums = self.sums.ravel().tolist()
        return {"group": self.group, "weight": self.weight.tolist(), "sums": sums}

    @classmethod
    def from_struct(cls, record: Mapping[str, Any]) -> "LevelGroup":
        """Read what `to_struct` gave; LookupError, TypeError or ValueError if it is damaged."""
        weight, sums = (np.array(record[name], dtype=float) for name in ("weight", "sums"))
        if not (np.isfinite(weight).all() and np.isfinite(sums).all() and len(weight)):
            raise ValueError("a number of its levels is not finite, or it has none")
        return cls(str(record["group"]), weight, sums.reshape(len(weight), -1))

    def check(self, groups: Mapping[str, Sequence[str]], total: float) -> None:
        """Raise ValueError if this does not belong to a Gram with these groups and this weight."""
        others = sum(len(columns) for name, columns in groups.items() if name != self.group)
        shape = (len(groups[self.group]), others + 1)
        if self.sums.shape != shape:
            raise ValueError(f"its sums by level have shape {self.sums.shape}, not {shape}")
        if (self.weight < 0).any() or self.weight.sum() > total * (1.0 + ROUNDING):
            raise ValueError("the weights of its levels are none of its rows")


def shares_of(
    gram: Gram, by_level: LevelGroup | None = None, names: Sequence[str] = ()
) -> dict[str, float]:
    """Return the mean of each level's column over the rows, also of a Gram of raw moments."""
    if not gram.weight:
        return {}
    place = {name: at for at, name in enumerate(gram.columns)}
    marked = [name for one in gram.terms.categories for name in one.marked_names if name in place]
    at = [place[name] for name in marked]
    means, squares = gram.mean[at], np.diagonal(gram.comoment)[at] / gram.weight
    known = gram.terms.means
    found = {
        name: mean or known.get(name, square)
        for name, mean, square in zip(marked, means.tolist(), squares.tolist(), strict=True)
    }
    if by_level is not None:
        found |= dict(zip(names, (by_level.weight / gram.weight).tolist(), strict=True))
    return found
