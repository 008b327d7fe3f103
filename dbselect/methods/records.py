"""Answers for each of many Gram records: blocks of them, and the status of unusable ones."""

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

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
from dbselect.options.methods import OF_RECORDS
from dbselect.options.option import REQUIRED
from dbselect.record.gram import RECORD_TYPE, Gram, check_type
from dbselect.record.groups import costs_by_name, groups_of

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem

Result = TypeVar("Result")
#: Bytes of records that are searched at a time. The lists of steps are some twice as long, and
#: no Arrow array of theirs may have more than 2 GB of text.
READ_BYTES = 2**25


@cache
def answer_type(method: str) -> pa.DataType:
    """Return the type of what a method answers for a record, as the library answers no record."""
    known = OF_RECORDS[method].known
    required = {name: 1 for name, option in known.items() if option.default is REQUIRED}
    ask, name = (_native.answers, "found")
    if OF_RECORDS[method].returns == "sequence":
        ask, name = (_native.search, "sequence")
    return ask(pa.array([], RECORD_TYPE), method, "y", required).field(name).type


def answered(
    grams: Any, name: str, dtype: Any, answer: Callable[[pa.Array], pa.StructArray]
) -> pl.DataFrame:
    """Return a frame of records with the answer and the status of each in their place.

    `answer` takes records to a struct of the answer and why there is none; `name` is the column of
    the answers. ArgumentError if there is no column ``gram``, or one of that name.
    """
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
    problem: "Problem",
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


def _prices(problem: "Problem", record: pa.Scalar) -> dict[str, float] | None:
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


def warn_of_condition(condition: pa.DoubleArray) -> None:
    """Warn where selected columns are so nearly dependent that coefficients lose digits."""
    if pc.any(pc.greater(condition, CONDITION_LIMIT)).as_py():
        # The same words for every block of records, so that they are shown once.
        warnings.warn(
            "some segments have selected columns with a condition number above "
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
