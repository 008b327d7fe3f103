"""Sequences of generalised linear models: groups in order, with a model for each prefix."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from dbselect.errors import ArgumentError, DbselectError, shown
from dbselect.glm.links import family_of, kind_of_family
from dbselect.glm.newton import Status
from dbselect.linear import information
from dbselect.linear.information import lr_table, sides, tests_beside
from dbselect.linear.problem import Linear
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups
from dbselect.record.policies import row_counts
from dbselect.record.steps import Step, Stop
from dbselect.record.terms import Terms
from dbselect.results.glm import store
from dbselect.results.glm.model import GlmModel, OfFamily, StandardErrors, on_table, predicted
from dbselect.results.prefixes import Prefixes


@dataclass(frozen=True, eq=False)
class Precision:
    """Standard errors and degrees of freedom of each prefix, from its last pass."""

    # shape (steps + 1,), rank or effective number of parameters, those of the intercept included
    degrees: Vector
    dispersion: Vector  # shape (steps + 1,), as `GlmModel.dispersion`
    # shape (steps + 1, K, 1 + D), standard errors of intercept and columns of each predictor in the
    # table's units; NaN where a column is aliased or not held
    errors: npt.NDArray[np.float64]
    centre: Vector  # shape (D,), mean of each column over the rows


@dataclass(frozen=True, eq=False, repr=False)
class GlmSequence(OfFamily, Prefixes[GlmModel]):
    """Groups in selection order, with a generalised linear model for each prefix.

    Step 0 is the model without columns. `Prefixes` documents what all sequences share.

    Parameters
    ----------
    groups : Groups, their columns and costs
    rule : name of the rule
    records : the steps 1, 2, ...
    spent : shape (steps + 1,), summed cost of the groups held
    explained : shape (steps + 1,), share of the null deviance, less what the ridge takes
    deviance : shape (steps + 1,)
    intercept : shape (steps + 1, K)
    coef : shape (steps + 1, D, K), in the table's units
    status : how the fit of each step ended, shape (steps + 1,)
    passes : shape (steps + 1,), passes until the end of each step
    aliased : columns that depend linearly on columns before them
    stop : why the search ended
    passes_made : passes of the whole search
    precision : standard errors of the prefixes; None if read from a file, which has none
    family, classes, levels, rows, skipped, rows_searched : as in `GlmModel`
    rows_read, bytes_read, terms, call : as in `GlmModel`

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

    groups: Groups
    rule: str
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
    passes_made: int
    precision: Precision | None = None

    _RECORD_TYPE: ClassVar[pa.StructType] = store.GLM_TYPE
    _WHAT: ClassVar[str] = "a sequence"
    _is_quadratic: ClassVar[bool] = False

    @property
    def _summary(self) -> tuple[str, str]:
        prediction = predicted(self.target, self.levels)
        return f"{self.family}, {prediction}", f"explained {self.explained[-1]:.4f}"

    @property
    def _used(self) -> str:
        return row_counts(self.rows, self.skipped, self.rows_searched)

    @property
    def r2(self) -> Vector:
        """Share of the null deviance explained; equals `explained` at ridge 0."""
        return np.asarray(1.0 - self.deviance / self.deviance[0])

    def _extra_step_columns(self) -> list[pl.Series]:
        status = [status.name.lower() for status in self.status]
        return [
            pl.Series("deviance", self.deviance, pl.Float64),
            pl.Series("status", status, pl.String),
            pl.Series("passes", self.passes, pl.Int64),
        ]

    def model(self, step: int) -> GlmModel:
        """Return the model after a step, as `Prefixes.model`."""
        held, at = self.held(step), self.columns_held(step)
        names = [self.columns[j] for j in at]
        intercept, coefficients = on_table(
            self.classes, self.intercept[step], self.coef[step, at], names
        )
        return GlmModel(
            **self._common | {"terms": self.terms.of({*names, *self.offsets.names})},
            intercept=intercept,
            coefficients=coefficients,
            groups=[self.groups.names[group] for group in held],
            spent=float(self.spent[step]),
            deviance=float(self.deviance[step]),
            null_deviance=float(self.deviance[0]),
            explained=float(self.explained[step]),
            status=self.status[step],
            aliased=tuple(name for name in self.aliased if name in names),
            passes=int(self.passes[step]),
            errors=self._errors(step, at),
        )

    def _signed(self, step: int, signs: Mapping[str, str]) -> GlmModel:
        raise ArgumentError(
            f"signs is {shown(signs)}; a GlmSequence keeps no rows to fit under signs: "
            f"dbselect.fit(table, {self.target!r}, seq.at(budget).columns, "
            f"family={self.family!r}, signs=...) does"
        )

    def _errors(self, step: int, at: list[int]) -> StandardErrors | None:
        if self.precision is None:
            return None
        values = self.precision.errors[step][:, [0, *(1 + j for j in at)]]
        dispersion = float(self.precision.dispersion[step])
        centre = self.precision.centre[at]
        return StandardErrors(values, self.ridge, self._was_chosen(step), dispersion, centre)

    def _criteria(self, gamma: float, penalty: float | None) -> pl.DataFrame:
        degrees = self._degrees()
        free = family_of(self.family, self.classes).basis.shape[1]
        sizes = np.array([float(len(self.held(step))) for step in range(len(self.spent))])
        trials = information.Trials(
            self.rows, degrees / free, degrees, sizes, len(self.groups.names), len(self.columns)
        )
        loss = self._loss(self.rows, self.deviance, self.deviance[0])
        if kind_of_family(self.family) != "gaussian":
            return information.by_likelihood(loss, trials, gamma, penalty)
        left = np.maximum(self.deviance / self.deviance[0], information.SMALLEST_SHARE)
        rest = np.where(self.rows > degrees, self.rows - degrees, np.nan)
        adjusted = 1.0 - left / rest * (self.rows - self.has_intercept)
        return information.by_likelihood(loss, trials, gamma, penalty, adjusted_r2=adjusted)

    def _degrees(self) -> Vector:
        """Return the number of parameters of each prefix, with the intercept."""
        if self.precision is not None:
            return self.precision.degrees
        if self.ridge:
            raise ArgumentError(
                f"the sequence has ridge {self.ridge:g} and was read from a file, which does not "
                "hold the effective numbers of parameters; search again for its criteria"
            )
        # Only aliased columns have coefficients of exactly 0.
        free = family_of(self.family, self.classes).basis.shape[1]
        return np.asarray(free * (self.has_intercept + self.coef.any(axis=2).sum(axis=1)))

    def _step_tests(self, kind: Literal["f", "lr"]) -> pl.DataFrame:
        if kind == "f":
            raise ArgumentError(
                f"family is {self.family!r}, whose sequences have no f_tests: F compares residual "
                "sums of squares; take lr_tests"
            )
        if self.ridge:
            raise ArgumentError(
                f"ridge is {self.ridge:g}; lr_tests compare likelihoods, at ridge 0"
            )
        dispersion = np.ones(len(self.deviance))
        if self.precision is not None:
            dispersion = self.precision.dispersion
        elif family_of(self.family, self.classes).has_dispersion:
            raise ArgumentError("the sequence was read from a file, which holds no dispersion")
        smaller, larger = sides(self.steps)
        degrees, deviance = self._degrees(), self.deviance
        statistic = (deviance[smaller] - deviance[larger]) / dispersion[larger]
        return tests_beside(self.steps, lr_table(degrees[larger] - degrees[smaller], statistic))

    def _no_criterion(self, criterion: str) -> DbselectError:
        if criterion in ("cp", "adjusted_r2"):
            return ArgumentError(
                f"criterion is {criterion!r}, which compares variances of residuals; family "
                f"{self.family!r} has 'aic', 'bic', 'ebic' and 'gic'"
            )
        return super()._no_criterion(criterion)

    @property
    def _inputs(self) -> list[str]:
        return [*self.columns, *self.offsets.names]

    @property
    def _prepared(self) -> Terms:
        return self.offsets.with_log(self.terms)

    def _read_at(self, step: int) -> list[str]:
        return [*self.offsets.coefficients, *super()._read_at(step)]

    def _quadratic(self, what: str) -> Linear:
        raise ArgumentError(
            f"family is {self.family!r}, whose sequences have no {what}: it is proved for the "
            "quadratic objective of a Gram, which anytime_sequence has without a family"
        )

    def to_struct(self) -> dict[str, Any]:
        """Return the sequence as plain Python data."""
        return store.glm_record(self)

    @classmethod
    def from_struct(cls, record: Any) -> "GlmSequence":
        """Read a record of `to_struct` or of SQL's ``anytime_sequence_glm``."""
        return cls(**store.glm_parts(record))
