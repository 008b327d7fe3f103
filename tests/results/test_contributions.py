"""What each group adds to a prediction: by hand from the coefficients, for every kind of model."""

import numpy as np
import polars as pl
import pytest

import dbselect as ds

RNG = np.random.default_rng(5)
ROWS = 120
X = RNG.normal(size=(ROWS, 3)) * [1.0, 20.0, 1.0] + [5.0, -300.0, 0.0]
ETA = 0.3 * (X[:, 0] - 5.0) + 0.02 * (X[:, 1] + 300.0)
TABLE = pl.DataFrame(X, ["a", "b", "c"]).with_columns(
    k=pl.Series(RNG.choice(["p", "q", "r"], ROWS)),
    y=ETA + RNG.normal(size=ROWS),
    n=pl.Series(RNG.poisson(np.exp(ETA))),
    one=pl.Series(RNG.random(ROWS) < 1 / (1 + np.exp(-ETA))),
    w=RNG.uniform(0.5, 2.0, ROWS),
)
GROUPS = {"ab": ["a", "b"], "c": ["c"], "k": ["k"]}
LINKS = {"gaussian": lambda p: p, "poisson": np.log, "binomial": lambda p: np.log(p / (1 - p))}
TARGETS = {"gaussian": "y", "poisson": "n", "binomial": "one"}


@pytest.mark.parametrize("family", LINKS)
@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("chosen", [False, True])
def test_groups_add_up_to_the_prediction_less_its_mean(family, weight, chosen):
    target = TARGETS[family]
    asked = {"groups": GROUPS, "family": family, "weight": weight}
    model = ds.fit(TABLE, target, **asked)
    if chosen:
        model = ds.anytime_sequence(TABLE, target, **asked).model(2)
    found = model.contributions(TABLE)
    eta = LINKS[family](model.predict(TABLE))
    mean = np.average(eta, weights=TABLE["w"] if weight else None)
    np.testing.assert_allclose(found.sum_horizontal(), eta - mean, atol=1e-10)
    assert found.columns == list(model.groups)
    if "ab" in found.columns:
        own = X[:, :2] @ [model.coefficients["a"], model.coefficients["b"]]
        own -= np.average(own, weights=TABLE["w"] if weight else None)
        np.testing.assert_allclose(found["ab"], own, atol=1e-10)


def test_other_rows_can_be_the_background():
    """As shap's LinearExplainer: coefficients times the distance from the mean of its rows."""
    model, other = ds.fit(TABLE, "y", ["a", "b"]), TABLE.head(30)
    expected = np.array([model.coefficients["a"], model.coefficients["b"]])
    expected = expected * (X[:, :2] - X[:30, :2].mean(axis=0))
    np.testing.assert_allclose(model.contributions(TABLE, other), expected, atol=1e-10)


def test_classes_follow_each_other():
    model = ds.fit(TABLE, "k", ["a", "c"], family="multinomial")
    found = model.contributions(TABLE)
    assert found["class"].to_list() == [k for k in "pqr" for _ in range(ROWS)]
    for k in "pqr":
        own = model.coefficients[k]["a"] * (X[:, 0] - X[:, 0].mean())
        np.testing.assert_allclose(found.filter(pl.col("class") == k)["a"], own, atol=1e-10)


def test_missing_values_and_offsets():
    gaps = TABLE.with_columns(a=pl.when(pl.col("a") > 4.0).then(pl.col("a")))
    model = ds.fit(gaps, "y", groups=GROUPS, null_policy="indicator")
    found, told = model.contributions(gaps), model.predict(gaps)
    np.testing.assert_allclose(found.sum_horizontal(), told - told.mean(), atol=1e-10)
    model = ds.fit(TABLE, "n", ["a"], family="poisson", exposure="w")
    with pytest.raises(ds.errors.ArgumentError, match="give some rows as background"):
        model.contributions(TABLE)
    eta = np.log(model.predict(TABLE))
    found = model.contributions(TABLE, TABLE)
    np.testing.assert_allclose(found.sum_horizontal(), eta - eta.mean(), atol=1e-10)


def test_a_file_keeps_the_means(tmp_path):
    for family, target in TARGETS.items():
        model = ds.fit(TABLE, target, ["a", "k"], family=family)
        model.write_parquet(tmp_path / "m.parquet")
        again = ds.read(tmp_path / "m.parquet").contributions(TABLE)
        np.testing.assert_allclose(again, model.contributions(TABLE), atol=1e-12)
