"""Sums over the rows of each fold apart, in one reading of the table."""

import pickle
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dbselect.sources.partial.grouping import folds_of
from dbselect.sources.partial.partial_aggregates import Gathered, Work
from dbselect.sources.request import Folding
from dbselect.sources.sampling.folded import in_arrow


@dataclass(frozen=True)
class ByFold:
    """A work for each fold, on its rows."""

    works: Mapping[int, Work]  # fold -> Work; rows of other folds are left out
    folding: Folding  # number of folds, key and seed
    columns: list[str]  # flattened columns that decide where there is no key

    @property
    def size(self) -> int:
        """About how many bytes a state has."""
        return sum(work.size for work in self.works.values())

    @contextmanager
    def begin(self) -> Iterator["FoldGatherings"]:
        """Begin all."""
        with ExitStack() as stack:
            each = {fold: stack.enter_context(one.begin()) for fold, one in self.works.items()}
            yield FoldGatherings(self, each)


@dataclass(frozen=True)
class FoldGatherings:
    """What the works have gathered of their folds."""

    asked: ByFold
    each: Mapping[int, Gathered]

    def add(self, batch: Any) -> None:
        """Show the rows of each fold to its work."""
        rows = in_arrow(batch)
        rows = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        folds = folds_of(rows, self.asked.folding, self.asked.columns)
        for fold in np.unique(np.asarray(folds)).tolist():
            if fold in self.each:
                self.each[fold].add(rows.filter(pc.equal(folds, fold)))

    def load(self, part: bytes) -> None:
        """Add what others have gathered."""
        for fold, state in pickle.loads(part).items():
            self.each[fold].load(state)

    def state(self) -> bytes:
        """Return the states of all."""
        return pickle.dumps({fold: one.state() for fold, one in self.each.items()})
