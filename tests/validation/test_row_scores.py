"""Models of a family on rows not seen, against scikit-learn's scores of its own predictions."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.api as sm
from polars.testing import assert_frame_equal
from problems import in_passes
from sklearn.metrics import (
    d2_tweedie_score,
    mean_poisson_deviance,
)
from test_glm import table

import dbselect as ds

#: Both sides add some hundred rows of doubles up.
CLOSE = {"rtol": 1e-9, "atol": 1e-10}
GROUPS = {"ab": ["a", "b"], "c": ["c"], "de": ["d", "e"]}
FAMILIES = ("binomial", "poisson", "gaussian", "multinomial")


def rows(seed: int = 0) -> pl.DataFrame:
    """Return the table of the GLM tests with weights and a target of three texts."""
    frame = table(seed)
    rng = np.random.default_rng(seed + 50)
    noisy = frame["a"] / frame["a"].std() + frame["c"] / frame["c"].std()
    noisy = noisy.to_numpy() + rng.normal(size=frame.height)
    at = np.digitize(noisy, np.quantile(noisy, [0.2, 0.7]))
    return frame.with_columns(
        multinomial=pl.Series(["low", "middle", "top"])[at],
        w=pl.Series(rng.uniform(0.2, 3.0, frame.height)),
    )


def search(frame: pl.DataFrame, family: str, **options) -> ds.results.GlmSequence:
    return in_passes(frame, family, GROUPS, family=family, rule="score", **options)


@pytest.mark.parametrize("ridge", [0.0, 0.2])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_rows_of_the_search_give_its_own_steps(family, ridge):
    frame = rows(1)
    seq = search(frame, family, ridge=ridge)
    found = ds.evaluate(seq, frame)
    np.testing.assert_allclose(found["deviance"], seq.deviance / frame.height, rtol=1e-7)
    for name in ("explained", "r2"):
        np.testing.assert_allclose(found[name], seq.steps[name], atol=1e-7)


def test_an_offset_is_part_of_the_model_without_columns():
    frame = rows(2)
    train, test = frame[:200], frame[200:]
    seq = search(train, "poisson", offset="logs")
    found = ds.evaluate(seq, test)
    exposure = test["logs"].exp().to_numpy()
    rate = test["poisson"].to_numpy() / exposure
    for step, spent in enumerate(seq.spent):
        mean = seq.at(budget=float(spent)).predict(test)
        by = {"sample_weight": exposure}
        expected = mean_poisson_deviance(test["poisson"], mean)
        np.testing.assert_allclose(found["deviance"][step], expected, **CLOSE)
        d2 = d2_tweedie_score(rate, mean / exposure, power=1, **by)
        np.testing.assert_allclose(found["r2"][step], d2, **CLOSE)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("family", ["binomial", "poisson", "gaussian"])
def test_beside_an_offset_the_model_without_columns_is_fitted(family, intercept):
    frame = rows(2)
    train, test = frame[:200], frame[200:]
    seq = search(train, family, offset="logs", intercept=intercept, ridge=0.1)
    offset = test["logs"].to_numpy()
    ones = np.full((test.height, 1), float(intercept))
    kind = getattr(sm.families, family.capitalize())()
    null = sm.GLM(test[family].to_numpy(), ones, kind, offset=offset)
    mean = null.fit().fittedvalues if intercept else kind.link.inverse(offset)
    deviance = kind.deviance(test[family].to_numpy(), mean)
    found = ds.evaluate(seq, test)
    expected = deviance / test.height
    np.testing.assert_allclose(found["deviance"] / (1.0 - found["r2"]), expected, rtol=1e-9)


def test_a_stream_is_judged_but_beside_an_offset_of_classes():
    frame = rows(2)
    train, test = frame[:200], frame[200:]
    seq = search(train, "binomial")
    stream = pa.RecordBatchReader.from_stream(test)
    assert_frame_equal(ds.evaluate(seq, stream), ds.evaluate(seq, test), rel_tol=1e-12)
    seq = search(train, "binomial", offset="logs")
    with pytest.raises(ds.errors.SourceError, match="a stream that can be read only once"):
        ds.evaluate(seq, pa.RecordBatchReader.from_stream(test))


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_that_lack_a_column_judge_no_prefix(family):
    frame = rows(4)
    seq = search(frame[:200], family)
    test = frame[200:]
    holed = test.with_columns(
        pl.when(pl.int_range(pl.len()) % 5 > 0).then("d").alias("d"),
        pl.when(pl.int_range(pl.len()) % 7 > 0).then(family).alias(family),
    )
    whole = holed.drop_nulls(["d", family])
    assert 0 < whole.height < test.height
    assert_frame_equal(ds.evaluate(seq, holed), ds.evaluate(seq, whole), rel_tol=1e-12)


def test_of_equal_probabilities_the_first_class_is_foreseen():
    frame = pl.DataFrame({"x": [0, 1] * 6, "y": ["a", "b", "c"] * 4})
    seq = ds.anytime_sequence(frame, "y", family="multinomial", ridge=0.1)
    assert ds.evaluate(seq, frame)["accuracy"][0] == pytest.approx(1 / 3)
    halves = pl.DataFrame({"x": [0, 1, 2, 3], "y": [0, 1, 1, 0]})
    seq = ds.anytime_sequence(halves, "y", family="binomial")
    assert ds.evaluate(seq, halves)["accuracy"][0] == 0.5


@pytest.mark.slow
def test_what_cannot_be_judged_is_refused():
    frame = rows(6)
    seq = search(frame, "binomial")
    with pytest.raises(ds.errors.ArgumentError, match="data is a Gram and holds no rows"):
        ds.evaluate(seq, ds.gram(frame.select("binomial", "a")))
    with pytest.raises(ds.errors.ArgumentError, match="holds no rows"):
        ds.evaluate(seq, ds.gram(frame.select("a")).to_struct())
    with pytest.raises(ds.errors.DataError, match="no usable rows"):
        ds.evaluate(seq, frame.clear())
    with pytest.raises(ds.errors.DataError, match="target 'binomial' is constant"):
        ds.evaluate(seq, frame.with_columns(binomial=pl.lit(1.0)))
    with pytest.raises(ds.errors.DataError, match="a value that is not 0/1 or boolean"):
        ds.evaluate(seq, frame.with_columns(binomial=pl.lit(0.5)))
    with pytest.raises(ds.errors.ColumnError, match="lack column 'a'"):
        ds.evaluate(seq, frame.drop("a"))
    with pytest.raises(ds.errors.DataError, match="column 'a' has an infinite value"):
        ds.evaluate(seq, frame.with_columns(a=pl.lit(np.inf)))
    classes = search(frame, "multinomial")
    with pytest.raises(
        ds.errors.DataError, match=r"one of the model's classes \['low', 'middle', 'top'"
    ):
        ds.evaluate(classes, frame.with_columns(multinomial=pl.lit("lower")))
    counts = search(frame, "poisson")
    with pytest.raises(ds.errors.DataError, match="target 'poisson' is constant"):
        ds.evaluate(counts, frame.with_columns(poisson=pl.lit(0.0)))


@pytest.mark.parametrize("target", ["gaussian", ["gaussian", "poisson"]])
def test_a_table_judges_a_linear_sequence_as_its_gram_does(target):
    frame = rows(7).drop("multinomial")
    train, test = frame[:200], frame[200:]
    seq = ds.anytime_sequence(train, target, GROUPS)
    columns = [*np.atleast_1d(target), *seq.columns]
    for weight in (None, "w"):
        expected = ds.evaluate(seq, ds.gram(test, columns, weight))
        assert_frame_equal(ds.evaluate(seq, test, weight=weight), expected)
    with pytest.raises(ds.errors.ArgumentError, match="a Gram has its weights already"):
        ds.evaluate(seq, ds.gram(test), weight="w")


def test_sequences_of_a_family_are_compared_on_rows():
    frame = rows(9)
    train, test = frame[:200], frame[200:]
    sequences = {
        rule: ds.anytime_sequence(train, "binomial", GROUPS, family="binomial", rule=rule)
        for rule in ("score", "omp")
    }
    found = ds.compare(sequences, data=test, fraction=1.0)
    for name, seq in sequences.items():
        curve = ds.evaluate(seq, test)
        final = ds.evaluate(sequences["score"], test)["explained"].max()
        expected = ds.reference.timeliness(curve, 1.0, reference=sequences["score"], final=final)
        row = found.table.row(by_predicate=pl.col("name") == name, named=True)
        assert row["timeliness"] == pytest.approx(expected)
        assert row["explained"] == pytest.approx(curve["explained"][-1])
    with pytest.raises(ds.errors.ArgumentError, match="weight is 'w'; it is of the table in data"):
        ds.compare(sequences, weight="w")


def test_rows_with_gaps_are_judged_by_a_model_with_indicators():
    rng = np.random.default_rng(8)
    table = pl.DataFrame({"a": rng.normal(size=200), "k": rng.choice(["p", "q"], 200)})
    table = table.with_columns(
        a=pl.when(pl.Series(rng.random(200) > 0.2)).then("a"), z=pl.Series(rng.integers(0, 2, 200))
    )
    for target, columns in (("z", ["a", "k"]), ("z ~ a + k:a", None)):
        model = ds.fit(table, target, columns, family="binomial", null_policy="indicator")
        assert ds.evaluate(model, table)["r2"].item() == pytest.approx(model.explained)
