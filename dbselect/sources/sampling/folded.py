"""A table without one fold of its rows, or only that fold; every pass splits it again.

With folds in the order of a column, later folds are left out, too.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dbselect._arrow import empty_table
from dbselect.record.columns import leaves
from dbselect.sources.around import Around, without
from dbselect.sources.partial.grouping import folds_of, in_arrow
from dbselect.sources.partial.partial_aggregates import Changed, Reduce, Tally, Together, Work
from dbselect.sources.request import Consumer, Folding, Table


@dataclass(frozen=True)
class RowFolds:
    """The folds of a table's rows."""

    table: Table  # read at every use
    folding: Folding
    #: Fields used only to decide folds, which the schema of a fold omits
    hidden: Sequence[str] = ()

    @property
    def fields(self) -> list[str]:
        """Fields that decide the fold of a row."""
        if self.folding.key is not None:
            return [self.folding.key]
        fields = {leaf.name: leaf.field for leaf in leaves(self.table.schema)}
        return list(dict.fromkeys(fields[name] for name in self.folding.columns))

    def of(self, batch: pa.Table) -> pa.Array:
        """Return the fold of every row of a batch."""
        return folds_of(batch, self.folding)

    def present(self) -> list[int]:
        """Read the table once and return the folds that have rows, ascending."""
        self.of(empty_table(self.table.schema))  # refuses a key of a wrong type before reading
        count = partial(_counted, self.folding)
        return sorted(Tally(count).over(self.table, self.fields))


class FoldedTable(Around):
    """The rows of one fold if `held_out`, else the others; all rows if `fold` is None."""

    def __init__(self, folds: RowFolds, fold: int | None, *, held_out: bool = False) -> None:
        self._folds = folds
        self._fold = fold
        self._held_out = held_out
        super().__init__(folds.table, without(folds.table, *folds.hidden).schema)
        self.rows = None

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Read the fields in batches, on as many threads as the table has."""
        kept = self._keeping(fields)()

        def consume_kept(batch: Any) -> None:
            rows = kept(batch)
            if rows.num_rows:
                consume(rows)

        self._table.scan(self._with_deciding(fields), consume_kept)

    @property
    def reduce(self) -> Reduce | None:
        """The engine's method to reduce the kept rows in its own processes; None if it has none."""
        inner = super().reduce
        return inner and partial(self._reduce, inner)

    def _reduce(self, inner: Reduce, fields: list[str], work: Work) -> Iterable[bytes]:
        return inner(self._with_deciding(fields), Changed(work, self._keeping(fields)))

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields in batches, in the order of the table."""
        kept = self._keeping(fields)()
        with closing(self._table.batches(self._with_deciding(fields))) as batches:
            for batch in batches:
                yield from kept(pa.Table.from_batches([batch])).to_batches()

    def _with_deciding(self, fields: list[str]) -> list[str]:
        return list(dict.fromkeys([*fields, *self._folds.fields]))

    def _keeping(self, fields: list[str]) -> Callable[[], Callable[[Any], pa.Table]]:
        """Return plain data that makes the function which selects the kept rows of a batch."""
        arguments = self._folds.folding, fields, self._fold, self._held_out
        return partial(partial, _kept, *arguments)


def _kept(
    folding: Folding, fields: list[str], fold: int | None, held_out: bool, batch: Any
) -> pa.Table:
    rows = in_arrow(batch)
    if fold is None:
        return rows.select(fields)
    training = pc.less if folding.edges else pc.not_equal
    compare = pc.equal if held_out else training
    return rows.select(fields).filter(compare(folds_of(rows, folding), fold))


@dataclass(frozen=True)
class ByFold(Together):
    """One work per fold, on the rows of that fold."""

    numbers: Sequence[int]  # folds of the works; rows of other folds are left out
    folding: Folding

    def shares(self, batch: Any) -> Iterator[pa.Table | None]:
        """Yield the rows of each fold; None for no rows."""
        rows = in_arrow(batch)
        rows = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        folds = folds_of(rows, self.folding)
        present = np.unique(np.asarray(folds)).tolist()
        for fold in self.numbers:
            yield rows.filter(pc.equal(folds, fold)) if fold in present else None


def _counted(folding: Folding, batch: Any) -> Counter[int]:
    folds = np.asarray(folds_of(in_arrow(batch), folding))
    return Counter(dict(zip(*(array.tolist() for array in np.unique_counts(folds)), strict=True)))
