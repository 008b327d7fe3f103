"""A sequence for each of many Gram records: one segment of a table each."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from dbselect import _native
from dbselect.methods.records import (
    answered,
    asked_of,
    result_of,
    statuses,
    warn_of_condition,
    warn_of_traces,
)
from dbselect.record.gram import check_type
from dbselect.record.steps import SEQUENCE_DTYPE, Stop
from dbselect.results.store import write_sequences
from dbselect.selection.criteria import RULES

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem


def sequences_of(
    grams: pl.DataFrame, problem: "Problem", options: Mapping[str, Any]
) -> pl.DataFrame:
    """Return the sequence of every segment, and why there is none where there is none.

    Returns
    -------
    DataFrame: the other columns of `grams`; ``sequence``, a list of steps with the fields
    of SQL, empty where there is none; ``status``, null, or why there is none, or that it has
    as many coefficients as rows, which fit any target

    Raises
    ------
    As `anytime_sequence`, for arguments; none of unusable records

    Warns
    -----
    ConditionWarning : a segment has selected columns so nearly dependent that their
        coefficients keep fewer than six digits; `anytime_sequence` of its record says more
    DependenceWarning : a segment leaves out a column that depends on others but for a trace, by
        which it may explain much

    Notes
    -----
    O(D^3) a segment for a full sequence over D columns, on all cores; memory beside the result
    does not grow with the number of segments. A rule that only Python has takes some hundred
    times as long.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"k": [1, 1, 1, 2], "x": [1, 2, 3, 4], "y": [2, 4, 6, 8]})
    >>> found = ds.anytime_sequence_by(ds.gram_by(table, by=["k"]), "y")
    >>> found.select("k", pl.col("sequence").list.len(), "status").rows()
    [(1, 2, None), (2, 0, "target 'y' is constant (1 rows)")]
    """

    def answer(records: pa.Array) -> pa.StructArray:
        found = searched(records, problem, "anytime_sequence", options)
        columns = [found.field("sequence"), _status(found, records)]
        return pa.StructArray.from_arrays(columns, ["sequence", "status"])

    return answered(grams, "sequence", SEQUENCE_DTYPE, answer)


def _status(found: pa.StructArray, records: pa.Array) -> pa.StringArray:
    """Return why there is no sequence for each record, or that it fits any target."""
    status, full = found.field("status"), pc.equal(found.field("stop"), Stop.SATURATED.name)
    if not pc.any(full).as_py():
        return status
    rows = pc.cast(records.field("rows"), pa.string())
    words = pc.binary_join_element_wise(rows, Stop.SATURATED.value, " rows: ")
    return pc.if_else(full.fill_null(False), words.cast(pa.string()), status)


def searched(
    records: pa.Array, problem: "Problem", method: str, options: Mapping[str, Any]
) -> pa.StructArray:
    """Search each record by a method that the compiled library has.

    The problem has one response and no rows; `options` are those not at their defaults. Returns a
    struct of ``sequence``, ``status`` and ``stop``, a row for each record. Arguments raise as in
    `anytime_sequence`; an unusable record raises nothing, an array of something else than records
    RecordError.
    """
    check_type(records)
    rule = RULES.get(options.get("rule", "fr"))
    if rule is None or not rule.compiled:
        return _in_python(records, problem, method, options)
    target = problem.targets[0]
    found = asked_of(
        records, problem, options, lambda some, asked: _native.search(some, method, target, asked)
    )
    warn_of_condition(found.field("condition"))
    warn_of_traces(found.field("trace"))
    return found


def _in_python(
    records: pa.Array, problem: "Problem", method: str, options: Mapping[str, Any]
) -> pa.StructArray:
    """Search one record after the other, by a rule that the library does not have."""
    target = problem.targets[0]
    found = [
        result_of(lambda gram: getattr(problem.on(gram), method)(**options), record, target)
        for record in records
    ]
    stops = [None if sequence is None else sequence.stop.name for sequence in found]
    return pa.StructArray.from_arrays(
        [write_sequences(found), statuses(records, target), pa.array(stops, pa.string())],
        ["sequence", "status", "stop"],
    )
