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
) -> LinearSetup | ObjectiveSetup:
    """Return the linear problem, or the deviance of a family that a Gram cannot tell.

    Parameters
    ----------
    source : Gram, record or table; or a `glm_objective`, which has what tables need
    always : groups to take first
    several : whether `target` may be a list of columns, of family ``"gaussian"``
    intercept : False for linear models through the origin

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
        return objective_setup(source, costs, always, **given, ridge=ridge, null_policy=null_policy)
    if family == "gaussian":
        return prepare(
            source, cast(str, target), groups, costs, ridge=ridge, always=always,
            null_policy=null_policy, several=several, intercept=intercept,
        )  # fmt: skip
    refuse_several(target)
    check_has_intercept(intercept, family)
    if null_policy != "skip":
        raise ArgumentError(f"null_policy is {null_policy!r}; with family {family!r} it is 'skip'")
    made = glm_objective(
        cast(TableSource, source), cast(str, target), groups, costs, family=family, ridge=ridge
    )
    return objective_setup(made, None, always)


def check_has_intercept(intercept: bool, family: str) -> None:
    """Refuse models through the origin of a family in passes."""
    check_flag("intercept", intercept)
    if not intercept:
        raise ArgumentError(f"intercept is {intercept!r}; models of family {family!r} have one")
