"""What the calls of penalised paths have in common: options, factors, and the result."""

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError, ColumnError
from dbselect.linear.problem import Index
from dbselect.methods.options import Options
from dbselect.methods.setup import LinearSetup
from dbselect.record.checks import check_between, check_flag, check_scale, check_share, check_whole
from dbselect.record.columns import match, unknown
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups
from dbselect.selection import group_lasso as paths
from dbselect.selection.group_norms import Penalty
from dbselect.sources.open import progress

#: Factor of a column that has no coefficient to adapt to: it enters nowhere on a path.
NEVER = 1e12


@dataclass(frozen=True, kw_only=True)
class PathOptions(Options):
    """The options of every path."""

    penalties: Iterable[float] | None = None
    n_penalties: int = 100
    smallest: float = 1e-3
    l1_ratio: float = 1.0
    penalty_factors: Mapping[str, float] | None = None
    adaptive: float | None = None
    scale: bool = True
    intercept: bool = True

    def __post_init__(self) -> None:
        """Refuse options that no Gram could make right."""
        super().__post_init__()
        if self.penalties is not None:
            object.__setattr__(self, "penalties", _falling(self.penalties))
        check_whole("n_penalties", self.n_penalties, least=2)
        check_share("smallest", self.smallest)
        check_between("l1_ratio", self.l1_ratio)
        _check_factors(self.penalty_factors)
        if self.adaptive is not None and not _is_finite(self.adaptive, above=True):
            raise ArgumentError(f"adaptive is {self.adaptive!r}; it must be a number > 0, or None")
        check_scale(self.scale)
        check_flag("intercept", self.intercept)


def _falling(penalties: Any) -> tuple[float, ...]:
    listed = isinstance(penalties, Iterable) and not isinstance(penalties, str | Mapping)
    values = list(penalties) if listed else []
    if not values or not all(_is_finite(one, above=True) for one in values):
        raise ArgumentError(f"penalties is {penalties!r}; it must list numbers > 0, or be None")
    found = tuple(float(one) for one in values)
    if not all(before > after for before, after in pairwise(found)):
        raise ArgumentError(f"penalties is {penalties!r}; each must be less than the one before")
    return found


def _check_factors(factors: Any) -> None:
    if factors is None:
        return
    if not isinstance(factors, Mapping):
        raise ArgumentError(
            f"penalty_factors is {factors!r}; it must map columns, globs or groups to numbers >= 0"
        )
    for name, factor in factors.items():
        if not isinstance(name, str):
            raise ArgumentError(f"penalty_factors names {name!r}; names are text")
        if not _is_finite(factor):
            raise ArgumentError(
                f"penalty_factors has {factor!r} for '{name}'; it must be a number >= 0"
            )


def _is_finite(value: Any, above: bool = False) -> bool:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    return (float(value) > 0 if above else float(value) >= 0) and float(value) < math.inf


@dataclass(frozen=True, eq=False)
class Factors:
    """What penalties are multiplied by.

    Parameters
    ----------
    columns : shape (D,)
    groups : shape (J,)
    own : columns whose factor is not that of their group
    """

    columns: Vector
    groups: Vector
    own: list[str]


def factors_of(groups: Groups, given: Mapping[str, float] | None) -> Factors:
    """Match factors to groups and columns; 1 each by default.

    The factor of a group is that of its columns, unless a glob or a field names them, and
    that unless they are named themselves.

    Raises
    ------
    ColumnError : a name is neither a group nor a column
    ArgumentError : a name is a group and a column of another
    """
    given = given or {}
    members = groups.members
    place = {name: j for j, name in enumerate(members)}
    by_group, by_column = np.ones(len(groups.names)), np.ones(len(members))
    apart: dict[str, None] = {}
    for name, factor in given.items():
        if name not in groups.columns:
            continue
        if name in place and groups.columns[name] != [name]:
            raise ArgumentError(
                f"penalty_factors names '{name}', which is a group and a column of another"
            )
        number = groups.number(name, "penalty_factors")
        by_group[number] = factor
        by_column[groups.positions[number]] = factor
    rest = [name for name in given if name not in groups.columns]
    for name in sorted(rest, key=place.__contains__):  # those named themselves last
        try:
            columns = match([name], members, "penalty_factors")
        except ColumnError:
            raise ColumnError(
                f"penalty_factors names {unknown('column or group', name, members)}"
            ) from None
        for column in columns:
            by_column[place[column]] = given[name]
            apart[column] = None
    return Factors(by_column, by_group, list(apart))


def adapted(search: LinearSetup, members: Sequence[Index], power: float | None) -> Vector:
    """Return ``1 / ||w_g||^power`` of the least-squares w of all columns; shape (J,).

    ``NEVER`` of groups whose columns depend on others, 1 each without a power.

    Source: Zou (2006), JASA 101, section 3.1; of groups Wang, Leng (2008).
    """
    if power is None:
        return np.ones(len(members))
    state = search.state.copy()
    state.add_all(range(state.size))
    w = state.coef() / search.problem.unit
    lengths = np.array([np.linalg.norm(w[at]) for at in members])
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.minimum(lengths**-power, NEVER))


def found_path(
    search: LinearSetup, members: Sequence[Index], weights: Penalty, options: PathOptions
) -> paths.Path:
    """Return the path of a problem that is set up.

    Raises
    ------
    ArgumentError : nothing is penalised
    """
    if not (weights.norm.any() or weights.absolute.any()):
        raise ArgumentError("penalty_factors are 0 for all columns; a path penalises some")
    given = None if options.penalties is None else np.array(list(options.penalties))
    count = int(options.n_penalties) if given is None else len(given)
    with progress(count, "penalties") as bar:
        return paths.path(
            search.problem,
            members,
            weights,
            given,
            n_penalties=count,
            smallest=float(options.smallest),
            turn=bar.update,
        )
