"""Diversity for choices of k candidates: clusters of correlated columns."""

import math
import numbers
from dataclasses import dataclass
from typing import ClassVar

from dbselect.errors import ArgumentError
from dbselect.methods.options import Options
from dbselect.methods.setup import prepare
from dbselect.methods.types import GroupColumns, NullPolicy
from dbselect.objectives.diversity import Coverage, coverage_of
from dbselect.record.policies import check_policies
from dbselect.sources.types import Source


@dataclass(frozen=True, kw_only=True)
class CoverageOptions(Options):
    """Options of `coverage`."""

    method: ClassVar[str] = "coverage"

    similarity: float = 0.7
    weight: float = 0.1
    null_policy: NullPolicy = "skip"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_policies(self.null_policy)
        similarity, weight = self.similarity, self.weight
        if not (isinstance(similarity, numbers.Real) and 0 < float(similarity) < 1):
            raise ArgumentError(f"similarity is {similarity!r}; it must lie between 0 and 1")
        if not (isinstance(weight, numbers.Real) and 0 <= float(weight) < math.inf):
            raise ArgumentError(f"weight is {weight!r}; it must be a number >= 0")


def coverage(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    *,
    similarity: float = CoverageOptions.similarity,
    weight: float = CoverageOptions.weight,
    null_policy: NullPolicy = CoverageOptions.null_policy,
) -> Coverage:
    """Reward groups that cover many clusters of correlated columns.

    d(S) = weight times the share of clusters with a column of S. Clusters come from
    average linkage of the absolute correlations, from the Gram alone.

    Parameters
    ----------
    source : Gram, record or table, as `anytime_sequence` takes it
    target, groups : as in `dash`
    similarity : in (0, 1), mean absolute correlation within a cluster
    weight : >= 0, in shares of the target's variance: d of all groups
    null_policy : as in `dash`

    Returns
    -------
    Coverage, for ``diversity`` of `dash` and its baselines

    Raises
    ------
    ArgumentError : similarity or weight out of range

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3], "b": [1, 2, 4], "c": [0, 5, 0], "y": [1, 2, 3]})
    >>> ds.coverage(table, "y", weight=1.0).gains().tolist()  # a and b are one cluster
    [0.5, 0.5, 0.5]
    """
    CoverageOptions(similarity=similarity, weight=weight, null_policy=null_policy)
    search = prepare(source, target, groups, None, null_policy=null_policy)
    return coverage_of(search.problem.G, search.groups.positions, similarity, weight)
