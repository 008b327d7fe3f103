"""Families whose predictors do not all have a mean, on small tables with text, by both doors.

A fit that says it converged is no higher than the least deviance that scipy finds within the means
allowed, all its own means are allowed, and a column that is aliased has the coefficient 0.
"""

import random
from typing import Any

import numpy as np
import polars as pl
from scipy.optimize import minimize

import dbselect as ds

#: The first and the last predictor allowed, and the mean of a predictor.
FAMILIES: dict[str, tuple[float, float, Any]] = {
    "poisson(identity)": (0.0, np.inf, lambda eta: eta),
    "poisson(sqrt)": (0.0, np.inf, np.square),
    "negative_binomial(1, sqrt)": (0.0, np.inf, np.square),
    "binomial(identity)": (0.0, 1.0, lambda eta: eta),
    "binomial(log)": (-np.inf, 0.0, np.exp),
}
#: Share of the null deviance by which a converged fit may be above the least.
SHORT = 1e-6
#: By how much a predictor may be beyond the border, as rounding.
BEYOND = 1e-9


def case(draw: random.Random) -> None:
    """Fit a table by both doors."""
    family = draw.choice(list(FAMILIES))
    rng = np.random.default_rng(draw.getrandbits(64))
    rows = draw.randint(4, 40)
    y = rng.poisson(rng.uniform(0.5, 3.0), rows)
    if family.startswith("binomial"):
        y = (rng.random(rows) < rng.uniform(0.2, 0.8)).astype(int)
    if not y.any() or (family.startswith("binomial") and y.all()):
        return
    x = rng.integers(0, 3, rows) if draw.random() < 0.5 else rng.normal(size=rows)
    levels = [f"k.{letter}" for letter in "abcdef"]
    k = rng.choice(list("abcdef"[: draw.randint(2, 6)]), rows)
    frame = pl.DataFrame({"y": y, "x": x.astype(float), "k": k})
    check(family, frame, {"x": x, **{name: k == name[-1] for name in levels}})


def check(family: str, frame: pl.DataFrame, columns: dict[str, Any]) -> None:
    """Compare both doors with the least deviance; columns that a fit lacks are left out."""
    y = frame["y"].to_numpy().astype(float)
    model = ds.fit(frame, "y", family=family)
    with ds.connect() as connection:
        connection.register("t", frame.to_arrow())
        ((told,),) = connection.execute(f"SELECT fit_glm(t, 'y', '{family}') FROM t").fetchall()
    names = list(model.coefficients)
    X = np.column_stack([np.ones(len(y)), *(columns[name] for name in names)]).astype(float)
    first, last, _ = FAMILIES[family]
    for door, status, coefficients, aliased, intercept, deviance in (
        ("Python", model.status.name, model.coefficients, model.aliased, model.intercept,
         model.deviance),
        ("SQL", told["status"].upper(), told["coefficients"], told["aliased"], told["intercept"],
         told["deviance"]),
    ):  # fmt: skip
        said = f"{family}, {len(y)} rows, {door}: {status}"
        assert all(coefficients[name] == 0 for name in aliased), f"{said}, aliased and not 0"
        if status != "CONVERGED":
            continue
        at = np.array([intercept, *(coefficients[name] for name in names)])
        eta = X @ at
        assert first - BEYOND < eta.min(), f"{said}, a predictor of {eta.min()}"
        assert eta.max() < last + BEYOND, f"{said}, a predictor of {eta.max()}"
        short = (deviance - least(family, X, y, at)) / model.null_deviance
        assert short < SHORT, f"{said}, {short:g} above the least deviance"


def least(family: str, X: np.ndarray, y: np.ndarray, near: np.ndarray) -> float:
    """Return the least deviance that is found from some coefficients and from the mean."""
    first, last, mean = FAMILIES[family]
    y_log_y = np.where(y > 0, y * np.log(np.where(y > 0, y, 1.0)), 0.0)

    def deviance(at: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            m = mean(X @ at)
            logs = np.where(y > 0, y * np.log(m), 0.0)
            rows = {
                "p": y_log_y - logs - y + m,
                "n": y_log_y - logs - (y + 1.0) * np.log((1.0 + y) / (1.0 + m)),
                "b": -logs - np.where(y < 1, np.log1p(-m), 0.0),
            }[family[0]]
        return float(2.0 * np.where(np.isfinite(rows), rows, 1e6).sum())

    # The columns that depend on no columns before them.
    free: list[int] = []
    for column in range(X.shape[1]):
        if np.linalg.matrix_rank(X[:, [*free, column]]) > len(free):
            free.append(column)
    X, null = X[:, free], np.zeros(len(free))
    null[0] = {"identity": y.mean(), "sqrt": y.mean() ** 0.5, "log": np.log(y.mean())}[
        family.rstrip(")").split("(")[1].split(" ")[-1]
    ]
    within = [
        {"type": "ineq", "fun": lambda at, s=sign, b=border: s * (X @ at - b)}
        for sign, border in ((1.0, first), (-1.0, last))
        if np.isfinite(border)
    ]
    found = [
        minimize(deviance, at, method="SLSQP", constraints=within, options={"ftol": 1e-13})
        for at in (null, near[free])
    ]
    inside = [
        one.fun
        for one in found
        if first - BEYOND < (X @ one.x).min() and (X @ one.x).max() < last + BEYOND
    ]
    return min(inside, default=np.inf)
