"""SGHT as it is printed, against a plain descent with a projection that tries all supports."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest

import dbselect as ds

GROUPS = {"u": ["a", "b"], "v": ["c", "d"], "w": ["e", "f"]}
LIMITS = {"max_columns": 3, "max_groups": 2}


def table(seed, rows=30):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6)) * [1, 3, 1, 1, 2, 1] + rng.normal(size=6)
    y = X @ [2.0, 0, 0, -3, 0.1, 0] + rng.normal(size=rows) + 5
    return pl.DataFrame(np.column_stack([X, y]), schema=[*"abcdef", "y"])


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
    frame = table(seed)
    options = {**LIMITS, "literal": True, "variant": variant, "refit": False, "tol": 1e-5}
    found = ds.sght(frame, "y", GROUPS, max_iter=40, **options)
    X, y = frame.drop("y").to_numpy(), frame["y"].to_numpy()
    values, x, tried = described(X - X.mean(axis=0), y - y.mean(), variant, 1e-5, 40)
    np.testing.assert_allclose(found.history, values, rtol=1e-8)
    assert found.how.projections == tried
    kept = {name: value for name, value in zip("abcdef", x, strict=True) if value}
    assert found.coefficients == pytest.approx(kept, rel=1e-6)
    assert found.intercept == pytest.approx(y.mean() - X.mean(axis=0) @ x)
    left = y - found.intercept - X @ x
    assert found.r2 == pytest.approx(1 - (left**2).sum() / ((y - y.mean()) ** 2).sum(), abs=1e-9)


def test_what_is_kept_is_fitted_anew_and_costs_what_its_groups_cost():
    frame = table(0)
    found = ds.sght(frame, "y", GROUPS, {"u": 2.0, "v": 3.0, "w": 9.0}, literal=True, **LIMITS)
    model = ds.fit(frame, "y", found.columns)
    assert found.coefficients == pytest.approx(model.coefficients)
    assert found.spent == sum({"u": 2.0, "v": 3.0, "w": 9.0}[group] for group in found.groups)
    assert found.how.exchanges is None
    assert found.how.start == "zero"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ridge": 1.0}, "literal is True, and ridge is 1.0; the paper's problem has none"),
        ({"family": "poisson"}, "literal is True; it is the descent on the rows of a table"),
        ({"literal": "yes"}, "literal is 'yes'; it must be True or False"),
        ({"max_groups": 4}, "max_groups is 4; it must be a whole number from 1 to 3"),
    ],
)
def test_what_the_paper_has_not_is_refused(given, message):
    with pytest.raises(ds.DbselectError, match=message):
        ds.sght(table(0), "y", GROUPS, **{**LIMITS, "literal": True, **given})
    with pytest.raises(ds.errors.ArgumentError, match="on the rows of a table"):
        ds.sght(ds.gram(table(0)), "y", GROUPS, literal=True, **LIMITS)
