"""Choosing k candidates: DASH and its baselines, on a Gram or on any objective."""

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, cast, overload

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.methods.glm_objective import GlmObjective
from dbselect.methods.open_search import check_family, open_search
from dbselect.methods.options import Options
from dbselect.methods.setup import LinearSetup, check_first, fitted, numbers_of, prepare
from dbselect.methods.types import Costs, FamilyName, GlmFamilyName, GroupColumns, NullPolicy
from dbselect.objectives.contract import Objective
from dbselect.objectives.diversity import Coverage, Sum, coverage_of
from dbselect.record.checks import check_budget, check_whole
from dbselect.record.groups import Groups
from dbselect.record.missing import check_policies
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import Model
from dbselect.results.selected import Diagnostics, Selected
from dbselect.selection import dash as sampling
from dbselect.selection.dash import Limits, Run


@dataclass(frozen=True, kw_only=True)
class DashOptions(Options):
    """Options of `dash`."""

    method: ClassVar[str] = "dash"

    k: int
    family: FamilyName = "gaussian"
    rounds: int | None = None
    samples: int = 5
    epsilon: float = 0.1
    opt: float | None = None
    alpha: float | None = None
    seed: int = 0
    null_policy: NullPolicy = "skip"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_policies(self.null_policy)
        check_whole("k", self.k)
        check_family(self.family)
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


@dataclass(frozen=True, kw_only=True)
class GreedyOptions(Options):
    """Options of `greedy`."""

    method: ClassVar[str] = "greedy"

    k: int
    family: FamilyName = "gaussian"
    budget: float | None = None
    always: Sequence[str] = ()
    null_policy: NullPolicy = "skip"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_policies(self.null_policy)
        check_whole("k", self.k)
        check_family(self.family)
        check_budget(self.budget)


@dataclass(frozen=True, kw_only=True)
class TopKOptions(GreedyOptions):
    """Options of `top_k`."""

    method: ClassVar[str] = "top_k"


@dataclass(frozen=True, kw_only=True)
class RandomOptions(GreedyOptions):
    """Options of `random_k`."""

    method: ClassVar[str] = "random_k"

    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("seed", self.seed, 0)


@dataclass(frozen=True, kw_only=True)
class CoverageOptions(Options):
    """Options of `coverage`."""

    method: ClassVar[str] = "coverage"

    similarity: float = 0.7
    weight: float = 0.1
    null_policy: NullPolicy = "skip"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_policies(self.null_policy)
        similarity, weight = self.similarity, self.weight
        if not (isinstance(similarity, numbers.Real) and 0 < float(similarity) < 1):
            raise ArgumentError(f"similarity is {similarity!r}; it must lie between 0 and 1")
        if not (isinstance(weight, numbers.Real) and 0 <= float(weight) < math.inf):
            raise ArgumentError(f"weight is {weight!r}; it must be a number >= 0")


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
) -> Selected[GlmModel]: ...


@overload
def dash(
    source: Any,
    target: str,
    groups: GroupColumns | None = ...,
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
) -> Selected[Model]: ...


@overload
def dash(
    source: Any,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: GlmFamilyName,
    rounds: int | None = ...,
    samples: int = ...,
    epsilon: float = ...,
    opt: float | None = ...,
    alpha: float | None = ...,
    diversity: Objective | None = ...,
    seed: int = ...,
    null_policy: NullPolicy = ...,
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
) -> Selected[GlmModel | None]: ...


def dash(
    source: Any,
    target: str | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    k: int,
    family: FamilyName = DashOptions.family,
    rounds: int | None = DashOptions.rounds,
    samples: int = DashOptions.samples,
    epsilon: float = DashOptions.epsilon,
    opt: float | None = DashOptions.opt,
    alpha: float | None = DashOptions.alpha,
    diversity: Objective | None = None,
    seed: int = DashOptions.seed,
    null_policy: NullPolicy = DashOptions.null_policy,
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
    rounds : number of sets, at most k; default: ``2 log2(n)``, at most k
    samples : sets that an expectation is a mean of
    epsilon : in (0, 1), slack of the thresholds and step of the guesses
    opt : > 0, value of the best k candidates; default: guessed
    alpha : in (0, 1], differential submodularity; default: guessed
    diversity : monotone submodular objective over the same candidates, such as
        `coverage`, that is added
    seed : of the random sets: the same seed gives the same result
    null_policy : what becomes of missing values while a table is read, as in
        `dbselect.gram`; rows without the target are left out under every policy

    Returns
    -------
    Selected, with the Model on the groups, of a `glm_objective` or a family a GlmModel, of
    other objectives None; its `diagnostics` say how it went

    Raises
    ------
    ArgumentError : k, rounds, samples, epsilon, opt or alpha out of range; an objective
        with selected candidates, or with `groups`, or without names for `costs`;
        `diversity` is no objective over the same candidates
    ColumnError, GroupError, DataError : as `anytime_sequence`

    Notes
    -----
    At most some ``2 rounds`` adaptive rounds, each `samples` times O(D |S| k / rounds) and
    all gains. On a ready Gram the exact greedy search is cheap as well; DASH pays where
    an answer of the objective is slow and many can be asked side by side. There is neither
    a budget nor a group to take first: the thresholds and the guarantee are those of any k
    candidates.

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
    options = DashOptions(
        k=k, family=family, rounds=rounds, samples=samples, epsilon=epsilon, opt=opt,
        alpha=alpha, seed=seed, null_policy=null_policy,
    )  # fmt: skip

    def run(start: Objective, _: Limits) -> Run[Any]:
        return sampling.best_guess(
            start, k, rounds=rounds or sampling.default_rounds(start.size, k), samples=samples,
            epsilon=epsilon, opt=opt, alpha=alpha, seed=seed,
        )  # fmt: skip

    return _chosen(run, options, source, target, groups, costs, diversity)


@overload
def greedy(
    source: GlmObjective,
    target: None = ...,
    groups: None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel]: ...


@overload
def greedy(
    source: Any,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[Model]: ...


@overload
def greedy(
    source: Any,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: GlmFamilyName,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel]: ...


@overload
def greedy(
    source: Objective,
    target: None = ...,
    groups: None = ...,
    costs: None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel | None]: ...


def greedy(
    source: Any,
    target: str | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    k: int,
    family: FamilyName = GreedyOptions.family,
    budget: float | None = GreedyOptions.budget,
    always: Sequence[str] = GreedyOptions.always,
    diversity: Objective | None = None,
    null_policy: NullPolicy = GreedyOptions.null_policy,
) -> Selected[Any]:
    """Choose k groups, the largest gain each time: k adaptive rounds.

    Parameters
    ----------
    source, target, groups, costs : as in `dash`
    k : most groups or candidates to choose, fewer where no other one fits into the budget
    family : as in `dash`
    budget : limit on the summed cost: only groups that still fit are candidates
    always : groups to take first, in the order given; they count in k and in the budget
    diversity, null_policy : as in `dash`

    Returns
    -------
    Selected, as of `dash`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.greedy(table, "y", k=1).groups
    ['a']
    """
    options = GreedyOptions(
        k=k, family=family, budget=budget, always=always, null_policy=null_policy
    )
    return _chosen(sampling.greedy_choice, options, source, target, groups, costs, diversity)


@overload
def top_k(
    source: GlmObjective,
    target: None = ...,
    groups: None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel]: ...


@overload
def top_k(
    source: Any,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[Model]: ...


@overload
def top_k(
    source: Any,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: GlmFamilyName,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel]: ...


@overload
def top_k(
    source: Objective,
    target: None = ...,
    groups: None = ...,
    costs: None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel | None]: ...


def top_k(
    source: Any,
    target: str | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    k: int,
    family: FamilyName = TopKOptions.family,
    budget: float | None = TopKOptions.budget,
    always: Sequence[str] = TopKOptions.always,
    diversity: Objective | None = None,
    null_policy: NullPolicy = TopKOptions.null_policy,
) -> Selected[Any]:
    """Choose the k groups that are best alone: one adaptive round.

    Parameters
    ----------
    source, target, groups, costs : as in `dash`
    k : most groups or candidates to choose, fewer where no other one fits into the budget
    family : as in `dash`
    budget : limit on the summed cost: only groups that still fit are candidates
    always : groups to take first, in the order given; they count in k and in the budget
    diversity, null_policy : as in `dash`

    Returns
    -------
    Selected, as of `dash`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.top_k(table, "y", k=1).groups
    ['a']
    """
    options = TopKOptions(k=k, family=family, budget=budget, always=always, null_policy=null_policy)
    return _chosen(sampling.top_k_choice, options, source, target, groups, costs, diversity)


@overload
def random_k(
    source: GlmObjective,
    target: None = ...,
    groups: None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    seed: int = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel]: ...


@overload
def random_k(
    source: Any,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    seed: int = ...,
    null_policy: NullPolicy = ...,
) -> Selected[Model]: ...


@overload
def random_k(
    source: Any,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: GlmFamilyName,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    seed: int = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel]: ...


@overload
def random_k(
    source: Objective,
    target: None = ...,
    groups: None = ...,
    costs: None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    seed: int = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel | None]: ...


def random_k(
    source: Any,
    target: str | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    k: int,
    family: FamilyName = RandomOptions.family,
    budget: float | None = RandomOptions.budget,
    always: Sequence[str] = RandomOptions.always,
    diversity: Objective | None = None,
    seed: int = RandomOptions.seed,
    null_policy: NullPolicy = RandomOptions.null_policy,
) -> Selected[Any]:
    """Choose k groups at random.

    Parameters
    ----------
    source, target, groups, costs : as in `dash`
    k : most groups or candidates to choose, fewer where no other one fits into the budget
    family : as in `dash`
    budget : limit on the summed cost: only groups that still fit are candidates
    always : groups to take first, in the order given; they count in k and in the budget
    diversity, seed, null_policy : as in `dash`

    Returns
    -------
    Selected, as of `dash`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> len(ds.random_k(table, "y", k=1).groups)
    1
    """
    options = RandomOptions(
        k=k, family=family, budget=budget, always=always, seed=seed, null_policy=null_policy
    )
    run = partial(sampling.random_choice, rng=np.random.default_rng(seed))
    return _chosen(run, options, source, target, groups, costs, diversity)


def coverage(
    source: Any,
    target: str,
    groups: GroupColumns | None = None,
    *,
    similarity: float = CoverageOptions.similarity,
    weight: float = CoverageOptions.weight,
    null_policy: NullPolicy = CoverageOptions.null_policy,
) -> Coverage:
    """Reward groups that cover many clusters of correlated columns.

    d(S) = weight times the share of clusters with a column of S. Clusters come from
    average linkage of the absolute correlations, from the Gram alone.

    Parameters
    ----------
    source : Gram, record or table, as `anytime_sequence` takes it
    target, groups : as in `dash`
    similarity : in (0, 1), mean absolute correlation within a cluster
    weight : >= 0, in shares of the target's variance: d of all groups
    null_policy : as in `dash`

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
    >>> ds.coverage(table, "y", weight=1.0).gains().tolist()  # a and b are one cluster
    [0.5, 0.5, 0.5]
    """
    CoverageOptions(similarity=similarity, weight=weight, null_policy=null_policy)
    search = prepare(source, target, groups, None, null_policy=null_policy)
    return coverage_of(search.problem.G, search.groups.positions, similarity, weight)


def _chosen(
    run: Callable[[Any, Limits], Run[Any]],
    options: DashOptions | GreedyOptions,
    source: Any,
    target: str | None,
    groups: GroupColumns | None,
    costs: Costs | None,
    diversity: Objective | None,
) -> Selected[Any]:
    search: LinearSetup | GlmObjective | None = None
    if target is None and _is_objective(source):
        _check_unselected("objective", source)
    if target is None and _is_objective(source) and not isinstance(source, GlmObjective):
        _check_nameless(source, options, groups=groups, costs=costs)
    else:
        search = open_search(
            source, target, groups, costs, family=options.family, null_policy=options.null_policy
        )
    start: Any = search.state if isinstance(search, LinearSetup) else search or source
    k = options.k
    if k > start.size:
        raise ArgumentError(f"k is {k!r}; it must be a whole number from 1 to {start.size}")
    limits = Limits(k) if search is None else _limits(options, _groups_of(search))
    if diversity is not None:
        _check_diversity(diversity, start)
        start = Sum(start, diversity)
    result = run(start, limits)
    state = result.objective if diversity is None else result.objective.first
    model: Model | GlmModel | None = None
    if isinstance(search, LinearSetup):
        model = Model(**fitted(search, state))
    elif search is not None:
        model = cast(GlmObjective, state).model()
    return Selected(model, tuple(result.objective.held), options.method, _diagnostics(result))


def _diagnostics(result: Run[Any]) -> Diagnostics:
    return Diagnostics(
        value=result.objective.value,
        rounds=len(result.history),
        queries=result.queries,
        history=tuple(result.history),
        opt=result.opt,
        alpha=result.alpha,
        stalled=result.stalled,
        completed=result.completed,
    )


def _groups_of(search: LinearSetup | GlmObjective) -> Groups:
    return search.groups if isinstance(search, LinearSetup) else search.about.groups


def _limits(options: DashOptions | GreedyOptions, groups: Groups) -> Limits:
    """Return what limits a choice: DASH has nothing but k."""
    if isinstance(options, DashOptions):
        return Limits(options.k)
    first = numbers_of(options.always, groups)
    check_first(groups, first, options.budget, None)
    if len(first) > options.k:
        raise ArgumentError(f"always names {len(first)} groups; k allows {options.k}")
    return Limits(options.k, tuple(first), options.budget, groups.costs)


def _is_objective(thing: Any) -> bool:
    return hasattr(thing, "add_all")


def _check_nameless(
    objective: Any, options: DashOptions | GreedyOptions, *, groups: Any, costs: Any
) -> None:
    """Refuse what needs groups with names, where candidates are numbers."""
    if groups is not None:
        raise ArgumentError("groups are given without a target; an objective has its candidates")
    given = {"costs": costs}
    if options.family != "gaussian":
        given["family"] = options.family
    if isinstance(options, GreedyOptions):
        given |= {"budget": options.budget, "always": list(options.always) or None}
    for name, value in given.items():
        if value is not None:
            raise ArgumentError(
                f"{name} is {value!r}; it is for groups, a {type(objective).__name__} has "
                "candidates without names"
            )


def _check_diversity(diversity: Any, start: Any) -> None:
    if not _is_objective(diversity):
        raise ArgumentError(f"diversity is {diversity!r}; it must be an objective")
    _check_unselected("diversity", diversity)
    if diversity.size != start.size:
        raise ArgumentError(
            f"diversity is over {diversity.size} candidates; there are {start.size}"
        )


def _check_unselected(name: str, objective: Objective) -> None:
    """Refuse an objective that does not begin with the empty set."""
    if objective.held:
        raise ArgumentError(
            f"{name} has {len(objective.held)} candidates selected; it must have none"
        )
