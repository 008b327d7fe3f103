"""A search on a score: every gain is asked, those of a step in one batch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, shown
from dbselect.linear.state import LinearState
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
from dbselect.selection.removal import Usefulness
from dbselect.sources.partial.learn import terms as learnt
from dbselect.spec.spec import Spec, problem_of

#: Columns of the spline of a number, and distinct values from which on it has one.
SPLINE_COLUMNS, SPLINE_VALUES = 4, 10
#: The target, or the indicators of its classes, among the columns of the rows.
_TARGET = "target of the score"


@dataclass(eq=False)
class Lead:
    """Which groups to ask, by their gain in a linear model."""

    state: LinearState  # of the linear model, its groups those of the score
    share: float  # of the largest gain per cost that a group has to reach
    _none: LinearState = field(init=False)

    def __post_init__(self) -> None:
        self._none = self.state.copy()

    def __call__(self, score: Score, among: list[int]) -> list[int]:
        """Return those of some groups that are worth asking, the best first."""
        held = score.held
        if self.state.held != held[: len(self.state.held)]:
            self.state = self._none.copy()
        new = held[len(self.state.held) :]
        if new:
            self.state.add_all(new)
        worth = (self.state.gains() / score.about.costs)[among]
        order = np.argsort(-worth, kind="stable")
        least = self.share * worth.max(initial=0.0)
        return [among[at] for at in order.tolist() if worth[at] >= least]


def lead_of(score: Score, share: float | None, search_of: Callable[[Spec], Any]) -> Lead | None:
    """Return the linear model that leads the search of a score; None where nothing leads it.

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
    levels = [] if numeric else y.unique().sort().to_list()
    # The indicator of the last of some classes depends on the others.
    targets = {_TARGET: y} if numeric else {f"{_TARGET}, {one}": y == one for one in levels[:-1]}
    numbers = frame.select(pl.selectors.numeric())
    curved = [name for name in numbers.columns if numbers[name].n_unique() > SPLINE_VALUES]
    frame = frame.with_columns(**{name: one.cast(pl.Float64) for name, one in targets.items()})
    basis = dict.fromkeys(curved, ("spline", SPLINE_COLUMNS))
    texts = frame.select(pl.selectors.string()).columns
    terms = learnt(frame, categories=texts, basis=basis)
    return problem_of(
        frame, list(targets), score.about.columns, null_policy="indicator", terms=terms
    )


#: Options of a search that are about slow answers.
OF_SCORES = ("executor", "max_queries", "time_limit", "shortlist")


@dataclass(eq=False)
class ScoreSearch(Search):
    """Any function of columns."""

    state: Score

    def criterion(self, rule: str, budget: float | None = None) -> Criterion:
        """Return the gain; where that is a loss, the dearer group is the worse."""
        one_of(("fr", "doubling")).check("rule", rule)
        # So many groups, whatever they gain, are asked for by a limit on their number.
        stops = "max_groups" not in self.call.options

        def worth(state: Score) -> Vector:
            gains = state.gains()
            if stops and len(state.held) >= len(self.first) and self._is_noise(state, gains):
                raise Ended(Stop.NOISE)
            return self._harm_counts(gains)

        return worth

    def _harm_counts(self, changes: Vector) -> Vector:
        """Return changes of the score before the cost, of which a fall is the worse the dearer."""
        return np.where(changes < 0, changes * self.groups.costs**2, changes)

    def _is_noise(self, state: Score, gains: Vector) -> bool:
        """Whether every gain that was asked lies within its standard error."""
        before = state.folds(state.held)
        tried = np.setdiff1d(np.flatnonzero(np.isfinite(gains)), state.held)
        errors = [std_error(state.folds([*state.held, one]), before) for one in tried.tolist()]
        # Without folds no error is known, and none is above it.
        return bool(tried.size) and bool((gains[tried] <= state.noise * np.array(errors)).all())

    def usefulness(self, backward: str) -> Usefulness:
        """Return the loss; that of a group that does harm is below 0."""
        one_of(("loss",)).check("backward", backward)
        return lambda state: self._harm_counts(state.losses())

    def kept(self) -> Any:
        """Return the score of the groups held on each fold, and the questions so far."""
        return self.state.folds(self.state.held), self.state.queries

    def restored(self, steps: Sequence[Step]) -> None:
        """Bring the state back to the last step."""
        self.state.held = held_after(steps)

    def sequence(self, rule: str, steps: list[Step], kept: list[Any], stop: Stop) -> ScoreSequence:
        """Return the sequence of some steps."""
        return ScoreSequence(
            self.groups, rule, steps, [folds for folds, _ in kept],
            np.array([queries for _, queries in kept]), stop, self.state.noise, call=self.call,
        )  # fmt: skip

    def model(self, state: Score) -> ScoreModel:
        """Return what is known of the selected groups of a state."""
        return ScoreModel.of(self.groups, state.held, state.folds(state.held), self.call)


def score_search(
    problem: Spec,
    call: Call,
    given: Mapping[str, object],
    search_of: Callable[[Spec], Any],
) -> ScoreSearch:
    """Return the search of a score; `search_of` opens that of the problem that leads it."""
    source, options = cast(Score, problem.source), cast(Mapping[str, Any], given)
    check_unselected("score", source)
    first = numbers_of(problem.always, source.about)
    resumed = options.get("resume")
    if resumed is not None:
        own = isinstance(resumed, ScoreSequence) and resumed.score.answers.name
        if own != source.answers.name:
            raise ArgumentError(
                f"resume is {shown(resumed)}; it must be an earlier result of the same score"
            )
        source.answers.take(resumed.score.answers)
    lead = lead_of(source, options.get("shortlist"), search_of)
    state = source.searched(problem.costs, first, options, lead)
    return ScoreSearch(call, state.about, first, state)


def check_slow(source: Any, method: str, options: Mapping[str, Any]) -> None:
    """Refuse options of slow answers where nothing is asked."""
    if isinstance(source, Score):
        return
    for name in OF_SCORES:
        value = options.get(name)
        if value is None:
            continue
        own = method == "best_within" and name == "time_limit"
        apart = is_objective(source) and "k" in options and name != "shortlist"
        if not (own or apart):
            raise ArgumentError(
                f"{name} is {shown(value)}; it is for objectives whose answers are slow, as "
                "dbselect.objectives.Score makes one"
            )
