"""What a search that takes a table, a Gram, a record or an objective is given to work on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa

from dbselect.errors import ArgumentError
from dbselect.glm.families import FAMILY_NAMES
from dbselect.methods.glm_objective import GlmObjective, data_of_objective, glm_objective
from dbselect.methods.setup import LinearSetup, prepare, refuse_several
from dbselect.methods.types import Costs, FamilyName, GroupColumns, NullPolicy
from dbselect.record.checks import check_choice
from dbselect.record.gram import Gram
from dbselect.record.groups import costs_of


def check_family(family: Any) -> None:
    """Refuse what is no family."""
    check_choice("family", family, FAMILY_NAMES)


def open_search(
    source: Any,
    target: str | Sequence[str] | None,
    groups: GroupColumns | None,
    costs: Costs | None,
    *,
    family: FamilyName,
    null_policy: NullPolicy = "skip",
    several: bool = False,
) -> LinearSetup | GlmObjective:
    """Return the linear problem, or the deviance of a family that a Gram cannot tell.

    Parameters
    ----------
    source : Gram, record or table; without a target a `glm_objective`
    several : whether `target` may be a list of columns, of family ``"gaussian"``

    Returns
    -------
    LinearSetup, or GlmObjective without selected groups, which the caller may change

    Raises
    ------
    ColumnError, GroupError, ArgumentError, DataError, SourceError : as `anytime_sequence` and
        `glm_objective`
    """
    if target is None:
        own = None if family == "gaussian" else family
        data_of_objective(source, groups=groups, family=own, null_policy=null_policy)
        return _priced(source, costs)
    if family == "gaussian":
        return prepare(source, target, groups, costs, null_policy=null_policy, several=several)
    refuse_several(target)
    if isinstance(source, Gram | Mapping | pa.Scalar):
        raise ArgumentError(f"family is {family!r}; a Gram has no rows for it, give the table")
    if null_policy != "skip":
        raise ArgumentError(f"null_policy is {null_policy!r}; with family {family!r} it is 'skip'")
    objective = glm_objective(source=source, target=cast(str, target), groups=groups, family=family)
    return _priced(objective, costs)


def _priced(objective: GlmObjective, costs: Costs | None) -> GlmObjective:
    """Return an objective that changes alone, whose groups cost what is given."""
    own = objective.copy()
    if costs is not None:
        groups = own.about.groups
        groups = replace(groups, costs=costs_of(groups.names, costs))
        own.about = replace(own.about, groups=groups)
    return own
