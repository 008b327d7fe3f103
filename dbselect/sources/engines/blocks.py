"""Rows in blocks of a fixed size, so that sums of blocks do not depend on how an engine cuts."""

from dataclasses import dataclass, field
from threading import Lock

import polars as pl

#: Rows of a block: few enough that most lie in one batch of an engine, and none is copied; enough
#: to be worth a merge with the others.
MOST_ROWS, FEWEST_ROWS, VALUES = 2**14, 2**12, 2**22


def block_rows(columns: int) -> int:
    """Return the rows of a block of so many columns, a power of 2."""
    rows = VALUES // max(columns, 1)
    return max(FEWEST_ROWS, min(MOST_ROWS, 1 << max(rows.bit_length() - 1, 0)))


@dataclass
class Blocks:
    """Blocks of rows that arrive in pieces, in any order."""

    rows: int
    _pieces: dict[int, dict[int, pl.DataFrame]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def added(self, start: int, piece: pl.DataFrame) -> list[tuple[int, pl.DataFrame]]:
        """Take rows from number `start` on; return the blocks that are complete now."""
        complete = []
        with self._lock:
            end = start + piece.height
            for number in range(start // self.rows, -(-end // self.rows)):
                first = max(start, number * self.rows)
                part = piece.slice(first - start, min(end, (number + 1) * self.rows) - first)
                pieces = self._pieces.setdefault(number, {})
                pieces[first] = part
                if sum(each.height for each in pieces.values()) == self.rows:
                    complete.append((number, self._pieces.pop(number)))
        return [(number, _joined(pieces)) for number, pieces in complete]

    def rest(self) -> list[tuple[int, pl.DataFrame]]:
        """Return the last block, which may have fewer rows."""
        return [(number, _joined(pieces)) for number, pieces in sorted(self._pieces.items())]


def _joined(pieces: dict[int, pl.DataFrame]) -> pl.DataFrame:
    return pl.concat([pieces[start] for start in sorted(pieces)], rechunk=True)
