"""What the public calls take, by name: sources, groups, costs and the names of options."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from dbselect.record.groups import Costs
from dbselect.sources.request import NullPolicy
from dbselect.sources.types import ArrowScalar, Dataset, Source, Stream, TableSource

__all__ = [
    "ArrowScalar", "BackwardName", "Costs", "Dataset", "FamilyName", "ForwardName",
    "GlmFamilyName", "GlmRuleName", "GroupColumns", "GroupNames", "NullPolicy", "RuleName",
    "Source", "Stream", "TableSource", "Targets",
]  # fmt: skip


#: Several responses, which share the groups and their costs.
Targets: TypeAlias = list[str] | tuple[str, ...]
#: Name of a group -> its columns or globs.
GroupColumns: TypeAlias = Mapping[str, Iterable[str]]
#: Names of groups.
GroupNames: TypeAlias = Sequence[str]

#: The rules of `selection.criteria.RULES`.
RuleName = Literal[
    "fr", "score", "omp", "omp-information", "omp-unwhitened", "omp-single", "doubling"
]
#: Those that a generalised linear model has.
GlmRuleName = Literal["fr", "score", "omp", "omp-information", "omp-unwhitened", "omp-single"]
#: Those of a forward step of FoBa.
ForwardName = Literal["fr", "score", "omp", "omp-information", "omp-unwhitened", "omp-single"]
#: What makes a selected group the least useful one: `selection.removal.USEFULNESS`.
BackwardName = Literal["loss", "coefficient"]
#: Families of linear and generalised linear models.
FamilyName = Literal["gaussian", "binomial", "poisson", "multinomial"]
#: Those that need the rows again and again.
GlmFamilyName = Literal["binomial", "poisson", "multinomial"]
