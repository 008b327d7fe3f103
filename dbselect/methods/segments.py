"""A sequence for each of many Gram records: one segment of a table each."""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import polars as pl
import pyarrow as pa

from dbselect.errors import ArgumentError, ConditionWarning, DataError, RecordError
from dbselect.linear.batched import Masks, States, constant_targets, linear_problems
from dbselect.linear.condition import CONDITION_LIMIT
from dbselect.linear.problem import (
    Index,
    constant_target,
    filled_target,
    is_filled,
    no_rows,
    unusable,
)
from dbselect.methods.anytime import AnytimeOptions, anytime_sequence
from dbselect.methods.setup import REFINED_CONDITIONS, check_first, check_target, numbers_of
from dbselect.methods.types import Costs, GroupColumns, GroupNames, RuleName
from dbselect.record.gram import Gram, Vector
from dbselect.record.groups import Groups, groups_of
from dbselect.record.missing import features_of
from dbselect.record.stack import Stack, check_type, read_stacks
from dbselect.record.steps import SEQUENCE_DTYPE, STEP_TYPE, Stop
from dbselect.record.terms import Terms
from dbselect.results.sequence import Sequence as AnytimeSequence
from dbselect.results.step_lists import write_found
from dbselect.results.store import write_sequences
from dbselect.selection.batched import batched_greedy
from dbselect.selection.criteria import RULES

Result = TypeVar("Result")

#: Columns up to which records are searched side by side: measured with groups of 8 columns.
#: Beyond, a search spends its time in products, not in Python, and one alone is faster.
WIDEST = 128
#: Doubles of the tableaus that are searched at once: 2 MB, which caches hold. Fewer leave
#: the time to Python's loops, of wide records above all.
BLOCK_DOUBLES = 2**18
#: Bytes of records that are read at a time: what a search needs beside its result is some
#: ten times as much.
READ_BYTES = 2**23


def anytime_sequences(
    grams: pl.DataFrame,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    rule: RuleName = AnytimeOptions.rule,
    ridge: float = AnytimeOptions.ridge,
    scale: bool = AnytimeOptions.scale,
    budget: float | None = AnytimeOptions.budget,
    max_groups: int | None = AnytimeOptions.max_groups,
    always: GroupNames = AnytimeOptions.always,
    c_min: float | None = AnytimeOptions.c_min,
) -> pl.DataFrame:
    """Return the sequence of every segment, and why there is none where there is none.

    Parameters
    ----------
    grams : DataFrame with a column ``gram`` of Gram records, as `gram_by` returns it
    target, groups, costs, rule, ridge, scale, budget, max_groups, always, c_min : as in
        `anytime_sequence`

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

    Notes
    -----
    Segments with the same columns are solved side by side, O(D^3) each for a full sequence
    over D columns; those whose columns have a condition number of 1e6 to 1e10 once more, each
    alone, for the digits that this brings back. Memory beside the result does not grow with
    the number of segments.

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
        rule=rule, ridge=ridge, scale=scale, budget=budget, max_groups=max_groups, always=always,
        c_min=c_min,
    )  # fmt: skip
    records = grams["gram"]
    sequences = by_blocks(
        records,
        lambda block: sequence_lists(block, target, groups, costs, options),
        SEQUENCE_DTYPE,
    )
    status = by_blocks(records, lambda block: statuses(block, target), pl.String)
    full = _saturated(sequences, records) if ridge == 0 else None
    return grams.drop("gram").with_columns(
        sequence=sequences, status=status if full is None else status.fill_null(full)
    )


def _saturated(sequences: pl.Series, records: pl.Series) -> pl.Series:
    """Return for each record why its sequence without a ridge tells nothing, NULL if it does.

    Coefficients that depend on others are 0, and no others are.
    """
    last = (
        pl.element().struct.field("coefficients").list.eval(pl.element().struct.field("value") != 0)
    )
    used = sequences.list.eval(last.list.sum()).list.max()
    rows = records.struct.field("rows")
    told = pl.format("{} rows: {}", rows, pl.lit(Stop.SATURATED.value))
    return pl.select(pl.when(1 + used >= rows).then(told)).to_series()


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
    answers = (answer(records.slice(start, size).to_arrow()) for start in starts)
    parts = [pl.Series(records.name, part).cast(dtype) for part in answers]
    return pl.concat(parts, rechunk=False)


def sequence_lists(
    records: pa.Array,
    target: str,
    groups: GroupColumns | None,
    costs: Costs | None,
    options: AnytimeOptions,
) -> pa.ListArray:
    """Return an Arrow list of steps for each record; an unusable one has no step.

    Parameters
    ----------
    records : Arrow structs
    target, groups, costs, options : as in `anytime_sequence`

    Raises
    ------
    As `anytime_sequence`, for arguments
    """
    check_type(records)
    found: list[tuple[Index, pa.ListArray]] = []
    terms = _terms_of(records)
    alone = np.ones(len(records), dtype=bool)
    for stack in read_stacks(records):
        constant = constant_targets(stack, target)
        filled = is_filled(stack.columns, stack.mean, target)
        first = Terms.from_json(terms[stack.at[0]].as_py())
        features = features_of(stack.columns, target, first)
        found_groups = groups_of(features, groups, costs, target, first)
        width = len(found_groups.members)
        if width > WIDEST or RULES[options.rule].batched is None:
            continue
        alone[stack.at] = False
        usable = stack.take((stack.rows > 0) & ~constant & ~filled)
        size = max(1, BLOCK_DOUBLES // width**2)
        for start in range(0, len(usable), size):
            part = usable.take(slice(start, start + size))
            own = terms.take(pa.array(part.at))
            lists, settled = _side_by_side(part, target, found_groups, options, own)
            found.append((part.at[settled], lists.filter(pa.array(settled))))
            alone[part.at[~settled]] = True
    rows = np.flatnonzero(alone)

    def alone_on(gram: Gram) -> AnytimeSequence:
        found = anytime_sequence(gram, target, groups, costs, **options.given())
        return cast(AnytimeSequence, found)

    one_by_one = (result_of(alone_on, records[i], target) for i in rows.tolist())
    return _in_order([*found, (rows, write_sequences(one_by_one))], len(records))


def _terms_of(records: pa.Array) -> pa.StringArray:
    """Return the terms of each record as JSON; NULL where it has none."""
    if not pa.types.is_struct(records.type) or "terms" not in records.type.names:
        return pa.nulls(len(records), pa.string())
    return records.field("terms").cast(pa.string())


def result_of(run: Callable[[Gram], Result], record: pa.Scalar, target: str) -> Result | None:
    """Return what a call on a Gram makes of one record, None if the record is unusable."""
    if not record.is_valid:
        return None
    try:
        gram = Gram.from_struct(record)
    except RecordError:
        return None
    gram.position(target, "target")
    try:
        return run(gram)
    except DataError:
        return None


def statuses(records: pa.Array, target: str) -> pa.StringArray:
    """Return why there is no sequence for each record; NULL where there is one."""
    reasons: list[str | None] = [None] * len(records)
    alone = np.ones(len(records), dtype=bool)
    for stack in read_stacks(records):
        alone[stack.at] = False
        constant = constant_targets(stack, target)
        filled = is_filled(stack.columns, stack.mean, target)
        for i in np.flatnonzero((stack.rows == 0) | constant | filled).tolist():
            if stack.rows[i] == 0:
                reason = no_rows(stack.skipped[i])
            else:
                constant_reason = constant_target(target, stack.rows[i], stack.skipped[i])
                reason = filled_target(target) if filled[i] else constant_reason
            reasons[stack.at[i]] = reason
    for i in np.flatnonzero(alone).tolist():
        reasons[i] = _status(records[i], target)
    return pa.array(reasons, pa.string())


def _status(record: pa.Scalar, target: str) -> str | None:
    if not record.is_valid:
        return "no rows"
    try:
        gram = Gram.from_struct(record)
    except RecordError as error:
        return str(error)
    return unusable(gram, target)


def _side_by_side(
    stack: Stack, target: str, groups: Groups, options: AnytimeOptions, terms: pa.StringArray
) -> tuple[pa.ListArray, Masks]:
    """Search the records of a stack at once.

    Parameters
    ----------
    terms : of each record, as it has them

    Returns
    -------
    lists : of all records
    settled : whether each keeps the digits that a search of it alone would; that refines
        the coefficients of nearly dependent columns
    """
    rule = RULES[options.rule]
    assert rule.batched is not None  # else they are searched one by one
    first = numbers_of(options.always, groups)
    check_first(groups, first, options.budget, options.max_groups)
    problem = linear_problems(stack, target, groups.members, options.ridge, options.scale)
    states = States(problem, groups.positions)
    start = float(groups.costs.min()) if options.c_min is None else options.c_min
    found = batched_greedy(
        states,
        groups.costs,
        rule.batched(states),
        first_cost=start if rule.doubling else None,
        budget=options.budget,
        max_groups=options.max_groups,
        always=first,
    )
    _warn_of(found.condition)
    refinable = (found.condition > REFINED_CONDITIONS[0]) & (found.condition <= CONDITION_LIMIT)
    return write_found(found, problem, groups, terms), ~refinable | (options.ridge > 0)


def _warn_of(condition: Vector) -> None:
    """Warn where selected columns are so nearly dependent that coefficients lose digits."""
    if (condition > CONDITION_LIMIT).any():
        # The same words for every block of records, so that they are shown once.
        warnings.warn(
            "segments have selected columns of a condition number above "
            f"{CONDITION_LIMIT:.0e}; their coefficients keep fewer than six of 16 digits",
            ConditionWarning,
            stacklevel=2,
        )


def _in_order(found: list[tuple[Any, pa.ListArray]], length: int) -> pa.ListArray:
    """Put the lists of some records in the order of all; the others get empty ones."""
    empty = pa.array([[]], pa.list_(STEP_TYPE))
    answers = pa.concat_arrays([*(lists for _, lists in found), empty])
    rows = np.concatenate([np.empty(0, dtype=np.intp), *(at for at, _ in found)])
    if len(rows) == length and (rows[:-1] < rows[1:]).all():
        return answers.slice(0, length)
    order = np.full(length, len(rows))
    order[rows] = np.arange(len(rows))
    return answers.take(pa.array(order))
