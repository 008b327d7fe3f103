"""Sums over the rows of each fold apart, in one reading of the table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dbselect.sources.partial.grouping import folds_of
from dbselect.sources.partial.partial_aggregates import Gatherings, Together
from dbselect.sources.request import Folding
from dbselect.sources.sampling.folded import in_arrow


@dataclass(frozen=True)
class ByFold(Together):
    """A work for each fold, on its rows."""

    numbers: Sequence[int]  # folds of the works; rows of others are left out
    folding: Folding

    @contextmanager
    def begin(self) -> Iterator["FoldGatherings"]:
        """Begin all."""
        with super().begin() as all_:
            yield FoldGatherings(all_.each, self)


@dataclass(frozen=True)
class FoldGatherings(Gatherings):
    """What the works have gathered of their folds."""

    asked: ByFold

    def add(self, batch: Any) -> None:
        """Show the rows of each fold to its work."""
        rows = in_arrow(batch)
        rows = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        folds = folds_of(rows, self.asked.folding)
        there = np.unique(np.asarray(folds)).tolist()
        for fold, one in zip(self.asked.numbers, self.each, strict=True):
            if fold in there:
                one.add(rows.filter(pc.equal(folds, fold)))
