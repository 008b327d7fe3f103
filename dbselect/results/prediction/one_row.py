"""One row as a mapping: which fields of it are there, and what a linear predictor makes of them.

The formulas of `record.inputs` as functions of the row, where a frame would cost more than the
prediction. NaN is what is missing.
"""

import difflib
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from scipy.special import stdtrit

from dbselect.errors import ArgumentError, ColumnError, DataError, shown
from dbselect.record.formulas import UNITS, Algebra, Formula, Lookup, Path, translate
from dbselect.record.inputs import HandleUnknown, Number, inputs_of
from dbselect.record.steps import BUDGET_SLACK, ROUNDING_GAIN
from dbselect.record.terms import Terms

#: Sets of names of rows that are known to be right.
MOST_SHAPES = 1024
#: A row, by the names of its fields.
Row = Mapping[str, Any]
Function = Callable[[Row], float]
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "atan": np.arctan,
    "absolute": abs,
    "largest": max,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, eq=False)
class Pattern:
    """The best linear prediction from some groups, and what each other group would add.

    Parameters
    ----------
    groups : that are there
    intercept, coefficients : of the model, in the table's units
    spent : what the groups cost
    r2 : share of the target's variance that the model explains
    sigma : standard deviation of the residuals; None where no row is left to estimate it
    free : rows that are left to estimate it, by the effective number of parameters
    gains : group -> change of `explained` if it came as well
    """

    groups: list[str]
    intercept: float
    coefficients: dict[str, float]
    spent: float
    r2: float
    sigma: float | None
    free: float
    gains: dict[str, float]

    def next_group(self, costs: Mapping[str, float], limit: float) -> str | None:
        """Return the group of the largest gain per cost among those that cost no more."""
        most = limit * (1.0 + BUDGET_SLACK)
        rates = {
            name: gain / costs[name]
            for name, gain in self.gains.items()
            if gain > ROUNDING_GAIN and costs[name] <= most
        }
        return max(rates, key=rates.__getitem__, default=None)

    def reach(self, level: float) -> float | None:
        """Return how far from its prediction a row lies at most, with a probability."""
        return self.sigma and self.sigma * float(stdtrit(int(self.free), (1.0 + level) / 2.0))


@dataclass(frozen=True, eq=False)
class RowModel:
    """The model of a pattern as functions of a row.

    Parameters
    ----------
    numbers : place of a number among the values that were read -> its coefficient
    others : what the other fields add
    """

    pattern: Pattern
    numbers: list[tuple[int, float]]
    others: list[Function]

    def value(self, row: Row, values: Sequence[float]) -> float:
        """Return the prediction of a row, of which these values were read."""
        found = self.pattern.intercept
        for at, coefficient in self.numbers:
            found += coefficient * values[at]
        for one in self.others:
            found += one(row)
        return found


class RowReader:
    """Reads which groups a row has, and keeps the models of the patterns met.

    Parameters
    ----------
    groups : name -> columns
    terms : how the fields of a row become the columns
    unknown : how to treat a level that the fit has not seen
    """

    def __init__(
        self, groups: Mapping[str, Sequence[str]], terms: Terms, unknown: HandleUnknown
    ) -> None:
        self.models: dict[int, RowModel] = {}
        self._terms, self._unknown = terms, unknown
        self._checks: list[tuple[Function, int]] = []
        self._places: dict[Path, int] = {}
        self._fields: set[str] = set()
        self._seen: set[tuple[str, ...]] = set()
        self._all = (1 << len(groups)) - 1
        for number, columns in enumerate(groups.values()):
            for one in inputs_of(list(columns), terms):
                self._fields.add(str(one.path[0]))
                there = one.there(unknown != "unavailable")
                if there is not None:
                    if isinstance(one, Number):
                        self._places[one.path] = len(self._checks)
                    self._checks.append((function_of(there), ~(1 << number)))

    def read(self, row: Row) -> tuple[int, list[float]]:
        """Return the groups that a row has, a bit each, and the values that tell.

        Raises
        ------
        ColumnError : a name is that of no field, and nearly that of one which the row lacks
        """
        names = tuple(row)
        if names not in self._seen:
            self._check_names(names)
        there = self._all
        values = [check(row) for check, _ in self._checks]
        for value, (_, without) in zip(values, self._checks, strict=True):
            if value != value:  # NaN
                there &= without
        return there, values

    def _check_names(self, names: tuple[str, ...]) -> None:
        absent = self._fields.difference(names)
        for name in names:
            near = name not in self._fields and difflib.get_close_matches(name, absent, 1, 0.8)
            if near:
                raise ColumnError(f"the row has unknown column '{name}'; there is '{near[0]}'")
        if len(self._seen) >= MOST_SHAPES:
            self._seen.clear()
        self._seen.add(names)

    def model_of(self, there: int, pattern: Pattern, most: int) -> RowModel:
        """Keep the model of a pattern; beyond the most of them, all are made anew."""
        numbers, others = [], []
        own = pattern.coefficients
        for one in inputs_of(list(own), self._terms):
            if isinstance(one, Number) and one.missing is None:
                numbers.append((self._places[one.path], own[one.name]))
            else:
                others.append(function_of(one.formula(own, self._unknown)))
        if len(self.models) >= most:
            self.models.clear()
        found = self.models[there] = RowModel(pattern, numbers, others)
        return found


def function_of(formula: Formula) -> Function:
    """Return a formula as a function of a row."""
    return translate(formula, _ALGEBRA)


def _reader(path: Path) -> Callable[[Row], Any]:
    """Return what reads a value; of a field around it that is missing, None."""
    field, *steps = path
    if not steps:
        return lambda row: row.get(str(field))

    def read(row: Row) -> Any:
        found = row.get(str(field))
        for step in steps:
            if found is None:
                return None
            found = found[step - 1] if isinstance(step, int) else found.get(step)
        return found

    return read


def _column(path: Path) -> Function:
    read = _reader(path)

    def number(row: Row) -> float:
        value = read(row)
        if type(value) is float:
            return value if value - value == 0.0 else math.nan
        return _number(value, path)

    return number


def _number(value: Any, path: Path) -> float:
    """Return a number, NaN of one that is missing or infinite."""
    if value is None:
        return math.nan
    if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
        raise ArgumentError(
            f"the row has {shown(value)} in column '{'.'.join(map(str, path))}'; the fit has read "
            "a number there"
        )
    found = float(value)
    return found if math.isfinite(found) else math.nan


def _date(path: Path, unit: str) -> Function:
    read = _reader(path)

    def number(row: Row) -> float:
        value = read(row)
        if not isinstance(value, date):
            return _number(value, path)
        if not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        passed = value.replace(tzinfo=value.tzinfo or UTC) - _EPOCH
        return passed.total_seconds() / (UNITS[unit] / 1e6)

    return number


def _lookup(found: Lookup) -> Function:
    read = _reader(found.path)
    numbers = dict(zip(found.values, found.numbers, strict=True))
    other = math.nan if found.other is None else found.other
    missing = math.nan if found.missing is None else found.missing
    is_text = found.is_text and bool(found.values)

    def number(row: Row) -> float:
        value = read(row)
        if value is None:
            return missing
        if isinstance(value, str) != is_text and found.values:
            raise ColumnError(
                f"the row has {shown(value)} in column '{'.'.join(map(str, found.path))}'; the "
                f"levels of its category are {'texts' if is_text else 'numbers or booleans'}"
            )
        if found.refuses and value not in numbers:
            raise DataError(found.refusal(repr(value)))
        return numbers.get(value, other)

    return number


def _constant(value: float) -> Function:
    return lambda row: value


def _operation(name: str) -> Callable[..., Function]:
    compute = _OPERATIONS[name]
    return lambda *parts: lambda row: compute(*(part(row) for part in parts))


def _given(x: Function, there: Function, missing: Function) -> Function:
    return lambda row: missing(row) if math.isnan(x(row)) else there(row)


def _choose(x: Function, positive: Function, other: Function) -> Function:
    return lambda row: positive(row) if x(row) > 0.0 else other(row)


def _no_leaf(*leaf: Any) -> Any:
    raise KeyError(leaf)


_ALGEBRA: Algebra[Function] = Algebra(
    column=_column,
    number=_constant,
    equals=_no_leaf,
    date=_date,
    lookup=_lookup,
    entries=_no_leaf,
    nothing=lambda: _constant(math.nan),
    at_least=_no_leaf,
    operations={
        **{name: _operation(name) for name in _OPERATIONS},
        "given": _given,
        "choose": _choose,
    },
)
