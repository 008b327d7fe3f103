"""A sequence that goes on as long as rows held out are predicted better."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from dbselect.errors import ArgumentError, DataError, warns_once
from dbselect.options.option import checked_options, options_of, shows
from dbselect.pages.glance import Glance, InNotebooks
from dbselect.record.steps import uninterrupted
from dbselect.results.fields import StoredFields
from dbselect.results.model import Model
from dbselect.results.sequence import Sequence
from dbselect.search.table import patterns_read
from dbselect.sources.request import folding_of
from dbselect.spec.fields import OF_METHOD
from dbselect.spec.options import StoppedOptions
from dbselect.spec.refusals import refuse
from dbselect.spec.spec import Spec, answer_of
from dbselect.validation.cross_validate import cross_validate
from dbselect.validation.cross_validation import CrossValidation
from dbselect.validation.grid import check_options
from dbselect.validation.segments import fold_records


@dataclass(frozen=True, eq=False)
class StoppedSequence(StoredFields, InNotebooks):
    """What searches of the other folds score on each fold, and the sequence of all rows.

    Parameters
    ----------
    sequence : of all folds together, as long as the searches
    validation : the scores of each step
    patience : steps without a better score after which the searches ended
    choice : ``"one_standard_error"`` or ``"best"``

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": range(40), "b": [1, -1] * 20})
    >>> table = table.with_columns(y=2 * pl.col("a") + (pl.col("a") % 7))
    >>> found = ds.Problem(table, "y").stopped_sequence(folds=5, patience=1)
    >>> found
    StoppedSequence(y; 1 of 2 steps; held-out r2 0.9901; spent 1)
    >>> found.model().columns
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
        """The step that is chosen, of the sequence of all rows."""
        chosen = int(self.validation.table.filter(self.choice)["step"].item())
        return min(chosen, len(self.sequence.spent) - 1)

    @property
    def steps(self) -> pl.DataFrame:
        """The steps of the sequence, each with the scores of searches of so many steps.

        held_out_r2, held_out_mse and held_out_std_error, that of mse, are means over the folds;
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
        """Return the picture of `CrossValidation.plot`."""
        return self.validation.plot(measure)


#: Groups that the first searches take; where that is too few, the next take twice as many.
FIRST_GROUPS = 8


@shows(StoppedOptions, first=(OF_METHOD,))
@warns_once
def stopped_sequence(problem: Spec, **options: Any) -> StoppedSequence:
    """Order groups until rows held out are predicted no better, and choose the step.

    For each fold the search runs anew on the other folds, and each of its steps is scored on the
    fold, whose rows it has not seen. One search of all rows, scored on parts of them, would have
    seen what it is judged by: its scores only rise. When for `patience` steps the mean score is
    no better than before, the searches end, and that of all rows takes as many steps.

    Returns
    -------
    StoppedSequence: the sequence of all rows, the scores and the chosen step

    Raises
    ------
    ArgumentError : patience, choice or an option out of range; a family, of which every score
        is passes over the table: `cross_validate` has it; records of several segments
    DataError : fewer than two folds have usable rows, or the target is constant
    ColumnError, GroupError, SourceError : as `cross_validate`

    Notes
    -----
    The score of step k is that of searches for k groups, which may differ from fold to fold: it
    decides how many to take, and estimates how well the search does. The model is that of all rows.
    A search of s steps for each fold and for all, each begun anew when there are twice as many:
    at most some four times what the last ones cost. A wide table is so searched to a few steps
    only; `cross_validate` makes every step.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 7.10,
    whose 7.10.2 is on searches that have seen the rows.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": range(40), "b": [1, -1] * 20})
    >>> table = table.with_columns(y=2 * pl.col("a") + (pl.col("a") % 7))
    >>> found = ds.Problem(ds.gram_by(table, fold=5), "y").stopped_sequence(patience=1)
    >>> found.steps.select("group", pl.col("held_out_mse").round(2), "chosen").rows()
    [(None, 587.06, False), ('a', 4.1, True), ('b', 4.31, False)]
    """
    own = {name: options.pop(name) for name in options_of(StoppedOptions) if name in options}
    known = checked_options(StoppedOptions, "stopped_sequence", own)
    check_options("anytime_sequence", [{}], options)
    refuse(problem, "stopped_sequence")
    patience, max_groups = known["patience"], known["max_groups"]
    folding = folding_of(known["folds"], known["key"], problem.seed, "folds")
    folds = fold_records(problem, folding, patterns_read(problem))
    read = problem.replace(
        source=folds, weight=None, null_policy="skip", rows=None, terms=None, gram="auto"
    )

    def scored(most: int) -> CrossValidation:
        found = cross_validate(read, "anytime_sequence", max_groups=most, **options)
        if found.keys:
            raise ArgumentError(
                f"source has segments, by {found.keys}; give the folds of one of them"
            )
        if found.best.is_empty():
            raise DataError(found.table["reason"][0])
        return found

    most = FIRST_GROUPS if max_groups is None else min(FIRST_GROUPS, max_groups)
    while True:
        found = scored(most)
        end = _end(found, patience)
        limit = max_groups is not None and most >= max_groups
        if end is not None or limit or found.table["step"].to_numpy().max() < most:
            break
        most = 2 * most if max_groups is None else min(2 * most, max_groups)
    if end is not None and end < most:
        most = max(end, 1)
        found = scored(most)  # the choice is among the steps up to the end
    whole = problem.on_gram(found.sources[0][1])
    sequence: Any = uninterrupted(answer_of(whole, "anytime_sequence", max_groups=most, **options))
    return StoppedSequence(sequence, found, patience, known["choice"])


def _end(found: CrossValidation, patience: int) -> int | None:
    """Return the step by which no other was better for so many; None if there is none."""
    best, since = float("inf"), 0
    for step, mse in found.table.sort("step").select("step", "mse").iter_rows():
        if mse < best:
            best, since = mse, 0
        else:
            since += 1
        if since == patience:
            return int(step)
    return None
