"""Families under signs, against L-BFGS-B with bounds, fits without signs and KKT conditions."""

import re

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize
from scipy.special import expit, ndtr

import dbselect as ds

#: Rounding of the minimum of L-BFGS-B, on coefficients of size 1.
NEAR = 1e-6
WIDTH = 5
NAMES = [f"x{j}" for j in range(WIDTH)]
#: Family -> draw of the target from predictors, and negative log-likelihood of predictors.
FAMILIES = {
    "poisson": (lambda rng, eta: rng.poisson(np.exp(eta)), lambda y, eta: np.exp(eta) - y * eta),
    "binomial": (
        lambda rng, eta: rng.binomial(1, expit(eta)), lambda y, eta: np.logaddexp(0, eta) - y * eta,
    ),
    "binomial(probit)": (
        lambda rng, eta: rng.binomial(1, ndtr(eta)),
        lambda y, eta: -np.log(ndtr(np.where(y == 1, eta, -eta))),
    ),
    "gamma": (
        lambda rng, eta: rng.gamma(2, np.exp(eta)), lambda y, eta: y * np.exp(-eta) + eta,
    ),
    "negative_binomial(0.5)": (
        lambda rng, eta: rng.negative_binomial(2, 2 / (2 + np.exp(eta))),
        lambda y, eta: (y + 2) * np.log(2 + np.exp(eta)) - y * eta,
    ),
}  # fmt: skip


def drawn(family: str, seed: int, rows: int = 200) -> tuple[np.ndarray, np.ndarray, pl.DataFrame]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, WIDTH)) + rng.normal(size=(rows, 1))
    y = FAMILIES[family][0](rng, x @ rng.normal(size=WIDTH) * 0.3)
    weight = rng.uniform(0.5, 2.0, rows)
    return x, y, pl.DataFrame({**dict(zip(NAMES, x.T, strict=True)), "y": y, "w": weight})


def signs_of(seed: int) -> dict[str, str]:
    kinds = np.random.default_rng(seed).choice(["+", "-", ""], size=WIDTH)
    return {name: str(kind) for name, kind in zip(NAMES, kinds, strict=True) if kind}


def bounded(family, x, y, weight, signs, ridge):
    spread = np.sqrt(np.average((x - np.average(x, 0, weight)) ** 2, 0, weight))

    def objective(theta):
        loss = FAMILIES[family][1](y, theta[0] + x @ theta[1:])
        return np.average(loss, weights=weight) + ridge / 2 * ((theta[1:] * spread) ** 2).sum()

    sides = {"+": (0, None), "-": (None, 0), None: (None, None)}
    bounds = [(None, None), *(sides[signs.get(name)] for name in NAMES)]
    options = {"ftol": 1e-16, "gtol": 1e-9, "maxiter": 10**4, "maxfun": 10**6}
    start = minimize(objective, np.zeros(WIDTH + 1), bounds=bounds, options=options, jac="3-point")
    return start.x, objective


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(4))
def test_signs_are_those_of_bounded_likelihoods(family, seed):
    x, y, table = drawn(family, seed)
    signs, ridge = signs_of(seed), 0.1 * (seed % 2)
    model = ds.fit(table, "y", NAMES, family=family, signs=signs, ridge=ridge, weight="w")
    expected, objective = bounded(family, x, y, table["w"].to_numpy(), signs, ridge)
    found = np.array([model.intercept, *model.coefficients.values()])
    assert objective(found) <= objective(expected) + 1e-12
    assert found == pytest.approx(expected, abs=NEAR)
    assert all(model.coefficients[name] * (1 if s == "+" else -1) >= 0 for name, s in signs.items())
    assert model.status.name == "CONVERGED"
    assert model.constraint.violation < NEAR
    free = ds.fit(table, "y", NAMES, family=family, ridge=ridge, weight="w")
    cost = (model.deviance - free.deviance) / free.null_deviance
    assert model.constraint.r2_cost == pytest.approx(max(cost, 0.0), abs=1e-9)
    # What is left fits alone, without signs.
    rest = [name for name in NAMES if name not in model.constraint.at_zero]
    alone = ds.fit(table, "y", rest, family=family, ridge=ridge, weight="w").coefficients
    assert {name: model.coefficients[name] for name in rest} == pytest.approx(alone, abs=NEAR)


def test_columns_that_depend_and_rows_that_separate():
    x, _, table = drawn("poisson", 1)
    table = table.with_columns(minus=-pl.col("x0"), side=pl.Series(x[:, 1] > 0).cast(int))
    both = ds.fit(table, "y", ["x0", "minus"], family="poisson", signs={"*": "+"})
    alone = ds.fit(table, "y", ["x0"], family="poisson")
    assert both.deviance == pytest.approx(alone.deviance)
    assert sorted(map(bool, both.coefficients.values())) == [False, True]
    assert not both.aliased
    # Signs end the way along which coefficients diverge, or do not.
    ended = ds.fit(table, "side", ["x1", "x2"], family="binomial", signs={"x1": "-"})
    assert (ended.status.name, ended.coefficients["x1"]) == ("CONVERGED", 0.0)
    with pytest.warns(ds.errors.SeparationWarning, match="most those of x1"):
        ds.fit(table, "side", ["x1", "x2"], family="binomial", signs={"x1": "+"})


def test_it_is_kept_in_a_file_and_fitted_again(tmp_path):
    _, _, table = drawn("poisson", 2)
    model = ds.fit(table, "y", NAMES, family="poisson", signs={"x*": "+"})
    model.write_json(tmp_path / "model.json")
    read = type(model).read_json(tmp_path / "model.json")
    assert read.constraint == model.constraint
    assert read.constraint.at_zero
    again = read.refit(table)
    assert again.coefficients == pytest.approx(model.coefficients, abs=NEAR)
    linear = ds.fit(table, "y", NAMES, signs={"x*": "+"}).refit(table[:100])
    assert linear.coefficients == ds.fit(table[:100], "y", NAMES, signs={"x*": "+"}).coefficients


TABLE = drawn("poisson", 0)[2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"family": "multinomial"}, "a column of family 'multinomial' has a coefficient for each"),
        ({"family": "negative_binomial"}, "give one, as 'negative_binomial(2.5)'"),
        ({"family": "poisson", "signs": {"q": "+"}}, "signs names unknown column 'q'"),
        (
            {"family": "poisson", "signs": None, "uncorrelated": ["w"]},
            "it is a condition on the Gram of a linear model",
        ),
    ],
)
def test_what_is_wrong_is_refused_in_a_sentence(given, message):
    with pytest.raises(ds.errors.DbselectError, match=re.escape(message)):
        ds.fit(TABLE, "y", **{"signs": {"x0": "+"}, **given})


def test_under_signs_there_are_no_standard_errors():
    model = ds.fit(TABLE, "y", NAMES, family="poisson", signs={"x0": "-"})
    calls = [model.summary, model.covariance, model.lr_test, lambda: model.aic]
    for call in (*calls, lambda: model.robust_errors(TABLE)):
        with pytest.raises(ds.errors.FieldError, match="coefficients are not normal"):
            call()
    sequence = ds.anytime_sequence(TABLE, "y", family="poisson")
    with pytest.raises(ds.errors.ArgumentError, match=r"dbselect.fit\(table, 'y', seq.at"):
        sequence.at(2.0, signs={"x0": "+"})


@pytest.mark.parametrize("family", ["poisson", "binomial(probit)", "gamma"])
def test_sql_has_the_same_coefficients(family):
    _, _, table = drawn(family, 3)
    signs, connection = {"x0": "+", "x1": "-", "x2": "-", "x3": "+"}, ds.connect()
    connection.register("t", table.drop("w"))
    call = f"fit_glm(t, 'y', '{family}', {{'signs': {signs!r}}})"
    ((found,),) = connection.execute(f"SELECT {call} FROM t").fetchall()
    model = ds.fit(table.drop("w"), "y", family=family, signs=signs)
    assert found["coefficients"] == pytest.approx(model.coefficients, abs=NEAR)
    assert [w == 0 for w in found["coefficients"].values()] == [
        w == 0 for w in model.coefficients.values()
    ]
    assert (found["status"], found["std_errors"]) == ("converged", {})
    assert found["deviance"] == pytest.approx(model.deviance)
    assert f"the constraints cost {model.constraint.r2_cost:.4f} of r2" in found["note"]
    messages = {
        "fit_glm(t, 'y', 'poisson', {'signs': {'q': '+'}})": "signs names unknown column 'q'",
        "fit_glm(t, 'y', 'poisson', {'signs': {'x0': 1}})": "signs of 'x0' is 1",
        "fit_glm(t, 'y', 'poisson', {'uncorrelated': ['x0']})": "a condition on the Gram",
        "summary_glm(t, 'y', 'poisson', {'signs': {'x0': '+'}})": "coefficients are not normal",
    }
    for query, message in messages.items():
        with pytest.raises(Exception, match=re.escape(message)):
            connection.execute(f"SELECT {query} FROM t").fetchall()
