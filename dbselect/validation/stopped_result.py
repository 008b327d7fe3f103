"""A sequence that ended where rows held out are predicted no better."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from dbselect.pages.glance import Glance, InNotebooks
from dbselect.results.fields import StoredFields
from dbselect.results.model import Model
from dbselect.results.sequence import Sequence
from dbselect.validation.cross_validation import CrossValidation


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
