"""Exact sums of products of a table's columns, without rounding, in one pass.

Each block of rows is split, column by column, into slices of a few bits on a common
exponent::

    x = sum_t q_t 2^(e - BITS (t + 1)),        q_t whole, |q_t| <= 2^BITS

A product of two slices, summed over the rows of a block, is a whole number below 2^53:
a matrix product of doubles computes it without rounding. The products are summed in 64-bit
integers, and these in Python's. A row weight w enters as ``w x``, which is the sum of two
doubles. Cost: about (slices)^2 times a plain Gram; data of few bits have one slice, arbitrary
doubles three or four, and a column that spans many magnitudes more. Memory: O(d^2)
numbers for each pair of slices. Integers, decimals and timestamps of more digits than a
double has are sums of two or three doubles, in the unit of their last digit.

Source: Ozaki, Ogita, Oishi, Rump (2012), Numerical Algorithms 59, Algorithm 3, with
slices on one exponent for all rows of a column, as its products are summed over rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dbselect._arrow import part_of
from dbselect.errors import ColumnError, DataError, unknown
from dbselect.record.columns import Leaf, numbers_among
from dbselect.record.gram import Matrix, Vector
from dbselect.record.policies import warn_of_skipped
from dbselect.record.terms import Terms
from dbselect.sources.request import check_numeric
from dbselect.sources.rows import UNITS, TableRows, values

#: Bits of a slice, and rows whose products are summed at a time: 2 BITS + log2(rows)
#: may be 53 at most.
BITS = 20
BLOCK_ROWS = 8192
#: Rows read at a time: their sums, below 2^54, fit into a 64-bit integer.
READ_ROWS = 2 * BLOCK_ROWS
#: Bits of each double that is a part of a longer number.
PART_BITS = 48
#: Smaller values, or their products with a weight, have bits below the range of doubles.
SMALLEST = 1e-240

Integers = npt.NDArray[np.object_]
Index = npt.NDArray[np.intp]
#: Slices by level t: their columns, shape (s,), and whole numbers below 2^BITS, shape (s, n).
_Slices = list[tuple[int, Index, Matrix]]


@dataclass(frozen=True)
class ExactSums:
    """The sums of products of d columns, preceded by a column of ones."""

    columns: list[str]  # d names, the target last
    #: Rows used and left out
    rows: int
    skipped: int
    #: shape (d + 1, d + 1), whole numbers: the sum of w x_i x_j is products[i, j] *
    #: 2^(exponent[i] + exponent[j] + scale) / (per_one[i] per_one[j])
    products: Integers
    exponent: list[int]  # shape (d + 1,)
    scale: int  # one power of two for all
    per_one: list[int]  # shape (d + 1,), units per one: for decimals a power of ten
    terms: Terms  # how the columns of the table became these


def exact_sums(
    source: Any, target: str, columns: Sequence[str] | None = None, weight: str | None = None
) -> ExactSums:
    """Sum products exactly, in one pass over a source as of `gram`; `columns` names an array's."""
    named = [target, *([] if weight is None else [weight])]
    columns_read = columns
    if columns is not None and not isinstance(source, np.ndarray):
        columns_read = [*(name for name in named if name not in columns), *columns]
    rows = TableRows(source, columns_read, None, False)
    check_numeric(rows.table, [target])
    rows.warn_of_left_out()
    for name in named:
        if name not in rows.names:
            raise ColumnError(f"there is {unknown('column', name, rows.names)}")
    features = [name for name in rows.names if name not in named]
    if not features:
        raise ColumnError("columns is empty; at least one column besides the target is needed")
    order = numbers_among((*features, target), rows.names)
    leaves_read = [rows.leaves[at] for at in order]
    sums, n_rows, used = _Sums(weighted=weight is not None), 0, 0
    total, added = 0.0, np.zeros(len(features))
    for at, block, piece in rows.pieces(READ_ROWS):
        n_rows += len(block)
        w, kept = None, np.arange(len(block))
        if weight is not None:
            w = block[:, rows.names.index(weight)]
            if (w < 0).any():
                raise DataError(f"weight '{weight}' is {w.min()}; weights must be >= 0")
            kept = np.flatnonzero(w > 0)
            w = w[kept]
        used += len(kept)
        weights = np.ones(len(kept)) if w is None else w
        total, added = total + weights.sum(), added + weights @ block[kept][:, order[:-1]]
        split = [part[at[kept]] for leaf in leaves_read for part in _parts(piece, leaf)]
        sums.add(np.vstack([np.ones(len(kept)), *split]), w)
    skipped = rows.skipped + n_rows - used
    if not used:
        raise DataError(f"no usable rows: {skipped} rows were skipped")
    warn_of_skipped(used, skipped, rows.missing, weighted=weight is not None)
    shares = dict(zip(features, (added / total).tolist(), strict=True))
    terms = rows.terms.of(features).with_shares(shares)
    units = [1, *(_per_one(leaf.type) for leaf in leaves_read)]
    whole = _whole(*sums.finish(), [1, *(_n_parts(leaf.type) for leaf in leaves_read)])
    return ExactSums([*features, target], used, skipped, *whole, units, terms)


def _whole(
    products: Integers, exponent: list[int], scale: int, counts: Sequence[int]
) -> tuple[Integers, list[int], int]:
    """Sum the products over the parts of each column, whose numbers of parts are `counts`."""
    starts = np.cumsum([0, *counts[:-1]])
    powers = np.array(exponent, dtype=object)
    # A part that is 0 in every row has no exponent.
    own_powers = np.where(np.diagonal(products) != 0, powers, max(exponent))
    least = np.minimum.reduceat(own_powers, starts)
    up = np.maximum(own_powers - np.repeat(least, counts), 0)
    shifted = products * np.left_shift(1, up) * np.left_shift(1, up)[:, None]
    added = np.add.reduceat(np.add.reduceat(shifted, starts, axis=0), starts, axis=1)
    return added, least.tolist(), scale


class _Grid:
    """Slices of the same columns in every block, on the exponents of the first block."""

    def __init__(self) -> None:
        self.exponent = np.empty(0, dtype=np.int64)

    def split(self, X: Matrix) -> _Slices:
        """Split columns, shape (d, n), into slices that add up to them."""
        rest = X.copy()
        slices: _Slices = []
        while True:
            largest = np.abs(rest).max(axis=1, initial=0.0)
            if not len(self.exponent):
                self.exponent = np.frexp(largest)[1].astype(np.int64)
            # The level of the leading bits of the remainder.
            level = (self.exponent - np.frexp(largest)[1]) // BITS
            live = largest > 0
            if not live.any():
                return slices
            first = int(level[live].min())
            at = np.flatnonzero(live & (level == first))
            unit = np.ldexp(1.0, self.exponent[at] - BITS * (first + 1))[:, None]
            whole = np.rint(rest[at] * (1.0 / unit))
            rest[at] -= whole * unit
            slices.append((first, at, whole))


class _Sums:
    """Exact sums of products, block by block: of x with x, or with both halves of w x."""

    def __init__(self, weighted: bool) -> None:
        self._left = _Grid()
        self._right = [_Grid(), _Grid()] if weighted else [self._left]
        self._sums: dict[tuple[int, int, int], Integers] = {}
        self._width = 0

    def add(self, X: Matrix, weight: Vector | None) -> None:
        """Add rows: X of shape (d + 1, n), and their weights > 0."""
        self._width = len(X)
        left = self._left.split(X)
        if weight is None:
            _check_small(X, X)
            self._add_products(0, left, left)
            return
        halves = two_products(X, weight)
        _check_small(halves[0], X)
        for part, (grid, half) in enumerate(zip(self._right, halves, strict=True)):
            self._add_products(part, left, grid.split(half))

    def _add_products(self, part: int, left: _Slices, right: _Slices) -> None:
        if not right:
            return
        left_rows = np.vstack([whole for *_, whole in left])
        right_rows = left_rows if right is left else np.vstack([whole for *_, whole in right])
        between = np.zeros((len(left_rows), len(right_rows)), dtype=np.int64)
        for start in range(0, left_rows.shape[1], BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            between += (left_rows[:, block] @ right_rows[:, block].T).astype(np.int64)
        row = 0
        for t, rows, _ in left:
            column = 0
            for u, columns, _ in right:
                sums = self._sums.setdefault((part, t, u), self._zeros())
                block_sums = between[row : row + len(rows), column : column + len(columns)]
                sums[np.ix_(rows, columns)] += block_sums.astype(object)
                column += len(columns)
            row += len(rows)

    def _zeros(self) -> Integers:
        return np.full((self._width, self._width), 0, dtype=object)

    def finish(self) -> tuple[Integers, list[int], int]:
        """Return products, exponent and scale of `ExactSums`."""
        deepest = max(t for _, t, _ in self._sums)
        unit = self._left.exponent - BITS * (deepest + 1)
        # The power of two of each sum, less the powers of its row and its column.
        powers = {
            (part, t, u): BITS * (deepest - t) + self._right[part].exponent - BITS * (u + 1) - unit
            for part, t, u in self._sums
        }
        scale = min(0, *(int(power.min()) for power in powers.values()))
        total = self._zeros()
        for key, sums in self._sums.items():
            # As Python integers of any length, so that 2^power is exact.
            total = total + sums * np.left_shift(1, (powers[key] - scale).astype(object))
        return total, unit.tolist(), scale


def _check_small(product: Matrix, X: Matrix) -> None:
    """Refuse nonzero values whose products with their weights underflow and lose bits."""
    small = (X != 0) & (np.abs(product) < SMALLEST)
    if small.any():
        raise DataError(
            f"a value times its weight is {product[small][0]:g}; exact sums need 0, or at least "
            f"{SMALLEST:g} in size"
        )


def _per_one(type_: pa.DataType) -> int:
    """Return the number of units per one, in which every value of a type is whole."""
    if _is_decimal(type_):
        return int(10**type_.scale)
    return int(UNITS[type_.unit]) if pa.types.is_timestamp(type_) else 1


def _n_parts(type_: pa.DataType) -> int:
    """Return the number of doubles whose sum is a value of a type."""
    if _is_decimal(type_):
        return 3
    return 2 if _has_64_bits(type_) else 1


def _parts(rows: pa.StructArray, leaf: Leaf) -> list[Vector]:
    """Split a column of rows, in units, into doubles that add up to it; 0 for NULL."""
    if _n_parts(leaf.type) == 1:
        return [values(rows, leaf.path)]
    array = part_of(rows, leaf.path)
    if _is_decimal(leaf.type):
        low, high = _words(pc.cast(array, pa.decimal128(38, leaf.type.scale)))
    else:
        is_signed = not pa.types.is_unsigned_integer(array.type)
        whole = pc.cast(array, pa.int64() if is_signed else pa.uint64())
        low = pc.fill_null(whole, 0).to_numpy(zero_copy_only=False).view(np.uint64)
        high = np.where(is_signed & (low.view(np.int64) < 0), ~np.uint64(0), np.uint64(0))
    # The absolute value of a negative number: its two's complement.
    negative = high.view(np.int64) < 0
    low, high = np.where(negative, ~low + 1, low), np.where(negative, ~high + (low == 0), high)
    mask, rest = np.uint64(2**PART_BITS - 1), np.uint64(2 * PART_BITS - 64)
    middle = (low >> np.uint64(PART_BITS)) | ((high << np.uint64(64 - PART_BITS)) & mask)
    sizes = [low & mask, middle, high >> rest][: _n_parts(leaf.type)]
    sign = np.where(negative, -1.0, 1.0)
    return [
        sign * np.ldexp(size.astype(np.float64), PART_BITS * at) for at, size in enumerate(sizes)
    ]


def _is_decimal(type_: pa.DataType) -> bool:
    """Whether values are decimals of at most 38 digits and a scale >= 0."""
    return bool(pa.types.is_decimal(type_)) and type_.precision <= 38 and type_.scale >= 0


def _has_64_bits(type_: pa.DataType) -> bool:
    wide = pa.types.is_int64(type_) or pa.types.is_uint64(type_)
    return bool(wide or pa.types.is_timestamp(type_))


def _words(array: Any) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return the lower and the upper 64 bits of decimals, shape (n,) each; 0 for NULL."""
    words = np.frombuffer(array.buffers()[1], dtype=np.uint64).reshape(-1, 2)
    valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
    words = np.where(valid[:, None], words[array.offset : array.offset + len(array)], np.uint64(0))
    return words[:, 0], words[:, 1]


#: Multiplier that splits a double into halves of 26 bits.
SPLITTER = 2.0**27 + 1.0


def two_products(a: Matrix, b: Vector) -> tuple[Matrix, Matrix]:
    """Return ``a * b`` rounded, and its rounding error, so that their sum is exact."""
    product = a * b
    a_high, b_high = _high(a), _high(np.asarray(b))
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _high(x: Matrix) -> Matrix:
    turned = SPLITTER * x
    return np.asarray(turned - (turned - x))
