"""Read the output of other commands: Grams, sequences and tables, from files or a pipe."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from dbselect.doors.cli.out import RECORDS, STDOUT
from dbselect.doors.stored import of_record, read
from dbselect.errors import ArgumentError, RecordError, SourceError
from dbselect.record import files
from dbselect.record.gram import Gram
from dbselect.results.prediction.arrived import AnytimePredictor
from dbselect.results.prediction.predict import Predicting
from dbselect.results.prefixes import Prefixes
from dbselect.results.sequence import Sequence
from dbselect.spec.spec import answer_of


def source_of(source: str) -> Any:
    """Return a source unchanged, or the Gram or table from a pipe.

    The first bytes determine the format: Parquet, Arrow (file or stream), JSON of a Gram, NDJSON,
    else CSV, or text with tabs. A table from a pipe is held in memory.
    """
    if source != STDOUT:
        return source
    content = sys.stdin.buffer.read()
    if not content.strip():
        raise SourceError("standard input is empty; a table or a Gram is expected there")
    start = content.lstrip()[:1]
    if start == b"{" and (record := _one_record(content)) is not None:
        return Gram.from_struct(files.unsealed(record, STDOUT))
    try:
        return _table(content, start)
    except (pl.exceptions.PolarsError, pa.ArrowException, ValueError) as error:
        raise SourceError(f"cannot read the table from standard input: {error}") from None


def sequence_or_source(source: str) -> Any:
    """Return the stored sequence if the file contains one, else the source unchanged."""
    if source != STDOUT and Path(source).suffix in RECORDS and Path(source).is_file():
        try:
            result = read(source)
        except (RecordError, SourceError):
            return source
        return result if isinstance(result, Prefixes) else source
    return source_of(source)


def _one_record(content: bytes) -> Any:
    """Return the JSON of a single record, None for rows of NDJSON or other content."""
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        return None
    is_record = isinstance(record, Mapping) and any(
        isinstance(value, list | dict) for value in record.values()
    )
    return record if is_record else None


def _table(content: bytes, start: bytes) -> Any:
    """Return a table, with the format determined by its first bytes."""
    if content.startswith(b"PAR1"):
        return pl.read_parquet(content)
    if content.startswith(b"ARROW1"):
        return pa.ipc.open_file(content).read_all()
    if content.startswith(b"\xff\xff\xff\xff"):
        return pa.ipc.open_stream(content).read_all()
    if start == b"{":
        return pl.read_ndjson(content, infer_schema_length=None)
    header = content.partition(b"\n")[0]
    separator = "\t" if header.count(b"\t") > header.count(b",") else ","
    return pl.read_csv(content, separator=separator, infer_schema_length=None, try_parse_dates=True)


def stored_sequence(path: str) -> Any:
    """Read a sequence of any kind, from Parquet, JSON, or a pipe."""
    result = _stored(path)
    if not isinstance(result, Prefixes):
        raise SourceError(f"'{path}' is no sequence, which 'dbselect sequence --out' writes")
    return result


def stored_model(path: str, options: Mapping[str, Any]) -> Any:
    """Read a sequence of any kind, or a model; ArgumentError for a model with a budget."""
    result = _stored(path)
    if isinstance(result, AnytimePredictor):
        raise ArgumentError(f"'{path}' is a predictor from any groups; predict with --available")
    if not isinstance(result, Prefixes | Predicting):
        raise SourceError(f"'{path}' is no sequence and no model")
    if "budget" in options and not isinstance(result, Prefixes):
        raise ArgumentError(f"--budget is for a sequence, and '{path}' is one model")
    return result


def stored_predictor(path: str) -> AnytimePredictor:
    """Read a predictor, or build it from the Gram of a linear sequence; else SourceError."""
    result = _stored(path)
    if isinstance(result, Sequence):
        result = answer_of(result.problem.on_gram(result.gram), "predictor")
    if not isinstance(result, AnytimePredictor):
        raise SourceError(f"'{path}' is neither a predictor nor a sequence of one linear model")
    return result


def _stored(path: str) -> Any:
    if path != STDOUT:
        return read(path)
    try:
        record = json.loads(sys.stdin.read())
    except (ValueError, RecursionError) as error:
        raise SourceError(f"cannot read a sequence as JSON from standard input: {error}") from None
    return of_record(files.unsealed(record, STDOUT), path)
