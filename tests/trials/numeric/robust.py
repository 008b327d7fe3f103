"""Sandwich errors of every family and link against statsmodels' scores and information."""

import random

import numpy as np
from glm_tables import TRUTH, drawn_table

import dbselect as ds

#: Share by which a covariance may be off: a fit leaves its last step.
CLOSE = 1e-5


def case(draw: random.Random) -> None:
    """Fit a table, and compare the covariance of its coefficients."""
    table = drawn_table(draw, draw.choice(list(TRUTH)), columns=draw.randint(1, 3))
    fitted = ds.fit(table.frame, "y", table.columns, tol=1e-12, **table.options)
    if fitted.status.name != "CONVERGED":
        return
    kind = draw.choice(["HC0", "HC1"])
    found = fitted.robust_errors(table.frame, weight=table.weight, cov_type=kind)
    names = ["(intercept)"] * table.intercept + table.columns
    assert list(found.terms) == names, f"{table.family}: terms are {found.terms}, not {names}"
    model = table.model(table.columns)
    at = np.array([found.estimates[name] for name in names])
    scores = model.score_obs(at, scale=1.0)
    bread = np.linalg.inv(model.hessian(at, scale=1.0, observed=False))
    covariance = bread @ (scores.T @ scores) @ bread
    rows, rank = model.exog.shape
    covariance *= rows / (rows - rank) if kind == "HC1" else 1.0
    unit = np.sqrt(np.diagonal(covariance))
    off = np.abs(found.covariance - covariance) / np.outer(unit, unit)
    assert off.max() < CLOSE, f"{table.family}, {table.options}: off by {off.max():.1e}"
