"""What is chosen at once and is no sequence: the model, and how it was found."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import FieldError
from dbselect.pages.glance import Glance, InNotebooks
from dbselect.pages.html import listed
from dbselect.record.gram import Vector
from dbselect.record.policies import row_counts
from dbselect.record.steps import Stop
from dbselect.results.call import Call
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import JointModel, Model
from dbselect.results.scored import ScoreModel
from dbselect.selection.dash import Run
from dbselect.spec.spec import Spec

AnyModel = Model | JointModel | GlmModel
M_co = TypeVar("M_co", bound=AnyModel | None, covariant=True)


@dataclass(frozen=True)
class Diagnostics:
    """How k candidates were chosen.

    Parameters
    ----------
    value : of the objective, diversity included
    rounds : adaptive rounds: turns of queries that had to wait for others
    queries : sets whose value was asked for
    history : value after each round
    opt, alpha : the guess that won; None for the baselines
    stalled : sets taken because a filter step left everybody in
    completed : candidates taken because too few passed the filter
    bound : no candidates at all are worth more, for an objective that only grows: the value of
        all of them, of a lazy Gram 1; None where nothing asked for it
    scans, rows_fetched : of a lazy Gram, readings of the table, and rows of the Gram read
    stop : what ended the search of a score early, so that this is the best set so far
    """

    value: float
    rounds: int
    queries: int
    history: tuple[float, ...]
    opt: float | None
    alpha: float | None
    stalled: int
    completed: int
    bound: float | None
    scans: int | None = None
    rows_fetched: int | None = None
    stop: Stop | None = None

    @classmethod
    def of(cls, run: Run[Any]) -> Self:
        """Return what is known of a run."""
        return cls(
            value=run.objective.value,
            rounds=len(run.history),
            queries=run.queries,
            history=tuple(run.history),
            opt=run.opt,
            alpha=run.alpha,
            stalled=run.stalled,
            completed=run.completed,
            bound=run.bound,
            stop=run.stop,
        )


@dataclass(frozen=True, eq=False)
class Convergence:
    """How a descent went.

    Parameters
    ----------
    history : f at the start and after every step, before exchanges and the refit; 1 + 2 f is
        the share of the variance, or of the null deviance, that is left
    converged : False if the descent was stopped by `max_iter`
    start : what won: the start of the descent by name, ``"given"``, or ``"forward"`` where
        forward steps and exchanges ended lower than the descent
    exchanges : whole changes of columns after the steps; None if none were tried
    projections : step lengths tried, each with a projection
    """

    history: Vector
    converged: bool
    start: str
    exchanges: int | None
    projections: int

    @property
    def iterations(self) -> int:
        """Steps of the descent."""
        return len(self.history) - 1


@dataclass(frozen=True)
class Proof:
    """How near to the best set of groups within a budget the chosen one is.

    Parameters
    ----------
    explained : by the chosen groups, as a share of the target's variance
    bound : no groups within the budget explain more, but for ties within 1e-10; None of a score,
        which has no bound
    proven : whether none explain more than the chosen ones; False if time was up before, or
        columns are so nearly dependent that doubles cannot tell
    nodes : of the search tree, or queries of a score
    seconds : that the search took
    stop : what ended the search of a score early
    """

    explained: float
    bound: float | None
    proven: bool
    nodes: int
    seconds: float
    stop: Stop | None = None

    @property
    def gap(self) -> float | None:
        """What the best groups may explain beyond the chosen ones; 0 if that is proven."""
        return None if self.bound is None else self.bound - self.explained


@dataclass(frozen=True)
class Shrinkage:
    """Which penalty a penalised model has, and how near to its minimum it is.

    Parameters
    ----------
    penalty : for columns and a target of unit variance
    df : degrees of freedom, without the intercept
    gap : how far at most the objective is from its minimum, the target having variance 1
    violation : how far at most a gradient is from its optimality condition, in correlations
    """

    penalty: float
    df: float
    gap: float
    violation: float


H = TypeVar("H", Convergence, Diagnostics, Proof, Shrinkage)
#: How each kind of answer is asked for, in errors.
_CALLED: dict[type, str] = {
    Convergence: "history, converged and iterations", Diagnostics: "diagnostics",
    Proof: "proof", Shrinkage: "shrinkage",
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Selected(InNotebooks, Generic[M_co]):
    """The groups that a method chose, the model on them, and how they were found.

    What the model has can be asked here as well.

    Parameters
    ----------
    model : Model, of several responses JointModel, of another family GlmModel; None of other
        objectives
    chosen : numbers of the groups or candidates held, in the order taken
    method : its name
    how : Convergence of `sght`, Proof of `best_within`, Shrinkage of `lasso` and
        `sparse_group_lasso`, Diagnostics of `dash`, `greedy`, `top_k` and `random_k`
    call : the problem that it answers, without rows, and the method

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> found = ds.greedy(table, "y", costs={"a": 5.0, "b": 2.0}, k=1)
    >>> found
    Selected(greedy: a; explained 0.9524, spent 5; 4 rows)
    >>> found.chosen, found.columns, found.diagnostics.rounds
    ((0,), ['a'], 1)
    >>> ds.greedy(ds.objectives.coverage(table, "y"), k=2)  # an objective that has no model
    Selected(greedy: candidates 0, 1; value 0.1000)
    """

    model: M_co
    chosen: tuple[int, ...]
    method: str
    how: Convergence | Diagnostics | Proof | Shrinkage
    call: Call | None = field(default=None, compare=False, kw_only=True)

    def __repr__(self) -> str:
        if self.model is None:
            candidates = listed([str(one) for one in self.chosen], "none")
            value = self._how(Diagnostics).value
            return f"Selected({self.method}: candidates {candidates}; value {value:.4f})"
        full = f"; {Stop.SATURATED.value}" if self.saturated else ""
        return (
            f"Selected({self.method}: {listed(self.groups)}; "
            f"explained {self.explained:.4f}, spent {self.spent:g}{self._certainty}; "
            f"{self._used}{full})"
        )

    @property
    def _glance(self) -> Glance:
        if self.model is None:
            return Glance(pl.DataFrame({"candidate": self.chosen}))
        return self.model._glance

    @property
    def _used(self) -> str:
        model: Any = self.model
        if isinstance(model, ScoreModel):
            ended = getattr(self.how, "stop", None)
            return model.used + (f"; {ended.value}" if ended else "")
        return row_counts(model.rows, model.skipped, self.rows_searched)

    @property
    def _certainty(self) -> str:
        if isinstance(self.how, Shrinkage):
            return f"; penalty {self.how.penalty:.3g}"
        if not isinstance(self.how, Proof):
            return ""
        if self.how.proven:
            return "; proven"
        return "; no bound" if self.how.gap is None else f"; gap {self.how.gap:.4f}, not proven"

    @property
    def _found(self) -> AnyModel:
        if self.model is None:
            raise FieldError(
                "model is None; the objective has no model, it has `chosen` and `diagnostics` only"
            )
        return self.model

    def _how(self, kind: type[H]) -> H:
        if not isinstance(self.how, kind):
            own = _CALLED[type(self.how)]
            raise FieldError(f"{self.method} has no {_CALLED[kind]}; it has {own}")
        return self.how

    @property
    def problem(self) -> Spec | None:
        """What is asked about the data, without its rows; None of an objective without columns."""
        return None if self.call is None else self.call.problem

    @property
    def rows_searched(self) -> int | None:
        """Rows that the search looked at, where these are not all rows of the table."""
        return getattr(self.model, "rows_searched", None)

    @property
    def columns(self) -> list[str]:
        """The columns that have coefficients."""
        return self._found.columns

    @property
    def groups(self) -> list[str]:
        """Groups held, in the order taken."""
        return self._found.groups

    @property
    def spent(self) -> float:
        """Summed cost of the groups held."""
        return self._found.spent

    @property
    def explained(self) -> float:
        """Share of the target's variance, or of the null deviance, that is explained."""
        return self._found.explained

    @property
    def r2(self) -> float:
        """1 - RSS/TSS on the rows of the Gram; a generalised linear model has none."""
        model: Any = self._found
        if isinstance(model, GlmModel | ScoreModel):
            kind = type(model).__name__
            raise FieldError(f"a {kind} has no r2; see explained, of a family its deviance")
        return float(model.r2)

    @property
    def target(self) -> str:
        """The column that is predicted, where there is one."""
        model = self._found
        if isinstance(model, JointModel):
            raise FieldError("a JointModel has no target; its responses are in model.responses")
        return model.target

    @property
    def intercept(self) -> Any:
        """In the target's unit, as in the model."""
        return self._found.intercept

    @property
    def coefficients(self) -> dict[Any, Any]:
        """Column -> coefficient, in the table's units, as in the model."""
        return self._found.coefficients

    @property
    def aliased(self) -> tuple[str, ...]:
        """Columns that depend linearly on columns before them."""
        return self._found.aliased

    @property
    def saturated(self) -> bool:
        """Whether the model has as many coefficients as rows, so that it fits any target."""
        return self._found.saturated

    @property
    def history(self) -> Vector:
        """The objective at the start of the descent and after every step, before the refit."""
        return self._how(Convergence).history

    @property
    def converged(self) -> bool:
        """Whether the descent ended before it was stopped by `max_iter`."""
        return self._how(Convergence).converged

    @property
    def iterations(self) -> int:
        """Steps of the descent."""
        return self._how(Convergence).iterations

    @property
    def diagnostics(self) -> Diagnostics:
        """How the candidates were chosen, where that was no descent."""
        return self._how(Diagnostics)

    @property
    def proof(self) -> Proof:
        """Whether the groups are the best within the budget, or how near they are."""
        return self._how(Proof)

    @property
    def shrinkage(self) -> Shrinkage:
        """Which penalty the model has, and how near to its minimum it is."""
        return self._how(Shrinkage)

    # The model's own methods, so that a warning names the line of whoever calls them.

    @property
    def summary(self) -> Callable[[], pl.DataFrame]:
        """`Model.summary` of the model, where it has one."""
        model: Any = self._found
        if not hasattr(type(model), "summary"):
            raise FieldError(f"a {type(self.model).__name__} has no summary; see its deviance")
        return model.summary  # type: ignore[no-any-return]

    @property
    def robust_errors(self) -> Callable[..., Any]:
        """`Model.robust_errors` of the model."""
        return self._found.robust_errors

    @property
    def refit(self) -> Callable[[Any], Any]:
        """`Model.refit` of the model."""
        found: Any = self._found
        own: Callable[[Any], Any] = found.refit
        return own

    @property
    def expr(self) -> Callable[..., pl.Expr]:
        """`Predicting.expr` of the model: the prediction as a Polars expression."""
        return self._found.expr

    @property
    def sql(self) -> Callable[..., str]:
        """`Predicting.sql` of the model: the prediction as the text of an SQL expression."""
        return self._found.sql

    @property
    def predict(self) -> Callable[..., npt.NDArray[np.float64]]:
        """`Predicting.predict` of the model: the predictions of rows in memory."""
        return self._found.predict


def model_in(result: Any) -> Any:
    """Return the model of a `Selected` that has one, and anything else as it is."""
    if isinstance(result, Selected) and result.model is not None:
        return result.model
    return result
