"""Least squares on a Gram matrix to its last digit: residuals without rounding.

A Cholesky solution of ``C w = c`` loses log10(condition) of 16 digits. Each round

    r = c - C w  (as if in twice the digits)        w <- w + C^-1 r

brings back most of what the solver lost; what the rounding of C itself costs stays
lost. O(D^2) a round.

Source: Higham (2002), Accuracy and Stability of Numerical Algorithms, section 12.
"""

from collections.abc import Sequence

import numpy as np

from dbselect.record.gram import Gram, Matrix, Vector


def prefix_residuals(gram: Gram, target: str, columns: Sequence[str], coef: Matrix) -> Matrix:
    """Return c - C w of M models, `coef`, in the units of the comoments; shape (M, D).

    Products of leading bits add up without rounding; the rest, and its rounding, is 2^-20 of them.
    """
    C, c, unit = near_unit(gram, target, columns)
    bits = (53 - len(C).bit_length()) // 2
    w = coef / unit
    C_high, w_high = _leading(C, 1.0, bits), _leading(w, np.abs(w).max(axis=1, initial=0.0), bits)
    left = c - w_high @ C_high
    return np.asarray((left - ((w - w_high) @ C_high + w @ (C - C_high))) / unit)


def _leading(X: Matrix, largest: float | Vector, bits: int) -> Matrix:
    """Return the leading bits of each row, counted from its largest value."""
    step = np.ldexp(1.0, np.frexp(largest)[1] - bits)
    step = np.reshape(step, (-1, 1))
    return np.asarray(np.rint(X / step) * step)


def near_unit(gram: Gram, target: str, columns: Sequence[str]) -> tuple[Matrix, Vector, Vector]:
    """Return comoments C and c in units near deviations, and these units, powers of two."""
    at = [gram.position(name, "columns") for name in columns]
    y = gram.position(target, "target")
    _, exponent = np.frexp(np.sqrt(np.diagonal(gram.comoment)[at]))
    unit = np.ldexp(1.0, -exponent)
    C = gram.comoment[np.ix_(at, at)] * unit * unit[:, None]
    return C, gram.comoment[at, y] * unit, unit
