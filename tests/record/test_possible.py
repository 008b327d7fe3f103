"""A comoment that no rows can have is found, in matrices of any size."""

import numpy as np
import pytest

from dbselect.record.moments import possible


@pytest.mark.parametrize("block", [1, 7, 20, possible.BLOCK])
def test_the_first_one_is_found_however_many_are_looked_at_together(block, monkeypatch):
    monkeypatch.setattr(possible, "BLOCK", block)
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
            if abs(comoment[i, j]) > bound[i, j] * (1 + possible.ROUNDING)
        ]
        names = [f"x{j}" for j in range(width)]
        found = possible.fault(names, 12, 12.0, *np.zeros((2, width)), comoment)
        if beyond:
            i, j = beyond[0]
            assert f"of columns 'x{j}' and 'x{i}', which vary so" in found
        else:
            assert found is None
        kinds.add(found is None)
    assert kinds == {True, False}
