"""Answers for each of many Gram records, one segment of a table each, and why there is none."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
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
    shown,
)
from dbselect.linear.condition import CONDITION_LIMIT
from dbselect.methods.fit import columns_read
from dbselect.options.option import REQUIRED
from dbselect.record.gram import RECORD_TYPE, Gram, check_type, dtype_of
from dbselect.record.groups import costs_by_name, groups_of
from dbselect.record.steps import SEQUENCE_DTYPE, Stop
from dbselect.results.store import write_sequences
from dbselect.selection.criteria import RULES
from dbselect.spec.methods import OF_RECORDS
from dbselect.spec.spec import Spec

Result = TypeVar("Result")
#: Bytes of records that are searched at a time. The lists of steps are some twice as long, and
#: no Arrow array of theirs may have more than 2 GB of text.
READ_BYTES = 2**25
#: Methods that choose groups, and are no sequence, which the compiled library has.
CHOICES = (
    "exchange", "dash", "best_within", "sght", "lasso", "sparse_group_lasso", "knockoffs"
)  # fmt: skip


@cache
def answer_type(method: str) -> pa.DataType:
    """Return the type of what a method answers for a record, as the library answers no record."""
    known = OF_RECORDS[method].known
    required = {name: 1 for name, option in known.items() if option.default is REQUIRED}
    none = pa.array([], RECORD_TYPE)
    if OF_RECORDS[method].returns == "sequence":
        return _native.search(none, method, "y", required).field("sequence").type
    return _native.answers(none, method, "y", required).field("found").type


def answered(
    grams: Any, name: str, dtype: Any, answer: Callable[[pa.Array], pa.StructArray]
) -> pl.DataFrame:
    """Return a frame of records with the answer and the status of each in their place."""
    if not isinstance(grams, pl.DataFrame):
        raise ArgumentError(f"grams is {shown(grams)}; it must be a DataFrame as of gram_by")
    if "gram" not in grams.columns:
        raise ArgumentError("grams has no column 'gram'; it must be a DataFrame as of gram_by")
    taken = [one for one in (name, "status") if one in grams.columns]
    if taken:
        raise ArgumentError(f"grams has a column '{taken[0]}'; rename it, as the result has one")
    both = pl.Struct({name: dtype, "status": pl.String})
    found = by_blocks(grams["gram"], answer, both).struct.unnest()
    return grams.drop("gram").with_columns(found)


def by_blocks(records: pl.Series, answer: Callable[[pa.Array], pa.Array], dtype: Any) -> pl.Series:
    """Return what a function of Arrow records, one value each, answers, as a Series."""
    share = READ_BYTES / max(records.estimated_size(), 1)
    size = max(1, int(len(records) * share))
    starts = range(0, max(len(records), 1), size)
    # Views of text are not copied; other text would be, for every block that of all.
    level = pl.CompatLevel.newest()
    blocks = (records.slice(start, size).to_arrow(compat_level=level) for start in starts)
    parts = [pl.Series(records.name, answer(block)).cast(dtype) for block in blocks]
    return pl.concat(parts, rechunk=False)


def asked_of(
    records: pa.Array,
    problem: Spec,
    options: Mapping[str, Any],
    ask: Callable[[pa.Array, dict[str, Any]], pa.StructArray],
) -> pa.StructArray:
    """Ask the compiled library, each record alone where costs are in the order of its groups."""
    own = {"groups": problem.groups, **problem.changed(), **options}
    if problem.groups is not None or not isinstance(problem.costs, pl.Series) or not len(records):
        costs = problem.costs
        prices = None if costs is None else costs_by_name(costs, list(problem.groups or ()))
        return ask(records, {**own, "costs": prices})
    prices_of = (_prices(problem, record) for record in records)
    found = [
        ask(records.slice(at, 1), {**own, "costs": prices}) for at, prices in enumerate(prices_of)
    ]
    return pa.concat_arrays(found)


def _prices(problem: Spec, record: pa.Scalar) -> dict[str, float] | None:
    """Return costs without labels by the groups of a record; None of an unusable one."""
    try:
        gram = Gram.from_struct(record) if record.is_valid else None
    except RecordError:
        gram = None
    if gram is None or not gram.rows:
        return None
    features = [name for name in gram.columns if name not in problem.targets]
    groups = groups_of(features, costs=problem.costs, target=problem.targets, terms=gram.terms)
    return dict(zip(groups.names, groups.costs.tolist(), strict=True))


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


def _warned(found: pa.StructArray) -> pa.StructArray:
    """Return answers; warn in the same words for every block, so that they are shown once."""
    if pc.any(pc.greater(found.field("condition"), CONDITION_LIMIT)).as_py():
        warnings.warn(
            "some segments have selected columns with a condition number above "
            f"{CONDITION_LIMIT:.0e}; their coefficients keep fewer than six of 16 digits",
            ConditionWarning,
            stacklevel=2,
        )
    columns = [name for name in pc.unique(found.field("trace")).to_pylist() if name]
    if columns:
        warnings.warn(
            f"segments leave out columns {columns} as dependent on others but for a trace, by "
            "which they may explain much of the target; anytime_sequence of such a record says how "
            "much, and fit(exact=True) or the difference as a column of its own keeps it",
            DependenceWarning,
            stacklevel=2,
        )
    return found


def fits_of_records(
    grams: pl.DataFrame, problem: Spec, columns: Sequence[str] | None
) -> pl.DataFrame:
    """Return the linear model of every segment, and why there is none where there is none.

    Returns
    -------
    DataFrame: the other columns of `grams`; ``fit``, a struct as of ``fit`` in SQL, null where
    there is none: intercept, coefficients, explained, r2, sigma (the residuals' standard
    deviation, null with a ridge and where no row is left to estimate it), rows, skipped, the
    aliased columns, and as note what `fit` warns of; ``status``, null, or why there is none

    Raises
    ------
    As `fit`, for arguments; an unusable record raises nothing

    Warns
    -----
    ConditionWarning : a segment has columns so nearly dependent that their coefficients keep
        fewer than six digits
    DependenceWarning : a segment leaves out a column that depends on others but for a trace, by
        which it may explain much

    Notes
    -----
    O(D^3) a segment, some microseconds for a few columns, on all cores; memory beside the result
    does not grow with the number of segments. Standard errors and p-values of each:
    ``pl.col("gram").dbselect.summary(target)``.

    References
    ----------
    As `fit`.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"k": [1, 1, 1, 2], "x": [1, 2, 3, 4], "y": [3, 5, 7, 8]})
    >>> found = ds.fit_by(ds.gram_by(table, by=["k"]), "y")
    >>> found.select("k", pl.col("fit").struct.field("intercept", "r2").round(6), "status").rows()
    [(1, 1.0, 1.0, None), (2, None, None, "target 'y' is constant (1 rows)")]
    """
    named = columns_read(columns)

    def answer(records: pa.Array) -> pa.StructArray:
        found = answers_of(records, problem, "fit", {"columns": named})
        return pa.StructArray.from_arrays(
            [found.field("found"), found.field("status")], ["fit", "status"]
        )

    return answered(grams, "fit", dtype_of(answer_type("fit")), answer)


def answers_of(
    records: pa.Array, problem: Spec, method: str, options: Mapping[str, Any]
) -> pa.StructArray:
    """Ask each record, by a method of the compiled library that returns no sequence."""
    check_type(records)
    target = problem.targets[0]
    if method in CHOICES:
        found = asked_of(
            records, problem, options,
            lambda some, asked: _native.answers(some, method, target, asked),
        )  # fmt: skip
    else:
        found = _native.answers(records, method, target, {**problem.changed(), **options})
    return _warned(found)


def sequences_of(grams: pl.DataFrame, problem: Spec, options: Mapping[str, Any]) -> pl.DataFrame:
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
    records: pa.Array, problem: Spec, method: str, options: Mapping[str, Any]
) -> pa.StructArray:
    """Search each record; return a struct of ``sequence``, ``status`` and ``stop``, a row each."""
    check_type(records)
    rule = RULES.get(options.get("rule", "fr"))
    if rule is None or not rule.compiled:
        return _in_python(records, problem, method, options)
    target = problem.targets[0]
    found = asked_of(
        records, problem, options, lambda some, asked: _native.search(some, method, target, asked)
    )
    return _warned(found)


def _in_python(
    records: pa.Array, problem: Spec, method: str, options: Mapping[str, Any]
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
