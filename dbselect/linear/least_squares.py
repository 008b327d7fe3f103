"""Least squares on columns of a Gram, also under constraints, by the compiled library.

Coefficients are refined iteratively; columns that depend on earlier ones get 0. `dbselect.fit`,
`fit_by` and SQL's ``fit`` share this code and agree to the last bit.

Source: Higham (2002), Accuracy and Stability of Numerical Algorithms, section 12.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dbselect import _native
from dbselect.errors import ArgumentError, DataError
from dbselect.linear.problem import TARGET, numbered
from dbselect.record.columns import INTERCEPT, match
from dbselect.record.gram import Gram, Matrix, Vector


@dataclass(frozen=True)
class Trace:
    """A column that depends on others except for a small share of its variance."""

    column: int
    share: float
    gain: float  # share of the target's variance that this part may explain


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """A model of D columns; the fields from `rss` on are for ridge 0."""

    columns: tuple[str, ...]
    has_intercept: bool
    intercept: float  # 0 through the origin
    coef: Vector  # shape (D,), in the table's units; 0 where a column is aliased
    is_aliased: npt.NDArray[np.bool_]  # shape (D,)
    explained: float  # share of the target's variance that the penalised objective explains
    r2: float  # 1 - RSS / TSS
    condition: float  # condition number of the correlations of kept columns
    trace: Trace | None  # the aliased column that may explain most, if any
    rss: float
    free: int  # rows minus rank; may be <= 0
    errors: Vector  # standard error of each of `terms`; NaN if free <= 0
    units: Vector  # shape (D,), factor from coefficients to standardised ones
    inverse_factor: Matrix  # L^-1, L L' = comoment of kept columns; empty without has_factor

    @property
    def coefficients(self) -> dict[str, float]:
        """Column -> coefficient."""
        return dict(zip(self.columns, self.coef.tolist(), strict=True))

    @property
    def kept(self) -> list[str]:
        """The columns that are not aliased."""
        return [name for name, out in zip(self.columns, self.is_aliased, strict=True) if not out]

    @property
    def terms(self) -> list[str]:
        """The intercept, if there is one, and the columns that are not aliased."""
        return [INTERCEPT, *self.kept] if self.has_intercept else self.kept

    @property
    def variance(self) -> float:
        """Residual variance, RSS / (rows - rank); NaN if rows <= rank."""
        return self.rss / self.free if self.free > 0 else math.nan


def least_squares(
    gram: Gram,
    target: str,
    columns: Sequence[str],
    *,
    ridge: float = 0.0,
    scale: bool = True,
    intercept: bool = True,
    has_factor: bool = False,
) -> LeastSquares:
    """Fit columns, in this order; O(D^3). RecordError for comoments that no rows can have.

    The Gram must have rows and a target that varies. `has_factor`: return `inverse_factor`.
    """
    moments = _moments(gram, target, columns)
    if not columns:
        # The library needs at least one column; a column of 0 has no effect.
        parts = (
            np.pad(part, (1, 0)) for part in (moments.mean, moments.mean_low, moments.comoment)
        )
        moments = _native.Moments(gram.rows, gram.weight, *parts)
    fit = moments.least_squares(ridge, scale, intercept, has_factor)
    width = len(columns)
    is_aliased = fit["is_aliased"][:width] > 0
    rank = width - int(is_aliased.sum())
    size = rank if has_factor else 0
    column, *shares = fit["trace"].tolist() or [None]
    return LeastSquares(
        columns=tuple(columns),
        has_intercept=intercept,
        intercept=float(fit["intercept"][0]),
        coef=fit["coef"][:width],
        is_aliased=is_aliased,
        explained=float(fit["explained"][0]),
        r2=float(fit["r2"][0]),
        condition=float(fit["condition"][0]),
        trace=None if column is None else Trace(int(column), *shares),
        rss=float(fit["left"][0]),
        free=gram.rows - rank - intercept,
        errors=fit["errors"],
        units=fit["units"][:width],
        inverse_factor=fit["inverse_factor"].reshape(size, size),
    )


def refined(gram: Gram, target: str, columns: Sequence[str], coef: Matrix) -> Matrix:
    """Refine coefficients at ridge 0 to full precision; shape (M, D).

    They are for columns and target of unit variance. Model i has the columns up to its last nonzero
    coefficient, all independent. O(D^3) in total and O(D^2) per model.
    """
    coef = np.ascontiguousarray(coef, np.float64).copy()
    ranks = (np.arange(1, len(columns) + 1) * (coef != 0)).max(axis=1, initial=0)
    _moments(gram, target, columns).refine(ranks, coef)
    return coef


def _moments(gram: Gram, target: str, columns: Sequence[str]) -> _native.Moments:
    numbers = {name: number for number, name in enumerate(gram.columns)}
    at = [numbers[name] for name in (*columns, target)]
    comoment = gram.comoment[np.ix_(at, at)]
    return _native.Moments(gram.rows, gram.weight, gram.mean[at], gram.mean_low[at], comoment)


#: Why models under constraints have no standard errors.
NOT_NORMAL = (
    "the model was fitted with signs or uncorrelated, under which coefficients are not normal; fit "
    "it without them for standard errors and tests"
)


@dataclass(frozen=True)
class Constraint:
    """What constraints of the coefficients cost a model.

    Parameters
    ----------
    r2_cost : r2 of the columns without the constraints, less that of the model; of a family the
        share of the null deviance
    at_zero : columns whose coefficient is 0 because of their sign
    violation : largest violation of the optimality conditions, in correlations
    given : the constraints, as `fit` takes them
    """

    r2_cost: float
    at_zero: tuple[str, ...]
    violation: float
    given: dict[str, Any] = field(default_factory=dict, repr=False)


def constrained_fit(
    gram: Gram,
    target: str,
    columns: Sequence[str],
    *,
    signs: Mapping[str, str],
    uncorrelated: Sequence[str] = (),
    ridge: float = 0.0,
    scale: bool = True,
    intercept: bool = True,
) -> tuple[dict[str, Any], float, Constraint]:
    """Fit columns under constraints; O(D^3), and O(D^2) for each of some 2 D moves.

    `signs` maps names and globs of the columns to ``"+"`` or ``"-"``. Return the fields of a
    `Model` that the fit gives, the condition number, and what the constraints cost.
    """
    number = {name: str(at) for at, name in enumerate(columns)}
    signed = signs_of(signs, columns)
    apart = apart_of(gram, target, uncorrelated)
    everything = [*columns, *(name for name in apart if name not in number)]
    number |= {name: str(at) for at, name in enumerate(everything)}
    request = {
        "columns": [number[name] for name in columns],
        "signs": {number[name]: sign for name, sign in signed.items()} or None,
        "uncorrelated": [number[name] for name in apart] or None,
        "ridge": ridge, "scale": scale, "intercept": intercept,
    }  # fmt: skip
    answer = _native.answers(numbered(gram, everything, target), "fit", TARGET, request)
    if (status := answer.field("status")[0]).is_valid:
        raise DataError(str(status))
    found = {name: scalar.as_py() for name, scalar in answer.field("found")[0].items()}
    r2_cost, violation = answer.field("notes")[0].as_py()
    values = dict(found["coefficients"])
    coefficients = {name: values[number[name]] for name in columns}
    aliased = {columns[int(at)] for at in found["aliased"]}
    fields = {
        "coefficients": coefficients,
        "aliased": tuple(name for name in columns if name in aliased),
        **{name: found[name] for name in ("intercept", "explained", "r2")},
    }
    constraint = Constraint(
        r2_cost,
        tuple(name for name in signed if not coefficients[name]),
        violation,
        {"signs": dict(signs), "uncorrelated": list(uncorrelated)},
    )
    return fields, answer.field("condition")[0].as_py(), constraint


def signed_minimum(matrix: Matrix, target: Vector, signs: Vector) -> Vector:
    """Minimise ``1/2 w'C w - c'w`` over w with the signs 1 or -1; 0 stands for none."""
    width = len(target)
    least = float(target @ np.linalg.lstsq(matrix, target)[0])
    if not least > 0.0:
        return np.zeros(width)
    names = [*map(str, range(width)), TARGET]
    comoment = np.block([[matrix, target[:, None]], [target[None, :], np.full((1, 1), least)]])
    gram = Gram(names, width + 2, 0, 1.0, np.zeros(width + 1), comoment)
    given = {names[j]: "+" if signs[j] > 0 else "-" for j in np.flatnonzero(signs)}
    fields, *_ = constrained_fit(gram, TARGET, names[:-1], signs=given)
    return np.array([*fields["coefficients"].values()])


def sign_numbers(signs: Mapping[str, str], columns: Sequence[str]) -> Vector:
    """Return the sign of each column as 1 or -1, or 0 for none."""
    found = signs_of(signs, columns)
    return np.array([{"+": 1.0, "-": -1.0}.get(found.get(name, ""), 0.0) for name in columns])


def signs_of(signs: Mapping[str, str], columns: Sequence[str]) -> dict[str, str]:
    """Return the sign of each column that has one, from names and globs."""
    found: dict[str, str] = {}
    for pattern, sign in signs.items():
        for name in match([pattern], columns, "signs"):
            if found.setdefault(name, sign) != sign:
                raise ArgumentError(f"signs gives column '{name}' both '+' and '-'")
    return found


def apart_of(gram: Gram, target: str, uncorrelated: Sequence[str]) -> list[str]:
    """Return the columns that the prediction must not be correlated with."""
    apart = match(list(uncorrelated), gram.columns, "uncorrelated")
    if target in apart:
        raise ArgumentError(
            f"uncorrelated names the target '{target}'; a prediction without correlation with it "
            "is a constant"
        )
    return apart
