"""Products of doubles without rounding (Dekker 1971, after Veltkamp)."""

import numpy as np

from dbselect.record.gram import Matrix, Vector

#: Multiplier that splits a double into halves of 26 bits.
SPLITTER = 2.0**27 + 1.0


def two_products(a: Matrix, b: Vector) -> tuple[Matrix, Matrix]:
    """Return ``a * b`` rounded and what rounding took, so that their sum is exact."""
    product = a * b
    a_high, b_high = _high(a), _high(np.asarray(b))
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _high(x: Matrix) -> Matrix:
    turned = SPLITTER * x
    return np.asarray(turned - (turned - x))
