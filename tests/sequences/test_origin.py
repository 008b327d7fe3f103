"""Searches through the origin: refits without a constant, and the same rows mirrored.

A table and its rows with every sign turned have means of 0: with an intercept its models are
those of the table through the origin.
"""

from itertools import chain, combinations

import duckdb
import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.objectives.a_optimal import AOptimal

RNG = np.random.default_rng(21)
ROWS, NAMES = 40, [f"x{j}" for j in range(6)]
X = RNG.normal(size=(ROWS, 6)) @ RNG.normal(size=(6, 6)) + [3, -1, 0.2, 5, 0, 1]
X[:, 4] = 2.0  # constant, and of use here
Y = X @ [1.0, 0, -0.5, 0, 1.0, 0] + RNG.normal(size=ROWS)
W = RNG.uniform(0.5, 2, ROWS)
TABLE = pl.DataFrame(X, NAMES).with_columns(y=Y, w=W)
MIRRORED = pl.concat([TABLE, TABLE.with_columns(-pl.col(*NAMES, "y"))])
GROUPS = {"a": ["x0", "x3"], "b": ["x1"], "c": ["x2"], "d": ["x4"], "e": ["x5"]}
COSTS = {"a": 2.0, "b": 1.0, "c": 0.5, "d": 1.0, "e": 1.5}
GRAM, TWICE = (ds.gram(table, weight="w") for table in (TABLE, MIRRORED))
ORIGIN = {"intercept": False}
OFF = {"rel": 1e-9, "abs": 1e-11}


def explained(groups, ridge=0.0):
    """Return coefficients and r2 of a refit of the rows without a constant."""
    at = [NAMES.index(name) for group in groups for name in GROUPS[group]]
    root = np.sqrt(W)[:, None]
    size = np.sqrt((W @ X**2) / W.sum())
    rows = np.vstack([root * X[:, at], np.diag(np.sqrt(ridge * W.sum()) * size)[at][:, at]])
    coef = np.linalg.lstsq(rows, np.append(np.sqrt(W) * Y, np.zeros(len(at))), rcond=None)[0]
    left = W @ (Y - X[:, at] @ coef) ** 2
    return {NAMES[j]: b for j, b in zip(at, coef, strict=True)}, 1 - left / (W @ Y**2)


SETS = [list(s) for s in chain.from_iterable(combinations(GROUPS, k) for k in range(6))]
SEARCHES = {
    "anytime_sequence": {}, "anytime_sequence omp": {"rule": "omp"},
    "anytime_sequence ridge": {"ridge": 0.1},
    "anytime_sequence raw": {"ridge": 2.0, "scale": False},
    "anytime_sequence doubling": {"rule": "doubling"}, "foba": {"nu": 0.9}, "backward": {},
    "floating": {},
    "group_lasso": {}, "greedy": {"k": 3}, "top_k": {"k": 2}, "random_k": {"k": 2},
    "dash": {"k": 2}, "exchange": {"k": 3, "budget": 4.0}, "best_within": {"budget": 3.0},
    "sght": {"max_columns": 3, "max_groups": 2},
}  # fmt: skip


def searched(name, gram, **options):
    method = name.split()[0]
    return getattr(ds if hasattr(ds, method) else ds.reference, method)(
        gram, "y", groups=GROUPS, costs=COSTS, **SEARCHES[name], **options
    )


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_is_that_of_the_mirrored_rows(name):
    found, expected = searched(name, GRAM, **ORIGIN), searched(name, TWICE)
    one, other = (each.at() if hasattr(each, "at") else each.model for each in (found, expected))
    assert one.groups == other.groups
    assert one.intercept == 0.0
    assert one.coefficients == pytest.approx(other.coefficients, **OFF)
    assert (one.r2, one.explained) == pytest.approx((other.r2, other.explained), **OFF)
    if hasattr(found, "steps"):
        assert found.steps["group"].to_list() == expected.steps["group"].to_list()
        np.testing.assert_allclose(found.steps["gain"], expected.steps["gain"], atol=1e-12)
        np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("budget", [1.0, 2.5, 4.0])
def test_best_within_is_the_best_of_all_sets_and_certificates_bound_it(budget):
    worth = {tuple(s): explained(s)[1] for s in SETS if sum(COSTS[g] for g in s) <= budget}
    found = ds.best_within(GRAM, "y", budget, GROUPS, COSTS, **ORIGIN)
    assert found.how.proven
    assert found.r2 == pytest.approx(max(worth.values()), **OFF)
    seq = ds.anytime_sequence(GRAM, "y", GROUPS, COSTS, **ORIGIN)
    assert seq.certificate([budget])["bound"][0] >= max(worth.values()) - 1e-12


def test_criteria_and_standard_errors_are_those_of_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    table = TABLE.select(*NAMES, "y")
    seq = ds.anytime_sequence(table, "y", GROUPS, **ORIGIN)
    found = seq.criteria()
    for step in range(1, len(seq.spent)):
        model = seq.model(step)
        truth = sm.OLS(Y, table.select(model.columns).to_numpy()).fit()
        assert found["df"][step] == len(model.columns)
        of_models = found.select("aic", "bic", "adjusted_r2").row(step)
        # statsmodels counts a constant that it finds among the columns.
        if "x4" not in model.columns:
            assert of_models == pytest.approx((truth.aic, truth.bic, truth.rsquared_adj), rel=1e-9)
            assert model.r2 == pytest.approx(truth.rsquared)
    with pytest.warns(ds.errors.SelectionWarning):
        summary = seq.at(size=2).summary()
    truth = sm.OLS(Y, table.select(seq.at(size=2).columns).to_numpy()).fit()
    np.testing.assert_allclose(summary["std_error"], truth.bse, rtol=1e-9)
    np.testing.assert_allclose(summary["p_value"], truth.pvalues, rtol=1e-7)


def test_degrees_have_no_intercept():
    few = TABLE.head(3).select("x0", "x1", "x2", "y")
    assert ds.anytime_sequence(few, "y", max_groups=2, **ORIGIN).stop.name != "SATURATED"
    assert ds.anytime_sequence(few, "y", max_groups=2).stop.name == "SATURATED"
    full = ds.anytime_sequence(few, "y", **ORIGIN)
    assert (full.stop.name, full.at().saturated, full.at(size=2).saturated) == (
        "SATURATED", True, False,
    )  # fmt: skip


def test_a_column_and_a_target_of_one_value_are_of_use():
    table = pl.DataFrame({"one": [2.0] * 4, "x": [1.0, 2, 3, 5], "y": [6.0] * 4, "zero": [0.0] * 4})
    seq = ds.anytime_sequence(table, "y", **ORIGIN)
    assert (seq.steps["group"][1], seq.r2[1]) == ("one", 1.0)
    assert seq.at(size=1).coefficients["one"] == pytest.approx(3.0)
    with pytest.raises(ds.errors.DataError, match="target 'y' is constant"):
        ds.anytime_sequence(table, "y")
    with pytest.raises(ds.errors.DataError, match="target 'zero' is constant"):
        ds.anytime_sequence(table, "zero", **ORIGIN)
    with pytest.raises(
        ds.errors.DataError, match="column 'x' is too large for a model through the origin"
    ):
        ds.anytime_sequence(table.with_columns(x=pl.lit(1e200)), "y", **ORIGIN)
    marked = table.with_columns(y=pl.Series([6.0, None, 6.0, 6.0]))
    gram = ds.gram(marked, null_policy="indicator")
    with pytest.raises(ds.errors.DataError, match="target 'y' is 0 in rows where it is missing"):
        ds.anytime_sequence(gram, "y", **ORIGIN)


def test_other_rows_are_judged_about_their_mean_as_by_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    train, test = TABLE.head(25), TABLE.tail(15)
    seq = ds.anytime_sequence(train.drop("w"), "y", GROUPS, ridge=0.05, **ORIGIN)
    judged = ds.evaluate(seq, test)
    for step in range(len(seq.spent)):
        y, predicted = test["y"].to_numpy(), seq.model(step).predict(test)
        assert judged["r2"][step] == pytest.approx(metrics.r2_score(y, predicted))
        assert judged["mse"][step] == pytest.approx(metrics.mean_squared_error(y, predicted))
    np.testing.assert_allclose(ds.evaluate(seq, train)["explained"], seq.explained, atol=1e-12)
    found = ds.cross_validate(
        ds.gram_by(TABLE.drop("w"), fold=4),
        "y",
        "foba",
        {"intercept": [True, False]},
        groups=GROUPS,
    )
    means = found.table.filter(~pl.col("intercept"), step=0)["mse"].to_list()
    assert means == pytest.approx([(Y**2).mean()], rel=0.1)


def test_scikit_learn_fits_the_same():
    linear_model = pytest.importorskip("sklearn.linear_model")
    from dbselect.sklearn import AnytimeRegressor, AnytimeSelector, FoBaSelector, SGHTSelector

    found = AnytimeRegressor(fit_intercept=False).fit(X, Y, sample_weight=W)
    truth = linear_model.LinearRegression(fit_intercept=False).fit(X, Y, sample_weight=W)
    np.testing.assert_allclose(found.coef_, truth.coef_, rtol=1e-9)
    assert found.intercept_ == 0.0
    np.testing.assert_allclose(found.predict(X), truth.predict(X))
    for selector in (AnytimeSelector(2.0), FoBaSelector(0.01), SGHTSelector(2)):
        selector.set_params(fit_intercept=False).fit(X, Y)
        assert selector.model_.intercept == 0.0
    of_counts = AnytimeRegressor(fit_intercept=False, family="poisson").fit(X, np.abs(Y).round())
    assert of_counts.intercept_ == 0.0


def test_a_stored_sequence_keeps_it(tmp_path):
    seq = ds.anytime_sequence(TABLE.drop("w"), "y", GROUPS, **ORIGIN)
    seq.write_parquet(tmp_path / "seq.parquet")
    again = ds.results.Sequence.read_parquet(tmp_path / "seq.parquet")
    assert again.criteria().equals(seq.criteria())
    assert not again.has_intercept


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ds.anytime_sequence(TABLE, "y", intercept="no"), "intercept is 'no'; it must be"),
        (
            lambda: ds.anytime_sequence(TABLE, "y", gram="lazy", **ORIGIN),
            "gram='lazy' reads rows of centred columns",
        ),
        (
            lambda: ds.foba(TABLE, "y", family="gamma(inverse)", **ORIGIN),
            r"predictor 0 then, at which family 'gamma\(inverse\)' has no mean",
        ),
        (
            lambda: ds.anytime_sequence(TABLE, "y", family="poisson(sqrt)", **ORIGIN),
            r"predictor 0 then, at which family 'poisson\(sqrt\)' has no mean",
        ),
        (
            lambda: ds.greedy(AOptimal(X), k=1, **ORIGIN),
            "intercept is False; it is for tables",
        ),
    ],
)  # fmt: skip
def test_what_has_an_intercept_says_so(call, words):
    with pytest.raises(ds.errors.ArgumentError, match=words):
        call()


def test_sql_refuses_what_is_neither(connection):
    with pytest.raises(duckdb.Error, match="intercept is 'nonsense'"):
        connection.execute("SELECT foba(gram({'x': 1}), 'y', intercept := 'nonsense')")
