"""SGHT as it is printed, against a plain descent with a projection that tries all supports."""

from itertools import combinations

import numpy as np
import pytest

from dbselect.errors import ArgumentError
from dbselect.reference import sght_on_rows

GROUPS = [0, 0, 1, 1, 2, 2]


def rows(seed, n=30):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) * [1, 3, 1, 1, 2, 1] + rng.normal(size=6)
    y = X @ [2.0, 0, 0, -3, 0.1, 0] + rng.normal(size=n) + 5
    return X - X.mean(axis=0), y - y.mean()


def projected(v):
    """Keep the best support of three entries in two pairs."""
    allowed = [
        list(S)
        for size in (1, 2, 3)
        for S in combinations(range(6), size)
        if len({j // 2 for j in S}) <= 2
    ]
    best = max(allowed, key=lambda S: float((v[S] ** 2).sum()))
    x = np.zeros(6)
    x[best] = v[best]
    return x


def described(A, y, variant, tol, most):
    """Algorithms 1 and 2, word for word: values of f, the end, and projections."""

    def f(x):
        return 0.5 * float(((A @ x - y) ** 2).sum())

    def slope(x):
        return A.T @ (A @ x - y)

    before = now = np.zeros(6)
    values, tried, ahead = [f(now)], 0, (0.0, 1.0)
    for _ in range(most):
        u = now + (ahead[0] - 1) / ahead[1] * (now - before) if "fista" in variant else now
        ahead = ahead[1], (1 + np.sqrt(1 + 4 * ahead[1] ** 2)) / 2
        dx, dg = now - before, slope(now) - slope(before)
        L = 1.0 if variant == "fista-c" or not dx.any() else max(1.0, dx @ dg / (dx @ dx))
        while True:
            after = projected(u - slope(u) / L)
            tried += 1
            step = after - u
            line = f(u) + slope(u) @ step + L / 2 * step @ step
            enough = f(u) - L * 1e-5 / 2 * step @ step if variant == "ista" else line
            if f(after) <= enough + 1e-9:
                break
            L *= 2
        before, now = now, after
        values.append(f(now))
        if abs(values[-1] - values[-2]) <= tol * values[-1]:
            break
    return values, now, tried


@pytest.mark.parametrize("variant", ["ista", "ista-l", "fista", "fista-c"])
@pytest.mark.parametrize("seed", range(3))
def test_the_descent_is_that_of_the_paper(variant, seed):
    X, y = rows(seed)
    found = sght_on_rows(X, y, GROUPS, 3, 2, variant=variant, tol=1e-5, max_iter=40)
    values, x, tried = described(X, y, variant, 1e-5, 40)
    np.testing.assert_allclose(found.history, values, rtol=1e-8)
    assert found.projections == tried
    np.testing.assert_allclose(found.x, x, rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_groups": 4}, "max_groups is 4; it must be a whole number from 1 to 3"),
        ({"max_columns": 0}, "max_columns is 0; it must be a whole number from 1 to 6"),
        ({"variant": "FISTA"}, "variant is 'FISTA'; it must be one of .*'fista-c'"),
        ({"tol": -1}, "tol is -1; it must be a number >= 0"),
        ({"max_iter": 0}, "max_iter is 0; it must be a whole number >= 1"),
    ],
)
def test_an_option_out_of_range_is_refused(given, message):
    with pytest.raises(ArgumentError, match=message):
        sght_on_rows(*rows(0), GROUPS, **{"max_columns": 3, "max_groups": 2, **given})
