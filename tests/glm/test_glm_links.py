"""Families by links that are not their first: statsmodels' fits, every engine, and SQL."""

import warnings

import duckdb
import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.glm.named import family_of, kind_of_family
from dbselect.record import formulas
from dbselect.record.formulas import column, translate

sm = pytest.importorskip("statsmodels.api")

N = 300
COLUMNS = ["a", "b"]
GROUPS = {name: [name] for name in COLUMNS}
F, L = sm.families, sm.families.links
TRUTH = {
    "gaussian(log)": F.Gaussian(L.Log()),
    "gaussian(inverse)": F.Gaussian(L.InversePower()),
    "binomial(loglog)": F.Binomial(L.LogLog()),
    "binomial(cauchit)": F.Binomial(L.Cauchy()),
    "binomial(identity)": F.Binomial(L.Identity()),
    "poisson(identity)": F.Poisson(L.Identity()),
    "poisson(sqrt)": F.Poisson(L.Sqrt()),
    "gamma(identity)": F.Gamma(L.Identity()),
    "gamma(inverse)": F.Gamma(L.InversePower()),
    "inverse_gaussian(identity)": F.InverseGaussian(L.Identity()),
    "inverse_gaussian(inverse)": F.InverseGaussian(L.InversePower()),
    "inverse_gaussian(inverse_squared)": F.InverseGaussian(L.InverseSquared()),
    "tweedie(1.5, identity)": F.Tweedie(L.Identity(), var_power=1.5),
    "tweedie(1.5, inverse)": F.Tweedie(L.InversePower(), var_power=1.5),
    "tweedie(2.5, sqrt)": F.Tweedie(L.Sqrt(), var_power=2.5),
    "negative_binomial(0.7, identity)": F.NegativeBinomial(L.Identity(), alpha=0.7),
    "negative_binomial(0.7, sqrt)": F.NegativeBinomial(L.Sqrt(), alpha=0.7),
}
#: Those without a mean at the predictor 0.
NOWHERE_AT_0 = [name for name in TRUTH if not family_of(name).at_zero]
#: Newton's last step is taken without a pass.
FITTED = 1e-6


def table() -> pl.DataFrame:
    """Return two columns, an offset and a target for each family, all predictors above 0."""
    rng = np.random.default_rng(17)
    X = rng.uniform(-1.0, 1.0, size=(N, 2))
    offset = 0.05 * rng.normal(size=N)
    columns = {"a": X[:, 0], "b": X[:, 1], "offset": offset}
    for name, family in TRUTH.items():
        kind = kind_of_family(name)
        base = 0.5 if kind == "binomial" else 1.5
        mean = family.link.inverse(base + X @ [0.2, -0.15] + offset)
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


TABLE = table()


def truth_of(family, names=COLUMNS, offset=None):
    X = sm.add_constant(TABLE.select(names).to_numpy()) if names else np.ones((N, 1))
    more = {} if offset is None else {"offset": TABLE[offset].to_numpy()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the domain of links
        return sm.GLM(TABLE[family].to_numpy(), X, TRUTH[family], **more).fit(
            tol=1e-14, maxiter=200
        )


@pytest.mark.filterwarnings("ignore::dbselect.errors.LeakageWarning")  # hardly any noise
@pytest.mark.parametrize("offset", [None, "offset"])
@pytest.mark.parametrize("family", TRUTH)
def test_fits_are_those_of_statsmodels(family, offset):
    truth = truth_of(family, offset=offset)
    found = ds.fit(TABLE, family, COLUMNS, family=family, offset=offset)
    assert (found.status.name, found.family) == ("CONVERGED", family)
    summary = found.summary()
    np.testing.assert_allclose(summary["estimate"], truth.params, rtol=FITTED, atol=FITTED)
    np.testing.assert_allclose(summary["std_error"], truth.bse, rtol=1e-4)
    assert found.dispersion == pytest.approx(truth.scale, rel=1e-4)
    assert found.deviance == pytest.approx(truth.deviance, rel=1e-9)
    assert found.null_deviance == pytest.approx(truth.null_deviance, rel=1e-9)
    np.testing.assert_allclose(found.predict(TABLE), truth.fittedvalues, rtol=1e-5)


@pytest.mark.sample(4)
@pytest.mark.parametrize("family", TRUTH)
def test_every_engine_gives_the_same_fit(family):
    first = ds.fit(TABLE, family, COLUMNS, family=family)
    con = duckdb.connect()
    con.register("rows", TABLE.to_arrow())
    other = ds.fit(con.sql("FROM rows"), family, COLUMNS, family=family)
    assert other.deviance == pytest.approx(first.deviance, rel=1e-10)
    # Far out there may be no mean.
    rows = TABLE.with_columns(pl.when(pl.int_range(N) < 40).then(pl.col("a") * 50).otherwise("a"))
    expected = first.predict(rows)
    in_polars = rows.select(first.expr()).to_series().fill_null(np.nan).to_numpy()
    np.testing.assert_allclose(in_polars, expected, rtol=1e-12)
    con.register("far", rows.to_arrow())
    values = con.sql(f"SELECT {first.sql()} AS p FROM far").fetchnumpy()["p"]
    np.testing.assert_allclose(np.ma.filled(values, np.nan), expected, rtol=1e-12)
    assert family in ("gaussian(log)", "binomial(loglog)", "binomial(cauchit)") or (
        np.isnan(expected).any() or family == "gaussian(inverse)"
    )


@pytest.mark.sample(5)
@pytest.mark.parametrize("family", TRUTH)
def test_searches_files_and_other_rows(family, tmp_path):
    found = ds.anytime_sequence(TABLE, family, GROUPS, family=family)
    held = []
    for step in (1, 2):
        after = {n: truth_of(family, [*held, n]).deviance for n in COLUMNS if n not in held}
        held.append(min(after, key=after.get))
        assert found.steps["group"][step] == held[-1]
        assert found.deviance[step] == pytest.approx(after[held[-1]], rel=1e-7)
    path = tmp_path / "seq.parquet"
    found.write_parquet(path)
    again = ds.results.GlmSequence.read_parquet(path)
    np.testing.assert_array_equal(again.at().predict(TABLE), found.at().predict(TABLE))
    objective = ds.Problem(TABLE, family, GROUPS, family=family).objective()
    least = truth_of(family, [])
    gains = [1 - truth_of(family, [n]).deviance / least.deviance for n in COLUMNS]
    np.testing.assert_allclose(objective.gains(), gains, rtol=1e-5, atol=1e-9)
    y = TABLE[family].to_numpy()
    judged = ds.evaluate(found.at(), TABLE)["deviance"][0]
    truth = TRUTH[family].deviance(y, truth_of(family).fittedvalues)
    assert judged == pytest.approx(truth / N, rel=1e-7)


@pytest.mark.sample(4)
@pytest.mark.parametrize("family", TRUTH)
def test_sql_predicts_the_mean(family):
    with ds.connect() as con:
        con.register("given", TABLE.select(*COLUMNS, pl.col(family).alias("y")).to_arrow())
        con.execute("CREATE TABLE rows AS FROM given")
        con.execute(f"CREATE TABLE s AS SELECT anytime_sequence_glm('rows', 'y', '{family}') AS q")
        found = con.execute("SELECT glm_predict(q, r).prediction AS p FROM rows r, s").fetchnumpy()
    np.testing.assert_allclose(found["p"], truth_of(family).fittedvalues, rtol=1e-4)


@pytest.mark.parametrize("family", ["binomial(loglog)", "binomial(cauchit)"])
def test_rows_far_out_keep_their_digits(family):
    """Of the mean and of the deviance, by SciPy."""
    eta = np.array([-1e6, -30.0, -4.0, -1.0, -1e-3, 0.0, 1e-3, 1.0, 4.0, 30.0, 1e6])
    if family == "binomial(loglog)":
        eta = eta[(eta > -5) & (eta < 50)]
        p, q = np.exp(-np.exp(-eta)), -np.expm1(-np.exp(-eta))
    else:
        p, q = np.arctan2(1.0, -eta) / np.pi, np.arctan2(1.0, eta) / np.pi
    model = family_of(family)
    for y, chance in ((0.0, q), (1.0, p)):
        algebra = formulas.arrays({("eta",): eta, ("y",): np.full(len(eta), y)}.__getitem__)
        mean, deviance = (
            translate(part, algebra)
            for part in (
                *model.means([column(("eta",))]),
                model.row([column(("eta",))], [column(("y",))]).deviance,
            )
        )
        np.testing.assert_allclose(mean, p, rtol=1e-12)
        np.testing.assert_allclose(deviance, -2 * np.log(chance), rtol=1e-11, atol=4e-16)


def test_an_object_of_a_link_says_the_same_as_the_name(tmp_path):
    families = ds.families
    by_name = ds.fit(TABLE, "poisson(sqrt)", COLUMNS, family="poisson(sqrt)")
    by_object = ds.fit(TABLE, "poisson(sqrt)", COLUMNS, family=families.Poisson(link="sqrt"))
    assert by_object.family == by_name.family
    assert by_object.deviance == by_name.deviance
    first = ds.fit(TABLE, "poisson(sqrt)", COLUMNS, family=families.Poisson(link="log"))
    assert first.family == "poisson"
    found = ds.anytime_sequence(
        TABLE, "gaussian(log)", GROUPS, family=families.Gaussian(link="log")
    )
    assert found.family == "gaussian(log)"
    family = families.Tweedie(1.5, link="inverse")
    objective = ds.Problem(TABLE, "tweedie(1.5, inverse)", GROUPS, family=family).objective()
    assert objective.model().family == "tweedie(1.5, inverse)"
    frame = TABLE.select(*COLUMNS, pl.col("gamma(inverse)").alias("y"))
    gamma = families.Gamma(link="inverse")
    found = frame.lazy().dbselect.anytime_sequence("y", family=gamma)
    assert found.family == "gamma(inverse)"
    path, out = tmp_path / "t.parquet", tmp_path / "s.json"
    frame.write_parquet(path)
    call = ["anytime_sequence", str(path), "--target", "y", "--family", "gamma(inverse)"]
    assert main([*call, "--out", str(out)]) == 0
    assert ds.results.GlmSequence.read_json(out).family == "gamma(inverse)"
    with ds.connect() as con:
        con.execute(f"CREATE TABLE t AS FROM '{path}'")
        call = "SELECT anytime_sequence_glm('t', 'y', 'gamma(inverse)').family"
        assert con.execute(call).fetchall() == [("gamma(inverse)",)]


def test_criteria_of_gaussian_links_are_likelihoods():
    seq = ds.anytime_sequence(TABLE, "gaussian(log)", GROUPS, family="gaussian(log)")
    left = truth_of("gaussian(log)").deviance / truth_of("gaussian(log)", []).deviance
    aic = seq.criteria()["aic"]
    assert aic[-1] - aic[0] == pytest.approx(N * np.log(left) + 2 * 2, rel=1e-6)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"family": "poisson(probit)"}, "the links of poisson are"),
        ({"family": "gamma(inverse, identity)"}, "family is 'gamma\\(inverse, identity\\)'"),
        ({"family": "multinomial(log)"}, "the links of multinomial are"),
        ({"family": "tweedie(1.5, probit)"}, "family is 'tweedie\\(1.5, probit\\)'"),
        ({"family": "gaussian(log)", "target": "minus"}, "has the mean -1"),
        ({"family": "poisson(identity)", "offset": "low"}, "has no mean for some rows"),
    ],
)
def test_what_cannot_be_is_refused(given, words):
    frame = TABLE.with_columns(minus=pl.col("a") - pl.col("a").mean() - 1.0, low=5000 * pl.col("b"))
    given = {"target": "poisson(sqrt)", "columns": COLUMNS} | given
    with pytest.raises(ds.DbselectError, match=words):
        ds.fit(frame, **given)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ds.families.Poisson(link="probit"), "link is 'probit'; family 'poisson' has"),
        (lambda: ds.families.Multinomial(link="log"), "link is 'log'; family 'multinomial' has"),
        (lambda: ds.families.Tweedie(1.5, link="probit"), "link is 'probit'; family 'tweedie' has"),
    ],
)
def test_an_object_of_another_link_is_refused(make, words):
    with pytest.raises(ds.errors.ArgumentError, match=words):
        make()


@pytest.mark.parametrize("family", NOWHERE_AT_0)
def test_through_the_origin_there_is_no_mean_to_begin_with(family):
    with pytest.raises(ds.errors.ArgumentError, match="has no mean"):
        ds.fit(TABLE, family, COLUMNS, family=family, intercept=False)


def test_gaussian_log_through_the_origin():
    X, y = TABLE.select(COLUMNS).to_numpy(), TABLE["gaussian(log)"].to_numpy()
    truth = sm.GLM(y, X, TRUTH["gaussian(log)"]).fit(tol=1e-14, maxiter=200)
    found = ds.fit(TABLE, "gaussian(log)", COLUMNS, family="gaussian(log)", intercept=False)
    assert found.deviance == pytest.approx(truth.deviance, rel=1e-9)
