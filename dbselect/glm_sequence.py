"""A search among generalised linear models: groups in order, with a model for each prefix."""

from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.glm_model import GlmModel, on_table
from dbselect.gram import Vector
from dbselect.groups import Groups
from dbselect.objectives.glm import Status
from dbselect.sequence import check_budget
from dbselect.steps import STEP_DTYPES, Step, Stop, best_within, is_useful

_DTYPES = {**STEP_DTYPES, "deviance": pl.Float64, "status": pl.String, "passes": pl.Int64}


@dataclass(frozen=True, eq=False)
class GlmSequence:
    """Groups in the order in which they buy prediction, with a model for each prefix.

    Step 0 is the model without columns.

    Parameters
    ----------
    target, family, classes, offset : as in `GlmModel`
    groups : Groups, their columns and costs
    rule : name of the rule
    ridge, scale : penalty, and whether it is on unit-variance columns
    records : the steps 1, 2, ...
    spent : shape (steps + 1,), summed cost of the groups held
    explained : shape (steps + 1,), share of the null deviance, less what the ridge takes
    deviance : shape (steps + 1,)
    intercept : shape (steps + 1, K)
    coef : shape (steps + 1, D, K), in the table's units
    status : how the fit of each step ended, shape (steps + 1,)
    passes : shape (steps + 1,), passes made until each step was done
    aliased : columns that depend linearly on columns before them
    stop : why the search ended
    rows, skipped : rows used by each pass, and left out
    passes_made, rows_read, bytes_read : by the whole search; bytes as Arrow holds numbers

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> y = [0, 1, 0, 1, 0, 1, 1, 0]
    >>> table = pl.DataFrame({"a": [0, 1] * 4, "b": [0, 0, 1, 1] * 2, "y": y})
    >>> seq = ds.anytime_sequence(table, "y", family="binomial")
    >>> seq.steps["group"].to_list(), seq.steps["explained"].round(3).to_list()
    ([None, 'a', 'b'], [0.0, 0.189, 0.189])
    >>> seq.at(budget=1.0).predict(pl.DataFrame({"a": [0, 1]})).round(3).tolist()
    [0.25, 0.75]
    """

    target: str
    family: str
    classes: tuple[Any, ...]
    offset: str | None
    groups: Groups
    rule: str
    ridge: float
    scale: bool
    records: list[Step]
    spent: Vector
    explained: Vector
    deviance: Vector
    intercept: npt.NDArray[np.float64]
    coef: npt.NDArray[np.float64]
    status: list[Status]
    passes: npt.NDArray[np.int64]
    aliased: tuple[str, ...]
    stop: Stop
    rows: int
    skipped: int
    passes_made: int
    rows_read: int
    bytes_read: int

    def __repr__(self) -> str:
        order = ", ".join(self.groups.names[step.group] for step in self.records)
        return (
            f"GlmSequence({self.family}, {self.target} ~ {order or 'nothing'}; explained "
            f"{self.explained[-1]:.4f}, spent {self.spent[-1]:g}; {self.stop.value})"
        )

    @property
    def columns(self) -> list[str]:
        """D columns of the groups, in the order of `coef`."""
        return self.groups.members

    @property
    def unused(self) -> tuple[str, ...]:
        """Columns that lie in no group."""
        return self.groups.unused

    @property
    def r2(self) -> Vector:
        """Share of the null deviance explained; equals `explained` at ridge 0."""
        return np.asarray(1.0 - self.deviance / self.deviance[0])

    @property
    def useful(self) -> npt.NDArray[np.bool_]:
        """Whether each step changed what is explained; shape (steps + 1,)."""
        return np.array([True, *(is_useful(step.gain) for step in self.records)])

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row a step: what `Sequence.steps` has, and deviance, status and passes so far."""
        names = self.groups.names
        return pl.DataFrame(
            {
                "step": np.arange(len(self.spent)),
                "action": ["start"] + [step.action for step in self.records],
                "group": [None] + [names[step.group] for step in self.records],
                "cost": [0.0] + [float(self.groups.costs[step.group]) for step in self.records],
                "spent": self.spent,
                "score": [None] + [step.score for step in self.records],
                "gain": [0.0] + [step.gain for step in self.records],
                "explained": self.explained,
                "r2": self.r2,
                "useful": self.useful,
                "deviance": self.deviance,
                "status": [status.name.lower() for status in self.status],
                "passes": self.passes,
            },
            schema=_DTYPES,
        )

    def at(self, budget: float | None = None) -> GlmModel:
        """Return the model of the longest prefix within a budget.

        Parameters
        ----------
        budget : >= 0, in the unit of cost; None = no limit

        Raises
        ------
        ArgumentError : `budget` is negative or not a number
        """
        check_budget(budget)
        step = best_within(self.spent, budget)
        held = [record.group for record in self.records[:step]]
        at = [int(j) for group in held for j in self.groups.positions[group]]
        names = [self.columns[j] for j in at]
        intercept, coefficients = on_table(
            self.classes, self.intercept[step], self.coef[step, at], names
        )
        return GlmModel(
            target=self.target,
            family=self.family,
            classes=self.classes,
            offset=self.offset,
            intercept=intercept,
            coefficients=coefficients,
            groups=[self.groups.names[group] for group in held],
            spent=float(self.spent[step]),
            deviance=float(self.deviance[step]),
            null_deviance=float(self.deviance[0]),
            explained=float(self.explained[step]),
            status=self.status[step],
            aliased=tuple(name for name in self.aliased if name in names),
            rows=self.rows,
            skipped=self.skipped,
            passes=int(self.passes[step]),
            rows_read=self.rows_read,
            bytes_read=self.bytes_read,
        )

    def expr(self, budget: float | None = None, *, nested: bool = True) -> pl.Expr:
        """Return the mean of the target by ``at(budget)`` as a Polars expression."""
        return self.at(budget).expr(nested=nested)

    def sql(
        self, budget: float | None = None, dialect: str = "duckdb", *, nested: bool = True
    ) -> str:
        """Return the mean of the target by ``at(budget)`` as an SQL expression."""
        return self.at(budget).sql(dialect, nested=nested)

    def predict(
        self,
        X: pl.DataFrame | npt.ArrayLike,
        columns: Ordered[str] | None = None,
        budget: float | None = None,
    ) -> npt.NDArray[np.float64]:
        """Return the means of the target by ``at(budget)`` (`GlmModel.predict`).

        Parameters
        ----------
        X : DataFrame, or numbers of shape (n, d)
        columns : d names; default: ``columns`` of the sequence, in their order, and the offset
        budget : >= 0, in the unit of cost; None = no limit
        """
        offset = [] if self.offset is None else [self.offset]
        return self.at(budget).predict(X, [*self.columns, *offset] if columns is None else columns)
