"""What the compiled library alone answers: designs and diagnostics against brute force."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from problems import EPS
from scipy import stats

import dbselect as ds
from dbselect import _native

#: Largest condition number of columns whose diagnostics are compared.
MOST_CONDITION = 1e5


def assert_design(rng: np.random.Generator, widest: int) -> str:
    """Compare a design with the best of all next rows, by a new inverse at each step."""
    rows, width = int(rng.integers(1, 60)), int(rng.integers(1, min(widest, 12) + 1))
    X = rng.integers(-3, 4, (rows, width)).astype(float)
    if rng.random() < 0.5:
        X = rng.standard_t(3, (rows, width)) * 10.0 ** rng.uniform(-1, 1, width)
    X[rng.random(rows) < 0.1] = X[0]  # ties
    beta2, sigma2 = (float(10.0 ** rng.uniform(-2, 1)) for _ in "bs")
    scale, k = bool(rng.random() < 0.3), int(rng.integers(1, rows + 1))
    frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(width)])
    options = {"beta2": beta2, "sigma2": sigma2, "scale_rows": scale}
    found = ds.a_optimal(frame, None, k, **options, memory_limit=int(rng.choice([1, 5000, 2**30])))
    ranks = frame.select(pl.struct(pl.all()).dbselect.a_optimal(k, **options)).to_series()
    assert [ranks[row] for row in found.rows.tolist()] == list(range(1, k + 1))
    if scale:
        norm = np.linalg.norm(X, axis=1, keepdims=True)
        X = X / np.where(norm > 0, norm, 1.0)
    allowed = 100 * width * EPS * (1 + np.linalg.norm(X, 2) ** 2 / (beta2 * sigma2))
    information = beta2 * np.eye(width)
    for step, row in enumerate(found.rows.tolist()):
        Y = X @ np.linalg.inv(information)
        gains = (Y**2).sum(axis=1) / (sigma2 + (X * Y).sum(axis=1))
        gains[found.rows[:step]] = -1.0
        assert gains[row] >= gains.max() * (1 - 1e-12 - allowed)
        assert found.gain[step] == pytest.approx(max(gains[row], 0.0), rel=allowed, abs=1e-300)
        information += np.outer(X[row], X[row]) / sigma2
    return "design"


def assert_diagnostics(rng: np.random.Generator, widest: int) -> str:
    """Compare VIF, partial correlations, the condition number and F tests with lstsq."""
    width = int(rng.integers(1, min(widest, 12) + 1))
    rows = width + int(rng.integers(3, 60))
    X = rng.normal(size=(rows, width)) + rng.normal(size=(rows, 1)) * rng.uniform(0, 3)
    X = X * 10.0 ** rng.uniform(-3, 3, width) + rng.choice([0, 0, 5], width)
    y = X @ (rng.normal(size=width) / X.std(axis=0)) * rng.choice([0, 1]) + rng.normal(size=rows)
    intercept = bool(rng.random() < 0.7)
    ones = np.ones((rows, int(intercept)))
    design = np.column_stack([ones, X])
    scaled = design / np.linalg.norm(design, axis=0)
    condition = float(np.linalg.cond(scaled))
    if condition > MOST_CONDITION:
        return "rounding"
    names = [f"x{j}" for j in range(width)]
    gram = ds.gram(np.column_stack([X, y]), columns=[*names, "y"])

    def asked(method: str, **given: Any) -> Any:
        one = _native.answers(
            pl.DataFrame({"gram": [gram.to_struct()]})["gram"].to_arrow(), method, "y",
            {"intercept": intercept, **given},
        )  # fmt: skip
        return one.field("found")[0].as_py()

    def left(values: Any, columns: Any) -> Any:
        return values - columns @ np.linalg.lstsq(columns, values, rcond=None)[0]

    def cosine(a: Any, b: Any) -> float:
        return float(a @ b / np.sqrt((a @ a) * (b @ b)))

    near = 1e4 * EPS * condition**2
    # Of a target that is explained but for little, that little has fewer digits.
    whole, target = left(y, design), left(y, ones) if intercept else y
    near_target = near * (target @ target) / (whole @ whole)
    assert asked("condition_number") == pytest.approx(condition, rel=near)
    vif, partial = asked("vif"), asked("partial_correlations")
    for j, name in enumerate(names):
        others = np.column_stack([ones, np.delete(X, j, axis=1)])
        own, rest = left(X[:, j], others), left(y, others)
        alone = left(X[:, j], ones) if intercept else X[:, j]
        expected = (alone @ alone) / (own @ own)
        assert vif[j]["column"] == partial[j]["column"] == name
        assert vif[j]["vif"] == pytest.approx(max(expected, 1.0), rel=near)
        for field, value in [
            ("correlation", cosine(alone, target)), ("partial", cosine(own, rest)),
            ("semipartial", cosine(own, target)),
        ]:  # fmt: skip
            assert partial[j][field] == pytest.approx(value, rel=0, abs=near_target)
    tested = rng.choice(names, rng.integers(1, width + 1), replace=False).tolist()
    kept = [j for j, name in enumerate(names) if name not in tested]
    less = left(y, np.column_stack([ones, X[:, kept]]))
    free = rows - design.shape[1]
    statistic = (less @ less - whole @ whole) / len(tested) / (whole @ whole / free)
    found = asked("f_test", tested=tested)
    assert (found["df"], found["df_residual"]) == (len(tested), free)
    assert found["statistic"] == pytest.approx(statistic, rel=near_target, abs=near * free)
    p_value = stats.f.sf(found["statistic"], len(tested), free)
    assert found["p_value"] == pytest.approx(p_value, rel=1e-9, abs=1e-300)
    return "diagnostics"


def test_designs_take_the_best_of_all_next_rows():
    for seed in range(8):
        assert_design(np.random.default_rng([seed, 1]), 12)


def test_diagnostics_are_those_of_least_squares():
    became = [assert_diagnostics(np.random.default_rng([seed, 2]), 12) for seed in range(10)]
    assert became.count("diagnostics") > 5
