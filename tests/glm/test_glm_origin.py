"""Generalised linear models through the origin: statsmodels without a constant, at every door."""

import numpy as np
import polars as pl
import pytest
from problems import in_passes
from scipy import special

import dbselect as ds
from dbselect.doors.cli import main

sm = pytest.importorskip("statsmodels.api")

N = 240
COLUMNS = ["a", "b", "c"]
GROUPS = {name: [name] for name in COLUMNS}
LOG = sm.families.links.Log()
FAMILIES = {
    "gaussian": sm.families.Gaussian(),
    "binomial": sm.families.Binomial(),
    "binomial(probit)": sm.families.Binomial(sm.families.links.Probit()),
    "binomial(cloglog)": sm.families.Binomial(sm.families.links.CLogLog()),
    "poisson": sm.families.Poisson(),
    "gamma": sm.families.Gamma(LOG),
    "negative_binomial(0.7)": sm.families.NegativeBinomial(LOG, alpha=0.7),
}
#: Newton's last step is taken without a pass.
FITTED = 1e-6


def table() -> pl.DataFrame:
    """Return three columns, one far from zero, and a target for each family."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(N, 3)) * [1.0, 0.3, 0.5] + [0.0, 3.0, -0.5]
    eta = X @ [0.5, 0.2, 0.4]
    mean = np.exp(eta)
    targets = {
        "gaussian": eta + rng.normal(size=N),
        "binomial": rng.random(N) < special.expit(eta),
        "binomial(probit)": rng.random(N) < special.ndtr(eta),
        "binomial(cloglog)": rng.random(N) < -np.expm1(-mean),
        "poisson": rng.poisson(mean),
        "gamma": rng.gamma(2.0, mean / 2.0),
        "negative_binomial(0.7)": rng.poisson(mean * rng.gamma(1 / 0.7, 0.7, N)),
    }
    columns = {name: np.asarray(y, float) for name, y in targets.items()}
    columns |= {"offset": 0.2 * rng.normal(size=N), "w": rng.integers(1, 4, N)}
    columns |= {"kind": rng.choice(["x", "y", "z"], N), "one": np.ones(N), "zero": np.zeros(N)}
    return pl.DataFrame(dict(zip(COLUMNS, X.T, strict=True)) | columns)


TABLE = table()


def fitted(family, names=COLUMNS, frame=TABLE, **more):
    X = frame.select(names).to_numpy()
    return sm.GLM(frame[family].to_numpy(), X, FAMILIES[family], **more).fit(tol=1e-14, maxiter=200)


def deviance_at_0(family, offset=0.0, weights=1.0):
    """Return the deviance of the predictor 0, which R calls the null deviance."""
    y, of = TABLE[family].to_numpy(), FAMILIES[family]
    mean = of.link.inverse(np.zeros(N) + offset)
    return of.deviance(y, mean, freq_weights=np.ones(N) * weights)


@pytest.mark.parametrize("offset", [None, "offset"])
@pytest.mark.parametrize("family", FAMILIES)
def test_fits_are_those_of_statsmodels_without_a_constant(family, offset):
    more = {} if offset is None else {"offset": TABLE[offset].to_numpy()}
    truth = fitted(family, **more)
    if family == "gaussian" and offset is None:
        offset = "zero"  # without an offset it is the linear model of a Gram
    found = ds.fit(TABLE, family, COLUMNS, family=family, intercept=False, offset=offset)
    assert found.status.name == "CONVERGED"
    assert (found.intercept, found.has_intercept) == (0.0, False)
    summary = found.summary()
    assert summary["term"].to_list() == found.intervals()["term"].to_list() == COLUMNS
    np.testing.assert_allclose(summary["estimate"], truth.params, rtol=FITTED)
    np.testing.assert_allclose(summary["std_error"], truth.bse, rtol=1e-4)
    assert found.deviance == pytest.approx(truth.deviance, rel=1e-10)
    null = deviance_at_0(family, **more)
    assert found.null_deviance == pytest.approx(null, rel=1e-10)
    np.testing.assert_allclose(found.predict(TABLE), truth.fittedvalues, rtol=10 * FITTED)


@pytest.mark.parametrize("family", ["binomial", "gamma"])
def test_a_column_of_ones_is_an_intercept(family):
    plain = ds.fit(TABLE, family, COLUMNS, family=family)
    found = ds.fit(TABLE, family, [*COLUMNS, "one"], family=family, intercept=False)
    assert found.coefficients["one"] == pytest.approx(plain.intercept, rel=FITTED)
    assert found.deviance == pytest.approx(plain.deviance, rel=1e-12)
    assert found.aliased == ()


def test_weights_count_rows():
    truth = fitted("poisson", freq_weights=TABLE["w"].to_numpy())
    found = ds.fit(TABLE, "poisson", COLUMNS, family="poisson", intercept=False, weight="w")
    np.testing.assert_allclose(list(found.coefficients.values()), truth.params, rtol=FITTED)
    null = deviance_at_0("poisson", weights=TABLE["w"].to_numpy())
    assert found.null_deviance == pytest.approx(null, rel=1e-12)


def test_a_ridge_is_on_columns_of_mean_square_1():
    """At the least of the penalised likelihood the gradient is the ridge's."""
    found = ds.fit(TABLE, "binomial", COLUMNS, intercept=False, ridge=0.1, family="binomial")
    X, w = TABLE.select(COLUMNS).to_numpy(), np.array(list(found.coefficients.values()))
    gradient = X.T @ (TABLE["binomial"].to_numpy() - special.expit(X @ w)) / N
    np.testing.assert_allclose(gradient, 0.1 * (X**2).mean(axis=0) * w, atol=1e-9)


@pytest.mark.parametrize("rule", ["fr", "score"])
@pytest.mark.parametrize("family", ["binomial", "gamma", "gaussian", "negative_binomial(0.7)"])
def test_searches_take_the_gains_of_refits(family, rule, tmp_path):
    search = in_passes if family == "gaussian" else ds.anytime_sequence
    found = search(TABLE, family, GROUPS, family=family, intercept=False, rule=rule)
    assert found.deviance[0] == pytest.approx(deviance_at_0(family), rel=1e-12)
    held = []
    for step in range(1, 4):
        after = {n: fitted(family, [*held, n]).deviance for n in COLUMNS if n not in held}
        if rule == "fr":
            assert found.steps["group"][step] == min(after, key=after.get)
        held.append(found.steps["group"][step])
        assert found.deviance[step] == pytest.approx(after[held[-1]], rel=1e-7)
    path = tmp_path / "seq.parquet"
    found.write_parquet(path)
    again = ds.results.GlmSequence.read_parquet(path)
    assert again.has_intercept is False
    if family == "binomial":
        assert again.criteria()["aic"][-1] == pytest.approx(fitted(family).aic, rel=1e-9)


@pytest.mark.parametrize("family", ["binomial", "poisson", "gamma"])
def test_on_rows_in_memory(family):
    """Gains are those of refits, and the descent finds the best coefficients."""
    held = ds.Problem(TABLE, family, GROUPS, family=family, intercept=False).objective()
    gains = [1 - fitted(family, [name]).deviance / deviance_at_0(family) for name in COLUMNS]
    np.testing.assert_allclose(held.gains(), gains, rtol=1e-7)
    down = ds.backward(held)
    assert down.model(3).deviance == pytest.approx(fitted(family).deviance, rel=1e-9)
    losses = {n: fitted(family, [c for c in COLUMNS if c != n]).deviance for n in COLUMNS}
    assert down.steps.filter(action="remove")["group"][0] == min(losses, key=losses.get)
    best = ds.sght(held, max_columns=3, max_groups=3)
    assert best.model.deviance == pytest.approx(fitted(family).deviance, rel=1e-7)


def test_classes_through_the_origin():
    from sklearn.linear_model import LogisticRegression

    X = TABLE.select(COLUMNS).to_numpy()
    truth = LogisticRegression(C=1e10, fit_intercept=False, tol=1e-10, max_iter=10_000)
    p = truth.fit(X, TABLE["kind"].to_list()).predict_proba(X)
    found = ds.fit(TABLE, "kind", COLUMNS, family="multinomial", intercept=False)
    np.testing.assert_allclose(found.predict(TABLE), p, atol=1e-5)
    assert found.null_deviance == pytest.approx(2 * N * np.log(3), rel=1e-12)


@pytest.mark.parametrize("family", ["binomial", "poisson", "gamma"])
def test_other_rows_are_judged_against_the_predictor_0(family):
    known, other = TABLE.head(160), TABLE.tail(80)
    seq = ds.anytime_sequence(known, family, GROUPS, family=family, intercept=False)
    y, of = other[family].to_numpy(), FAMILIES[family]
    truth = of.deviance(y, fitted(family, frame=known).predict(other.select(COLUMNS).to_numpy()))
    null = of.deviance(y, of.link.inverse(np.zeros(80)))
    assert ds.evaluate(seq, other)["r2"][0] == pytest.approx(0.0, abs=1e-12)
    judged = ds.evaluate(seq.at(), other)
    assert judged["r2"][0] == pytest.approx(1 - truth / null, abs=1e-6)


def test_in_sql(tmp_path):
    frame = TABLE.select(*COLUMNS, pl.col("poisson").alias("y"))
    truth = ds.anytime_sequence(frame, "y", family="poisson", intercept=False)
    with ds.connect() as con:
        con.register("given", frame.to_arrow())
        con.execute("CREATE TABLE t AS FROM given")
        con.execute(
            "CREATE TABLE s AS SELECT "
            "anytime_sequence_glm('t', 'y', 'poisson', intercept := false) AS seq"
        )
        ((stored,),) = con.execute("SELECT seq FROM s").fetchall()
        p = con.execute("SELECT glm_predict(seq, t).prediction AS p FROM t, s").fetchnumpy()["p"]
    found = ds.results.GlmSequence.from_struct(stored)
    assert found.has_intercept is False
    np.testing.assert_allclose(found.deviance, truth.deviance, rtol=1e-9)
    np.testing.assert_allclose(p, truth.at().predict(frame), rtol=1e-7)


def test_on_the_command_line(tmp_path):
    path, out = tmp_path / "t.parquet", tmp_path / "s.json"
    TABLE.select(*COLUMNS, "poisson").write_parquet(path)
    call = ["sequence", str(path), "--target", "poisson", "--family", "poisson", "--out", str(out)]
    assert main([*call, "--intercept", "no"]) == 0
    assert ds.results.GlmSequence.read_json(out).has_intercept is False


def test_what_cannot_be_is_refused():
    with pytest.raises(
        ds.errors.ArgumentError, match="intercept is 'no'; it must be True or False"
    ):
        ds.fit(TABLE, "binomial", COLUMNS, intercept="no", family="binomial")
    with pytest.raises(ds.errors.ArgumentError, match=r"family 'binomial\(log\)' has no mean"):
        ds.fit(TABLE, "binomial", COLUMNS, family="binomial(log)", intercept=False)
    objective = ds.Problem(TABLE, "binomial", GROUPS, family="binomial").objective()
    with pytest.raises(ds.errors.ArgumentError, match="intercept is False; it is for tables"):
        ds.anytime_sequence(objective, intercept=False)
