"""Least squares on columns that the caller names: no search, and an exact mode."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dbselect.errors import ArgumentError, ColumnError, DataError
from dbselect.linear.condition import check_possible, warn_of, warn_of_dropped
from dbselect.linear.exact import ExactFit, least_squares
from dbselect.linear.inference import INTERCEPT, Deviations, FittedRows, through_origin
from dbselect.linear.problem import constant_target, filled_target, is_filled
from dbselect.methods.options import Options
from dbselect.methods.setup import check_target, fitted, prepare
from dbselect.methods.types import Source
from dbselect.record.checks import check_column, check_ridge, check_scale
from dbselect.record.columns import check_roles, match, with_indicators
from dbselect.record.gram import Gram
from dbselect.record.groups import groups_of
from dbselect.record.missing import features_of
from dbselect.results.model import Model
from dbselect.sources.exact import ExactSums, exact_sums
from dbselect.sources.open import open_table, stored_gram
from dbselect.sources.read import gram as read_gram
from dbselect.sources.target import check_numeric


@dataclass(frozen=True, kw_only=True)
class FitOptions(Options):
    """The options of `fit`."""

    method: ClassVar[str] = "fit"

    weight: str | None = None
    intercept: bool = True
    ridge: float = 0.0
    scale: bool = True
    exact: bool = False

    def __post_init__(self) -> None:
        """Refuse options that no data could make right."""
        super().__post_init__()
        check_ridge(self.ridge)
        check_scale(self.scale)
        check_column("weight", self.weight)
        for name, value in (("intercept", self.intercept), ("exact", self.exact)):
            if not isinstance(value, bool):
                raise ArgumentError(f"{name} is {value!r}; it must be True or False")
        if self.exact and self.ridge:
            raise ArgumentError(f"ridge is {self.ridge!r}; exact fits are at ridge 0")


def fit(
    source: Source,
    target: str,
    columns: Sequence[str] | None = None,
    *,
    weight: str | None = FitOptions.weight,
    intercept: bool = FitOptions.intercept,
    ridge: float = FitOptions.ridge,
    scale: bool = FitOptions.scale,
    exact: bool = FitOptions.exact,
) -> Model:
    """Fit a linear model on some columns, all of them, by least squares.

    Minimises ``sum w (y - b0 - x'b)^2 / sum w + ridge |b|^2``. Its `Model.summary` has
    standard errors and p-values that hold, as nothing was chosen.

    Parameters
    ----------
    source : Gram, a Gram record, a Parquet file or frame that holds one, or any table
        that `gram` reads
    target : column to predict
    columns : names and globs; default: every numeric column but the target and the
        weight. For a NumPy array the names of all its columns, the target among them.
        Of a Gram, the indicators ``x.missing`` of these columns belong to them
    weight : column of row weights, >= 0; a Gram has its own
    intercept : False for a model through the origin; r2 is then 1 - RSS / sum of y^2
    ridge : >= 0, lambda on unit-variance columns; the intercept is not penalised
    scale : False takes `ridge` on the columns as they are
    exact : sum the rows of a table and solve in whole numbers: every coefficient is the
        true one for the doubles of the table, rounded once

    Returns
    -------
    Model; its groups are the fields of the columns, each at cost 1

    Raises
    ------
    ColumnError : an unknown column, or none besides the target
    ArgumentError : `exact` with a Gram or a ridge; `weight` with a Gram; ridge, scale,
        intercept or exact out of range
    DataError : no usable rows, a constant target, or one that is 0 where it is missing

    Warns
    -----
    ConditionWarning : the columns are so nearly dependent that their coefficients keep
        fewer than six digits; never with `exact`
    DependenceWarning : a column is left out that depends on others but for a trace, by which
        it may explain much of the target; never with `exact`
    SkippedRowsWarning : more than half of the rows of the table are left out

    Notes
    -----
    A Gram holds comoments of 16 digits, of which the coefficients of nearly dependent
    columns keep 16 - log10(condition of their correlations); no solver can bring back
    more. The exact mode has no such limit. It too takes one pass, at ten times the cost of
    `gram` for whole numbers and some thirty times for arbitrary doubles, and solves in
    O(D^4.6): 3 ms for 10 columns, 2 s for 50, 40 s for 100. It takes the doubles of the
    table as they are: columns that depend on others but for their own rounding are not
    aliased, and what is fitted is that rounding. Values must be 0 or 1e-240 to 1e60.

    References
    ----------
    Ozaki, Ogita, Oishi, Rump (2012), Numerical Algorithms 59; Bareiss (1968),
    Mathematics of Computation 22; Higham (2002), section 12, for the refinement of the
    plain mode.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> model = ds.fit(table, "y", ["a"])
    >>> model.summary().select("term", pl.col("estimate", "std_error", "p_value").round(3)).rows()
    [('(intercept)', 0.5, 0.866, 0.622), ('a', 2.0, 0.316, 0.024)]
    >>> ds.fit(table, "y", exact=True).coefficients
    {'a': 2.0, 'b': 0.5}
    """
    FitOptions(weight=weight, intercept=intercept, ridge=ridge, scale=scale, exact=exact)
    check_target(target)
    if isinstance(columns, str):
        raise ArgumentError(f"columns is {columns!r}; it must be a list of column names and globs")
    if not isinstance(source, np.ndarray):  # of which all columns are named
        check_roles(columns, {"target": target, "weight": weight})
    known = stored_gram(source)
    if known is not None and weight is not None:
        raise ArgumentError(f"weight is {weight!r}; a Gram was made with its weights")
    if exact:
        if known is not None:
            raise ArgumentError("exact is True; a Gram is rounded, so source must be a table")
        return _exact(exact_sums(source, target, columns, weight), intercept)
    if known is None:
        wanted = _wanted(source, target, columns)
        table = open_table(source, wanted)
        check_numeric(table, [target])
        known = read_gram(table, wanted, weight)
    known.position(target, "target")
    features = [name for name in features_of(known.columns, target, known.terms) if name != weight]
    if columns is not None:
        named = match(columns, known.columns, "columns")
        used = [name for name in named if name in features]
        features = with_indicators(used, features, named)
    if not features:
        raise ColumnError("columns is empty; at least one column besides the target is needed")
    if is_filled(known.columns, known.mean, target):
        raise DataError(filled_target(target))
    model = _least_squares(known, target, features, intercept, ridge, scale)
    return replace(model, fit=FittedRows(known, ridge, intercept=intercept))


def _wanted(source: Any, target: str, columns: Sequence[str] | None) -> Sequence[str] | None:
    """Return the columns to read; those of an array are named by their places."""
    if columns is None or isinstance(source, np.ndarray):
        return columns
    return [target, *columns]


def _least_squares(
    gram: Gram, target: str, features: list[str], intercept: bool, ridge: float, scale: bool
) -> Model:
    rows = gram if intercept else through_origin(gram)
    search = prepare(rows.select([target, *features]), target, None, None, ridge=ridge, scale=scale)
    search.state.add_all(range(search.state.size))
    check_possible(search.state)
    warn_of(search.state.condition())
    warn_of_dropped(search.state, search.groups.members)
    return Model(**fitted(search, search.state))


def _exact(sums: ExactSums, intercept: bool) -> Model:
    first = 0 if intercept else 1
    found = least_squares(
        sums.products[first:, first:], sums.exponent[first:], sums.scale, intercept
    )
    *features, target = sums.columns
    if found.total == 0:
        raise DataError(constant_target(target, sums.rows, sums.skipped))
    terms = [INTERCEPT, *features] if intercept else features
    coefficients = dict(zip(terms, found.coef, strict=True))
    aliased = tuple(terms[j] for j in found.aliased)
    groups = groups_of(features, terms=sums.terms).names
    share = 1.0 - found.left / found.total
    return Model(
        target=target,
        intercept=coefficients.pop(INTERCEPT, 0.0),
        coefficients=coefficients,
        groups=groups,
        spent=float(len(groups)),
        explained=share,
        r2=share,
        aliased=aliased,
        rows=sums.rows,
        skipped=sums.skipped,
        fit=FittedRows(None, intercept=intercept, known=_deviations(found, terms, sums.rows)),
        terms=sums.terms,
    )


def _deviations(found: ExactFit, terms: list[str], rows: int) -> Deviations:
    """Return the standard errors of the terms that are not aliased."""
    kept = [j for j in range(len(terms)) if j not in found.aliased]
    free = rows - len(kept)
    variance = found.left / free if free > 0 else math.nan
    return Deviations({terms[j]: math.sqrt(variance * found.variance[j]) for j in kept}, free)
