"""The values of a column as sums of doubles, where one double has too few digits for them."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dbselect.record.columns import Leaf
from dbselect.record.gram import Vector
from dbselect.sources.rows import UNITS, part_of, values

#: Bits of a part.
BITS = 48


def per_one(type_: pa.DataType) -> int:
    """Return how many units make one: in these every value of a type is whole."""
    if _is_decimal(type_):
        return int(10**type_.scale)
    return int(UNITS[type_.unit]) if pa.types.is_timestamp(type_) else 1


def n_parts(type_: pa.DataType) -> int:
    """Return of how many doubles a value of a type is the sum."""
    if _is_decimal(type_):
        return 3
    return 2 if _has_64_bits(type_) else 1


def parts(rows: pa.StructArray, leaf: Leaf) -> list[Vector]:
    """Return the doubles that add up to a column of rows, in units; 0 for NULL."""
    if n_parts(leaf.type) == 1:
        return [values(rows, leaf.path)]
    found = part_of(rows, leaf.path)
    if _is_decimal(leaf.type):
        low, high = _words(pc.cast(found, pa.decimal128(38, leaf.type.scale)))
    else:
        is_signed = not pa.types.is_unsigned_integer(found.type)
        whole = pc.cast(found, pa.int64() if is_signed else pa.uint64())
        low = pc.fill_null(whole, 0).to_numpy(zero_copy_only=False).view(np.uint64)
        high = np.where(is_signed & (low.view(np.int64) < 0), ~np.uint64(0), np.uint64(0))
    # The size of a negative number is its complement and one more.
    negative = high.view(np.int64) < 0
    low, high = np.where(negative, ~low + 1, low), np.where(negative, ~high + (low == 0), high)
    mask, rest = np.uint64(2**BITS - 1), np.uint64(2 * BITS - 64)
    middle = (low >> np.uint64(BITS)) | ((high << np.uint64(64 - BITS)) & mask)
    sizes = [low & mask, middle, high >> rest][: n_parts(leaf.type)]
    sign = np.where(negative, -1.0, 1.0)
    return [sign * np.ldexp(size.astype(np.float64), BITS * at) for at, size in enumerate(sizes)]


def _is_decimal(type_: pa.DataType) -> bool:
    """Whether values are decimals of at most 38 digits, some of them perhaps behind the point."""
    return bool(pa.types.is_decimal(type_)) and type_.precision <= 38 and type_.scale >= 0


def _has_64_bits(type_: pa.DataType) -> bool:
    wide = pa.types.is_int64(type_) or pa.types.is_uint64(type_)
    return bool(wide or pa.types.is_timestamp(type_))


def _words(found: Any) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return the lower and the upper 64 bits of decimals, shape (n,) each; 0 for NULL."""
    words = np.frombuffer(found.buffers()[1], dtype=np.uint64).reshape(-1, 2)
    there = pc.is_valid(found).to_numpy(zero_copy_only=False)
    own = np.where(there[:, None], words[found.offset : found.offset + len(found)], np.uint64(0))
    return own[:, 0], own[:, 1]
