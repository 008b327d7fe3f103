"""The sparse group lasso at one penalty: groups at their costs, and columns within them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dbselect.methods.group_lasso import grouped
from dbselect.methods.penalties import PointOptions, selected
from dbselect.methods.setup import prepare
from dbselect.methods.types import Costs, GroupColumns, Source
from dbselect.results.model import Model
from dbselect.results.selected import Selected


@dataclass(frozen=True, kw_only=True)
class SparseGroupLassoOptions(PointOptions):
    """The options of `sparse_group_lasso`."""

    method: ClassVar[str] = "sparse_group_lasso"

    l1_ratio: float = 0.95


def sparse_group_lasso(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    penalty: float | None = SparseGroupLassoOptions.penalty,
    criterion: str = SparseGroupLassoOptions.criterion,
    n_penalties: int = SparseGroupLassoOptions.n_penalties,
    smallest: float = SparseGroupLassoOptions.smallest,
    l1_ratio: float = SparseGroupLassoOptions.l1_ratio,
    penalty_factors: Mapping[str, float] | None = SparseGroupLassoOptions.penalty_factors,
    adaptive: float | None = SparseGroupLassoOptions.adaptive,
    scale: bool = SparseGroupLassoOptions.scale,
    intercept: bool = SparseGroupLassoOptions.intercept,
) -> Selected[Model]:
    """Return the model of the sparse group lasso at one penalty.

    That of `group_lasso_path` at `penalty`, or at the penalty of its grid that a criterion
    prefers. It leaves groups out, and columns of those that it takes.

    Parameters
    ----------
    source, target, groups, costs : as of `group_lasso_path`
    penalty : > 0, on columns and a target of unit variance; None asks the criterion
    criterion : ``"aic"``, ``"bic"``, ``"ebic"``, ``"gic"``, ``"cp"`` or ``"adjusted_r2"``, as in
        `GroupLassoPath.criteria`
    n_penalties, smallest : as of `group_lasso_path`, where a criterion chooses
    l1_ratio : 0 for the group lasso to 1 for the lasso
    penalty_factors, adaptive, scale, intercept : as of `group_lasso_path`

    Returns
    -------
    Selected, with a Model on the columns that are not 0, as the penalty shrank them; its
    `shrinkage` has the penalty, df, gap and violation

    Raises
    ------
    ColumnError, GroupError, ArgumentError : as `group_lasso_path`
    DataError : as `group_lasso_path`; too few rows for the criterion

    Notes
    -----
    The cost of `group_lasso_path`; with a `penalty` of some ten factorisations. It goes into
    `cross_validate` by its name, with penalties as the grid.

    References
    ----------
    Simon, Friedman, Hastie, Tibshirani (2013), Journal of Computational and Graphical
    Statistics 22, whose 0.95 is the default of l1_ratio; Vaiter, Deledalle, Fadili, Peyre,
    Dossal (2017) for degrees of freedom.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b, c = [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]
    >>> y = [3 * i + 2 * j + k for i, j, k in zip(a, b, c)]
    >>> table = pl.DataFrame({"a": a, "b": b, "c": c, "y": y})
    >>> groups = {"u": ["a", "c"], "v": ["b"]}
    >>> found = ds.sparse_group_lasso(table, "y", groups, penalty=0.4, l1_ratio=0.8)
    >>> found.groups, found.columns
    (['u', 'v'], ['a', 'b'])
    """
    options = SparseGroupLassoOptions(
        penalty=penalty, criterion=criterion, n_penalties=n_penalties, smallest=smallest,
        l1_ratio=l1_ratio, penalty_factors=penalty_factors, adaptive=adaptive, scale=scale,
        intercept=intercept,
    )  # fmt: skip
    search = prepare(
        source, target, groups, costs, scale=options.scale, intercept=options.intercept
    )
    return selected(grouped(search, options), options)
