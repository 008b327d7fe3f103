"""Which prefix predicts best on rows held out, by scikit-learn's splits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from sklearn.model_selection import check_cv

from dbselect.errors import ArgumentError
from dbselect.options.kinds import one_of
from dbselect.record.gram import Vector
from dbselect.record.steps import longest_within
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.joint import AnySequence, JointSequence
from dbselect.sklearn.training import Training
from dbselect.sources.rows import Index
from dbselect.validation.scoring.evaluate import squared_errors
from dbselect.validation.scoring.row_scores import row_scores

#: Rows to fit to and rows to judge, in pairs.
Splits = list[tuple[Index, Index]]
#: Which candidate is taken, as of `cross_validate`.
CHOICES = ("best", "one_standard_error")
#: Shares that differ by less are equally good: the shorter prefix is taken.
EQUAL = 1e-6


def splits_of(cv: Any, y: Any, kept: Index, *, classifier: bool = False) -> Splits | None:
    """Return splits, of `cv` or as GridSearchCV has them, numbered among the rows `kept`."""
    if cv is None:
        return None
    number = np.full(len(y), -1)
    number[kept] = np.arange(len(kept))
    found = check_cv(cv, y, classifier=classifier).split(np.empty((len(y), 1)), y)
    both = [(number[fitted], number[judged]) for fitted, judged in found]
    return [(fitted[fitted >= 0], judged[judged >= 0]) for fitted, judged in both]


def chosen_step(
    sequence: AnySequence,
    training: Training,
    splits: Splits,
    search: Callable[[Training], AnySequence],
    choice: str,
) -> tuple[int, pl.DataFrame]:
    """Return the step whose budget is best on the rows held out, and what each scored.

    ``"one_standard_error"`` takes the cheapest within a standard error of it. The frame has step,
    spent, mean and std_error of the share explained: of what there is in all rows, as a fold may
    have one value only. ArgumentError for another choice, or fewer than two splits.
    """
    one_of(CHOICES).check("choice", choice)
    if len(splits) < 2:
        raise ArgumentError(f"cv gives {len(splits)} split; at least 2 are needed")
    errors = [
        _errors(search, training.of(fitted), training.of(judged), sequence)
        for fitted, judged in splits
    ]
    scores = 1.0 - np.array(errors) / _to_explain(sequence, training)
    mean = scores.mean(axis=0)
    error = scores.std(axis=0, ddof=1) / np.sqrt(len(splits))
    best = int(np.flatnonzero(mean >= mean.max() - EQUAL)[0])
    step = best
    if choice == "one_standard_error":
        good = np.flatnonzero(mean >= mean[best] - error[best])
        step = int(good[sequence.spent[good].argmin()])
    table = sequence.steps.select("step", "spent").with_columns(mean=mean, std_error=error)
    return step, table


def _errors(
    search: Callable[[Training], AnySequence],
    fitted: Training,
    judged: Training,
    whole: AnySequence,
) -> Vector:
    """Return the error of each budget's prefix on rows that the search has not seen."""
    budgets = whole.spent
    if not isinstance(whole, GlmSequence) and (fitted.y == fitted.y[0]).all():
        # Nothing is searched where nothing varies: the mean is the model at any budget.
        squares = np.square(judged.y - fitted.y[0]).mean(axis=1)
        return np.full(len(budgets), np.average(squares, weights=judged.weight))
    found = search(fitted)
    steps = [longest_within(found.spent, float(budget)) for budget in budgets]
    if isinstance(found, GlmSequence):
        return np.asarray(row_scores(found, judged.frame(), judged.weight_name).deviance[steps])
    responses = list(found.responses.values()) if isinstance(found, JointSequence) else [found]
    gram = judged.gram()
    return np.asarray(np.mean([squared_errors(own, gram)[0] for own in responses], axis=0)[steps])


def _to_explain(sequence: AnySequence, training: Training) -> float:
    """Return the error of the model without columns, on the rows of the search."""
    weight = len(training.y) if training.weight is None else training.weight.sum()
    if isinstance(sequence, GlmSequence):
        return float(sequence.deviance[0] / weight)
    center = np.average(training.y, axis=0, weights=training.weight)
    squares = np.square(training.y - center).mean(axis=1)
    return float(np.average(squares, weights=training.weight))
