"""Least squares under signs of coefficients, and without correlation to named columns.

The compiled library computes it: `native/src/linear/constrained.rs`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dbselect import _native
from dbselect.errors import ArgumentError, DataError
from dbselect.linear.problem import TARGET, numbered
from dbselect.record.columns import match
from dbselect.record.gram import Gram, Matrix, Vector

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


@dataclass(frozen=True)
class ConstrainedFit:
    """A linear model under constraints."""

    intercept: float
    coefficients: dict[str, float]
    explained: float
    r2: float
    aliased: tuple[str, ...]
    condition: float
    constraint: Constraint


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
) -> ConstrainedFit:
    """Fit columns under constraints; O(D^3), and O(D^2) for each of some 2 D moves.

    `signs` maps names and globs of the columns to ``"+"`` or ``"-"``.
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
    return ConstrainedFit(
        intercept=found["intercept"],
        coefficients=coefficients,
        explained=found["explained"],
        r2=found["r2"],
        aliased=tuple(name for name in columns if name in aliased),
        condition=answer.field("condition")[0].as_py(),
        constraint=Constraint(
            r2_cost,
            tuple(name for name in signed if not coefficients[name]),
            violation,
            {"signs": dict(signs), "uncorrelated": list(uncorrelated)},
        ),
    )


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
    fitted = constrained_fit(gram, TARGET, names[:-1], signs=given)
    return np.array([*fitted.coefficients.values()])


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
