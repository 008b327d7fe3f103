"""What commands read that commands wrote: Grams and sequences, from files or a pipe."""

import json
import sys
from pathlib import Path
from typing import Any

from dbselect.doors.cli.out import STDOUT
from dbselect.errors import SourceError
from dbselect.record import files
from dbselect.record.gram import Gram
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.joint import JointSequence
from dbselect.results.sequence import Sequence
from dbselect.results.wide import WideSequence

#: Families of sequences, each with a field that those after it have not.
_FAMILIES = (
    (GlmSequence, "family"),
    (JointSequence, "responses"),
    (WideSequence, "scans"),
    (Sequence, "sequence"),
)


def source_of(source: str) -> Any:
    """Return a source as it was given, or the Gram that comes through a pipe."""
    return Gram.from_struct(_piped("a gram")) if source == STDOUT else source


def stored_sequence(path: str) -> Any:
    """Read a sequence of any family, from Parquet, JSON, or a pipe.

    Raises
    ------
    SourceError : there is no such file, or it holds something else
    """
    if path != STDOUT and Path(path).suffix != ".json":
        table = files.read_parquet(path, "a sequence")
        if table.num_rows != 1:
            raise SourceError(f"'{path}' has {table.num_rows} rows; a sequence is one")
        return _sequence_of({name: table[name][0] for name in table.column_names}, path)
    record = _piped("a sequence") if path == STDOUT else files.read_json(path)
    return _sequence_of(record, path)


def _sequence_of(record: Any, path: str) -> Any:
    """Tell the family of a record by its fields."""
    for family, own in _FAMILIES:
        if isinstance(record, dict) and own in record:
            return family.from_struct(record)
    raise SourceError(f"'{path}' is no sequence, which 'dbselect sequence --out' writes")


def _piped(what: str) -> Any:
    try:
        record = json.loads(sys.stdin.read())
    except (ValueError, RecursionError) as error:
        raise SourceError(f"cannot read {what} as JSON from standard input: {error}") from None
    return files.unsealed(record, STDOUT)
