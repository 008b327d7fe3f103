"""Selections without an order of groups: the model, and how it was found."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import FieldError
from dbselect.pages.html import Glance, InNotebooks, listed
from dbselect.record.gram import Vector
from dbselect.record.policies import row_counts
from dbselect.record.steps import Stop
from dbselect.results.call import Call, Of
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import JointModel, Model
from dbselect.results.scored import ScoreModel
from dbselect.selection.dash import Run
from dbselect.spec.spec import Spec

AnyModel = Model | JointModel | GlmModel
M_co = TypeVar("M_co", bound=AnyModel | None, covariant=True)


@dataclass(frozen=True)
class Diagnostics:
    """Diagnostics of a choice of k candidates.

    Parameters
    ----------
    value : value of the objective, with diversity
    rounds : adaptive rounds: batches of queries that depend on earlier ones
    queries : number of sets whose value was computed
    history : value after each round
    opt, alpha : the best guess; None for the baselines
    stalled : number of sets taken because a filter step removed no candidate
    completed : number of candidates taken because too few passed the filter
    bound : upper bound of a monotone objective: the value of all candidates, for a lazy Gram 1;
        None if it was not computed
    scans, rows_fetched : for a lazy Gram, reads of the table and rows of the Gram read
    stop : why the search of a score ended early, with the best set so far
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
        """Return the diagnostics of a run."""
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
    """Convergence of a descent.

    Parameters
    ----------
    history : f at the start and after every step, before exchanges and the refit; 1 + 2 f is
        the unexplained share of the variance, or of the null deviance
    converged : False if the descent was stopped by `max_iter`
    start : name of the best start of the descent, ``"given"``, or ``"forward"`` if forward
        steps and exchanges ended lower than the descent
    exchanges : number of exchanges of columns after the descent; None if none were tried
    projections : number of step lengths tried, each with a projection
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
    """Optimality of the chosen set of groups within a budget.

    Parameters
    ----------
    explained : by the chosen groups, as a share of the target's variance
    bound : upper bound on what any groups within the budget explain, up to ties within 1e-10;
        None for a score, which has no bound
    proven : whether the chosen groups are the best; False if the time limit ended the search, or
        columns are too nearly dependent for double precision
    nodes : nodes of the search tree, or queries of a score
    seconds : duration of the search
    stop : why the search of a score ended early
    """

    explained: float
    bound: float | None
    proven: bool
    nodes: int
    seconds: float
    stop: Stop | None = None

    @property
    def gap(self) -> float | None:
        """`bound` less `explained`: what the best groups may explain beyond the chosen ones."""
        return None if self.bound is None else self.bound - self.explained


@dataclass(frozen=True)
class Shrinkage:
    """Penalty of a penalised model, and its distance from the minimum.

    Parameters
    ----------
    penalty : for columns and a target of unit variance
    df : degrees of freedom, without the intercept
    gap : duality gap, a bound on the objective less its minimum, for target variance 1
    violation : largest violation of the optimality conditions, in correlations
    """

    penalty: float
    df: float
    gap: float
    violation: float


H = TypeVar("H", Convergence, Diagnostics, Proof, Shrinkage)
#: Names of the attributes of each kind, in errors.
_CALLED: dict[type, str] = {
    Convergence: "history, converged and iterations", Diagnostics: "diagnostics",
    Proof: "proof", Shrinkage: "shrinkage",
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Selected(InNotebooks, Generic[M_co]):
    """The groups that a method chose, the model on them, and how they were found.

    It has the attributes and methods of the model as well.

    Parameters
    ----------
    model : Model, for several responses JointModel, for another family GlmModel; None for other
        objectives
    chosen : numbers of the groups or candidates held, in the order added
    method : name of the method
    how : Convergence of `sght`, Proof of `best_within`, Shrinkage of `lasso` and
        `sparse_group_lasso`, Diagnostics of `dash`, `greedy`, `top_k` and `random_k`
    call : the problem, without rows, and the method

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> selected = ds.greedy(table, "y", costs={"a": 5.0, "b": 2.0}, k=1)
    >>> selected
    Selected(greedy: a; explained 0.9524, spent 5; 4 rows)
    >>> selected.chosen, selected.columns, selected.diagnostics.rounds
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
            candidates = listed([str(number) for number in self.chosen], "none")
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
        done: str = model.terms.completed
        return row_counts(model.rows, model.skipped, self.rows_searched) + done

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
    def _model(self) -> AnyModel:
        if self.model is None:
            raise FieldError(
                "model is None; the objective has no model, it has `chosen` and `diagnostics` only"
            )
        return self.model

    def _how(self, kind: type[H]) -> H:
        if not isinstance(self.how, kind):
            names = _CALLED[type(self.how)]
            raise FieldError(f"{self.method} has no {_CALLED[kind]}; it has {names}")
        return self.how

    @property
    def problem(self) -> Spec | None:
        """The problem, without its rows; None for an objective without columns."""
        return None if self.call is None else self.call.problem

    @property
    def rows_searched(self) -> int | None:
        """Number of rows searched, if the search used a sample of the table; else None."""
        return getattr(self.model, "rows_searched", None)

    columns = Of[list[str]]("_model", "The columns that have coefficients.")
    groups = Of[list[str]]("_model", "Groups held, in the order added.")
    spent = Of[float]("_model", "Summed cost of the groups held.")
    explained = Of[float](
        "_model", "Share of the target's variance, or of the null deviance, that is explained."
    )

    @property
    def r2(self) -> float:
        """1 - RSS/TSS on the rows of the Gram; a generalised linear model has none."""
        model: Any = self._model
        if isinstance(model, GlmModel | ScoreModel):
            kind = type(model).__name__
            raise FieldError(f"a {kind} has no r2; see explained, of a family its deviance")
        return float(model.r2)

    @property
    def target(self) -> str:
        """The column that is predicted; FieldError for several responses."""
        model = self._model
        if isinstance(model, JointModel):
            raise FieldError("a JointModel has no target; its responses are in model.responses")
        return model.target

    intercept = Of[Any]("_model", "Intercept of the model, in the target's unit.")
    coefficients = Of[dict[Any, Any]](
        "_model", "Column -> coefficient, in the table's units, as in the model."
    )
    aliased = Of[tuple[str, ...]]("_model", "Columns that depend linearly on columns before them.")
    saturated = Of[bool](
        "_model", "Whether the model has as many coefficients as rows, so that it fits any target."
    )

    @property
    def _descent(self) -> Convergence:
        return self._how(Convergence)

    history = Of[Vector](
        "_descent",
        "The objective at the start of the descent and after each step, before the refit.",
    )
    converged = Of[bool]("_descent", "Whether the descent converged before `max_iter` steps.")
    iterations = Of[int]("_descent", "Steps of the descent.")

    @property
    def diagnostics(self) -> Diagnostics:
        """Diagnostics of the choice; FieldError for methods without them."""
        return self._how(Diagnostics)

    @property
    def proof(self) -> Proof:
        """Optimality of the groups within the budget."""
        return self._how(Proof)

    @property
    def shrinkage(self) -> Shrinkage:
        """Penalty of the model, and its distance from the minimum."""
        return self._how(Shrinkage)

    # The model's own methods, so that a warning names the caller's line.

    @property
    def summary(self) -> Callable[[], pl.DataFrame]:
        """`Model.summary` of the model; FieldError if it has none."""
        model: Any = self._model
        if not hasattr(type(model), "summary"):
            raise FieldError(f"a {type(self.model).__name__} has no summary; see its deviance")
        return model.summary  # type: ignore[no-any-return]

    robust_errors = Of[Callable[..., Any]]("_model", "`Model.robust_errors` of the model.")
    refit = Of[Callable[[Any], Any]]("_model", "`Model.refit` of the model.")
    expr = Of[Callable[..., pl.Expr]](
        "_model", "`Predicting.expr` of the model: the prediction as a Polars expression."
    )
    sql = Of[Callable[..., str]](
        "_model", "`Predicting.sql` of the model: the prediction as an SQL expression."
    )
    predict = Of[Callable[..., npt.NDArray[np.float64]]](
        "_model", "`Predicting.predict` of the model: the predictions of rows in memory."
    )


def model_in(result: Any) -> Any:
    """Return the model of a `Selected` that has one; other results as they are."""
    if isinstance(result, Selected) and result.model is not None:
        return result.model
    return result
