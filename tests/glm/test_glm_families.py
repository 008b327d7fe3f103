"""Every family and link, with an intercept and without: fits of statsmodels, at every door."""

import re
from typing import get_args

import duckdb
import numpy as np
import polars as pl
import pytest
from problems import in_passes
from scipy import special
from truths import AT_0, COLUMNS, FITTED, GROUPS, TABLE, TABLES, TRUTH, N, deviance_at_0, truth_of

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.glm.links import family_of
from dbselect.options.names import FamilyName
from dbselect.record import formulas
from dbselect.record.formulas import column, translate

#: Predictors of rows in which the model is sure, and hardly sure.
FAR = np.array([-1e6, -30.0, -9.0, -4.0, -1.0, -1e-3, -1e-6, 0.0, 1e-6, 1e-3, 1.0, 2.0, 30.0, 1e6])
#: Every family and link with an intercept, and without one where there is a mean at 0.
CASES = [(name, True) for name in TRUTH] + [(name, False) for name in AT_0]
IN_PASSES = [case for case in CASES if case[0] != "gaussian"]  # which is the linear model
cases = pytest.mark.parametrize(("family", "intercept"), CASES)
pytestmark = pytest.mark.filterwarnings("ignore::dbselect.errors.LeakageWarning")  # little noise


def search(family, intercept=True, **more):
    """Search by passes, for family gaussian too."""
    call = in_passes if family == "gaussian" else ds.anytime_sequence
    return call(TABLES[intercept], family, GROUPS, family=family, intercept=intercept, **more)


@pytest.mark.sample(60)
@pytest.mark.parametrize(("offset", "weight"), [(None, None), ("offset", None), (None, "w")])
@cases
def test_fits_are_those_of_statsmodels(family, intercept, offset, weight):
    truth = truth_of(family, intercept=intercept, offset=offset, weight=weight)
    # Without an offset family gaussian is the linear model of a Gram.
    more = {"offset": offset or ("none" if family == "gaussian" else None), "weight": weight}
    table = TABLES[intercept]
    found = ds.fit(table, family, COLUMNS, family=family, intercept=intercept, **more)
    assert (found.status.name, found.family) == ("CONVERGED", family)
    assert found.has_intercept is intercept
    summary, intervals = found.summary(), found.intervals(0.9)
    terms = ["(intercept)"] * intercept + COLUMNS
    assert summary["term"].to_list() == intervals["term"].to_list() == terms
    np.testing.assert_allclose(summary["estimate"], truth.params, rtol=FITTED, atol=FITTED)
    assert found.deviance == pytest.approx(truth.deviance, rel=1e-9)
    null = truth.null_deviance if intercept else deviance_at_0(family, offset, weight)
    assert found.null_deviance == pytest.approx(null, rel=1e-9)
    np.testing.assert_allclose(found.predict(table), truth.fittedvalues, rtol=1e-5)
    if weight is not None:
        return  # they count rows there, whose weights here are of one another
    # Those of canonical links are of the information before the last step.
    np.testing.assert_allclose(summary["std_error"], truth.bse, rtol=1e-4)
    np.testing.assert_allclose(summary["p_value"], truth.pvalues, rtol=1e-2, atol=1e-12)
    assert found.dispersion == pytest.approx(truth.scale, rel=1e-4)
    limits = intervals.select("low", "high").to_numpy()
    np.testing.assert_allclose(limits, truth.conf_int(0.1), rtol=1e-3, atol=1e-4)


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


@pytest.mark.parametrize("family", ["binomial", "gamma"])
def test_a_column_of_ones_is_an_intercept(family):
    plain = ds.fit(TABLE, family, COLUMNS, family=family)
    found = ds.fit(TABLE, family, [*COLUMNS, "one"], family=family, intercept=False)
    assert found.coefficients["one"] == pytest.approx(plain.intercept, rel=FITTED)
    assert found.deviance == pytest.approx(plain.deviance, rel=1e-12)
    assert found.aliased == ()


def test_a_ridge_is_on_columns_of_mean_square_1():
    """At the least of the penalised likelihood the gradient is the ridge's."""
    found = ds.fit(TABLE, "binomial", COLUMNS, intercept=False, ridge=0.1, family="binomial")
    X, w = TABLE.select(COLUMNS).to_numpy(), np.array(list(found.coefficients.values()))
    gradient = X.T @ (TABLE["binomial"].to_numpy() - special.expit(X @ w)) / N
    np.testing.assert_allclose(gradient, 0.1 * (X**2).mean(axis=0) * w, atol=1e-9)


def test_classes_through_the_origin():
    from sklearn.linear_model import LogisticRegression

    X = TABLE.select(COLUMNS).to_numpy()
    truth = LogisticRegression(C=1e10, fit_intercept=False, tol=1e-10, max_iter=10_000)
    p = truth.fit(X, TABLE["kind"].to_list()).predict_proba(X)
    found = ds.fit(TABLE, "kind", COLUMNS, family="multinomial", intercept=False)
    np.testing.assert_allclose(found.predict(TABLE), p, atol=1e-5)
    assert found.null_deviance == pytest.approx(2 * N * np.log(3), rel=1e-12)


@pytest.mark.parametrize("family", [name for name in TRUTH if name.startswith("binomial(")])
def test_rows_far_out_keep_their_digits(family):
    """Of the mean, the deviance, the weight and the score, by SciPy."""
    far = {"loglog": (-5, 50), "cauchit": (-2e6, 2e6), "log": (-40, -1e-7), "identity": (0, 1)}
    low, high = far.get(family[9:-1], (-40, 3))
    eta = FAR[(low < FAR) & (high > FAR)]
    p, q, slope = {
        "binomial(probit)": lambda: (
            special.ndtr(eta), special.ndtr(-eta), np.exp(-(eta**2) / 2) / np.sqrt(2 * np.pi)
        ),
        "binomial(cloglog)": lambda: (
            -np.expm1(-np.exp(eta)), np.exp(-np.exp(eta)), np.exp(eta - np.exp(eta))
        ),
        "binomial(loglog)": lambda: (
            np.exp(-np.exp(-eta)), -np.expm1(-np.exp(-eta)), np.exp(-eta - np.exp(-eta))
        ),
        "binomial(cauchit)": lambda: (
            np.arctan2(1.0, -eta) / np.pi, np.arctan2(1.0, eta) / np.pi, 1 / np.pi / (1 + eta**2)
        ),
        "binomial(log)": lambda: (np.exp(eta), -np.expm1(eta), np.exp(eta)),
        "binomial(identity)": lambda: (eta, 1 - eta, np.ones(len(eta))),
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
        np.testing.assert_allclose(mean, p, rtol=1e-12)
        expected = -2 * np.log(p if y else q)
        assert (np.abs(deviance - expected) <= rtol * expected + 4e-16).all()
        score = slope / p if y else -slope / q
        assert (np.abs(weight * residual / score - 1) <= rtol).all()
        heavy = slope**2 / (p * q) > 1e-11  # below there is a floor
        assert (np.abs(weight * p * q - slope**2) <= rtol * slope**2)[heavy].all()


@pytest.mark.sample(4)
@pytest.mark.parametrize("family", [name for name in TRUTH if name != "gaussian"])
def test_every_engine_gives_the_same_fit(family):
    first = ds.fit(TABLE, family, COLUMNS, family=family)
    con = duckdb.connect()
    con.register("rows", TABLE.to_arrow())
    for source in (con.sql("FROM rows"), TABLE.lazy(), TABLE.to_arrow()):
        other = ds.fit(source, family, COLUMNS, family=family)
        assert other.deviance == pytest.approx(first.deviance, rel=1e-10)
        assert other.coefficients == pytest.approx(first.coefficients, rel=1e-7)
    # Far out there may be no mean.
    rows = TABLE.with_columns(pl.when(pl.int_range(N) < 40).then(pl.col("a") * 50).otherwise("a"))
    expected = first.predict(rows)
    in_polars = rows.select(first.expr()).to_series().fill_null(np.nan).to_numpy()
    np.testing.assert_allclose(in_polars, expected, rtol=1e-12)
    con.register("far", rows.to_arrow())
    values = con.sql(f"SELECT {first.sql()} AS p FROM far").fetchnumpy()["p"]
    np.testing.assert_allclose(np.ma.filled(values, np.nan), expected, rtol=1e-12)
    there = family in AT_0 or family in ("gaussian(inverse)", "binomial(log)")
    assert np.isnan(expected).any() != there


@pytest.mark.sample(8)
@pytest.mark.parametrize("rule", ["fr", "score"])
@cases
def test_searches_take_the_gains_of_refits(family, intercept, rule, tmp_path):
    def left(names):
        if not names and not intercept:
            return deviance_at_0(family)
        return truth_of(family, names, intercept=intercept).deviance

    found = search(family, intercept, rule=rule)
    assert found.deviance[0] == pytest.approx(left([]), rel=1e-9)
    held = []
    for step in range(1, 4):
        after = {name: left([*held, name]) for name in COLUMNS if name not in held}
        if rule == "fr":
            assert found.steps["group"][step] == min(after, key=after.get)
        held.append(found.steps["group"][step])
        assert found.deviance[step] == pytest.approx(after[held[-1]], rel=1e-7)
    path = tmp_path / "sequence.parquet"
    found.write_parquet(path)
    again = ds.results.GlmSequence.read_parquet(path)
    assert (again.family, again.has_intercept) == (family, intercept)
    own, other = (one.at().predict(TABLES[intercept]) for one in (again, found))
    np.testing.assert_array_equal(own, other)
    if family == "binomial":
        truth = truth_of(family, intercept=intercept)
        assert again.criteria()["aic"][-1] == pytest.approx(truth.aic, rel=1e-9)


@pytest.mark.sample(8)
@pytest.mark.parametrize(("family", "intercept"), IN_PASSES)
def test_on_rows_in_memory(family, intercept):
    """Gains are those of refits, and the descent finds the best coefficients."""

    def left(names):
        return truth_of(family, names, intercept=intercept).deviance

    null = left([]) if intercept else deviance_at_0(family)
    held = ds.Problem(
        TABLES[intercept], family, GROUPS, family=family, intercept=intercept
    ).objective()
    gains = [1 - left([name]) / null for name in COLUMNS]
    np.testing.assert_allclose(held.gains(), gains, rtol=1e-5, atol=1e-9)
    down = ds.backward(held)
    assert down.model(3).deviance == pytest.approx(left(COLUMNS), rel=1e-9)
    losses = {name: left([other for other in COLUMNS if other != name]) for name in COLUMNS}
    assert down.steps.filter(action="remove")["group"][0] == min(losses, key=losses.get)
    best = ds.sght(held, max_columns=3, max_groups=3)
    assert best.model.deviance == pytest.approx(left(COLUMNS), rel=1e-7)


@pytest.mark.sample(8)
@pytest.mark.parametrize(("family", "intercept"), IN_PASSES)
def test_other_rows_are_judged_by_the_deviance(family, intercept):
    known, other = TABLES[intercept].head(200), TABLES[intercept].tail(100)
    problem = ds.Problem(known, family, GROUPS, family=family, intercept=intercept)
    seq = problem.anytime_sequence()
    y, of = other[family].to_numpy(), TRUTH[family]
    judged = ds.evaluate(seq, other)
    for step, found in enumerate(judged["deviance"]):
        mean = seq.model(step).predict(other)
        assert found == pytest.approx(of.deviance(y, mean) / len(y), rel=1e-9)
    if not intercept:
        null = of.deviance(y, of.link.inverse(np.zeros(100)))
        share = 1 - judged["deviance"][-1] * len(y) / null
        assert judged["r2"].to_list()[::3] == pytest.approx([0.0, share], abs=1e-9)


@pytest.mark.parametrize("family", ["gamma", "binomial(probit)", "gaussian"])
def test_a_held_out_share_is_of_the_best_constant_beside_the_offset(family):
    known, other = TABLE.head(200), TABLE.tail(100)
    fitted = ds.fit(known, family, COLUMNS, family=family, offset="offset")
    judged = ds.evaluate(fitted, other)
    null = truth_of(family, [], other, offset="offset")
    expected = TRUTH[family].deviance(other[family].to_numpy(), fitted.predict(other))
    assert judged["r2"][-1] == pytest.approx(1 - expected / null.deviance, abs=1e-8)


@pytest.mark.sample(5)
@cases
def test_sql_predicts_the_mean(family, intercept):
    with ds.connect() as con:
        con.register(
            "given", TABLES[intercept].select(*COLUMNS, pl.col(family).alias("y")).to_arrow()
        )
        con.execute("CREATE TABLE rows AS FROM given")
        call = f"anytime_sequence_glm('rows', 'y', '{family}', intercept := {intercept})"
        con.execute(f"CREATE TABLE s AS SELECT {call} AS seq")
        ((stored,),) = con.execute("SELECT seq FROM s").fetchall()
        query = "SELECT glm_predict(seq, r).prediction AS p FROM rows r, s"
        found = con.execute(query).fetchnumpy()["p"]
    truth = truth_of(family, intercept=intercept)
    np.testing.assert_allclose(found, truth.fittedvalues, rtol=1e-4)
    read = ds.results.GlmSequence.from_struct(stored)
    assert (read.family, read.has_intercept) == (family, intercept)


@pytest.mark.parametrize("intercept", ["yes", "no"])
def test_on_the_command_line(intercept, tmp_path):
    path, out = tmp_path / "t.parquet", tmp_path / "s.json"
    TABLE.select(*COLUMNS, "binomial(cloglog)").write_parquet(path)
    call = ["sequence", str(path), "--target", "binomial(cloglog)", "--family", "binomial(cloglog)"]
    assert main([*call, "--out", str(out), "--intercept", intercept]) == 0
    read = ds.results.GlmSequence.read_json(out)
    assert (read.family, read.has_intercept) == ("binomial(cloglog)", intercept == "yes")


def test_criteria_are_of_likelihoods():
    seq = search("gaussian(log)")
    left = truth_of("gaussian(log)").deviance / truth_of("gaussian(log)", []).deviance
    aic = seq.criteria()["aic"]
    assert aic[-1] - aic[0] == pytest.approx(N * np.log(left) + 2 * 3, rel=1e-6)
    with pytest.raises(ds.errors.ArgumentError, match="dispersion"):
        search("gamma").criteria()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ds.families.Gamma(link="probit"), "link is 'probit'; family 'gamma' has"),
        (lambda: ds.families.Multinomial(link="log"), "link is 'log'; family 'multinomial' has"),
        (lambda: ds.families.Tweedie(1.5, link="probit"), "link is 'probit'; family 'tweedie' has"),
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
    ("given", "words"),
    [
        ({"family": "gama"}, "family is 'gama'; it must be one of"),
        ({"family": "tweedie(x)"}, "in brackets it has a number and one of"),
        ({"family": "tweedie"}, "it needs a power > 1, as 'tweedie(1.5)'"),
        ({"family": "tweedie(1.5, 2)"}, "family is 'tweedie(1.5, 2)'"),
        ({"family": "tweedie(1.5, probit)"}, "family is 'tweedie(1.5, probit)'"),
        ({"family": "poisson(2.0)"}, "family is 'poisson(2.0)'; the links of poisson are"),
        ({"family": "binomial(clog)"}, "family is 'binomial(clog)'; the links of binomial are"),
        ({"family": "gamma(inverse, identity)"}, "family is 'gamma(inverse, identity)'"),
        ({"family": "multinomial(log)"}, "the links of multinomial are"),
        ({"family": "negative_binomial(-1)"}, "dispersion is -1.0; of 'negative_binomial' it must"),
        ({"family": 3}, "family is 3; it must be one of"),
        ({"family": "gaussian(log)", "target": "minus"}, "has the mean -1"),
        ({"family": "poisson(identity)", "offset": "low"}, "has no mean for some rows"),
    ],
)
def test_what_cannot_be_is_refused(given, words):
    frame = TABLE.with_columns(minus=pl.col("a") - pl.col("a").mean() - 1.0, low=5000 * pl.col("b"))
    with pytest.raises(ds.DbselectError, match=re.escape(words)):
        ds.fit(frame, **{"target": "poisson(sqrt)", "columns": COLUMNS} | given)


@pytest.mark.parametrize("family", sorted({*TRUTH} - {*AT_0}))
def test_through_the_origin_there_is_no_mean_to_begin_with(family):
    with pytest.raises(ds.errors.ArgumentError, match="has no mean"):
        ds.fit(TABLE, family, COLUMNS, family=family, intercept=False)


def test_an_objective_has_its_own_intercept():
    objective = ds.Problem(TABLE, "binomial", GROUPS, family="binomial").objective()
    with pytest.raises(ds.errors.ArgumentError, match="intercept is False; it is for tables"):
        ds.anytime_sequence(objective, intercept=False)


def test_names_are_made_of_their_parts():
    families = ds.families
    assert str(families.Binomial()) == str(families.Binomial(link="logit")) == "binomial"
    assert str(families.Gamma(link="log")) == "gamma"
    assert str(families.NegativeBinomial(0.7)) == "negative_binomial(0.7)"
    for name in (*get_args(FamilyName), "tweedie(1.5, inverse)", "negative_binomial(0.8, sqrt)"):
        assert str(families.parse(name)) == name
        assert families.parse(families.parse(name)) == families.parse(name)


@pytest.mark.parametrize(
    "family",
    [
        ds.families.Binomial(link="probit"),
        ds.families.Poisson(link="sqrt"),
        ds.families.Gaussian(link="log"),
        ds.families.Gamma(link="inverse"),
        ds.families.Tweedie(1.5, link="inverse"),
    ],
    ids=str,
)
def test_an_object_is_the_family_of_its_name(family):
    name = str(family)
    by_name, by_object = (ds.fit(TABLE, name, COLUMNS, family=of) for of in (name, family))
    assert by_object.family == by_name.family == name
    # Threads add up blocks of rows in any order.
    assert by_object.coefficients == pytest.approx(by_name.coefficients, rel=1e-12)
    objective = ds.Problem(TABLE, name, GROUPS, family=family).objective()
    assert objective.model().family == name
    found = TABLE.lazy().dbselect.anytime_sequence(name, GROUPS, family=family)
    assert found.family == name
