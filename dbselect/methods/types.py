"""What the public calls take, by name: sources, groups, costs and the names of options."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Union

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.record.gram import Gram
from dbselect.sources.request import NullPolicy

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

__all__ = [
    "ArrowScalar", "BackwardName", "Costs", "Dataset", "FamilyName", "ForwardName",
    "GlmFamilyName", "GlmRuleName", "GroupColumns", "GroupNames", "NullPolicy", "RuleName",
    "Source", "Stream", "TableSource", "Targets",
]  # fmt: skip


class Stream(Protocol):
    """A table of pyarrow, pandas, ibis or another library that speaks Arrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule of the rows."""


class Dataset(Protocol):
    """A dataset of pyarrow."""

    def scanner(self, *args: Any, **options: Any) -> Any:
        """Return a scanner of the rows."""


class ArrowScalar(Protocol):
    """One value in Arrow, here a Gram record."""

    def as_py(self) -> Any:
        """Return the value in Python."""


#: A table: rows that an engine reads.
TableSource: TypeAlias = Union[
    str, Path, pl.DataFrame, pl.LazyFrame, Stream, Dataset, "DuckDBPyRelation",
    npt.NDArray[np.generic],
]  # fmt: skip
#: A table, or what was made of one: a Gram, or its record as a mapping or an Arrow scalar.
Source: TypeAlias = TableSource | Gram | Mapping[str, Any] | ArrowScalar

#: Several responses, which share the groups and their costs.
Targets: TypeAlias = list[str] | tuple[str, ...]
#: Name of a group -> its columns or globs.
GroupColumns: TypeAlias = Mapping[str, Iterable[str]]
#: Name of a group -> its cost > 0.
Costs: TypeAlias = Mapping[str, float]
#: Names of groups.
GroupNames: TypeAlias = Sequence[str]

#: The rules of `selection.criteria.RULES`.
RuleName = Literal["fr", "score", "omp", "omp-unwhitened", "omp-single", "doubling"]
#: Those that a generalised linear model has.
GlmRuleName = Literal["fr", "score", "omp", "omp-unwhitened", "omp-single"]
#: Those of a forward step of FoBa.
ForwardName = Literal["fr", "score", "omp", "omp-unwhitened", "omp-single"]
#: What makes a selected group the least useful one: `selection.removal.USEFULNESS`.
BackwardName = Literal["loss", "coefficient"]
#: Families of linear and generalised linear models.
FamilyName = Literal["gaussian", "binomial", "poisson", "multinomial"]
#: Those that need the rows again and again.
GlmFamilyName = Literal["binomial", "poisson", "multinomial"]
