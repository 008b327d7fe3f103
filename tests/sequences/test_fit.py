"""Fits of named columns, and summaries: statsmodels on the rows, exact rational solutions."""

import warnings
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from trials.rationals import fitted as rational_fit

import dbselect as ds
from dbselect.errors import ArgumentError, ColumnError, DataError, SelectionWarning


def table(rng: np.random.Generator, rows: int = 60) -> pl.DataFrame:
    """Return correlated columns of unequal units, a target and row weights."""
    X = rng.normal(size=(rows, 4)) @ rng.normal(size=(4, 4)) * [1.0, 100.0, 0.01, 1.0] + [
        0,
        5,
        1,
        9,
    ]
    y = 7 + X @ [2.0, 0.01, 0.0, -1.0] + rng.normal(size=rows)
    return pl.DataFrame(X, schema=["a", "b", "c", "d"]).with_columns(
        y=pl.Series(y), w=pl.Series(rng.uniform(0.5, 3.0, rows))
    )


def refit(frame: pl.DataFrame, columns: list[str], weight: str | None, intercept: bool):
    """Return statsmodels' fit."""
    X = frame.select(columns).to_numpy()
    X = np.column_stack([np.ones(len(X)), X]) if intercept else X
    w = np.ones(len(X)) if weight is None else frame[weight].to_numpy()
    return sm.WLS(frame["y"].to_numpy(), X, w).fit()


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weight", [None, "w"])
def test_summary_is_that_of_statsmodels(weight, intercept):
    frame = table(np.random.default_rng(1))
    frame = frame if weight else frame.drop("w")
    model = ds.fit(frame, "y", weight=weight, intercept=intercept)
    fit = refit(frame, list("abcd"), weight, intercept)
    found = model.summary()
    assert found["term"].to_list() == ["(intercept)"] * intercept + list("abcd")
    for name, expected in [
        ("estimate", fit.params),
        ("std_error", fit.bse),
        ("statistic", fit.tvalues),
        ("p_value", fit.pvalues),
    ]:
        np.testing.assert_allclose(found[name], expected, rtol=1e-10)
    assert model.r2 == pytest.approx(fit.rsquared, rel=1e-12)


def test_aliased_terms_have_estimate_0_and_no_error():
    rng = np.random.default_rng(2)
    X = rng.integers(-9, 9, (30, 2))
    frame = pl.DataFrame(X, schema=["a", "b"]).with_columns(
        total=pl.col("a") + pl.col("b"),
        one=pl.lit(1),
        y=pl.Series(X @ [1.0, 2.0] + rng.normal(size=30)),
    )
    model = ds.fit(frame, "y", ["a", "b", "total", "one"])
    found = model.summary()
    assert model.aliased == ("total", "one")
    assert found.rows()[3:] == [(name, 0.0, None, None, None, None) for name in ("total", "one")]
    fit = refit(frame, ["a", "b"], None, True)
    np.testing.assert_allclose(found["std_error"][:3], fit.bse, rtol=1e-10)
    np.testing.assert_allclose(found["p_value"][:3], fit.pvalues, rtol=1e-9)


@pytest.mark.parametrize("rows", [2, 3])
def test_models_without_rows_left_have_estimates_only(rows):
    frame = table(np.random.default_rng(3), rows)
    found = ds.fit(frame, "y", ["a", "b"]).summary()
    assert found["estimate"].null_count() == 0
    assert found.select("std_error", "statistic", "p_value").null_count().row(0) == (3, 3, 3)


def test_source_of_any_kind_gives_the_same_model(as_any_source):
    frame = table(np.random.default_rng(6)).drop("w")
    model = ds.fit(as_any_source(frame), "y", ["a", "c"])
    expected = refit(frame, ["a", "c"], None, True).params
    np.testing.assert_allclose(
        [model.intercept, *model.coefficients.values()], expected, rtol=1e-10
    )
    assert (model.groups, model.spent) == (["a", "c"], 2.0)


def test_columns_are_all_but_target_and_weight_unless_named():
    frame = table(np.random.default_rng(8))
    assert ds.fit(frame, "y", weight="w").columns == list("abcd")
    assert ds.fit(frame, "y", ["*"], weight="w").columns == list("abcd")
    assert ds.fit(frame, "y", ["d", "[a", "b"][::2]).columns == ["d", "b"]
    assert ds.fit(frame, "y").columns == [*"abcd", "w"]


def test_ridge_is_that_of_a_sequence_and_has_no_summary():
    frame = table(np.random.default_rng(9)).drop("w")
    for scale in (True, False):
        model = ds.fit(frame, "y", ridge=0.5, scale=scale)
        expected = ds.anytime_sequence(frame, "y", ridge=0.5, scale=scale).at()
        assert model.coefficients == pytest.approx(expected.coefficients, rel=1e-10)
        assert model.r2 == pytest.approx(expected.r2)
    for ridged in (model, expected):
        with pytest.raises(ArgumentError, match=r"ridge is 0\.5; standard errors are those of"):
            ridged.summary()


def mirrored(half: pl.DataFrame) -> pl.DataFrame:
    """Return whole numbers with means of 0; of 2^k rows, their comoments are exact."""
    return pl.concat([half, half.select(-pl.all())])


def test_fit_keeps_every_digit_that_the_gram_has():
    # The Gram is exact: only the solver can lose digits.
    rng = np.random.default_rng(10)
    a = rng.integers(-1000, 1000, 64)
    b = a + rng.integers(-1, 2, 64) * (rng.random(64) < 0.1)
    half = pl.DataFrame({"a": a, "b": b, "y": rng.integers(-1000, 1000, 64)})
    frame = mirrored(half)
    gram = ds.gram(frame)
    X = frame.to_numpy().astype(object)
    (aa, ab, ay), (_, bb, by), _ = (X.T @ X).tolist()
    determinant = aa * bb - ab * ab
    exact = [Fraction(ay * bb - by * ab, determinant), Fraction(aa * by - ab * ay, determinant)]
    assert np.linalg.cond(gram.correlation()[:2, :2]) > 1e6
    expected = [float(value) for value in exact]
    np.testing.assert_allclose([*ds.fit(gram, "y").coefficients.values()], expected, rtol=1e-15)
    # A search has a rounded product of two spreads between.
    seq = ds.anytime_sequence(gram, "y", {"all": ["a", "b"]}).at()
    np.testing.assert_allclose([*seq.coefficients.values()], expected, rtol=1e-14)


def test_prefixes_of_nearly_dependent_columns_keep_the_digits_of_the_gram():
    rng = np.random.default_rng(11)
    base = rng.integers(-(2**15), 2**15, 128)
    X = base[:, None] + rng.integers(-20, 21, (128, 6))
    half = pl.DataFrame(X, schema=[f"x{j}" for j in range(6)]).with_columns(
        y=pl.Series(base + rng.integers(-(2**15), 2**15, 128))
    )
    seq = ds.anytime_sequence(ds.gram(mirrored(half)), "y")
    assert 1e6 < seq.condition < 1e10
    whole = {name: list(map(Fraction, mirrored(half)[name])) for name in half.columns}
    for size in range(1, 7):
        model = seq.at(size=size)
        features = [whole[name] for name in model.columns]
        _, *slopes = rational_fit(features, whole["y"], [Fraction(1)] * 256)
        expected = dict(zip(model.columns, map(float, slopes), strict=True))
        assert model.coefficients == pytest.approx(expected, rel=1e-13)


def test_summary_of_a_chosen_model_warns():
    frame = table(np.random.default_rng(13)).drop("w")
    seq = ds.anytime_sequence(frame, "y", always=["a"])
    chosen = [seq.at(budget=2.0), ds.greedy(frame, "y", k=2)]
    chosen += [ds.sght(frame, "y", max_columns=2, max_groups=2), ds.backward(frame, "y").at(size=2)]
    for model in chosen:
        with pytest.warns(SelectionWarning, match="p-values are too small") as caught:
            found = model.summary()
        assert caught[0].filename == __file__
        fit = refit(frame, model.columns, None, True)
        np.testing.assert_allclose(found["p_value"], fit.pvalues, rtol=1e-9)


def test_summary_of_columns_that_could_not_be_others_does_not_warn():
    frame = table(np.random.default_rng(14)).drop("w")
    seq = ds.anytime_sequence(frame, "y", always=["a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert seq.at(budget=0.0).summary()["term"].to_list() == ["(intercept)"]
        assert seq.at(budget=2.0).summary().height == 3
        assert seq.at().summary().height == 5
        assert ds.fit(frame, "y", ["b"]).summary().height == 2


def test_models_that_know_no_rows_are_refused():
    model = ds.results.Model("y", 1.0, {"a": 2.0}, ["a"], 1.0, 0.5, 0.5, ())
    sparse = ds.sght(
        table(np.random.default_rng(16)), "y", max_columns=2, max_groups=2, refit=False
    )
    for one in (model, sparse):
        with pytest.raises(
            ArgumentError, match=r"the model has no statistics of its rows; .* dbselect\.fit"
        ):
            one.summary()


FRAME = pl.DataFrame({"a": [1.0, 2.0, 4.0], "b": [1.0, 3.0, 2.0], "y": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize(
    ("source", "arguments", "error", "message"),
    [
        (FRAME, {"target": "z"}, ColumnError, "'z'"),
        (FRAME, {"target": 3}, ColumnError, "target is 3"),
        (FRAME, {"columns": ["q"]}, ColumnError, "'q'"),
        (FRAME, {"columns": []}, ColumnError, "columns is empty"),
        (FRAME, {"columns": ["y"]}, ColumnError, "columns names 'y', which is the target"),
        (FRAME, {"columns": ["a", "b"], "weight": "b"}, ColumnError, "which is the weight; leave"),
        (FRAME, {"weight": "q"}, ColumnError, "'q'"),
        (ds.gram(FRAME), {"weight": "a"}, ArgumentError, "a Gram was made with its weights"),
        (FRAME.with_columns(y=1.0), {}, DataError, "target 'y' is constant"),
        (FRAME.clear(), {}, DataError, "no usable rows"),
    ],
)
def test_wrong_arguments_are_refused(source, arguments, error, message):
    with pytest.raises(error, match=message):
        ds.fit(source, **({"target": "y"} | arguments))


def test_columns_need_not_be_whole_groups():
    table = pl.DataFrame({"a": [1, 2, 3, 5], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    problem = ds.Problem(table, "y", {"ab": ["a", "b"]}, {"ab": 2.0})
    alone = ds.fit(table, "y", ["a"])
    for source in (table, ds.gram(table)):
        found = problem.on(source).fit(["a"])
        assert found.coefficients == pytest.approx(alone.coefficients, rel=1e-12)
    assert problem.fit().groups == ["ab"]
