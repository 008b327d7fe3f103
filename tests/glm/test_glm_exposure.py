"""An exposure: the column whose logarithm is an offset, in fits, on new rows, at every door."""

import duckdb
import numpy as np
import polars as pl
import pytest

import dbselect as ds

sm = pytest.importorskip("statsmodels.api")

N = 260
GROUPS = {"a": ["a"], "b": ["b"]}


def table() -> pl.DataFrame:
    """Return counts over hours, a nested exposure, and one that is not above 0."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 2))
    hours = rng.gamma(2.0, 3.0, N) + 0.1
    mean = hours * np.exp(0.3 * X[:, 0] - 0.2 * X[:, 1] - 1.0)
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "hours": hours, "logs": np.log(hours)})
    return frame.with_columns(
        more=pl.Series(0.1 * rng.normal(size=N)),
        both=pl.struct(time="hours"),
        y=pl.Series(rng.poisson(mean)),
        size=pl.Series(rng.gamma(2.0, mean / 2.0)),
    ).with_columns(hours=pl.when(pl.int_range(N) == 4).then(None).otherwise("hours"))


TABLE = table()
THERE = TABLE.drop_nulls()
FAMILIES = {
    "poisson": ("y", sm.families.Poisson()),
    "gamma": ("size", sm.families.Gamma(sm.families.links.Log())),
    "negative_binomial(0.5)": ("y", sm.families.NegativeBinomial(alpha=0.5)),
}
#: Newton's last step is taken without a pass.
FITTED = 1e-6


@pytest.mark.parametrize("offset", [None, "more"])
@pytest.mark.parametrize("family", FAMILIES)
def test_fits_are_those_of_statsmodels(family, offset):
    target, of_truth = FAMILIES[family]
    X = sm.add_constant(THERE.select("a", "b").to_numpy())
    more = {} if offset is None else {"offset": THERE[offset].to_numpy()}
    truth = sm.GLM(
        THERE[target].to_numpy(), X, of_truth, exposure=THERE["hours"].to_numpy(), **more
    )
    truth = truth.fit(tol=1e-14, maxiter=100)
    found = ds.fit(TABLE, target, ["a", "b"], family=family, exposure="hours", offset=offset)
    assert (found.exposure, found.offset, found.skipped) == ("hours", offset, 1)
    np.testing.assert_allclose(found.summary()["estimate"], truth.params, rtol=FITTED)
    np.testing.assert_allclose(found.summary()["std_error"], truth.bse, rtol=1e-4)
    assert found.deviance == pytest.approx(truth.deviance, rel=1e-10)
    assert found.null_deviance == pytest.approx(truth.null_deviance, rel=1e-10)
    np.testing.assert_allclose(found.predict(THERE), truth.fittedvalues, rtol=10 * FITTED)


def test_new_rows_in_every_engine():
    model = ds.fit(TABLE, "y", ["a", "b"], family="poisson", exposure="hours")
    rows = TABLE.with_columns(hours=pl.when(pl.int_range(N) < 2).then(0.0 - pl.int_range(N))
                              .otherwise("hours"))  # fmt: skip
    expected = model.predict(rows)
    # Over no time, or over less, nothing is predicted; over NULL neither.
    assert np.flatnonzero(np.isnan(expected)).tolist() == [0, 1, 4]
    later = rows["hours"].to_numpy() * np.exp(
        model.intercept + rows.select("a", "b").to_numpy() @ list(model.coefficients.values())
    )
    np.testing.assert_allclose(expected[5:], later[5:], rtol=1e-12)
    in_polars = rows.select(model.expr()).to_series().fill_null(np.nan).to_numpy()
    np.testing.assert_allclose(in_polars, expected, rtol=1e-12)
    con = duckdb.connect()
    con.register("rows_", rows.to_arrow())
    values = con.sql(f"SELECT {model.sql()} AS p FROM rows_").fetchnumpy()["p"]
    np.testing.assert_allclose(np.ma.filled(values, np.nan), expected, rtol=1e-12)
    matrix = rows.select("a", "b", "hours").to_numpy()
    np.testing.assert_allclose(model.predict(matrix), expected, rtol=1e-12)


def test_sequences_files_and_other_rows(tmp_path):
    seq = ds.anytime_sequence(TABLE, "y", GROUPS, family="poisson", exposure="hours")
    by_offset = ds.anytime_sequence(THERE, "y", GROUPS, family="poisson", offset="logs")
    np.testing.assert_allclose(seq.deviance, by_offset.deviance, rtol=1e-12)
    path = tmp_path / "seq.parquet"
    seq.write_parquet(path)
    again = ds.results.GlmSequence.read_parquet(path)
    assert again.exposure == "hours"
    assert again.terms == seq.terms
    np.testing.assert_array_equal(again.at().predict(TABLE), seq.at().predict(TABLE))
    for step in (0, 2):
        truth = by_offset.model(step).predict(THERE)
        np.testing.assert_allclose(seq.model(step).predict(THERE), truth, rtol=1e-6)
    for options in ({}, {"metric": ["mae", "r2", "ndcg"], "key": "y"}):
        judged, expected = (
            ds.evaluate(seq, TABLE, **options),
            ds.evaluate(by_offset, THERE, **options),
        )
        one, other = getattr(judged, "table", judged), getattr(expected, "table", expected)
        numbers = [name for name, dtype in one.schema.items() if dtype == pl.Float64]
        np.testing.assert_allclose(
            one.select(numbers), other.select(numbers), rtol=1e-6, atol=1e-12
        )
    without = TABLE.with_columns(hours=pl.when(pl.col("a") > 0).then("hours").otherwise(0.0))
    some = ds.evaluate(seq, without)
    kept = ds.evaluate(seq, without.filter(pl.col("hours") > 0))
    np.testing.assert_allclose(some["deviance"], kept["deviance"], rtol=1e-12)


def test_in_sql_and_polars():
    frame = TABLE.select("a", "b", "hours", "y")
    options = {"family": "poisson", "exposure": "hours"}
    truth = ds.anytime_sequence(frame, "y", **options)
    in_polars = frame.lazy().dbselect.anytime_sequence("y", **options)
    with ds.connect() as con:
        con.register("given", frame.to_arrow())
        con.execute("CREATE TABLE t AS FROM given")
        con.execute(
            "CREATE TABLE s AS SELECT "
            "anytime_sequence_glm('t', 'y', 'poisson', exposure := 'hours') AS seq"
        )
        ((stored,),) = con.execute("SELECT seq FROM s").fetchall()
        predict = "SELECT glm_predict(seq, {}).prediction AS p FROM t, s"
        p = con.execute(predict.format("t")).fetchnumpy()["p"]
        none = con.execute(predict.format("{'a': 1, 'b': 1, 'hours': 0}")).fetchnumpy()["p"]
    for one in (in_polars, ds.results.GlmSequence.from_struct(stored)):
        assert one.exposure == "hours"
        np.testing.assert_allclose(one.deviance, truth.deviance, rtol=1e-12)
    found = np.ma.filled(p, np.nan)
    np.testing.assert_allclose(found, truth.at().predict(frame), rtol=1e-7)
    assert np.ma.getmaskarray(none).all()


def test_a_nested_exposure():
    found = ds.fit(TABLE, "y", ["a", "b"], family="poisson", exposure="both.time")
    truth = ds.fit(TABLE, "y", ["a", "b"], family="poisson", offset="logs")
    assert found.deviance == pytest.approx(truth.deviance, rel=1e-12)
    np.testing.assert_allclose(found.predict(TABLE), truth.predict(TABLE), rtol=1e-6)
    np.testing.assert_allclose(
        TABLE.select(found.expr()).to_series(), truth.predict(TABLE), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"family": "binomial"}, "family 'binomial' has the link logit"),
        ({"family": "gaussian"}, "family 'gaussian' has the link identity"),
        ({"exposure": "nothing"}, "exposure"),
        ({"exposure": "word"}, "exposure 'word' has type string_view; it must be numeric"),
        ({"exposure": 3}, "exposure is 3"),
        ({"exposure": "a"}, "exposure 'a' has a value that is not above 0"),
        ({"columns": ["b", "hours.log"]}, "exposure 'hours' becomes 'hours.log'"),
    ],
)
def test_what_cannot_be_is_refused(given, words):
    frame = TABLE.with_columns(pl.col("a").alias("hours.log"), word=pl.lit("x"))
    given = {"family": "poisson", "columns": ["b"], "exposure": "hours"} | given
    with pytest.raises(ds.DbselectError, match=words):
        ds.fit(frame, "y", **given)
