"""Candidate rows: blocks of them, and as many as fit in memory."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dbselect.objectives.a_optimal import Index
from dbselect.record.gram import Matrix, Vector


@dataclass(frozen=True, eq=False)
class Block:
    """A run of candidates.

    Parameters
    ----------
    numbers : shape (m,), row numbers
    X : shape (m, d)
    keys : what the rows are called, if they are
    """

    numbers: Index
    X: Matrix
    keys: pa.Array | None = None

    def take(self, at: Index) -> "Block":
        """Return some of the rows."""
        keys = None if self.keys is None else self.keys.take(pa.array(at))
        return Block(self.numbers[at], self.X[at], keys)

    def pick(self, at: int | np.intp) -> "Pick":
        """Return one of the rows."""
        key = None if self.keys is None else self.keys[at].as_py()
        return Pick(int(self.numbers[at]), key, self.X[at].copy())


@dataclass(frozen=True, eq=False)
class Pick:
    """A row to take: its number, its key if there is one, and its d values."""

    row: int
    key: Any
    x: Vector


class Held:
    """The rows of the largest variances among those added, as many as fit.

    Parameters
    ----------
    capacity : >= 2, rows

    Attributes
    ----------
    outside : largest variance of the rows let go; -1 if there are none
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._blocks: list[Block] = []
        self._variances: list[Vector] = []
        self._count = 0
        self.outside = -1.0

    def add(self, block: Block, variance: Vector) -> None:
        """Take the rows in, or let them go."""
        enter = np.flatnonzero(variance > self.outside)
        self._append(block.take(enter), variance[enter])
        if self._count > self._capacity:
            # Half, so that blocks enter for a while before the next are let go.
            block, variance = self.release()
            let_go = len(variance) - self._capacity // 2
            order = np.argpartition(variance, let_go)
            self.outside = float(variance[order[:let_go]].max())
            kept = np.sort(order[let_go:])
            self._append(block.take(kept), variance[kept])

    def _append(self, block: Block, variance: Vector) -> None:
        self._blocks.append(block)
        self._variances.append(variance)
        self._count += len(variance)

    def release(self) -> tuple[Block, Vector]:
        """Return the rows as one block, with their variances, and hold none."""
        keys = [block.keys for block in self._blocks]
        block = Block(
            np.concatenate([block.numbers for block in self._blocks]),
            np.concatenate([block.X for block in self._blocks]),
            None if keys[0] is None else pa.concat_arrays(keys),
        )
        variance = np.concatenate(self._variances)
        self._blocks, self._variances, self._count = [], [], 0
        return block, variance
