"""Standard errors of a model on groups one of which has very many levels."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dbselect.linear.inference import INTERCEPT, Deviations, FittedRows
from dbselect.linear.levels.level_state import LevelState
from dbselect.linear.state import State
from dbselect.record.gram import Gram

#: Why there is no Gram of a model.
NO_GRAM = (
    "the model has a group of so many levels that there is no Gram of its columns, of which this "
    "is computed; summary() and intervals() have its standard errors"
)


def fitted_rows_of(
    gram: Gram, names: Sequence[str], state: State, ridge: float, chosen: bool
) -> FittedRows:
    """Return the rows of the model on the selected groups of a state, for its standard errors.

    The Gram lacks the columns of levels; `names` are all columns of the problem; the state is of
    the model alone.
    """
    if not (isinstance(state, LevelState) and state.is_within):
        return FittedRows(gram, ridge, chosen)
    known = None if ridge else _deviations(gram, names, state)
    return FittedRows(None, ridge, chosen, known=known, without=NO_GRAM)


def _deviations(gram: Gram, names: Sequence[str], state: LevelState) -> Deviations:
    problem: Any = state.whole
    free = gram.rows - state.rank - 1
    total = float(problem.target_spread) ** 2 * gram.weight
    variance = max(1.0 - state.explained, 0.0) * total / free if free > 0 else np.nan
    unit = 1.0 / (problem.spread * np.sqrt(gram.weight))
    intercept = np.sqrt(variance * (1.0 / gram.weight + state.lever(problem.mean * unit)))
    diagonal = state.inverse_diagonal()
    kept = np.flatnonzero(diagonal)
    errors = np.sqrt(variance * diagonal[kept]) * unit[kept]
    each = {names[j]: e for j, e in zip(kept.tolist(), errors.tolist(), strict=True)}
    share = (problem.spread / float(problem.target_spread)).tolist()
    spread = {names[j]: share[j] for j in kept.tolist()}
    return Deviations({INTERCEPT: float(intercept), **each}, free, spread)
