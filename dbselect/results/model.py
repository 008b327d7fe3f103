"""Linear models of one response, or of several responses on the same groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import polars as pl

from dbselect.errors import ArgumentError, FieldError, PerfectFitWarning, warn_caller
from dbselect.linear.condition import warn_of
from dbselect.linear.inference import (
    Deviations,
    FittedRows,
    t_quantile,
    tests,
)
from dbselect.linear.least_squares import Constraint, constrained_fit
from dbselect.pages.html import listed
from dbselect.record.columns import INTERCEPT
from dbselect.record.dependences import shares_of
from dbselect.record.gram import Gram, Vector
from dbselect.record.policies import clip_share, is_saturated, row_counts
from dbselect.record.terms import Terms
from dbselect.results.call import Call, Of
from dbselect.results.diagnosed import Diagnosed
from dbselect.results.fields import StoredFields
from dbselect.results.fitted import tables_under
from dbselect.results.prediction.predict import Predicting, Predictor
from dbselect.spec.spec import Spec

#: Share that is not explained, below which it is the rounding of a Gram.
PERFECT_SHARE = 1e-13


@dataclass(frozen=True)
class Model(Diagnosed, StoredFields, Predicting):
    """A linear model on the groups of one prefix.

    Parameters
    ----------
    target : the column that is predicted
    intercept : in the target's unit
    coefficients : column -> coefficient, in the table's units; aliased columns have 0
    groups : groups held, in the order added
    spent : summed cost of these groups
    explained : share of the target's variance explained by the penalised objective
    r2 : 1 - RSS/TSS on the rows of the Gram; equals `explained` at ridge 0
    aliased : columns that depend linearly on columns before them
    rows, skipped : numbers of rows used and left out; 0 if unknown
    fit : statistics of the rows used, for `summary`; None if unknown
    terms : how the columns of the table became those of the model
    call : the problem, without rows, and the method

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "y": [3, 5, 7, 9]})
    >>> model = ds.anytime_sequence(table, "y").at()
    >>> model.predict([[10.0]]).round(6).tolist()
    [21.0]
    >>> table.select(model.expr().round(6).alias("p"))["p"].to_list()
    [3.0, 5.0, 7.0, 9.0]
    """

    target: str
    intercept: float
    coefficients: dict[str, float]
    groups: list[str]
    spent: float
    explained: float
    r2: float
    aliased: tuple[str, ...]
    rows: int = field(default=0, kw_only=True, compare=False)
    skipped: int = field(default=0, kw_only=True, compare=False)
    fit: FittedRows | None = field(default=None, kw_only=True, repr=False, compare=False)
    terms: Terms = field(default_factory=Terms, kw_only=True, repr=False)
    call: Call | None = field(default=None, kw_only=True, repr=False, compare=False)

    def __repr__(self) -> str:
        rows = row_counts(self.rows, self.skipped) if self.rows else "rows unknown"
        rows += self.terms.completed
        return (
            f"Model({self.target} ~ {listed(self.groups)}; r2 {self.r2:.4f}, "
            f"spent {self.spent:g}; {rows})"
        )

    @property
    def problem(self) -> Spec:
        """The problem, without its rows."""
        if self.call is None:
            raise FieldError("the model was made without a problem; fit its columns")
        return self.call.problem

    @property
    def columns(self) -> list[str]:
        """The columns of the groups held."""
        return list(self.coefficients)

    @property
    def _constraint(self) -> Constraint | None:
        return None if self.fit is None else self.fit.constraint

    @property
    def saturated(self) -> bool:
        """Whether it has as many coefficients as rows, so that it fits any target exactly."""
        if self.fit is None:
            return False
        coefficients = len(self.columns) - len(self.aliased) + self.fit.intercept
        return is_saturated(self.rows, coefficients, self.fit.ridge)

    def _tested(self) -> pl.DataFrame:
        is_stored = self._least_squares.known is not None
        if not is_stored and 1.0 - self.r2 < PERFECT_SHARE and self._deviations.free > 0:
            warn_caller(
                "the columns explain the target exactly, up to rounding: residuals are noise, "
                "and so are standard errors, tests and intervals",
                PerfectFitWarning,
            )
        intercept = {INTERCEPT: self.intercept} if self._fit_rows.intercept else {}
        return tests(intercept | self.coefficients, self._deviations)

    @cached_property
    def _deviations(self) -> Deviations:
        """The standard errors of the coefficients, from the rows of the fit."""
        stored = self._least_squares.known
        if stored is not None:
            return stored
        fit = self._fitted
        return Deviations(dict(zip(fit.terms, fit.errors.tolist(), strict=True)), fit.free)

    def _quantile(self, level: float) -> float:
        return t_quantile(level, self._deviations.free)

    def _extra_term_columns(self) -> list[pl.Series]:
        return [self._standardized()]

    @property
    def _centre(self) -> dict[str, float]:
        gram = None if self.fit is None else self.fit.gram
        return {} if gram is None else dict(zip(gram.columns, gram.mean.tolist(), strict=True))

    @property
    def _prepared(self) -> Terms:
        return self.terms

    @property
    def _predictors(self) -> list[Predictor]:
        return [Predictor(self.intercept, self.coefficients)]


def constrained_model(
    gram: Gram,
    target: str,
    columns: Sequence[str],
    call: Call,
    *,
    groups: list[str],
    spent: float,
    signs: Mapping[str, str] | None = None,
    uncorrelated: Sequence[str] = (),
    **fields: Any,
) -> Model:
    """Return the model of columns of a Gram under constraints; `fields` are of the problem."""
    found, condition, constraint = constrained_fit(
        gram, target, columns, signs=signs or {}, uncorrelated=uncorrelated, **fields
    )
    warn_of(condition)
    return Model(
        **found,
        target=target,
        groups=groups,
        spent=spent,
        rows=gram.rows,
        skipped=gram.skipped,
        fit=FittedRows(
            gram.select([target, *columns]), fields["ridge"], intercept=fields["intercept"],
            constraint=constraint,
        ),
        terms=gram.terms.of(columns).with_shares(shares_of(gram)),
        call=call,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class JointModel(StoredFields, Predicting):
    """Linear models of several responses on the same groups.

    Parameters
    ----------
    responses : response -> its Model
    share : shape (K,), weight of each response in `explained` and `r2`; they sum to 1

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3], "y": [3, 5, 7], "z": [3, 2, 1]})
    >>> model = ds.anytime_sequence(table, ["y", "z"]).at()
    >>> model.predict([[10.0]]).round(6).tolist()
    [[21.0, -6.0]]
    >>> table.select(model.expr().alias("p")).unnest("p")["z"].round(6).to_list()
    [3.0, 2.0, 1.0]
    """

    responses: dict[str, Model]
    share: Vector

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({listed(list(self.responses))} ~ "
            f"{listed(self.groups)}; r2 {self.r2:.4f}, spent {self.spent:g}; "
            f"{row_counts(self.rows, self.skipped)})"
        )

    @property
    def _first(self) -> Model:
        return next(iter(self.responses.values()))

    groups = Of[list[str]]("_first", "Groups held, in the order added.")
    columns = Of[list[str]]("_first", "The columns of the groups held.")
    aliased = Of[tuple[str, ...]]("_first", "Columns that depend linearly on columns before them.")
    rows = Of[int]("_first", "Rows that the models were fitted to.")
    skipped = Of[int]("_first", "Rows left out.")
    saturated = Of[bool]("_first", "Whether each model has as many coefficients as rows.")
    spent = Of[float]("_first", "Summed cost of the groups held, which all responses share.")

    @property
    def explained(self) -> float:
        """Share of the responses' variance explained by the penalised objective."""
        shares = self.share @ [model.explained for model in self.responses.values()]
        return float(clip_share(shares))

    @property
    def r2(self) -> float:
        """1 - RSS/TSS of the responses, weighted by `share`."""
        return float(clip_share(self.share @ [model.r2 for model in self.responses.values()]))

    @property
    def intercept(self) -> dict[str, float]:
        """Response -> intercept, in the response's unit."""
        return {name: model.intercept for name, model in self.responses.items()}

    @property
    def coefficients(self) -> dict[str, dict[str, float]]:
        """Response -> column -> coefficient, in the table's units."""
        return {name: model.coefficients for name, model in self.responses.items()}

    def summary(self) -> pl.DataFrame:
        """Return the table of `Model.summary` for each response, named in ``response``.

        Raises
        ------
        ArgumentError, DataError : as `Model.summary`

        Warns
        -----
        SelectionWarning : as `Model.summary`
        """
        summaries = {name: model.summary() for name, model in self.responses.items()}
        return tables_under("response", summaries)

    def robust_errors(self, source: Any, **options: Any) -> NoReturn:
        """Refuse: call it for one response, ``model.responses["y"].robust_errors(table)``."""
        raise ArgumentError(
            f"a JointModel has the responses {list(self.responses)}, each with errors of its own; "
            "ask one of model.responses"
        )

    terms = Of[Terms]("_first", "How the columns of the table became those of the models.")

    @property
    def _prepared(self) -> Terms:
        return self.terms

    @property
    def _predictors(self) -> list[Predictor]:
        return [Predictor(model.intercept, model.coefficients) for model in self.responses.values()]

    @property
    def _fields(self) -> list[str]:
        return list(self.responses)
