"""Kinds of option values: a check, and words for its error message."""

import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, get_args

from dbselect.errors import ArgumentError, shown


@dataclass(frozen=True)
class Kind:
    """A kind of value: what is allowed, and its types in SQL and on the command line."""

    words: str  # what the value must be, as in an error: ``"be a number >= 0"``
    allows: Callable[[Any], bool]  # value -> whether it is allowed
    sql: str | None = None  # the type in SQL; None: not in SQL
    # text of the command line -> value; None: not on the command line
    parse: Callable[[str], Any] | None = None
    several: bool = False  # whether the value is a list of parsed values
    items: "Kind | None" = None  # kind of the values of a mapping

    def check(self, name: str, value: Any) -> None:
        """Raise ArgumentError with name, value and what is allowed, unless the value is."""
        if not self.allows(value):
            raise ArgumentError(f"{name} is {shown(value)}; it must {self.words}")
        if self.items is not None:
            for key, item in value.items():
                if not isinstance(key, str):
                    raise ArgumentError(f"{name} names {shown(key)}; names are text")
                self.items.check(f"{name} of '{key}'", item)

    def or_none(self, words: str = "") -> "Kind":
        """Return the kind that also allows None."""
        return Kind(
            self.words + words, lambda value: value is None or self.allows(value),
            self.sql, self.parse, self.several,
        )  # fmt: skip


def is_whole(value: Any) -> bool:
    """Whether a value is an integer; True is not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_flag(value: Any) -> bool:
    """Whether a value is a boolean of Python or NumPy."""
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


def _is_number(value: Any) -> bool:
    if isinstance(value, float):  # the common case; isinstance of an abstract class is slower
        return True
    if not isinstance(value, numbers.Real) or is_flag(value):
        return False
    try:
        float(value)
    except OverflowError:  # a whole number of more than 308 digits
        return False
    return True


def _is_column(value: Any) -> bool:
    return isinstance(value, str)


def _are_names(value: Any) -> bool:
    listed = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    return listed and all(isinstance(name, str) for name in value)


def _are_falling(value: Any) -> bool:
    listed = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    values = list(value) if listed else []
    if not values or not all(_is_number(item) and 0 < float(item) < math.inf for item in values):
        return False
    return all(before > after for before, after in pairwise(values))


def _yes_or_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(text)
    return text == "yes"


def _number(words: str, allows: Callable[[float], bool]) -> Kind:
    return Kind(words, lambda v: _is_number(v) and allows(float(v)), "DOUBLE", float)


def whole(least: int = 1) -> Kind:
    """Return the kind of integers >= `least`."""
    words = f"be a whole number >= {least}"
    return Kind(words, lambda v: is_whole(v) and int(v) >= least, "BIGINT", int)


def one_of(names: Any) -> Kind:
    """Return the kind of names from a Literal or a list."""
    listed = list(get_args(names) or names)
    return Kind(f"be one of {listed}", lambda v: isinstance(v, str) and v in listed, "VARCHAR", str)


FLAG = Kind("be True or False", is_flag, "BOOLEAN", _yes_or_no)
TEXT = Kind("be text", _is_column, "VARCHAR", str)
COLUMN = Kind("be the name of a column", _is_column, "VARCHAR", str)
#: Names of groups, or of columns.
GROUP_NAMES = Kind("be a list of group names", _are_names, "VARCHAR[]", str, several=True)
COLUMNS = Kind("be a list of column names and globs", _are_names, "VARCHAR[]", str, several=True)
#: Checked by `validation.scoring.metrics`, not here.
METRICS = Kind("", lambda _: True, None, str, several=True)
NOT_NEGATIVE = _number("be a number >= 0", lambda v: 0 <= v < math.inf)
FINITE = _number("be a finite number", math.isfinite)
#: What a unit is worth, which may be a loss.
STAKE = _number("be a finite number other than 0", lambda v: v != 0 and math.isfinite(v))
POSITIVE = _number("be a number > 0", lambda v: 0 < v < math.inf)
#: A limit, which may be infinite.
AT_LEAST_ZERO = _number("be a number >= 0", lambda v: v >= 0)
BUDGET = AT_LEAST_ZERO.or_none(", or None for no limit")
PAYOFF = Kind(
    "be two numbers: what a row earns if its target is 1, and loses if it is 0",
    lambda value: (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(FINITE.allows(amount) for amount in value)
        and any(value)
    ),
    None,
    float,
    several=True,
)
#: A share strictly between 0 and 1.
SHARE = _number("lie between 0 and 1, both excluded", lambda v: 0 < v < 1)
FRACTION = _number("be a number from 0 to 1", lambda v: 0 <= v <= 1)
ALPHA = _number("lie in (0, 1]", lambda v: 0 < v <= 1)
#: A selection frequency for which the error bound of stability selection holds.
THRESHOLD = _number("be above 0.5 and at most 1", lambda v: 0.5 < v <= 1)
SECONDS = _number("be a number of seconds > 0", lambda v: v > 0)
#: A variance whose gains do not overflow.
VARIANCE = _number("be a number > 0, from 1e-60 to 1e+60", lambda v: 1e-60 <= v <= 1e60)
COUNT = whole()
SEED = Kind("be a whole number from 0 to 2^63 - 1", lambda v: is_whole(v) and 0 <= int(v) < 2**63,
            "BIGINT", int)  # fmt: skip
#: Limits on the queries of a score, which the command line does not have.
LIMIT_OF_QUERIES = Kind(COUNT.words, COUNT.allows)
LIMIT_OF_TIME = Kind(SECONDS.words, SECONDS.allows)
#: Folds of an estimator; not on the command line, where ``--cv`` adds scores to the output.
FOLDS_OF_SKLEARN = Kind(whole(2).words, whole(2).allows)


def _is_split(value: Any) -> bool:
    if is_whole(value):
        return int(value) >= 2
    return isinstance(value, str | list | tuple) or hasattr(value, "split")


def _split(text: str) -> int | str:
    return int(text) if text.removeprefix("-").isdigit() else text


#: Splits of rows into folds.
SPLITS = Kind(
    "be a whole number >= 2, a column whose values are the folds, a list of pairs of row numbers "
    "(train, test), or a splitter of scikit-learn", _is_split, None, _split,
)  # fmt: skip
#: `SPLITS` by scikit-learn's name; not on the command line, where ``--cv`` has another meaning.
SPLITS_BY_ANOTHER_NAME = Kind(SPLITS.words, _is_split)
SHORTLIST = Kind(FRACTION.words, FRACTION.allows)
EXECUTOR = Kind("be a concurrent.futures.Executor", lambda v: callable(getattr(v, "submit", None)))
CALLBACK = Kind("be a function of a Progress", callable)
#: Checked by the method, not here.
ANYTHING = Kind("", lambda _: True)
FALLING = Kind("list numbers > 0, each less than the one before", _are_falling,
               "DOUBLE[]", float, several=True)  # fmt: skip
#: Factors of columns, globs or groups.
FACTORS = Kind("map columns, globs or groups to numbers >= 0",
               lambda value: isinstance(value, Mapping), items=NOT_NEGATIVE)  # fmt: skip
#: Signs of the coefficients of columns or globs.
SIGNS = Kind("map columns and globs to '+' or '-'", lambda value: isinstance(value, Mapping),
             items=Kind("be '+' or '-'", lambda value: value in ("+", "-")))  # fmt: skip
#: Columns of several models.
MODELS = Kind("map names of models to lists of columns", lambda value: isinstance(value, Mapping)
              and len(value) > 0, items=COLUMNS)  # fmt: skip


def check_at(name: str, value: Any, count: int) -> None:
    """Raise ArgumentError unless the value is an index from 0 to `count` - 1."""
    if not (is_whole(value) and 0 <= int(value) < count):
        raise ArgumentError(
            f"{name} is {shown(value)}; it must be a whole number from 0 to {count - 1}"
        )


def check_folder(name: str, path: Any) -> None:
    """Raise ArgumentError unless the path is in an existing folder."""
    fits = isinstance(path, str | PathLike)
    if not fits or not Path(path).parent.is_dir():
        value = str(path) if fits else path
        raise ArgumentError(f"{name} is {shown(value)}; it must be a file in a folder that exists")
