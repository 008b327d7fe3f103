"""What the public calls take, by name: sources, groups, costs and the names of options."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from dbselect.methods.names import (
    BackwardName,
    FamilyName,
    ForwardName,
    GlmFamilyName,
    GlmRuleName,
    RuleName,
)
from dbselect.record.groups import Costs
from dbselect.sources.request import NullPolicy
from dbselect.sources.types import ArrowScalar, Dataset, Source, Stream, TableSource

__all__ = [
    "ArrowScalar", "BackwardName", "Costs", "Dataset", "FamilyName", "ForwardName",
    "GlmFamilyName", "GlmRuleName", "GroupColumns", "GroupNames", "Level", "NullPolicy",
    "RuleName", "Source", "Stream", "TableSource", "Targets",
]  # fmt: skip


#: Several responses, which share the groups and their costs.
Targets: TypeAlias = list[str] | tuple[str, ...]
#: Name of a group -> its columns or globs.
GroupColumns: TypeAlias = Mapping[str, Iterable[str]]
#: Names of groups.
GroupNames: TypeAlias = Sequence[str]
#: A value of a column of text, of booleans or of numbers.
Level: TypeAlias = str | bool | float
