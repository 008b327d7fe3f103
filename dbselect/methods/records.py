"""Run methods on many Gram records, one per segment; report why a record has no result."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from dbselect import _forked, _native
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
#: Bytes of records per block. The lists of steps are about twice as long, and an Arrow array
#: must not have more than 2 GB of text.
READ_BYTES = 2**25
#: Methods of the compiled library that choose groups without a sequence.
CHOICES = (
    "exchange", "dash", "best_within", "near_best", "break_even", "sght", "lasso",
    "sparse_group_lasso", "knockoffs",
)  # fmt: skip


@cache
def answer_type(method: str) -> pa.DataType:
    """Return the Arrow type of a method's results, from a call on an empty array."""
    options = OF_RECORDS[method].known
    # Of a budget and what may take its place, one is needed.
    needed = [name for name, one in options.items() if one.default is REQUIRED]
    required = dict.fromkeys([*needed, *OF_RECORDS[method].first.keys() & {"budget"}], 1)
    no_records = pa.array([], RECORD_TYPE)
    if OF_RECORDS[method].returns == "sequence":
        return _native.search(no_records, method, "y", required).field("sequence").type
    return _native.answers(no_records, method, "y", required).field("found").type


_AS_OF = "it must be a DataFrame as of gram_by(table, by=[...])"


def check_grams(grams: Any) -> None:
    """Refuse what is no frame of records; ArgumentError."""
    if not isinstance(grams, pl.DataFrame):
        raise ArgumentError(f"grams is {shown(grams)}; {_AS_OF}")
    if "gram" not in grams.columns:
        raise ArgumentError(f"grams has no column 'gram'; {_AS_OF}")


def answered(
    grams: pl.DataFrame,
    fields: Mapping[str, Any],
    answer: Callable[[pa.Array], pa.StructArray],
    more: Sequence[str] = (),
) -> pl.DataFrame:
    """Replace the records of a frame by the fields of an answer to each; `more` will follow."""
    clashes = [column for column in (*fields, *more) if column in grams.columns]
    if clashes:
        raise ArgumentError(f"grams has a column '{clashes[0]}'; rename it, as the result has one")
    answers = by_blocks(grams["gram"], answer, pl.Struct(fields)).struct.unnest()
    return grams.drop("gram").with_columns(answers)


def by_blocks(records: pl.Series, answer: Callable[[pa.Array], pa.Array], dtype: Any) -> pl.Series:
    """Apply a function of Arrow records block by block; return a Series, one value per record."""
    share = READ_BYTES / max(records.estimated_size(), 1)
    size = max(1, int(len(records) * share))
    starts = range(0, max(len(records), 1), size)
    # Text views are not copied; other text types would be copied whole for every block.
    level = pl.CompatLevel.newest()
    blocks = (records.slice(start, size).to_arrow(compat_level=level) for start in starts)
    parts = [pl.Series(records.name, answer(block)).cast(dtype) for block in blocks]
    return pl.concat(parts, rechunk=False)


def _ask(
    records: pa.Array,
    problem: Spec,
    options: Mapping[str, Any],
    call: Callable[[pa.Array, dict[str, Any]], pa.StructArray],
) -> pa.StructArray:
    """Call the library; one record at a time if costs are a Series in the order of its groups."""
    options = {"groups": problem.groups, **problem.changed(), **options}
    if problem.groups is not None or not isinstance(problem.costs, pl.Series) or not len(records):
        costs = problem.costs
        by_name = None if costs is None else costs_by_name(costs, list(problem.groups or ()))
        return call(records, {**options, "costs": by_name})
    each = enumerate(_costs_of(problem, record) for record in records)
    answers = [call(records.slice(i, 1), {**options, "costs": costs}) for i, costs in each]
    return pa.concat_arrays(answers)


def _costs_of(problem: Spec, record: pa.Scalar) -> dict[str, float] | None:
    """Return the costs by name of a record's groups; None for an unusable record."""
    try:
        gram = Gram.from_struct(record) if record.is_valid else None
    except RecordError:
        gram = None
    if gram is None or not gram.rows:
        return None
    features = [name for name in gram.columns if name not in problem.targets]
    groups = groups_of(
        features, costs=problem.costs, target=problem.targets, terms=gram.terms, told=problem.told
    )
    return dict(zip(groups.names, groups.costs.tolist(), strict=True))


def result_of(run: Callable[[Gram], Result], record: pa.Scalar, target: str) -> Result | None:
    """Call a function on the Gram of one record; None if the record is unusable."""
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
    """Whether the target is the column of a level that this segment does not have."""
    open_columns = (category.column for category in gram.terms.categories if not category.rest)
    is_level = any(target.startswith(f"{column}.") for column in open_columns)
    return is_level and target not in gram.columns


def statuses(records: pa.Array, target: str) -> pa.StringArray:
    """Return the reason why each record has no sequence; NULL if it has one."""
    check_type(records)
    return _native.check(records, target)


def _warned(answers: pa.StructArray) -> pa.StructArray:
    """Warn of the answers' problems; the text is the same for every block, so shown once."""
    if pc.any(pc.greater(answers.field("condition"), CONDITION_LIMIT)).as_py():
        warnings.warn(
            "some segments have selected columns with a condition number above "
            f"{CONDITION_LIMIT:.0e}; their coefficients keep fewer than six of 16 digits",
            ConditionWarning,
            stacklevel=2,
        )
    columns = [name for name in pc.unique(answers.field("trace")).to_pylist() if name]
    if columns:
        warnings.warn(
            f"segments leave out columns {columns} as dependent on others but for a trace, by "
            "which they may explain much of the target; anytime_sequence of such a record says how "
            "much, and the difference as a column of its own keeps it",
            DependenceWarning,
            stacklevel=2,
        )
    return answers


def fits_of_records(
    grams: pl.DataFrame,
    problem: Spec,
    columns: Sequence[str] | None,
    constraints: Mapping[str, Any],
) -> pl.DataFrame:
    """Fit the linear model of every segment; `status` says why a segment has none.

    Returns
    -------
    DataFrame: the other columns of `grams`; ``fit``, a struct as ``fit`` in SQL, null if
    there is none: intercept, coefficients, explained, r2, sigma (the residuals' standard
    deviation, null with a ridge and without degrees of freedom), rows, skipped, the
    aliased columns, and note, the warnings of `fit`; ``status``, null, or why there is no fit

    Raises
    ------
    As `fit`, for arguments; unusable records raise nothing

    Warns
    -----
    ConditionWarning : a segment has columns so nearly dependent that their coefficients keep
        fewer than six digits
    DependenceWarning : a segment drops a column that depends on others except for a small
        residual, which may explain much

    Notes
    -----
    O(D^3) per segment, some microseconds for a few columns, on all cores; memory beside the
    result does not grow with the number of segments. Standard errors and p-values:
    ``pl.col("gram").dbselect.summary(target)``.

    References
    ----------
    As `fit`.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"k": [1, 1, 1, 2], "x": [1, 2, 3, 4], "y": [3, 5, 7, 8]})
    >>> fits = ds.fit_by(ds.gram_by(table, by=["k"]), "y")
    >>> fits.select("k", pl.col("fit").struct.field("intercept", "r2").round(6), "status").rows()
    [(1, 1.0, 1.0, None), (2, None, None, "target 'y' is constant (1 rows)")]
    """
    _forked.check_threads()
    names = columns_read(columns)

    def answer(records: pa.Array) -> pa.StructArray:
        answers = answers_of(records, problem, "fit", {"columns": names, **constraints})
        return pa.StructArray.from_arrays(
            [answers.field("found"), answers.field("status")], ["fit", "status"]
        )

    fields = {"fit": dtype_of(answer_type("fit")), "status": pl.String}
    return answered(grams, fields, answer)


def answers_of(
    records: pa.Array, problem: Spec, method: str, options: Mapping[str, Any]
) -> pa.StructArray:
    """Run a method of the compiled library without a sequence on each record."""
    check_type(records)
    target = problem.targets[0]
    if method in CHOICES:
        answers = _ask(
            records, problem, options,
            lambda block, arguments: _native.answers(block, method, target, arguments),
        )  # fmt: skip
    else:
        answers = _native.answers(records, method, target, {**problem.changed(), **options})
    return _warned(answers)


def sequences_of(grams: pl.DataFrame, problem: Spec, options: Mapping[str, Any]) -> pl.DataFrame:
    """Compute the sequence of every segment; `status` says why a segment has none.

    Returns
    -------
    DataFrame: the other columns of `grams`; ``sequence``, a list of steps with the fields
    of SQL, empty if there is none; ``status``, null, or why there is none, or that it has
    as many coefficients as rows, which fit any target; ``rows`` of the segment, and
    ``target_variance``, as `allocate` takes them

    Raises
    ------
    As `anytime_sequence`, for arguments; unusable records raise nothing

    Warns
    -----
    ConditionWarning : a segment has selected columns so nearly dependent that their
        coefficients keep fewer than six digits; `anytime_sequence` of its record says more
    DependenceWarning : a segment drops a column that depends on others except for a small
        residual, which may explain much

    Notes
    -----
    O(D^3) per segment for a full sequence over D columns, on all cores; memory beside the result
    does not grow with the number of segments. A rule that exists only in Python takes about a
    hundred times as long.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"k": [1, 1, 1, 2], "x": [1, 2, 3, 4], "y": [2, 4, 6, 8]})
    >>> sequences = ds.anytime_sequence_by(ds.gram_by(table, by=["k"]), "y")
    >>> sequences.select("k", pl.col("sequence").list.len(), "status").rows()
    [(1, 2, None), (2, 0, "target 'y' is constant (1 rows)")]
    """
    _forked.check_threads()

    def answer(records: pa.Array) -> pa.StructArray:
        answers = searched(records, problem, "anytime_sequence", options)
        columns = [answers.field("sequence"), _status(answers, records)]
        return pa.StructArray.from_arrays(columns, ["sequence", "status"])

    fields = {"sequence": SEQUENCE_DTYPE, "status": pl.String}
    found = answered(grams, fields, answer, ("rows", "target_variance"))
    records = {"rows": pl.col("gram").struct.field("rows"),
               "target_variance": _target_variance(problem)}  # fmt: skip
    return found.with_columns(grams.select(**records))


def _target_variance(problem: Spec) -> pl.Expr:
    """Return the target's variance in each record, NULL where it has none."""
    (target,) = problem.targets
    of = {
        name: pl.col("gram").struct.field(name)
        for name in ("columns", "comoment", "mean", "weight")
    }
    is_target = of["columns"].list.eval((pl.element() == target).cast(pl.Int8))
    at = pl.when(of["columns"].list.contains(target)).then(is_target.list.arg_max())
    place = at.cast(pl.Int64) * (at.cast(pl.Int64) + 3) // 2
    variance = of["comoment"].list.get(place, null_on_oob=True) / of["weight"]
    if not problem.intercept:
        variance += of["mean"].list.get(at, null_on_oob=True) ** 2
    return pl.when(of["weight"] > 0).then(variance)


def _status(answers: pa.StructArray, records: pa.Array) -> pa.StringArray:
    """Return why each record has no sequence, or that its sequence fits any target."""
    status = answers.field("status")
    is_saturated = pc.equal(answers.field("stop"), Stop.SATURATED.name)
    if not pc.any(is_saturated).as_py():
        return status
    rows = records.field("rows").cast(pa.string())
    messages = pc.binary_join_element_wise(rows, Stop.SATURATED.value, " rows: ")
    return pc.if_else(is_saturated.fill_null(False), messages.cast(pa.string()), status)


def searched(
    records: pa.Array, problem: Spec, method: str, options: Mapping[str, Any]
) -> pa.StructArray:
    """Search each record; return structs of ``sequence``, ``status`` and ``stop``."""
    check_type(records)
    rule = RULES.get(options.get("rule", "fr"))
    if rule is None or not rule.compiled:
        return _in_python(records, problem, method, options)
    target = problem.targets[0]
    answers = _ask(
        records, problem, options, lambda part, args: _native.search(part, method, target, args)
    )
    return _warned(answers)


def _in_python(
    records: pa.Array, problem: Spec, method: str, options: Mapping[str, Any]
) -> pa.StructArray:
    """Search record by record, for rules that the library does not have."""
    target = problem.targets[0]
    sequences = [
        result_of(lambda gram: getattr(problem.on(gram), method)(**options), record, target)
        for record in records
    ]
    stops = [None if sequence is None else sequence.stop.name for sequence in sequences]
    return pa.StructArray.from_arrays(
        [write_sequences(sequences), statuses(records, target), pa.array(stops, pa.string())],
        ["sequence", "status", "stop"],
    )
