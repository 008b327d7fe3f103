"""Choose the prefix that predicts held-out rows best, with scikit-learn's splits."""

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
from dbselect.validation.scoring.judging import row_scores

#: Pairs of rows to fit and rows to score.
Splits = list[tuple[Index, Index]]
#: Rules of the choice, as in `cross_validate`.
CHOICES = ("best", "one_standard_error")
#: Shares that differ by less count as equal: the shorter prefix is chosen.
EQUAL = 1e-6


def splits_of(cv: Any, y: Any, kept: Index, *, classifier: bool = False) -> Splits | None:
    """Return the splits of `cv`, as in GridSearchCV, as positions among the rows `kept`."""
    if cv is None:
        return None
    number = np.full(len(y), -1)
    number[kept] = np.arange(len(kept))
    splits = check_cv(cv, y, classifier=classifier).split(np.empty((len(y), 1)), y)
    numbered = [(number[fitted], number[judged]) for fitted, judged in splits]
    return [(fitted[fitted >= 0], judged[judged >= 0]) for fitted, judged in numbered]


def chosen_step(
    sequence: AnySequence,
    training: Training,
    splits: Splits,
    search: Callable[[Training], AnySequence],
    choice: str,
) -> tuple[int, pl.DataFrame]:
    """Return the step whose budget is best on held-out rows, and the scores of all steps.

    ``"one_standard_error"`` takes the cheapest within one standard error of it. The frame has step,
    spent, mean and std_error of the share explained: of the variation in all rows, because a fold
    may have a single value. ArgumentError for another choice, or fewer than two splits.
    """
    one_of(CHOICES).check("choice", choice)
    if len(splits) < 2:
        raise ArgumentError(f"cv gives {len(splits)} split; at least 2 are needed")
    errors = [
        _errors(search, training.of(fitted), training.of(judged), sequence)
        for fitted, judged in splits
    ]
    scores = 1.0 - np.array(errors) / _null_error(sequence, training)
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
    """Return the error on held-out rows for each budget of the sequence on all rows, `whole`."""
    budgets = whole.spent
    if not isinstance(whole, GlmSequence) and (fitted.y == fitted.y[0]).all():
        # A constant target has nothing to search for: its mean is the model at any budget.
        squares = np.square(judged.y - fitted.y[0]).mean(axis=1)
        return np.full(len(budgets), np.average(squares, weights=judged.weight))
    seq = search(fitted)
    steps = [longest_within(seq.spent, float(budget)) for budget in budgets]
    if isinstance(seq, GlmSequence):
        return np.asarray(row_scores(seq, judged.frame(), judged.weight_name).deviance[steps])
    responses = list(seq.responses.values()) if isinstance(seq, JointSequence) else [seq]
    used = [name for r in responses for name, x in zip(r.columns, r.coef.T, strict=True) if x.any()]
    gram = judged.only(used).gram()
    return np.asarray(np.mean([squared_errors(r, gram)[0] for r in responses], axis=0)[steps])


def _null_error(sequence: AnySequence, training: Training) -> float:
    """Return the error of the model without columns on the rows of the search."""
    weight = len(training.y) if training.weight is None else training.weight.sum()
    if isinstance(sequence, GlmSequence):
        return float(sequence.deviance[0] / weight)
    center = np.average(training.y, axis=0, weights=training.weight)
    squares = np.square(training.y - center).mean(axis=1)
    return float(np.average(squares, weights=training.weight))
