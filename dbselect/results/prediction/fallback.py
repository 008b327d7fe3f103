"""The longest prefix of a sequence that each row can have: its budget, and the columns it has.

SQL's ``anytime_predict`` and the expression of Polars are the same rule in
`native/src/record/prefix.rs`. Here it runs over columns: of each field, which rows lack it; of
each row, how many fields it lacks for a prefix. From one prefix to the next only the fields of
a group change.
"""

import numbers
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.sparse import issparse

from dbselect.errors import ArgumentError
from dbselect.options.kinds import BUDGET
from dbselect.record import formulas
from dbselect.record.foreign import is_of
from dbselect.record.formulas import polars_column, translate
from dbselect.record.gram import Vector
from dbselect.record.inputs import (
    Curve,
    HandleUnknown,
    Input,
    Levels,
    Listing,
    MissingColumns,
    Number,
    check_missing_columns,
    check_unknown,
    fields_of,
    inputs_of,
)
from dbselect.record.steps import BUDGET_SLACK, fits, next_group, serving_order
from dbselect.results.prediction.predict import (
    array_of,
    as_table,
    check_levels,
    check_there,
    frame_of,
    prediction_table,
    read_of,
)

if TYPE_CHECKING:
    from dbselect.results.prefixes import Prefixes

#: Fields of which the missing values are counted at once: each is a column of bits meanwhile.
AT_ONCE = 256
#: Of a row that no prefix serves.
NOBODY = -1
#: Begins the name of a column without infinite values, as no column of a table does.
_FINITE = "__dbselect_finite"

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Served:
    """What each row gets.

    Parameters
    ----------
    step : shape (n,), the prefix that serves the row; `NOBODY` where none does
    value : shape (n,) or (n, K), its prediction; NaN where there is none
    """

    step: npt.NDArray[np.intp]
    value: npt.NDArray[np.float64]


def served(
    sequence: "Prefixes[Any]",
    rows: Any,
    budget: Any,
    columns: Sequence[str] | None,
    unknown: HandleUnknown,
    missing_columns: MissingColumns,
) -> Served:
    """Predict each row by the longest prefix within its budget whose columns it has.

    Parameters
    ----------
    sequence : of any family
    rows, budget, columns, unknown, missing_columns : as of `Prefixes.predict`
    """
    check_missing_columns(missing_columns)
    limits = limits_of(budget)
    asked = _Asked(sequence, float(np.max(limits, initial=0.0)), missing_columns)
    check_unknown(unknown, asked.inputs)
    if issparse(rows):
        rows = as_table(rows, inputs_of(sequence.columns, sequence._prepared))
    own = sequence._inputs
    frame = frame_asked(rows, columns, own, asked.inputs, asked.refuse, limits)
    read = asked.refuse(frame)
    for one in read:
        if isinstance(one, Levels):
            one.check_shares(unknown)
    return _served(asked, _Rows(*_finite(frame, read), unknown), limits)


def frame_asked(
    rows: Any,
    columns: Sequence[str] | None,
    names: Sequence[str],
    inputs: list[Input],
    refuse: Callable[[pl.DataFrame], object],
    limits: float | Vector,
) -> pl.DataFrame:
    """Return the rows of a prediction as a frame.

    Parameters
    ----------
    names : of an array's columns
    inputs, refuse : as of `prediction_table`
    limits : budgets, one for each row or one for all
    """
    frame = prediction_table(rows, columns, inputs, refuse)
    if frame is None:
        names = list(names) if columns is None else list(columns)
        doubled = next((name for name in names if names.count(name) > 1), None)
        if doubled is not None:
            raise ArgumentError(f"columns names '{doubled}' twice")
        frame = frame_of(array_of(rows, names), names)
    if isinstance(limits, np.ndarray) and len(limits) != frame.height:
        raise ArgumentError(f"budget has {len(limits)} values; there are {frame.height} rows")
    return frame


def limits_of(budget: Any) -> float | Vector:
    """Return the limit of all rows, or of each; infinite where there is none."""
    if isinstance(budget, np.ndarray) and budget.ndim == 0:
        budget = budget.item()
    if budget is None:
        return np.inf
    if isinstance(budget, float | numbers.Real | str | bytes):
        BUDGET.check("budget", budget)
        return float(budget)
    try:
        found = _numbers_of(budget)
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        raise ArgumentError(
            f"budget is a {type(budget).__name__}; it must be a number, or one for each row"
        ) from None
    bad = found[~(found >= 0)]
    if found.ndim != 1 or bad.size:
        shown = f"has shape {found.shape}" if found.ndim != 1 else f"is {bad[0]} in a row"
        raise ArgumentError(
            f"budget {shown}; it must be a number >= 0 for each row, missing for no limit"
        )
    return found


def _numbers_of(budget: Any) -> Vector:
    """Return budgets as doubles, infinite where one is missing.

    NaN is what NumPy and pandas have for it; in Polars, as in SQL, it is no number.
    """
    if is_of(budget, "pandas"):
        budget = pl.from_pandas(budget)
    if isinstance(budget, pl.Series):
        return budget.cast(pl.Float64).fill_null(np.inf).to_numpy()
    found = np.array(budget, dtype=np.float64)
    return np.where(np.isnan(found), np.inf, found)


@dataclass(frozen=True, eq=False)
class _Asked:
    """A sequence and the options of a prediction.

    Parameters
    ----------
    most : the largest budget of a row
    """

    sequence: "Prefixes[Any]"
    most: float
    missing_columns: MissingColumns

    @cached_property
    def order(self) -> list[int]:
        """The prefixes that a row may get, the best first."""
        spent = self.sequence.spent
        return [step for step in serving_order(spent) if fits(spent[step], self.most)]

    @cached_property
    def inputs(self) -> list[Input]:
        """The fields that these prefixes read."""
        steps = sorted(self.order)
        if all(step.action == "add" for step in self.sequence.records):
            steps = steps[-1:]  # which holds the groups of all before it
        every = (name for step in steps for name in self.sequence._read_at(step))
        return inputs_of(list(dict.fromkeys(every)), self.sequence._prepared)

    def inputs_at(self, step: int) -> list[Input]:
        """Return the fields that a prefix reads."""
        return inputs_of(self.sequence._read_at(step), self.sequence._prepared)

    def refuse(self, frame: pl.DataFrame) -> list[Input]:
        """Refuse rows that lack a column of a prefix, unless they may; return what is read."""
        read, absent = read_of(frame, self.inputs)
        if absent and self.missing_columns == "error":
            each = [read_of(frame, self.inputs_at(step))[1] for step in sorted(self.order)]
            own = dict.fromkeys(name for absent in each for name in absent)
            check_there(list(own), frame, self.missing_columns)
        return read


def _served(asked: _Asked, rows: "_Rows", limits: float | Vector) -> Served:
    sequence = asked.sequence
    step_of = np.full(rows.frame.height, NOBODY, dtype=np.intp)
    found: dict[int, npt.NDArray[np.float64]] = {}
    for step in asked.order:
        waiting = step_of == NOBODY
        within = sequence.spent[step] <= limits * (1.0 + BUDGET_SLACK)
        tried = waiting & within
        if not tried.any():
            continue
        read, absent = read_of(rows.frame, asked.inputs_at(step))
        if absent:
            continue
        read = rows.moved(read)
        able = tried & rows.have(read, tried)
        if not able.any():
            continue
        step_of[able] = step
        own, model = rows.among(read, able), sequence._at_step(step)
        found[step] = model._linked(model._of_read(own, read, rows.unknown))
    return Served(step_of, _together(sequence, step_of, found))


def _together(
    sequence: "Prefixes[Any]",
    step_of: npt.NDArray[np.intp],
    found: dict[int, npt.NDArray[np.float64]],
) -> npt.NDArray[np.float64]:
    """Return the predictions of all rows, in their order."""
    if len(found) == 1 and (step_of != NOBODY).all():
        return next(iter(found.values()))
    fields = sequence._at_step(0)._fields
    shape = (len(step_of),) if fields is None else (len(step_of), len(fields))
    values = np.full(shape, np.nan)
    for step, own in found.items():
        values[step_of == step] = own
    return values


@dataclass(eq=False)
class _Rows:
    """Rows, and which fields each of them lacks.

    Parameters
    ----------
    moves : path of a number -> column that has no infinite values of it
    held : fields that are counted, by `_key`
    lacking : shape (n,), how many of them a row lacks
    unseen : field -> shape (n,), whether a row has a level that the fit has not seen, where
        that is an error
    """

    frame: pl.DataFrame
    moves: dict[tuple[Any, ...], str]
    unknown: HandleUnknown
    held: dict[Any, Input] = field(default_factory=dict)
    unseen: dict[Any, Mask] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lacking = np.zeros(self.frame.height, dtype=np.int64)

    def moved(self, read: Iterable[Input]) -> list[Input]:
        """Return fields as they are read, a number without its infinite values."""
        return [
            replace(one, path=(self.moves[one.path],))
            if isinstance(one, Number | Curve) and one.path in self.moves
            else one
            for one in read
        ]

    def have(self, read: Sequence[Input], tried: Mask) -> Mask:
        """Return which rows have some fields; shape (n,).

        Parameters
        ----------
        tried : shape (n,), rows in which a level not seen may be an error
        """
        wanted = {_key(one): one for one in read}
        left = [one for key, one in self.held.items() if key not in wanted]
        new = {key: one for key, one in wanted.items() if key not in self.held}
        self.lacking += self._counted(new.values()) - self._counted(left)
        self.held = wanted
        if self.unknown == "error":
            self._refuse_unseen(wanted, tried)
        return np.asarray(self.lacking == 0)

    def _counted(self, inputs: Iterable[Input]) -> npt.NDArray[np.int64]:
        """Return how many of some fields each row lacks; shape (n,)."""
        seen = self.unknown != "unavailable"
        there = [found for one in inputs if (found := one.there(seen)) is not None]
        total = np.zeros(self.frame.height, dtype=np.int64)
        for start in range(0, len(there), AT_ONCE):
            each = [_is_missing(one) for one in there[start : start + AT_ONCE]]
            total += self.frame.select(pl.sum_horizontal(each)).to_series().to_numpy()
        return total

    def _refuse_unseen(self, wanted: dict[Any, Input], tried: Mask) -> None:
        for one in fields_of(*wanted.values()):
            key = _key(one)
            if not isinstance(one, Levels | Listing):
                continue
            if key not in self.unseen:
                self.unseen[key] = self._is_unseen(one)
            odd = self.unseen[key] & tried
            if odd.any():
                own = self.among([one], odd)
                if isinstance(one, Levels):
                    check_levels(one, own, self.unknown)
                else:
                    entries = formulas.entries_of(own[one.source], one.source)
                    one.weighed({}, self.unknown).values(entries)

    def _is_unseen(self, one: Input) -> Mask:
        """Return which rows have a level or an entry that the fit has not seen; shape (n,)."""
        known, there = one.there(False), one.there(True)
        if known is None or (isinstance(one, Levels) and one.category.rest):
            return np.zeros(self.frame.height, dtype=bool)
        is_there = pl.lit(True) if there is None else ~_is_missing(there)
        return self.frame.select(_is_missing(known) & is_there).to_series().to_numpy()

    def among(self, read: Sequence[Input], rows: Mask) -> pl.DataFrame:
        """Return some rows, with the fields that are read."""
        if rows.all():
            return self.frame
        fields = dict.fromkeys(str(one.path[0]) for one in fields_of(*read))
        own = self.frame.select(list(fields) or self.frame.columns[:1])
        return own.filter(pl.Series(rows))


def _key(one: Input) -> tuple[Any, ...]:
    """Return a key, the same for fields that a row lacks only together."""
    listed = tuple(one.numbers) if isinstance(one, Listing) else ()
    return type(one), one.path, one.source, one.missing is None, listed


def _is_missing(there: formulas.Formula) -> pl.Expr:
    found = translate(there, formulas.polars())
    return found.is_null() | found.is_nan()


def _finite(
    frame: pl.DataFrame, read: Sequence[Input]
) -> tuple[pl.DataFrame, dict[tuple[Any, ...], str]]:
    """Return a frame with a column without infinite values beside each number that has some.

    They count as missing, as no fit takes one.
    """
    paths = [one.path for one in read if isinstance(one, Number | Curve)]
    numbered = {f"{_FINITE}{at}": path for at, path in enumerate(dict.fromkeys(paths))}
    empty = frame.head(0).select(**{name: polars_column(path) for name, path in numbered.items()})
    floats = [name for name, dtype in empty.schema.items() if dtype.is_float()]
    infinite = {name: polars_column(numbered[name]).is_infinite().any() for name in floats}
    found = frame.select(**infinite).row(0) if infinite else ()
    odd = [name for name, has_some in zip(infinite, found, strict=True) if has_some]
    values = {name: polars_column(numbered[name]) for name in odd}
    plain = {name: pl.when(value.is_finite()).then(value) for name, value in values.items()}
    return frame.with_columns(**plain), {numbered[name]: name for name in odd}


def predictions(sequence: "Prefixes[Any]", found: Served) -> pl.DataFrame:
    """Return what each row gets as SQL has it: prediction, step, spent, next_group."""
    names = [None, *(sequence.groups.names[step.group] for step in sequence.records)]
    spent = sequence.spent.tolist()
    rows = [
        {
            "step": step,
            "spent": spent[step],
            "next_group": next_group(step, sequence.spent, names),
        }
        for step in np.unique(found.step[found.step != NOBODY]).tolist()
    ]
    schema = {"step": pl.Int64, "spent": pl.Float64, "next_group": pl.String}
    each = pl.DataFrame(rows, schema=schema)
    fields = sequence._at_step(0)._fields
    if fields is None:
        prediction = pl.Series("prediction", found.value)
    else:
        prediction = pl.DataFrame(found.value, schema=fields).to_struct("prediction")
    nobody = found.step == NOBODY
    step = pl.Series("step", found.step, pl.Int64).set(pl.Series(nobody), None)
    joined = step.to_frame().join(each, on="step", how="left", maintain_order="left")
    return joined.select(_without_nan(prediction), "step", "spent", "next_group")


def _without_nan(prediction: pl.Series) -> pl.Series:
    if prediction.dtype == pl.Float64:
        return prediction.fill_nan(None)
    return prediction.struct.unnest().fill_nan(None).to_struct("prediction")
