"""Robust standard errors: statsmodels' for every type, through engines, and what is refused."""

import math

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dbselect as ds
from dbselect.sources.partial.partial_aggregates import merge_of, partial_of
from dbselect.validation import sandwich
from dbselect.validation.scoring import reading

sm = pytest.importorskip("statsmodels.api")
families = sm.families

RNG = np.random.default_rng(11)
ROWS = 240
COLUMNS = ["a", "b"]
X = RNG.normal(size=(ROWS, 2)) @ [[1.0, 0.4], [0.0, 1.0]] * [1.0, 50.0] + [3.0, -200.0]
ETA = 0.5 * (X[:, 0] - 3.0) + 0.01 * (X[:, 1] + 200.0)
SHOP = RNG.integers(0, 30, ROWS)
WEIGHT = RNG.uniform(0.2, 3.0, ROWS)
TABLE = pl.DataFrame(X, schema=COLUMNS).with_columns(
    y=pl.Series(ETA + RNG.normal(size=ROWS) * X[:, 0] + RNG.normal(size=30)[SHOP]),
    w=WEIGHT,
    shop=SHOP,
    name=pl.Series([f"shop {one}" for one in SHOP]),
    none=np.zeros(ROWS),
    flag=RNG.random(ROWS) < 1 / (1 + np.exp(-ETA)),
    count=RNG.poisson(np.exp(ETA)),
    positive=RNG.gamma(2.0, np.exp(ETA)),
)
Y = TABLE["y"].to_numpy()

fits = pytest.mark.parametrize(
    ("intercept", "weight"), [(True, None), (True, "w"), (False, None), (False, "w")]
)


def fitted(intercept=True, weight=None):
    """Return our model and statsmodels' of the same rows."""
    design = sm.add_constant(X) if intercept else X
    truth = sm.WLS(Y, design, weights=1.0 if weight is None else WEIGHT).fit()
    return ds.fit(TABLE, "y", COLUMNS, intercept=intercept, weight=weight), truth


def assert_same(found, truth, rtol=1e-8):
    np.testing.assert_allclose(found.covariance, truth.cov_params(), rtol=rtol)
    np.testing.assert_allclose(found.summary()["p_value"], truth.pvalues, rtol=10 * rtol)
    ends = found.intervals(0.9).select("low", "high")
    np.testing.assert_allclose(ends, truth.conf_int(0.1), rtol=10 * rtol)


# Statsmodels


@fits
@pytest.mark.parametrize("cov_type", ["HC0", "HC1", "HC2", "HC3"])
def test_least_squares_has_the_errors_of_statsmodels(intercept, weight, cov_type):
    ours, truth = fitted(intercept, weight)
    found = ours.robust_errors(TABLE, weight=weight, cov_type=cov_type)
    assert_same(found, truth.get_robustcov_results(cov_type))
    assert (found.free, found.clusters) == (truth.df_resid, None)


def in_parts(monkeypatch):
    """Have rows summed in many parts, whose clusters are put together again."""
    monkeypatch.setattr(sandwich, "KEYS_AT_ONCE", 17)
    monkeypatch.setattr(reading, "PREDICTIONS_AT_ONCE", 1)
    monkeypatch.setattr(reading, "LEAST_ROWS", 7)


@fits
@pytest.mark.parametrize("cluster", ["shop", "name"])
def test_clusters_have_the_errors_of_statsmodels(intercept, weight, cluster, monkeypatch):
    in_parts(monkeypatch)
    ours, truth = fitted(intercept, weight)
    found = ours.robust_errors(TABLE, weight=weight, cluster=cluster)
    assert_same(found, truth.get_robustcov_results("cluster", groups=SHOP))
    assert (found.free, found.clusters) == (29, 30)


@pytest.mark.parametrize(
    ("target", "family", "truth"),
    [
        ("flag", "binomial", families.Binomial()),
        ("flag", "binomial(probit)", families.Binomial(families.links.Probit())),
        ("count", "poisson", families.Poisson()),
        ("positive", "gamma", families.Gamma(families.links.Log())),
        ("y", "gaussian", families.Gaussian()),
    ],
)
def test_families_have_the_errors_of_scores_and_expected_information(target, family, truth):
    # With an offset family gaussian is fitted in passes, as the others are.
    offset = "none" if family == "gaussian" else None
    ours = ds.fit(TABLE, target, COLUMNS, family=family, offset=offset, tol=1e-12)
    model = sm.GLM(TABLE[target].to_numpy().astype(float), sm.add_constant(X), truth)
    fit = model.fit(tol=1e-14)
    bread = np.linalg.inv(model.hessian(fit.params, observed=False))
    scores = model.score_obs(fit.params)
    found = ours.robust_errors(TABLE, cov_type="HC0")
    np.testing.assert_allclose(found.covariance, bread @ (scores.T @ scores) @ bread, rtol=1e-6)
    assert found.free == math.inf
    sums = np.array([scores[shop == SHOP].sum(axis=0) for shop in range(30)])
    factor = 30 / 29 * (ROWS - 1) / (ROWS - 3)
    clusters = ours.robust_errors(TABLE, cluster="shop").covariance
    np.testing.assert_allclose(clusters, factor * bread @ (sums.T @ sums) @ bread, rtol=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("given", [{}, {"weight": "w"}, {"exposure": "e"}])
def test_a_family_has_an_intercept_where_the_model_has_one(intercept, given):
    rng = np.random.default_rng(8)
    x, weight, exposure = rng.normal(size=(80, 2)), *rng.uniform(0.3, 3.0, (2, 80))
    y = rng.poisson(exposure * np.exp(0.5 * x[:, 0]))
    frame = pl.DataFrame(x, schema=COLUMNS).with_columns(y=y, w=weight, e=exposure)
    options = {"family": "poisson", "intercept": intercept, **given}
    found = ds.fit(frame, "y", COLUMNS, tol=1e-12, **options).robust_errors(
        frame, weight=given.get("weight"), cov_type="HC0"
    )
    design = np.column_stack([np.ones(80), x]) if intercept else x
    weight = weight if "weight" in given else np.ones(80)
    offset = np.log(exposure) if "exposure" in given else np.zeros(80)
    model = sm.GLM(y, design, families.Poisson(), offset=offset, freq_weights=weight)
    mean = model.fit(tol=1e-14).fittedvalues
    bread = np.linalg.inv((design * (weight * mean)[:, None]).T @ design)
    scores = design * (weight * (y - mean))[:, None]
    assert list(found.terms) == ["(intercept)"] * intercept + COLUMNS
    np.testing.assert_allclose(found.covariance, bread @ (scores.T @ scores) @ bread, rtol=1e-6)


# What the rows are


def test_categories_curves_and_missing_values_are_read_as_the_fit_read_them():
    holes = pl.when(pl.int_range(ROWS) % 7 == 0).then(None).otherwise(pl.col("b"))
    frame = TABLE.select("a", "y", b=holes, kind=pl.Series(["u", "v", "w", "u"] * 60))
    gram = ds.gram(frame, basis={"a": ("poly", 2)}, null_policy={"*": "skip", "b": "indicator"})
    model = ds.fit(gram, "y")
    kind, hole = frame["kind"].to_numpy(), np.arange(ROWS) % 7 == 0
    filled = np.where(hole, 0.0, X[:, 1])
    design = np.column_stack(
        [X[:, 0], X[:, 0] ** 2, filled, hole, *(kind == one for one in "uvw")]
    ).astype(float)
    truth = sm.OLS(Y, design).fit().get_robustcov_results("HC3")
    found = model.robust_errors(frame, cov_type="HC3").summary()
    errors = dict(found.select("term", "std_error").rows())
    assert errors["b"] == pytest.approx(truth.bse[2], rel=1e-8)
    assert errors["b.missing"] == pytest.approx(truth.bse[3], rel=1e-8)
    assert found["std_error"].null_count() == len(model.aliased) == 1


def test_rows_that_the_search_left_out_are_left_out_again():
    holed = TABLE.select(*COLUMNS, "y", c=pl.when(pl.int_range(ROWS) % 5 > 0).then(pl.col("w")))
    seq = ds.anytime_sequence(holed, "y")
    step = next(m for m in range(4) if seq.model(m).columns and "c" not in seq.model(m).columns)
    model = seq.model(step)
    with pytest.warns(ds.errors.SelectionWarning):
        found = model.robust_errors(holed, cov_type="HC2").summary()
    kept = np.arange(ROWS) % 5 > 0
    design = sm.add_constant(TABLE.select(model.columns).to_numpy()[kept])
    truth = sm.OLS(Y[kept], design).fit().get_robustcov_results("HC2")
    np.testing.assert_allclose(found["std_error"], truth.bse, rtol=1e-8)
    assert model.robust_errors(holed).skipped == (~kept).sum()


def test_every_engine_and_every_cut_sums_the_same(tmp_path):
    model, _ = fitted()
    expected = model.robust_errors(TABLE, cluster="name").covariance
    path = tmp_path / "rows.parquet"
    TABLE.write_parquet(path, row_group_size=50)
    with duckdb.connect() as con:
        sources = [
            path,
            TABLE.lazy(),
            TABLE.sample(fraction=1.0, shuffle=True, seed=1).to_arrow(),
            TABLE.to_pandas(),
            pa.RecordBatchReader.from_stream(TABLE.to_arrow()),
            con.sql(f"SELECT * FROM '{path}'"),
        ]
        for source in sources:
            found = model.robust_errors(source, cluster="name").covariance
            np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_states_of_parts_are_the_state_of_all():
    model, _ = fitted()
    wanted = sandwich_of(model)
    whole = partial_of(wanted, [TABLE.to_arrow()])
    parts = [partial_of(wanted, [TABLE[at : at + 90].to_arrow()]) for at in range(0, ROWS, 90)]
    (one, two) = (loaded(wanted, part) for part in (whole, merge_of(wanted, parts)))
    assert (one.rows, two.rows) == (ROWS, ROWS)
    (shops, others) = (each.clusters[0] for each in (one, two))
    assert shops.settle().shape == others.settle().shape == (30, 3)
    for each, own in ((one, shops), (two, others)):
        each.sorted = own.sums[0][own.keys[0].arg_sort().to_numpy()]
    np.testing.assert_allclose(one.sorted, two.sorted, rtol=1e-9, atol=1e-9)


def sandwich_of(model):
    from dbselect.validation.robust import of_linear, scoring_of

    return scoring_of(model, of_linear(model), TABLE, "cluster", None, ["shop"])[0]


def loaded(work, state):
    with work.begin() as gathered:
        gathered.load(state)
        return gathered.sums


def test_the_weight_is_that_of_the_fit():
    weighted, _ = fitted(weight="w")
    found, expected = weighted.robust_errors(TABLE), weighted.robust_errors(TABLE, weight="w")
    np.testing.assert_array_equal(found.covariance, expected.covariance)


def test_a_response_of_several_has_its_own():
    joint = ds.anytime_sequence(TABLE.select(*COLUMNS, "y", "count"), ["y", "count"]).at()
    design = sm.add_constant(TABLE.select(joint.columns).to_numpy())
    truth = sm.OLS(Y, design).fit().get_robustcov_results("HC1")
    found = joint.responses["y"].robust_errors(TABLE)
    np.testing.assert_allclose(found.covariance, truth.cov_params(), rtol=1e-8)
    again = joint.responses["y"].refit(TABLE[:100])
    assert again.target == "y"
    assert again.coefficients == ds.fit(TABLE[:100], "y", joint.columns).coefficients


# What is refused


def test_other_rows_other_weights_and_too_few_are_refused():
    model, _ = fitted()
    # Of a Gram nobody knows by what its rows were weighted.
    weighted = ds.fit(ds.gram(TABLE, [*COLUMNS, "y"], weight="w"), "y")
    for call, told in [
        (lambda: model.robust_errors(TABLE.head(200)), "200 usable rows.*fitted to 240"),
        (lambda: model.robust_errors(TABLE, weight="w"), "the rows weigh"),
        (lambda: weighted.robust_errors(TABLE), "weight is None, and must be the column"),
        (
            lambda: model.robust_errors(TABLE.with_columns(y=pl.col("y").reverse())),
            "not those of the fit",
        ),
        (lambda: model.robust_errors(TABLE.clear()), "no usable rows"),
        (
            lambda: ds.fit(TABLE.head(3), "y", COLUMNS).robust_errors(TABLE.head(3)),
            "3 rows for 3 coefficients",
        ),
        (
            lambda: model.robust_errors(TABLE.with_columns(a=pl.lit(math.inf))),
            "column 'a' has an infinite value",
        ),
    ]:
        with pytest.raises(ds.errors.DataError, match=told):
            call()


@pytest.mark.filterwarnings("ignore::dbselect.errors.LeakageWarning")
@pytest.mark.parametrize("power", [20, 46, 50, 54, 60])
def test_columns_without_digits_are_told_from_other_rows(power):
    rng = np.random.default_rng(power)
    x = rng.integers(-100, 100, 200)
    frame = pl.DataFrame({"z": x + 2**power, "y": 0.5 * x + 0.01 * rng.normal(size=200)})
    model = ds.fit(frame, "y")
    told = r"not those of the fit, or column 'z', about \d\.\de\+\d+, loses its last digits.*less"
    if power == 20:
        model.robust_errors(frame)
        with pytest.raises(ds.errors.DataError, match="of the fit; give the rows") as caught:
            model.robust_errors(frame.with_columns(pl.col("y").reverse()))
        assert "'z'" not in str(caught.value)
        return
    with pytest.raises(ds.errors.DataError, match=told):
        model.robust_errors(frame)
    near = frame.with_columns(pl.col("z") - 2**power)
    truth = sm.OLS(near["y"].to_numpy(), sm.add_constant(x)).fit().get_robustcov_results("HC1")
    found = ds.fit(near, "y").robust_errors(near)
    np.testing.assert_allclose(found.covariance, truth.cov_params(), rtol=1e-8)


def test_variances_that_overflow_are_refused():
    frame = pl.DataFrame({"a": 1e-10 * X[:, 0], "y": 1e150 * Y})
    with pytest.raises(ds.errors.DataError, match="variances of the coefficients overflow"):
        ds.fit(frame, "y").robust_errors(frame)


def test_clusters_that_are_none_are_refused():
    model, _ = fitted()
    one = TABLE.with_columns(one=pl.lit("all"), pair=pl.struct("a", "b"))
    few = TABLE.with_columns(shop=pl.when(pl.col("shop") > 2).then(pl.col("shop")))
    with pytest.raises(ds.errors.DataError, match="cluster has one value in all rows"):
        model.robust_errors(one, cluster="one")
    with pytest.raises(ds.errors.DataError, match=f"'shop' is missing in {(SHOP <= 2).sum()} rows"):
        model.robust_errors(few, cluster="shop")
    with pytest.raises(ds.errors.ColumnError, match="it must be one value a row"):
        model.robust_errors(one, cluster="pair")
    with pytest.raises(ds.errors.ColumnError, match="unknown column 'shops'"):
        model.robust_errors(one, cluster="shops")


def test_a_row_with_leverage_1_has_no_hc3():
    frame = TABLE.select("a", "y", kind=pl.Series(["rare", *["common"] * (ROWS - 1)]))
    model = ds.fit(frame, "y")
    for cov_type in ("HC2", "HC3"):
        with pytest.raises(ds.errors.DataError, match="1 rows have leverage 1"):
            model.robust_errors(frame, cov_type=cov_type)
    assert model.robust_errors(frame).summary()["std_error"].null_count() == 1  # aliased


@pytest.mark.slow
def test_models_that_have_none_say_why():
    joint = ds.anytime_sequence(TABLE.select(*COLUMNS, "y", "w"), ["y", "w"]).at()
    classes = ds.fit(TABLE.select(*COLUMNS, "shop"), "shop", family="multinomial", ridge=1.0)
    flag = ds.fit(TABLE, "flag", COLUMNS, family="binomial")
    model, _ = fitted()
    for refused, options, told in [
        (ds.fit(TABLE, "y", COLUMNS, ridge=0.1), {}, r"ridge is 0\.1"),
        (joint, {}, "ask one of model.responses"),
        (classes, {}, "whose classes have a predictor each"),
        (ds.fit(TABLE, "flag", COLUMNS, ridge=0.1, family="binomial"), {}, r"ridge is 0\.1"),
        (flag, {"cov_type": "HC3"}, "it has 'HC0', 'HC1', 'cluster' and 'HAC'"),
        (model, {"cov_type": "HC4"}, "cov_type is 'HC4'; it must be one of"),
        (model, {"cov_type": "cluster"}, "needs the column of the clusters"),
        (model, {"cov_type": "HC1", "cluster": "shop"}, "no other type has one"),
        (model, {"cluster": 3}, "cluster is 3"),
    ]:
        with pytest.raises(ds.errors.ArgumentError, match=told):
            refused.robust_errors(TABLE, **options)
    with pytest.raises(ds.errors.ArgumentError, match="data is a Gram and holds no rows"):
        model.robust_errors(ds.gram(TABLE.select(*COLUMNS, "y")))
    with pytest.raises(ds.errors.ColumnError, match="the rows lack column 'a', which"):
        model.robust_errors(TABLE.drop("a"))
    with pytest.raises(ds.errors.ColumnError, match="weight 'name' has type"):
        model.robust_errors(TABLE, weight="name")


SECOND = RNG.integers(0, 12, ROWS)
MOMENTS = TABLE.with_columns(second=pl.Series([f"s{one}" for one in SECOND]), time=np.arange(ROWS))
SHUFFLED = MOMENTS.sample(fraction=1.0, shuffle=True, seed=3)


@fits
def test_clusters_in_two_ways_have_the_errors_of_statsmodels(intercept, weight, monkeypatch):
    in_parts(monkeypatch)
    ours, truth = fitted(intercept, weight)
    found = ours.robust_errors(SHUFFLED, weight=weight, cluster=["shop", "second"])
    groups = np.column_stack([SHOP, SECOND])
    assert_same(found, truth.get_robustcov_results("cluster", groups=groups))
    assert (found.free, found.clusters) == (11, 12)


@fits
@pytest.mark.parametrize("lags", [0, 1, 6])
def test_rows_in_the_order_of_a_time_have_the_errors_of_statsmodels(intercept, weight, lags):
    ours, truth = fitted(intercept, weight)
    found = ours.robust_errors(SHUFFLED, weight=weight, time="time", maxlags=lags)
    assert_same(found, truth.get_robustcov_results("HAC", maxlags=lags))


def test_rows_of_one_time_are_summed():
    """As statsmodels' hac-groupsum (Driscoll, Kraay), whose lags are times."""
    frame = MOMENTS.with_columns(day=pl.col("time") // 3)
    ours, truth = fitted()
    found = ours.robust_errors(frame.sample(fraction=1.0, shuffle=True, seed=4), time="day")
    lags = int(4 * (ROWS / 3 / 100) ** (2 / 9))
    days = frame["day"].to_numpy()
    told = truth.get_robustcov_results(
        "hac-groupsum", time=days, maxlags=lags, use_correction=False
    )
    np.testing.assert_allclose(found.covariance, told.cov_params(), rtol=1e-9)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"cluster": ["shop", "second"]}, ("cluster", {"groups": np.column_stack([SHOP, SECOND])})),
        ({"time": "time", "maxlags": 4}, ("HAC", {"maxlags": 4})),
    ],
)
def test_a_family_has_both(asked, told):
    ours = ds.fit(MOMENTS, "count", COLUMNS, family="poisson", tol=1e-12)
    y = TABLE["count"].to_numpy()
    truth = sm.GLM(y, sm.add_constant(X), families.Poisson())
    kind, options = told
    fit = truth.fit(cov_type=kind, cov_kwds=options, tol=1e-14)
    assert_same(ours.robust_errors(SHUFFLED, **asked), fit, 1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cluster": ["shop", "shop"]}, "it must be a column, or two of them"),
        ({"cov_type": "HAC"}, "'HAC' needs the column of the times"),
        ({"cluster": "shop", "time": "time"}, "'cluster' needs the column of the clusters"),
        ({"maxlags": 3}, "only cov_type 'HAC' has lags"),
        ({"time": "time", "maxlags": -1}, "maxlags is -1; it must be a whole number >= 0"),
        ({"time": "name"}, "time 'name' has type .*; it must be a number or a date"),
    ],
)
def test_ways_and_times_that_are_none_are_refused(given, message):
    model, _ = fitted()
    with pytest.raises(ds.DbselectError, match=message):
        model.robust_errors(MOMENTS, **given)
