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
@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "loglog", "cauchit"])
@pytest.mark.parametrize("quasi", [False, True])
def test_what_is_separated_is_still_found(link, quasi):
    rng = np.random.default_rng(12)
    x = rng.normal(size=60)
    y = (x > 0.2) * 1.0
    if quasi:
        y = (rng.random(60) < 0.5) * 1.0
        y[:8] = 1.0
    flag = np.arange(60) < 8
    frame = pl.DataFrame({"x": x, "flag": flag * 1.0, "y": y})
    family = "binomial" if link == "logit" else f"binomial({link})"
    with pytest.warns(ds.errors.SeparationWarning):
        found = ds.fit(frame, "y", ["x", "flag"] if quasi else ["x"], family=family)
    assert found.status.name == "SEPARATED"


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
