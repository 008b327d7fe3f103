"""The most likely dispersion of negative binomial counts: statsmodels' joint fit, at every door."""

import warnings

import numpy as np
import polars as pl
import pytest
from scipy import special

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.glm import dispersion
from dbselect.glm.links import kind_of_family
from dbselect.record.formulas import arrays, column, translate

sm = pytest.importorskip("statsmodels.api")

N = 260
COLUMNS = ["a", "b"]
#: The name of a family has eight digits.
NAMED = 2e-7
#: What is left of statsmodels' joint search.
SEARCHED = 1e-5


def table(alpha: float = 0.7, seed: int = 2) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2))
    hours = rng.gamma(2.0, 2.0, N) + 0.2
    mean = hours * np.exp(0.4 * X[:, 0] - 0.2 * X[:, 1])
    y = rng.poisson(mean * rng.gamma(1 / alpha, alpha, N))
    return pl.DataFrame(
        {"a": X[:, 0], "b": X[:, 1], "hours": hours, "w": rng.integers(1, 4, N), "y": y}
    )


TABLE = table()


def number_of(family: str) -> float:
    assert kind_of_family(family) == "negative_binomial"
    return float(family.partition("(")[2].rstrip(")"))


@pytest.mark.parametrize("exposure", [None, "hours"])
@pytest.mark.parametrize("alpha", [0.2, 0.7, 6.0])
def test_fits_are_those_of_statsmodels(alpha, exposure):
    frame = table(alpha)
    X = sm.add_constant(frame.select(COLUMNS).to_numpy())
    more = {} if exposure is None else {"exposure": frame["hours"].to_numpy()}
    y = frame["y"].to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of steps to dispersions below 0
        truth = sm.NegativeBinomial(y, X, **more)
        truth = truth.fit(disp=0, method="bfgs", maxiter=2000, gtol=1e-9)
    found = ds.fit(frame, "y", COLUMNS, family="negative_binomial", exposure=exposure)
    assert number_of(found.family) == pytest.approx(truth.params[-1], rel=SEARCHED)
    summary = found.summary()
    np.testing.assert_allclose(summary["estimate"], truth.params[:-1], rtol=10 * SEARCHED)
    fixed = sm.families.NegativeBinomial(alpha=number_of(found.family))
    given = sm.GLM(y, X, fixed, **more).fit(tol=1e-13)
    np.testing.assert_allclose(summary["std_error"], given.bse, rtol=1e-4)
    assert found.deviance == pytest.approx(given.deviance, rel=1e-9)


def test_weights_count_rows():
    plain = ds.fit(TABLE, "y", COLUMNS, family="negative_binomial", weight="w")
    repeated = TABLE.select(pl.all().repeat_by("w")).explode(pl.all())
    every = ds.fit(repeated, "y", COLUMNS, family="negative_binomial")
    assert number_of(plain.family) == pytest.approx(number_of(every.family), rel=NAMED)


@pytest.mark.slow
def test_searches_have_that_of_all_columns(tmp_path, capsys):
    model = ds.fit(TABLE, "y", COLUMNS, family="negative_binomial")
    groups = {name: [name] for name in COLUMNS}
    seq = ds.anytime_sequence(TABLE, "y", groups, family="negative_binomial")
    given = ds.anytime_sequence(TABLE, "y", groups, family=model.family)
    assert seq.family == given.family
    np.testing.assert_allclose(seq.deviance, given.deviance, rtol=1e-12)
    assert ds.Problem(
        TABLE, "y", groups, family="negative_binomial"
    ).objective().model().family == (model.family)
    path, out = tmp_path / "t.parquet", tmp_path / "s.json"
    TABLE.select(*COLUMNS, "y").write_parquet(path)
    call = ["sequence", str(path), "--target", "y", "--family", "negative_binomial"]
    assert main([*call, "--out", str(out)]) == 0
    assert model.family in capsys.readouterr().out
    assert ds.results.GlmSequence.read_json(out).family == model.family
    with ds.connect() as con:
        con.execute(f"CREATE TABLE t AS FROM '{path}'")
        call = "SELECT anytime_sequence_glm('t', 'y', 'negative_binomial').family"
        assert con.execute(call).fetchall() == [(model.family,)]


def test_counts_that_vary_no_more_than_poissons_are_told():
    rng = np.random.default_rng(4)
    frame = TABLE.with_columns(y=pl.Series(rng.binomial(8, 0.5, N)))
    with pytest.raises(
        ds.errors.DataError, match="'y' varies no more than counts of family 'poisson'"
    ):
        ds.fit(frame, "y", COLUMNS, family="negative_binomial")


@pytest.mark.parametrize("family", ["negative_binomial", "negative_binomial(0.7)"])
def test_counts_below_0_are_refused(family):
    frame = TABLE.with_columns(y=pl.when(pl.int_range(N) == 3).then(-5).otherwise("y"))
    with pytest.raises(ds.errors.DataError, match="'y' has a value that is not >= 0"):
        ds.fit(frame, "y", COLUMNS, family=family)


def test_derivatives_of_the_gamma_function():
    x = np.array([1e-6, 1e-3, 0.3, 1.0, 2.5, 17.0, 1e3, 1e8])
    algebra = arrays({("x",): x}.__getitem__)
    found = translate(dispersion._digamma(column(("x",))), algebra)
    np.testing.assert_allclose(found, special.digamma(x), rtol=1e-13, atol=1e-14)
    found = translate(dispersion._trigamma(column(("x",))), algebra)
    np.testing.assert_allclose(found, special.polygamma(1, x), rtol=1e-13)
