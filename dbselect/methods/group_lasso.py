"""The cost-weighted group lasso: its path, and the sequence in which groups enter it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError
from dbselect.methods.options import Options
from dbselect.methods.setup import LinearSetup, check_first, finish, prepare
from dbselect.methods.types import Costs, GroupColumns, GroupNames, Source
from dbselect.pages.glance import Glance, InNotebooks
from dbselect.pages.short import listed
from dbselect.pictures.growth import growth
from dbselect.record.checks import (
    check_budget,
    check_flag,
    check_names,
    check_ridge,
    check_scale,
    check_share,
    check_whole,
    is_whole,
)
from dbselect.record.gram import Matrix, Vector
from dbselect.record.groups import Groups
from dbselect.record.rows import rows_told
from dbselect.record.steps import Choice, Step, Stop, fits
from dbselect.results.sequence import Sequence
from dbselect.selection import group_lasso as lasso
from dbselect.sources.open import progress


@dataclass(frozen=True, kw_only=True)
class GroupLassoPathOptions(Options):
    """The options of `group_lasso_path`."""

    method: ClassVar[str] = "group_lasso_path"

    n_penalties: int = 50
    smallest: float = 1e-3
    scale: bool = True
    intercept: bool = True

    def __post_init__(self) -> None:
        """Refuse options that no Gram could make right."""
        super().__post_init__()
        if not (is_whole(self.n_penalties) and int(self.n_penalties) >= 2):
            raise ArgumentError(
                f"n_penalties is {self.n_penalties!r}; it must be a whole number >= 2"
            )
        check_share("smallest", self.smallest)
        check_scale(self.scale)
        check_flag("intercept", self.intercept)


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


@dataclass(frozen=True, eq=False)
class GroupLassoPath(InNotebooks):
    """The group lasso at L falling penalties.

    Parameters
    ----------
    target : the column that is predicted
    groups : Groups, their columns and costs
    penalties : shape (L,); at the first every coefficient is 0
    coef : shape (L, D), in the table's units
    intercept : shape (L,)
    scaled_coef : shape (L, D), on columns and a target of unit variance
    lengths : shape (L, J), ||w_g|| of each group: of `scaled_coef`, or with
        ``scale=False`` for columns as they are
    r2 : shape (L,), 1 - RSS/TSS on the rows of the Gram
    gap : shape (L,), how far at most the objective is from its minimum
    entered : groups in the order in which they enter; others never do
    entered_at : for each of these, the number of the first penalty at which it is not 0
    rows, skipped : rows of the Gram, and rows left out of it

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> gram = ds.gram(table)
    >>> path = ds.group_lasso_path(gram, "y", n_penalties=3, smallest=0.1)
    >>> path
    GroupLassoPath(y ~ a, b; 3 penalties from 0.976 to 0.0976; spent 2; 4 rows)
    >>> path.points["groups"].to_list()
    [[], ['a'], ['a', 'b']]
    >>> path.steps["action", "group"].rows()
    [('add', 'a'), ('add', 'b')]
    """

    target: str
    groups: Groups
    penalties: Vector
    coef: Matrix
    intercept: Vector
    scaled_coef: Matrix
    lengths: Matrix
    r2: Vector
    gap: Vector
    entered: list[str]
    entered_at: list[int]
    rows: int
    skipped: int

    def __repr__(self) -> str:
        return (
            f"GroupLassoPath({self.target} ~ {listed(self.entered)}; "
            f"{len(self.penalties)} penalties from {self.penalties[0]:.3g} "
            f"to {self.penalties[-1]:.3g}; spent {self.spent[-1]:g}; "
            f"{rows_told(self.rows, self.skipped)})"
        )

    @property
    def _glance(self) -> Glance:
        table = self.points.select("penalty", pl.col("groups").list.len(), "spent", "r2")
        return Glance(table, (self.spent, self.r2, "r2 against what is spent"))

    @cached_property
    def columns(self) -> list[str]:
        """D columns of the groups, in the order of `coef`."""
        return self.groups.members

    def plot(self, *, most: int = 60) -> Any:
        """Return a picture of how the groups' coefficients grow as the penalty falls.

        Parameters
        ----------
        most : groups that are drawn, those of the longest coefficients

        Returns
        -------
        Chart of altair. Its ``data`` is the DataFrame that is drawn, one row a penalty and
        group: penalty, group, cost, length, spent, r2, line, label

        Raises
        ------
        ArgumentError : `most` is not a whole number >= 1
        EngineError : altair is not installed
        """
        check_whole("most", most)
        longest = self.lengths.max(axis=0)
        kept = [int(j) for j in np.argsort(-longest, kind="stable")[:most] if longest[j] > 0]
        names = self.groups.names
        frame = pl.DataFrame(
            {
                "penalty": np.tile(self.penalties, len(kept)),
                "group": np.repeat([names[j] for j in kept], len(self.penalties)),
                "cost": np.repeat(self.groups.costs[kept], len(self.penalties)),
                "length": self.lengths[:, kept].T.ravel(),
                "spent": np.tile(self.spent, len(kept)),
                "r2": np.tile(self.r2, len(kept)),
            },
            schema_overrides={"group": pl.String},
        )
        rows = rows_told(self.rows, self.skipped)
        told = [f"{len(self.entered)} of {len(names)} groups enter; {rows}."]
        if len(kept) < len(self.entered):
            told.append(f"The {len(kept)} of the longest coefficients are drawn.")
        return growth(frame, f"{self.target}: the path of the group lasso", told)

    @property
    def spent(self) -> Vector:
        """Summed cost of the groups that are not 0; shape (L,)."""
        return np.asarray((self.lengths > 0) @ self.groups.costs)

    @cached_property
    def points(self) -> pl.DataFrame:
        """One row a penalty: penalty, groups (a list of those not 0), spent, r2, gap."""
        names = np.array(self.groups.names, dtype=object)
        return pl.DataFrame(
            {
                "penalty": self.penalties,
                "groups": [names[row].tolist() for row in self.lengths > 0],
                "spent": self.spent,
                "r2": self.r2,
                "gap": self.gap,
            },
            schema_overrides={"groups": pl.List(pl.String)},
        )

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row a group that comes or goes: penalty, action, group, cost.

        The action is ``"add"``, or ``"remove"`` of a group that is 0 again, as LARS with the
        lasso's removals lists them. The penalties are a grid: what comes and goes between two
        of them does not show, and what changes at the same one is listed with the removals
        first.
        """
        held = self.lengths > 0
        names, costs = self.groups.names, self.groups.costs
        rank = {name: place for place, name in enumerate(self.entered)}
        rows = []
        for i in range(1, len(held)):
            changed = np.flatnonzero(held[i] != held[i - 1]).tolist()
            for j in sorted(changed, key=lambda j: (held[i, j], rank[names[j]])):
                action = "add" if held[i, j] else "remove"
                rows.append((float(self.penalties[i]), action, names[j], float(costs[j])))
        schema = {
            "penalty": pl.Float64, "action": pl.String, "group": pl.String, "cost": pl.Float64
        }  # fmt: skip
        return pl.DataFrame(rows, schema=schema, orient="row")


def group_lasso_path(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    n_penalties: int = GroupLassoPathOptions.n_penalties,
    smallest: float = GroupLassoPathOptions.smallest,
    scale: bool = GroupLassoPathOptions.scale,
    intercept: bool = GroupLassoPathOptions.intercept,
) -> GroupLassoPath:
    """Fit the cost-weighted group lasso over a geometric grid of falling penalties.

    Minimise ``1/2 - c'w + 1/2 w'Gw + penalty sum_g cost(g) ||w_g||`` on columns and a
    target of unit variance, from the least penalty at which every group is 0 downwards.

    Parameters
    ----------
    source : Gram, record or table, as `anytime_sequence` takes it
    target : column to predict
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0, in any one unit; default: 1 each
    n_penalties : L >= 2
    smallest : in (0, 1), the last penalty as a share of the first
    scale : False takes the norms of coefficients on the columns as they are
    intercept : False for models through the origin, as in `anytime_sequence`

    Returns
    -------
    GroupLassoPath

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : n_penalties, smallest or scale out of range

    Notes
    -----
    The optimality conditions hold to 1e-8 at every penalty, on correlations. Some six
    factorisations a penalty, O(|S|^3 / 3) each for |S| columns that are not 0; 24 D^2
    bytes. Where columns depend linearly on each other, the coefficients may not be the
    only ones at the minimum; r2 and gap are.

    References
    ----------
    Yuan, Lin (2006); the baseline Sparse of Hu, Grubb, Bagnell, Hebert (2016), section
    5.2, without their factor 2 in the penalty.

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
        n_penalties=n_penalties, smallest=smallest, scale=scale, intercept=intercept
    )
    search = prepare(source, target, groups, costs, scale=scale, intercept=intercept)
    problem = search.problem
    found = _path(search, options)
    coef = found.coef * (problem.target_spread / problem.spread)
    return GroupLassoPath(
        target=target,
        groups=search.groups,
        penalties=found.penalties,
        coef=coef,
        intercept=problem.target_mean - coef @ problem.mean,
        scaled_coef=found.coef,
        lengths=found.lengths,
        r2=found.r2,
        gap=found.gap,
        entered=[search.groups.names[group] for group in found.entered],
        entered_at=found.entered_at,
        rows=search.gram.rows,
        skipped=search.gram.skipped,
    )


def group_lasso(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    n_penalties: int = GroupLassoOptions.n_penalties,
    smallest: float = GroupLassoOptions.smallest,
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
    n_penalties : >= 2; the more, the fewer groups enter at the same penalty
    smallest : in (0, 1), the last penalty as a share of the first
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
    ArgumentError : n_penalties, smallest, ridge, scale, budget or always out of range

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
        n_penalties=n_penalties, smallest=smallest, ridge=ridge, scale=scale, intercept=intercept,
        budget=budget, always=always,
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


def _path(search: LinearSetup, options: GroupLassoPathOptions) -> lasso.Path:
    with progress(int(options.n_penalties) - 1, "penalties") as bar:
        return lasso.path(
            search.problem,
            search.groups,
            n_penalties=int(options.n_penalties),
            smallest=float(options.smallest),
            turn=bar.update,
        )
