"""Estimators for scikit-learn: its own checks, and the answers of dbselect on the same rows."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import RFE
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import dbselect as ds
from dbselect.sklearn import (
    AnytimeClassifier,
    AnytimeRegressor,
    AnytimeSelector,
    FoBaSelector,
    SGHTSelector,
)
from dbselect.sklearn import training as kept

ESTIMATORS = [
    AnytimeRegressor(),
    AnytimeRegressor(ridge=0.1, cv=3, choice="one_standard_error"),
    AnytimeClassifier(),
    AnytimeClassifier(ridge=0.1, family="multinomial"),
    AnytimeSelector(),
    FoBaSelector(epsilon=1e-3),
    SGHTSelector(),
]
GROUPS = {"ab": ["a", "b"], "c": ["c"], "de": ["d", "e"], "f": ["f"]}
COSTS = {"ab": 2.0, "c": 1.0, "de": 3.0, "f": 0.5}
SELECTORS = [AnytimeSelector(budget=3.5), FoBaSelector(0.01), SGHTSelector(3, 2)]


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(240, 6))
    y = X @ [2.0, 1.0, 1.5, 0.2, 0.0, 0.5] + rng.normal(size=240)
    return pl.DataFrame(X, schema=list("abcdef")).with_columns(
        y=y,
        z=y + rng.normal(size=240),
        label=pl.Series(np.where(y > 0.3, "yes", "no")),
        level=pl.Series(np.array(["low", "mid", "top"])[np.digitize(y, [-1.5, 1.0])]),
        count=pl.Series(rng.poisson(np.exp(y / 4))),
        w=rng.integers(0, 4, 240).astype(float),
    )


def columns_of(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(list("abcdef"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dbselect.errors.SeparationWarning")
@pytest.mark.filterwarnings("ignore::dbselect.errors.ConditionWarning")
@pytest.mark.filterwarnings("ignore::dbselect.errors.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:No features were selected")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


# The same answers


SETS = {"shared": {"set": (1.0, ["ab", "c"])}, "needs": {"f": ["c"]}, "one_of": [["ab", "de"]],
        "limits": {"ms": ({"de": 3.0, "f": 1.0}, 3.0, "sum")}}  # fmt: skip


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sets", [{}, SETS])
def test_a_regressor_is_the_sequence_of_the_gram(frame, weighted, sets):
    options = {"rule": "omp", "ridge": 0.05, "budget": 4.0, **sets}
    weight = frame["w"].to_numpy() if weighted else None
    found = AnytimeRegressor(groups=GROUPS, costs=COSTS, **options)
    found.fit(columns_of(frame), frame["y"].to_numpy(), weight)
    table = frame.select(*"abcdef", "y", *(["w"] if weighted else []))
    gram = ds.gram(table, weight="w" if weighted else None)
    seq = ds.anytime_sequence(gram, "y", GROUPS, COSTS, **options)
    assert found.groups_ == seq.at().groups
    assert found.budget_ == seq.spent[-1] <= 4.0
    np.testing.assert_allclose(found.sequence_.explained, seq.explained, rtol=1e-12)
    np.testing.assert_allclose(
        found.predict(columns_of(frame)), seq.at().predict(frame), rtol=1e-10
    )
    np.testing.assert_allclose(found.coef_ @ frame["a":"f"].to_numpy().T + found.intercept_,
                               seq.at().predict(frame), rtol=1e-10)  # fmt: skip


def test_several_responses_and_counts(frame):
    X = columns_of(frame)
    both = AnytimeRegressor(3.0, groups=GROUPS, costs=COSTS).fit(
        X, frame.select("y", "z").to_numpy()
    )
    seq = ds.anytime_sequence(
        frame.select(*"abcdef", "y", "z"), ["y", "z"], GROUPS, COSTS, budget=3.0
    )
    np.testing.assert_allclose(both.predict(X), seq.at().predict(frame), rtol=1e-10)
    assert both.coef_.shape == (2, 6)
    assert both.intercept_.shape == (2,)
    counts = AnytimeRegressor(family="poisson", groups=GROUPS, rule="score").fit(X, frame["count"])
    table = frame.select(*"abcdef", "count")
    seq = ds.anytime_sequence(table, "count", GROUPS, family="poisson", rule="score")
    np.testing.assert_allclose(counts.predict(X), seq.at().predict(frame), rtol=1e-8)


@pytest.mark.parametrize(("target", "family"), [("label", "binomial"), ("level", "multinomial")])
def test_a_classifier_is_the_sequence_of_its_family(frame, target, family):
    X, y = columns_of(frame).to_pandas(), frame[target].to_numpy()
    found = AnytimeClassifier(3.5, groups=GROUPS, costs=COSTS, ridge=0.01)
    found.fit(X, y, sample_weight=frame["w"].to_numpy())
    own = (pl.col(target) == "yes") if family == "binomial" else pl.col(target)
    table = frame.select(*"abcdef", own, "w")
    seq = ds.anytime_sequence(
        table,
        target,
        GROUPS,
        COSTS,
        family=family,
        rule="score",
        budget=3.5,
        ridge=0.01,
        weight="w",
    )
    expected = seq.at().predict(frame)
    if family == "binomial":
        expected = np.column_stack([1 - expected, expected])
    assert found.groups_ == seq.at().groups
    np.testing.assert_allclose(found.predict_proba(X), expected, rtol=1e-7, atol=1e-9)
    assert found.classes_.tolist() == sorted(set(y))
    assert (found.predict(X) == found.classes_[expected.argmax(axis=1)]).all()
    assert found.score(X, y) == pytest.approx(np.mean(found.predict(X) == y))


@pytest.mark.parametrize("classes", [2, 3])
def test_a_classifier_through_the_origin_is_that_of_scikit_learn(classes):
    rng = np.random.default_rng(classes)
    X = rng.normal(0.5, 1.0, (200, 3))
    scores = X @ rng.normal(size=(3, classes)) + rng.normal(size=(200, classes))
    y = scores.argmax(axis=1)
    found = AnytimeClassifier(fit_intercept=False).fit(X, y)
    truth = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-12, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(found.predict_proba(X), truth.predict_proba(X), atol=1e-6)


def test_selectors_keep_what_the_calls_choose(frame):
    X, y = columns_of(frame), frame["y"].to_numpy()
    gram = ds.gram(frame.select(*"abcdef", "y"))
    expected = [
        ds.anytime_sequence(gram, "y", GROUPS, COSTS, budget=3.5).at(),
        ds.foba(gram, "y", GROUPS, COSTS, epsilon=0.01).at(),
        ds.sght(gram, "y", GROUPS, COSTS, max_columns=3, max_groups=2).model,
    ]
    for selector, model in zip(SELECTORS, expected, strict=True):
        found = clone(selector).set_params(groups=GROUPS, costs=COSTS).fit(X, y)
        assert set(found.get_feature_names_out()) == set(model.columns)
        assert found.groups_ == model.groups
        assert found.get_support(indices=True).tolist() == sorted(
            "abcdef".index(name) for name in model.columns
        )


# Frames, groups, pipelines


def test_frames_of_pandas_and_polars_are_arrays_with_names(frame):
    y = frame["y"].to_numpy()
    X = columns_of(frame)
    plain = AnytimeRegressor(2.0).fit(X.to_numpy(), y)
    for given in (X, X.to_pandas(), X.with_columns(pl.all().cast(pl.Float32).cast(pl.Float64))):
        found = AnytimeRegressor(2.0).fit(given, y)
        assert found.feature_names_in_.tolist() == list("abcdef")
        np.testing.assert_allclose(found.coef_, plain.coef_, rtol=1e-5)
    selector = AnytimeSelector(2.0).fit(X.to_pandas(), y)
    for way, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        out = selector.set_output(transform=way).transform(X.to_pandas())
        assert isinstance(out, kind)
        assert list(out.columns) == selector.get_feature_names_out().tolist()


def test_a_transformer_is_a_group(frame):
    X = frame.select(*"abc", "level").to_pandas()
    prepared = ColumnTransformer(
        [
            ("numbers", StandardScaler(), ["a", "b"]),
            ("level", OneHotEncoder(sparse_output=False), ["level"]),
        ],
        remainder="passthrough",
    )
    costs = {"numbers": 2.0, "level": 1.0, "remainder": 4.0}
    model = AnytimeRegressor(3.0, groups="prefix", costs=costs)
    pipe = make_pipeline(prepared.set_output(transform="pandas"), model).fit(X, frame["y"])
    assert set(pipe[-1].sequence_.groups.names) == set(costs)
    assert set(pipe[-1].groups_) == {"numbers", "level"}
    levels = pipe[-1].sequence_.groups.columns["level"]
    assert levels == [f"level__level_{one}" for one in ("low", "mid", "top")]


def test_groups_are_names_globs_or_numbers(frame):
    X, y = columns_of(frame), frame["y"].to_numpy()
    by_name = AnytimeRegressor(groups=GROUPS, costs=COSTS).fit(X, y)
    numbers = {"ab": [0, 1], "c": 2, "de": np.array([3, 4]), "f": ["f"]}
    assert AnytimeRegressor(groups=numbers, costs=COSTS).fit(X, y).groups_ == by_name.groups_
    odd = X.rename({"a": "x*", "b": "x[1]", "c": "x.missing", "d": "y", "e": "sample_weight"})
    every = AnytimeRegressor().fit(odd, y, np.ones(len(y)))
    np.testing.assert_allclose(every.coef_, AnytimeRegressor().fit(X, y).coef_, rtol=1e-10)


def test_a_pipeline_routes_weights_and_budgets(frame):
    import sklearn

    X, y, w = columns_of(frame).to_numpy(), frame["y"].to_numpy(), frame["w"].to_numpy()
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            AnytimeRegressor()
            .set_fit_request(sample_weight=True)
            .set_predict_request(budget=True)
            .set_score_request(sample_weight=True)
        )
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        pipe.fit(X, y, sample_weight=w)
        own = AnytimeRegressor().fit(X, y, w)
        np.testing.assert_allclose(pipe.predict(X), own.predict(X), rtol=1e-9)
        np.testing.assert_allclose(
            pipe.predict(X, budget=2.0), own.predict(X, budget=2.0), rtol=1e-9
        )
        scores = cross_validate(model, X, y, cv=3, params={"sample_weight": w})
        assert scores["test_score"].min() > 0.5
    assert RFE(AnytimeRegressor(), n_features_to_select=2).fit(X, y).support_.sum() == 2


# Budgets


def test_a_grid_of_budgets_reads_each_fold_once(frame, monkeypatch):
    X, y = columns_of(frame), frame["y"].to_numpy()
    read = []
    real = kept.read_gram
    monkeypatch.setattr(
        kept, "read_gram", lambda *given, **more: read.append(1) or real(*given, **more)
    )
    kept.KEPT.clear()
    budgets = {"budget": [0.5, 1.5, 3.5, 5.0, 6.5], "ridge": [0.0, 0.1]}
    grid = GridSearchCV(AnytimeRegressor(groups=GROUPS, costs=COSTS), budgets, cv=KFold(4))
    grid.fit(X, y)
    assert len(read) == 4 + 1  # and that of all rows, for the refit
    for k, (train, test) in enumerate(KFold(4).split(y)):
        gram = ds.gram(frame[train].select(*"abcdef", "y"))
        for at, point in enumerate(grid.cv_results_["params"]):
            model = ds.anytime_sequence(gram, "y", GROUPS, COSTS, **point).at()
            rest = frame[test]["y"] - model.predict(frame[test])
            r2 = 1 - (rest**2).sum() / ((frame[test]["y"] - frame[test]["y"].mean()) ** 2).sum()
            assert grid.cv_results_[f"split{k}_test_score"][at] == pytest.approx(r2, rel=1e-9)


def test_what_is_kept_is_told_by_its_rows_and_bounded(frame):
    X, y = columns_of(frame).to_numpy(), frame["y"].to_numpy()
    first = AnytimeRegressor().fit(X, y)
    changed = X.copy()
    changed[3, 2] += 1e-6
    other = AnytimeRegressor().fit(changed, y)
    assert not np.array_equal(other.sequence_.gram.comoment, first.sequence_.gram.comoment)
    weighted = AnytimeRegressor().fit(X, y, np.full(len(y), 2.0))
    assert weighted.sequence_.gram.weight == 2 * first.sequence_.gram.weight
    turned = AnytimeRegressor().fit(np.asfortranarray(X), y)
    np.testing.assert_allclose(turned.coef_, first.coef_, rtol=1e-12)
    cache = kept.GramCache(2 * 8 * 49)
    made = []
    for key in (b"1", b"2", b"1", b"3", b"1", b"2"):
        cache.get(key, lambda key=key: made.append(key) or ds.gram(columns_of(frame)[:, :6]))
    assert made in ([b"1", b"2", b"3", b"2"], [b"1", b"2", b"3", b"2"])


@pytest.mark.parametrize("splits", [KFold(4), ShuffleSplit(5, random_state=0), 3])
def test_cv_takes_the_budget_that_is_best_on_rows_held_out(frame, splits):
    X, y = columns_of(frame).to_numpy(), frame["y"].to_numpy()
    rng = np.random.default_rng(0)
    X = np.column_stack([X, rng.normal(size=(len(X), 20))])[:60]
    y = y[:60]
    found = AnytimeRegressor(cv=splits).fit(X, y)
    whole = AnytimeRegressor().fit(X, y).sequence_
    by_hand = []
    folds = KFold(splits) if isinstance(splits, int) else splits
    for train, test in folds.split(X):
        seq = AnytimeRegressor().fit(X[train], y[train]).sequence_
        scores = []
        for budget in whole.spent:
            guess = seq.at(float(budget)).predict(X[test], [f"x{j}" for j in range(26)])
            scores.append(1 - np.mean((y[test] - guess) ** 2) / y.var())
        by_hand.append(scores)
    mean = np.mean(by_hand, axis=0)
    np.testing.assert_allclose(found.cv_results_["mean"], mean, atol=1e-8)
    assert found.step_ == mean.argmax() < len(whole.spent) - 1
    error = np.std(by_hand, axis=0, ddof=1)[found.step_] / np.sqrt(len(by_hand))
    simple = AnytimeRegressor(cv=splits, choice="one_standard_error").fit(X, y)
    assert simple.step_ == np.flatnonzero(mean >= mean.max() - error)[0]


def test_em_fits_and_predicts_what_a_row_has_but_judges_none():
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = X @ [1.0, 0.5]
    X[:30, 1] = np.nan
    rows = pl.DataFrame({"x0": X[:, 0], "x1": X[:, 1], "y": y}).fill_nan(None)
    expected = ds.Problem(ds.patterns(rows), "y").predictor().predict(rows)["prediction"]
    found = AnytimeRegressor(null_policy="em").fit(X, y)
    np.testing.assert_allclose(found.predict(X, available=True), expected)
    np.testing.assert_allclose(found.predict(X), expected)
    with pytest.raises(ds.errors.ArgumentError, match="null_policy is 'em'; with cv it would fill"):
        AnytimeSelector(null_policy="em", cv=3).fit(X, y)


@pytest.mark.parametrize("target", ["y", "label", "level"])
def test_at_prediction_time_each_row_has_the_longest_prefix_it_can_have(frame, target):
    estimator = AnytimeRegressor if target == "y" else AnytimeClassifier
    X, y = columns_of(frame), frame[target].to_numpy()
    found = estimator(groups=GROUPS, costs=COSTS, ridge=0.01).fit(X, y)
    predict = found.predict if target == "y" else found.predict_proba
    for budget in (0.0, 0.7, 3.0, np.inf):
        prefix = found.sequence_.at(budget)
        expected = prefix.predict(X)
        if target == "label":
            expected = np.column_stack([1 - expected, expected])
        np.testing.assert_allclose(predict(X, budget=budget), expected, rtol=1e-12)
        bought = X.select(prefix.columns) if prefix.columns else X.select("a")
        np.testing.assert_allclose(predict(bought, budget=budget), expected, rtol=1e-12)
    second = found.sequence_.model(2)
    lost = found.sequence_.steps["group"][3]
    holed = X[:5].with_columns(
        **{GROUPS[lost][0]: pl.when(pl.int_range(5) == 1).then(None).otherwise(GROUPS[lost][0])}
    )
    rows = predict(holed, budget=np.inf)
    own = second.predict(X[1:2])
    assert rows[1] == pytest.approx(np.r_[1 - own, own] if target == "label" else own[0])
    np.testing.assert_allclose(rows[[0, 2, 3, 4]], predict(X, budget=np.inf)[[0, 2, 3, 4]])
    column = GROUPS[lost][0]
    with pytest.warns(ds.errors.UnknownLevelWarning, match="1 of 5 rows have a level"):
        filled = predict(holed.to_pandas())
    mean = holed.with_columns(pl.col(column).fill_null(X[column].mean()))
    np.testing.assert_allclose(filled, predict(mean.to_pandas()), rtol=1e-12)
    found.handle_unknown = "error"
    with pytest.raises(ValueError, match="row 1 of X lacks a value that the model needs"):
        found.predict(holed.to_pandas())
    with pytest.raises(ValueError, match="feature names"):
        found.predict(X.drop("a").to_pandas())
    with pytest.raises(ds.errors.ArgumentError, match="budget is -1"):
        found.predict(X, budget=-1)
    # A column that the budget can buy is needed, unless it may be absent.
    less = X.drop(GROUPS[lost][0])
    with pytest.raises(ds.errors.ColumnError, match="the rows lack column"):
        predict(less, budget=np.inf)
    own = second.predict(X)
    expected = np.column_stack([1 - own, own]) if target == "label" else own
    for budget in (None, np.inf):
        found_ = predict(less, budget=budget, missing_columns="unavailable")
        np.testing.assert_allclose(found_, expected, rtol=1e-12)
    for frame_ in (X, X.to_pandas()):
        np.testing.assert_allclose(
            predict(frame_, missing_columns="unavailable"), predict(X), rtol=1e-12
        )
    with pytest.raises(ds.errors.ArgumentError, match="missing_columns is 'no'"):
        found.predict(X, missing_columns="no")
    budgets = np.where(np.arange(len(X)) % 2, np.inf, 0.0)
    both = predict(X, budget=0.0), predict(X, budget=np.inf)
    mixed = np.where(np.reshape(budgets > 0, (-1, *[1] * (both[0].ndim - 1))), both[1], both[0])
    np.testing.assert_allclose(predict(X, budget=budgets), mixed, rtol=1e-12)


# Storage, and what is refused


@pytest.mark.slow
@pytest.mark.parametrize("target", ["y", "label", "level", "yz"])
def test_estimators_survive_pickle_and_skops(frame, target):
    skops = pytest.importorskip("skops.io", reason="skops stores estimators")
    X = columns_of(frame).to_numpy()
    y = frame.select("y", "z").to_numpy() if target == "yz" else frame[target].to_numpy()
    found = (AnytimeRegressor if "y" in target else AnytimeClassifier)(cv=3).fit(X, y)
    name = f"{type(found).__module__}.{type(found).__name__}"
    text = skops.dumps(found)
    trusted = skops.get_untrusted_types(data=text)
    assert [one for one in trusted if "polars" not in one] == [name]
    for back in (pickle.loads(pickle.dumps(found)), skops.loads(text, trusted=trusted)):
        assert np.array_equal(back.predict(X), found.predict(X))
        assert back.groups_ == found.groups_
        if target == "label":
            np.testing.assert_array_equal(back.model_.errors.values, found.model_.errors.values)
    for selector in SELECTORS:
        fitted = clone(selector).fit(X, frame["y"].to_numpy())
        text = skops.dumps(fitted)
        back = skops.loads(text, trusted=skops.get_untrusted_types(data=text))
        assert np.array_equal(back.transform(X), fitted.transform(X))


def test_mistakes_are_told_by_name(frame):
    X, y = columns_of(frame).to_numpy(), frame["y"].to_numpy()
    labels = frame["level"].to_numpy()
    refused = [
        (AnytimeRegressor(groups=3), y, "groups is 3; it must be None, 'prefix', or map"),
        (AnytimeRegressor(groups={"a": [9]}), y, "numbers from 0 to 5"),
        (AnytimeRegressor(groups={"a": ["x0"]}, costs={"b": 1}), y, "costs names unknown group"),
        (AnytimeRegressor(needs={"x0": ["x9"]}), y, "needs of 'x0' names unknown group 'x9'"),
        (SGHTSelector(one_of=[["x0", "x1"]]), y, "sght weighs groups one by one"),
        (AnytimeRegressor(rule="best"), y, "rule is 'best'; it must be one of"),
        (AnytimeRegressor(budget="2"), y, "budget is '2'"),
        (AnytimeRegressor(family="binomial"), y, "family is 'binomial'; it must be one of"),
        (AnytimeRegressor(choice="worst"), y, "choice is 'worst'"),
        (AnytimeRegressor(cv=3, choice="worst"), y, "choice is 'worst'"),
        (AnytimeRegressor(), y * 0, "target 'y' is constant"),
        (AnytimeClassifier(family="binomial"), labels, "y has 3 classes"),
        (AnytimeClassifier(), np.full(len(y), "a"), "y has one class"),
        (AnytimeClassifier(family="poisson"), labels, "family is 'poisson'"),
        (FoBaSelector(nu=2), y, "nu is 2"),
        (SGHTSelector(max_columns=9), y, "max_columns is 9"),
    ]
    for estimator, target, told in refused:
        with pytest.raises(ValueError, match=told):
            estimator.fit(X, target)
    with pytest.raises(ValueError, match=r"(?i)sample weights .*zero"):
        AnytimeSelector().fit(X, y, np.zeros(len(y)))


# Rows as they come


def gaps(frame: pl.DataFrame) -> pl.DataFrame:
    """Return columns of which one is text and one has missing values."""
    number = pl.int_range(pl.len())
    return frame.select(
        "a",
        b=pl.when(number % 7 != 0).then("b"),
        kind=pl.when(number % 3 == 0).then(pl.lit("u")).otherwise(pl.lit("v")),
    )


@pytest.mark.parametrize("form", ["polars", "pandas"])
def test_text_and_missing_values_are_as_in_the_call(frame, form):
    X = gaps(frame)
    given = X.to_pandas() if form == "pandas" else X
    found = AnytimeRegressor().fit(given, frame["y"].to_numpy())
    table = X.with_columns(frame["y"])
    seq = ds.anytime_sequence(table, "y", null_policy="indicator")
    assert found.sequence_.columns == seq.columns
    assert "b.missing" in seq.columns
    np.testing.assert_allclose(found.predict(given), seq.at().predict(X), rtol=1e-12, atol=1e-14)
    assert found.coef_.shape == (len(seq.columns),)
    late = frame["label"].to_numpy()
    classes = AnytimeClassifier(ridge=0.01).fit(given, late)
    own = ds.anytime_sequence(
        X.with_columns(late=frame["label"] == "yes"), "late",
        family="binomial", rule="score", ridge=0.01, null_policy="indicator",
    )  # fmt: skip
    np.testing.assert_allclose(
        classes.predict_proba(given)[:, 1], own.at().predict(X), rtol=1e-6, atol=1e-9
    )
    chosen = AnytimeSelector(budget=2.0).fit(given, frame["y"].to_numpy())
    kept_groups = ds.anytime_sequence(table, "y", null_policy="indicator", budget=2.0).at().groups
    assert sorted(chosen.get_feature_names_out()) == sorted(kept_groups)
    own = X.select(sorted(kept_groups, key=X.columns.index))
    assert_frame_equal(chosen.set_output(transform="polars").transform(X), own)
    of_pandas = chosen.transform(given)
    assert of_pandas.columns == own.columns


def test_sparse_rows_are_dense_ones(frame, monkeypatch):
    monkeypatch.setattr(kept, "PART_BYTES", 3000)
    rng = np.random.default_rng(2)
    dense = rng.normal(size=(240, 6)) * (rng.uniform(size=(240, 6)) < 0.3)
    rows = sparse.csr_matrix(dense)
    y = dense @ [2.0, 1.0, 0.0, 0.5, 0.0, 0.3] + frame["a"].to_numpy()
    weight = frame["w"].to_numpy()
    both = [AnytimeRegressor(3.0).fit(X, y, weight) for X in (rows, dense)]
    assert both[0].groups_ == both[1].groups_
    np.testing.assert_allclose(both[0].coef_, both[1].coef_, rtol=1e-10)
    np.testing.assert_allclose(both[0].predict(rows), both[1].predict(dense), rtol=1e-9)
    budgets = np.repeat([1.0, 2.0], 120)
    np.testing.assert_allclose(
        both[0].predict(rows, budgets), both[1].predict(dense, budgets), rtol=1e-9
    )
    least = np.linalg.lstsq(
        np.column_stack([np.ones(240), dense[:, both[0].coef_ != 0]]) * np.sqrt(weight)[:, None],
        y * np.sqrt(weight), rcond=None,
    )[0]  # fmt: skip
    np.testing.assert_allclose(both[0].coef_[both[0].coef_ != 0], least[1:], rtol=1e-8)


def test_weights_of_classes_are_those_of_scikit_learn(frame):
    X, y = columns_of(frame).to_numpy(), frame["label"].to_numpy()
    ridge = 1e-9
    own = AnytimeClassifier(ridge=ridge, class_weight="balanced").fit(X, y)
    other = LogisticRegression(C=1e12, class_weight="balanced", tol=1e-10, max_iter=5000).fit(X, y)
    np.testing.assert_allclose(own.predict_proba(X), other.predict_proba(X), atol=1e-5)
