"""What a summary prints above its terms: statsmodels' numbers, and one table below them."""

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from statsmodels.stats.outliers_influence import variance_inflation_factor

import dbselect as ds


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    rng = np.random.default_rng(12)
    X = rng.normal([30.0, 0.0, -3.0], size=(150, 3))
    y = X @ [0.5, -1.0, 0.2] + rng.normal(size=150)
    return pl.DataFrame(X, list("abc")).with_columns(
        y=pl.Series(y), w=pl.Series(rng.uniform(0.5, 3.0, 150)), late=pl.Series(y > np.median(y))
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.filterwarnings("ignore::dbselect.errors.LeakageWarning")
def test_the_numbers_of_a_linear_model_are_those_of_statsmodels(rows, weighted, intercept):
    X = rows.select("a", "b", "c").to_numpy()
    X = np.column_stack([np.ones(150), X]) if intercept else X
    weight = rows["w"].to_numpy() if weighted else np.ones(150)
    truth = sm.WLS(rows["y"].to_numpy(), X, weights=weight).fit()
    table = rows.select("a", "b", "c", "y", *(["w"] if weighted else []))
    weighting = "w" if weighted else None
    model = ds.fit(table, "y", list("abc"), weight=weighting, intercept=intercept)
    assert model.df_residual == truth.df_resid
    assert model.sigma == pytest.approx(truth.scale**0.5, rel=1e-9)
    assert model.adjusted_r2 == pytest.approx(truth.rsquared_adj, rel=1e-9)
    # Weights add a constant of the rows to statsmodels' likelihood.
    constant = float(np.log(weight).sum())
    assert model.aic == pytest.approx(truth.aic + constant, rel=1e-9)
    assert model.bic == pytest.approx(truth.bic + constant, rel=1e-9)
    found = model.covariance()
    own = found.select(pl.exclude("term")).to_numpy()
    assert found["term"].to_list() == found.columns[1:]
    np.testing.assert_allclose(own, truth.cov_params(), rtol=1e-5, atol=1e-12)
    errors = model.summary()["std_error"].to_numpy()
    np.testing.assert_allclose(np.sqrt(np.diagonal(own)), errors, rtol=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    ("family", "kind"),
    [
        ("binomial", sm.families.Binomial()),
        ("gamma(log)", sm.families.Gamma(sm.families.links.Log())),
    ],
)
def test_the_covariance_of_a_family_is_that_of_statsmodels(rows, family, kind, intercept):
    late = pl.col("late").cast(float) if family == "binomial" else (pl.col("a") / 30).abs() + 0.1
    table = rows.select("b", "c", y=late)
    X = table.select("b", "c").to_numpy()
    X = sm.add_constant(X) if intercept else X
    truth = sm.GLM(table["y"].to_numpy(), X, family=kind).fit(tol=1e-12)
    found = ds.fit(table, "y", family=family, intercept=intercept).covariance()
    assert found["term"].to_list() == found.columns[1:]
    own = found.drop("term").to_numpy()
    scale = np.sqrt(np.diagonal(own))
    # The last step of a fit leaves its information by some 1e-5.
    gap = (own - truth.cov_params()) / np.outer(scale, scale)
    assert np.abs(gap).max() < 1e-3


def test_the_covariance_of_classes_is_that_of_differences_from_one(rows):
    kinds = np.arange(150) % 3
    X = sm.add_constant(rows.select("b", "c").to_numpy())
    truth = sm.MNLogit(kinds, X).fit(disp=False, method="newton", maxiter=100)
    # Ours sum to 0 over the classes: b_k less the mean, where that of class 0 is 0.
    centre = np.eye(3)[:, 1:] - 1.0 / 3.0
    turn = np.kron(centre, np.eye(3))
    expected = turn @ np.asarray(truth.cov_params()) @ turn.T
    table = rows.select("b", "c", y=pl.Series(kinds).cast(pl.String))
    model = ds.fit(table, "y", family="multinomial")
    found = model.covariance()
    assert found["term"][:4].to_list() == ["0: (intercept)", "0: b", "0: c", "1: (intercept)"]
    np.testing.assert_allclose(found.drop("term"), expected, atol=1e-4 * expected.max())
    seq = ds.anytime_sequence(table, "y", family="multinomial")
    with pytest.raises(ds.errors.ArgumentError, match="prefix of a sequence"):
        seq.model(2).covariance()


def test_what_is_made_of_the_target_is_named(rows):
    rng = np.random.default_rng(7)
    kind = pl.col("late").cast(float)
    paid = kind * pl.Series(rng.uniform(1.0, 9.0, 150))
    table = rows.select("b", "c", paid=paid, late=kind)
    for ask, where in ((ds.fit, "in this model"), (ds.anytime_sequence, "step 1 on, with 'paid',")):
        with pytest.warns(ds.errors.SeparationWarning, match=f"{where} .*most those of paid;"):
            ask(table, "late", family="binomial")
    size = pl.col("b").exp() * pl.Series(rng.gamma(4.0, size=150))
    grown = rows.select("b", "c", size=size).with_columns(
        log=pl.col("size").log() + 0.01 * pl.col("c")
    )
    for ask in (ds.fit, ds.anytime_sequence, ds.backward):
        with pytest.warns(ds.errors.LeakageWarning, match="of 'size', most by column 'log'; if"):
            ask(grown, "size", family="gamma(log)")
        ask(grown.head(99), "size", family="gamma(log)")
        ask(grown.drop("log"), "size", family="gamma(log)")


def test_a_level_that_others_determine_leaves_the_diagnoses_of_the_others(rows):
    table = rows.select("a", "b", "y", k=pl.Series(["p", "q", "r"] * 50))
    model = ds.fit(table, "y")
    (aliased,) = model.aliased
    kept = [name for name in model.columns if name != aliased]
    marks = {f"k.{level}": (table["k"] == level).cast(float) for level in "pqr"}
    X = sm.add_constant(table.with_columns(**marks).select(kept).to_numpy())
    unit = np.linalg.svd(X / np.linalg.norm(X, axis=0), compute_uv=False)
    assert model.condition_number == pytest.approx(unit[0] / unit[-1], rel=1e-9)
    vif = dict(model.vif().rows())
    assert vif.pop(aliased) == np.inf
    truth = [variance_inflation_factor(X, at) for at in range(1, X.shape[1])]
    np.testing.assert_allclose(list(vif.values()), truth, rtol=1e-9)
    partial = dict(model.partial_correlations().select("column", "partial").rows())
    assert partial.pop(aliased) is None
    t = sm.OLS(table["y"].to_numpy(), X).fit()
    expected = t.tvalues[1:] / np.sqrt(t.tvalues[1:] ** 2 + t.df_resid)
    np.testing.assert_allclose(list(partial.values()), expected, rtol=1e-9)


def test_a_summary_prints_every_term():
    rng = np.random.default_rng(3)
    names = [f"column {j:02}" for j in range(30)]
    table = pl.DataFrame(rng.normal(size=(100, 30)), names)
    printed = str(ds.fit(table.with_columns(y=pl.Series(rng.normal(size=100))), "y").summary())
    assert all(name in printed for name in names)
    assert printed.count("residual df") == 1


def test_a_summary_prints_its_fit_and_is_a_table(rows):
    model = ds.fit(rows.select("b", "c", "y"), "y")
    printed = str(model.summary())
    for fact in (
        "target y",
        "rows 150",
        "residual df 147",
        "sigma",
        "AIC",
        "F(2, 147)",
        "(intercept)",
    ):
        assert fact in printed
    assert "AIC" not in str(model.summary().select("term"))
    assert isinstance(pl.concat([model.summary(), model.summary()]), pl.DataFrame)
    assert "<pre>" in model.summary()._repr_html_()
    family = ds.fit(rows.select("b", "late"), "late", family="binomial")
    assert "LR(1)" in str(family.summary())


def test_a_ridge_has_no_covariance(rows):
    with pytest.raises(ds.errors.ArgumentError, match=r"ridge is 0\.1"):
        ds.fit(rows.select("b", "c", "y"), "y", ridge=0.1).covariance()
