"""Families on skewed columns, whose first steps overshoot, against the least deviance of scipy.

A deviance is convex with these links, so that its minimum is where the gradient vanishes: scipy's
trust region finds it or tells that it could not, and then nothing is compared.
"""

import random
from typing import Any

import numpy as np
import polars as pl
from scipy.optimize import minimize
from scipy.special import xlogy

import dbselect as ds

#: Share of the null deviance by which a fit may be above the least.
SHORT = 1e-7
FAMILIES = ("poisson", "binomial", "gamma(log)")


def case(draw: random.Random) -> None:
    """Fit a table by both doors; nothing may be refused."""
    family = draw.choice(FAMILIES)
    rng = np.random.default_rng(draw.getrandbits(64))
    rows, width = draw.randint(20, 200), draw.randint(1, 5)
    X = np.exp(rng.normal(size=(rows, width)) * draw.uniform(0.3, 2.0))
    eta = (X - X.mean(axis=0)) @ (
        rng.normal(size=width) * 10 ** draw.uniform(-2, 0) / X.std(axis=0)
    )
    eta = np.clip(eta, -6, 6)
    y = {
        "poisson": lambda: rng.poisson(np.exp(eta)),
        "binomial": lambda: (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(int),
        "gamma(log)": lambda: rng.gamma(2.0, np.exp(eta) / 2) + 1e-6,
    }[family]()
    if len(set(y.tolist())) < 2:
        return
    frame = pl.DataFrame(X, [f"x{j}" for j in range(width)]).with_columns(y=y)
    least = lowest(family, X, y.astype(float))
    model = ds.fit(frame, "y", family=family)
    with ds.connect() as connection:
        connection.register("t", frame.to_arrow())
        ((told,),) = connection.execute(f"SELECT fit_glm(t, 'y', '{family}') FROM t").fetchall()
    for door, status, deviance in (
        ("Python", model.status.name, model.deviance),
        ("SQL", told["status"].upper(), told["deviance"]),
    ):
        said = f"{family}, {rows} rows, {door}: {status}"
        if least is None:
            continue
        assert status == "CONVERGED", f"{said}, where the least deviance is {least}"
        short = (deviance - least) / model.null_deviance
        assert short < SHORT, f"{said}, {short:g} above the least deviance"


def lowest(family: str, X: np.ndarray, y: np.ndarray) -> float | None:
    """Return the least deviance, None where the gradient there does not vanish."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    Z = np.column_stack([np.ones(len(y)), Z])

    def parts(at: np.ndarray) -> tuple[Any, Any, Any]:
        eta = Z @ at
        if family == "binomial":
            m = 1 / (1 + np.exp(-eta))
            return 2 * (np.logaddexp(0, eta) - y * eta), 2 * (m - y), 2 * m * (1 - m)
        m = np.exp(eta)
        if family == "poisson":
            return 2 * (xlogy(y, y) - y * eta - y + m), 2 * (m - y), 2 * m
        return 2 * (y / m - 1 - np.log(y) + eta), 2 * (1 - y / m), 2 * y / m

    start = np.zeros(Z.shape[1])
    start[0] = 0.0 if family == "binomial" else np.log(y.mean())
    with np.errstate(all="ignore"):
        found = minimize(
            lambda at: float(parts(at)[0].sum()),
            start,
            jac=lambda at: Z.T @ parts(at)[1],
            hess=lambda at: Z.T @ (Z * parts(at)[2][:, None]),
            method="trust-exact",
            options={"gtol": 1e-6 * len(y), "maxiter": 2000},
        )
    is_inside = np.isfinite(found.fun) and found.success and np.abs(Z @ found.x).max() < 15
    return float(found.fun) if is_inside else None
