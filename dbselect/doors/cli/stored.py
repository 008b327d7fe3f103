"""What commands read that commands wrote: Grams and sequences, from files or a pipe."""

import json
import sys
from typing import Any

from dbselect.doors.cli.out import STDOUT
from dbselect.errors import SourceError
from dbselect.record import files
from dbselect.record.gram import Gram
from dbselect.results.prefixes import Prefixes
from dbselect.results.stored import of_record, read


def source_of(source: str) -> Any:
    """Return a source as it was given, or the Gram that comes through a pipe."""
    return Gram.from_struct(_piped("a gram")) if source == STDOUT else source


def stored_sequence(path: str) -> Any:
    """Read a sequence of any kind, from Parquet, JSON, or a pipe."""
    found = of_record(_piped("a sequence"), path) if path == STDOUT else read(path)
    if not isinstance(found, Prefixes):
        raise SourceError(f"'{path}' is no sequence, which 'dbselect sequence --out' writes")
    return found


def _piped(what: str) -> Any:
    try:
        record = json.loads(sys.stdin.read())
    except (ValueError, RecursionError) as error:
        raise SourceError(f"cannot read {what} as JSON from standard input: {error}") from None
    return files.unsealed(record, STDOUT)
