"""Families and links beyond the canonical ones: statsmodels' fits, and every door."""

import re
import warnings
from typing import get_args

import duckdb
import numpy as np
import polars as pl
import pytest
from scipy import special

import dbselect as ds
from dbselect.glm.named import family_of
from dbselect.options.names import FamilyName
from dbselect.record import formulas
from dbselect.record.formulas import column, translate

sm = pytest.importorskip("statsmodels.api")

N = 300
COLUMNS = ["a", "b", "c"]
LINKS = sm.families.links
#: Families as statsmodels has them.
TRUTH = {
    "gaussian": sm.families.Gaussian(),
    "poisson": sm.families.Poisson(),
    "gamma": sm.families.Gamma(LINKS.Log()),
    "inverse_gaussian": sm.families.InverseGaussian(LINKS.Log()),
    "tweedie(1.5)": sm.families.Tweedie(LINKS.Log(), var_power=1.5),
    "tweedie(2.5)": sm.families.Tweedie(LINKS.Log(), var_power=2.5),
    "negative_binomial(0.7)": sm.families.NegativeBinomial(LINKS.Log(), alpha=0.7),
    "binomial": sm.families.Binomial(),
    "binomial(probit)": sm.families.Binomial(LINKS.Probit()),
    "binomial(cloglog)": sm.families.Binomial(LINKS.CLogLog()),
    "binomial(log)": sm.families.Binomial(LINKS.Log()),
}
NEW = [name for name in TRUTH if name not in ("gaussian", "poisson", "binomial")]
#: Predictors of rows in which the model is sure, and hardly sure.
FAR = np.array([-30.0, -9.0, -4.0, -1.0, -1e-3, -1e-6, 0.0, 1e-6, 1e-3, 1.0, 2.0])
#: Newton's last step is taken without a pass: its error, by Fisher's scoring, in the coefficients.
FITTED = 1e-6


def table() -> pl.DataFrame:
    """Return three columns, an offset, weights, and a target for each family."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, 3)) * [1.0, 2.0, 0.5] + [0.0, 1.0, -2.0]
    offset = 0.3 * rng.normal(size=N)
    eta = 0.3 + X @ [0.4, -0.2, 0.3] + offset
    mean = np.exp(eta)
    compound = [rng.gamma(1.0, m, k).sum() for m, k in zip(mean, rng.poisson(1.0, N), strict=True)]
    targets = {
        "gaussian": eta + rng.normal(size=N),
        "poisson": rng.poisson(mean),
        "gamma": rng.gamma(2.0, mean / 2.0),
        "inverse_gaussian": rng.wald(mean, 3.0),
        "tweedie(1.5)": compound,
        "tweedie(2.5)": rng.gamma(2.0, mean / 2.0),
        "negative_binomial(0.7)": rng.poisson(mean * rng.gamma(1 / 0.7, 0.7, N)),
        "binomial": rng.random(N) < special.expit(eta),
        "binomial(probit)": rng.random(N) < special.ndtr(eta),
        "binomial(cloglog)": rng.random(N) < -np.expm1(-mean),
        "binomial(log)": rng.random(N) < np.exp(-1.5 + 0.1 * X[:, 0]),
    }
    columns = dict(zip(COLUMNS, X.T, strict=True)) | {"offset": offset}
    columns |= {"w": rng.integers(1, 4, N)}
    columns |= {"none": np.zeros(N)}
    return pl.DataFrame(columns | {name: np.asarray(y, float) for name, y in targets.items()})


TABLE = table()


def truth_of(family, names=COLUMNS, offset=False, weighted=False):
    X = sm.add_constant(TABLE.select(names).to_numpy())
    more = {"offset": TABLE["offset"].to_numpy()} if offset else {}
    if weighted:
        more["freq_weights"] = TABLE["w"].to_numpy()
    y = TABLE[family].to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the domain of the log link
        return sm.GLM(y, X, family=TRUTH[family], **more).fit(tol=1e-14, maxiter=200)


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("family", TRUTH)
def test_fits_are_those_of_statsmodels(family, offset):
    if family == "binomial(log)" and offset:
        pytest.skip("statsmodels' predictors leave the range of the link")
    truth = truth_of(family, offset=offset)
    # Without an offset family gaussian is the linear model of a Gram.
    none = "none" if family == "gaussian" else None
    found = ds.fit(TABLE, family, COLUMNS, family=family, offset="offset" if offset else none)
    assert found.status.name == "CONVERGED"
    summary = found.summary()
    np.testing.assert_allclose(summary["estimate"], truth.params, rtol=FITTED)
    # Those of canonical links are of the information before the last step.
    np.testing.assert_allclose(summary["std_error"], truth.bse, rtol=1e-4)
    np.testing.assert_allclose(summary["p_value"], truth.pvalues, rtol=1e-2, atol=1e-12)
    assert found.dispersion == pytest.approx(truth.scale, rel=1e-4)
    intervals = found.intervals(0.9).select("low", "high").to_numpy()
    np.testing.assert_allclose(intervals, truth.conf_int(0.1), rtol=1e-3, atol=1e-4)
    assert found.deviance == pytest.approx(truth.deviance, rel=1e-10)
    assert found.null_deviance == pytest.approx(truth.null_deviance, rel=1e-10)
    np.testing.assert_allclose(found.predict(TABLE), truth.fittedvalues, rtol=10 * FITTED)


@pytest.mark.parametrize("family", ["gamma", "binomial(probit)", "negative_binomial(0.7)"])
def test_weights_count_rows(family):
    truth = truth_of(family, weighted=True)
    found = ds.fit(TABLE, family, COLUMNS, family=family, weight="w")
    np.testing.assert_allclose(found.summary()["estimate"], truth.params, rtol=FITTED)
    assert found.deviance == pytest.approx(truth.deviance, rel=1e-10)


@pytest.mark.parametrize("family", ["binomial", "gamma(identity)", "gaussian(log)"])
@pytest.mark.parametrize("unit", [1e-200, 1e110, 1e300])
def test_the_unit_of_weights_is_no_part_of_the_fit(family, unit):
    rng = np.random.default_rng(2)
    x, weight = rng.normal(size=60), rng.uniform(1.0, 2.0, 60)
    y = rng.integers(0, 2, 60) if family == "binomial" else rng.uniform(1.0, 2.0, 60)
    frame = pl.DataFrame({"x": x, "y": y, "w": weight, "other": unit * weight})
    fit, same = (
        ds.fit(frame, "y", ["x"], family=family, weight=weight) for weight in ("w", "other")
    )
    assert same.status is fit.status
    assert same.explained == pytest.approx(fit.explained)
    assert same.coefficients == pytest.approx(fit.coefficients)


@pytest.mark.parametrize("family", [name for name in TRUTH if name.startswith("binomial(")])
def test_rows_far_out_keep_their_digits(family):
    """Of the mean, the deviance, the weight and the score, by SciPy."""
    eta = FAR[FAR < 0] if family == "binomial(log)" else FAR[FAR < 3]
    p, q, slope = {
        "binomial(probit)": lambda: (
            special.ndtr(eta), special.ndtr(-eta), np.exp(-(eta**2) / 2) / np.sqrt(2 * np.pi)
        ),
        "binomial(cloglog)": lambda: (
            -np.expm1(-np.exp(eta)), np.exp(-np.exp(eta)), np.exp(eta - np.exp(eta))
        ),
        "binomial(log)": lambda: (np.exp(eta), -np.expm1(eta), np.exp(eta)),
    }[family]()  # fmt: skip
    # By the log, 1 - p of a p near 1 has the digits of p.
    rtol = 1e-11 + (1e-15 / q if family == "binomial(log)" else 0.0 * q)
    model = family_of(family)
    for y in (0.0, 1.0):
        algebra = formulas.arrays({("eta",): eta, ("y",): np.full(len(eta), y)}.__getitem__)
        row = model.row([column(("eta",))], [column(("y",))])
        mean, deviance, weight, residual = (
            translate(part, algebra)
            for part in (*model.means([column(("eta",))]), row.deviance, *row.pairs[0])
        )
        assert (np.abs(mean / p - 1) <= 1e-13).all()
        expected = -2 * np.log(p if y else q)
        assert (np.abs(deviance - expected) <= rtol * expected + 4e-16).all()
        score = slope / p if y else -slope / q
        assert (np.abs(weight * residual / score - 1) <= rtol).all()
        heavy = slope**2 / (p * q) > 1e-11  # below there is a floor
        assert (np.abs(weight * p * q - slope**2) <= rtol * slope**2)[heavy].all()


@pytest.mark.slow
@pytest.mark.sample(3)
@pytest.mark.parametrize("family", NEW)
def test_every_engine_gives_the_same_fit(family):
    first = ds.fit(TABLE, family, COLUMNS, family=family)
    con = duckdb.connect()
    con.register("rows", TABLE.to_arrow())
    for source in (con.sql("FROM rows"), TABLE.lazy(), TABLE.to_arrow()):
        other = ds.fit(source, family, COLUMNS, family=family)
        assert other.deviance == pytest.approx(first.deviance, rel=1e-12)
        np.testing.assert_allclose(
            list(other.coefficients.values()), list(first.coefficients.values()), rtol=1e-7
        )
    expected = first.predict(TABLE)
    as_polars = TABLE.select(first.expr()).to_series().to_numpy()
    np.testing.assert_allclose(as_polars, expected, rtol=1e-12)
    query = f"SELECT {first.sql()} AS p FROM rows"
    np.testing.assert_allclose(con.sql(query).fetchnumpy()["p"], expected, rtol=1e-12)


@pytest.mark.sample(4)
@pytest.mark.parametrize("family", NEW)
def test_searches_take_the_gains_of_refits(family, tmp_path):
    def left(names):
        return truth_of(family, names).deviance if names else truth_of(family).null_deviance

    found = ds.anytime_sequence(TABLE, family, {c: [c] for c in COLUMNS}, family=family)
    held = []
    for step in range(1, 4):
        after = {name: left([*held, name]) for name in COLUMNS if name not in held}
        best = min(after, key=after.get)
        held.append(best)
        assert found.steps["group"][step] == best
        assert found.deviance[step] == pytest.approx(after[best], rel=1e-7)
    path = tmp_path / "sequence.parquet"
    found.write_parquet(path)
    again = ds.results.GlmSequence.read_parquet(path)
    assert again.family == family
    np.testing.assert_array_equal(again.at().predict(TABLE), found.at().predict(TABLE))
    down = ds.backward(TABLE, family, {c: [c] for c in COLUMNS}, family=family)
    least = min(COLUMNS, key=lambda name: left([c for c in COLUMNS if c != name]))
    assert down.steps.filter(action="remove")["group"][0] == least
    assert ds.sght(TABLE, family, max_columns=3, max_groups=3, family=family,
                   groups={c: [c] for c in COLUMNS}).columns == COLUMNS  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("family", NEW)
def test_other_rows_are_judged_by_the_deviance(family):
    known, other = TABLE.head(200), TABLE.tail(100)
    seq = ds.anytime_sequence(known, family, {c: [c] for c in COLUMNS}, family=family)
    y = other[family].to_numpy()
    for step, judged in enumerate(ds.evaluate(seq, other)["deviance"]):
        mean = seq.model(step).predict(other)
        assert judged == pytest.approx(TRUTH[family].deviance(y, mean) / len(y), rel=1e-9)


@pytest.mark.parametrize("family", ["gamma", "binomial(probit)", "gaussian"])
def test_a_held_out_share_is_of_the_best_constant_beside_the_offset(family):
    known, other = TABLE.head(200), TABLE.tail(100)
    fitted = ds.fit(known, family, COLUMNS, family=family, offset="offset")
    judged = ds.evaluate(fitted, other)
    null = sm.GLM(
        other[family].to_numpy(),
        np.ones((100, 1)),
        TRUTH[family],
        offset=other["offset"].to_numpy(),
    ).fit(tol=1e-14)
    expected = TRUTH[family].deviance(other[family].to_numpy(), fitted.predict(other))
    assert judged["r2"][-1] == pytest.approx(1 - expected / null.deviance, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("family", NEW)
def test_sql_predicts_the_mean(family):
    con = ds.connect()
    con.register("rows_", TABLE.select(pl.col(family).alias("y"), *COLUMNS).to_arrow())
    con.execute("CREATE TABLE rows AS FROM rows_")
    con.execute(f"CREATE TABLE s AS SELECT anytime_sequence_glm('rows', 'y', '{family}') AS seq")
    query = "SELECT glm_predict(seq, r).prediction AS p FROM rows r, s"
    found = con.execute(query).fetchnumpy()["p"]
    np.testing.assert_allclose(found, truth_of(family).fittedvalues, rtol=1e-4)


def test_families_without_a_likelihood_have_no_criteria():
    seq = ds.anytime_sequence(TABLE, "gamma", {c: [c] for c in COLUMNS}, family="gamma")
    with pytest.raises(ds.errors.ArgumentError, match="dispersion"):
        seq.criteria()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ds.families.Gamma(link="probit"), "link is 'probit'; family 'gamma' has"),
        (lambda: ds.families.Tweedie(None), "power is None; of 'tweedie' it must be a number > 1"),
        (lambda: ds.families.Tweedie(1), "power is 1; of 'tweedie'"),
        (lambda: ds.families.Tweedie("2"), "power is '2'; of 'tweedie'"),
        (lambda: ds.families.NegativeBinomial(0.0), "dispersion is 0.0; of"),
    ],
)
def test_families_that_cannot_be_are_refused(make, words):
    with pytest.raises(ds.errors.ArgumentError, match=words):
        make()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gama", "family is 'gama'; it must be one of"),
        ("tweedie(x)", "in brackets it has a number and one of"),
        ("tweedie", "it needs a power > 1, as 'tweedie(1.5)'"),
        ("tweedie(1.5, 2)", "family is 'tweedie(1.5, 2)'"),
        ("poisson(2.0)", "family is 'poisson(2.0)'; the links of poisson are"),
        ("binomial(clog)", "family is 'binomial(clog)'; the links of binomial are"),
        ("negative_binomial(-1)", "dispersion is -1.0; of 'negative_binomial' it must be a number"),
        (3, "family is 3; it must be one of"),
    ],
)
def test_names_that_cannot_be_are_refused(name, words):
    with pytest.raises(ds.errors.ArgumentError, match=re.escape(words)):
        ds.fit(TABLE, "gamma", COLUMNS, family=name)


def test_names_are_made_of_their_parts():
    families = ds.families
    assert str(families.Binomial()) == str(families.Binomial(link="logit")) == "binomial"
    assert str(families.Gamma(link="log")) == "gamma"
    assert str(families.NegativeBinomial(0.7)) == "negative_binomial(0.7)"
    for name in (*get_args(FamilyName), "tweedie(1.5, inverse)", "negative_binomial(0.8, sqrt)"):
        assert str(families.parse(name)) == name
        assert families.parse(families.parse(name)) == families.parse(name)


def test_an_object_is_the_family_of_its_name():
    by_name = ds.fit(TABLE, "binomial(probit)", COLUMNS, family="binomial(probit)")
    by_object = ds.fit(
        TABLE, "binomial(probit)", COLUMNS, family=ds.families.Binomial(link="probit")
    )
    assert by_object.family == by_name.family == "binomial(probit)"
    # Threads add up blocks of rows in any order.
    assert by_object.coefficients == pytest.approx(by_name.coefficients, rel=1e-12)
