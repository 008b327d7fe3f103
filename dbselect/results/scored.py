"""Results of a search on a score: groups in order, with score and estimator of each prefix."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NoReturn, cast

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from dbselect.errors import ArgumentError, DbselectError, FieldError
from dbselect.objectives.cross_validated import CrossValidated
from dbselect.objectives.score import Score, std_error
from dbselect.pages.html import Glance, InNotebooks, listed
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups
from dbselect.record.steps import Step, Stop, is_useful, spent_after
from dbselect.record.terms import Terms
from dbselect.results.call import Call
from dbselect.results.fields import StoredFields
from dbselect.results.prefixes import Budget, Prefixes


def refuse_of_score(what: str) -> NoReturn:
    """Refuse attributes and methods that only linear models and GLMs have."""
    raise FieldError(
        f"{what} cannot be had of a score; it has the score of each prefix, and of Score.of "
        "model.estimator, which is fitted to all rows"
    )


@dataclass(frozen=True, repr=False)
class ScoreModel(StoredFields, InNotebooks):
    """The score of a set of groups, and the estimator on their columns.

    Parameters
    ----------
    groups, columns : groups held and their columns, in the order added
    spent : summed cost of the groups
    folds : shape (folds,), score on each fold; one number without folds
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
        """Return the model of groups, by number."""
        names = [groups.names[group] for group in held]
        columns = dict.fromkeys(name for group in names for name in groups.columns[group])
        return cls(names, list(columns), groups.spent(held), folds, call=call)

    def __repr__(self) -> str:
        formula = f"{self._score.label} ~ {listed(self.groups)}"
        return f"ScoreModel({formula}; {self.used}, spent {self.spent:g})"

    @property
    def used(self) -> str:
        """The score, as text."""
        return f"score {self.value:.4f}"

    @property
    def value(self) -> float:
        """Mean score of the folds."""
        return float(self.folds.mean())

    @property
    def explained(self) -> float:
        """Score less that without columns."""
        return self.value - float(self._score.folds(()).mean())

    @property
    def _score(self) -> Score:
        return cast("Score", self.call.problem.source)

    @property
    def _glance(self) -> Glance:
        return Glance(pl.DataFrame({"group": self.groups}, schema={"group": pl.String}))

    @cached_property
    def estimator(self) -> Any:
        """The estimator of `Score.of`, fitted to all rows on the columns of the groups."""
        if not self.columns:
            raise FieldError("the model has no columns, which no estimator can be fitted to")
        return self._scorer.fitted(self.columns)

    @property
    def _scorer(self) -> CrossValidated:
        scorer = self._score.answers.score
        if not isinstance(scorer, CrossValidated):
            raise FieldError(f"score is a function, {self._score.label}; Score.of has an estimator")
        return scorer

    @property
    def coefficients(self) -> NoReturn:
        """Refuse: an estimator has no coefficients and no expression."""
        refuse_of_score("coefficients, summary, expr and sql")

    expr = sql = summary = intercept = coefficients

    def predict(self, rows: Any) -> Any:
        """Return the predictions of the estimator for a frame or array like that of the fit."""
        return self.estimator.predict(self._scorer.rows(self.columns, rows))


@dataclass(frozen=True, eq=False, repr=False)
class ScoreSequence(StoredFields, Prefixes[Any]):
    """Groups in selection order, with the score of each prefix.

    `Prefixes` documents what all sequences share; `explained` is the score less that without
    columns. Methods that need the rows of a linear model, such as `criteria`, `certificate`
    and `sql`, are refused.

    Parameters
    ----------
    groups : Groups, their columns and costs
    rule : name of the rule, or of the method
    records : the steps 1, 2, ...
    folds : for each prefix the score on each fold
    queries : shape (steps + 1,), calls of the score until the end of each step
    stop : why the search ended
    noise : number of standard errors below which a gain counts as 0
    call : the score, of which a file keeps the name only, and the method with its options

    Examples
    --------
    >>> import dbselect as ds
    >>> score = ds.objectives.Score(len, groups={"a": ["a"], "b": ["b", "c"]})
    >>> seq = ds.anytime_sequence(score)
    >>> seq.steps.select("group", "explained", "value", "queries").rows()
    [(None, 0.0, 0.0, 1), ('b', 2.0, 2.0, 4), ('a', 3.0, 3.0, 5)]
    """

    groups: Groups
    rule: str
    records: list[Step]
    folds: list[Vector]
    queries: npt.NDArray[np.int64]
    stop: Stop
    noise: float
    call: Call = field(kw_only=True)

    _RECORD_TYPE: ClassVar[pa.StructType] = pa.struct([])
    _WHAT: ClassVar[str] = "a sequence of a score"
    _HEIGHT: ClassVar[str] = "score above none"
    _is_quadratic: ClassVar[bool] = False
    aliased: ClassVar[tuple[str, ...]] = ()
    terms: ClassVar[Terms] = Terms()

    @property
    def score(self) -> Score:
        """The score that was searched."""
        return cast("Score", self.call.problem.source)

    @cached_property
    def spent(self) -> Vector:
        """Summed cost of the groups held; shape (steps + 1,)."""
        return spent_after(self.records, self.groups)

    @cached_property
    def value(self) -> Vector:
        """Score of each prefix; shape (steps + 1,)."""
        return np.array([float(scores.mean()) for scores in self.folds])

    @cached_property
    def explained(self) -> Vector:
        """Score less that without columns; shape (steps + 1,)."""
        return self.value - float(self.score.folds(()).mean())

    @property
    def r2(self) -> Vector:
        """The height of the curve, here `explained`; NULL in `steps`."""
        return self.explained

    @cached_property
    def std_error(self) -> Vector:
        """Standard error of each gain over the folds; NaN without folds; shape (steps + 1,)."""
        return np.array([np.nan, *map(std_error, self.folds[1:], self.folds)])

    @property
    def useful(self) -> npt.NDArray[np.bool_]:
        """Whether each step changed the score beyond its noise; an added group must raise it."""
        limits = np.nan_to_num(self.noise * self.std_error[1:])
        beyond = [
            is_useful(step.gain) and (step.gain if step.action == "add" else abs(step.gain)) > limit
            for step, limit in zip(self.records, limits.tolist(), strict=True)
        ]
        return np.array([True, *beyond])

    @property
    def _summary(self) -> tuple[str, str]:
        return self.score.label, f"score {self.value[-1]:.4f}"

    @property
    def _used(self) -> str:
        return f"{self.queries[-1]} queries"

    def _extra_step_columns(self) -> list[pl.Series]:
        return [
            pl.Series("r2", [None] * len(self.folds), pl.Float64),
            pl.Series("value", self.value),
            pl.Series("std_error", self.std_error).fill_nan(None),
            pl.Series("queries", self.queries, pl.Int64),
        ]

    def model(self, step: int) -> ScoreModel:
        """Return the model after a step, as `Prefixes.model`."""
        return ScoreModel.of(self.groups, self.held(step), self.folds[step], self.call)

    def predict(self, rows: Any, budget: Budget = None, **options: Any) -> Any:
        """Return the predictions of the estimator on the longest prefix within one budget.

        Parameters
        ----------
        rows : frame or array with the columns of the fit
        budget : >= 0, in the unit of cost; None = no limit
        options : options of other sequences, which are refused
        """
        if options or np.ndim(cast("Any", budget)):
            refuse_of_score("a prefix for each row")
        model: Any = self.at(cast("float | None", budget))
        return model.predict(rows)

    def _priced(self, groups: Groups, spent: Vector, call: Call) -> "ScoreSequence":
        return replace(self, groups=groups, call=call, rule=f"{self.rule}, at other costs")

    def _criteria(self, gamma: float, penalty: float | None) -> NoReturn:
        refuse_of_score("criteria")

    def _no_criterion(self, criterion: str) -> DbselectError:
        return ArgumentError(f"criterion is {criterion!r}; a score has none")

    def _step_tests(self, kind: str) -> NoReturn:
        refuse_of_score(f"{kind}_tests")

    def _quadratic(self, what: str) -> NoReturn:
        refuse_of_score(what)

    def _refused(self, *places: Any, **options: Any) -> NoReturn:
        """Refuse: an estimator predicts by one prefix only, and other rows need another score."""
        refuse_of_score("anytime_predict, refit, cross_validate and drift")

    anytime_predict = refit = cross_validate = drift = _refused
