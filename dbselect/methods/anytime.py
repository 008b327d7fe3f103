"""The main call: from a Gram, a record, a table or an objective to an anytime sequence."""

import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast, overload

from dbselect.errors import ArgumentError
from dbselect.glm.named import check_family_name
from dbselect.methods.compiled import compiled_sequence
from dbselect.methods.family_options import AnytimeGlmOptions
from dbselect.methods.fit_glm import glm_sequence
from dbselect.methods.glm_family import linked
from dbselect.methods.glm_objective import GlmObjective, ObjectiveSetup, objective_setup
from dbselect.methods.options import Options
from dbselect.methods.screening import check_screen, screened
from dbselect.methods.setup import check_first, finish, finish_joint, prefix_coefficients, prepare
from dbselect.methods.too_wide import check_wide, wide_or_not
from dbselect.methods.types import (
    Costs,
    FamilyName,
    GlmFamilyName,
    GlmRuleName,
    GroupColumns,
    GroupNames,
    Level,
    NullPolicy,
    RuleName,
    Source,
    TableSource,
    Targets,
)
from dbselect.methods.wide_search import WideSearch, resumed, wide_search
from dbselect.record.checks import (
    check_budget,
    check_choice,
    check_column,
    check_count,
    check_flag,
    check_names,
    check_ridge,
    check_scale,
)
from dbselect.record.groups import Groups
from dbselect.record.policies import check_policies
from dbselect.record.steps import Record, Stop, name_of
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.joint import JointSequence
from dbselect.results.sequence import Sequence as AnytimeSequence
from dbselect.results.wide import WideSequence
from dbselect.selection.criteria import RULES, rules_of_glm
from dbselect.selection.greedy import CostLimit, doubling, greedy_search
from dbselect.sources.turns import Callback, check_callback, turns


@dataclass(frozen=True, kw_only=True)
class AnytimeOptions(Options):
    """The options of `anytime_sequence` on one Gram; those in passes are `AnytimeGlmOptions`."""

    method: ClassVar[str] = "anytime_sequence"

    rule: RuleName = "fr"
    ridge: float = 0.0
    scale: bool = True
    intercept: bool = True
    budget: float | None = None
    max_groups: int | None = None
    always: GroupNames = ()
    c_min: float | None = None
    null_policy: NullPolicy = "skip"
    family: FamilyName = "gaussian"
    weight: str | None = None
    wide: bool | None = None
    resume: WideSequence | None = None
    screen: int | None = None

    def __post_init__(self) -> None:
        """Refuse options that no Gram could make right."""
        super().__post_init__()
        check_choice("rule", self.rule, RULES)
        check_ridge(self.ridge)
        check_scale(self.scale)
        check_flag("intercept", self.intercept)
        check_budget(self.budget)
        check_count("max_groups", self.max_groups)
        check_names("always", self.always)
        check_family_name(self.family)
        check_column("weight", self.weight)
        check_policies(self.null_policy)
        asked = self.wide if self.resume is None and self.screen is None else True
        check_wide(asked, self.intercept)
        _check_resume(self.resume, self.wide)
        check_screen(self.screen, self.wide)
        if self.c_min is None:
            return
        if not RULES[self.rule].doubling:
            raise ArgumentError(
                f"c_min is {self.c_min!r}; rule {self.rule!r} has none, rule 'doubling' has"
            )
        if not (isinstance(self.c_min, numbers.Real) and 0 < float(self.c_min) < math.inf):
            raise ArgumentError(f"c_min is {self.c_min!r}; it must be a number > 0")


def _check_resume(resume: Any, wide: Any) -> None:
    """Refuse a search to go on with that was no wide one."""
    if resume is None:
        return
    if not isinstance(resume, WideSequence):
        raise ArgumentError(
            f"resume is {resume!r}; it must be what anytime_sequence(..., wide=True) returned"
        )
    if wide is False:
        raise ArgumentError(f"resume is {resume!r}; it needs wide=True")


@overload
def anytime_sequence(
    source: TableSource,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    rule: RuleName = ...,
    ridge: float = ...,
    scale: bool = ...,
    budget: float | None = ...,
    max_groups: int | None = ...,
    always: GroupNames = ...,
    c_min: float | None = ...,
    null_policy: NullPolicy = ...,
    weight: str | None = ...,
    wide: Literal[True],
    resume: WideSequence | None = ...,
    screen: int | None = ...,
    callback: Callback | None = ...,
) -> WideSequence: ...


@overload
def anytime_sequence(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    rule: RuleName = ...,
    ridge: float = ...,
    scale: bool = ...,
    intercept: bool = ...,
    budget: float | None = ...,
    max_groups: int | None = ...,
    always: GroupNames = ...,
    c_min: float | None = ...,
    null_policy: NullPolicy = ...,
    family: Literal["gaussian"] = ...,
    weight: str | None = ...,
    wide: Literal[False] | None = ...,
    callback: Callback | None = ...,
) -> AnytimeSequence: ...


@overload
def anytime_sequence(
    source: Source,
    target: Targets,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    rule: RuleName = ...,
    ridge: float = ...,
    scale: bool = ...,
    intercept: bool = ...,
    budget: float | None = ...,
    max_groups: int | None = ...,
    always: GroupNames = ...,
    c_min: float | None = ...,
    null_policy: NullPolicy = ...,
    family: Literal["gaussian"] = ...,
    weight: str | None = ...,
    wide: Literal[False] | None = ...,
    callback: Callback | None = ...,
) -> JointSequence: ...


@overload
def anytime_sequence(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    rule: GlmRuleName = ...,
    ridge: float = ...,
    scale: bool = ...,
    intercept: bool = ...,
    budget: float | None = ...,
    max_groups: int | None = ...,
    always: GroupNames = ...,
    family: GlmFamilyName,
    weight: str | None = ...,
    offset: str | None = ...,
    exposure: str | None = ...,
    link: str | None = ...,
    positive: Level | None = ...,
    max_iter: int | None = ...,
    tol: float | None = ...,
    callback: Callback | None = ...,
) -> GlmSequence: ...


@overload
def anytime_sequence(
    source: GlmObjective,
    target: None = None,
    groups: None = None,
    costs: Costs | None = None,
    *,
    rule: GlmRuleName = ...,
    budget: float | None = ...,
    max_groups: int | None = ...,
    always: GroupNames = ...,
    callback: Callback | None = ...,
) -> GlmSequence: ...


def anytime_sequence(
    source: Source | GlmObjective,
    target: str | Targets | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    rule: RuleName = AnytimeOptions.rule,
    ridge: float = AnytimeOptions.ridge,
    scale: bool = AnytimeOptions.scale,
    intercept: bool = AnytimeOptions.intercept,
    budget: float | None = AnytimeOptions.budget,
    max_groups: int | None = AnytimeOptions.max_groups,
    always: GroupNames = AnytimeOptions.always,
    c_min: float | None = AnytimeOptions.c_min,
    null_policy: NullPolicy = AnytimeOptions.null_policy,
    family: FamilyName = AnytimeOptions.family,
    weight: str | None = AnytimeOptions.weight,
    wide: bool | None = AnytimeOptions.wide,
    resume: WideSequence | None = AnytimeOptions.resume,
    screen: int | None = AnytimeOptions.screen,
    offset: str | None = None,
    exposure: str | None = None,
    link: str | None = None,
    positive: Level | None = None,
    max_iter: int | None = None,
    tol: float | None = None,
    callback: Callback | None = None,
) -> AnytimeSequence | JointSequence | GlmSequence:
    """Order groups of columns by how much prediction each buys for its cost.

    Each step takes the group with the largest ``criterion(g | S) / cost(g)``; the
    objective is F(S) = 1/2 c_S' C_SS^-1 c_S, C = G + ridge I, of several responses the sum
    over them. With another `family` it is the deviance of a generalised linear model, for
    which the table is read again and again.

    Parameters
    ----------
    source : Gram, a Gram record (mapping or Arrow scalar), a Parquet file or frame
        that holds one in its only column ``gram``, or any table that `gram` reads; or a
        `glm_objective`, without what it has: target, groups, ridge and the like
    target : column to predict; or a list of responses, which share the groups and their
        costs: each counts as one of unit variance, with ``scale=False`` as it is
    groups : name -> columns or globs; default: every top-level field but the target. Of one Gram
        they may share columns: what is held already explains its part, so that a group gains by
        its other columns only, and costs what it costs
    costs : name -> cost > 0, in any one unit, as a mapping or a labelled Series; a Series
        without labels has them in the order of the groups; default: 1 each, or those of the
        objective
    rule : ``"fr"``, the exact gain (default); ``"omp"``, the group-whitened gradient;
        ``"omp-unwhitened"``, the gradient as it is; ``"omp-single"``, its largest entry;
        ``"doubling"``, the exact gain among groups that at most double the cost. With another
        `family`: ``"fr"``, a refit with every group; ``"score"``, the score test, that is
        the gradient against the information that the groups held leave, which is much
        cheaper and nearly as good, and the exact gain where the model is linear;
        ``"omp-information"``, the gradient whitened by the information of the group alone;
        or the three of ``"omp"``, which see the columns as they are (X'X, as the paper does)
    ridge : >= 0, lambda on unit-variance columns; the intercept is not penalised
    scale : False takes `ridge` on the columns as they are
    intercept : False for models through the origin: explained and r2 are then shares of the sum
        of squares about 0 (of a family in passes, of the deviance of the predictor 0), a
        column of one value explains some of it, and what is said of unit variance holds of a
        mean square of 1
    budget : limit on the summed cost: only groups that still fit are candidates
    max_groups : limit on the number of groups
    always : groups taken first, in the order given
    c_min : rule ``doubling`` only: the largest cost of the first group, > 0;
        default: the cheapest cost there is
    null_policy : what becomes of missing values while a table is read, as in
        `dbselect.gram`; rows without the target are left out under every policy
    family : ``"gaussian"``, the linear model of one Gram (default); ``"binomial"``,
        ``"poisson"``, ``"multinomial"`` or another of `fit_glm`, of a table
    weight : column of row weights, of a table
    wide : for a table too wide for its Gram: True reads it in a handful of scans, each for the
        rows of the Gram that the search needs, with the same sequence; a MAP of numbers, or a
        LIST of STRUCTs of two, is a column ``x[17]`` for each entry. False makes the Gram;
        None (default) does up to 10,000 columns, and beyond them the search is wide
    resume : of a wide search, what an earlier one of the same table found: its groups are taken
        first, and the search goes on from there
    screen : of a wide search, among how many columns: groups are left out that promise least by
        their correlation with the target alone. It takes less memory and is not exact;
        `screened` of what comes back says so, and criteria count all columns
    offset : of a family in passes but multinomial: column that is added to the predictor
    exposure : of a family of link log: column whose logarithm is added to the predictor
    link : of a family in passes, the same as in the brackets of its name
    positive : of family binomial, the level of the target that counts as 1, as in `fit_glm`
    max_iter : of a family in passes, limit on the passes of a step, default 25
    tol : of a family in passes, as in `fit_glm`, default 1e-8
    callback : is called with a `Progress` after every step; what it raises ends the call

    Returns
    -------
    Sequence with at most J + 1 steps; WideSequence of a wide search; JointSequence of a list
    of responses; GlmSequence of another family, or of an objective

    Raises
    ------
    ColumnError : an unknown column
    GroupError : a group is empty, or shares columns with another in a wide search or in passes;
        a cost is missing, surplus or not > 0
    ArgumentError : rule, ridge, scale, budget, max_groups, c_min, family or what belongs
        to it out of range
    SourceError : a family in passes or a wide search, and a stream that can be read only once
    DataError : no usable rows, or a target that is constant, that is 0 where it is missing,
        or that the family does not allow

    Warns
    -----
    ConditionWarning : the selected columns are so nearly dependent that their
        coefficients keep fewer than six digits
    SeparationWarning : of a family in passes, from some step on the columns determine the
        target of some rows
    SkippedRowsWarning : more than half of the rows of the table are left out
    WideWarning : the table has so many columns that the search is wide, which nobody asked for

    Notes
    -----
    O(D^3) for a full sequence over D columns, for every rule; about 40 D^2 bytes.
    Further responses add O(D^2) each, and J D doubles for the coefficients of their models.
    Where no group may double the cost, rule ``doubling`` takes the cheapest and
    ``doubling_capable`` of the result is False.
    A table is read once, the columns of the groups and the target only, so a NULL
    in another column leaves no row out. Up to 1,000 columns the compiled library searches, in
    some tenths of Python's time, and above Python, with one result; with a `callback` Python
    does, as the library tells no steps on its way.

    In passes, one at the coefficients of the groups held gives the gradient and the
    information of all columns, so the first Newton step of a group costs no pass and the
    scores of the next step none. Passes: one for the start (as in `fit_glm`), then one for
    each Newton step of the refit but the last, mostly two or three a step. Rule ``fr`` refits
    with all groups within the budget in the same passes, gives up those that can no longer
    gain most for their cost, and makes one more pass a step; a pass computes up to J Grams of
    the groups held and one more, and takes J D^2 doubles. Steps begin at the coefficients of
    the step before. An interrupt (Ctrl-C) ends the search with the steps made so far. Of an
    objective, steps are refits on its rows.

    References
    ----------
    Hu, Grubb, Bagnell, Hebert (2016), Algorithms 1 and 2, eq. 1, appendix B.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.anytime_sequence(table, "y", costs={"a": 50.0, "b": 1.0})
    Sequence(y ~ b, a; r2 1.0000, spent 51; 4 rows; every group is in the sequence)
    """
    in_passes = {
        "offset": offset, "exposure": exposure, "positive": positive, "max_iter": max_iter,
        "tol": tol,
    }  # fmt: skip
    in_passes = {name: value for name, value in in_passes.items() if value is not None}
    check_family_name(family)
    family = family if link is None else cast(FamilyName, linked(family, link))
    check_callback(callback)
    if family != AnytimeOptions.family and not isinstance(source, GlmObjective):
        given = AnytimeGlmOptions.read({
            "rule": rule, "ridge": ridge, "scale": scale, "intercept": intercept,
            "budget": budget, "max_groups": max_groups, "always": always, "family": family,
            "weight": weight, **in_passes,
        })  # fmt: skip
        if c_min is not None:
            raise ArgumentError(f"c_min is {c_min!r}; family {family!r} has none")
        if null_policy != AnytimeOptions.null_policy:
            raise ArgumentError(f"null_policy is {null_policy!r}; family {family!r} takes 'skip'")
        for name, each in {"wide": wide, "resume": resume, "screen": screen}.items():
            if each not in (False, None):
                raise ArgumentError(f"{name} is {each!r}; a wide search is of family 'gaussian'")
        return glm_sequence(source, target, groups, costs, given, callback)
    options = AnytimeOptions(
        rule=rule, ridge=ridge, scale=scale, intercept=intercept, budget=budget,
        max_groups=max_groups, always=always, c_min=c_min, null_policy=null_policy, family=family,
        weight=weight, wide=wide, resume=resume, screen=screen,
    )  # fmt: skip
    if isinstance(source, GlmObjective):
        return _on_objective(source, target, groups, costs, options, in_passes, callback)
    for name, value in in_passes.items():
        raise ArgumentError(f"{name} is {value!r}; family 'gaussian' has none")
    asked = options.wide if resume is None and screen is None else True
    source, is_wide = wide_or_not(source, target, groups, asked, options.intercept)
    if is_wide:
        return _on_wide_table(source, target, groups, costs, options, callback)
    search = prepare(
        source, target, groups, costs, ridge=ridge, scale=scale, always=always,
        null_policy=null_policy, weight=weight, several=True, intercept=options.intercept,
        sharing=True,
    )  # fmt: skip
    check_first(search.groups, search.first, options.budget, max_groups)
    found = compiled_sequence(search, rule, options) if callback is None else None
    if found is not None:
        return found
    with turns(max_groups or len(search.groups.costs), "groups", callback) as turn:
        steps, stop = greedy_search(
            search.state,
            search.groups,
            search.criterion(rule),
            cost_limit=_cost_limit(search.groups, options),
            budget=options.budget,
            max_groups=max_groups,
            always=search.first,
            record=lambda step: turn(name_of(step, search.groups), step.explained),
        )
    if search.is_joint:
        return finish_joint(search, rule, steps, stop)
    return finish(search, rule, steps, prefix_coefficients(search), stop)


def _on_objective(
    objective: GlmObjective,
    target: str | Targets | None,
    groups: GroupColumns | None,
    costs: Costs | None,
    options: AnytimeOptions,
    in_passes: Mapping[str, object],
    callback: Callback | None,
) -> GlmSequence:
    """Search the groups of an objective, on whose rows every fit is made."""
    check_choice("rule", options.rule, rules_of_glm())
    own = {
        name: value
        for name, value in options.given().items()
        if name not in ("rule", "budget", "max_groups", "always", "c_min")
    }
    search = objective_setup(
        objective, costs, options.always, target=target, groups=groups, **own, **in_passes
    )
    check_first(search.groups, search.first, options.budget, options.max_groups)

    return search.recorded(options.rule, _greedy(search, options), callback)


def _on_wide_table(
    source: Any,
    target: Any,
    groups: GroupColumns | None,
    costs: Costs | None,
    options: AnytimeOptions,
    callback: Callback | None,
) -> WideSequence:
    """Search a table too wide for its Gram, from what an earlier search found on."""
    search = wide_search(
        source, target, groups, costs, ridge=options.ridge, scale=options.scale,
        always=options.always, null_policy=options.null_policy, weight=options.weight,
    )  # fmt: skip
    check_first(search.groups, search.first, options.budget, options.max_groups)
    if options.resume is not None:
        search = resumed(search, options.resume, options.budget, options.max_groups)
    if options.screen is not None:
        search = screened(search, options.screen)
    total = options.max_groups or len(search.first) or None
    return search.recorded(options.rule, _greedy(search, options), callback, total, "groups")


def _greedy(
    search: WideSearch | ObjectiveSetup, options: AnytimeOptions
) -> Callable[[Record], Stop]:
    """Return the search that adds groups, which writes down its steps."""

    def run(record: Record) -> Stop:
        _, stop = greedy_search(
            search.state,
            search.groups,
            search.criterion(options.rule),
            cost_limit=_cost_limit(search.groups, options),
            budget=options.budget,
            max_groups=options.max_groups,
            always=search.first,
            record=record,
        )
        return stop

    return run


def _cost_limit(groups: Groups, options: AnytimeOptions) -> CostLimit | None:
    return doubling(groups.costs, options.c_min) if RULES[options.rule].doubling else None
