"""Families and links as statsmodels has them, a table with a target for each, and their fits."""

import warnings
from typing import Any

import numpy as np
import polars as pl
import statsmodels.api as sm

from dbselect.glm.links import family_of, kind_of_family

F, L = sm.families, sm.families.links
TRUTH = {
    "gaussian": F.Gaussian(),
    "gaussian(log)": F.Gaussian(L.Log()),
    "gaussian(inverse)": F.Gaussian(L.InversePower()),
    "binomial": F.Binomial(),
    "binomial(probit)": F.Binomial(L.Probit()),
    "binomial(cloglog)": F.Binomial(L.CLogLog()),
    "binomial(loglog)": F.Binomial(L.LogLog()),
    "binomial(cauchit)": F.Binomial(L.Cauchy()),
    "binomial(log)": F.Binomial(L.Log()),
    "binomial(identity)": F.Binomial(L.Identity()),
    "poisson": F.Poisson(),
    "poisson(identity)": F.Poisson(L.Identity()),
    "poisson(sqrt)": F.Poisson(L.Sqrt()),
    "gamma": F.Gamma(L.Log()),
    "gamma(identity)": F.Gamma(L.Identity()),
    "gamma(inverse)": F.Gamma(L.InversePower()),
    "inverse_gaussian": F.InverseGaussian(L.Log()),
    "inverse_gaussian(identity)": F.InverseGaussian(L.Identity()),
    "inverse_gaussian(inverse)": F.InverseGaussian(L.InversePower()),
    "inverse_gaussian(inverse_squared)": F.InverseGaussian(L.InverseSquared()),
    "tweedie(1.5)": F.Tweedie(L.Log(), var_power=1.5),
    "tweedie(2.5)": F.Tweedie(L.Log(), var_power=2.5),
    "tweedie(1.5, identity)": F.Tweedie(L.Identity(), var_power=1.5),
    "tweedie(1.5, inverse)": F.Tweedie(L.InversePower(), var_power=1.5),
    "tweedie(2.5, sqrt)": F.Tweedie(L.Sqrt(), var_power=2.5),
    "negative_binomial(0.7)": F.NegativeBinomial(L.Log(), alpha=0.7),
    "negative_binomial(0.7, identity)": F.NegativeBinomial(L.Identity(), alpha=0.7),
    "negative_binomial(0.7, sqrt)": F.NegativeBinomial(L.Sqrt(), alpha=0.7),
}
#: Those with a mean at the predictor 0, from which fits through the origin begin.
AT_0 = [name for name in TRUTH if family_of(name).at_zero]
N = 300
COLUMNS = ["a", "b", "c"]
GROUPS = {name: [name] for name in COLUMNS}
#: Newton's last step is taken without a pass: its error, by Fisher's scoring, in the coefficients.
FITTED = 1e-6


def table(intercept: bool) -> pl.DataFrame:
    """Return three columns of other units, an offset, weights, and a target for each family.

    Without an intercept predictors are near 0, and targets are of families with a mean there.
    """
    rng = np.random.default_rng(17)
    U = rng.uniform(-1.0, 1.0, size=(N, 3))
    offset = 0.05 * rng.normal(size=N)
    X = U * [1.0, 2.0, 0.5] + [0.0, 1.0, -2.0]
    columns = dict(zip(COLUMNS, X.T, strict=True))
    columns |= {"offset": offset, "w": rng.integers(1, 4, N)}
    columns |= {"none": np.zeros(N), "one": np.ones(N), "kind": rng.choice(["x", "y", "z"], N)}
    for name in TRUTH if intercept else AT_0:
        kind, link = kind_of_family(name), TRUTH[name].link
        if intercept:
            # All links have a mean at predictors between 0 and 1, the logarithm of chances below 0.
            base = {"binomial(log)": -1.5}.get(name, 0.5 if kind == "binomial" else 1.5)
            slope = 0.5 if name == "binomial(identity)" else 1.0  # well within 0 and 1
            eta = base + U @ [0.2, -0.15, 0.1] * slope
        else:
            eta = X @ [0.5, 0.2, 0.4]
        mean = link.inverse(eta + offset)
        draw = {
            "gaussian": lambda m: m + 0.05 * rng.normal(size=N),
            "binomial": lambda m: rng.random(N) < m,
            "poisson": rng.poisson,
            "gamma": lambda m: rng.gamma(4.0, m / 4.0),
            "inverse_gaussian": lambda m: rng.wald(m, 3.0),
            "tweedie": lambda m: rng.gamma(4.0, m / 4.0),
            "negative_binomial": lambda m: rng.poisson(m * rng.gamma(1 / 0.7, 0.7, N)),
        }[kind]
        columns[name] = np.asarray(draw(mean), float)
    return pl.DataFrame(columns)


TABLES = {intercept: table(intercept) for intercept in (True, False)}
TABLE = TABLES[True]


def truth_of(
    family: str,
    names: list[str] = COLUMNS,
    frame: pl.DataFrame | None = None,
    *,
    intercept: bool = True,
    offset: str | None = None,
    weight: str | None = None,
) -> Any:
    """Return the fit of statsmodels."""
    frame = TABLES[intercept] if frame is None else frame
    ones = np.ones((frame.height, int(intercept)))
    X = np.column_stack([ones, frame.select(names).to_numpy()]) if names else ones
    more = {
        name: frame[column].to_numpy()
        for name, column in (("offset", offset), ("freq_weights", weight))
        if column is not None
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the domain of links
        model = sm.GLM(frame[family].to_numpy(), X, TRUTH[family], **more)
        return model.fit(tol=1e-14, maxiter=200)


def deviance_at_0(family: str, offset: str | None = None, weight: str | None = None) -> float:
    """Return the deviance of the predictor 0, which R calls the null deviance."""
    rows = TABLES[False]
    eta = np.zeros(N) if offset is None else rows[offset].to_numpy()
    weights = np.ones(N) if weight is None else rows[weight].to_numpy()
    mean = TRUTH[family].link.inverse(eta)
    return TRUTH[family].deviance(rows[family].to_numpy(), mean, freq_weights=weights)
