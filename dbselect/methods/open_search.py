"""What a search that takes a table, a Gram, a record or an objective is given to work on."""

from typing import Any, cast

from dbselect.errors import ArgumentError
from dbselect.methods.glm_objective import (
    GlmObjective,
    ObjectiveSetup,
    glm_objective,
    objective_setup,
)
from dbselect.methods.setup import LinearSetup, prepare, refuse_several
from dbselect.methods.too_wide import wide_or_not
from dbselect.methods.types import (
    Costs,
    FamilyName,
    GroupColumns,
    GroupNames,
    NullPolicy,
    Source,
    TableSource,
    Targets,
)
from dbselect.methods.wide_search import WideSearch, wide_search
from dbselect.record.checks import check_flag


def open_search(
    source: Source | GlmObjective,
    target: str | Targets | None,
    groups: GroupColumns | None,
    costs: Costs | None,
    *,
    family: FamilyName,
    ridge: float = 0.0,
    always: GroupNames = (),
    null_policy: NullPolicy = "skip",
    several: bool = False,
    intercept: bool = True,
    weight: str | None = None,
) -> LinearSetup | ObjectiveSetup:
    """Return the linear problem, or the deviance of a family that a Gram cannot tell.

    Parameters
    ----------
    source : Gram, record or table; or a `glm_objective`, which has what tables need
    always : groups to take first
    several : whether `target` may be a list of columns, of family ``"gaussian"``
    intercept : False for linear models through the origin
    weight : column of row weights, of a table

    Returns
    -------
    LinearSetup, or ObjectiveSetup; both may be changed

    Raises
    ------
    ColumnError, GroupError, ArgumentError, DataError, SourceError : as `anytime_sequence` and
        `glm_objective`
    """
    if isinstance(source, GlmObjective):
        check_has_intercept(intercept, source.about.data.roles.family.name)
        own = None if family == "gaussian" else family
        given: dict[str, Any] = {"target": target, "groups": groups, "family": own}
        given["weight"] = weight
        return objective_setup(source, costs, always, **given, ridge=ridge, null_policy=null_policy)
    if family == "gaussian":
        return prepare(
            source, cast(str, target), groups, costs, ridge=ridge, always=always,
            null_policy=null_policy, weight=weight, several=several, intercept=intercept,
        )  # fmt: skip
    refuse_several(target)
    check_has_intercept(intercept, family)
    if null_policy != "skip":
        raise ArgumentError(f"null_policy is {null_policy!r}; with family {family!r} it is 'skip'")
    made = glm_objective(
        cast(TableSource, source), cast(str, target), groups, costs, family=family, ridge=ridge,
        weight=weight,
    )  # fmt: skip
    return objective_setup(made, None, always)


def check_has_intercept(intercept: bool, family: str) -> None:
    """Refuse models through the origin of a family in passes."""
    check_flag("intercept", intercept)
    if not intercept:
        raise ArgumentError(f"intercept is {intercept!r}; models of family {family!r} have one")


def open_wide_or_not(
    source: Source | GlmObjective,
    target: str | None,
    groups: GroupColumns | None,
    costs: Costs | None,
    *,
    wide: bool | None,
    family: FamilyName,
    ridge: float = 0.0,
    always: GroupNames = (),
    null_policy: NullPolicy = "skip",
    intercept: bool = True,
    weight: str | None = None,
) -> LinearSetup | ObjectiveSetup | WideSearch:
    """Return what `open_search` does, or the linear problem of a table too wide for its Gram.

    Parameters
    ----------
    wide : whether it is; None decides by the columns, of family ``"gaussian"``

    Raises
    ------
    ArgumentError : it is, and the source is an objective
    ColumnError, GroupError, ArgumentError, DataError, SourceError : as `open_search`
    """
    if wide and isinstance(source, GlmObjective):
        raise ArgumentError("wide is True; it is for tables, an objective has its rows")
    if family == "gaussian":
        source, is_wide = wide_or_not(source, target, groups, wide, intercept)
        if is_wide:
            return wide_search(
                source, target, groups, costs, ridge=ridge, always=always,
                null_policy=null_policy, weight=weight,
            )  # fmt: skip
    return open_search(
        source, target, groups, costs, family=family, ridge=ridge, always=always,
        null_policy=null_policy, intercept=intercept, weight=weight,
    )  # fmt: skip
