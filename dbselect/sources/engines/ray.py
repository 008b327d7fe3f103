"""Datasets of Ray: each block is summed where it is, and sums are merged on the way."""

import pickle
from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from dbselect.errors import SourceError
from dbselect.sources.engines.arrow import Batched
from dbselect.sources.engines.remote import ERRORS, ran, release
from dbselect.sources.partial.partial_aggregates import Work, merging


class RayTable(Batched):
    """A dataset of Ray, computed at each reading, reading only the requested fields."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        schema = dataset.schema()
        if schema is None:
            raise SourceError("the dataset of Ray has no schema: it has no rows")
        found = schema.base_schema
        if not isinstance(found, pa.Schema):
            found = pa.schema(zip(schema.names, schema.types, strict=True))
        self.schema = found

    def reduce(self, fields: list[str], work: Work) -> Iterator[bytes]:
        """Have Ray's workers gather of their blocks, and return what comes of it."""
        rows = self._dataset.select_columns(fields)
        states = self._run(rows, "partial", work)
        for tasks in merging(work.size):
            states = self._run(states.repartition(tasks), "merge", work)
        try:
            for batch in states.iter_batches(batch_size=None, batch_format="pyarrow"):
                for row in batch.to_pylist():
                    if row["error"]:
                        kind, _, sentence = row["error"].partition(": ")
                        raise ERRORS[kind](sentence)
                    yield row["state"]
        except Exception as error:
            if isinstance(error, tuple(ERRORS.values())):
                raise
            raise SourceError(f"Ray cannot read the table: {error}") from error

    def _run(self, rows: Any, kind: str, work: Work) -> Any:
        task = partial(_gathered, work, kind)
        return rows.map_batches(task, batch_size=None, batch_format="pyarrow")

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Bring the fields here in batches, block by block."""
        rows = self._dataset.select_columns(fields)
        for batch in rows.iter_batches(batch_size=None, batch_format="pyarrow"):
            yield from batch.to_batches()


def _gathered(work: Work, kind: str, rows: pa.Table) -> pa.Table:
    """Return the state of a block, or of the states of some, and what is wrong."""
    state, error = ran(kind, release(), pickle.dumps(work), iter(rows.to_batches()))
    types = pa.schema([("state", pa.large_binary()), ("error", pa.string())])
    rows = [] if (state, error) == (None, None) else [{"state": state, "error": error}]
    return pa.Table.from_pylist(rows, schema=types)
