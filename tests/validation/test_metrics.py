"""Metrics of every prefix on rows, against scikit-learn's metrics of its own predictions."""

import pickle

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal
from sklearn import metrics as truth
from test_row_scores import rows, search

import dbselect as ds
from dbselect.sources.partial.partial_aggregates import merge_of, partial_of
from dbselect.validation.scoring.metrics import auc, ndcg

#: Both sides add some hundred rows of doubles up.
CLOSE = {"rtol": 1e-9, "atol": 1e-10}
#: Families of the tables of the GLM tests; "linear" is a search on a Gram.
FAMILIES = ("linear", "binomial", "poisson", "multinomial")
NAMES = {
    "linear": ["mse", "rmse", "mae", "r2", "auc", "gini", "ks", "payoff", "accuracy", "ndcg",
               "ndcg@3"],
    "poisson": ["mse", "rmse", "mae", "r2", "ndcg@5", "exponential_ndcg@5"],
    "binomial": ["mae", "r2", "brier", "log_loss", "auc", "gini", "ks", "payoff", "accuracy",
                 "ndcg@2"],
    "multinomial": ["brier", "log_loss", "auc", "gini", "accuracy"],
}  # fmt: skip
PAYOFF = (3.0, -5.0)


def judged_rows(seed: int = 0) -> pl.DataFrame:
    """Return the table of the GLM tests with a query of each row, of weights of its own."""
    frame = rows(seed)
    rng = np.random.default_rng(seed + 7)
    query = rng.integers(0, 25, frame.height)
    weights = rng.uniform(0.2, 3.0, 25)
    return frame.with_columns(q=pl.Series([f"q{k}" for k in query]), v=weights[query])


def sequence_of(frame: pl.DataFrame, family: str):
    if family != "linear":
        return search(frame, family)
    groups = {"ab": ["a", "b"], "c": ["c"], "de": ["d", "e"]}
    return ds.anytime_sequence(frame, "binomial", groups)


def expected(name: str, seq, step: int, frame: pl.DataFrame, weights) -> float:
    """Return scikit-learn's metric of what a prefix predicts."""
    guess = seq.model(step).predict(frame)
    y, by = frame[seq.target].to_numpy(), {"sample_weight": weights}
    classes = list(getattr(seq, "classes", ()))
    kind, _, most = name.partition("@")
    if "ndcg" in kind:
        found = [_of_query(kind, most, y, guess, frame["q"] == q) for q in sorted(set(frame["q"]))]
        each = None
        if weights is not None:
            each = [weights[(frame["q"] == q).to_numpy()][0] for q in sorted(set(frame["q"]))]
        return float(np.average(found, weights=each))
    if kind == "accuracy":
        label = np.array(classes)[guess.argmax(axis=1)] if classes else (guess > 0.5).astype(int)
        return truth.accuracy_score(y if classes else y.astype(int), label, **by)
    if kind == "auc":
        return truth.roc_auc_score(y, guess, **by, multi_class="ovr")
    if kind == "log_loss":
        return truth.log_loss(y, guess, labels=classes or [0, 1], **by)
    if kind == "brier":
        given = {"labels": classes} if classes else {}
        return truth.brier_score_loss(y, guess, **by, **given, scale_by_half=not classes)
    calls = {
        "gini": _gini, "ks": _ks, "payoff": _payoff,
        "mse": truth.mean_squared_error, "rmse": truth.root_mean_squared_error,
        "mae": truth.mean_absolute_error, "r2": truth.r2_score,
    }  # fmt: skip
    return calls[kind](y, guess, **by)


def _gini(y, guess, **by) -> float:
    return 2 * truth.roc_auc_score(y, guess, **by, multi_class="ovr") - 1


def _ks(y, guess, sample_weight) -> float:
    low, high, _ = truth.roc_curve(y, guess, sample_weight=sample_weight, drop_intermediate=False)
    return np.abs(high - low).max()


def _payoff(y, guess, sample_weight) -> float:
    is_accepted = guess * PAYOFF[0] + (1 - guess) * PAYOFF[1] > 0
    return np.average(np.where(is_accepted, np.where(y, *PAYOFF), 0), weights=sample_weight)


def _of_query(kind: str, most: str, y, guess, there: pl.Series) -> float:
    at = there.to_numpy()
    gain = y[at] if kind == "ndcg" else 2.0 ** y[at] - 1
    return truth.ndcg_score([gain], [guess[at]], k=int(most) if most else None)


@pytest.mark.sample(4)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_prefix_is_measured_as_scikit_learn_does(family, weighted):
    frame = judged_rows()
    train, test = frame[:150], frame[150:]
    sizes = test["q"].value_counts().filter(pl.col("count") > 1)["q"]  # what ndcg_score needs
    test = test.filter(pl.col("q").is_in(sizes.implode()))
    seq = sequence_of(train, family)
    names = NAMES[family]
    weight = "v" if weighted else None
    weights = test["v"].to_numpy() if weighted else None
    key = "q" if any("ndcg" in name for name in names) else None
    payoff = PAYOFF if "payoff" in names else None
    asked = [f"payoff@{PAYOFF[0]}:{PAYOFF[1]}" if name == "payoff" else name for name in names]
    found = ds.evaluate(seq, test, metric=asked, weight=weight, key=key)
    if payoff:
        others = [name for name in names if name != "payoff"]
        by_amounts = ds.evaluate(seq, test, metric=others, payoff=payoff, weight=weight, key=key)
        assert_frame_equal(by_amounts.table.select(found.table.columns), found.table)
    assert found.table.columns == ["step", "action", "group", "spent", *names]
    assert_frame_equal(found.table[:, :4], seq.steps.select(found.table.columns[:4]))
    assert found.rows == test.height
    for step in range(len(seq.spent)):
        for name in names:
            want = expected(name, seq, step, test, weights)
            np.testing.assert_allclose(found.table[name][step], want, **CLOSE, err_msg=name)
    last = ds.evaluate(seq.model(len(seq.spent) - 1), test, metric=asked, weight=weight, key=key)
    assert_frame_equal(last.table, found.table[-1:, 3:], rel_tol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_ranks_with_ties_are_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    n = 40
    score, y = rng.integers(0, 6, n).astype(float), rng.integers(0, 2, n).astype(float)
    weight = rng.uniform(size=n)
    want = truth.roc_auc_score(y, score, sample_weight=weight)
    assert auc(score, y, weight) == pytest.approx(want, rel=1e-12)
    query = np.sort(np.r_[0:8, 0:8, rng.integers(0, 8, n - 16)])
    gain = rng.integers(0, 4, n).astype(float)
    for most in (None, 1, 3):
        (found,) = ndcg([score], gain, query, most)
        for q in range(8):
            at = query == q
            want = truth.ndcg_score([gain[at]], [score[at]], k=most)
            assert found[q] == pytest.approx(want, abs=1e-12)


def test_rounding_does_not_part_what_is_tied():
    rng = np.random.default_rng(3)
    score = rng.integers(1, 5, 60) / 7
    y = rng.integers(0, 2, 60).astype(float)
    apart = score * (1 + rng.uniform(-1e-15, 1e-15, 60))
    assert auc(apart, y, np.ones(60)) == auc(score, y, np.ones(60))


def test_one_large_prediction_ties_no_others():
    rng = np.random.default_rng(4)
    score, y = rng.normal(size=50), rng.integers(0, 2, 50).astype(float)
    for largest in (1e15, -1e15, 1e300):
        score[7] = largest
        assert auc(score, y, np.ones(50)) == pytest.approx(truth.roc_auc_score(y, score), rel=1e-12)
        (found,) = ndcg([score], y, np.zeros(50, np.intp), None)
        assert found[0] == pytest.approx(truth.ndcg_score([y], [score]), rel=1e-12)


def test_a_probability_that_rounds_to_one_keeps_its_logarithm_and_its_order():
    rng = np.random.default_rng(5)
    x = rng.normal(size=200)
    y = rng.random(200) < 1 / (1 + np.exp(-x))
    model = ds.fit(pl.DataFrame({"x": x, "y": y}), "y", family="binomial")
    far = pl.DataFrame({"x": [60.0, 80.0, -70.0, 90.0], "y": [True, False, True, True]})
    found = ds.evaluate(model, far, metric=["log_loss", "auc"]).table
    eta = model.intercept + model.coefficients["x"] * far["x"].to_numpy()
    assert np.abs(eta).min() > 40  # of which the probability is 1, or below 1e-17
    loss = np.logaddexp(0.0, np.where(far["y"], -eta, eta)).mean()
    assert found["log_loss"][0] == pytest.approx(loss, rel=1e-12)
    assert found["auc"][0] == truth.roc_auc_score(far["y"], eta)


def test_every_engine_measures_the_same(tmp_path):
    frame = judged_rows(1)
    seq = search(frame[:150], "binomial")
    test = frame[150:]
    names = ["log_loss", "auc", "ndcg@3"]
    want = ds.evaluate(seq, test, metric=names, key="q").table
    test.write_parquet(tmp_path / "t.parquet", row_group_size=30)
    con = duckdb.connect()
    con.register("test", test.to_arrow())
    con.execute("CREATE TYPE query AS ENUM (SELECT DISTINCT q FROM test)")
    stream = pa.RecordBatchReader.from_batches(
        test.to_arrow().schema, test.to_arrow().to_batches(max_chunksize=17)
    )
    sources = [
        tmp_path / "t.parquet", test.lazy(), con.table("test"), test.to_arrow(), stream,
        test.to_pandas(), test.with_columns(pl.col("q").cast(pl.Categorical)),
        con.sql("SELECT * REPLACE (q::query AS q) FROM test"),
    ]  # fmt: skip
    nested = test.with_columns(q=pl.struct("q")), test.with_columns(q=pl.concat_list("q"))
    for source in [*sources, *nested]:
        found = ds.evaluate(seq, source, metric=names, key="q").table
        assert_frame_equal(found, want, rel_tol=1e-9, abs_tol=1e-11)


def test_classes_are_read_of_arrow_text():
    frame = judged_rows(8)
    seq = search(frame, "multinomial")
    arrow = frame.to_arrow()  # texts as views, which Arrow itself does not compare
    assert_frame_equal(ds.evaluate(seq, arrow), ds.evaluate(seq, frame), rel_tol=1e-9)


def test_parts_add_up_in_any_process():
    from dbselect.validation.scoring.judging import judged

    frame = judged_rows(2)
    seq = search(frame, "multinomial")
    judging, _, _ = judged(seq, frame, ["squares"], "w", is_ranked=True)
    sent = pickle.loads(pickle.dumps(judging))
    parts = [partial_of(sent, [frame[at : at + 70].to_arrow()]) for at in range(0, 280, 70)]
    with judging.begin() as every:
        every.load(merge_of(sent, reversed(parts)))
        every.add(frame[280:].to_arrow())
    kind = judging.means(every.sums)["squares"]
    want = ds.evaluate(seq, frame, metric="brier", weight="w").table["brier"]
    np.testing.assert_allclose(kind, want, rtol=1e-12)


def test_rows_that_the_fit_would_leave_out_are_left_out():
    frame = judged_rows(3)
    seq = search(frame[:150], "poisson")
    whole = frame[150:]
    at = pl.int_range(pl.len())
    holed = pl.concat(
        [
            whole,
            whole[:9].with_columns(
                a=pl.when(at == 0).then(None).otherwise("a"),
                poisson=pl.when(at == 1).then(None).otherwise("poisson"),
                w=pl.when(at == 2).then(None).when(at == 3).then(0.0).otherwise("w"),
                q=pl.when(at == 4).then(None).otherwise("q"),
                e=pl.when(at >= 5).then(float("nan")).otherwise("e"),
            ),
        ]
    )
    found = ds.evaluate(seq, holed, metric=["mae", "rmse"], weight="w")
    assert (found.rows, found.skipped) == (whole.height + 1, 8)
    kept = pl.concat([whole, whole[4:5]])
    want = ds.evaluate(seq, kept, metric=["mae", "rmse"], weight="w")
    assert_frame_equal(found.table, want.table, rel_tol=1e-12)
    queries = ds.evaluate(seq, holed, metric="ndcg", key="q")
    assert queries.skipped == 7
    few = whole[:8].with_columns(a=pl.when(at < 5).then(None).otherwise("a"))
    with pytest.warns(ds.errors.SkippedRowsWarning, match="'a' is missing in 5"):
        ds.evaluate(seq, few, metric="mae")


def test_categories_curves_dates_and_filled_values_are_read_as_in_the_fit():
    rng = np.random.default_rng(5)
    n = 300
    frame = pl.DataFrame(
        {
            "k": rng.choice(["u", "v", "w"], n),
            "x": pl.Series(np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n))).fill_nan(
                None
            ),
            "day": pl.Series(rng.integers(0, 900, n)).cast(pl.Date),
            "z": rng.normal(size=n),
        }
    )
    y = pl.col("x").fill_null(2.0) + (pl.col("k") == "u") + pl.col("z").abs()
    frame = frame.with_columns(y=y + pl.col("day").to_physical() / 500)
    gram = ds.gram(frame, null_policy="indicator", basis={"z": ("spline", 4)})
    seq = ds.anytime_sequence(gram, "y")
    found = ds.evaluate(seq, frame, metric=["mse", "mae"])
    assert (found.rows, found.skipped) == (n, 0)
    np.testing.assert_allclose(found.table["mse"], ds.evaluate(seq, gram)["mse"], rtol=1e-8)
    model = seq.at()
    rest = np.abs(frame["y"].to_numpy() - model.predict(frame))
    assert found.table["mae"][-1] == pytest.approx(rest.mean(), rel=1e-10)
    unseen = frame.with_columns(k=pl.when(pl.int_range(n) < 30).then(pl.lit("new")).otherwise("k"))
    with pytest.warns(ds.errors.UnknownLevelWarning, match=r"10.00% of the rows .* 'k'"):
        new = ds.evaluate(seq, unseen, metric="mae")
    rest = np.abs(frame["y"].to_numpy() - model.predict(unseen, handle_unknown="mean"))
    assert new.table["mae"][-1] == pytest.approx(rest.mean(), rel=1e-10)


def test_a_metric_is_drawn_against_cost():
    pytest.importorskip("altair", reason="altair draws the pictures")
    frame = judged_rows(5)
    found = ds.evaluate(search(frame, "binomial"), frame, metric=["auc", "log_loss"])
    drawn = found.plot("log_loss").data
    assert_frame_equal(
        drawn.drop("label"),
        found.table.select("step", "group", "spent", value="log_loss"),
        check_exact=True,
    )
    assert "auc" in str(found.plot().to_dict()["title"])
    assert "<table" in found._repr_html_()
    with pytest.raises(ds.errors.ArgumentError, match="metric is 'mae'; it must be one of"):
        found.plot("mae")


def test_errors_name_what_is_allowed():
    frame = judged_rows(6)
    linear, joint = (
        sequence_of(frame, "linear"),
        ds.anytime_sequence(frame.select("a", "b", "c", "gaussian"), ["gaussian", "c"]),
    )
    binomial, poisson = search(frame, "binomial"), search(frame, "poisson")
    multinomial = search(frame, "multinomial")
    refused = [
        (binomial, frame, {"metric": "acc"}, "metric is 'acc'; it must be one of"),
        (binomial, frame, {"metric": "roc_auc"}, "did you mean 'auc'"),
        (binomial, frame, {"metric": "payoff"}, "metric is 'payoff'; it needs what a row earns"),
        (binomial, frame, {"payoff": 3}, "payoff is 3; it must be two numbers"),
        (poisson, frame, {"payoff": (1, -1)}, "which a family 'poisson' does not have"),
        (binomial, frame, {"metric": "logloss"}, "did you mean 'log_loss'"),
        (binomial, frame, {"weight": frame}, "weight is a DataFrame"),
        (binomial, frame, {"metric": 3}, "metric is 3; it must be a name"),
        (binomial, frame, {"metric": []}, "must be a name, or a list of different ones"),
        (binomial, frame, {"metric": ["auc", "auc"]}, "must be a name, or a list of different"),
        (binomial, frame, {"metric": "auc@3"}, "only .* have places"),
        (binomial, frame, {"metric": "ndcg@0", "key": "q"}, "metric is 'ndcg@0'"),
        (binomial, frame, {"metric": "ndcg"}, "key is missing"),
        (binomial, frame, {"metric": "auc", "key": "q"}, "key is 'q'; only the metrics"),
        (binomial, frame, {"key": "q"}, "key is 'q'; only a metric of queries"),
        (linear, frame, {"metric": "brier"}, "metric is 'brier', which a family 'gaussian'"),
        (poisson, frame, {"metric": "auc"}, "it is of classes; it has"),
        (multinomial, frame, {"metric": "mae"}, "it is of a number; it has"),
        (joint, frame, {"metric": "mae"}, r"give sequence.responses\['gaussian'\]"),
        (linear, ds.gram(frame, ["a", "binomial"]), {"metric": "mae"}, "holds no rows"),
        (linear, frame, {"metric": "mae", "weight": "ww"}, "weight names unknown column 'ww'"),
        (linear, frame, {"metric": "ndcg", "key": "qq"}, "key names unknown column 'qq'"),
        (linear, frame.drop("a"), {"metric": "mae"}, "the rows lack column 'a', .* reads$"),
        (linear, frame.drop("binomial"), {"metric": "mae"}, "target names unknown"),
        (linear, frame.with_columns(binomial=pl.lit("x")), {"metric": "mae"}, "target 'binomial'"),
        (linear, frame, {"metric": "mae", "weight": "multinomial"}, "weight 'multinomial' has"),
        (linear, frame.clear(), {"metric": "mae"}, "no usable rows"),
        (linear, frame.with_columns(binomial=2.0), {"metric": "ks"}, "boolean, as auc, gini, ks,"),
        (binomial, frame.with_columns(binomial=2.0), {"metric": "mae"}, "not 0/1 or boolean"),
        (multinomial, frame.with_columns(multinomial=pl.lit("x")), {"metric": "auc"}, "classes"),
        (linear, frame.with_columns(binomial=1.0), {"metric": "auc"}, "one class"),
        (linear, frame.with_columns(binomial=1.0), {"metric": "r2"}, "constant|1 in all"),
        (poisson, frame.with_columns(a=float("inf")), {"metric": "mae"}, "'a' has an infinite"),
        (linear, frame.with_columns(w=-1.0), {"metric": "mae", "weight": "w"}, "a weight is -1"),
        (linear, frame, {"metric": "ndcg", "key": "q", "weight": "w"}, "differ in weight"),
        (linear, frame.with_columns(a=pl.lit("x")), {"metric": "mae"}, "'a' has type String"),
    ]  # fmt: skip
    for seq, data, options, told in refused:
        with pytest.raises(ds.DbselectError, match=told):
            ds.evaluate(seq, data, **options)
