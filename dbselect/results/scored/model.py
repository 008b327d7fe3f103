"""What is known of some groups by a score."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NoReturn, cast

import polars as pl

from dbselect.errors import ArgumentError
from dbselect.objectives.cross_validated import CrossValidated
from dbselect.objectives.score import Score
from dbselect.pages.glance import Glance, InNotebooks
from dbselect.pages.short import listed
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups
from dbselect.results.call import Call
from dbselect.results.fields import StoredFields


def refuse_of_score(what: str) -> NoReturn:
    """Refuse what only linear models and families have."""
    raise ArgumentError(
        f"{what} cannot be had of a score; it has the score of each prefix, and of Score.of "
        "model.estimator, which is fitted to all rows"
    )


@dataclass(frozen=True, repr=False)
class ScoreModel(StoredFields, InNotebooks):
    """What is known of some groups: their score, and the estimator on their columns.

    Parameters
    ----------
    groups, columns : held, in the order taken
    spent : summed cost of the groups
    folds : shape (folds,), score on each; one number where there are no folds
    call : the score, of which a file keeps the name only, and the method

    Examples
    --------
    >>> import dbselect as ds
    >>> score = ds.objectives.Score(len, groups={"a": ["a"], "b": ["b", "c"]})
    >>> ds.anytime_sequence(score).at(budget=1.0)
    ScoreModel(len ~ b; score 2.0000, spent 1)
    """

    groups: list[str]
    columns: list[str]
    spent: float
    folds: Vector
    call: Call = field(kw_only=True, compare=False)

    saturated: ClassVar[bool] = False
    aliased: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, groups: Groups, held: list[int], folds: Vector, call: Call) -> "ScoreModel":
        """Return what is known of some groups, by number."""
        names = [groups.names[group] for group in held]
        columns = dict.fromkeys(name for group in names for name in groups.columns[group])
        return cls(names, list(columns), float(groups.costs[held].sum()), folds, call=call)

    def __repr__(self) -> str:
        told = f"{self._score.label} ~ {listed(self.groups)}"
        return f"ScoreModel({told}; {self.used}, spent {self.spent:g})"

    @property
    def used(self) -> str:
        """The score, in words."""
        return f"score {self.value:.4f}"

    @property
    def value(self) -> float:
        """Mean score of the folds."""
        return float(self.folds.mean())

    @property
    def explained(self) -> float:
        """Score above that of no columns."""
        return self.value - float(self._score.folds(()).mean())

    @property
    def _score(self) -> Score:
        return cast(Score, self.call.problem.source)

    @property
    def _glance(self) -> Glance:
        return Glance(pl.DataFrame({"group": self.groups}, schema={"group": pl.String}))

    @cached_property
    def estimator(self) -> Any:
        """The estimator of `Score.of`, fitted to all rows on the columns of the groups."""
        if not self.columns:
            raise ArgumentError("the model has no columns, which no estimator can be fitted to")
        return self._scorer.fitted(self.columns)

    @property
    def _scorer(self) -> CrossValidated:
        scorer = self._score.answers.score
        if not isinstance(scorer, CrossValidated):
            raise ArgumentError(
                f"score is a function, {self._score.label}; Score.of has an estimator"
            )
        return scorer

    @property
    def coefficients(self) -> NoReturn:
        """Refuse: an estimator is no expression, and has no coefficients to name."""
        refuse_of_score("coefficients, summary, expr and sql")

    expr = sql = summary = intercept = coefficients

    def predict(self, rows: Any) -> Any:
        """Return the predictions of the estimator for a frame or array like that of the fit."""
        return self.estimator.predict(self._scorer.rows(self.columns, rows))
