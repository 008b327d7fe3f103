"""A search among generalised linear models: groups in order, with a model for each prefix."""

from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.record import files
from dbselect.record.checks import check_budget
from dbselect.record.steps import best_of_size, best_within, is_useful
from dbselect.results import glm_store
from dbselect.results.glm_model import GlmModel, on_table
from dbselect.results.glm_store import GlmRecord
from dbselect.results.predict import is_frame


@dataclass(frozen=True, eq=False)
class GlmSequence(GlmRecord, files.Stored):
    """Groups in the order in which they buy prediction, with a model for each prefix.

    Step 0 is the model without columns. What it consists of is listed at `GlmRecord`.

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

    def __repr__(self) -> str:
        order = ", ".join(
            ("" if step.action == "add" else "-") + self.groups.names[step.group]
            for step in self.records
        )
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
    def useful(self) -> npt.NDArray[np.bool_]:
        """Whether each step changed what is explained; shape (steps + 1,)."""
        return np.array([True, *(is_useful(step.gain) for step in self.records)])

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row a step: what `Sequence.steps` has, and deviance, status and passes so far."""
        return self.step_frame()

    def at(self, budget: float | None = None, *, size: int | None = None) -> GlmModel:
        """Return the model of the longest prefix within a budget.

        Where all groups were given back in the end (`backward`), it is the first within
        the budget after all were held.

        Parameters
        ----------
        budget : >= 0, in the unit of cost; None = no limit
        size : take the best of the models with so many groups, within the budget

        Raises
        ------
        ArgumentError : `budget` is negative or not a number; no prefix has `size` groups
        """
        check_budget(budget)
        if size is None:
            step = best_within(self.spent, budget)
        else:
            step = best_of_size(self.records, self.spent, self.explained, budget, size)
        held, at = self.held(step), self.columns_held(step)
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
        X: npt.ArrayLike,
        columns: Ordered[str] | None = None,
        budget: float | None = None,
    ) -> npt.NDArray[np.float64]:
        """Return the means of the target by ``at(budget)`` (`GlmModel.predict`).

        Parameters
        ----------
        X : as in `GlmModel.predict`
        columns : d names; default: ``columns`` of the sequence, in their order, and the offset
        budget : >= 0, in the unit of cost; None = no limit
        """
        if columns is None and not is_frame(X):
            columns = [*self.columns, *([] if self.offset is None else [self.offset])]
        return self.at(budget).predict(X, columns)

    def to_struct(self) -> dict[str, Any]:
        """Return the sequence as plain Python data."""
        return glm_store.to_struct(self)

    @classmethod
    def from_struct(cls, record: Any) -> "GlmSequence":
        """Read what `to_struct` or ``anytime_sequence_glm`` in SQL gave.

        Raises
        ------
        RecordError : a field is missing or of another kind
        """
        return cls(**glm_store.parts(record))

    def write_parquet(self, path: str | Path) -> None:
        """Write a Parquet file of one row, its columns the fields of `to_struct`.

        In SQL, where ``FROM 'file' AS model`` reads it, ``glm_predict`` takes ``model``.
        """
        files.write_parquet(glm_store.to_arrow(self.to_struct()), path)

    @classmethod
    def read_parquet(cls, path: str | Path) -> "GlmSequence":
        """Read what `write_parquet` wrote.

        Raises
        ------
        SourceError : there is no such file, or it holds something else
        """
        return cls.from_struct(files.read_row(path, glm_store.FIELDS, "a sequence"))
