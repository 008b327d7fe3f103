"""Explained variance of a linear model, group by group, on the Gram matrix.

Columns and target are scaled to unit variance, so that F is a share::

    C = G + diag(ridge)          F(S) = c_S' C_SS^-1 c_S = 2 F_paper(S) / var(y)
    b = c - C_.S w(S)            gain(g | S) = b_g' (C_gg|S)^-1 b_g

K responses share C: c and b have a row each, and F and every gain are sums over the responses, of
which each has the variance of its share (`shares`), 1 in all. It is the problem of one response
``vec(Y)`` on the columns ``I_K x X``, so that what holds of F for one, bounds and guarantees too,
holds for several. A response costs O(D |g|) a step.

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

#: A column is constant where its deviation is below this share of its mean, the rounding of
#: the means of constant blocks; or of what rounding took from the mean, where a record knows it.
CONSTANT_SHARE = 16 * np.finfo(np.float64).eps
#: The same where rounding took nothing: sums about a number beside the mean leave that share of
#: a constant, 4 times epsilon to the power of 1.5.
SUMS_SHARE = 1.3e-23
#: Numbers below it that vary by so little are one number, computed in several ways; whole
#: numbers and times beyond it may differ by so little indeed.
LARGE = 1e9
#: No type of whole numbers or decimals varies by so small a share of its mean, however much is
#: known of that: an intercept would overflow.
LEAST_SHARE = 1e-90
#: Squares below 1e-308 are rounded to multiples of 5e-324: of sums of less than this a row,
#: fewer than twelve digits are left; as in `possible.rs`.
LEAST_SQUARE = 5e-312
#: What else a target without a square may be, where its mean has none either.
UNDERFLOW = (
    "so small that its squares, times the weights, underflow; multiply it, or all weights (which "
    "leaves the fit as it is), by a power of ten"
)
#: Eigenvalues of a group's own block below this share of the largest count as 0.
EIGENVALUE_SHARE = 1e-12

#: The target's name in a numbered record.
TARGET = "target"

Index = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Linear:
    """The problem on unit-variance columns: everything that does not change."""

    G: Matrix  # shape (D, D), correlations; a constant column has a zero row
    # shape (D,), correlations with the target; of K responses shape (K, D), times the root of the
    # share of each
    c: Vector
    ridge: Vector  # shape (D,), added to the diagonal of G
    # shape (D,), what a step of 1 is in the units that the caller compares columns in: 1, or the
    # standard deviation of columns that are not to be scaled
    unit: Vector
    spread: Vector  # shape (D,), standard deviation of each column, 1 for constant ones
    constant: npt.NDArray[np.bool_]  # shape (D,), whether a column is constant
    mean: Vector  # shape (D,)
    target_mean: Any  # mean of the target; of K responses shape (K,)
    # what the target is divided by, its standard deviation; of K responses shape (K, 1), over the
    # root of the share of each
    target_spread: Any
    share: Any = 1.0  # what each response counts, shape (K,); 1 for one

    @property
    def deviation(self) -> Vector:
        """Root of the diagonal of C, 1 where that is 0; shape (D,)."""
        variance = self.variances + self.ridge
        return np.sqrt(np.where(variance > 0, variance, 1.0))

    @property
    def variances(self) -> Vector:
        """The diagonal of G; shape (D,)."""
        return np.diagonal(self.G)

    @property
    def scale(self) -> Vector | None:
        """Variances by which rounding is judged; None: those of the columns. Shape (D,)."""
        return None

    def rows(self, columns: Index) -> Matrix:
        """Return the rows of G of some columns, a copy; shape (k, D)."""
        return self.G[columns]

    def block(self, columns: Index) -> Matrix:
        """Return G of some columns among themselves, a copy; shape (k, k)."""
        return self.G[np.ix_(columns, columns)]

    def blocks(self, columns: Index) -> Matrix:
        """Return G of the columns of B groups of s columns, a copy; shape (B, s, s)."""
        return self.G[columns[:, :, None], columns[:, None, :]]

    def response(self, k: int) -> "Linear":
        """Return the problem of one of K responses alone."""
        root = np.sqrt(self.share[k])
        return replace(
            self,
            c=self.c[k] / root,
            target_mean=self.target_mean[k],
            target_spread=self.target_spread[k, 0] * root,
            share=1.0,
        )


def unusable(gram: Gram, target: str) -> str | None:
    """Say why no sequence can be computed for a target; None if one can."""
    at = gram.position(target, "target")
    if gram.rows == 0:
        is_weight = gram.skipped > 0 and not any(gram.missing.values())
        return no_rows(gram.skipped) + f", {NO_CAUSE}" * is_weight
    if (filled := _filled(gram, target)) is not None:
        return filled
    deviation = np.sqrt(gram.comoment[at, at] / gram.weight)
    if is_constant(deviation, gram.mean[at], gram.mean_low[at]):
        told = constant_target(target, gram.rows, gram.skipped)
        length = abs(float(gram.mean[at])) * math.sqrt(gram.weight)
        may_underflow = 0 < length < math.sqrt(LEAST_SQUARE * gram.rows)
        return f"{told}, or {UNDERFLOW}" if may_underflow else told
    return None


def check_usable(gram: Gram, targets: Sequence[str]) -> None:
    """Refuse a record of which no sequence can be computed for one of some targets."""
    for name in targets:
        reason = unusable(gram, name)
        if reason is not None:
            raise DataError(reason)


def check_filled(gram: Gram, targets: Sequence[str]) -> None:
    """Refuse targets that are 0 where they are missing, before their means are taken away."""
    for name in targets:
        if (filled := _filled(gram, name)) is not None:
            raise DataError(filled)


#: Why rows are skipped in which no column is missing.
NO_CAUSE = "as the weight is missing or 0, or a text has no level"


def no_rows(skipped: int) -> str:
    """Say that no row can be used."""
    return f"no usable rows: {skipped} rows were skipped"


def _filled(gram: Gram, target: str) -> str | None:
    """Say that zeros or the mean stand for a target that is missing; None if none do."""
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
    """Say that there is nothing to explain."""
    return f"target '{target}' is constant ({row_counts(rows, skipped)})"


def is_constant(deviation: Vector, mean: Vector, mean_low: Vector | None) -> npt.NDArray[np.bool_]:
    """Whether columns are constant up to rounding; large means by what it took from them."""
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
    """Set up the problem; the ridge counts on columns as scaled. DataError as `unusable`."""
    check_usable(gram, [target] if isinstance(target, str) else target)
    numbers = {name: i for i, name in enumerate(gram.columns)}
    at = np.array([numbers[name] for name in columns], dtype=np.intp)
    comoment, weight = gram.comoment[np.ix_(at, at)], np.float64(gram.weight)
    means = gram.mean[at], gram.mean_low[at]
    if isinstance(target, str):
        y = numbers[target]
        products, variation = gram.comoment[at, y], gram.comoment[y, y]
        return scaled(comoment, products, variation, means, gram.mean[y], weight, ridge, scale)
    ys = np.array([numbers[name] for name in target], dtype=np.intp)
    products, variation = gram.comoment[np.ix_(ys, at)], gram.comoment[ys, ys]
    share = shares(variation, scale)
    spread = (variation / share)[:, None]
    problem = scaled(comoment, products, spread, means, gram.mean[ys], weight, ridge, scale)
    return replace(problem, share=share)


def shares(variance: Vector, scale: bool) -> Vector:
    """Return what each of K responses counts, 1 in all: the same, or unscaled its variance."""
    return np.full(len(variance), 1.0 / len(variance)) if scale else variance / variance.sum()


def scaled(
    comoment: Matrix,
    products: Vector,
    variation: Any,
    means: tuple[Vector, Vector],
    target_mean: Any,
    weight: float,
    ridge: float,
    scale: bool,
) -> Linear:
    """Scale columns and target to unit variance, `comoment` in place; K responses have K rows."""
    mean, mean_low = means
    diagonal = np.arange(len(mean))
    deviation = np.sqrt(comoment[diagonal, diagonal] / weight)
    constant = is_constant(deviation, mean, mean_low)
    spread = np.where(constant, 1.0, deviation)
    target_spread = np.sqrt(variation / weight)
    inverse = np.where(constant, 0.0, 1.0 / (spread * np.sqrt(weight)))
    G = comoment
    G *= inverse
    G *= inverse[:, None]
    G[diagonal, diagonal] = np.where(constant, 0.0, 1.0)
    c = products * inverse / (target_spread * np.sqrt(weight))
    unit = np.ones_like(mean) if scale else spread
    return Linear(G, c, ridge / unit**2, unit, spread, constant, mean, target_mean, target_spread)


def blocks_of(problem: Linear, columns: Index) -> Matrix:
    """Return C_gg of B groups of s columns; shape (B, s, s)."""
    blocks = problem.blocks(columns)
    diagonal = np.arange(columns.shape[1])
    blocks[:, diagonal, diagonal] += problem.ridge[columns]
    return blocks


def inverse_root(blocks: Matrix, floor: float = 0.0) -> Matrix:
    """Return W, ``W W' = A^+``, of B blocks, (B, s, s); eigenvalues up to `floor` count as 0."""
    values, vectors = np.linalg.eigh(blocks)
    kept = values > np.maximum(EIGENVALUE_SHARE * values[:, -1:], floor)
    scale = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return np.asarray(vectors * scale[:, None])


def numbered(gram: Gram, columns: Sequence[str], *targets: str) -> pa.StructArray:
    """Return the record of some columns, called by their numbers from 0 on, and some targets.

    The first is called `TARGET`, the others by its name and their numbers.
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
