"""The main call: from a Gram, a record or a table to an anytime sequence."""

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, cast, overload

from dbselect.errors import ArgumentError
from dbselect.methods.fit_glm import glm_sequence
from dbselect.methods.setup import check_first, finish, finish_joint, prefix_coefficients, prepare
from dbselect.record.checks import check_budget, check_choice, check_count, check_ridge, check_scale
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.joint import JointSequence
from dbselect.results.sequence import Sequence as AnytimeSequence
from dbselect.selection.criteria import RULES
from dbselect.selection.greedy import doubling, greedy_search
from dbselect.sources.request import NullPolicy


@overload
def anytime_sequence(
    source: Any,
    target: str,
    groups: Mapping[str, Iterable[str]] | None = None,
    costs: Mapping[str, float] | None = None,
    *,
    rule: str = "fr",
    ridge: float = 0.0,
    scale: bool = True,
    budget: float | None = None,
    max_groups: int | None = None,
    always: Sequence[str] = (),
    c_min: float | None = None,
    null_policy: NullPolicy = "skip",
    family: None = None,
) -> AnytimeSequence: ...


@overload
def anytime_sequence(
    source: Any,
    target: list[str] | tuple[str, ...],
    groups: Mapping[str, Iterable[str]] | None = None,
    costs: Mapping[str, float] | None = None,
    *,
    rule: str = "fr",
    ridge: float = 0.0,
    scale: bool = True,
    budget: float | None = None,
    max_groups: int | None = None,
    always: Sequence[str] = (),
    c_min: float | None = None,
    null_policy: NullPolicy = "skip",
    family: None = None,
) -> JointSequence: ...


@overload
def anytime_sequence(
    source: Any,
    target: str,
    groups: Mapping[str, Iterable[str]] | None = None,
    costs: Mapping[str, float] | None = None,
    *,
    rule: str = "fr",
    ridge: float = 0.0,
    scale: bool = True,
    budget: float | None = None,
    max_groups: int | None = None,
    always: Sequence[str] = (),
    family: str,
    weight: str | None = None,
    offset: str | None = None,
    max_iter: int | None = None,
    tol: float | None = None,
) -> GlmSequence: ...


def anytime_sequence(
    source: Any,
    target: str | list[str] | tuple[str, ...],
    groups: Mapping[str, Iterable[str]] | None = None,
    costs: Mapping[str, float] | None = None,
    *,
    rule: str = "fr",
    ridge: float = 0.0,
    scale: bool = True,
    budget: float | None = None,
    max_groups: int | None = None,
    always: Sequence[str] = (),
    c_min: float | None = None,
    null_policy: NullPolicy = "skip",
    family: str | None = None,
    weight: str | None = None,
    offset: str | None = None,
    max_iter: int | None = None,
    tol: float | None = None,
) -> AnytimeSequence | JointSequence | GlmSequence:
    """Order groups of columns by how much prediction each buys for its cost.

    Each step takes the group with the largest ``criterion(g | S) / cost(g)``; the
    objective is F(S) = 1/2 c_S' C_SS^-1 c_S, C = G + ridge I, of several responses the sum
    over them. With a `family` it is the deviance of a generalised linear model, for which
    the table is read again and again.

    Parameters
    ----------
    source : Gram, a Gram record (mapping or Arrow scalar), a Parquet file or frame
        that holds one in its only column ``gram``, or any table that `gram` reads
    target : column to predict; or a list of responses, which share the groups and their
        costs: each counts as one of unit variance, with ``scale=False`` as it is
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0, in any one unit; default: 1 each
    rule : ``"fr"``, the exact gain (default); ``"omp"``, the group-whitened gradient;
        ``"omp-unwhitened"``, the gradient as it is; ``"omp-single"``, its largest entry;
        ``"doubling"``, the exact gain among groups that at most double the cost. With a
        `family`: ``"fr"``, a refit with every group; ``"score"``, the score test, that is
        the gradient against the information that the groups held leave, which is much
        cheaper and nearly as good; or the three of ``"omp"``
    ridge : >= 0, lambda on unit-variance columns; the intercept is not penalised
    scale : False takes `ridge` on the columns as they are
    budget : limit on the summed cost: only groups that still fit are candidates
    max_groups : limit on the number of groups
    always : groups taken first, in the order given
    c_min : rule ``doubling`` only: the largest cost of the first group, > 0;
        default: the cheapest cost there is
    null_policy : what becomes of missing values while a table is read, as in
        `dbselect.gram`; rows without the target are left out under every policy
    family : ``"binomial"``, ``"poisson"``, ``"multinomial"`` or ``"gaussian"``, as in
        `fit_glm`; None is the linear model of a Gram
    weight, offset : with a `family`, columns as in `fit_glm`
    max_iter : with a `family`, limit on the passes of a step, default 25
    tol : with a `family`, as in `fit_glm`, default 1e-8

    Returns
    -------
    Sequence with at most J + 1 steps; JointSequence of a list of responses; GlmSequence if
    there is a `family`

    Raises
    ------
    ColumnError : an unknown column
    GroupError : groups overlap or are empty; a cost is missing, surplus or not > 0
    ArgumentError : rule, ridge, scale, budget, max_groups, c_min, family or what belongs
        to it out of range
    SourceError : with a `family`, a stream that can be read only once
    DataError : no usable rows, or a target that is constant, that is 0 where it is missing,
        or that the family does not allow

    Warns
    -----
    ConditionWarning : the selected columns are so nearly dependent that their
        coefficients keep fewer than six digits

    Notes
    -----
    O(D^3) for a full sequence over D columns, for every rule; about 40 D^2 bytes.
    Further responses add O(D^2) each, and J D doubles for the coefficients of their models.
    Where no group may double the cost, rule ``doubling`` takes the cheapest and
    ``doubling_capable`` of the result is False.
    A table is read once, the columns of the groups and the target only, so a NULL
    in another column leaves no row out.

    With a `family`, a pass at the coefficients of the groups held gives the gradient and
    the information of all columns, so the first Newton step of a group costs no pass and
    the scores of the next step none. Passes: one for the start (as in `fit_glm`), then one
    for each Newton step of the refit but the last, mostly two or three a step, none for
    gaussian. Rule ``fr`` refits with all groups within the budget in the same passes, gives
    up those that can no longer gain most for their cost, and makes one more pass a step; a
    pass computes up to J Grams of the groups held and one more, and takes J D^2 doubles.
    Steps begin at the coefficients of the step before. An interrupt (Ctrl-C) ends the
    search with the steps made so far.

    References
    ----------
    Hu, Grubb, Bagnell, Hebert (2016), Algorithms 1 and 2, eq. 1, appendix B.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.anytime_sequence(table, "y", costs={"a": 50.0, "b": 1.0})
    Sequence(y ~ b, a; r2 1.0000, spent 51; every group is in the sequence)
    """
    budget = float(budget) if isinstance(budget, Decimal) else budget
    c_min = float(c_min) if isinstance(c_min, Decimal) else c_min
    if family is not None:
        if c_min is not None:
            raise ArgumentError(f"c_min is {c_min!r}; with a family there is none")
        if null_policy != "skip":
            raise ArgumentError(f"null_policy is {null_policy!r}; with a family it is 'skip'")
        return glm_sequence(
            source, cast(str, target), groups, costs, family=family, rule=rule, ridge=ridge,
            scale=scale, budget=budget, max_groups=max_groups, always=always, weight=weight,
            offset=offset, max_iter=max_iter, tol=tol,
        )  # fmt: skip
    alone = {"weight": weight, "offset": offset, "max_iter": max_iter, "tol": tol}
    for name, value in alone.items():
        if value is not None:
            raise ArgumentError(f"{name} is {value!r}; without a family there is none")
    check_options(rule, ridge, scale, budget, max_groups, c_min)
    search = prepare(
        source, target, groups, costs, ridge=ridge, scale=scale, always=always,
        null_policy=null_policy, several=True,
    )  # fmt: skip
    check_first(search.groups, search.first, budget, max_groups)
    method, all_costs = RULES[rule], search.groups.costs
    steps, stop = greedy_search(
        search.state,
        search.groups,
        method.criterion(search.state),
        cost_limit=doubling(all_costs, c_min) if method.doubling else None,
        budget=budget,
        max_groups=max_groups,
        always=search.first,
    )
    if search.is_joint:
        return finish_joint(search, rule, steps, stop)
    return finish(search, rule, steps, prefix_coefficients(search), stop)


def check_options(
    rule: Any = "fr",
    ridge: Any = 0.0,
    scale: Any = True,
    budget: Any = None,
    max_groups: Any = None,
    c_min: Any = None,
    **_: Any,
) -> None:
    """Refuse options that no Gram could make right."""
    check_choice("rule", rule, RULES)
    check_ridge(ridge)
    check_scale(scale)
    check_budget(budget)
    check_count("max_groups", max_groups)
    if c_min is not None and not RULES[rule].doubling:
        raise ArgumentError(f"c_min is {c_min!r}; rule {rule!r} has none, rule 'doubling' has")
    if c_min is not None and not (isinstance(c_min, numbers.Real) and 0 < float(c_min) < math.inf):
        raise ArgumentError(f"c_min is {c_min!r}; it must be a number > 0")
