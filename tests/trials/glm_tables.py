"""Small random tables for every family and link, and their least deviance by statsmodels.

statsmodels has the deviance, its gradient and its curvature; Newton's method, damped, finds a
minimum of them from several starts, where the iterated weighting of statsmodels may diverge.
"""

import random
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import statsmodels.api as sm
from truths import TRUTH as EVERY

F, L = sm.families, sm.families.links
#: Families as statsmodels has them, but for those that need starts of their own.
APART = ("gaussian", "tweedie(1.5, identity)", "negative_binomial(0.7, identity)")
TRUTH = {name: family for name, family in EVERY.items() if name not in APART}
#: Those that have a mean at every predictor.
EVERYWHERE = [
    name
    for name, family in TRUTH.items()
    if isinstance(family.link, (L.Logit, L.Probit, L.CLogLog, L.LogLog, L.Cauchy, L.Log))
    and name != "binomial(log)"
]
#: Those whose target may have an exposure.
LOGS = ["poisson", "gamma", "inverse_gaussian", "tweedie(1.5)", "negative_binomial(0.7)"]
#: Where predictors are drawn that not all have a mean.
WITHIN = {"binomial(log)": (-5.0, -0.01), "binomial(identity)": (0.02, 0.98)}
#: Steps of Newton's method, and how far a damped one may be damped.
STEPS, DAMPED = 200, 1e12
#: Gradient at a minimum, in the lengths of a Newton step of unit-variance columns.
SETTLED = 1e-7


@dataclass(frozen=True)
class GlmTable:
    """A table, the family of its target ``y``, and the arguments of dbselect that go with it."""

    family: str
    frame: pl.DataFrame
    columns: list[str]
    intercept: bool
    weight: str | None
    exposure: str | None
    offset: str | None

    @property
    def options(self) -> dict[str, Any]:
        """What dbselect is asked with, columns apart."""
        return {
            "family": self.family, "intercept": self.intercept, "weight": self.weight,
            "exposure": self.exposure, "offset": self.offset,
        }  # fmt: skip

    @property
    def y(self) -> np.ndarray:
        """The target."""
        return self.frame["y"].to_numpy().astype(float)

    @property
    def weights(self) -> np.ndarray:
        """The weight of each row."""
        return np.ones(len(self.frame)) if self.weight is None else self.frame["w"].to_numpy()

    @property
    def offsets(self) -> np.ndarray:
        """What the predictor of each row has besides."""
        found = np.zeros(len(self.frame))
        if self.exposure is not None:
            found += np.log(self.frame["e"].to_numpy())
        return found if self.offset is None else found + self.frame["o"].to_numpy()

    def design(self, columns: list[str]) -> np.ndarray:
        """Return the columns, after one of ones if there is an intercept."""
        X = self.frame.select(columns).to_numpy().reshape(len(self.frame), len(columns))
        return sm.add_constant(X, has_constant="add") if self.intercept else X

    def model(self, columns: list[str]) -> Any:
        """Return the model of statsmodels."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the domain of the link
            return sm.GLM(
                self.y, self.design(columns), TRUTH[self.family], offset=self.offsets,
                freq_weights=self.weights,
            )  # fmt: skip


def drawn_table(draw: random.Random, family: str, *, columns: int, plain: bool = False) -> GlmTable:
    """Draw a table whose target has effects, with an intercept and weights or without."""
    rng = np.random.default_rng(draw.getrandbits(64))
    rows = draw.choice([15, 25, 40, 80])
    X = rng.normal(size=(rows, columns))
    if draw.random() < 0.3:
        X[:, 0] = rng.random(rows) < 0.3
    truth, kind = TRUTH[family], family.partition("(")[0]
    everywhere = family in EVERYWHERE
    size = draw.choice([0.2, 0.5, 1.0]) if everywhere else 0.1
    effects = size * rng.normal(size=columns)
    base = {"binomial(log)": -1.0, "binomial(identity)": 0.5}.get(family, 0.3 if everywhere else 2)
    intercept = plain or not everywhere or draw.random() < 0.7
    weight = "w" if not plain and draw.random() < 0.3 else None
    exposure = "e" if not plain and family in LOGS and draw.random() < 0.3 else None
    offset = "o" if not plain and everywhere and draw.random() < 0.3 else None
    known = {"w": rng.uniform(0.3, 3.0, rows), "e": rng.uniform(0.5, 2.0, rows)}
    known["o"] = 0.3 * rng.normal(size=rows)
    eta = base * intercept + (X - X.mean(axis=0)) @ effects
    eta += (0 if exposure is None else np.log(known["e"])) + (0 if offset is None else known["o"])
    eta = np.clip(eta, *WITHIN.get(family, (-5.0, 5.0) if everywhere else (0.3, 9.0)))
    mean = truth.link.inverse(eta)
    shape = draw.choice([0.5, 2.0, 8.0])
    with np.errstate(all="ignore"):
        y = {
            "gaussian": lambda: mean + mean.mean() * rng.normal(size=rows) / (2 * shape),
            "binomial": lambda: rng.random(rows) < mean,
            "poisson": lambda: rng.poisson(mean),
            "gamma": lambda: rng.gamma(shape, mean / shape),
            "inverse_gaussian": lambda: rng.wald(mean, shape),
            "tweedie": lambda: rng.gamma(shape, mean / shape),
            "negative_binomial": lambda: rng.poisson(mean * rng.gamma(1 / 0.7, 0.7, rows)),
        }[kind]()
    y = np.asarray(y, float)
    if (y == y[0]).all():
        y[0] = 1.0 - y[0] if kind == "binomial" else y[0] + 1.0
    names = [f"x{j}" for j in range(columns)]
    frame = pl.DataFrame(X, schema=names).with_columns(y=y, **known)
    return GlmTable(family, frame, names, intercept, weight, exposure, offset)


def deviance_of(model: Any, at: np.ndarray) -> float:
    """Return the deviance at some coefficients; infinite where a row has no mean."""
    family, eta = model.family, model.exog @ at + model.offset
    with np.errstate(all="ignore"):
        mean = family.link.inverse(eta)
        found = family.deviance(model.endog, mean, freq_weights=model.freq_weights)
    bounded = not isinstance(family, F.Gaussian)
    outside = bounded and not (mean > 0).all()
    outside |= isinstance(family, F.Binomial) and not (mean < 1).all()
    outside |= isinstance(family.link, L.Power) and bounded and not (eta > 0).all()
    return float(found) if np.isfinite(found) and not outside else np.inf


def minimum(model: Any, start: np.ndarray) -> tuple[np.ndarray, float, bool]:
    """Return coefficients of least deviance near a start, the deviance, and whether it is one."""
    at, now, damp = np.asarray(start, float), deviance_of(model, start), 1e-3
    if not len(at):
        return at, now, True
    unit = np.sqrt((model.exog**2).mean(axis=0))
    for _ in range(STEPS):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gradient = model.score(at, scale=1.0) / unit
            curvature = -model.hessian(at, scale=1.0, observed=True) / unit / unit[:, None]
        if not (np.isfinite(gradient).all() and np.isfinite(curvature).all()):
            return at, now, False
        values, vectors = np.linalg.eigh(curvature)
        along = vectors.T @ gradient
        if values[0] > 1e-12 * values[-1] and np.linalg.norm(along / values) < SETTLED:
            return at, now, True
        while damp < DAMPED:
            shift = damp * values[-1].clip(1e-300) + max(0.0, -2.0 * values[0])
            shift = 0.0 if damp < 1e-9 and values[0] > 0 else shift
            step = vectors @ (along / (values + shift)) / unit
            reached = deviance_of(model, at + step)
            if reached <= now:
                break
            damp = max(10.0 * damp, 1e-8)
        else:
            return at, now, False
        at, now, damp = at + step, reached, 0.1 * damp
    return at, now, False
