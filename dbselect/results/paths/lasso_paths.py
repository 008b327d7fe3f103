"""The two kinds of penalised paths: of columns, and of groups."""

from functools import cached_property
from typing import ClassVar

import numpy as np

from dbselect.record.gram import Matrix, Vector
from dbselect.results.paths.penalty_path import PenaltyPath
from dbselect.selection.ties import Mask


class GroupLassoPath(PenaltyPath):
    """The group lasso, or the sparse group lasso, at L falling penalties.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> gram = ds.gram(table)
    >>> path = ds.group_lasso_path(gram, "y", n_lambda=3, lambda_min_ratio=0.1)
    >>> path
    GroupLassoPath(y ~ a, b; 3 penalties from 0.976 to 0.0976; spent 2; 4 rows)
    >>> path.points["groups"].to_list()
    [[], ['a'], ['a', 'b']]
    >>> path.steps["action", "group"].rows()
    [('add', 'a'), ('add', 'b')]
    """

    unit: ClassVar[str] = "group"
    size: ClassVar[tuple[str, str]] = ("length", "length of the group's coefficients")

    @property
    def _units(self) -> list[str]:
        return self.groups.names

    @property
    def _sizes(self) -> Matrix:
        return self.lengths

    @property
    def _group_held(self) -> Mask:
        return np.asarray(self.lengths > 0)

    @property
    def _costs(self) -> Vector:
        return self.groups.costs

    @property
    def _title(self) -> str:
        return "the path of the group lasso"


class LassoPath(PenaltyPath):
    """The lasso, or the elastic net, at L falling penalties.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> path = ds.lasso_path(table, "y", n_lambda=3, lambda_min_ratio=0.1)
    >>> path
    LassoPath(y ~ a, b; 3 penalties from 0.976 to 0.0976; spent 2; 4 rows)
    >>> path.points.select("columns", "spent").rows()
    [([], 0.0), (['a'], 1.0), (['a', 'b'], 2.0)]
    >>> path.best("bic").columns
    ['a', 'b']
    """

    unit: ClassVar[str] = "column"
    size: ClassVar[tuple[str, str]] = ("coefficient", "coefficient, on unit-variance columns")

    @property
    def _units(self) -> list[str]:
        return self.columns

    @property
    def _sizes(self) -> Matrix:
        return self.scaled_coef

    @cached_property
    def _group_held(self) -> Mask:
        starts = [at[0] for at in self.groups.positions]
        return np.asarray(np.logical_or.reduceat(self.lengths > 0, starts, axis=1))

    @property
    def _costs(self) -> Vector:
        sizes = [len(members) for members in self.groups.columns.values()]
        return np.repeat(self.groups.costs, sizes)

    @property
    def _title(self) -> str:
        return "the path of the lasso"
