"""Work in another process: run it on rows there; return its state, or its error as a sentence."""

import itertools
import pickle
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any

import pyarrow as pa

from dbselect import errors
from dbselect.sources.partial.partial_aggregates import Work, merge_of, partial_of

#: Errors that workers report by name.
ERRORS = {
    error.__name__: error
    for error in (
        errors.ArgumentError,
        errors.ColumnError,
        errors.DataError,
        errors.RecordError,
        errors.SourceError,
    )
}


def release() -> str:
    """Return the version of dbselect in this process."""
    try:
        return metadata.version("dbselect")
    except metadata.PackageNotFoundError:
        return "of unknown version"


def check_sent(error: str | None) -> None:
    """Raise the error that a task reported, if any."""
    if error is not None:
        kind, _, sentence = error.partition(": ")
        raise ERRORS.get(kind, errors.SourceError)(sentence)


def ran(
    kind: str, release_there: str, sent: bytes, batches: Iterator[pa.RecordBatch]
) -> tuple[bytes | None, str | None]:
    """Run a pickled work on rows, or merge states; return its state, if any, and the error."""
    if release_there != release():
        return None, (
            f"SourceError: the workers have dbselect {release()} and the driver has "
            f"{release_there}; install the same version on every machine"
        )
    work: Work = pickle.loads(sent)
    try:
        batches = (batch for batch in batches if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return None, None
        rows = (pa.Table.from_batches([batch]) for batch in itertools.chain([first], batches))
        return (merge_of(work, _states(rows)) if kind == "merge" else partial_of(work, rows)), None
    except errors.DbselectError as error:
        return None, f"{type(error).__name__}: {error}"


def _states(rows: Iterable[Any]) -> Iterator[bytes]:
    for batch in rows:
        for row in batch.to_pylist():
            check_sent(row["error"])
            yield row["state"]
