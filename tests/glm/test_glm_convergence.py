"""Small tables by links that are not canonical: minima are found, and no fit has a false end."""

import numpy as np
import polars as pl
import pytest

import dbselect as ds

sm = pytest.importorskip("statsmodels.api")
F, L = sm.families, sm.families.links
ROWS = 25
#: Family, what draws a target of some means, statsmodels' family.
SLOW = {
    "gamma": (lambda rng, m: rng.gamma(0.5, 2.0 * m), F.Gamma(L.Log())),
    "inverse_gaussian": (lambda rng, m: rng.wald(m, 1.0), F.InverseGaussian(L.Log())),
    "inverse_gaussian(identity)": (
        lambda rng, m: rng.wald(m, 1.0), F.InverseGaussian(L.Identity())
    ),
    "tweedie(2.5)": (lambda rng, m: rng.gamma(0.5, 2.0 * m), F.Tweedie(L.Log(), var_power=2.5)),
    "gaussian(log)": (lambda rng, m: m + rng.normal(size=ROWS), F.Gaussian(L.Log())),
    "binomial(cauchit)": (lambda rng, m: rng.random(ROWS) < m / (1 + m), F.Binomial(L.Cauchy())),
}  # fmt: skip


@pytest.mark.sample(12)
@pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.DomainWarning")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("family", SLOW)
def test_slow_scoring_still_converges(family, seed):
    rng = np.random.default_rng([seed, len(family)])
    x = rng.normal(size=(ROWS, 3))
    draw, truth = SLOW[family]
    y = np.asarray(draw(rng, np.exp(0.3 + 0.5 * x[:, 0] - 0.3 * x[:, 1])), float)
    if family.startswith("inverse_gaussian("):
        y = np.asarray(draw(rng, 3.0 + np.tanh(x[:, 0])), float)
    frame = pl.DataFrame(x, schema=["a", "b", "c"]).with_columns(y=y)
    found = ds.fit(frame, "y", ["a", "b", "c"], family=family)
    assert found.status.name == "CONVERGED"
    # At a minimum: the next step by statsmodels' gradient and curvature is none.
    model = sm.GLM(y, sm.add_constant(x), truth)
    at = found.summary()["estimate"].to_numpy()
    curvature = -model.hessian(at, scale=1.0, observed=True)
    assert np.linalg.eigvalsh(curvature)[0] > 0
    step = np.linalg.solve(curvature, model.score(at, scale=1.0))
    np.testing.assert_allclose(step, 0.0, atol=1e-5 * max(1.0, np.abs(at).max()))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4, 5, 14, 19])
def test_rule_fr_gives_up_no_candidate_that_could_still_gain_most(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(25, 6))
    y = rng.wald(np.exp(x @ rng.normal(size=6)), 0.5)
    frame = pl.DataFrame(x, schema=list("abcdef")).with_columns(y=y)
    asked = {"family": "inverse_gaussian"}
    found = ds.anytime_sequence(
        frame, "y", {name: [name] for name in "abcdef"}, rule="fr", max_groups=1, **asked
    )
    best = max(ds.fit(frame, "y", [name], **asked).explained for name in "abcdef")
    assert found.explained[1] == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("family", ["binomial", "binomial(probit)", "poisson"])
def test_beside_a_separated_level_the_others_are_those_of_the_other_rows(family, last):
    """The fit of statsmodels without the rows of the level, whichever level has no coefficient."""
    rng = np.random.default_rng(2)
    rare = "z" if last else "0"
    k = rng.choice(["a", "b", "c", rare], 600, p=[0.5, 0.28, 0.2, 0.02])
    x = rng.normal(size=600)
    eta = -0.5 + 0.8 * x + 0.5 * (k == "b")
    y = rng.random(600) < 1 / (1 + np.exp(-eta)) if "bin" in family else rng.poisson(np.exp(eta))
    y = np.where(k == rare, 0, y)
    table = pl.DataFrame({"x": x, "k": k, "y": y})
    with pytest.warns(ds.errors.SeparationWarning, match=f"all rows of k.{rare} have one value"):
        model = ds.fit(table, "y", family=family)
    kept = k != rare
    design = np.column_stack([np.ones(600), x, k == "a", k == "b"])[kept].astype(float)
    truth = {
        "binomial": sm.families.Binomial(),
        "binomial(probit)": sm.families.Binomial(sm.families.links.Probit()),
        "poisson": sm.families.Poisson(),
    }[family]
    told = sm.GLM(y[kept], design, truth).fit(tol=1e-14)
    found = model.summary().filter(pl.col("term").is_in(["(intercept)", "x", "k.a", "k.b"]))
    assert np.allclose(found["estimate"], told.params, rtol=1e-4)
    assert np.allclose(found["std_error"], told.bse, rtol=1e-4)
    (own,) = model.summary().filter(term=f"k.{rare}").rows(named=True)
    assert own["estimate"] < -4
    assert own["std_error"] is None
    assert np.allclose(model.predict(table)[~kept], 0.0, atol=1e-3)
    with pytest.raises(ds.errors.DataError, match="robust_errors need one that converged"):
        model.robust_errors(table)


def test_a_sequence_names_the_level_and_keeps_the_other_errors():
    rng = np.random.default_rng(3)
    k, x = np.array(["p", "q", "r"] * 100), rng.normal(size=300)
    y = np.where(k == "r", True, rng.random(300) < 1 / (1 + np.exp(-x)))
    table = pl.DataFrame({"x": x, "k": k, "y": y})
    with pytest.warns(ds.errors.SeparationWarning, match=r"'k', all rows of k\.r have"):
        model = ds.anytime_sequence(table, "y", family="binomial", always=["k", "x"]).model(2)
    kept = k != "r"
    design = np.column_stack([np.ones(300), k == "p", x])[kept].astype(float)
    told = sm.GLM(y[kept], design, sm.families.Binomial()).fit(tol=1e-14)
    found = model.summary().filter(pl.col("term").is_in(["(intercept)", "k.p", "x"]))
    assert np.allclose(found["std_error"], told.bse, rtol=1e-4)
