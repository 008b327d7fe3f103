"""Diversity for choices of k candidates: clusters of correlated columns."""

from typing import Unpack

from dbselect.objectives.diversity import Coverage, coverage_of
from dbselect.options.option import shows
from dbselect.search.gram import gram_search
from dbselect.search.open import asked
from dbselect.spec.options import CoverageOptions
from dbselect.spec.spec import Spec


@shows(CoverageOptions)
def coverage(problem: Spec, **options: Unpack[CoverageOptions]) -> Coverage:
    """Reward groups that cover many clusters of correlated columns.

    d(S) = weight times the share of clusters with a column of S. Clusters come from
    average linkage of the absolute correlations, from the Gram alone.

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
    >>> ds.objectives.coverage(table, "y", reward=1.0).gains().tolist()  # a and b are one cluster
    [0.5, 0.5, 0.5]
    """
    known, call = asked(problem, "coverage", CoverageOptions, options)
    search = gram_search(problem, call)
    return coverage_of(
        search.linear.G, search.groups.positions, known["similarity"], known["reward"]
    )
