"""A comoment that no rows can have is found, in matrices of any size."""

import numpy as np
import pytest

from dbselect._native import check_moments
from dbselect.errors import RecordError

#: How far above the bound rounding may lift a comoment.
ROUNDING = 1e-4


def test_the_first_one_is_found():
    rng = np.random.default_rng(0)
    kinds = set()
    for _ in range(100):
        width = int(rng.integers(1, 9))
        A = rng.standard_normal((12, width))
        comoment = A.T @ A
        for i, j in rng.integers(width, size=(rng.integers(0, 4), 2)):
            comoment[i, j] *= rng.uniform(0.5, 4) if i != j else 1
            comoment[j, i] = comoment[i, j]
        bound = np.sqrt(np.outer(np.diagonal(comoment), np.diagonal(comoment)))
        beyond = [
            (i, j)
            for i in range(width)
            for j in range(i)
            if abs(comoment[i, j]) > bound[i, j] * (1 + ROUNDING)
        ]
        names = [f"x{j}" for j in range(width)]
        moments = (names, 12, 12.0, *np.zeros((2, width)), comoment)
        if beyond:
            i, j = beyond[0]
            with pytest.raises(RecordError, match=f"of columns 'x{j}' and 'x{i}', which vary so"):
                check_moments(*moments)
        else:
            check_moments(*moments)
        kinds.add(not beyond)
    assert kinds == {True, False}
