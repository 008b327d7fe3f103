"""Stop a sequence early, when the predictions of held-out rows no longer improve."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from dbselect.errors import ArgumentError, DataError, warns_once
from dbselect.options.option import checked_options, options_of, shows
from dbselect.pages.html import Glance, InNotebooks
from dbselect.record.steps import uninterrupted
from dbselect.results.fields import StoredFields
from dbselect.results.model import Model
from dbselect.results.sequence import Sequence
from dbselect.search.table import patterns_read
from dbselect.spec.fields import OF_METHOD
from dbselect.spec.options import StoppedOptions
from dbselect.spec.refusals import refuse
from dbselect.spec.spec import Spec, answer_of
from dbselect.validation.cross_validate import cross_validate
from dbselect.validation.cross_validation import CrossValidation
from dbselect.validation.grid import check_options
from dbselect.validation.segments import fold_records
from dbselect.validation.splits import RowSplits, split_of


@dataclass(frozen=True, eq=False)
class StoppedSequence(StoredFields, InNotebooks):
    """A sequence of all rows, with cross-validated scores of its length.

    Parameters
    ----------
    sequence : of all folds together, of the same length as the searches
    validation : the scores of each step
    patience : number of steps without a better score after which the searches stopped
    choice : ``"one_standard_error"`` or ``"best"``

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": range(40), "b": [1, -1] * 20})
    >>> table = table.with_columns(y=2 * pl.col("a") + (pl.col("a") % 7))
    >>> stopped = ds.Problem(table, "y").stopped_sequence(folds=5, patience=1)
    >>> stopped
    StoppedSequence(y; 1 of 2 steps; held-out r2 0.9901; spent 1)
    >>> stopped.model().columns
    ['a']
    """

    sequence: Sequence
    validation: CrossValidation
    patience: int
    choice: str

    def __repr__(self) -> str:
        row = self.validation.table.filter(step=self.step).row(0, named=True)
        last = len(self.sequence.spent) - 1
        return (
            f"StoppedSequence({self.sequence.target}; {self.step} of {last} steps; "
            f"held-out r2 {row['r2']:.4f}; spent {self.sequence.spent[self.step]:g})"
        )

    @property
    def _glance(self) -> Glance:
        drawn = self.steps.filter(pl.col("held_out_r2").is_not_null())
        curve = (drawn["spent"], drawn["held_out_r2"], "held-out r2 against what is spent")
        return Glance(self.steps, curve if drawn.height > 1 else None)

    @property
    def step(self) -> int:
        """The chosen step of the sequence of all rows."""
        chosen = int(self.validation.table.filter(self.choice)["step"].item())
        return min(chosen, len(self.sequence.spent) - 1)

    @property
    def steps(self) -> pl.DataFrame:
        """The steps of the sequence, with the held-out scores of searches of the same length.

        held_out_r2, held_out_mse and held_out_std_error, of the mse, are means over the folds;
        chosen is true for one row.
        """
        scores = self.validation.table.select(
            "step", held_out_r2="r2", held_out_mse="mse", held_out_std_error="mse_std_error"
        )
        joined = self.sequence.steps.join(scores, on="step", how="left", maintain_order="left")
        return joined.with_columns(chosen=pl.col("step") == self.step)

    def model(self) -> Model:
        """Return the model of the chosen step, fitted to all rows."""
        return self.sequence.model(self.step)

    def plot(self, measure: str = "r2") -> Any:
        """Plot the held-out scores, as `CrossValidation.plot`."""
        return self.validation.plot(measure)


#: Groups of the first searches; if these are too few, the next searches take twice as many.
FIRST_GROUPS = 8


@shows(StoppedOptions, first=(OF_METHOD,))
@warns_once
def stopped_sequence(problem: Spec, **options: Any) -> StoppedSequence:
    """Order groups until held-out rows are predicted no better, and choose the step.

    For each fold the search runs on the other folds, and each of its steps is scored on the
    fold. (One search of all rows, scored on parts of them, would be scored on its own training
    rows, where scores only rise.) When the mean score has not improved for `patience` steps,
    the searches stop, and the search of all rows takes the same number of steps.

    Returns
    -------
    StoppedSequence: the sequence of all rows, the scores and the chosen step

    Raises
    ------
    ArgumentError : patience, choice or an option out of range; a family, for which scores need
        passes over the table: use `cross_validate`; records of several segments
    DataError : fewer than two folds have usable rows, or the target is constant
    ColumnError, GroupError, SourceError : as `cross_validate`

    Notes
    -----
    The score of step k is the mean over searches for k groups, which may differ between folds: it
    decides the number of groups, and estimates how well the search does. The model uses all rows.
    One search of s steps for each fold and for all rows, restarted whenever s doubles:
    at most about four times the cost of the last searches. A wide table is thus searched for a
    few steps only; `cross_validate` takes every step.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 7.10,
    where 7.10.2 is on searches that have used the held-out rows.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": range(40), "b": [1, -1] * 20})
    >>> table = table.with_columns(y=2 * pl.col("a") + (pl.col("a") % 7))
    >>> stopped = ds.Problem(ds.gram_by(table, fold=5), "y").stopped_sequence(patience=1)
    >>> stopped.steps.select("group", pl.col("held_out_mse").round(2), "chosen").rows()
    [(None, 587.06, False), ('a', 4.1, True), ('b', 4.31, False)]
    """
    own = {name: options.pop(name) for name in options_of(StoppedOptions) if name in options}
    checked = checked_options(StoppedOptions, "stopped_sequence", own)
    check_options("anytime_sequence", [{}], options)
    refuse(problem, "stopped_sequence")
    patience, max_groups = checked["patience"], checked["max_groups"]
    problem, folding = split_of(problem, "folds", checked["folds"], checked["key"], None)
    if isinstance(folding, RowSplits):
        raise ArgumentError(
            "folds has rows that judge never or often; stopped_sequence needs folds that part the "
            "rows: cross_validate takes any"
        )
    folds = fold_records(problem, folding, patterns_read(problem))
    on_folds = problem.replace(
        source=folds, weight=None, null_policy="skip", rows=None, terms=None, gram="auto"
    )

    def scores_of(k: int) -> CrossValidation:
        validation = cross_validate(on_folds, "anytime_sequence", max_groups=k, **options)
        if validation.keys:
            raise ArgumentError(
                f"source has segments, by {validation.keys}; give the folds of one of them"
            )
        if validation.best.is_empty():
            raise DataError(validation.table["reason"][0])
        return validation

    k = FIRST_GROUPS if max_groups is None else min(FIRST_GROUPS, max_groups)
    while True:
        validation = scores_of(k)
        end = _end(validation, patience)
        is_last = max_groups is not None and k >= max_groups
        if end is not None or is_last or validation.table["step"].to_numpy().max() < k:
            break
        k = 2 * k if max_groups is None else min(2 * k, max_groups)
    if end is not None and end < k:
        k = max(end, 1)
        validation = scores_of(k)  # choose among the steps up to the end
    full = problem.on_gram(validation.sources[0][1])
    sequence: Any = uninterrupted(answer_of(full, "anytime_sequence", max_groups=k, **options))
    return StoppedSequence(sequence, validation, patience, checked["choice"])


def _end(validation: CrossValidation, patience: int) -> int | None:
    """Return the first step with no improvement in the last `patience` steps, or None."""
    best, steps_since = float("inf"), 0
    for step, mse in validation.table.sort("step").select("step", "mse").iter_rows():
        if mse < best:
            best, steps_since = mse, 0
        else:
            steps_since += 1
        if steps_since == patience:
            return int(step)
    return None
