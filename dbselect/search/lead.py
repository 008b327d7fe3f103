"""A linear model that says first which groups are worth a slow question.

A step asks only about groups whose linear gain per cost, which costs nothing beside a fit of a
large model, is within reach of the best.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from dbselect.engine.linear_state import LinearState
from dbselect.errors import ArgumentError
from dbselect.objectives.cross_validated import CrossValidated
from dbselect.objectives.score import Score
from dbselect.record.foreign import in_memory
from dbselect.sources.partial.learn import terms as learnt
from dbselect.spec.spec import Spec

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
    return Spec.problem(
        frame, list(targets), score.about.columns, null_policy="indicator", terms=terms
    )
