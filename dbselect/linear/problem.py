"""Linear problem: explained variance of groups of columns on the Gram matrix.

Columns and target are scaled to unit variance, so that F is a share::

    C = G + diag(ridge)          F(S) = c_S' C_SS^-1 c_S = 2 F_paper(S) / var(y)
    b = c - C_.S w(S)            gain(g | S) = b_g' (C_gg|S)^-1 b_g

K responses share C: c and b have a row each, and F and every gain are sums over the responses,
weighted by `shares` that add up to 1. This equals the problem of one response ``vec(Y)`` on the
columns ``I_K x X``, so bounds and guarantees for one response hold for several. A response costs
O(D |g|) per step.

Source: Hu, Grubb, Bagnell, Hebert (2016), eq. 1 and section 3.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dbselect._arrow import of_numpy, of_texts
from dbselect.errors import DataError
from dbselect.record.columns import SUFFIX
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.policies import NO_SHARE, row_counts

#: A column is constant if its deviation is below this share of its mean, the rounding error of the
#: means of constant blocks; or this share of `mean_low`, where a record has it.
CONSTANT_SHARE = 16 * np.finfo(np.float64).eps
#: The same share where `mean_low` is 0: sums about a number near the mean leave a deviation of
#: 4 epsilon^1.5 for a constant.
SUMS_SHARE = 1.3e-23
#: Means below this that vary by so little are a constant computed in several ways; larger ones,
#: such as whole numbers and timestamps, may really vary by so little.
LARGE = 1e9
#: Least share in any case: no integer or decimal type varies by so little, and an intercept would
#: overflow.
LEAST_SHARE = 1e-90
#: Squares below 1e-308 are rounded to multiples of 5e-324: sums of less than this per row have
#: fewer than twelve digits; as in `possible.rs`.
LEAST_SQUARE = 5e-312
#: Another cause of a target without variation, if its mean underflows too.
UNDERFLOW = (
    "so small that its squares, times the weights, underflow; multiply it, or all weights (which "
    "leaves the fit as it is), by a power of ten"
)
#: Eigenvalues of a group's block below this share of the largest count as 0.
EIGENVALUE_SHARE = 1e-12

#: Name of the target in a numbered record.
TARGET = "target"

Index = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Linear:
    """The problem on unit-variance columns: the part that is constant during a search."""

    G: Matrix  # shape (D, D), correlations; a constant column has a zero row
    # shape (D,), correlations with the target; for K responses shape (K, D), times the square root
    # of `share`
    c: Vector
    ridge: Vector  # shape (D,), added to the diagonal of G
    # shape (D,), the length of a unit step in the units in which columns are compared: 1, or the
    # standard deviation if columns are not scaled
    unit: Vector
    spread: Vector  # shape (D,), standard deviation of each column, 1 for constant ones
    constant: npt.NDArray[np.bool_]  # shape (D,), whether a column is constant
    mean: Vector  # shape (D,)
    target_mean: Any  # mean of the target; shape (K,) for K responses
    # divisor of the target, its standard deviation; for K responses shape (K, 1), divided by the
    # square root of `share`
    target_spread: Any
    share: Any = 1.0  # weight of each response, shape (K,); 1 for one response

    @property
    def deviation(self) -> Vector:
        """Square root of the diagonal of C, 1 where it is 0; shape (D,)."""
        variance = self.variances + self.ridge
        return np.sqrt(np.where(variance > 0, variance, 1.0))

    @property
    def variances(self) -> Vector:
        """The diagonal of G; shape (D,)."""
        return np.diagonal(self.G)

    @property
    def scale(self) -> Vector | None:
        """Reference variances for rank decisions, shape (D,); None: `variances` + `ridge`."""
        return None

    def rows(self, columns: Index) -> Matrix:
        """Return rows of G, a copy; shape (k, D)."""
        return self.G[columns]

    def block(self, columns: Index) -> Matrix:
        """Return the block of G of columns, a copy; shape (k, k)."""
        return self.G[np.ix_(columns, columns)]

    def blocks(self, columns: Index) -> Matrix:
        """Return the diagonal blocks of G of B groups of s columns, a copy; shape (B, s, s)."""
        return self.G[columns[:, :, None], columns[:, None, :]]

    def response(self, k: int) -> "Linear":
        """Return the problem of response k alone."""
        root = np.sqrt(self.share[k])
        return replace(
            self,
            c=self.c[k] / root,
            target_mean=self.target_mean[k],
            target_spread=self.target_spread[k, 0] * root,
            share=1.0,
        )


def unusable(gram: Gram, target: str) -> str | None:
    """Return why no sequence can be computed for a target; None if it can."""
    at = gram.position(target, "target")
    if gram.rows == 0:
        is_weight = gram.skipped > 0 and not any(gram.missing.values())
        return no_rows(gram.skipped) + f", {NO_CAUSE}" * is_weight
    if (filled := _filled(gram, target)) is not None:
        return filled
    deviation = np.sqrt(gram.comoment[at, at] / gram.weight)
    if is_constant(deviation, gram.mean[at], gram.mean_low[at]):
        message = constant_target(target, gram.rows, gram.skipped)
        length = abs(float(gram.mean[at])) * math.sqrt(gram.weight)
        may_underflow = 0 < length < math.sqrt(LEAST_SQUARE * gram.rows)
        return f"{message}, or {UNDERFLOW}" if may_underflow else message
    return None


def check_usable(gram: Gram, targets: Sequence[str]) -> None:
    """Raise DataError if no sequence can be computed for a target."""
    for name in targets:
        reason = unusable(gram, name)
        if reason is not None:
            raise DataError(reason)


def check_filled(gram: Gram, targets: Sequence[str]) -> None:
    """Raise DataError if missing values of a target were filled."""
    for name in targets:
        if (filled := _filled(gram, name)) is not None:
            raise DataError(filled)


#: Why rows are skipped in which no column is missing.
NO_CAUSE = "as the weight is missing or 0, or a text has no level"


def no_rows(skipped: int) -> str:
    """Return the message for a record without rows."""
    return f"no usable rows: {skipped} rows were skipped"


def _filled(gram: Gram, target: str) -> str | None:
    """Return the message for a target whose missing values were filled; None if not filled."""
    mark, rows = target + SUFFIX, gram.missing.get(target)
    if mark in gram.columns and gram.mean[gram.columns.index(mark)] > NO_SHARE:
        return f"target '{target}' is 0 in rows where it is missing; give it null_policy 'skip'"
    if rows and target in gram.terms.means:
        return (
            f"target '{target}' is its mean in {rows} rows where it is missing; give it "
            "null_policy 'skip', or leave these rows out"
        )
    return None


def constant_target(target: str, rows: int, skipped: int) -> str:
    """Return the message for a constant target."""
    return f"target '{target}' is constant ({row_counts(rows, skipped)})"


def is_constant(deviation: Vector, mean: Vector, mean_low: Vector | None) -> npt.NDArray[np.bool_]:
    """Whether columns are constant up to rounding; large means are judged by `mean_low`."""
    size = np.abs(mean)
    least = CONSTANT_SHARE * size
    if mean_low is not None:
        beyond = np.where(mean_low == 0, SUMS_SHARE * size, CONSTANT_SHARE * np.abs(mean_low))
        least = np.where(size < LARGE, least, beyond)
    return np.asarray(deviation <= np.maximum(least, LEAST_SHARE * size))


def linear(
    gram: Gram,
    target: str | Sequence[str],
    columns: Sequence[str],
    ridge: float = 0.0,
    scale: bool = True,
) -> Linear:
    """Set up the problem; the ridge is for columns as scaled. DataError as `check_usable`."""
    check_usable(gram, [target] if isinstance(target, str) else target)
    numbers = {name: i for i, name in enumerate(gram.columns)}
    at = np.array([numbers[name] for name in columns], dtype=np.intp)
    comoment, weight = gram.comoment[np.ix_(at, at)], np.float64(gram.weight)
    means = gram.mean[at], gram.mean_low[at]
    y: Any
    share: Any
    if isinstance(target, str):
        y, share = numbers[target], 1.0
        products, variation = gram.comoment[at, y], gram.comoment[y, y]
    else:
        y = np.array([numbers[name] for name in target], dtype=np.intp)
        products, variation = gram.comoment[np.ix_(y, at)], gram.comoment[y, y]
        share = shares(variation, scale)
        variation = (variation / share)[:, None]
    squares = comoment.diagonal().copy()
    fields, inverse = scaling(
        squares, products, variation, means, gram.mean[y], weight, ridge, scale
    )
    comoment *= inverse
    comoment *= inverse[:, None]
    np.fill_diagonal(comoment, np.where(fields["constant"], 0.0, 1.0))
    return Linear(comoment, **fields, share=share)


def shares(variance: Vector, scale: bool) -> Vector:
    """Return weights of K responses, which add up to 1: equal, or variances if not scaled."""
    return np.full(len(variance), 1.0 / len(variance)) if scale else variance / variance.sum()


def scaling(
    squares: Vector,
    products: Vector,
    variation: Any,
    means: tuple[Vector, Vector],
    target_mean: Any,
    weight: float,
    ridge: float,
    scale: bool,
) -> tuple[dict[str, Any], Vector]:
    """Return the fields of a `Linear` without G, and the factor from sums to correlations.

    Columns and target get unit variance; K responses are K rows of `products`. The factor has
    shape (D,) and is 0 for constant columns; `squares` is the diagonal of the comoment.
    """
    mean, mean_low = means
    deviation = np.sqrt(squares / weight)
    constant = is_constant(deviation, mean, mean_low)
    spread = np.where(constant, 1.0, deviation)
    target_spread = np.sqrt(variation / weight)
    inverse = np.where(constant, 0.0, 1.0 / (spread * np.sqrt(weight)))
    unit = np.ones_like(mean) if scale else spread
    fields = {
        "c": products * inverse / (target_spread * np.sqrt(weight)), "ridge": ridge / unit**2,
        "unit": unit, "spread": spread, "constant": constant, "mean": mean,
        "target_mean": target_mean, "target_spread": target_spread,
    }  # fmt: skip
    return fields, inverse


def blocks_of(problem: Linear, columns: Index) -> Matrix:
    """Return C_gg of B groups of s columns; shape (B, s, s)."""
    blocks = problem.blocks(columns)
    diagonal = np.arange(columns.shape[1])
    blocks[:, diagonal, diagonal] += problem.ridge[columns]
    return blocks


def inverse_root(blocks: Matrix, floor: float = 0.0) -> Matrix:
    """Return W, ``W W' = A^+``, for B blocks, (B, s, s); eigenvalues up to `floor` count as 0."""
    values, vectors = np.linalg.eigh(blocks)
    kept = values > np.maximum(EIGENVALUE_SHARE * values[:, -1:], floor)
    scale = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return np.asarray(vectors * scale[:, None])


def numbered(gram: Gram, columns: Sequence[str], *targets: str) -> pa.StructArray:
    """Return the record of columns, named by numbers from 0, and targets.

    The first target is named `TARGET`, the others `TARGET` and their number.
    """
    number = {name: at for at, name in enumerate(gram.columns)}
    at = np.array([number[name] for name in [*columns, *targets]])
    others = [f"{TARGET} {k}" for k in range(1, len(targets))]
    comoment = gram.comoment[np.ix_(at, at)]
    lower = np.concatenate([row[: i + 1] for i, row in enumerate(comoment)])
    fields = {
        "columns": of_texts([*map(str, range(len(columns))), TARGET, *others]),
        "mean": of_numpy(gram.mean[at]),
        "mean_low": of_numpy(gram.mean_low[at]),
        "comoment": of_numpy(lower),
    }
    lists = {
        name: pa.FixedSizeListArray.from_arrays(values, len(values))
        for name, values in fields.items()
    }
    counts = {
        "rows": of_numpy(np.array([gram.rows], np.int64)),
        "skipped": of_numpy(np.array([gram.skipped], np.int64)),
        "weight": of_numpy(np.array([gram.weight], np.float64)),
    }
    return pa.StructArray.from_arrays([*lists.values(), *counts.values()], names=[*lists, *counts])
