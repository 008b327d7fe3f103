"""Group lasso and sparse group lasso on columns of a common factor, by optimality conditions.

The objective is convex, so that a point is the minimum where its gradient says so. Degrees of
freedom are those of the definition, by the pseudoinverse of the Hessian.
"""

import itertools
import random
import warnings
from collections.abc import Sequence

import numpy as np
import polars as pl

import dbselect as ds

#: What the conditions are promised to hold to, in correlations, and rounding beside it.
PROMISED = 2e-8


def case(draw: random.Random) -> None:
    rng = np.random.default_rng(draw.getrandbits(32))
    width, rows = draw.randint(2, 9), draw.randint(30, 80)
    factor = draw.choice([0.0, 1.0, 6.0]) * rng.normal(size=(rows, 1))
    X = factor + rng.normal(size=(rows, width)) * rng.uniform(0.3, 2.0, size=width)
    y = X @ (rng.normal(size=width) * (rng.random(width) < 0.6)) + rng.normal(size=rows)
    if draw.random() < 0.3:
        X[:, draw.randrange(width)] = draw.choice([0.0, 3.0])
    names = [f"x{j}" for j in range(width)]
    cuts = sorted({0, width, *(draw.randrange(width) for _ in range(draw.randint(0, 3)))})
    groups = {f"g{a}": names[a:b] for a, b in itertools.pairwise(cuts)}
    costs = {name: draw.choice([1.0, 2.0]) for name in groups}
    free = [name for name in groups if draw.random() < 0.4][: len(groups) - 1]
    ratio = draw.choice([0.0, 0.05, 0.5, 0.95])
    frame = pl.DataFrame(X, names).with_columns(y=y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        path = ds.group_lasso_path(
            frame, "y", groups, costs, l1_ratio=ratio, n_lambda=12, always=free
        )
    told = [one.message for one in caught if issubclass(one.category, UserWarning)]
    assert not told, f"of columns that do not depend on each other: {told}"
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 1e-12, spread, np.inf)
    t = (y - y.mean()) / y.std()
    at = [[names.index(name) for name in members] for members in groups.values()]
    norms = [0.0 if name in free else (1 - ratio) * costs[name] for name in groups]
    absolute = np.concatenate([[0.0 if g in free else ratio] * len(groups[g]) for g in groups])
    for penalty, w, r2, df in zip(path.penalties, path.scaled_coef, path.r2, path.df, strict=True):
        left = t - Z @ w
        assert abs(r2 - (1 - left @ left / rows)) < 1e-10, f"r2 {r2}"
        b = Z.T @ left / rows
        worst = _violation(b, w, at, penalty * np.array(norms), penalty * absolute)
        assert worst < PROMISED, f"conditions hold to {worst} at {penalty}"
        wanted = _degrees(Z, w, at, penalty * np.array(norms), absolute)
        assert abs(df - wanted) < 1e-5, f"df {df}; it is {wanted}"


def _violation(
    b: np.ndarray, w: np.ndarray, at: Sequence[list[int]], norms: np.ndarray, absolute: np.ndarray
) -> float:
    """Return how far a point is from the conditions of Simon et al. (2013)."""
    worst = 0.0
    for members, norm in zip(at, norms, strict=True):
        own, slope, limit = w[members], b[members], absolute[members]
        soft = np.sign(slope) * np.maximum(np.abs(slope) - limit, 0.0)
        length = np.linalg.norm(own)
        if length == 0:
            worst = max(worst, float(np.linalg.norm(soft)) - norm)
            continue
        gradient = slope - norm * own / length - limit * np.sign(own)
        beyond = np.maximum(np.abs(slope) - limit, 0.0)
        worst = max(worst, float(np.abs(np.where(own != 0, gradient, beyond)).max()))
    return worst


def _degrees(
    Z: np.ndarray, w: np.ndarray, at: Sequence[list[int]], norms: np.ndarray, absolute: np.ndarray
) -> float:
    """Return tr(G H^+) of the columns that are not 0 but by chance (Vaiter et al. 2017)."""
    H = Z.T @ Z / len(Z)
    G, kept = H.copy(), []
    for members, norm in zip(at, norms, strict=True):
        own = w[members]
        length = np.linalg.norm(own)
        if length > 0:
            curvature = np.eye(len(own)) / length - np.outer(own, own) / length**3
            H[np.ix_(members, members)] += norm * curvature
            kept += [j for j in members if w[j] != 0 or absolute[j] == 0]
    varies = [j for j in kept if G[j, j] > 0]
    held = np.ix_(varies, varies)
    return float(np.trace(np.linalg.pinv(H[held], rcond=1e-13) @ G[held])) if varies else 0.0
