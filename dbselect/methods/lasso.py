"""The lasso and the elastic net on a Gram: paths over the penalty."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.methods.penalties import PathOptions, adapted, factors_of, found_path
from dbselect.methods.setup import LinearSetup, prepare
from dbselect.methods.types import Costs, GroupColumns, Source
from dbselect.results.lasso_paths import LassoPath
from dbselect.selection.group_norms import Penalty


@dataclass(frozen=True, kw_only=True)
class LassoPathOptions(PathOptions):
    """The options of `lasso_path`."""

    method: ClassVar[str] = "lasso_path"

    def __post_init__(self) -> None:
        """Refuse options that no Gram could make right."""
        super().__post_init__()
        if not self.l1_ratio > 0:
            raise ArgumentError(
                f"l1_ratio is {self.l1_ratio!r}; it must be above 0, as a ridge alone leaves "
                "nothing out: fit(ridge=) has that"
            )


def lasso_path(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    penalties: Iterable[float] | None = LassoPathOptions.penalties,
    n_penalties: int = LassoPathOptions.n_penalties,
    smallest: float = LassoPathOptions.smallest,
    l1_ratio: float = LassoPathOptions.l1_ratio,
    penalty_factors: Mapping[str, float] | None = LassoPathOptions.penalty_factors,
    adaptive: float | None = LassoPathOptions.adaptive,
    scale: bool = LassoPathOptions.scale,
    intercept: bool = LassoPathOptions.intercept,
) -> LassoPath:
    """Fit the lasso, or the elastic net, over falling penalties.

    Minimise ``RSS / 2n + penalty sum_j f_j (l1_ratio |w_j| + (1 - l1_ratio) w_j^2 / 2)`` on
    columns and a target of unit variance, rows counted by their weights; the intercept is not
    penalised. f_j is the factor of a column, with `adaptive` over ``|b_j|^adaptive`` before
    ``|w_j|``.

    Parameters
    ----------
    source : Gram, record or table, as `anytime_sequence` takes it
    target : column to predict
    groups : name -> columns or globs; default: every top-level field but the target. They say
        which columns there are and what `spent` counts, not which columns enter together
    costs : name -> cost > 0; default 1 each. They are summed in `spent` and do not change
        the path
    penalties : falling, > 0; default: `n_penalties` of a geometric grid from the least
        penalty on at which every penalised column is 0
    n_penalties : L >= 2, of the grid
    smallest : in (0, 1), the last penalty of the grid as a share of the first
    l1_ratio : in (0, 1]; 1 for the lasso, less for the elastic net
    penalty_factors : name of a column, a glob or a group -> f >= 0 of its columns, 0 for
        columns that are not penalised; default 1 each
    adaptive : > 0, the power of the adaptive lasso; b are the least-squares coefficients of
        all columns. Columns that depend on others never enter
    scale : False takes coefficients, and so penalties, on the columns as they are
    intercept : False for models through the origin, as in `anytime_sequence`

    Returns
    -------
    LassoPath

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : an option out of range, or `penalty_factors` that are all 0

    Notes
    -----
    `LassoPath.lambdas`, the penalties times the target's standard deviation (over n, not
    n - 1), are glmnet's lambda at every l1_ratio (its alpha), and for the lasso scikit-learn's
    alpha on rows of unit-variance columns; scikit-learn's elastic net is the same where the
    target has unit variance, too. Factors are taken as given, where glmnet scales them to mean
    1. With ``scale=False`` they are those of ``standardize=False`` and of plain rows.

    The optimality conditions hold to 1e-8 at every penalty, on correlations; `violation` and
    `gap` say how far. Some six factorisations a penalty, O(|S|^3 / 3) each for |S| columns
    that are not 0, in 24 D^2 bytes: 0.1 s for 100 penalties of 50 columns, 0.4 s of 500.
    Where columns depend linearly on each other, the coefficients of the lasso may not be the
    only ones at the minimum; r2 and gap are. For weights of a ridge in place of least squares
    take `penalty_factors`, which is what to do where columns are nearly dependent.

    References
    ----------
    Tibshirani (1996), JRSS B 58; Zou, Hastie (2005), JRSS B 67; Zou (2006), JASA 101;
    Friedman, Hastie, Tibshirani (2010), Journal of Statistical Software 33.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> path = ds.lasso_path(table, "y", penalties=[0.9, 0.5, 0.1])
    >>> path.coef.round(3).tolist()
    [[0.156, 0.0], [0.975, 0.0], [1.795, 0.271]]
    >>> path.model(1).predict([[3.0]]).round(3).tolist()
    [5.988]
    >>> ds.lasso_path(table, "y", penalties=[0.5], penalty_factors={"b": 0.0}).points["columns"][0]
    shape: (2,)
    Series: '' [str]
    [
        "a"
        "b"
    ]
    """
    options = LassoPathOptions(
        penalties=penalties, n_penalties=n_penalties, smallest=smallest, l1_ratio=l1_ratio,
        penalty_factors=penalty_factors, adaptive=adaptive, scale=scale, intercept=intercept,
    )  # fmt: skip
    search = prepare(
        source, target, groups, costs, scale=options.scale, intercept=options.intercept
    )
    return _path(search, options)


def _path(search: LinearSetup, options: PathOptions) -> LassoPath:
    factors = factors_of(search.groups, options.penalty_factors).columns
    members = [np.array([j]) for j in range(len(factors))]
    ratio = float(options.l1_ratio)
    weights = Penalty(
        norm=ratio * factors * adapted(search, members, options.adaptive),
        absolute=np.zeros(len(factors)),
        square=(1.0 - ratio) * factors,
    )
    found = found_path(search, members, weights, options)
    return LassoPath(
        search.target, search.groups, search.gram, search.problem, found, search.intercept
    )
