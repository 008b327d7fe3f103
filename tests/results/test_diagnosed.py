"""What a record tells of a model beside its coefficients: statsmodels, NIST, numpy by hand."""

import itertools
import re
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import stats
from test_nist import certified

import dbselect as ds

sm = pytest.importorskip("statsmodels.api")

NIST = Path(__file__).parents[1] / "data" / "nist"
RNG = np.random.default_rng(7)
ROWS = 120
COLUMNS = ["a", "b", "c"]
X = RNG.normal(size=(ROWS, 3)) @ [[1, 0.5, 0], [0, 1, 0.3], [0, 0, 1]]
X = X * [1.0, 50.0, 0.1] + [3.0, -200.0, 7.0]
Y = X @ [0.3, 0.02, 2.0] + RNG.normal(size=ROWS)
WEIGHT = RNG.uniform(0.2, 3.0, ROWS)
TABLE = pl.DataFrame(X, schema=COLUMNS).with_columns(y=Y, w=WEIGHT)
NEW = TABLE.head(7).select(pl.col(COLUMNS) * 1.3)

fits = pytest.mark.parametrize(
    ("intercept", "weight"), [(True, None), (True, "w"), (False, None), (False, "w")]
)


def fitted(intercept=True, weight=None, columns=COLUMNS):
    """Return our model and statsmodels' of the same rows."""
    ours = ds.fit(TABLE, "y", columns, intercept=intercept, weight=weight)
    design = TABLE.select(columns).to_numpy()
    design = sm.add_constant(design) if intercept else design
    return ours, sm.WLS(Y, design, weights=1.0 if weight is None else WEIGHT).fit()


def weighted(rows, weight):
    return rows if weight is None else rows * np.sqrt(WEIGHT)[:, None]


def left_of(y, others):
    """Return what least squares on some columns leaves."""
    return y - others @ np.linalg.lstsq(others, y, rcond=None)[0]


# Dependence of the columns


@fits
def test_vif_is_that_of_the_regression_on_the_others(intercept, weight):
    ours, truth = fitted(intercept, weight)
    rows, weights = truth.model.exog, truth.model.weights
    r2 = [
        sm.WLS(rows[:, j], np.delete(rows, j, axis=1), weights=weights).fit().rsquared
        for j in range(intercept, 3 + intercept)
    ]
    assert ours.vif()["column"].to_list() == COLUMNS
    np.testing.assert_allclose(ours.vif()["vif"], 1 / (1 - np.array(r2)), rtol=1e-10)


@fits
def test_condition_number_is_that_of_columns_of_length_1(intercept, weight):
    ours, truth = fitted(intercept, weight)
    rows = weighted(truth.model.exog, weight)
    expected = np.linalg.cond(rows / np.linalg.norm(rows, axis=0))
    assert ours.condition_number == pytest.approx(expected, rel=1e-12)


def test_condition_number_keeps_its_digits_far_from_0():
    x = 1e9 + np.arange(8.0)
    # Of columns of length 1 with cosine q the number is sqrt((1 + q) / (1 - q)).
    q = x.sum() / np.sqrt(8 * (x @ x))
    apart = np.var(x) / np.mean(x) ** 2  # 1 / q^2 - 1
    expected = (1 + q) * np.sqrt((1 + apart) / apart)
    found = ds.fit(pl.DataFrame({"x": x, "y": np.arange(8.0) ** 2}), "y").condition_number
    assert found == pytest.approx(expected, rel=1e-7)


@fits
def test_partial_correlations_are_those_of_what_the_others_leave(intercept, weight):
    ours, truth = fitted(intercept, weight)
    rows, y = weighted(truth.model.exog, weight), weighted(Y[:, None], weight)[:, 0]
    constant = rows[:, :1] if intercept else np.zeros((ROWS, 1))

    def cosine(u, v):
        return u @ v / np.sqrt(u @ u * (v @ v))

    for j, found in enumerate(ours.partial_correlations().rows(named=True)):
        others = np.delete(rows, j + intercept, axis=1)
        column = rows[:, j + intercept]
        own = left_of(column, others)
        expected = {
            "correlation": cosine(left_of(column, constant), left_of(y, constant)),
            "partial": cosine(own, left_of(y, others)),
            "semipartial": cosine(own, left_of(y, constant)),
        }
        assert found.pop("column") == COLUMNS[j]
        assert found == pytest.approx(expected, rel=1e-9)


def test_where_others_leave_nothing_of_the_target_there_is_no_partial_correlation():
    """A and b explain y whole, each what the other leaves; c goes with nothing."""
    rng = np.random.default_rng(3)
    a, b, c = rng.normal(size=(3, 50))
    model = ds.fit(pl.DataFrame({"a": a, "b": b, "c": c, "y": a + 2 * b}), "y")
    assert model.partial_correlations()["partial"].to_list() == [
        pytest.approx(1.0), pytest.approx(1.0), None
    ]  # fmt: skip


def test_columns_that_others_determine_have_an_infinite_vif_and_others_are_judged_without():
    table = TABLE.with_columns(d=2 * pl.col("a") - pl.col("c"), one=pl.lit(1.0))
    model = ds.fit(table, "y", [*COLUMNS, "d", "one"])
    vif = dict(model.vif().rows())
    alone = dict(ds.fit(table, "y", COLUMNS).vif().rows())
    assert (vif.pop("d"), vif.pop("one")) == (np.inf, np.inf)
    assert vif == pytest.approx(alone, rel=1e-12)
    expected = ds.fit(table, "y", COLUMNS).condition_number
    assert model.condition_number == pytest.approx(expected, rel=1e-12)
    partial = model.partial_correlations()
    assert partial.filter(pl.col("partial").is_null())["column"].to_list() == ["d", "one"]
    assert partial["correlation"].is_null().to_list() == [False, False, False, False, True]


# Standardized coefficients


@fits
def test_standardized_coefficients_are_those_of_unit_deviations(intercept, weight):
    ours, truth = fitted(intercept, weight)
    values = np.column_stack([X, Y])
    weights = np.ones(ROWS) if weight is None else WEIGHT
    center = np.average(values, axis=0, weights=weights) if intercept else 0.0
    spread = np.sqrt(np.average((values - center) ** 2, axis=0, weights=weights))
    found = ours.summary()["standardized"]
    assert found.is_null().sum() == intercept
    expected = truth.params[int(intercept) :] * spread[:3] / spread[3]
    np.testing.assert_allclose(found.drop_nulls(), expected, rtol=1e-9)


# F tests


@fits
@pytest.mark.parametrize("tested", [COLUMNS, ["b", "c"], ["a"]])
def test_f_tests_are_those_of_statsmodels(intercept, weight, tested):
    ours, truth = fitted(intercept, weight)
    places = [COLUMNS.index(name) + intercept for name in tested]
    expected = truth.f_test(np.eye(3 + intercept)[places])
    found = ours.f_test(tested).row(0, named=True)
    assert (found["df"], found["df_residual"]) == (len(tested), truth.df_resid)
    assert found["statistic"] == pytest.approx(float(expected.fvalue), rel=1e-8)
    assert found["p_value"] == pytest.approx(float(expected.pvalue), rel=1e-6)


@pytest.mark.parametrize("name", ["Longley", "Norris", "NoInt1", "Pontius"])
def test_f_tests_of_models_are_those_that_nist_certifies(name):
    data = certified(name)
    text = (NIST / f"{name}.dat").read_text()
    df, _, _, statistic = re.search(r"^Regression +(\S+) +(\S+) +(\S+) +(\S+)", text, re.M).groups()
    found = ds.fit(data.frame, "y", intercept=data.intercept).f_test().row(0)
    assert found[0] == int(df)
    assert found[2] == pytest.approx(float(statistic), rel=1e-8)


def test_f_tests_of_steps_compare_with_the_model_before():
    groups = {"first": ["a"], "rest": ["b", "c"], "copy": ["d"]}
    table = TABLE.with_columns(d=2 * pl.col("a"))
    seq = ds.anytime_sequence(table, "y", groups, always=["first", "rest", "copy"])
    found = seq.f_tests()
    models = [sm.OLS(Y, np.column_stack([np.ones(ROWS), X[:, :d]])).fit() for d in (0, 1, 3)]
    assert found.select("group", "df", "df_residual").rows() == [
        (None, None, None),
        ("first", 1, ROWS - 2),
        ("rest", 2, ROWS - 4),
        ("copy", 0, ROWS - 4),
    ]
    for step in (1, 2):
        statistic, p_value, _ = models[step].compare_f_test(models[step - 1])
        assert found["statistic"][step] == pytest.approx(statistic, rel=1e-9)
        assert found["p_value"][step] == pytest.approx(p_value, rel=1e-9)
    assert found["statistic"].is_null().to_list() == [True, False, False, True]


def test_f_tests_of_removals_are_those_of_what_is_removed():
    seq = ds.backward(TABLE.drop("w"), "y")
    with pytest.warns(ds.errors.SelectionWarning, match="p-values are too small"):
        found = seq.f_tests()
    last = found.filter(pl.col("action") == "remove").row(0, named=True)
    others = [name for name in COLUMNS if name != last["group"]]
    statistic, p_value, _ = fitted()[1].compare_f_test(fitted(columns=others)[1])
    assert last["statistic"] == pytest.approx(statistic, rel=1e-8)
    assert last["p_value"] == pytest.approx(p_value, rel=1e-8)
    assert last["df_residual"] == ROWS - 4


def test_f_tests_are_undefined_where_nothing_is_tested_or_no_row_is_left():
    table = TABLE.with_columns(copy=2 * pl.col("a"))
    model = ds.fit(table, "y", [*COLUMNS, "copy"])
    assert model.f_test(["a"]).row(0) == (0, ROWS - 4, None, None)
    assert model.f_test(["a", "copy"])["statistic"][0] == pytest.approx(
        fitted()[0].f_test(["a"])["statistic"][0], rel=1e-9
    )
    saturated = ds.fit(TABLE.head(4), "y", COLUMNS)
    assert saturated.f_test().row(0) == (3, 0, None, None)
    frame = saturated.prediction_intervals(NEW)
    assert frame["mean"].null_count() == 0
    assert frame.drop("mean").null_count().row(0) == (7,) * 5


# Intervals of predictions


@fits
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_of_predictions_are_those_of_statsmodels(intercept, weight, level):
    ours, truth = fitted(intercept, weight)
    design = sm.add_constant(NEW.to_numpy()) if intercept else NEW.to_numpy()
    frame = truth.get_prediction(design, weights=1.0).summary_frame(alpha=1 - level)
    found = ours.prediction_intervals(NEW, level=level)
    assert found.columns == list(frame.columns)
    np.testing.assert_allclose(found, frame, rtol=1e-9)
    named = ours.prediction_intervals(NEW.to_numpy()[:, ::-1], COLUMNS[::-1], level)
    np.testing.assert_allclose(named, frame, rtol=1e-9)


# What has none


def test_what_the_rows_chose_is_warned_of():
    seq = ds.anytime_sequence(TABLE.drop("w"), "y")
    chosen = seq.at(size=1)
    for call in (seq.f_tests, chosen.f_test, lambda: chosen.prediction_intervals(NEW)):
        with pytest.warns(ds.errors.SelectionWarning) as told:
            call()
        assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen.vif(), chosen.partial_correlations()  # of rows and columns, not of tests


def test_an_f_test_of_nearly_dependent_columns_warns_as_fit():
    z = np.random.default_rng(0).normal(size=(2, ROWS))
    for near, warning in ((1e-5, "ConditionWarning"), (1e-7, "DependenceWarning")):
        frame = TABLE.with_columns(near=pl.col("a") + near * z[0], y=pl.col("y") + z[0])
        with pytest.warns(ds.errors.ConditionWarning):
            model = ds.fit(frame.drop("w"), "y")
        for columns in (None, ["b"]):
            with pytest.warns(getattr(ds.errors, warning)) as found:
                model.f_test(columns)
            assert found[0].filename == __file__


def test_a_ridge_has_no_tests_and_the_same_columns():
    ridged = ds.fit(TABLE, "y", COLUMNS, ridge=0.1)
    plain, _ = fitted()
    for call in (ridged.f_test, lambda: ridged.prediction_intervals(NEW)):
        with pytest.raises(ds.errors.ArgumentError, match=r"ridge is 0\.1; "):
            call()
    with pytest.raises(ds.errors.ArgumentError, match=r"ridge is 0\.1; "):
        ds.anytime_sequence(TABLE.drop("w"), "y", ridge=0.1).f_tests()
    assert_frame_equal(ridged.vif(), plain.vif(), rel_tol=1e-12)
    partials = (one.partial_correlations() for one in (ridged, plain))
    assert_frame_equal(*partials, rel_tol=1e-12)
    assert np.isclose(ridged.condition_number, plain.condition_number, rtol=1e-12)


def test_a_model_that_knows_no_rows_says_so():
    model = ds.anytime_sequence(TABLE.drop("w"), "y").at()
    object.__setattr__(model, "fit", None)
    for call in (model.vif, model.f_test, lambda: model.prediction_intervals(NEW)):
        with pytest.raises(ds.errors.ArgumentError, match="no statistics of its rows"):
            call()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda model: model.f_test(["nothing"]), "columns.*nothing"),
        (lambda model: model.f_test("a"), "columns is 'a'; it must be a list"),
        (lambda model: model.prediction_intervals(NEW, level=95), "level is 95"),
        (lambda model: model.prediction_intervals(NEW.drop("a")), "rows lack column 'a'"),
        (lambda model: model.prediction_intervals(NEW, handle_unknown="no"), "handle_unknown"),
        (lambda model: model.prediction_intervals(NEW.cast(pl.String)), "else than numbers"),
    ],
)
def test_what_cannot_be_is_refused(call, error):
    with pytest.raises(ds.DbselectError, match=re.compile(error)):
        call(fitted()[0])


def test_likelihood_ratio_tests_of_steps_are_those_of_statsmodels():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(200, 3))
    eta = x @ [0.6, -0.4, 0.1]
    frame = pl.DataFrame(x, ["a", "b", "c"]).with_columns(
        y=eta + rng.normal(size=200), n=rng.poisson(np.exp(eta)), g=rng.gamma(2.0, np.exp(eta))
    )
    designs = [sm.add_constant(x[:, :k], has_constant="add") for k in range(4)]
    always = ["a", "b", "c"]  # forced, so that nothing was chosen
    found = ds.anytime_sequence(frame.select("a", "b", "c", "y"), "y", always=always).lr_tests()
    ols = [sm.OLS(frame["y"].to_numpy(), X).fit() for X in designs]
    for step in range(3):
        told = ols[step + 1].compare_lr_test(ols[step])
        assert found.row(step + 1)[4:] == pytest.approx(told[:2], rel=1e-9)
    for target, name, family in [
        ("n", "poisson", sm.families.Poisson()),
        ("g", "gamma(log)", sm.families.Gamma(sm.families.links.Log())),
    ]:
        seq = ds.anytime_sequence(
            frame.select("a", "b", "c", target), target, always=always, family=name, tol=1e-12
        )
        glm = [sm.GLM(frame[target].to_numpy(), X, family).fit(tol=1e-14) for X in designs]
        for step, (less, more) in enumerate(itertools.pairwise(glm), 1):
            statistic = (less.deviance - more.deviance) / more.scale
            told = (1, statistic, stats.chi2.sf(statistic, 1))
            assert seq.lr_tests().row(step)[3:] == pytest.approx(told, rel=1e-5)


def test_likelihood_ratio_tests_need_a_likelihood():
    frame = pl.DataFrame({"a": [0, 1] * 20, "y": [1.0, 2.0, 3.0, 4.0] * 10})
    for family in ("gaussian", "gamma(log)"):
        seq = ds.anytime_sequence(frame, "y", family=family, ridge=0.1)
        with pytest.raises(ds.errors.ArgumentError, match="ridge is 0"):
            seq.lr_tests()
    seq = ds.anytime_sequence(frame, "y", family="gamma(log)")
    with pytest.raises(ds.errors.ArgumentError, match="file, which holds no dispersion"):
        type(seq).from_struct(seq.to_struct()).lr_tests()
