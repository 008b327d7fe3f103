"""Search on a score: the gains of a step are queries of the score, in one batch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, shown
from dbselect.linear.state import LinearState
from dbselect.objectives.answers import Lazily
from dbselect.objectives.contract import check_unselected, is_objective
from dbselect.objectives.cross_validated import CrossValidated
from dbselect.objectives.score import Score, std_error
from dbselect.options.kinds import one_of
from dbselect.record.foreign import in_memory
from dbselect.record.gram import Vector
from dbselect.record.groups import numbers_of
from dbselect.record.steps import Ended, Step, Stop, held_after
from dbselect.results.call import Call
from dbselect.results.scored import ScoreModel, ScoreSequence
from dbselect.search.protocol import Search
from dbselect.selection.criteria import Criterion
from dbselect.selection.moves import Usefulness, together
from dbselect.sources.partial.learn import terms as learnt
from dbselect.spec.spec import Spec, problem_of

#: Columns of a spline, and distinct values that a numeric column with a spline exceeds.
SPLINE_COLUMNS, SPLINE_VALUES = 4, 10
#: The target, or the indicators of its classes, among the columns of the rows.
_TARGET = "target of the score"


@dataclass(eq=False)
class Lead:
    """Shortlist of candidates, by their gain per cost in a linear model."""

    state: LinearState  # of the linear model, with the groups of the score
    share: float  # of the largest gain per cost that a group has to reach
    _none: LinearState = field(init=False)

    def __post_init__(self) -> None:
        self._none = self.state.copy()

    def __call__(self, score: Score, among: list[int]) -> list[int]:
        """Return the groups of `among` that are worth a query, the best first."""
        held = score.held
        if self.state.held != held[: len(self.state.held)]:
            self.state = self._none.copy()
        new = held[len(self.state.held) :]
        if new:
            self.state.add_all(new)
        prices = score.about.prices
        gains = together(self.state, prices, "add")
        worth = (gains / prices.offers(held).counted)[among]
        order = np.argsort(-worth, kind="stable")
        least = self.share * worth.max(initial=0.0)
        return [among[at] for at in order.tolist() if worth[at] >= least]


def lead_of(score: Score, share: float | None, search_of: Callable[[Spec], Any]) -> Lead | None:
    """Return the linear model that shortlists candidates; None without a `shortlist`.

    `search_of` opens the search of a problem whose groups may share columns.
    """
    if share is None:
        return None
    problem = score.guide
    if problem is None:
        scorer = score.answers.score
        if not isinstance(scorer, CrossValidated):
            raise ArgumentError(
                f"shortlist is {share}; the score is a function, which has no rows: give it "
                "guide=Problem(table, target, groups)"
            )
        problem = _problem(scorer, score)
    search = search_of(problem)
    if search.groups.names != score.groups:
        raise ArgumentError(f"guide has groups {search.groups.names}; the score has {score.groups}")
    return Lead(search.state, float(share))


def _problem(scorer: CrossValidated, score: Score) -> Any:
    if isinstance(scorer.X, np.ndarray):
        frame = pl.DataFrame(scorer.X, schema=scorer.columns)
    else:
        frame = in_memory(scorer.X)
    frame = frame.with_columns(pl.selectors.categorical().cast(pl.String))
    y = pl.Series(scorer.y)
    numeric = y.dtype.is_numeric() and not scorer.classifies
    # The indicator of the last class depends on the others.
    levels = [] if numeric else y.unique().sort().to_list()[:-1]
    targets = {_TARGET: y} if numeric else {f"{_TARGET}, {level}": y == level for level in levels}
    numbers = frame.select(pl.selectors.numeric())
    curved = [name for name in numbers.columns if numbers[name].n_unique() > SPLINE_VALUES]
    frame = frame.with_columns(**{key: target.cast(pl.Float64) for key, target in targets.items()})
    basis = dict.fromkeys(curved, ("spline", SPLINE_COLUMNS))
    texts = frame.select(pl.selectors.string()).columns
    terms = learnt(frame, categories=texts, basis=basis)
    return problem_of(
        frame, list(targets), score.about.columns, null_policy="indicator", terms=terms
    )


#: Options of a search that are for slow scores.
OF_SCORES = ("executor", "max_queries", "time_limit", "shortlist", "lazy", "sample")


@dataclass(eq=False)
class ScoreSearch(Search):
    """Search on a score, any function of sets of groups."""

    state: Score

    def criterion(self, rule: str, budget: float | None = None) -> Criterion:
        """Return the gain; a negative gain counts more for a dearer group."""
        one_of(("fr", "doubling")).check("rule", rule)
        # With max_groups the search takes so many groups, whatever they gain.
        stops = "max_groups" not in self.call.options

        def worth(state: Score) -> Vector:
            gains = state.gains()
            if stops and len(state.held) >= len(self.first) and self._is_noise(state, gains):
                if isinstance(state.lead, Lazily):
                    # Groups that wait may gain more than their errors.
                    state.lead.last.clear()
                    gains = state.gains()
                if self._is_noise(state, gains):
                    raise Ended(Stop.NOISE)
            return _harm_counts(gains, self.groups.prices.offers(state.held).counted)

        return worth

    def _is_noise(self, state: Score, gains: Vector) -> bool:
        """Whether all gains that were queried are within their standard errors."""
        before = state.folds(state.held)
        tried = np.setdiff1d(np.flatnonzero(np.isfinite(gains)), state.held)
        errors = [std_error(state.folds([*state.held, group]), before) for group in tried.tolist()]
        # Without folds the errors are NaN, and no gain counts as noise.
        return bool(tried.size) and bool((gains[tried] <= state.noise * np.array(errors)).all())

    def usefulness(self, backward: str) -> Usefulness:
        """Return the loss, which is negative for a group that lowers the score."""
        one_of(("loss",)).check("backward", backward)
        return lambda state: _harm_counts(state.losses(), self.groups.prices.given_back(state.held))

    def kept(self) -> Any:
        """Return the score of the selected groups on each fold, and the queries so far."""
        return self.state.folds(self.state.held), self.state.queries

    def restored(self, steps: Sequence[Step]) -> None:
        """Restore the state after the last step."""
        self.state.held = held_after(steps)

    def sequence(self, rule: str, steps: list[Step], kept: list[Any], stop: Stop) -> ScoreSequence:
        """Build the sequence of the steps."""
        return ScoreSequence(
            self.groups, rule, steps, [folds for folds, _ in kept],
            np.array([queries for _, queries in kept]), stop, self.state.noise, call=self.call,
        )  # fmt: skip

    def model(self, state: Score) -> ScoreModel:
        """Return the score of the selected groups of a state, without a model of columns."""
        return ScoreModel.of(self.groups, state.held, state.folds(state.held), self.call)


def _harm_counts(changes: Vector, costs: Vector) -> Vector:
    """Scale negative changes by cost squared, so that per cost a dearer group is worse."""
    return np.where(changes < 0, changes * costs**2, changes)


def score_search(
    problem: Spec,
    call: Call,
    options: Mapping[str, object],
    search_of: Callable[[Spec], Any],
) -> ScoreSearch:
    """Set up the search of a score; `search_of` opens that of its linear model."""
    source, values = cast("Score", problem.source), cast("Mapping[str, Any]", options)
    check_unselected("score", source)
    told = replace(source.about, told=problem.told) if problem.told else source.about
    first = numbers_of(problem.always, told)
    resumed = values.get("resume")
    if resumed is not None:
        name = isinstance(resumed, ScoreSequence) and resumed.score.answers.name
        if name != source.answers.name:
            raise ArgumentError(
                f"resume is {shown(resumed)}; it must be an earlier result of the same score"
            )
        source.answers.take(resumed.score.answers)
    _check_lazy(values, bool(problem.told))
    lead = lead_of(source, values.get("shortlist"), search_of)
    state = source.searched(problem.costs, first, values, lead, problem.seed, problem.told)
    return ScoreSearch(call, state.about, first, state)


def _check_lazy(options: Mapping[str, Any], has_conditions: bool) -> None:
    """Refuse options that choose the groups to ask about in two ways, or by costs that fall."""
    lazy, sample, share = (options.get(name) for name in ("lazy", "sample", "shortlist"))
    name, value = ("lazy", lazy) if lazy else ("sample", sample)
    if not value:
        return
    if share is not None:
        raise ArgumentError(f"{name} is {shown(value)}; it does not go with shortlist")
    if options.get("rule") == "doubling":
        raise ArgumentError(f"{name} is {shown(value)}; it needs rule='fr', not 'doubling'")
    if has_conditions:
        raise ArgumentError(
            f"{name} is {shown(value)}; it does not go with shared, needs, one_of or limits, by "
            "which costs change from step to step"
        )


def check_slow(source: Any, method: str, options: Mapping[str, Any]) -> None:
    """Refuse options for slow scores if the source is no score."""
    if isinstance(source, Score):
        return
    for name in OF_SCORES:
        value = options.get(name)
        if value is None or value is False:
            continue
        is_time_limit = (
            method in ("best_within", "near_best", "break_even") and name == "time_limit"
        )
        is_for_objectives = is_objective(source) and "k" in options and name != "shortlist"
        if not (is_time_limit or is_for_objectives):
            raise ArgumentError(
                f"{name} is {shown(value)}; it is for objectives whose answers are slow, as "
                "dbselect.objectives.Score makes one"
            )
