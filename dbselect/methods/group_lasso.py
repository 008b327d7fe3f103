"""The cost-weighted group lasso: its path, and the sequence in which groups enter it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.methods.penalties import PathOptions, adapted, factors_of, found_path
from dbselect.methods.setup import LinearSetup, check_first, finish, prepare
from dbselect.methods.types import Costs, GroupColumns, GroupNames, Source
from dbselect.record.checks import check_budget, check_names, check_ridge
from dbselect.record.steps import Choice, Step, Stop, fits
from dbselect.results.lasso_paths import GroupLassoPath
from dbselect.results.sequence import Sequence
from dbselect.selection.group_lasso import Path
from dbselect.selection.group_norms import Penalty


@dataclass(frozen=True, kw_only=True)
class GroupLassoPathOptions(PathOptions):
    """The options of `group_lasso_path`."""

    method: ClassVar[str] = "group_lasso_path"

    n_penalties: int = 50
    l1_ratio: float = 0.0


@dataclass(frozen=True, kw_only=True)
class GroupLassoOptions(GroupLassoPathOptions):
    """The options of `group_lasso`: those of its path, and of the fits along it."""

    method: ClassVar[str] = "group_lasso"

    ridge: float = 0.0
    budget: float | None = None
    always: GroupNames = ()

    def __post_init__(self) -> None:
        """Refuse options that no Gram could make right."""
        super().__post_init__()
        check_ridge(self.ridge)
        check_budget(self.budget)
        check_names("always", self.always)


def group_lasso_path(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    penalties: Iterable[float] | None = GroupLassoPathOptions.penalties,
    n_penalties: int = GroupLassoPathOptions.n_penalties,
    smallest: float = GroupLassoPathOptions.smallest,
    l1_ratio: float = GroupLassoPathOptions.l1_ratio,
    penalty_factors: Mapping[str, float] | None = GroupLassoPathOptions.penalty_factors,
    adaptive: float | None = GroupLassoPathOptions.adaptive,
    scale: bool = GroupLassoPathOptions.scale,
    intercept: bool = GroupLassoPathOptions.intercept,
) -> GroupLassoPath:
    """Fit the cost-weighted group lasso, or the sparse group lasso, over falling penalties.

    Minimise ``1/2 - c'w + 1/2 w'Gw + penalty ((1 - l1_ratio) sum_g f_g cost(g) ||w_g|| +
    l1_ratio sum_j f_j |w_j|)`` on columns and a target of unit variance, which is
    ``RSS / 2n`` and a penalty, from the least penalty at which every group is 0 downwards.

    Parameters
    ----------
    source : Gram, record or table, as `anytime_sequence` takes it
    target : column to predict
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0, in any one unit; default: 1 each. For the usual group lasso give
        the root of the number of columns
    penalties : falling, > 0; default: `n_penalties` of a geometric grid
    n_penalties : L >= 2, of the grid
    smallest : in (0, 1), the last penalty of the grid as a share of the first
    l1_ratio : 0 for the group lasso to 1 for the lasso; between, the sparse group lasso leaves
        columns out of the groups that it takes
    penalty_factors : name of a group -> f >= 0 of the group and its columns; of a column or a
        glob -> f >= 0 of ``|w_j|``, which has none without l1_ratio; default 1 each
    adaptive : > 0; norms are divided by this power of those of the least-squares coefficients,
        of groups and of columns. Those that depend on others never enter
    scale : False takes the norms of coefficients on the columns as they are
    intercept : False for models through the origin, as in `anytime_sequence`

    Returns
    -------
    GroupLassoPath

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : an option out of range; `penalty_factors` that are all 0, or of a column
        where only groups are penalised

    Notes
    -----
    The optimality conditions hold to 1e-8 at every penalty, on correlations. Some six
    factorisations a penalty, O(|S|^3 / 3) each for |S| columns that are not 0; 24 D^2
    bytes. Where columns depend linearly on each other, the coefficients may not be the
    only ones at the minimum; r2 and gap are. `lambdas` are the penalties in the target's
    unit, as in `lasso_path`.

    References
    ----------
    Yuan, Lin (2006), JRSS B 68; Simon, Friedman, Hastie, Tibshirani (2013), Journal of
    Computational and Graphical Statistics 22; Wang, Leng (2008), Computational Statistics and
    Data Analysis 52, for adaptive groups; the baseline Sparse of Hu, Grubb, Bagnell, Hebert
    (2016), section 5.2, without their factor 2 in the penalty.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> gram = ds.gram(table)
    >>> path = ds.group_lasso_path(gram, "y", n_penalties=3, smallest=0.1)
    >>> path.penalties.round(3).tolist()
    [0.976, 0.309, 0.098]
    >>> path.scaled_coef[:, 0].round(3).tolist()
    [0.0, 0.667, 0.878]
    """
    options = GroupLassoPathOptions(
        penalties=penalties, n_penalties=n_penalties, smallest=smallest, l1_ratio=l1_ratio,
        penalty_factors=penalty_factors, adaptive=adaptive, scale=scale, intercept=intercept,
    )  # fmt: skip
    search = prepare(
        source, target, groups, costs, scale=options.scale, intercept=options.intercept
    )
    found = _path(search, options)
    return GroupLassoPath(
        search.target, search.groups, search.gram, search.problem, found, search.intercept
    )


def group_lasso(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    penalties: Iterable[float] | None = GroupLassoOptions.penalties,
    n_penalties: int = GroupLassoOptions.n_penalties,
    smallest: float = GroupLassoOptions.smallest,
    l1_ratio: float = GroupLassoOptions.l1_ratio,
    penalty_factors: Mapping[str, float] | None = GroupLassoOptions.penalty_factors,
    adaptive: float | None = GroupLassoOptions.adaptive,
    ridge: float = GroupLassoOptions.ridge,
    scale: bool = GroupLassoOptions.scale,
    intercept: bool = GroupLassoOptions.intercept,
    budget: float | None = GroupLassoOptions.budget,
    always: GroupNames = GroupLassoOptions.always,
) -> Sequence:
    """Order groups as they enter the path of the cost-weighted group lasso.

    Each prefix is fitted anew without the penalty, as in `anytime_sequence`. Groups that
    enter at the same penalty are ordered by ``||b_g|| / cost(g)`` at the penalty before,
    the largest first, b the gradient; ties go to the group named first.

    Parameters
    ----------
    source : Gram, record or table, as `anytime_sequence` takes it
    target : column to predict
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0, in any one unit; default: 1 each
    penalties : as in `group_lasso_path`
    n_penalties : >= 2; the more, the fewer groups enter at the same penalty
    smallest, l1_ratio, penalty_factors, adaptive : as in `group_lasso_path`
    ridge : >= 0, lambda of the fits on unit-variance columns; the path has none
    scale : False takes norms and `ridge` on the columns as they are
    intercept : False for models through the origin, as in `anytime_sequence`
    budget : limit on the summed cost: only groups that still fit are taken, in the order
        of the path
    always : groups taken first, in the order given

    Returns
    -------
    Sequence with the groups that enter; ``score`` is the penalty at which each did, 0 of one
    of `always` that never does

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : an option out of range; else as `group_lasso_path`

    Warns
    -----
    ConditionWarning : as `anytime_sequence`

    Notes
    -----
    The cost of `group_lasso_path`, and O(D^3) for the fits. There is no `family`: the path is
    that of a quadratic objective, and every penalty of another would be passes over the rows.

    References
    ----------
    The baseline Sparse of Hu, Grubb, Bagnell, Hebert (2016), section 5.2.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> gram = ds.gram(table)
    >>> ds.group_lasso(gram, "y")
    Sequence(y ~ a, b; r2 1.0000, spent 2; 4 rows; every group is in the sequence)
    >>> ds.group_lasso(gram, "y", smallest=0.5)
    Sequence(y ~ a; r2 0.9524, spent 1; 4 rows; no other group enters the path)
    """
    options = GroupLassoOptions(
        penalties=penalties, n_penalties=n_penalties, smallest=smallest, l1_ratio=l1_ratio,
        penalty_factors=penalty_factors, adaptive=adaptive, ridge=ridge, scale=scale,
        intercept=intercept, budget=budget, always=always,
    )  # fmt: skip
    search = prepare(
        source, target, groups, costs, ridge=ridge, scale=scale, always=always,
        intercept=intercept,
    )  # fmt: skip
    check_first(search.groups, search.first, options.budget, None)
    found = _path(search, options)
    entered = dict(zip(found.entered, found.penalties[found.entered_at].tolist(), strict=True))
    state, all_costs = search.state, search.groups.costs
    steps: list[Step] = []
    stop = Stop.PATH
    for group in [*search.first, *(one for one in entered if one not in search.first)]:
        if not fits(all_costs[[*state.held, group]].sum(), options.budget):
            stop = Stop.BUDGET
            continue
        choice = Choice.FORCED if group in search.first else Choice.FREE
        penalty = entered.get(group, 0.0)
        steps.append(Step("add", group, penalty, state.add(group), state.explained, choice))
    if len(steps) == len(all_costs):
        stop = Stop.EXHAUSTED
    return finish(search, "group-lasso", steps, state.coefficients(), stop)


def _path(search: LinearSetup, options: PathOptions) -> Path:
    groups, members = search.groups, search.groups.positions
    factors, ratio = factors_of(groups, options.penalty_factors), float(options.l1_ratio)
    if factors.own and not ratio:
        raise ArgumentError(
            f"penalty_factors names column '{factors.own[0]}'; without l1_ratio only groups are "
            "penalised"
        )
    columns = [at[[j]] for at in members for j in range(len(at))]
    weights = Penalty(
        norm=(1.0 - ratio) * factors.groups * groups.costs
        * adapted(search, members, options.adaptive),
        absolute=ratio * factors.columns * adapted(search, columns, options.adaptive),
        square=np.zeros(len(members)),
    )  # fmt: skip
    return found_path(search, members, weights, options)
