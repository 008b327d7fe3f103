"""Common steps of the penalised paths: penalty factors, the path and the selected model."""

from collections.abc import Mapping
from typing import Any

from dbselect.errors import ArgumentError, ColumnError, ConvergenceWarning, unknown, warn_caller
from dbselect.linear.condition import CONDITION_LIMIT, warn_of
from dbselect.linear.constrained import signs_of
from dbselect.record.columns import match, numbers_among
from dbselect.record.groups import Groups
from dbselect.results.model import Model
from dbselect.results.penalty_path import Path, PenaltyPath
from dbselect.results.selected import Selected, Shrinkage
from dbselect.search.compiled import compiled_path
from dbselect.search.gram import GramSearch
from dbselect.sources.progress import progress

#: Documented tolerance of the optimality conditions, in correlations.
PROMISED = 1e-8
#: Options that are passed to the library unchanged.
_OF_LIBRARY = (
    "penalties", "penalty", "criterion", "n_lambda", "l1_ratio", "lambda_min_ratio", "adaptive",
)  # fmt: skip


def penalty_path_of(search: GramSearch, method: str, options: Any) -> tuple[Path, int | None]:
    """Compute the path of a method; return it and the index of the penalty with best criterion."""
    penalties, groups = options.get("penalties"), search.groups
    of_library = {name: options[name] for name in _OF_LIBRARY if options.get(name) is not None}
    factors = options["penalty_factors"] or {}
    of_library["penalty_factors"] = factors_of(groups, factors, float(options["l1_ratio"]))
    if options.get("signs"):
        signed = signs_of(options["signs"], groups.members)
        of_library["signs"] = {str(groups.members.index(name)): s for name, s in signed.items()}
    count = 1 if options.get("penalty") is not None else int(options["n_lambda"])
    count = count if penalties is None else len(penalties)
    with progress(count, "penalties") as bar:
        values, condition = compiled_path(search, method, of_library, lambda *_: bar.update())
    unit = values["unit"]
    w = values["w"].reshape(-1, len(unit))
    path = Path(
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
    _warn_of(path)
    return path, values["preferred"]


def factors_of(groups: Groups, factors: Mapping[str, float], ratio: float) -> dict[str, float]:
    """Return penalty factors by key: ``"g0"`` for group 0, ``"0"`` for column 0.

    The factor of a column name overrides that of a glob or field, and that of its group.
    """
    position_of = {name: j for j, name in enumerate(groups.members)}
    group_factors: dict[str, float] = {}
    column_factors: dict[str, float] = {}
    for name, factor in factors.items():
        if name in groups.columns:
            if name in position_of and groups.columns[name] != [name]:
                raise ArgumentError(
                    f"penalty_factors names '{name}', which is a group and a column of another"
                )
            group_factors[f"g{groups.number(name, 'penalty_factors')}"] = factor
    other_names = [name for name in factors if name not in groups.columns]
    for name in sorted(other_names, key=position_of.__contains__):  # exact names last, to override
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
        column_factors |= {str(position_of[column]): factors[name] for column in columns}
    return group_factors | column_factors


def _warn_of(path: Path) -> None:
    """Warn of lost digits, and of points that have not converged."""
    warn_of(path.condition)
    if (worst := float(path.violation.max())) > PROMISED:
        reason = (
            "the columns keep too few digits for penalties as small; raise lambda_min_ratio, or "
            "leave columns out"
            if path.condition > CONDITION_LIMIT
            else "it takes too many steps; give fewer penalties, or leave columns out"
        )
        warn_caller(
            f"optimality conditions hold to {worst:.0e} only, in correlations: {reason}",
            ConvergenceWarning,
        )


def selected_model(path: PenaltyPath, preferred: int | None, options: Any) -> Selected[Model]:
    """Return the model at the only penalty of a path, or at the one with the best criterion."""
    point = 0 if options["penalty"] is not None else preferred
    if point is None:
        raise path._no_criterion(options["criterion"])
    model = path.model(point)
    names = path.groups.names
    shrinkage = Shrinkage(
        penalty=float(path.penalties[point]),
        df=float(path.df[point]),
        gap=float(path.gap[point]),
        violation=float(path.violation[point]),
    )
    chosen = tuple(numbers_among(model.groups, names).tolist())
    return Selected(model, chosen, path.call.method, shrinkage, call=path.call)
