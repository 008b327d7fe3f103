"""A grid of options: its points, checked against a function, and shown as columns."""

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError
from dbselect.record.columns import unknown_option

Options = Mapping[str, Any]


def points_of(grid: Any) -> list[dict[str, Any]]:
    """Return the options of every point of a grid."""
    if grid is None:
        return [{}]
    if isinstance(grid, Mapping):
        for name, values in grid.items():
            if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
                raise ArgumentError(f"grid has {values!r} for '{name}'; it must list values")
        lists = [list(values) for values in grid.values()]
        points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*lists)]
    elif isinstance(grid, Iterable) and not isinstance(grid, str):
        points = list(grid)
        wrong = next((point for point in points if not isinstance(point, Mapping)), None)
        if wrong is not None:
            raise ArgumentError(f"grid lists {wrong!r}; a point must map options to values")
        points = [dict(point) for point in points]
    else:
        raise ArgumentError(f"grid is {grid!r}; it must map options to values or list such")
    if not points:
        raise ArgumentError(f"grid is {grid!r}; it has no point")
    return points


def check_options(run: Callable[..., Any], points: Iterable[Options], options: Options) -> None:
    """Refuse options that the method does not have, or that are given twice."""
    parameters = list(inspect.signature(run).parameters.values())
    known = [one.name for one in parameters[2:] if one.kind is not one.VAR_KEYWORD]
    free = any(one.kind is one.VAR_KEYWORD for one in parameters)
    varied = list(dict.fromkeys(name for point in points for name in point))
    for name in [*varied, *options]:
        if name not in known and not free:
            raise ArgumentError(
                f"{getattr(run, '__name__', 'method')} has {unknown_option(name, known)}"
            )
        if name in varied and name in options:
            raise ArgumentError(f"option '{name}' is given for all points and in the grid")


def shown(points: Sequence[Options]) -> pl.DataFrame:
    """Return the options of the points as columns; what is no plain value as text."""
    names = dict.fromkeys(name for point in points for name in point)
    return pl.DataFrame([_column(name, [point.get(name) for point in points]) for name in names])


def _column(name: str, values: list[Any]) -> pl.Series:
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    kinds = {type(value) for value in plain} - {type(None)}
    if kinds <= {int, float} or kinds in ({bool}, {str}):
        return pl.Series(name, plain, strict=False)
    return pl.Series(name, [None if value is None else repr(value) for value in plain])
