"""What the penalised paths have in common: penalties, their factors, and the result."""

from collections.abc import Mapping
from typing import Any

from dbselect.errors import ArgumentError, ColumnError, ConvergenceWarning, unknown, warn_caller
from dbselect.linear.condition import CONDITION_LIMIT, warn_of
from dbselect.record.columns import match
from dbselect.record.groups import Groups
from dbselect.results.model import Model
from dbselect.results.penalty_path import Path, PenaltyPath
from dbselect.results.selected import Selected, Shrinkage
from dbselect.search.compiled import compiled_path
from dbselect.search.gram import GramSearch
from dbselect.sources.progress import progress

#: What the optimality conditions are promised to hold to, in correlations.
PROMISED = 1e-8
#: Options that the library takes as they are.
_OF_LIBRARY = (
    "penalties", "penalty", "criterion", "n_lambda", "l1_ratio", "lambda_min_ratio", "adaptive",
)  # fmt: skip


def found_path(search: GramSearch, method: str, known: Any) -> tuple[Path, int | None]:
    """Return the path of a method, and the number of the penalty that `criterion` prefers."""
    penalties, groups = known.get("penalties"), search.groups
    options = {name: known[name] for name in _OF_LIBRARY if known.get(name) is not None}
    factors = known["penalty_factors"] or {}
    options["penalty_factors"] = factors_of(groups, factors, float(known["l1_ratio"]))
    count = 1 if known.get("penalty") is not None else int(known["n_lambda"])
    count = count if penalties is None else len(penalties)
    with progress(count, "penalties") as bar:
        values, condition = compiled_path(search, method, options, lambda *_: bar.update())
    unit = values["unit"]
    w = values["w"].reshape(-1, len(unit))
    found = Path(
        penalties=values["penalties"],
        coef=w * unit,
        spread=values["spread"],
        intercept=values["intercept"],
        lengths=values["lengths"].reshape(len(w), -1),
        r2=values["r2"],
        gap=values["gap"],
        violation=values["violation"],
        df=values["df"],
        entered=values["entered"].astype(int).tolist(),
        entered_at=values["entered_at"].astype(int).tolist(),
        condition=condition,
    )
    _warn_of(found)
    return found, values["preferred"]


def factors_of(groups: Groups, given: Mapping[str, float], ratio: float) -> dict[str, float]:
    """Return factors by ``"g0"``, a group's number, and ``"0"``, a column's, these last.

    A column's name goes before a glob or a field, that before its group.
    """
    place = {name: j for j, name in enumerate(groups.members)}
    of_groups: dict[str, float] = {}
    of_columns: dict[str, float] = {}
    for name, factor in given.items():
        if name in groups.columns:
            if name in place and groups.columns[name] != [name]:
                raise ArgumentError(
                    f"penalty_factors names '{name}', which is a group and a column of another"
                )
            of_groups[f"g{groups.number(name, 'penalty_factors')}"] = factor
    rest = [name for name in given if name not in groups.columns]
    for name in sorted(rest, key=place.__contains__):  # those named themselves last
        try:
            columns = match([name], groups.members, "penalty_factors")
        except ColumnError:
            raise ColumnError(
                f"penalty_factors names {unknown('column or group', name, groups.members)}"
            ) from None
        if not ratio:
            raise ArgumentError(
                f"penalty_factors names column '{columns[0]}'; without l1_ratio only groups are "
                "penalised"
            )
        of_columns |= {str(place[column]): given[name] for column in columns}
    return of_groups | of_columns


def _warn_of(found: Path) -> None:
    """Warn of digits that are lost, and of a point short of its minimum."""
    warn_of(found.condition)
    if (worst := float(found.violation.max())) > PROMISED:
        reason = (
            "the columns keep too few digits for penalties as small; raise lambda_min_ratio, or "
            "leave columns out"
            if found.condition > CONDITION_LIMIT
            else "it takes too many steps; give fewer penalties, or leave columns out"
        )
        warn_caller(
            f"optimality conditions hold to {worst:.0e} only, in correlations: {reason}",
            ConvergenceWarning,
        )


def selected(found: PenaltyPath, preferred: int | None, known: Any) -> Selected[Model]:
    """Return the model of the only penalty of a path, or the one that the criterion prefers."""
    point = 0 if known["penalty"] is not None else preferred
    if point is None:
        raise found._no_criterion(known["criterion"])
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
