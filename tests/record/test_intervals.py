"""Confidence intervals: statsmodels' for every family, and what has none."""

import numpy as np
import polars as pl
import pytest

import dbselect as ds

sm = pytest.importorskip("statsmodels.api")

RNG = np.random.default_rng(3)
X = RNG.normal(size=(90, 2)) * [1.0, 50.0] + [3.0, -200.0]
ETA = 0.5 * X[:, 0] - 0.01 * X[:, 1] - 3.5
TABLE = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": ETA + RNG.normal(size=90)}).with_columns(
    flag=pl.Series(RNG.random(90) < 1 / (1 + np.exp(-ETA))),
    positive=pl.Series(RNG.gamma(2.0, np.exp(ETA) / 2)),
    copy=2 * pl.col("a"),
)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("intercept", [True, False])
def test_of_least_squares_by_students_t(level, intercept):
    found = ds.fit(TABLE, "y", ["a", "b"], intercept=intercept).intervals(level)
    design = sm.add_constant(X) if intercept else X
    expected = sm.OLS(TABLE["y"].to_numpy(), design).fit().conf_int(1 - level)
    np.testing.assert_allclose(found.select("low", "high").to_numpy(), expected, rtol=1e-9)
    assert found.columns == ["term", "estimate", "std_error", "low", "high"]


@pytest.mark.parametrize(
    ("target", "family", "truth"),
    [
        ("flag", "binomial", sm.families.Binomial()),
        ("positive", "gamma", sm.families.Gamma(sm.families.links.Log())),
    ],
)
def test_of_families_by_the_normal_distribution(target, family, truth):
    found = ds.fit(TABLE, target, ["a", "b"], family=family).intervals(0.9)
    y = TABLE[target].to_numpy().astype(float)
    expected = sm.GLM(y, sm.add_constant(X), truth).fit(tol=1e-14).conf_int(0.1)
    np.testing.assert_allclose(found.select("low", "high").to_numpy(), expected, rtol=1e-4)


def test_an_aliased_column_has_none_and_chosen_ones_are_warned_of():
    found = ds.fit(TABLE, "y", ["a", "b", "copy"]).intervals()
    assert found.filter(term="copy").select("low", "high").row(0) == (None, None)
    seq = ds.anytime_sequence(TABLE.select("a", "b", "y"), "y")
    with pytest.warns(ds.errors.SelectionWarning) as told:
        seq.at(size=1).intervals()
    assert told[0].filename == __file__
    chosen = ds.anytime_sequence(TABLE.select("a", "b", "flag"), "flag", family="binomial")
    with pytest.warns(ds.errors.SelectionWarning) as told:
        chosen.at(size=1).intervals()
    assert told[0].filename == __file__
    assert ds.fit(TABLE.head(2), "y", ["a"]).intervals()["low"].null_count() == 2


@pytest.mark.parametrize("level", [0, 1, 95, "0.95", None])
def test_a_level_that_cannot_be_is_refused(level):
    for model in (ds.fit(TABLE, "y", ["a"]), ds.fit(TABLE, "flag", ["a"], family="binomial")):
        with pytest.raises(ds.errors.ArgumentError, match="level is"):
            model.intervals(level)
