"""Fits whose means reach the last one allowed, and steps that lead too far."""

import numpy as np
import polars as pl
import pytest
from scipy import special

import dbselect as ds

sm = pytest.importorskip("statsmodels.api")

CASES = {
    # A level whose only row has no count: its mean is 0.
    "poisson(sqrt)": ([0, 0, 2, 0], [2, 1, 1, 1], "babc"),
    "negative_binomial(1, sqrt)": ([1, 1, 2, 1, 0, 3], [0, 0, 1, 0, 1, 0], "accaba"),
}


@pytest.mark.parametrize("family", CASES)
def test_a_mean_may_be_the_last_one_where_the_likelihood_allows_it(family):
    """Where every cell has a coefficient, its mean is that of its rows."""
    y, x, k = CASES[family]
    frame = pl.DataFrame({"y": y, "x": x, "k": list(k)})
    cells = frame.with_columns(m=pl.col("y").mean().over("x", "k"))["m"]
    model = ds.fit(frame, "y", family=family)
    with ds.connect() as connection:
        connection.register("t", frame.to_arrow())
        ((told,),) = connection.execute(f"SELECT fit_glm(t, 'y', '{family}') FROM t").fetchall()
    assert (model.status.name, told["status"]) == ("CONVERGED", "converged")
    assert model.predict(frame) == pytest.approx(cells.to_list(), abs=1e-6)
    assert told["deviance"] == pytest.approx(model.deviance, abs=1e-9)
    for coefficients, aliased in (
        (model.coefficients, model.aliased), (told["coefficients"], told["aliased"])
    ):  # fmt: skip
        assert [coefficients[name] for name in aliased] == [0.0] * len(aliased)


@pytest.mark.filterwarnings("ignore:the model explains")
def test_a_step_that_leads_too_far_is_halved():
    rng = np.random.default_rng(42)
    X = np.exp(rng.normal(size=(100, 4)))
    y = rng.poisson(np.exp(np.clip(0.5 * X[:, 0] - 0.5 * X[:, 3], -20, 15)))
    frame = pl.DataFrame(X, schema=list("abcd")).with_columns(y=y)
    told = sm.GLM(y, sm.add_constant(X), sm.families.Poisson()).fit(tol=1e-14, maxiter=200)
    model = ds.fit(frame, "y", family="poisson")
    assert model.status.name == "CONVERGED"
    assert model.deviance == pytest.approx(told.deviance, rel=1e-9)


def null_deviance(door: str, frame: pl.DataFrame, family: str) -> float:
    if door == "python":
        return ds.fit(frame, "y", ["x"], family=family, offset="o").null_deviance
    with ds.connect() as connection:
        connection.register("t", frame.to_arrow())
        call = f"fit_glm({{'y': y, 'x': x, 'o': o}}, 'y', '{family}', {{'offset': 'o'}})"
        ((model,),) = connection.execute(f"SELECT {call} FROM t").fetchall()
    return model["null_deviance"]


@pytest.mark.parametrize("door", ["python", "sql"])
def test_the_null_deviance_beside_an_offset_is_the_least(door):
    """One number is varied by hand: predictors up to 0 have a mean."""
    rng = np.random.default_rng(3)
    x, o = rng.normal(size=20), 0.6 * rng.normal(size=20)
    y = (rng.random(20) < 0.4).astype(int)
    frame = pl.DataFrame({"y": y, "x": x, "o": o})
    eta = (-o.max() - np.linspace(1e-6, 5.0, 200_001))[:, None] + o
    least = (-2 * np.where(y > 0, eta, np.log(-np.expm1(eta)))).sum(axis=1).min()
    assert null_deviance(door, frame, "binomial(log)") == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("door", ["python", "sql"])
def test_an_offset_far_from_its_mean_begins_where_every_row_has_a_mean(door):
    """The mean offset would leave the first row without a mean; predictors from 3 on have one."""
    y, o = np.array([2, 2, 1, 0, 1, 0]), np.array([-3.0, 0, 0, 0, 0, 0])
    mean = np.linspace(3.0, 4.0, 200_002)[1:, None] + o
    least = 2 * (special.xlogy(y, y / mean) - (y - mean)).sum(axis=1).min()
    frame = pl.DataFrame({"y": y, "x": [0.5, -1, 1, 2, 0, 1], "o": o})
    assert null_deviance(door, frame, "poisson(identity)") == pytest.approx(least, rel=1e-9)
