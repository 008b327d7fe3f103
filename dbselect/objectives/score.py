"""Any function of columns as an objective, such as the cross-validated score of any model.

    f(S) = mean over folds of score(columns of S) - that of no columns

The standard error of a gain is that of the mean of paired differences, fold by fold.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from dbselect.errors import ArgumentError, ScoreError, ScoreWarning, shown, warn_caller
from dbselect.objectives.answers import Answers, Lazily, ScoreFunction
from dbselect.objectives.contract import Objective, SetFunction
from dbselect.objectives.cross_validated import CrossValidated, scorer_of
from dbselect.options.conditions import NONE, Conditions
from dbselect.options.kinds import EXECUTOR, FINITE, FLAG, NOT_NEGATIVE
from dbselect.record.gram import Vector
from dbselect.record.groups import (
    Costs,
    GroupColumns,
    Groups,
    costs_of,
    groups_of,
    patterns_by_name,
)
from dbselect.record.steps import Ended, fits, within


class Score(SetFunction):
    """A number for every set of groups, from any function of their columns; higher is better.

    An `Objective` for every search of a problem: ``ds.anytime_sequence(score)``. Each set is
    evaluated once for all methods, and a search evaluates sets in batches. A search that adds k of
    J groups evaluates k J sets at most. There are no bounds, as a group may lower the value.

    Parameters
    ----------
    score : list of columns -> a number, or one for each fold; `of` makes one of an estimator
    groups : name -> columns that are bought together
    costs : name -> cost > 0; default: 1 each
    cache : Parquet file that keeps the answers from run to run; one file may hold several scores
    name : of the score in the cache
    executor : a `concurrent.futures.Executor` that evaluates the sets of a batch in parallel: of
        threads, processes, loky, or Dask (``client.get_executor()``)
    empty : score of no columns; default: ``score([])``, or if it fails the lowest of one group
    guide : linear `Problem` of the same groups, for searches with a ``shortlist``; `of` has one
    noise : number of standard errors over the folds within which a gain counts as none
    check : whether one set is evaluated twice, to check that the score repeats

    Raises
    ------
    GroupError : a group is empty; a cost is missing, surplus or not > 0
    ArgumentError : another argument is out of range
    SourceError : the cache is another file

    Examples
    --------
    >>> import dbselect as ds
    >>> worth = {"a": 0.5, "b": 0.3, "c": 0.1}
    >>> score = ds.objectives.Score(
    ...     lambda columns: 1.0 - 0.5 ** sum(worth[name] for name in columns),
    ...     groups={"x": ["a"], "y": ["b", "c"]}, costs={"x": 2.0, "y": 1.0},
    ... )
    >>> ds.anytime_sequence(score).steps["group"].to_list()
    [None, 'y', 'x']
    >>> ds.greedy(score, k=1).groups, score.queries  # no new set: the 4 above, and one twice
    (['x'], 5)
    """

    #: Gains and losses are of companies.
    in_companies = True

    def __init__(
        self,
        score: ScoreFunction,
        groups: GroupColumns,
        costs: Costs | None = None,
        *,
        cache: str | Path | None = None,
        name: str = "",
        executor: Any = None,
        empty: float | None = None,
        guide: Any = None,
        noise: float = 1.0,
        check: bool = True,
    ) -> None:
        if not callable(score):
            raise ArgumentError(f"score is {shown(score)}; it must be a function of columns")
        EXECUTOR.or_none().check("executor", executor)
        FINITE.or_none().check("empty", empty)
        NOT_NEGATIVE.check("noise", noise)
        FLAG.check("check", check)
        columns = patterns_by_name(groups)
        self.about = Groups(columns, costs_of(list(columns), costs))
        self.answers = Answers(score, name, cache, executor, check)
        self.noise, self.guide = noise, guide
        self.held: list[int] = []
        # Shared by copies: the score of no columns, and the groups of each set of columns.
        self._empty: list[Any] = [None if empty is None else np.array([float(empty)])]
        self._sets: dict[frozenset[str], list[int]] = {}
        # For one search: groups that come first and stay, the budget, and the shortlist.
        self.first: list[int] = []
        self.budget: float | None = None
        self.lead: Any = None

    def stored(self) -> dict[str, Any]:
        """Return the record of the score in a file: name, groups, and the score of no columns."""
        costs = dict(zip(self.about.names, self.about.costs.tolist(), strict=True))
        none = float(self.folds(()).mean())
        return {"groups": self.about.columns, "costs": costs, "name": self.label, "empty": none}

    @classmethod
    def of_file(cls, record: Mapping[str, Any]) -> Self:
        """Return a score from a file, which cannot be evaluated."""
        return cls(_Stored(record["name"]), **record)

    @classmethod
    def of(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        cv: Any = 5,
        scoring: Any = None,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        **options: Any,
    ) -> Self:
        """Return the cross-validated score of a scikit-learn estimator, pipelines among them.

        The score of no columns is that of ``DummyClassifier(strategy="prior")`` or
        ``DummyRegressor()``. The cache names the score by the content of estimator, rows, folds
        and scoring: the code of functions, what it closes over, the version of packages.

        Parameters
        ----------
        estimator : with ``fit``; cloned for each fold
        X : frame of Polars or pandas, or an array, whose columns are ``x0``, ``x1``, ...
        y : shape (n,)
        cv, scoring : as of ``sklearn.model_selection.cross_val_score``; rows are split once, so
            that all sets have the same folds
        groups : name -> columns or globs; default: each column
        costs : name -> cost > 0; default: 1 each
        options : `cache`, `name`, `executor`, `noise` and `check`, as of `Score`

        Raises
        ------
        EngineError : scikit-learn is not installed
        ArgumentError, GroupError, ColumnError : an argument does not fit the others

        Examples
        --------
        >>> import dbselect as ds
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> score = ds.objectives.Score.of(
        ...     DecisionTreeClassifier(random_state=0), X, y, groups={"petal": ["petal*"],
        ...     "sepal": ["sepal*"]}, costs={"petal": 3.0, "sepal": 1.0})
        >>> ds.anytime_sequence(score).steps.select("group", "useful").rows()
        [(None, True), ('sepal', True), ('petal', True)]
        """
        scorer = scorer_of(estimator, X, y, cv, scoring)
        alone = {column: [column] for column in scorer.columns}
        about = groups_of(scorer.columns, alone if groups is None else groups, costs, sharing=True)
        score = cls(scorer, about.columns, **_named(scorer, options))
        score.about = about
        return score

    def __repr__(self) -> str:
        return f"Score({self.label}; {self.size} groups, {len(self.answers.known)} sets answered)"

    @property
    def label(self) -> str:
        """Short name of the score."""
        score: Any = self.answers.score
        if isinstance(score, CrossValidated | _Stored):
            return score.label
        return str(getattr(score, "__name__", type(score).__name__))

    @property
    def groups(self) -> list[str]:
        """Names of the candidates."""
        return self.about.names

    @property
    def size(self) -> int:
        """Number of candidates."""
        return len(self.about.names)

    @property
    def queries(self) -> int:
        """Number of calls of the score so far."""
        return self.answers.queries

    @property
    def value(self) -> float:
        """Score of the selected groups, above that of none."""
        return self.value_of(self.held)

    def value_of(self, held: Iterable[int]) -> float:
        """Return the score of some groups above that of none; evaluate it if it is new."""
        return float(self.folds(held).mean() - self.folds(()).mean())

    def folds(self, held: Iterable[int]) -> Vector:
        """Return the score of some groups on each fold; one number without folds."""
        columns = self._columns(held)
        if not columns:
            return self._of_none()
        self.answers.ask([columns])
        return self.answers.known[frozenset(columns)]

    def ask(self, sets: Iterable[Sequence[int]]) -> None:
        """Evaluate several sets in one batch."""
        self._of_none()
        self.answers.ask([columns for held in sets if (columns := self._columns(held))])

    def hold(self, candidates: Sequence[int]) -> None:
        """Select several candidates; their set is evaluated with the next batch that needs it."""
        self.held = [*self.held, *candidates]

    def around(self) -> list[list[int]]:
        """Return the sets that differ from the selected one by one group, and what goes with it."""
        more = [self._with(group) for group in self._queried()]
        return more + [self._without(out) for out in self._free()]

    def gains(self) -> Vector:
        """Return the gain of each group; 0 for the selected ones.

        In a search, infinity (unknown) for groups beyond the budget, and minus infinity for groups
        that are not on the shortlist.
        """
        fitting, queried = self._fitting(), self._queried()
        gains = np.where(fitting, -np.inf, np.inf)
        gains[self.held] = 0.0
        self.ask([self.held, *map(self._with, queried)])
        for group in queried:
            gains[group] = self.value_of(self._with(group)) - self.value
        return gains

    def losses(self) -> Vector:
        """Return the loss of removing each selected group; 0 for others and those that stay."""
        losses, sets = np.zeros(self.size), {}
        for removed in self._free():
            sets[removed] = self._without(removed)
        self.ask([self.held, *sets.values()])
        for removed, held in sets.items():
            losses[removed] = self.value - self.value_of(held)
        return losses

    def best_known(self, first: Sequence[int], most: int, budget: float | None) -> Self:
        """Return the best evaluated set that has `first` and keeps to the limits."""
        best = self.copy()
        sets = [
            held for columns, held in self._sets.items()
            if columns in self.answers.known and len(held) <= most and set(first).issubset(held)
            and fits(self.about.spent(held), budget)
            and self.about.prices.allows(held)
        ]  # fmt: skip
        best.held = list(max(sets, key=self.value_of, default=[]))
        return best

    def searched(
        self,
        costs: Costs | None,
        first: Sequence[int],
        limits: Mapping[str, Any],
        lead: Any = None,
        seed: int = 0,
        told: Conditions = NONE,
    ) -> Self:
        """Return a score without selected groups for one search.

        Parameters
        ----------
        costs : other costs
        first : groups that come first and stay
        limits : budget, executor, max_queries, time_limit, lazy and sample
        lead : score, groups -> the groups to evaluate; None evaluates all, or as limits say
        seed : of the groups that ``sample`` draws
        told : conditions on sets of groups
        """
        score = self.copy()
        if costs is not None or told:
            own = self.about.costs if costs is None else costs_of(self.about.names, costs, told)
            score.about = replace(self.about, costs=own, told=told)
        score.first, score.budget = list(first), limits.get("budget")
        # A choice of k compares gains, a sequence gains per cost.
        units = np.ones(score.size) if "k" in limits else score.about.costs
        executor = limits.get("executor") or self.answers.executor
        score.lead = lead or Lazily.of({**limits, "executor": executor}, units, seed)
        score.answers = self.answers.within(
            limits.get("max_queries"), limits.get("time_limit"), limits.get("executor")
        )
        return score

    def _fitting(self) -> Any:
        """Return which groups the budget and the conditions let come."""
        offers = self.about.prices.offers(self.held)
        return offers.among(within(self.about.spent(self.held) + offers.costs, self.budget))

    def _with(self, group: int) -> list[int]:
        return [*self.held, *self.about.prices.with_needs(group, self.held)]

    def _without(self, group: int) -> list[int]:
        going = self.about.prices.with_dependents(group, self.held)
        return [other for other in self.held if other not in going]

    def _queried(self) -> list[int]:
        """Return the groups whose gains are evaluated."""
        if len(self.held) < len(self.first):
            return [group for group in self.first if group not in self.held][:1]
        fitting = self._fitting()
        fitting[self.held] = False
        groups = np.flatnonzero(fitting).tolist()
        return groups if self.lead is None else list(self.lead(self, groups))

    def _free(self) -> list[int]:
        return [group for group in self.held if group not in self.first]

    def _columns(self, held: Iterable[int]) -> list[str]:
        """Return the columns of some groups, each once, in the order of the groups."""
        groups = list(held)
        names = (name for g in sorted(groups) for name in self.about.columns[self.groups[g]])
        columns = list(dict.fromkeys(names))
        self._sets.setdefault(frozenset(columns), groups)
        return columns

    def _of_none(self) -> Vector:
        """Return the score of no columns; if it fails, the lowest score of one group."""
        if self._empty[0] is None:
            answer = self.answers.of_none()
            if isinstance(answer, Exception):
                singles = [self._columns([group]) for group in range(self.size)]
                try:
                    self.answers.ask(singles)
                except Ended as ended:
                    raise ScoreError(f"{ended}, and score([]) fails: give empty=") from answer
                scores = [self.answers.known[frozenset(columns)] for columns in singles]
                least = min(scores, key=np.mean)
                warn_caller(
                    f"score([]) fails ({type(answer).__name__}: {answer}); no columns count as the "
                    f"least of one group, {least.mean():g}: give empty=, the score of no columns",
                    ScoreWarning,
                )
                answer = least
            self._empty[0] = answer
        score: Vector = self._empty[0]
        return score


def _named(scorer: CrossValidated, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a score with its name in the cache; without a name there is no cache."""
    if scorer.name is not None or "name" in options:
        return {"name": scorer.name, **options}
    if options.get("cache") is not None:
        warn_caller(
            f"cache is not used: another process could not recognise {scorer.label}, which holds "
            "an object without content to compare; give name=",
            ScoreWarning,
        )
    return {"name": "", **options, "cache": None}


def std_error(after: Vector, before: Vector) -> float:
    """Return the standard error of the mean difference over folds; NaN without folds."""
    paired = after - before
    return float(paired.std(ddof=1) / len(paired) ** 0.5) if len(paired) > 1 else np.nan


def set_by_set(objective: Objective, limits: Mapping[str, Any], seed: int) -> Score:
    """Return an objective as a score, which evaluates copies of it in threads or processes."""
    groups = {str(candidate): [str(candidate)] for candidate in range(objective.size)}
    score = Score(partial(_value_with, objective), groups, empty=objective.value, check=False)
    return score.searched(None, (), limits, seed=seed)


def _value_with(objective: Objective, columns: Sequence[str]) -> float:
    trial = objective.copy()
    trial.add_all([int(name) for name in columns])
    return trial.value


@dataclass(frozen=True)
class _Stored:
    """The function of a score that was read from a file."""

    label: str

    def __call__(self, columns: Any) -> float:
        del columns
        raise ArgumentError(f"{self.label} was read from a file, which has no function")
