"""Dask DataFrames: the workers sum their partitions, and the sums are merged in a tree."""

from collections.abc import Generator, Iterator
from typing import Any

import pyarrow as pa

from dbselect.errors import DbselectError, SourceError
from dbselect.record.categories import text_schema, with_text_levels
from dbselect.sources.engines.arrow import Batched
from dbselect.sources.partial.partial_aggregates import Work, merge_of, merging, partial_of

#: States that one task merges, all in memory at once.
MERGED = 16


class DaskTable(Batched):
    """A DataFrame of Dask, computed at each reading, reading only the requested fields."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        try:
            # The types are inferred from Dask's artificial sample rows.
            self._own = pa.Schema.from_pandas(frame._meta_nonempty, preserve_index=False)
        except pa.ArrowException as error:
            raise SourceError(f"Dask has a column that Arrow has no type for: {error}") from error
        self.schema = text_schema(self._own)

    def reduce(self, fields: list[str], work: Work) -> Iterator[bytes]:
        """Reduce the partitions on Dask's workers; large states are merged there into one."""
        from dask.delayed import delayed

        schema = pa.schema([self._own.field(field) for field in fields])
        partial, merge = delayed(_partial), delayed(merge_of)
        states = [partial(work, part, schema) for part in self._parts(fields)]
        while len(states) > 1 and merging(work.size):
            ranges = range(0, len(states), MERGED)
            states = [merge(work, states[at : at + MERGED]) for at in ranges]
        yield from self._computed(delayed(list)(states))

    def by_key(self, fields: list[str], by: list[str], parts: int) -> "DaskTable":
        """Return the fields, shuffled so that all rows of a key are in one partition."""
        parts = max(parts, self._frame.npartitions)
        return DaskTable(self._frame[fields].shuffle(on=by, npartitions=parts))

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Collect the fields in batches, partition by partition, in their order."""
        schema = pa.schema([self._own.field(field) for field in fields])
        for part in self._parts(fields):
            yield from _in_arrow(self._computed(part), schema).to_batches()

    def _parts(self, fields: list[str]) -> list[Any]:
        return list(self._frame[fields].to_delayed())

    def _computed(self, delayed_value: Any) -> Any:
        try:
            return delayed_value.compute()
        except DbselectError:
            raise
        except Exception as error:  # a task of the caller may raise any error
            raise SourceError(f"Dask cannot read the table: {error}") from error


def _partial(work: Work, part: Any, schema: pa.Schema) -> bytes:
    return partial_of(work, [_in_arrow(part, schema)])


def _in_arrow(part: Any, schema: pa.Schema) -> pa.Table:
    try:
        table = pa.Table.from_pandas(part, schema=schema, preserve_index=False)
        return with_text_levels(table)
    except (pa.ArrowException, KeyError) as error:
        raise SourceError(f"a partition does not fit the table: {error}") from error
