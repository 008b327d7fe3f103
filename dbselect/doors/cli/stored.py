"""What commands read that commands wrote: Grams and sequences, from files or a pipe."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from dbselect.doors.cli.out import STDOUT
from dbselect.errors import ArgumentError, SourceError
from dbselect.record import files
from dbselect.record.gram import Gram
from dbselect.results.prediction.arrived import AnytimePredictor
from dbselect.results.prediction.predict import Predicting
from dbselect.results.prefixes import Prefixes
from dbselect.results.sequence import Sequence
from dbselect.results.stored import of_record, read
from dbselect.spec.spec import answer_of


def source_of(source: str) -> Any:
    """Return a source as it was given, or the Gram that comes through a pipe."""
    return Gram.from_struct(_piped("a gram")) if source == STDOUT else source


def stored_sequence(path: str) -> Any:
    """Read a sequence of any kind, from Parquet, JSON, or a pipe."""
    found = _stored(path)
    if not isinstance(found, Prefixes):
        raise SourceError(f"'{path}' is no sequence, which 'dbselect sequence --out' writes")
    return found


def stored_model(path: str, given: Mapping[str, Any]) -> Any:
    """Read a sequence of any kind, or a model, which takes no budget."""
    found = _stored(path)
    if isinstance(found, AnytimePredictor):
        raise ArgumentError(f"'{path}' is a predictor from any groups; predict with --available")
    if not isinstance(found, Prefixes | Predicting):
        raise SourceError(f"'{path}' is no sequence and no model")
    if "budget" in given and not isinstance(found, Prefixes):
        raise ArgumentError(f"--budget is for a sequence, and '{path}' is one model")
    return found


def stored_predictor(path: str) -> AnytimePredictor:
    """Read a predictor, or make it of the Gram of a linear sequence; else SourceError."""
    found = _stored(path)
    if isinstance(found, Sequence):
        found = answer_of(found.problem.on_gram(found.gram), "predictor")
    if not isinstance(found, AnytimePredictor):
        raise SourceError(f"'{path}' is neither a predictor nor a sequence of one linear model")
    return found


def _stored(path: str) -> Any:
    return of_record(_piped("a sequence"), path) if path == STDOUT else read(path)


def _piped(what: str) -> Any:
    try:
        record = json.loads(sys.stdin.read())
    except (ValueError, RecursionError) as error:
        raise SourceError(f"cannot read {what} as JSON from standard input: {error}") from None
    return files.unsealed(record, STDOUT)
