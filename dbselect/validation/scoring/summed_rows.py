"""Rows that are read batch by batch, each for its sums, on any thread or in any process."""

import pickle
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, ClassVar

import pyarrow as pa


@dataclass(frozen=True)
class SummedRows(ABC):
    """Sums over the rows so far, as `sources.partial.partial_aggregates` asks for them."""

    #: Rows that are looked at together; None for a batch as it comes.
    at_once: ClassVar[int | None] = None

    sums: Any = field(kw_only=True)  # over no rows at first; others are added by their ``add``
    _lock: Any = field(default_factory=Lock, kw_only=True)

    def add(self, batch: Any) -> None:
        """Add some rows; may be called from several threads at once.

        DataError for an infinite value, or a negative weight; SourceError if a prediction is not
        finite.
        """
        for part in pa.table(batch).to_batches(max_chunksize=self.at_once):
            if part.num_rows:
                found = self._sums_of(part)
                with self._lock:
                    self.sums.add(found)

    def load(self, part: bytes) -> None:
        """Add what another process has summed."""
        self.sums.add(pickle.loads(part))

    def state(self) -> bytes:
        """Return the sums."""
        return pickle.dumps(self.sums)

    @abstractmethod
    def _sums_of(self, batch: pa.RecordBatch) -> Any:
        """Return the sums over some rows."""
