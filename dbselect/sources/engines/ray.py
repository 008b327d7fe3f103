"""Datasets of Ray: the workers sum their blocks, and the sums are merged."""

import pickle
from collections.abc import Callable, Generator, Iterator
from copy import copy
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa

from dbselect.errors import DbselectError, SourceError
from dbselect.record.categories import text_schema, with_text_levels
from dbselect.record.foreign import wide_decimals
from dbselect.sources.bounded import key_hash
from dbselect.sources.engines.arrow import Batched
from dbselect.sources.engines.remote import check_sent, ran, release
from dbselect.sources.partial.partial_aggregates import Changed, Work, merging

#: Column with the part that a row is shuffled to; no table may have this name.
PART = "__dbselect_part"


class RayTable(Batched):
    """A dataset of Ray, computed at each reading, reading only the requested fields."""

    #: Number of parts in the column `PART`, one task each; 0 if the rows are not shuffled.
    _parts = 0

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        schema = dataset.schema()
        if schema is None:
            raise SourceError("the dataset of Ray has no schema: it has no rows")
        self.schema = schema.base_schema
        if not isinstance(self.schema, pa.Schema):
            self.schema = pa.schema(zip(schema.names, schema.types, strict=True))
        self.schema = text_schema(self.schema)

    def reduce(self, fields: list[str], work: Work) -> Iterator[bytes]:
        """Reduce the blocks on Ray's workers; return the pickled states."""
        if self._parts:
            shuffled = self._dataset.groupby(PART, num_partitions=self._parts)
            task = partial(_gathered, Changed(work, partial(_chosen, fields)), "partial")
            states = shuffled.map_groups(task, batch_format="pyarrow")
        else:
            states = self._run(self._dataset.select_columns(fields), "partial", work)
        for tasks in merging(work.size):
            states = self._run(states.repartition(tasks), "merge", work)
        try:
            for batch in states.iter_batches(batch_size=None, batch_format="pyarrow"):
                for row in batch.to_pylist():
                    check_sent(row["error"])
                    yield row["state"]
        except DbselectError:
            raise
        except Exception as error:
            raise SourceError(f"Ray cannot read the table: {error}") from error

    def _run(self, rows: Any, kind: str, work: Work) -> Any:
        task = partial(_gathered, work, kind)
        return rows.map_batches(task, batch_size=None, batch_format="pyarrow")

    def by_key(self, fields: list[str], by: list[str], parts: int) -> "RayTable":
        """Return the fields, shuffled so that all rows of a key are in one part."""
        numbered = self._dataset.select_columns(fields).map_batches(
            partial(_numbered, by, parts), batch_size=None, batch_format="pyarrow"
        )
        shuffled = copy(self)
        shuffled._dataset, shuffled._parts = numbered, parts
        return shuffled

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Collect the fields in batches, block by block."""
        rows = self._dataset.select_columns(fields)
        for batch in rows.iter_batches(batch_size=None, batch_format="pyarrow"):
            yield from with_text_levels(batch).to_batches()


def _numbered(by: list[str], parts: int, rows: pa.Table) -> pa.Table:
    """Add the number of the part of each row, by the hash of its key."""
    keys = pl.DataFrame(wide_decimals(with_text_levels(rows.select(by))))
    numbers = keys.select((key_hash(by) % parts).cast(pl.Int64)).to_series()
    return rows.append_column(PART, numbers.to_arrow())


def _chosen(fields: list[str]) -> Callable[[pa.Table], pa.Table]:
    """Return a function that drops the column `PART`."""
    return lambda rows: rows.select(fields)


def _gathered(work: Work, kind: str, rows: pa.Table) -> pa.Table:
    """Return the state of a block, or of merged states, with its error message."""
    batches = iter(with_text_levels(rows).to_batches())
    state, error = ran(kind, release(), pickle.dumps(work), batches)
    types = pa.schema([("state", pa.large_binary()), ("error", pa.string())])
    rows = [] if (state, error) == (None, None) else [{"state": state, "error": error}]
    return pa.Table.from_pylist(rows, schema=types)
