"""Choosing k candidates: DASH and its baselines, on a Gram or on any objective."""

import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.methods.glm_objective import GlmObjective
from dbselect.methods.setup import fitted, prepare
from dbselect.objectives.contract import Objective
from dbselect.objectives.diversity import Coverage, Sum, coverage_of
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import Model
from dbselect.selection import dash as sampling
from dbselect.selection.dash import Run
from dbselect.sources.request import NullPolicy

Groups = Mapping[str, Iterable[str]] | None


@dataclass(frozen=True)
class Diagnostics:
    """How k candidates were chosen.

    Parameters
    ----------
    value : of the objective, diversity included
    rounds : adaptive rounds: turns of queries that had to wait for others
    queries : sets whose value was asked for
    history : value after each round
    opt, alpha : the guess that won; None for the baselines
    stalled : sets taken because a filter step left everybody in
    completed : candidates taken because too few passed the filter
    """

    value: float
    rounds: int
    queries: int
    history: tuple[float, ...]
    opt: float | None
    alpha: float | None
    stalled: int
    completed: int


@dataclass(frozen=True)
class ChosenModel(Model):
    """The linear model on the chosen groups, and how they were chosen.

    Parameters
    ----------
    target, intercept, coefficients, groups, spent, explained, r2, aliased : as in `Model`
    diagnostics : Diagnostics
    fit : as in `Model`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.greedy(table, "y", k=2).diagnostics.rounds
    2
    """

    diagnostics: Diagnostics


@dataclass(frozen=True)
class Selection:
    """The chosen candidates of any objective, in the order taken.

    Parameters
    ----------
    chosen : numbers of the candidates
    diagnostics : Diagnostics
    model : on the chosen groups, of a `glm_objective`; None of other objectives

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3], "b": [1, 2, 4], "c": [0, 5, 0], "y": [1, 2, 3]})
    >>> ds.greedy(ds.coverage(table, "y"), k=2).chosen  # a and c: a and b are one cluster
    (0, 2)
    """

    chosen: tuple[int, ...]
    diagnostics: Diagnostics
    model: GlmModel | None = None


def dash(
    objective: Any,
    target: str | None = None,
    k: int | None = None,
    *,
    groups: Groups = None,
    rounds: int | None = None,
    samples: int = 5,
    epsilon: float = 0.1,
    opt: float | None = None,
    alpha: float | None = None,
    diversity: Objective | None = None,
    seed: int = 0,
    null_policy: NullPolicy = "skip",
) -> ChosenModel | Selection:
    """Choose k groups in few adaptive rounds, random sets of good ones at a time.

    Parameters
    ----------
    objective : Gram, record or table, as `anytime_sequence` takes it; or, without a target,
        a `glm_objective` or another object that meets
        `dbselect.objectives.contract.Objective`
    target : column to predict
    k : how many groups or candidates to choose
    groups : name -> columns or globs; default: every top-level field but the target
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
    ChosenModel, or Selection for an objective; `diagnostics` says how it went

    Raises
    ------
    ArgumentError : k, rounds, samples, epsilon, opt or alpha out of range; an objective
        with selected candidates, or with `groups`; `diversity` is no objective over the
        same candidates
    ColumnError, GroupError, DataError : as `anytime_sequence`

    Notes
    -----
    At most some ``2 rounds`` adaptive rounds, each `samples` times O(D |S| k / rounds) and
    all gains. On a ready Gram the exact greedy search is cheap as well; DASH pays where
    an answer of the objective is slow and many can be asked side by side.

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
    check_dash(rounds, samples, epsilon, opt, alpha, seed)

    def run(start: Objective, k: int) -> Run[Any]:
        if rounds is not None and rounds > k:
            raise ArgumentError(f"rounds is {rounds!r}; there are only k = {k} to choose")
        return sampling.best_guess(
            start, k, rounds=rounds or sampling.default_rounds(start.size, k), samples=samples,
            epsilon=epsilon, opt=opt, alpha=alpha, seed=seed,
        )  # fmt: skip

    return _chosen(run, objective, target, k, groups, diversity, null_policy)


def greedy(
    objective: Any,
    target: str | None = None,
    k: int | None = None,
    *,
    groups: Groups = None,
    diversity: Objective | None = None,
) -> ChosenModel | Selection:
    """Choose k groups, the largest gain each time: k adaptive rounds.

    Parameters
    ----------
    objective, target, k, groups, diversity : as in `dash`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.greedy(table, "y", k=1).groups
    ['a']
    """
    return _chosen(sampling.greedy_choice, objective, target, k, groups, diversity)


def top_k(
    objective: Any,
    target: str | None = None,
    k: int | None = None,
    *,
    groups: Groups = None,
    diversity: Objective | None = None,
) -> ChosenModel | Selection:
    """Choose the k groups that are best alone: one adaptive round.

    Parameters
    ----------
    objective, target, k, groups, diversity : as in `dash`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.top_k(table, "y", k=1).groups
    ['a']
    """
    return _chosen(sampling.top_k_choice, objective, target, k, groups, diversity)


def random_k(
    objective: Any,
    target: str | None = None,
    k: int | None = None,
    *,
    groups: Groups = None,
    diversity: Objective | None = None,
    seed: int = 0,
) -> ChosenModel | Selection:
    """Choose k groups at random.

    Parameters
    ----------
    objective, target, k, groups, diversity, seed : as in `dash`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> len(ds.random_k(table, "y", k=1).groups)
    1
    """
    check_dash(seed=seed)

    def run(start: Objective, k: int) -> Run[Any]:
        return sampling.random_choice(start, k, np.random.default_rng(seed))

    return _chosen(run, objective, target, k, groups, diversity)


def coverage(
    gram: Any,
    target: str,
    *,
    groups: Groups = None,
    similarity: float = 0.7,
    weight: float = 0.1,
) -> Coverage:
    """Reward groups that cover many clusters of correlated columns.

    d(S) = weight times the share of clusters with a column of S. Clusters come from
    average linkage of the absolute correlations, from the Gram alone.

    Parameters
    ----------
    gram, target, groups : as in `dash`
    similarity : in (0, 1), mean absolute correlation within a cluster
    weight : >= 0, in shares of the target's variance: d of all groups

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
    if not (isinstance(similarity, numbers.Real) and 0 < similarity < 1):
        raise ArgumentError(f"similarity is {similarity!r}; it must lie between 0 and 1")
    if not (isinstance(weight, numbers.Real) and 0 <= weight < np.inf):
        raise ArgumentError(f"weight is {weight!r}; it must be a number >= 0")
    search = prepare(gram, target, groups, None)
    return coverage_of(search.problem.G, search.groups.positions, similarity, weight)


def check_dash(
    rounds: Any = None,
    samples: Any = 5,
    epsilon: Any = 0.1,
    opt: Any = None,
    alpha: Any = None,
    seed: Any = 0,
    **_: Any,
) -> None:
    """Refuse options that no objective could make right."""
    for name, value, least in (("rounds", rounds, 1), ("samples", samples, 1), ("seed", seed, 0)):
        if value is None and name == "rounds":
            continue
        if not (isinstance(value, numbers.Integral) and int(value) >= least):
            raise ArgumentError(f"{name} is {value!r}; it must be a whole number >= {least}")
    if not (isinstance(epsilon, numbers.Real) and 0 < float(epsilon) < 1):
        raise ArgumentError(f"epsilon is {epsilon!r}; it must lie between 0 and 1")
    if opt is not None and not (isinstance(opt, numbers.Real) and 0 < float(opt) < np.inf):
        raise ArgumentError(f"opt is {opt!r}; it must be a number > 0, or None for a guess")
    if alpha is not None and not (isinstance(alpha, numbers.Real) and 0 < float(alpha) <= 1):
        raise ArgumentError(f"alpha is {alpha!r}; it must lie in (0, 1], or None for a guess")


def _chosen(
    run: Callable[[Any, int], Run[Any]],
    objective: Any,
    target: str | None,
    k: int | None,
    groups: Groups,
    diversity: Objective | None,
    null_policy: NullPolicy = "skip",
) -> ChosenModel | Selection:
    search = None
    if target is not None:
        search = prepare(objective, target, groups, None, null_policy=null_policy)
    start = objective if search is None else search.state
    if search is None and not _is_objective(objective):
        raise ArgumentError(
            f"target is None; a {type(objective).__name__} needs the name of a column to predict"
        )
    if search is None and groups is not None:
        raise ArgumentError("groups are given without a target; an objective has its candidates")
    _check_unselected("objective", start)
    if not (isinstance(k, numbers.Integral) and 1 <= int(k) <= start.size):
        raise ArgumentError(f"k is {k!r}; it must be a whole number from 1 to {start.size}")
    if diversity is not None:
        if not _is_objective(diversity):
            raise ArgumentError(f"diversity is {diversity!r}; it must be an objective")
        _check_unselected("diversity", diversity)
        if diversity.size != start.size:
            raise ArgumentError(
                f"diversity is over {diversity.size} candidates; there are {start.size}"
            )
        start = Sum(start, diversity)
    result = run(start, int(k))
    diagnostics = Diagnostics(
        value=result.objective.value,
        rounds=len(result.history),
        queries=result.queries,
        history=tuple(result.history),
        opt=result.opt,
        alpha=result.alpha,
        stalled=result.stalled,
        completed=result.completed,
    )
    state = result.objective if diversity is None else result.objective.first
    if search is None:
        model = state.model() if isinstance(state, GlmObjective) else None
        return Selection(tuple(result.objective.held), diagnostics, model)
    return ChosenModel(**fitted(search, state), diagnostics=diagnostics)


def _is_objective(thing: Any) -> bool:
    return hasattr(thing, "add_all")


def _check_unselected(name: str, objective: Objective) -> None:
    """Refuse an objective that does not begin with the empty set."""
    if objective.held:
        raise ArgumentError(
            f"{name} has {len(objective.held)} candidates selected; it must have none"
        )
