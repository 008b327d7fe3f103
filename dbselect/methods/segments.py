"""A sequence for each of many Gram records: one segment of a table each.

The compiled library searches a whole column of records, on all cores and without the
interpreter. A rule that only Python has is searched here, record by record.
"""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from dbselect import _native
from dbselect.errors import (
    ArgumentError,
    ConditionWarning,
    DataError,
    DependenceWarning,
    RecordError,
)
from dbselect.linear.condition import CONDITION_LIMIT
from dbselect.methods.anytime import AnytimeOptions, anytime_sequence
from dbselect.methods.options import Options
from dbselect.methods.setup import check_target
from dbselect.methods.types import Costs, GroupColumns, GroupNames, RuleName
from dbselect.record.foreign import native
from dbselect.record.gram import Gram, check_type
from dbselect.record.groups import costs_by_name, patterns_by_name
from dbselect.record.steps import SEQUENCE_DTYPE, Stop
from dbselect.results.store import write_sequences
from dbselect.selection.criteria import RULES

Result = TypeVar("Result")

#: Bytes of records that are searched at a time. The lists of steps are some twice as long, and
#: no Arrow array of theirs may have more than 2 GB of text.
READ_BYTES = 2**25


def anytime_sequences(
    grams: pl.DataFrame,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    rule: RuleName = AnytimeOptions.rule,
    ridge: float = AnytimeOptions.ridge,
    scale: bool = AnytimeOptions.scale,
    intercept: bool = AnytimeOptions.intercept,
    budget: float | None = AnytimeOptions.budget,
    max_groups: int | None = AnytimeOptions.max_groups,
    always: GroupNames = AnytimeOptions.always,
    c_min: float | None = AnytimeOptions.c_min,
) -> pl.DataFrame:
    """Return the sequence of every segment, and why there is none where there is none.

    Parameters
    ----------
    grams : DataFrame with a column ``gram`` of Gram records, as `gram_by` returns it
    target, groups, costs, rule, ridge, scale, intercept, budget, max_groups, always, c_min : as
        in `anytime_sequence`

    Returns
    -------
    DataFrame: the other columns of `grams`; ``sequence``, a list of steps with the fields
    of SQL, empty where there is none; ``status``, null, or why there is none, or that it has
    as many coefficients as rows, which fit any target

    Raises
    ------
    As `anytime_sequence`, for arguments; an unusable record raises nothing

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
    >>> found = ds.anytime_sequences(ds.gram_by(table, by=["k"]), "y")
    >>> found.select("k", pl.col("sequence").list.len(), "status").rows()
    [(1, 2, None), (2, 0, "target 'y' is constant (1 rows)")]
    """
    check_target(target)
    if not isinstance(grams, pl.DataFrame) or "gram" not in grams.columns:
        raise ArgumentError("grams has no column 'gram'; it must be a DataFrame as of gram_by")
    taken = [name for name in ("sequence", "status") if name in grams.columns]
    if taken:
        raise ArgumentError(f"grams has a column '{taken[0]}'; rename it, as the result has one")
    options = AnytimeOptions(
        rule=rule, ridge=ridge, scale=scale, intercept=intercept, budget=budget,
        max_groups=max_groups, always=always, c_min=c_min,
    )  # fmt: skip

    def answer(records: pa.Array) -> pa.StructArray:
        found = searched(records, anytime_sequence, target, groups, costs, options)
        columns = [found.field("sequence"), _told(found, records)]
        return pa.StructArray.from_arrays(columns, ["sequence", "status"])

    dtype = pl.Struct({"sequence": SEQUENCE_DTYPE, "status": pl.String})
    found = by_blocks(grams["gram"], answer, dtype).struct.unnest()
    return grams.drop("gram").with_columns(found)


def _told(found: pa.StructArray, records: pa.Array) -> pa.StringArray:
    """Return why there is no sequence for each record, or that it fits any target."""
    status, full = found.field("status"), pc.equal(found.field("stop"), Stop.SATURATED.name)
    if not pc.any(full).as_py():
        return status
    rows = pc.cast(records.field("rows"), pa.string())
    told = pc.binary_join_element_wise(rows, Stop.SATURATED.value, " rows: ")
    return pc.if_else(full.fill_null(False), told.cast(pa.string()), status)


def by_blocks(records: pl.Series, answer: Callable[[pa.Array], pa.Array], dtype: Any) -> pl.Series:
    """Return what a function of Arrow records answers, as a Series.

    Parameters
    ----------
    records : Series of records
    answer : some of the records -> one value each
    dtype : of the answers
    """
    share = READ_BYTES / max(records.estimated_size(), 1)
    size = max(1, int(len(records) * share))
    starts = range(0, max(len(records), 1), size)
    # Views of text are not copied; other text would be, for every block that of all.
    level = pl.CompatLevel.newest()
    blocks = (records.slice(start, size).to_arrow(compat_level=level) for start in starts)
    parts = [pl.Series(records.name, answer(block)).cast(dtype) for block in blocks]
    return pl.concat(parts, rechunk=False)


def searched(
    records: pa.Array,
    call: Callable[..., Any],
    target: str,
    groups: GroupColumns | None,
    costs: Costs | None,
    options: Options,
) -> pa.StructArray:
    """Search each record by a method of one Gram.

    Parameters
    ----------
    records : Arrow structs
    call : the method
    target, groups, costs, options : what it is given

    Returns
    -------
    A row for each record: ``sequence``, a list of steps, empty where there is none; ``status``,
    null, or why there is none; ``stop``, the name of why it ended

    Raises
    ------
    As the method, for arguments

    Warns
    -----
    ConditionWarning, DependenceWarning : as `anytime_sequences`
    """
    check_type(records)
    given = options.given()
    # Costs without labels are in the order of groups that each record has of its own.
    unlabelled = groups is None and isinstance(native(costs), pl.Series)
    rule = RULES.get(getattr(options, "rule", ""))
    if unlabelled or (rule is not None and not rule.compiled):
        return _in_python(records, call, target, {"groups": groups, "costs": costs, **given})
    named = None if groups is None else patterns_by_name(groups)
    prices = None if costs is None else costs_by_name(costs, list(named or ()))
    request = {"groups": named, "costs": prices, **given}
    found = _native.search(records, options.method, target, request)
    warn_of_condition(found.field("condition"))
    warn_of_traces(found.field("trace"))
    return found


def _in_python(
    records: pa.Array, call: Callable[..., Any], target: str, given: dict[str, Any]
) -> pa.StructArray:
    """Search one record after the other, for what the library does not know."""

    def search(gram: Gram) -> Any:
        return call(gram, target, **given)

    found = [result_of(search, record, target) for record in records]
    stops = [None if sequence is None else sequence.stop.name for sequence in found]
    return pa.StructArray.from_arrays(
        [write_sequences(found), statuses(records, target), pa.array(stops, pa.string())],
        ["sequence", "status", "stop"],
    )


def result_of(run: Callable[[Gram], Result], record: pa.Scalar, target: str) -> Result | None:
    """Return what a call on a Gram makes of one record, None if the record is unusable."""
    if not record.is_valid:
        return None
    try:
        gram = Gram.from_struct(record)
    except RecordError:
        return None
    if _is_unseen(gram, target):
        return None
    gram.position(target, "target")
    try:
        return run(gram)
    except DataError:
        return None


def _is_unseen(gram: Gram, target: str) -> bool:
    """Whether a column is that of a level which other segments may have, and this one has not."""
    open_ones = (one.column for one in gram.terms.categories if not one.rest)
    named = any(target.startswith(f"{column}.") for column in open_ones)
    return named and target not in gram.columns


def statuses(records: pa.Array, target: str) -> pa.StringArray:
    """Return why there is no sequence for each record; NULL where there is one."""
    check_type(records)
    return _native.check(records, target)


def warn_of_condition(condition: pa.DoubleArray) -> None:
    """Warn where selected columns are so nearly dependent that coefficients lose digits."""
    if pc.any(pc.greater(condition, CONDITION_LIMIT)).as_py():
        # The same words for every block of records, so that they are shown once.
        warnings.warn(
            "segments have selected columns of a condition number above "
            f"{CONDITION_LIMIT:.0e}; their coefficients keep fewer than six of 16 digits",
            ConditionWarning,
            stacklevel=2,
        )


def warn_of_traces(traces: pa.StringArray) -> None:
    """Warn where columns are left out as dependent that may explain much by what is their own."""
    columns = [name for name in pc.unique(traces).to_pylist() if name]
    if columns:
        warnings.warn(
            f"segments leave out columns {columns} as dependent on others but for a trace, by "
            "which they may explain much of the target; anytime_sequence of such a record says how "
            "much, and fit(exact=True) or the difference as a column of its own keeps it",
            DependenceWarning,
            stacklevel=2,
        )
