"""Cross-validation of a table, of several responses and of families is that of scikit-learn."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import Stream
from polars.testing import assert_frame_equal
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    d2_log_loss_score,
    d2_tweedie_score,
    log_loss,
    mean_poisson_deviance,
    mean_squared_error,
    ndcg_score,
    r2_score,
    roc_auc_score,
)
from sklearn.model_selection import TimeSeriesSplit
from sklearn.preprocessing import StandardScaler
from test_glm import table as glm_table

import dbselect as ds
from dbselect.errors import ArgumentError, ColumnError, FoldsWarning, SourceError

#: scikit-learn's solvers end at gradients of 1e-8 and less, on penalised problems; the
#: deviance errs by the square, and predictions on other rows by some ten times that.
SOLVED = {"rtol": 1e-6, "atol": 1e-7}
GROUPS = {"ab": ["a", "b"], "c": ["c"], "de": ["d", "e"]}
COSTS = {"ab": 3.0, "c": 0.5, "de": 2.0}
COLUMNS = ["a", "b", "c", "d", "e"]
RIDGE = 0.05


def rows(seed: int = 0, n: int = 400) -> pl.DataFrame:
    ids = np.random.default_rng(seed).permutation(n)
    return glm_table(seed, n).with_columns(id=ids)


def parts(
    frame: pl.DataFrame, k: int = 4, seed: int = 1
) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    """Return training and held-out rows of each fold, by the Polars plugin."""
    fold = frame.select(pl.col("id").dbselect.fold(k, seed).alias("fold"))["fold"]
    return [(frame.filter(fold != number), frame.filter(fold == number)) for number in range(k)]


def predicted(family: str, train: pl.DataFrame, test: pl.DataFrame, columns: list[str]) -> Any:
    """Return what scikit-learn's penalised fit on scaled columns predicts of other rows."""
    y = train[family].to_numpy()
    if not columns:
        if family == "multinomial":
            return np.tile([np.mean(y == name) for name in np.unique(y)], (test.height, 1))
        return np.full(test.height, y.mean())
    scaler = StandardScaler().fit(train.select(columns).to_numpy())
    X, there = (scaler.transform(part.select(columns).to_numpy()) for part in (train, test))
    if family == "poisson":
        model = PoissonRegressor(alpha=RIDGE, solver="newton-cholesky", tol=1e-12)
        return model.fit(X, y).predict(there)
    # The deviance is twice the log loss; its penalty n ridge |w|^2, over two that of 1 / C.
    model = LogisticRegression(
        C=1 / (len(y) * RIDGE), tol=1e-12, max_iter=10000, solver="newton-cg"
    )
    found = model.fit(X, y).predict_proba(there)
    return found if family == "multinomial" else found[:, 1]


def truth(family: str, train: pl.DataFrame, test: pl.DataFrame, columns: list[str]) -> Any:
    y, guess = test[family].to_numpy(), predicted(family, train, test, columns)
    if family == "poisson":
        d2 = d2_tweedie_score(y, guess, power=1)
        return {"deviance": mean_poisson_deviance(y, guess), "r2": d2}
    labels = np.unique(train[family])
    best = labels[guess.argmax(axis=1) if guess.ndim == 2 else (guess > 0.5).astype(int)]
    return {
        "deviance": 2 * log_loss(y, guess, labels=labels),
        "r2": d2_log_loss_score(y, guess, labels=labels),
        "accuracy": accuracy_score(y, best),
    }


@pytest.mark.slow
@pytest.mark.parametrize("family", ["binomial", "poisson", "multinomial"])
def test_prefixes_of_a_family_are_scored_as_scikit_learn_does(family):
    frame = rows()
    options = {"groups": GROUPS, "costs": COSTS, "family": family, "rule": "score", "ridge": RIDGE}
    found = ds.cross_validate(
        frame, family, "anytime_sequence", folds=4, key="id", seed=1, **options
    )
    measured = ["r2", "deviance", "accuracy"][: 2 if family == "poisson" else 3]
    assert found.table["mse"].null_count() == found.table.height
    assert found.table["step"].to_list() == [0, 1, 2, 3]
    for fold, (train, test) in enumerate(parts(frame)):
        seq = ds.anytime_sequence(train, family, **options)
        for row in found.scores.filter(fold=fold).iter_rows(named=True):
            held = [list(GROUPS)[group] for group in seq.held(row["step"])]
            columns = [name for group in held for name in GROUPS[group]]
            assert (row["rows"], row["columns"]) == (test.height, len(columns))
            assert row["spent"] == pytest.approx(sum(COSTS[group] for group in held))
            for name, value in truth(family, train, test, columns).items():
                np.testing.assert_allclose(row[name], value, **SOLVED)
    for row in found.table.iter_rows(named=True):
        folds = found.scores.filter(step=row["step"])
        for name in measured:
            assert row[name] == pytest.approx(folds[name].mean())
            assert row[f"{name}_std_error"] == pytest.approx(folds[name].std() / 2)
    assert found.best["deviance"].item() == found.table["deviance"].min()


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, "id"])
@pytest.mark.parametrize("groups", [None, GROUPS])
def test_a_linear_method_reads_a_table_by_gram_by(groups, key, connection, tmp_path):
    frame = rows(2).select(*COLUMNS, "id", "w", "gaussian")
    columns = None if groups is None else ["gaussian", *COLUMNS]
    folds = ds.gram_by(frame, columns=columns, weight="w", fold=5, key=key, seed=7)
    expected = ds.cross_validate(folds, "gaussian", "anytime_sequence", groups=groups)
    frame.write_parquet(tmp_path / "rows.parquet")
    arrow = frame.to_arrow()
    sources = (frame, frame.lazy(), arrow, tmp_path / "rows.parquet", connection.from_arrow(arrow))
    for source in sources:
        found = ds.cross_validate(
            source, "gaussian", "anytime_sequence", groups=groups, weight="w", folds=5, key=key,
            seed=7,
        )  # fmt: skip
        assert_frame_equal(found.scores, expected.scores, rel_tol=1e-9)
        assert_frame_equal(found.table, expected.table, rel_tol=1e-9)


@pytest.mark.slow
def test_a_fold_that_cannot_be_judged_has_a_reason():
    frame = rows(6, 60).with_columns(
        multinomial=pl.when(pl.int_range(60) == 0).then(pl.lit("rare")).otherwise("multinomial"),
        binomial=pl.when(pl.col("id").dbselect.fold(4, 1) == 2).then(0).otherwise("binomial"),
    )
    options: dict[str, Any] = {"folds": 4, "key": "id", "seed": 1, "groups": {"a": ["a"]}}
    found = ds.cross_validate(
        frame, "multinomial", "anytime_sequence", family="multinomial", ridge=0.1, **options
    )
    assert "one of the model's classes" in found.table["reason"].item()
    found = ds.cross_validate(frame, "binomial", "anytime_sequence", family="binomial", **options)
    assert found.table["reason"][0] == "target 'binomial' is constant in fold 2: no r2"
    assert found.table["r2"].null_count() == found.table.height
    assert found.table["deviance"].null_count() == 0
    one = frame.with_columns(id=pl.lit(1))
    options = {"columns": ["a"], "family": "poisson", "folds": 4, "key": "id"}
    with pytest.warns(FoldsWarning, match="only 1 of 4 folds have rows: rows of equal 'id'"):
        found = ds.cross_validate(one, "poisson", "fit", **options)
    assert found.table["reason"].item() == ("1 of 4 folds have usable rows; at least 2 are needed")


@pytest.mark.parametrize("scale", [True, False])
def test_several_responses_are_scored_by_their_shares(scale):
    frame = rows(7)
    targets = ["gaussian", "poisson"]
    columns = [*COLUMNS, *targets]
    folds = ds.gram_by(frame, columns=columns, fold=4, key="id", seed=1)
    found = ds.cross_validate(folds, targets, "anytime_sequence", groups=GROUPS, scale=scale)
    whole = frame.select(targets).to_numpy().var(axis=0)
    for fold, (train, test) in enumerate(parts(frame)):
        seq = ds.anytime_sequence(train.select(columns), targets, GROUPS, scale=scale)
        variance = train.select(targets).to_numpy().var(axis=0)
        share = np.full(2, 0.5) if scale else variance / variance.sum()
        for row in found.scores.filter(fold=fold).iter_rows(named=True):
            groups = seq.steps["group"][1 : row["step"] + 1]
            names = [name for group in groups for name in GROUPS[group]]
            mse, r2 = [], []
            for name in targets:
                y, there = train[name].to_numpy(), test[name].to_numpy()
                guess = np.full(len(there), y.mean())
                if names:
                    X, other = (part.select(names).to_numpy() for part in (train, test))
                    guess = LinearRegression().fit(X, y).predict(other)
                mse.append(mean_squared_error(there, guess))
                r2.append(r2_score(there, guess))
            assert row["r2"] == pytest.approx(share @ r2, rel=1e-9, abs=1e-9)
            assert row["mse"] == pytest.approx(share @ (mse / whole), rel=1e-9)
            assert row["columns"] == len(names)
    assert found.target == targets
    model = found.model("best")
    assert isinstance(model, ds.results.JointModel)
    everything = ds.anytime_sequence(frame.select(columns), targets, **found.arguments("best"))
    for name, own in everything.at().coefficients.items():
        assert model.coefficients[name] == pytest.approx(own, rel=1e-9)


def test_a_seed_decides_folds_and_draws():
    frame = rows(8).select(*COLUMNS, "gaussian")
    folds = ds.gram_by(frame, fold=4, seed=5)
    expected = ds.cross_validate(folds, "gaussian", "random_k", k=2, seed=5)
    found = ds.cross_validate(frame, "gaussian", "random_k", k=2, folds=4, seed=5)
    assert_frame_equal(found.scores, expected.scores, rel_tol=1e-9)
    drawn = ds.cross_validate(frame, "gaussian", "random_k", {"seed": [1, 2]}, k=2, folds=4, seed=5)
    of_two = ds.cross_validate(folds, "gaussian", "random_k", {"seed": [1, 2]}, k=2)
    assert_frame_equal(drawn.scores, of_two.scores, rel_tol=1e-9)


FRAME = rows(9, 50)
SEARCH = "anytime_sequence"


@pytest.mark.parametrize(
    ("given", "options", "kind", "message"),
    [
        (FRAME, {"family": "binomial"}, ArgumentError, "folds is None; with family 'binomial'"),
        (FRAME, {"family": "gama", "folds": 3}, ArgumentError, "family is 'gama'"),
        (FRAME, {"family": "binomial", "folds": 1}, ArgumentError, "folds is 1; it must be"),
        (FRAME, {"key": "id"}, ArgumentError, "key is 'id', but folds is missing"),
        (FRAME, {"folds": 3, "seed": -1}, ArgumentError, "seed is -1"),
        (FRAME, {"folds": 3, "key": "z", "family": "binomial"}, ColumnError, "'z'"),
        (FRAME, {}, ColumnError, "source lacks column 'fold'.*a table needs folds="),
        (
            [ds.gram(FRAME.select("a"))],
            {"weight": "w"},
            ArgumentError,
            "folds is None; with weight 'w'",
        ),
        (
            FRAME,
            {"grid": {"family": ["binomial"]}, "folds": 3},
            ArgumentError,
            "option 'family' is in the grid",
        ),
        (
            FRAME,
            {"grid": {"null_policy": ["mean"]}, "folds": 3},
            ArgumentError,
            "option 'null_policy' is in the grid",
        ),
        (
            Stream(FRAME.to_arrow()),
            {"family": "binomial", "folds": 3},
            SourceError,
            "a stream that can be read only once, and every fold",
        ),
        (FRAME.to_numpy(), {"family": "binomial", "folds": 3}, ArgumentError, "source is an array"),
        (FRAME, {"family": "binomial", "folds": 3, "rule": "x"}, ArgumentError, "rule is 'x'"),
    ],
)
def test_mistakes_are_told(given, options, kind, message):
    grid = options.pop("grid", None)
    with pytest.raises(kind, match=message):
        ds.cross_validate(given, "binomial", SEARCH, grid, **options)


def test_a_function_of_a_family_returns_its_models():
    def wrong(problem: ds.Problem) -> ds.results.Model:
        return ds.fit(ds.gram(problem.source, [problem.target, "a"]), problem.target)

    options = {"folds": 3, "key": "id", "family": "binomial"}
    with pytest.raises(ArgumentError, match="with a family it must return a GlmSequence"):
        ds.cross_validate(FRAME, "binomial", wrong, **options)

    def right(problem: ds.Problem) -> ds.results.GlmModel:
        return problem.fit(["a", "c"])

    found = ds.cross_validate(FRAME, "binomial", right, **options)
    expected = ds.cross_validate(FRAME, "binomial", "fit", columns=["a", "c"], **options)
    assert_frame_equal(found.scores, expected.scores)


@pytest.mark.parametrize("null_policy", ["mean", "indicator", {"a": "mean", "*": "indicator"}])
def test_missing_values_of_a_table_become_what_gram_by_makes_of_them(null_policy):
    """All rows with a target are used; those without are left out whatever the policy."""
    frame = rows(3).select("id", "a", "b", y="gaussian")
    frame = frame.with_columns(
        a=pl.when(pl.col("id") % 5 != 1).then("a"), y=pl.when(pl.col("id") % 9 != 2).then("y")
    )
    found = ds.cross_validate(
        frame, "y", "anytime_sequence", folds=4, key="id", null_policy=null_policy
    )
    there = frame.drop_nulls("y")
    folds = ds.gram_by(there, fold=4, key="id", null_policy=null_policy)
    expected = ds.cross_validate(folds, "y", "anytime_sequence")
    assert_frame_equal(found.table, expected.table)
    assert ds.gram(there, null_policy=null_policy).rows == found.model().rows


LATE = rows(3).with_columns(
    late=pl.col("poisson") > 1, day=pl.date(2026, 1, 1) + pl.duration(days=pl.col("id") // 2)
)
#: scikit-learn's of the same predictions.
METRICS = {"auc": roc_auc_score, "log_loss": log_loss, "brier": brier_score_loss}


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_metrics_of_the_rows_held_out_are_those_of_scikit_learn(family):
    """Of linear models, too, whose folds are Grams: their rows are read once more."""
    names = ["auc"] if family == "gaussian" else list(METRICS)
    frame = LATE.select(*COLUMNS, "late", "id")
    given = {"folds": 4, "key": "id", "seed": 1, "ridge": RIDGE, "family": family}
    found = ds.cross_validate(frame, "late", "fit", columns=COLUMNS, metric=names, **given)
    expected = []
    for train, test in parts(frame):
        model = ds.fit(train, "late", COLUMNS, ridge=RIDGE, family=family)
        told = model.predict(test)
        expected.append([METRICS[name](test["late"], told) for name in names])
    assert np.allclose(found.scores.select(names), expected, rtol=1e-9)
    means = found.table.select(names).row(0)
    assert np.allclose(means, np.mean(expected, axis=0), rtol=1e-9)
    assert found.table.columns[4:6] == [names[0], f"{names[0]}_std_error"]


@pytest.mark.parametrize("more", [True, False])
def test_the_first_metric_decides(more):
    metric = ["auc", "log_loss"] if more else ["log_loss", "auc"]
    frame = LATE.select(*COLUMNS, "late")
    found = ds.cross_validate(frame, "late", family="binomial", cv=4, groups=GROUPS, metric=metric)
    best = found.table[metric[0]].max() if more else found.table[metric[0]].min()
    assert found.best[metric[0]].item() == best
    assert found.plot().data["value"].to_list() == found.table[metric[0]].to_list()


def test_queries_of_ndcg_are_the_key_of_the_folds():
    frame = LATE.select(*COLUMNS, "poisson", query=pl.col("id") % 40)
    found = ds.cross_validate(
        frame, "poisson", "fit", columns=COLUMNS, folds=3, key="query", metric="ndcg@3"
    )
    fold = frame.select(pl.col("query").dbselect.fold(3, 0).alias("f"))["f"]
    for number, score in found.scores.select("fold", "ndcg@3").rows():
        test = frame.filter(fold == number)
        model = ds.fit(frame.filter(fold != number), "poisson", COLUMNS)
        told = test.with_columns(p=model.predict(test)).partition_by("query")
        each = [
            ndcg_score([one["poisson"]], [one["p"]], k=3) if one.height > 1 else 1.0
            for one in told
            if one["poisson"].max() > 0
        ]
        assert score == pytest.approx(sum(each) / len(told), rel=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_folds_by_time_are_those_of_scikit_learn(family, shuffled):
    """The method runs on what came before only, in whatever order the rows are read."""
    frame = LATE.select(*COLUMNS, "poisson", "id").sort("id").head(397)
    given = frame.sample(fraction=1.0, shuffle=True, seed=2) if shuffled else frame
    found = ds.cross_validate(
        given, "poisson", "fit", columns=COLUMNS, cv=5, time="id", family=family, metric="mse"
    )
    splits = list(TimeSeriesSplit(5).split(frame))
    assert found.scores["rows"].to_list() == [len(test) for _, test in splits]
    for (train, test), score in zip(splits, found.scores["mse"], strict=True):
        model = ds.fit(frame[train.tolist()], "poisson", COLUMNS, family=family)
        there = frame[test.tolist()]
        assert score == pytest.approx(
            mean_squared_error(there["poisson"], model.predict(there)), rel=1e-9
        )


def test_rows_of_one_time_are_in_one_fold_and_time_is_no_feature(tmp_path):
    frame = LATE.select(*COLUMNS, "poisson", "day")
    found = ds.cross_validate(frame, "poisson", folds=3, time="day")
    assert "day" not in found.model("best").groups
    assert found.scores.filter(step=0)["rows"].to_list() == [100] * 3  # two a day
    frame.write_parquet(tmp_path / "t.parquet")
    for source in (str(tmp_path / "t.parquet"), frame.to_arrow(), frame.lazy()):
        again = ds.cross_validate(source, "poisson", folds=3, time="day")
        assert np.allclose(again.table["mse"], found.table["mse"], rtol=1e-9)


def test_records_of_times_are_judged_by_those_before():
    frame = LATE.with_columns(fold=pl.col("id") // 100).select(*COLUMNS, "poisson", "fold")
    records = ds.gram_by(frame, "fold")
    found = ds.cross_validate(records, "poisson", "fit", columns=COLUMNS, time="fold")
    assert found.scores["fold"].to_list() == [1, 2, 3]
    model = ds.fit(frame.filter(pl.col("fold") < 2), "poisson", COLUMNS)
    there = frame.filter(pl.col("fold") == 2)
    expected = mean_squared_error(there["poisson"], model.predict(there))
    assert found.scores["mse"][1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cv": 3, "folds": 3}, "cv is 3 and folds is 3; they mean the same, give one"),
        ({"metric": "auc"}, "metric is 'auc', but folds is missing"),
        ({"cv": 3, "metric": "roc_auc"}, "metric is 'roc_auc'; it must be one of"),
        ({"cv": 3, "metric": "auc"}, "'auc', which needs a target of 0 and 1; 'poisson' has mean"),
        ({"cv": 3, "metric": "auc", "family": "poisson"}, "'auc', which a family 'poisson' does"),
        ({"cv": 3, "time": "id", "key": "id"}, "folds are by one of them"),
        ({"cv": 3, "time": "when"}, "time names unknown column 'when'"),
        ({"cv": 3, "time": "text"}, "time 'text' has type .*; it must be a number or a date"),
        ({"cv": 3, "time": "gap"}, "time 'gap' is missing in 1 rows"),
        ({"cv": 3, "time": "flag"}, "time 'flag' has too few different values for 3 folds"),
        ({"cv": 3, "time": "id", "gram": "lazy"}, "gram is 'lazy'; folds by time need the Gram"),
        ({"time": "id"}, "time is 'id'; of records it must be 'fold'"),
        ({"cv": 3, "scoring": "auc"}, "unknown option 'scoring'; there is 'metric'"),
    ],
)
def test_metrics_and_times_that_are_none_are_refused(given, message):
    frame = LATE.with_columns(
        text=pl.lit("a"), flag=pl.col("id") > 5, gap=pl.when(pl.col("id") > 0).then(pl.col("id"))
    )
    with pytest.raises(ds.DbselectError, match=message):
        ds.cross_validate(frame, "poisson", groups=GROUPS, **given)


def test_a_sequence_is_judged_by_the_options_of_the_call():
    rng = np.random.default_rng(5)
    table = pl.DataFrame(rng.normal(size=(120, 3)), ["a", "b", "y"])
    seq = ds.anytime_sequence(table, "y", max_groups=1)
    found = seq.cross_validate(table, cv=4)
    asked = ds.cross_validate(table, "y", "anytime_sequence", cv=4, max_groups=1)
    assert_frame_equal(found.table, asked.table)
    longer = seq.cross_validate(table, folds=4, metric="mae", max_groups=2)
    assert longer.table["step"].to_list() == [0, 1, 2]
