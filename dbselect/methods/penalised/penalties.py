"""What the penalised paths have in common: penalties, their factors, and the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError, ColumnError, ConvergenceWarning, unknown, warn_caller
from dbselect.linear.condition import CONDITION_LIMIT, warn_of
from dbselect.linear.problem import Index
from dbselect.record.columns import match
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups
from dbselect.results.model import Model
from dbselect.results.paths.penalty_path import PenaltyPath
from dbselect.results.selected import Selected, Shrinkage
from dbselect.search.gram import GramSearch
from dbselect.selection.penalised.path import Path, path
from dbselect.sources.progress import progress

#: Factor of a column that has no coefficient to adapt to: it enters nowhere on a path.
NEVER = 1e12
#: What the optimality conditions are promised to hold to, in correlations.
PROMISED = 1e-8


@dataclass(frozen=True, eq=False)
class Factors:
    """What penalties are multiplied by."""

    columns: Vector  # shape (D,)
    groups: Vector  # shape (J,)
    own: list[str]  # columns whose factor is not that of their group


def factors_of(groups: Groups, given: Mapping[str, float] | None, always: Sequence[int]) -> Factors:
    """Match factors, 1 by default: a column's name before a glob or a field, then its group."""
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
    for number in always:
        by_group[number] = 0.0
        by_column[groups.positions[number]] = 0.0
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


def adapted(search: GramSearch, members: Sequence[Index], power: float | None) -> Vector:
    """Return ``1 / ||w_g||^power`` (Zou 2006; Wang, Leng 2008), (J,); `NEVER` if dependent."""
    if power is None:
        return np.ones(len(members))
    state = search.state.copy()
    state.add_all(range(state.size))
    w = state.coef() / search.linear.unit
    lengths = np.array([np.linalg.norm(w[at]) for at in members])
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.minimum(lengths**-power, NEVER))


def found_path(
    search: GramSearch,
    members: Sequence[Index],
    weights: tuple[Vector, Vector, Vector],
    known: Any,
) -> Path:
    """Return the path; `weights` are norm, absolute and square of a penalty of 1."""
    if not (weights[0].any() or weights[1].any()):
        raise ArgumentError("penalty_factors are 0 for all columns; a path penalises some")
    one = known.get("penalty")
    given = known.get("penalties") if one is None else [one]
    count = int(known["n_lambda"]) if given is None else len(given)
    grid = (count, float(known["lambda_min_ratio"])) if given is None else np.array(given, float)
    with progress(count, "penalties") as bar:
        found = path(search.linear, members, weights, grid, bar.update)
    condition = found.condition
    warn_of(condition)
    if (worst := float(found.violation.max())) > PROMISED:
        reason = (
            "the columns keep too few digits for penalties as small; raise lambda_min_ratio, or "
            "leave columns out"
            if condition > CONDITION_LIMIT
            else "it takes too many steps; give fewer penalties, or leave columns out"
        )
        warn_caller(
            f"optimality conditions hold to {worst:.0e} only, in correlations: {reason}",
            ConvergenceWarning,
        )
    return found


def selected(found: PenaltyPath, known: Any) -> Selected[Model]:
    """Return the model of the only penalty of a path, or the one that the criterion prefers."""
    point = 0 if known["penalty"] is not None else found._preferred(known["criterion"])
    model = found.model(point)
    names = found.groups.names
    how = Shrinkage(
        penalty=float(found.penalties[point]),
        df=float(found.df[point]),
        gap=float(found.gap[point]),
        violation=float(found.violation[point]),
    )
    chosen = tuple(names.index(name) for name in model.groups)
    return Selected(model, chosen, found.call.method, how, call=found.call)
