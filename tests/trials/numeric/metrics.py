"""Metrics of models on rows they were not fitted on, against scikit-learn's on the predictions.

Where a probability rounds to 0 or 1, scikit-learn cuts it and our ``log_loss`` does not; ties of
rounded probabilities are none in linear predictors. Such rows are compared with sums of their own.
"""

import random
from typing import Any

import numpy as np
import polars as pl
from sklearn import metrics

import dbselect as ds

KNOWN = 1e-9


def case(draw: random.Random) -> None:
    """Fit on one half of a table and judge on the other."""
    rng = np.random.default_rng(draw.getrandbits(64))
    rows, width = draw.randint(40, 200), draw.randint(1, 3)
    X = rng.integers(-3, 4, (2 * rows, width)).astype(float)
    eta = X @ rng.normal(size=width) * draw.choice([0.3, 1.0, 30.0])
    y = (rng.random(2 * rows) < 1 / (1 + np.exp(-np.clip(eta, -30, 30)))).astype(int)
    w = rng.integers(0, 4, 2 * rows).astype(float) if draw.random() < 0.5 else np.ones(2 * rows)
    if min(len(set(y[:rows])), len(set(y[rows:][w[rows:] > 0]))) < 2:
        return
    names = [f"x{j}" for j in range(width)]
    frame = pl.DataFrame(X, names).with_columns(y=y, w=w)
    model = ds.fit(frame[:rows].drop("w"), "y", family="binomial")
    rest = frame[rows:].filter(pl.col("w") > 0)
    asked = ["log_loss", "auc", "brier", "accuracy"]
    found = ds.evaluate(model, rest, weight="w", metric=asked).table.row(-1, named=True)
    truth, weight = rest["y"].to_numpy(), rest["w"].to_numpy()
    coefficients = np.array([model.coefficients.get(name, 0.0) for name in names])
    linear = rest.select(names).to_numpy() @ coefficients + model.intercept
    share = 1 / (1 + np.exp(-linear))
    losses = np.logaddexp(0, linear) - truth * linear
    # Linear predictors that are equal but for rounding are equal.
    size = np.abs(linear).max() + abs(model.intercept)
    rounded = np.round(linear / max(size, 1e-300), 11)
    expected: dict[str, Any] = {
        "log_loss": np.average(losses, weights=weight),
        "auc": metrics.roc_auc_score(truth, rounded, sample_weight=weight),
        "brier": metrics.brier_score_loss(truth, share, sample_weight=weight),
        "accuracy": metrics.accuracy_score(truth, share > 0.5, sample_weight=weight),
    }
    if np.abs(linear).max() < 30:
        own = metrics.log_loss(truth, share, sample_weight=weight)
        assert abs(own - expected["log_loss"]) < KNOWN * (1 + own), "our sum is not scikit-learn's"
    if np.abs(linear).min() < 1e-9:
        expected.pop("accuracy")
    for name, value in expected.items():
        short = abs(found[name] - value)
        assert short < KNOWN * (1 + abs(value)), f"{name} is {found[name]}, not {value}"
