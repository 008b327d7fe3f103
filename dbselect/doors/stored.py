"""Read any stored result; the file states its type."""

from os import PathLike
from pathlib import Path
from typing import Any

from dbselect.errors import ArgumentError, SourceError, shown
from dbselect.record import files
from dbselect.record.gram import FIELDS, Gram
from dbselect.record.terms import Terms
from dbselect.results.fields import of_fields
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.joint import JointSequence
from dbselect.results.prediction.arrived import AnytimePredictor
from dbselect.results.sequence import Sequence
from dbselect.results.wide import WideSequence

#: Kinds of results, each with a field that the kinds after it lack.
_KINDS = (
    (AnytimePredictor, "predictor"),
    (GlmSequence, "family"),
    (JointSequence, "responses"),
    (WideSequence, "scans"),
    (Sequence, "sequence"),
)
#: Fields of terms; a JSON file of terms has at least one.
_TERMS = {"categories", "bases", "dates", "means", "indicators", "flat", "entries"}


def read(path: str | Path) -> Any:
    """Read a stored result, Gram or terms; the file states which.

    Parameters
    ----------
    path : file of ``write_parquet`` or ``write_json`` of a result, or a Parquet file with one
        Gram record in a column ``gram``

    Returns
    -------
    Gram, Terms, a sequence, AnytimePredictor, a model, a path of penalties, CrossValidation,
    StoppedSequence or Stability

    Raises
    ------
    SourceError : there is no such file, it is damaged, or it holds something else
    RecordError : a field of the record is damaged

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> import tempfile, pathlib
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "seq.parquet"
    >>> ds.anytime_sequence(table, "y").write_parquet(path)
    >>> ds.read(path).steps["group"].to_list()
    [None, 'a', 'b']
    >>> folder.cleanup()
    """
    if not isinstance(path, str | PathLike):
        raise ArgumentError(f"path is {shown(path)}; it must be the path of a file")
    if Path(path).suffix == ".json":
        return of_record(files.read_json(path), path)
    table = files.read_parquet(path, "a result")
    if table.column_names == ["gram"]:
        return Gram.read_parquet(path)
    if table.num_rows != 1:
        is_grams = "gram" in table.column_names
        many = "; pl.read_parquet reads the records of groups" if is_grams else ""
        raise SourceError(f"'{path}' has {table.num_rows} rows; a stored result is one{many}")
    return of_record({name: table[name][0] for name in table.column_names}, path)


def of_record(record: Any, path: str | Path) -> Any:
    """Build the result of a record of plain data; errors name the path."""
    if isinstance(record, dict):
        if {*record} == {"kind", "fields"}:
            return of_fields(record)
        for kind, field in _KINDS:
            if field in record:
                return kind.from_struct(record)
        if {*FIELDS} <= {*record}:
            return Gram.from_struct(record)
        if record and {*record} <= _TERMS:
            return Terms.from_struct(record)
    raise SourceError(
        f"'{path}' holds no result of dbselect; give a file that write_parquet or "
        "write_json of a result has written"
    )
