"""A score of a user's estimator: answers that a cache keeps, and which groups are useful.

Metrics that share a name and differ in their code or in what they close over keep answers apart;
asked again, by the same content made anew, none is asked. A group that makes the score worse is
not useful, one that raises it beyond its noise is.
"""

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.linear_model import Ridge
from sklearn.metrics import make_scorer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dbselect as ds


def case(draw: random.Random) -> None:
    """Score a table by metrics of one name, one after the other, over one cache."""
    rng = np.random.default_rng(draw.getrandbits(64))
    rows, width = draw.randint(30, 60), draw.randint(2, 4)
    X = pl.DataFrame(rng.normal(size=(rows, width)), [f"x{j}" for j in range(width)]).to_pandas()
    y = X.to_numpy() @ rng.normal(size=width) + rng.normal(size=rows)
    powers = [draw.choice([0.5, 1.0, 2.0]) for _ in range(3)]
    alphas = [draw.choice([0.1, 10.0]) for _ in range(3)]
    shifts = [draw.choice([0.0, 5.0]) for _ in range(3)]
    known: set[tuple[float, float, float]] = set()
    with tempfile.TemporaryDirectory() as folder:
        for power, alpha, shift in zip(powers, alphas, shifts, strict=True):
            estimator = _estimator(alpha, shift)
            score = ds.objectives.Score.of(
                estimator, X, y, cv=3, scoring=_metric(power), cache=Path(folder) / "answers"
            )
            got = np.asarray(score.folds(range(width)))
            truth = cross_val_score(estimator, X, y, cv=3, scoring=_metric(power))
            assert np.allclose(got, truth), f"{power, alpha, shift}: {got} are not {truth}"
            content = (power, alpha, shift)
            asked = "asked again" if content in known else "never asked"
            assert (score.queries == 0) == (content in known), f"{content} was {asked}"
            known.add(content)
    _useful(draw)


def _metric(power: float) -> Any:
    def metric(y: Any, predicted: Any) -> float:
        return -float((np.abs(y - predicted) ** power).mean())

    return make_scorer(metric)


def _estimator(alpha: float, shift: float) -> Any:
    return make_pipeline(FunctionTransformer(lambda X: X + shift), Ridge(alpha=alpha))


def _useful(draw: random.Random) -> None:
    """One group changes a score by a gain whose noise is far below, or far above it."""
    gain, spread = draw.uniform(-1, 1), 10 ** draw.uniform(-4, -1)
    noise = spread * np.array([-1.0, 0.0, 1.0])
    score = ds.objectives.Score(
        lambda columns: np.full(3, 0.2) + (gain + noise if columns else 0.0), {"v": ["c"]}
    )
    steps = ds.anytime_sequence(score, always=["v"]).steps
    error = spread / np.sqrt(3)
    if gain < 0:
        assert not steps["useful"][1], f"a gain of {gain}, standard error {error}, is useful"
    elif gain > 10 * error:
        assert steps["useful"][1], f"a gain of {gain}, standard error {error}, is not useful"
