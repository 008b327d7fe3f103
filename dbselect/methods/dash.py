"""DASH: k candidates in few adaptive rounds, on a Gram or on any objective."""

import math
import numbers
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, overload

from dbselect.errors import ArgumentError
from dbselect.methods.choose import ChoiceOptions, choice_of
from dbselect.methods.glm_objective import GlmObjective
from dbselect.methods.too_wide import check_wide
from dbselect.methods.types import (
    Costs,
    FamilyName,
    GlmFamilyName,
    GroupColumns,
    NullPolicy,
    Source,
    TableSource,
)
from dbselect.objectives.contract import Objective
from dbselect.record.checks import check_column, check_whole
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import Model
from dbselect.results.selected import Selected
from dbselect.selection import dash as sampling
from dbselect.selection.dash import Limits, Run
from dbselect.sources.turns import Callback, check_callback, turns


@dataclass(frozen=True, kw_only=True)
class DashOptions(ChoiceOptions):
    """Options of `dash`."""

    method: ClassVar[str] = "dash"

    rounds: int | None = None
    samples: int = 5
    epsilon: float = 0.1
    opt: float | None = None
    alpha: float | None = None
    seed: int = 0
    weight: str | None = None
    wide: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds is not None:
            check_whole("rounds", self.rounds)
            if self.rounds > self.k:
                raise ArgumentError(
                    f"rounds is {self.rounds!r}; there are only k = {self.k} to choose"
                )
        check_whole("samples", self.samples)
        check_whole("seed", self.seed, 0)
        epsilon, opt, alpha = self.epsilon, self.opt, self.alpha
        if not (isinstance(epsilon, numbers.Real) and 0 < float(epsilon) < 1):
            raise ArgumentError(f"epsilon is {epsilon!r}; it must lie between 0 and 1")
        if opt is not None and not (isinstance(opt, numbers.Real) and 0 < float(opt) < math.inf):
            raise ArgumentError(f"opt is {opt!r}; it must be a number > 0, or None for a guess")
        if alpha is not None and not (isinstance(alpha, numbers.Real) and 0 < float(alpha) <= 1):
            raise ArgumentError(f"alpha is {alpha!r}; it must lie in (0, 1], or None for a guess")
        check_column("weight", self.weight)
        check_wide(self.wide, self.intercept)
        if self.wide and self.family != DashOptions.family:
            raise ArgumentError(f"wide is True; a wide search is of family {DashOptions.family!r}")

    @property
    def of_rows(self) -> dict[str, Any]:
        """What the options say of the rows of a table."""
        return {"wide": self.wide, "weight": self.weight}

    @property
    def named(self) -> dict[str, Any]:
        """What the options say of groups by name, and of rows, which other candidates have not."""
        return {**super().named, "weight": self.weight, "wide": self.wide or None}


@overload
def dash(
    source: GlmObjective,
    target: None = ...,
    groups: None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    rounds: int | None = ...,
    samples: int = ...,
    epsilon: float = ...,
    opt: float | None = ...,
    alpha: float | None = ...,
    diversity: Objective | None = ...,
    seed: int = ...,
    null_policy: NullPolicy = ...,
    callback: Callback | None = ...,
) -> Selected[GlmModel]: ...


@overload
def dash(
    source: Source,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    intercept: bool = ...,
    rounds: int | None = ...,
    samples: int = ...,
    epsilon: float = ...,
    opt: float | None = ...,
    alpha: float | None = ...,
    diversity: Objective | None = ...,
    seed: int = ...,
    null_policy: NullPolicy = ...,
    weight: str | None = ...,
    wide: bool | None = ...,
    callback: Callback | None = ...,
) -> Selected[Model]: ...


@overload
def dash(
    source: TableSource,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: GlmFamilyName,
    intercept: bool = ...,
    rounds: int | None = ...,
    samples: int = ...,
    epsilon: float = ...,
    opt: float | None = ...,
    alpha: float | None = ...,
    diversity: Objective | None = ...,
    seed: int = ...,
    null_policy: NullPolicy = ...,
    weight: str | None = ...,
    callback: Callback | None = ...,
) -> Selected[GlmModel]: ...


@overload
def dash(
    source: Objective,
    target: None = ...,
    groups: None = ...,
    costs: None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    rounds: int | None = ...,
    samples: int = ...,
    epsilon: float = ...,
    opt: float | None = ...,
    alpha: float | None = ...,
    diversity: Objective | None = ...,
    seed: int = ...,
    null_policy: NullPolicy = ...,
    callback: Callback | None = ...,
) -> Selected[GlmModel | None]: ...


def dash(
    source: Source | GlmObjective | Objective,
    target: str | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    k: int,
    family: FamilyName = DashOptions.family,
    intercept: bool = DashOptions.intercept,
    rounds: int | None = DashOptions.rounds,
    samples: int = DashOptions.samples,
    epsilon: float = DashOptions.epsilon,
    opt: float | None = DashOptions.opt,
    alpha: float | None = DashOptions.alpha,
    diversity: Objective | None = None,
    seed: int = DashOptions.seed,
    null_policy: NullPolicy = DashOptions.null_policy,
    weight: str | None = DashOptions.weight,
    wide: bool | None = DashOptions.wide,
    callback: Callback | None = None,
) -> Selected[Any]:
    """Choose k groups in few adaptive rounds, random sets of good ones at a time.

    Parameters
    ----------
    source : Gram, record or table, as `anytime_sequence` takes it; or, without a target,
        a `glm_objective` or another object that meets
        `dbselect.objectives.contract.Objective`
    target : column to predict
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0; default 1 each. They are summed in `spent` and do not change
        the choice
    k : how many groups or candidates to choose
    family : as in `fit_glm`; all but ``"gaussian"`` take a table and ask the
        `glm_objective` of it
    intercept : False for models through the origin, as in `anytime_sequence`
    rounds : number of sets, at most k; default: ``log2(n)``, at most k / 4, at least 4, in at
        most k adaptive rounds, as greedy takes
    samples : sets that an expectation is a mean of
    epsilon : in (0, 1), slack of the thresholds and step of the guesses
    opt : > 0, value of the best k candidates; default: guessed
    alpha : in (0, 1], differential submodularity; default: guessed
    diversity : monotone submodular objective over the same candidates, such as
        `coverage`, that is added
    seed : of the random sets: the same seed gives the same result
    null_policy : what becomes of missing values while a table is read, as in
        `dbselect.gram`; rows without the target are left out under every policy
    weight : column of row weights, of a table
    wide : as in `anytime_sequence`: of a table too wide for its Gram an adaptive round is a scan,
        for the rows of all its random sets. What all groups are worth is not asked there, so
        that guesses of `opt` begin at 1, and there is no `diversity`
    callback : is called with a `Progress` after every adaptive round of every guess; what it
        raises ends the call

    Returns
    -------
    Selected, with the Model on the groups, of a `glm_objective` or a family a GlmModel, of
    other objectives None; its `diagnostics` say how it went

    Raises
    ------
    ArgumentError : k, rounds, samples, epsilon, opt or alpha out of range; an objective
        with selected candidates, or with `groups`, or without names for `costs`;
        `diversity` is no objective over the same candidates
    ColumnError, GroupError, DataError, SourceError : as `anytime_sequence`

    Warns
    -----
    WideWarning : as `anytime_sequence`

    Notes
    -----
    At most some ``2 rounds`` adaptive rounds, each `samples` times O(D |S| k / rounds) and
    all gains. Guesses share the rounds until which they decide alike, and end after two in
    a row that reached less. On a ready Gram the exact greedy search is cheap as well; DASH
    pays where an answer of the objective is slow and many can be asked side by side. There
    is neither a budget nor a group to take first: the thresholds and the guarantee are those
    of any k candidates.

    References
    ----------
    Qian, Singer (2019), Algorithm 1, appendix G.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> model = ds.dash(table, "y", k=1)
    >>> model.groups, round(model.r2, 3)
    (['a'], 0.952)
    """
    check_callback(callback)
    options = DashOptions(
        k=k, family=family, intercept=intercept, rounds=rounds, samples=samples, epsilon=epsilon,
        opt=opt, alpha=alpha, seed=seed, null_policy=null_policy, weight=weight, wide=wide,
    )  # fmt: skip

    with turns(None, "rounds", callback) as turn:

        def run(start: Objective, _: Limits) -> Run[Any]:
            return sampling.best_guess(
                start, k, rounds=rounds, samples=samples, epsilon=epsilon, opt=opt, alpha=alpha,
                seed=seed, told=lambda value: turn(None, value),
            )  # fmt: skip

        return choice_of(run, options, source, target, groups, costs, diversity)
