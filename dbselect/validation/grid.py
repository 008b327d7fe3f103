"""A grid of options: its points, their checks, and their columns in a table."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, OptionError, shown, unknown
from dbselect.options.kinds import one_of
from dbselect.options.option import REQUIRED, options_of
from dbselect.spec.fields import ProblemOptions
from dbselect.spec.methods import METHODS
from dbselect.spec.spec import Spec

Options = Mapping[str, Any]
#: The name of a method, or a function of a problem and options.
MethodOf = str | Callable[..., Any]
#: Fields that control the reading of rows, which happens once for all points.
_OF_ROWS = ("weight", "null_policy", "rows", "terms", "family", "offset", "exposure",
            "positive", "gram")  # fmt: skip
#: Fields that may vary from point to point.
FREE_FIELDS = ["groups", "costs", *(n for n in options_of(ProblemOptions) if n not in _OF_ROWS)]


def points_of(grid: Any) -> list[dict[str, Any]]:
    """Expand a grid into the options of its points."""
    if grid is None:
        return [{}]
    if isinstance(grid, Mapping):
        for name, values in grid.items():
            if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
                raise ArgumentError(f"grid has {shown(values)} for '{name}'; it must list values")
        lists = [list(values) for values in grid.values()]
        points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*lists)]
    elif isinstance(grid, Iterable) and not isinstance(grid, str):
        points = list(grid)
        wrong = next((point for point in points if not isinstance(point, Mapping)), None)
        if wrong is not None:
            raise ArgumentError(f"grid lists {shown(wrong)}; a point must map options to values")
        points = [dict(point) for point in points]
    else:
        raise ArgumentError(
            f"grid is {shown(grid)}; it must map options to values or list such mappings"
        )
    if not points:
        raise ArgumentError(f"grid is {grid!r}; it has no point")
    return points


def checked_method(method: Any, names: Any, what: str = "method") -> MethodOf:
    """Return the name of a method or of a function of dbselect, or the user's function."""
    if getattr(method, "__module__", "").startswith("dbselect."):
        method = name_of_method(method)
    if isinstance(method, str) or not callable(method):
        one_of(names).check(what, method)
    checked: MethodOf = method
    return checked


def name_of_method(method: MethodOf) -> str:
    """Return the name of a method or a function."""
    return method if isinstance(method, str) else getattr(method, "__name__", type(method).__name__)


def check_options(
    method: MethodOf, points: Sequence[Options], options: Options, beside: Iterable[str] = ()
) -> None:
    """Refuse missing, unknown and repeated options; errors also suggest the names in `beside`."""
    varied = list(dict.fromkeys(name for point in points for name in point))
    for name in varied:
        if name in options:
            raise ArgumentError(f"option '{name}' is given for all points and in the grid")
        if name in _OF_ROWS:
            raise ArgumentError(
                f"option '{name}' is in the grid; the rows are read once, for all points: give it "
                "beside the grid"
            )
    if not isinstance(method, str):
        return
    method_options = METHODS[method].known
    names = [*beside, *method_options, *FREE_FIELDS]
    # scikit-learn's "scoring" would be matched to the wrong option.
    synonyms = {"scoring": ["metric"]} if "metric" in names else {}
    for name in [*varied, *options]:
        if name not in method_options and name not in FREE_FIELDS:
            raise OptionError(f"{method} has {unknown('option', name, synonyms.get(name, names))}")
    for name, option in method_options.items():
        if option.default is REQUIRED and name not in varied and name not in options:
            raise OptionError(f"{method} needs option '{name}', which has no default")


def answer(problem: Spec, method: MethodOf, options: Options) -> Any:
    """Run a method; options that are fields of the problem replace them."""
    fields = {name: value for name, value in options.items() if name in FREE_FIELDS}
    rest = {name: value for name, value in options.items() if name not in fields}
    changed = problem.replace(**fields) if fields else problem
    return getattr(changed, method)(**rest) if isinstance(method, str) else method(changed, **rest)


def shown_points(points: Sequence[Options]) -> pl.DataFrame:
    """Return the options of the points as columns; values that are not plain as text."""
    names = dict.fromkeys(name for point in points for name in point)
    return pl.DataFrame([_column(name, [point.get(name) for point in points]) for name in names])


def _column(name: str, values: list[Any]) -> pl.Series:
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    kinds = {type(value) for value in plain} - {type(None)}
    if kinds <= {int, float} or kinds in ({bool}, {str}):
        return pl.Series(name, plain, strict=False)
    return pl.Series(name, [None if value is None else repr(value) for value in plain])
