"""Baselines and building blocks of the papers, and measures of gain curves."""

import math
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from dbselect.errors import ArgumentError, DataError
from dbselect.options.kinds import ALPHA, COUNT, NOT_NEGATIVE, POSITIVE, SHARE, one_of, whole
from dbselect.problem.calls import (
    group_lasso,
    lasso,
    random_k,
    sparse_group_lasso,
    top_k,
)
from dbselect.problem.problem import Problem
from dbselect.results.heights import explained_at, plateau, stopping_cost, timeliness
from dbselect.results.selected import Selected
from dbselect.search.gram import gram_search
from dbselect.search.open import call_of
from dbselect.selection.descent import (
    UNIT_CURVATURE,
    VARIANTS,
    Descent,
    RowSquares,
    Settings,
    Variant,
    descend,
    lipschitz,
)
from dbselect.selection.projection import Grouping, check_limit, layout_of, sght_project, sght_table
from dbselect.spec.options import DescentOptions
from dbselect.validation.timeliness import oracle

__all__ = [
    "cost_groups", "explained_at", "foba_epsilon", "group_lasso", "lasso", "oracle",
    "plateau", "random_k", "sght_on_rows", "sght_path", "sght_project", "sght_table",
    "sparse_group_lasso", "stopping_cost", "timeliness", "top_k",
]  # fmt: skip

#: An eigenvalue below this share of the largest counts as 0.
LEAST_EIGENVALUE = 1e-10
#: Variants of the paper: those of `sght`, and one with a constant first step.
ROW_VARIANTS = {
    **VARIANTS, "fista-c": Variant(lambda *_: UNIT_CURVATURE, lipschitz, accelerated=True),
}  # fmt: skip


def sght_path(
    problem: Problem,
    grid_columns: Iterable[int],
    grid_groups: Iterable[int],
    **options: Unpack[DescentOptions],
) -> dict[tuple[int, int], Selected[Any]]:
    """Return the model of `sght` for every pair of limits.

    Parameters
    ----------
    problem : its source is read once
    grid_columns, grid_groups : values of `max_columns` and `max_groups`
    options : as of `sght`

    Returns
    -------
    (max_columns, max_groups) -> Selected

    Raises
    ------
    ColumnError, GroupError, ArgumentError, DataError : as `sght`

    References
    ----------
    Xiang, Yang, Ye (2014), section 2, remark 1.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b, c = [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]
    >>> y = [3 * i + 2 * j + k for i, j, k in zip(a, b, c)]
    >>> table = pl.DataFrame({"a": a, "b": b, "c": c, "y": y})
    >>> problem = ds.Problem(table, "y", {"u": ["a", "c"], "v": ["b"]})
    >>> path = ds.reference.sght_path(problem, grid_columns=[2], grid_groups=[1, 2])
    >>> {limits: model.columns for limits, model in path.items()}
    {(2, 1): ['a', 'c'], (2, 2): ['a', 'b']}
    """
    return {
        (columns, groups): problem.sght(max_columns=columns, max_groups=groups, **options)
        for columns, groups in product(grid_columns, grid_groups)
    }


def sght_on_rows(
    rows: npt.ArrayLike,
    target: npt.ArrayLike,
    groups: Grouping,
    max_columns: int,
    max_groups: int,
    *,
    variant: str = "ista-l",
    tol: float = 1e-8,
    max_iter: int = 500,
) -> Descent:
    """Run the paper's descent from 0 on raw rows.

    Unlike `sght`, it uses no Gram, no start from ridge solutions, no jumps to least squares, no
    refit and no exchanges; and it returns the last point, not the best.

    Parameters
    ----------
    rows, target : shapes (n, D) and (n,); nothing is centred or scaled
    groups, max_columns, max_groups : as of `sght_project`
    variant : as of `sght`, or ``"fista-c"`` (accelerated from a constant step)
    tol, max_iter : as of `sght`

    Returns
    -------
    Descent: ``x`` of shape (D,), ``history`` of half the residual sum of squares, ``converged``
    and ``projections``

    Raises
    ------
    ArgumentError : a limit, variant, tol or max_iter is out of range
    GroupError : as of `sght_project`

    References
    ----------
    Xiang, Yang, Ye (2014), Algorithms 1 and 2, Table 1.

    Examples
    --------
    >>> import dbselect as ds
    >>> ds.reference.sght_on_rows([[2, 0], [0, 1]], [4, 1], [0, 1], 1, 1).x.round(6).tolist()
    [2.0, 0.0]
    """
    one_of(ROW_VARIANTS).check("variant", variant)
    NOT_NEGATIVE.check("tol", tol)
    COUNT.check("max_iter", max_iter)
    X, y = np.asarray(rows, np.float64), np.asarray(target, np.float64)
    layout = layout_of(groups, X.shape[1])
    limits = (
        check_limit("max_columns", max_columns, int(layout.starts[-1])),
        check_limit("max_groups", max_groups, len(layout.starts) - 1),
    )
    settings = Settings(ROW_VARIANTS[variant], tol, max_iter, literal=True)
    return descend(RowSquares(X, y), layout, np.zeros(X.shape[1]), limits, settings)


def foba_epsilon(
    problem: Problem, *, noise: float, failure: float = 0.05, eigenvalue: float | None = None
) -> float:
    """Return the least epsilon at which FoBa's theorem holds.

    That is ``64 noise^2 ln(2 d / eta) / (rho^2 n)``, as a share of the target's variance, as
    `foba` takes it. A smaller one may be better on real data, as the theorem is conservative.

    Parameters
    ----------
    problem : of least squares and one response
    noise : standard deviation of the errors, in the target's unit, > 0
    failure : probability with which the theorem may fail
    eigenvalue : least eigenvalue of the correlations of as many columns as may be selected;
        default: that of all columns

    Returns
    -------
    epsilon; above 1 the theorem holds for no group

    Raises
    ------
    ColumnError, GroupError : as `foba`
    ArgumentError : noise, failure or eigenvalue out of range; the problem has a family
    DataError : without `eigenvalue`, the columns depend linearly on each other, as they do
        where there are fewer rows than columns

    Notes
    -----
    The theorem also requires that true coefficients, on columns of unit variance, are not small:
    squares of at least 64 epsilon / (25 rho^2), in the square of the target's unit.

    References
    ----------
    Zhang (2008), Theorem 1.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b = [1, -1, 1, -1] * 500, [1, 1, -1, -1] * 500
    >>> table = pl.DataFrame({"a": a, "b": b, "y": [3 * i + 4 * j for i, j in zip(a, b)]})
    >>> epsilon = ds.reference.foba_epsilon(ds.Problem(table, "y"), noise=0.5)
    >>> round(epsilon, 6)  # 64 * 0.25 * ln(240) / 2000, of a variance of 25
    0.001754
    >>> ds.foba(table, "y", epsilon=epsilon).steps["group"].to_list()
    [None, 'b', 'a']
    """
    POSITIVE.check("noise", noise)
    SHARE.check("failure", failure)
    if eigenvalue is not None:
        ALPHA.check("eigenvalue", eigenvalue)
    if not problem.is_linear or len(problem.targets) > 1:
        raise ArgumentError("the bound of foba_epsilon is that of least squares on one response")
    search = gram_search(problem, call_of(problem, "foba", {}))
    linear = search.linear
    rho = float(np.linalg.eigvalsh(linear.G)[0]) if eigenvalue is None else float(eigenvalue)
    if rho < LEAST_EIGENVALUE * len(linear.c):
        raise DataError(
            f"the {len(linear.c)} columns depend linearly on each other; give eigenvalue, the "
            "least one of the correlations of as many columns as may be selected"
        )
    bound = 64.0 * float(noise) ** 2 * math.log(6.0 * len(linear.c) / failure)
    return bound / (rho**2 * search.gram.rows * float(linear.target_spread) ** 2)


def cost_groups(
    costs: Mapping[str, float], size: int, *, seed: int = 0
) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Return groups of columns with equal cost, and the costs of groups.

    Parameters
    ----------
    costs : column -> cost > 0, in any one unit
    size : columns per group; the last group of a cost has the rest
    seed : of the random order of columns

    Returns
    -------
    groups, name -> columns, and costs, name -> the sum over its columns, as arguments of
    `anytime_sequence`. Group ``"5, 1"`` is the first of cost 5

    Raises
    ------
    ArgumentError : costs is no mapping to numbers > 0; size or seed is no whole number

    References
    ----------
    Hu, Grubb, Bagnell, Hebert (2016), section 5.1: the groups of Yahoo! Learning to Rank.

    Examples
    --------
    >>> import dbselect as ds
    >>> groups, costs = ds.reference.cost_groups({"f1": 5.0, "f2": 1.0, "f3": 5.0, "f4": 5.0}, 2)
    >>> groups
    {'1, 1': ['f2'], '5, 1': ['f4', 'f1'], '5, 2': ['f3']}
    >>> costs
    {'1, 1': 1.0, '5, 1': 10.0, '5, 2': 5.0}
    """
    if not isinstance(costs, Mapping) or not costs:
        raise ArgumentError(f"costs is {costs!r}; it must map columns to numbers > 0")
    for name, cost in costs.items():
        if not POSITIVE.allows(cost):
            raise ArgumentError(f"costs has {cost!r} for '{name}'; it must be a number > 0")
    COUNT.check("size", size)
    whole(0).check("seed", seed)
    rng = np.random.default_rng(seed)
    groups: dict[str, list[str]] = {}
    sums: dict[str, float] = {}
    for cost in sorted({float(cost) for cost in costs.values()}):
        names = [name for name, price in costs.items() if float(price) == cost]
        shuffled = [names[j] for j in rng.permutation(len(names))]
        for start in range(0, len(shuffled), size):
            group = f"{cost:g}, {start // size + 1}"
            groups[group] = shuffled[start : start + size]
            sums[group] = cost * len(groups[group])
    return groups, sums
