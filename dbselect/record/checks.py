"""What single values may be: each check refuses an argument by its name."""

import math
import numbers
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, which True is not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def check_count(name: str, value: Any) -> None:
    """Refuse a limit that is neither None nor a whole number >= 1."""
    if value is not None:
        check_whole(name, value)


def check_whole(name: str, value: Any, least: int = 1) -> None:
    """Refuse what is not a whole number from `least` on."""
    if not (is_whole(value) and int(value) >= least):
        raise ArgumentError(f"{name} is {value!r}; it must be a whole number >= {least}")


def check_ridge(ridge: Any) -> None:
    """Refuse a ridge that is not a number >= 0."""
    if not (isinstance(ridge, numbers.Real) and 0 <= float(ridge) < math.inf):
        raise ArgumentError(f"ridge is {ridge!r}; it must be a number >= 0")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError(f"{name} is {value!r}; it must be True or False")


def check_scale(scale: Any) -> None:
    """Refuse a scale that is neither true nor false."""
    check_flag("scale", scale)


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Refuse what is not one of some names."""
    if not isinstance(value, str) or value not in choices:
        raise ArgumentError(f"{name} is {value!r}; it must be one of {list(choices)}")


def check_budget(budget: float | None) -> None:
    """Refuse a budget that is not a number >= 0."""
    if budget is not None and not (isinstance(budget, numbers.Real) and budget >= 0):
        raise ArgumentError(f"budget is {budget!r}; it must be a number >= 0, or None for no limit")


def check_share(name: str, value: Any) -> None:
    """Refuse what does not lie between 0 and 1."""
    if not (isinstance(value, numbers.Real) and 0 < float(value) < 1):
        raise ArgumentError(f"{name} is {value!r}; it must lie between 0 and 1, both excluded")


def check_between(name: str, value: Any) -> None:
    """Refuse what is not a number from 0 to 1, both of which are allowed."""
    if not (isinstance(value, numbers.Real) and 0 <= float(value) <= 1):
        raise ArgumentError(f"{name} is {value!r}; it must be a number from 0 to 1")


def check_penalty(penalty: Any) -> None:
    """Refuse a penalty that is neither None nor a number > 0."""
    if penalty is not None and not (
        isinstance(penalty, numbers.Real) and 0 < float(penalty) < math.inf
    ):
        raise ArgumentError(f"penalty is {penalty!r}; it must be a number > 0")


def check_at(name: str, value: Any, count: int) -> None:
    """Refuse what is no number of one of `count` things, from 0 on."""
    if not (is_whole(value) and 0 <= int(value) < count):
        raise ArgumentError(f"{name} is {value!r}; it must be a whole number from 0 to {count - 1}")


def check_folder(name: str, path: Any) -> None:
    """Refuse what is not the path of a file in a folder that is there."""
    fits = isinstance(path, str | PathLike)
    if not fits or not Path(path).absolute().parent.is_dir():
        shown = str(path) if fits else path
        raise ArgumentError(f"{name} is {shown!r}; it must be a file in a folder that is there")


def check_names(name: str, value: Any) -> None:
    """Refuse what is no list of names of groups."""
    listed = isinstance(value, Iterable) and not isinstance(value, str)
    if not listed or not all(isinstance(one, str) for one in value):
        raise ArgumentError(f"{name} is {value!r}; it must be a list of group names")


def check_column(name: str, value: Any) -> None:
    """Refuse what is neither None nor the name of a column."""
    if value is not None and not isinstance(value, str):
        raise ArgumentError(f"{name} is {value!r}; it must be the name of a column")
