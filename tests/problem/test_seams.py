"""Faults at the seams between doors, readers and estimators: each with the value that is right."""

import io
import os
import signal
import time
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    ShuffleSplit,
    TimeSeriesSplit,
    cross_val_score,
)

import dbselect as ds
from dbselect._lazy import held
from dbselect.doors.cli import main
from dbselect.sklearn import AnytimeClassifier, AnytimeRegressor, AnytimeSelector

N = 120


def numbers(*names: str, rows: int = N, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame({name: rng.normal(size=rows) for name in names})


# Levels and gaps of held-out rows


def test_a_level_of_a_held_out_fold_counts_as_the_mean_of_the_others():
    frame = pl.DataFrame({"k": ["u", "v"] * 49 + ["w"], "a": [0.0] * 99})
    effects = {"u": 3.0, "v": 1.0, "w": 7.0}
    X, y = frame.to_pandas(), frame["k"].replace_strict(effects).to_numpy()
    model = AnytimeRegressor().fit(X.iloc[:98], y[:98])
    with pytest.warns(ds.errors.UnknownLevelWarning, match="1 of 1 rows have a level"):
        assert model.predict(X.iloc[98:]) == pytest.approx([2.0])
    refusing = AnytimeRegressor(handle_unknown="error").fit(X.iloc[:98], y[:98])
    with pytest.raises(ValueError, match="has a text that no row of the fit had"):
        refusing.predict(X.iloc[98:])


@pytest.mark.filterwarnings("ignore::dbselect.errors.UnknownLevelWarning")
@pytest.mark.parametrize("gap", ["level", "number", "text"])
def test_no_fold_is_without_a_score(gap):
    frame = numbers("a", "b").with_columns(k=pl.Series(["u", "v", "x"] * (N // 3)))
    frame = frame.with_columns(y=pl.col("a") + (pl.col("k") == "u") * 2.0 + pl.col("b") / 9)
    last = pl.int_range(N) == N - 1
    changed = {"level": pl.lit("w"), "number": pl.col("k"), "text": pl.lit(None)}[gap]
    X = frame.with_columns(
        k=pl.when(last).then(changed).otherwise("k"),
        b=pl.when(last & (gap == "number")).then(None).otherwise("b"),
    )
    scores = cross_val_score(AnytimeRegressor(), X.drop("y").to_pandas(), frame["y"], cv=5)
    assert (scores > 0.9).all()


@pytest.mark.filterwarnings("ignore::dbselect.errors.UnknownLevelWarning")
def test_the_first_gap_of_a_column_is_its_weighted_mean():
    X, weight = np.array([[0.0], [1.0], [2.0], [6.0]]), np.array([1.0, 1.0, 1.0, 3.0])
    model = AnytimeRegressor().fit(X, 2 * X[:, 0], sample_weight=weight)
    assert model.predict([[np.nan]]) == pytest.approx([2 * np.average(X[:, 0], weights=weight)])
    classes = AnytimeClassifier(ridge=0.1).fit(X, ["a", "a", "b", "b"])
    np.testing.assert_allclose(
        classes.predict_proba([[np.nan]]), classes.predict_proba([[X.mean()]])
    )


def test_a_text_of_very_many_levels_is_left_out_with_a_word():
    X = pd.DataFrame({"id": [f"u{i}" for i in range(N)], "a": np.arange(N) % 7.0})
    with pytest.warns(ds.errors.LeftOutWarning, match="id .more than max_levels=100 levels"):
        model = AnytimeRegressor(max_levels=100).fit(X, np.arange(N) % 5)
    assert model.groups_ == ["a"]
    with pytest.raises(ValueError, match="group 'who' has column 'id' of more than max_levels=9"):
        AnytimeSelector(groups={"who": ["id"]}, max_levels=9).fit(X, X["a"])
    with pytest.raises(ValueError, match="groups is 'prefix', and no column's name begins"):
        AnytimeRegressor(groups="prefix").fit(X[["a"]], X["a"])


# Categories, indexes and names


CATEGORIES = {
    "whole numbers": [94110, 10001, 60601],
    "fractions": [1.5, 2.5, 10.0],
    "booleans": [True, False, True],
    "texts": ["b", "a", "c"],
}


@pytest.mark.parametrize("kind", CATEGORIES)
def test_a_category_of_pandas_is_a_category_in_every_door(kind):
    values = CATEGORIES[kind]
    at = np.random.default_rng(0).integers(0, 3, N)
    frame = numbers("a").to_pandas().assign(zip=pd.Categorical([values[i] for i in at]))
    level = {value: 5.0 * number for number, value in enumerate(dict.fromkeys(values))}
    frame["y"] = frame["a"] + frame["zip"].astype(object).map(level).astype(float)
    dummies = pd.get_dummies(frame[["zip", "a"]], columns=["zip"]).astype(float)
    right = LinearRegression().fit(dummies, frame["y"]).score(dummies, frame["y"])
    assert ds.anytime_sequence(frame, "y").r2[-1] == pytest.approx(right)
    parts = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)
    for table in (pa.Table.from_pandas(frame), parts):
        assert ds.fit(table, "y").r2 == pytest.approx(right)
    np.testing.assert_allclose(ds.fit(frame, "y").predict(frame), frame["y"])
    X = frame[["zip", "a"]]
    assert AnytimeRegressor().fit(X, frame["y"]).score(X, frame["y"]) == pytest.approx(right)


@pytest.mark.filterwarnings("ignore::dbselect.errors.LeakageWarning")
def test_intervals_of_pandas_are_levels():
    frame = numbers("a").to_pandas()
    frame = frame.assign(bin=pd.cut(frame["a"], [-9, -1, 0, 9])).assign(y=lambda t: t["a"] > 0)
    model = ds.fit(frame, "y", ["bin"])
    assert sorted(model.coefficients) == ["bin.(-1, 0]", "bin.(-9, -1]", "bin.(0, 9]"]
    np.testing.assert_allclose(model.predict(frame), frame["y"], atol=1e-12)


@pytest.mark.parametrize("read", [str, pl.scan_parquet], ids=["path", "scan"])
def test_an_index_that_pandas_stored_is_taken_only_by_name(tmp_path, read):
    path = tmp_path / "t.parquet"
    numbers("x").to_pandas().assign(y=np.arange(N)).sample(frac=0.8, random_state=0).to_parquet(
        path
    )
    with pytest.warns(ds.errors.LeftOutWarning, match="the index of a pandas frame"):
        assert ds.anytime_sequence(read(path), "y").columns == ["x"]
    index = "__index_level_0__"
    assert ds.gram(read(path), ["y", index]).columns == ["y", index]
    with pytest.raises(ds.errors.ColumnError):
        ds.gram(read(path), ["__index*"])


def test_a_column_without_a_name_is_taken_only_by_it(tmp_path):
    path = tmp_path / "t.csv"
    numbers("x", "y").to_pandas().to_csv(path)
    with pytest.warns(ds.errors.LeftOutWarning, match="'' .without a name."):
        assert ds.gram(path).columns == ["x", "y"]
    assert ds.gram(path, ["", "y"]).columns == ["", "y"]


def test_no_pattern_means_a_column_of_the_package(tmp_path):
    for day in range(3):
        part = numbers("x", "y", seed=day).with_columns(day=pl.lit(day))
        part.write_parquet(tmp_path / f"{day}.parquet")
    store = ds.GramStore(tmp_path / "store")
    store.refresh(tmp_path / "*.parquet", by="day", columns=["*"])
    assert store.total().columns == ["x", "y", "day"]


# Lakes and stores


def test_the_files_of_a_table_are_united_by_name(tmp_path):
    first, second = numbers("x", "y"), numbers("x", "y", seed=1)
    first.write_parquet(tmp_path / "a.parquet")
    second.select(y="y", x=(pl.col("x") * 10).cast(pl.Int32), more=pl.lit(1.0)).write_parquet(
        tmp_path / "b.parquet"
    )
    whole = pl.concat([first, second.with_columns(x=(pl.col("x") * 10).cast(pl.Int32))],
                      how="vertical_relaxed")  # fmt: skip
    with pytest.warns(ds.errors.SchemaWarning) as caught:
        found = ds.gram(tmp_path, ["x", "y"])
    assert len(caught) == 1
    assert "'x' is Float64, in some Int32, 'more' is NULL in 1" in str(caught[0].message)
    np.testing.assert_allclose(found.comoment, ds.gram(whole).comoment, rtol=1e-12)
    numbers("x").with_columns(y=pl.lit("a")).write_parquet(tmp_path / "c.parquet")
    with pytest.raises(ds.errors.SourceError, match="column 'y' is Float64, String in the files"):
        ds.gram(tmp_path)


@pytest.mark.parametrize(
    ("kind", "ending"), [("csv", "csv"), ("ndjson", "jsonl"), ("ipc", "arrow")]
)
def test_files_of_every_format_are_united(tmp_path, kind, ending):
    for name, frame in (("a", numbers("x", "y")), ("b", numbers("y", "x", seed=1))):
        getattr(frame, f"write_{kind}")(tmp_path / f"{name}.{ending}")
    whole = pl.concat([numbers("x", "y"), numbers("y", "x", seed=1).select("x", "y")])
    found = ds.gram(tmp_path, ["x", "y"])
    np.testing.assert_allclose(found.comoment, ds.gram(whole).comoment, rtol=1e-12)


def test_a_day_that_cannot_be_read_keeps_its_record(tmp_path):
    for day in range(3):
        part = numbers("x", "y", seed=day).with_columns(day=pl.lit(day))
        part.write_parquet(tmp_path / f"{day}.parquet")
    store, lake = ds.GramStore(tmp_path / "store"), tmp_path / "?.parquet"
    store.refresh(lake, by="day")
    before = store.total()
    content = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(content[: len(content) // 2])
    for _ in range(2):
        with pytest.warns(ds.errors.StaleWarning, match="1 parts have changed and cannot be read"):
            refreshed = store.refresh(lake, by="day", on_error="skip")
        assert (list(refreshed.skipped), refreshed.dropped) == (["1.parquet"], [])
        assert store.total().comoment.tolist() == before.comoment.tolist()
    (tmp_path / "1.parquet").write_bytes(content)
    store.refresh(lake, by="day", on_error="skip")
    assert store.total().comoment.tolist() == before.comoment.tolist()


def test_a_day_without_any_value_stops_no_store(tmp_path):
    for day in range(2):
        part = numbers("x", "y", seed=day).with_columns(day=pl.lit(day))
        part.write_parquet(tmp_path / f"{day}.parquet")
    empty = pl.DataFrame({"x": [None] * 5, "y": [1.0] * 5, "day": [2] * 5})
    empty.write_parquet(tmp_path / "2.parquet")
    store = ds.GramStore(tmp_path / "store")
    store.refresh(tmp_path / "?.parquet", by="day")
    total = store.total()
    assert (total.columns, total.rows, total.skipped) == (["x", "y"], 2 * N, 5)


def day(folder, number: int, **columns) -> None:
    part = numbers("x", "y", seed=number).with_columns(day=pl.lit(number), **columns)
    part.write_parquet(folder / f"{number}.parquet")


def test_a_day_from_before_a_column_is_restated_without_a_word(tmp_path):
    lake, store = tmp_path / "?.parquet", ds.GramStore(tmp_path / "store")
    day(tmp_path, 1)
    store.refresh(lake, by="day")
    day(tmp_path, 2, score=numbers("s")["s"])
    assert store.refresh(lake, by="day").schema == ["new column 'score'"]
    numbers("x", "y", seed=9).with_columns(day=pl.lit(1)).write_parquet(tmp_path / "1.parquet")
    again = store.refresh(lake, by="day")
    assert (again.changed, again.schema) == (["1.parquet"], [])


def test_a_named_column_that_a_day_lacks_is_read_where_it_is(tmp_path):
    day(tmp_path, 1, b_1=pl.lit(1.0))
    day(tmp_path, 2, b_1=pl.lit(1.0), b_2=numbers("s")["s"])
    lake = tmp_path / "?.parquet"
    named, matched = (ds.GramStore(tmp_path / name) for name in "nm")
    named.refresh(lake, by="day", columns=["y", "b_1", "b_2"])
    matched.refresh(lake, by="day", columns=["y", "b_*"])
    assert (
        named.show()
        .drop("fingerprint", strict=False)
        .equals(matched.show().drop("fingerprint", strict=False))
    )
    with pytest.raises(ds.errors.ColumnError, match="unknown column 'b_3'"):
        ds.GramStore(tmp_path / "o").refresh(lake, by="day", columns=["y", "b_3"])


def test_a_store_with_a_history_is_read_as_of_a_time(tmp_path):
    pytest.importorskip("deltalake")
    lake, store = tmp_path / "?.parquet", ds.GramStore(tmp_path / "s.delta")
    day(tmp_path, 1)
    store.refresh(lake, by="day")
    first, then = store.total(), datetime.now(UTC)
    time.sleep(0.01)
    day(tmp_path, 2)
    store.refresh(lake, by="day")
    past = store.as_of(then)
    assert past.total().comoment.tolist() == first.comoment.tolist()
    assert store.as_of("2999-01-01").total().rows == store.total().rows == 2 * N
    with pytest.raises(ds.errors.ArgumentError, match=r"as of .* cannot be refreshed"):
        past.refresh(lake)
    with pytest.raises(ds.errors.SourceError, match="after 2001-01-01 23:59:59"):
        store.as_of(date(2001, 1, 1))
    for path, connection in (("folder", None), ("f.duckdb", None), ("t", ds.connect())):
        other = ds.GramStore(path if connection else tmp_path / path, connection)
        other.refresh(lake, by="day")
        with pytest.raises(ds.errors.ArgumentError, match="keeps no history; a Delta table"):
            other.as_of(then)
    for when in ("yesterday", 7):
        with pytest.raises(ds.errors.ArgumentError, match="when is"):
            store.as_of(when)


def test_a_delta_table_that_maps_names_is_refused_in_a_sentence(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    mapped = {"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2",
              "delta.minWriterVersion": "5"}  # fmt: skip
    deltalake.write_deltalake(tmp_path, numbers("x", "y"), configuration=mapped)
    with pytest.raises(ds.errors.SourceError, match="maps names of columns"):
        ds.gram(str(tmp_path))
    with pytest.raises(ds.errors.SourceError, match="maps names of columns"):
        ds.GramStore(tmp_path / "store").refresh(str(tmp_path), by="x")


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode there")
def test_a_name_that_is_no_text_is_named(tmp_path):
    numbers("x", "y").write_parquet(tmp_path / "t.parquet")
    odd = os.path.join(os.fsencode(tmp_path), b"\xff.parquet")
    os.rename(tmp_path / "t.parquet", odd)
    for source in (tmp_path, os.fsdecode(odd)):
        with pytest.raises(ds.errors.SourceError, match="is no UTF-8"):
            ds.gram(source)


@pytest.mark.skipif(os.name == "nt", reason="a folder in use cannot be removed there")
def test_a_current_folder_that_is_gone_is_named(tmp_path, monkeypatch):
    sequence = ds.anytime_sequence(numbers("x", "y"), "y")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for call in (
        lambda: sequence.write_parquet("s.parquet"),
        lambda: sequence.write_json("s.json"),
        lambda: ds.gram("t.parquet"),
    ):
        with pytest.raises(ds.errors.SourceError, match="which has been removed"):
            call()
    with pytest.raises(ds.DbselectError):
        sequence.report("r.html")
    monkeypatch.chdir(tmp_path)


# Splits


def errors_of(splits: list, frame: pl.DataFrame) -> float:
    X, y = frame.select("x", "z").to_numpy(), frame["y"].to_numpy()
    squares = []
    for train, test in splits:
        residuals = y[test] - LinearRegression().fit(X[train], y[train]).predict(X[test])
        squares.append((residuals**2).mean())
    return float(np.mean(squares))


@pytest.mark.parametrize(
    "splitter",
    [TimeSeriesSplit(4), KFold(5, shuffle=True, random_state=1), ShuffleSplit(3, random_state=0)],
    ids=str,
)
@pytest.mark.parametrize("metric", [None, "mse"])
def test_splits_of_scikit_learn_judge_as_there(splitter, metric):
    frame = numbers("x", "z", "e").select("x", "z", y=pl.col("x") * 2 + pl.col("e"))
    pairs = list(splitter.split(np.zeros(N)))
    right = errors_of(pairs, frame)
    for folds in (splitter, pairs):
        found = ds.cross_validate(frame, "y", folds=folds, metric=metric).table
        assert found["mse"][-1] == pytest.approx(right)
    family = ds.cross_validate(
        frame.with_columns(y=pl.col("y") > 0), "y", folds=splitter, family="binomial"
    )
    assert family.table["deviance"].is_finite().all()


@pytest.mark.parametrize("of_text", [False, True])
def test_a_column_of_folds_judges_as_its_values_say(tmp_path, of_text):
    frame = numbers("x", "z", "e").select("x", "z", y=pl.col("x") * 2 + pl.col("e"))
    number = np.arange(N) % 4
    fold = pl.Series(number).cast(pl.String) if of_text else pl.Series(number)
    path = tmp_path / "t.parquet"
    frame.with_columns(f=fold).write_parquet(path)
    right = errors_of([(number != k, number == k) for k in range(4)], frame)
    assert ds.cross_validate(path, "y", folds="f").table["mse"][-1] == pytest.approx(right)
    stopped = ds.Problem(path, "y").stopped_sequence(folds="f")
    assert stopped.sequence.rows == N if hasattr(stopped.sequence, "rows") else stopped.step >= 0


def test_the_groups_of_a_splitter_are_a_column():
    frame = numbers("x", "z", "e").select("x", "z", y=pl.col("x") * 2 + pl.col("e"))
    key = np.repeat(np.arange(N // 10), 10)
    table = frame.with_columns(id=key)
    right = errors_of(list(GroupKFold(4).split(frame, groups=key)), frame)
    for named in ({"key": "id"}, {"groups": "id"}):
        found = ds.cross_validate(table, "y", folds=GroupKFold(4), **named)
        assert found.table["mse"][-1] == pytest.approx(right)
    with pytest.raises(ds.errors.ArgumentError, match="key= names the column of its groups"):
        ds.cross_validate(table, "y", folds=GroupKFold(4))


@pytest.mark.parametrize(
    ("folds", "words"),
    [
        ("nope", "folds names unknown column 'nope'"),
        ("y", "folds is 'y', which is the target"),
        ([([0, 1], [500])] * 2, "folds has row 500, and the table has 120 rows"),
        (2.5, "folds is 2.5; it must be a whole number >= 2, a column"),
    ],
)
def test_splits_that_are_none_are_refused(folds, words):
    with pytest.raises(ds.DbselectError, match=words):
        ds.cross_validate(numbers("x", "y"), "y", folds=folds)


# What is said, and results as they are used


def test_levels_that_explain_everything_are_said_once():
    keys = [f"i{i}" for i in range(100)]
    effects = numbers("y", rows=100)["y"]
    frame = pl.DataFrame({"k": keys * 2, "y": [*effects, *effects]})
    frame = frame.with_columns(numbers("x", rows=200))
    for ask in (ds.anytime_sequence, ds.foba, ds.fit, lambda *a: ds.cross_validate(*a, folds=3)):
        with pytest.warns(ds.errors.LeakageWarning, match="group 'k' alone explains 1") as caught:
            ask(frame, "y")
        assert len(caught) == 1


def test_a_row_of_pandas_is_predicted():
    frame = numbers("a", "b").with_columns(k=pl.Series(["u", "v"] * (N // 2)))
    frame = frame.with_columns(y=pl.col("a") + (pl.col("k") == "u")).to_pandas()
    model, sequence = ds.fit(frame, "y"), ds.anytime_sequence(frame, "y")
    for each in (model, sequence):
        np.testing.assert_allclose(each.predict(frame.iloc[3]), each.predict(frame.iloc[3:4]))
    with pytest.raises(ds.errors.ArgumentError, match="read as one row, by the names of its index"):
        model.predict(frame["a"])


def test_a_column_that_is_read_is_near_no_other():
    table = numbers("carat", "clarity", "cut", "y")
    sequence, row = ds.anytime_sequence(table, "y"), pl.DataFrame({"carat": [1.0]})
    for predict in (sequence.predict, sequence.anytime_predict, ds.fit(table, "y").predict):
        with pytest.raises(ds.errors.ColumnError, match=r"'clarity'.*reads; missing_columns"):
            predict(row)
        with pytest.raises(ds.errors.ColumnError, match="reads; there is 'clarty'; missing"):
            predict(row.with_columns(clarty=0.0))


def test_an_interrupt_waits_for_the_end_of_an_import():
    reached = []

    def interrupted():
        with held():
            signal.raise_signal(signal.SIGINT)
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached == ["the end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_perfect_fit_has_no_errors_to_believe():
    frame = numbers("a", "b").with_columns(y=2 * pl.col("a") - pl.col("b"))
    with pytest.warns(ds.errors.PerfectFitWarning, match="explain the target exactly"):
        ds.fit(frame.head(50), "y").summary()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (lambda: ds.gram(np.ones((9, 2)), np.ones(9)), "np.column_stack"),
        (lambda: ds.gram(pl.Series([1.0])), "source is a Series, one column"),
        (lambda: ds.gram(numbers("a"), numbers("y")["y"]), "the target one of the columns"),
        (lambda: ds.patterns(numbers("a"), weight=numbers("y")["y"]), "weight is a Series"),
        (lambda: ds.gram_by(numbers("a"), numbers("y")["y"]), "by has 0.12.* list columns"),
        (lambda: ds.patterns(ds.gram(numbers("a"))), "source is a Gram, which holds no rows"),
        (lambda: ds.allocate(ds.anytime_sequence(numbers("a", "y"), "y"), 1), "sequences is Seq"),
        (lambda: ds.anytime_sequence(numbers("a", "y"), "y", {"g": [1]}), "as '1' where pandas"),
        (lambda: ds.cross_validate(numbers("a", "y"), "y", folds=KFold), "folds is <class"),
    ],
)
def test_what_is_no_table_is_refused_in_a_sentence(source, words):
    with pytest.raises(ds.DbselectError, match=words) as refusal:
        source()
    assert len(str(refusal.value)) < 230


@pytest.mark.filterwarnings("ignore::dbselect.errors.SkippedRowsWarning")
def test_an_estimator_by_em_predicts_gaps_from_what_a_row_has():
    rng = np.random.default_rng(0)
    a = rng.normal(size=4000)
    X = np.column_stack([a, 0.8 * a + 0.6 * rng.normal(size=4000)])
    y = X[:, 0] + rng.normal(size=4000) / 9
    X[:, 0][rng.random(4000) < 0.3] = np.nan
    lacking, model = np.isnan(X[:, 0]), AnytimeRegressor(null_policy="em").fit(X, y)
    np.testing.assert_allclose(model.predict(X)[lacking], 0.8 * X[lacking, 1], atol=0.1)
    skipping = AnytimeRegressor(null_policy="skip").fit(X, y)
    with pytest.raises(ValueError, match="lacks a value that the model needs"):
        skipping.predict(X)


CONDITIONS = [{"one_of": [["a", "b"]]}, {"limits": {"ms": ({"a": 3, "b": 3}, 5, "sum")}}]


@pytest.mark.parametrize("told", CONDITIONS)
def test_a_fit_on_some_columns_knows_no_conditions_on_others(told):
    frame = numbers("a", "b", "c").with_columns(y=pl.col("a") + pl.col("b") / 2)
    found = ds.drift(frame, frame, "y", **told)
    assert found.coefficients["change"].to_list() == pytest.approx([0.0] * 3)
    assert ds.fit(frame, "y", ["b", "c"], groups={n: [n] for n in "abc"}, **told).groups


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("form", ["path", "csv", "pandas", "frame", "by", "example", "pandas of"])
def test_a_forked_child_is_refused_before_it_waits(tmp_path, form):
    frame = numbers("x", "y").with_columns(k=pl.Series(["a", "b"] * (N // 2)))
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_csv(tmp_path / "t.csv")
    pandas, sequence = frame.to_pandas(), ds.anytime_sequence(frame, "y")
    calls = {
        "path": lambda: ds.gram(tmp_path / "t.parquet"),
        "csv": lambda: ds.gram(tmp_path / "t.csv"),
        "pandas": lambda: ds.gram(pandas),
        "frame": lambda: ds.gram(frame),
        "by": lambda: ds.gram_by(tmp_path / "t.parquet", by=["k"]),
        "example": ds.io.example,
        "pandas of": sequence.to_pandas,
    }
    frame.sort("x").lazy().collect()  # Polars has threads now
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)  # ends a child that waits
        try:
            calls[form]()
        except ds.errors.EngineError:
            os._exit(7)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7


# SQL


@pytest.mark.filterwarnings("ignore::dbselect.errors.UnknownLevelWarning")
@pytest.mark.parametrize("gram", ["gram", "gram_missing"])
def test_the_error_on_a_record_is_that_of_its_rows(gram):
    con = ds.connect()
    con.execute(f"""
        CREATE TABLE t AS
        SELECT *, a + coalesce(b, 4) + i % 3 + sin(i * i) AS y, i % 5 AS fold FROM (
            SELECT i, sin(i) AS a, CASE WHEN i % 7 > 0 OR i < 99 THEN 3 + cos(i * i) END AS b,
                   CASE WHEN i = 200 THEN 'w' ELSE 'k' || i % 3 END AS k FROM range(400) r(i));
        CREATE TABLE m AS SELECT gram_remove(whole.g, part.g) AS rest, part.g FROM
            (SELECT {gram}({{'y': y, 'a': a, 'b': b, 'k': k}}) AS g FROM t WHERE fold = 0) part,
            (SELECT {gram}({{'y': y, 'a': a, 'b': b, 'k': k}}) AS g FROM t) whole;
    """)
    if gram == "gram_missing":  # else the levels of all rows are those of the fit
        con.execute(f"""UPDATE m SET rest = (
            SELECT {gram}({{'y': y, 'a': a, 'b': b, 'k': k}}) FROM t WHERE fold > 0)""")
    model = con.execute("SELECT evaluate(fit(rest, 'y', ['a', 'b*', 'k*']), g, 'y') FROM m")
    ((model,),) = model.fetchall()
    of_rows = """SELECT avg((p - y) ** 2), 1 - avg((p - y) ** 2) / var_pop(y) FROM (
            SELECT y, predict(of, t, {'handle_unknown': 'mean'}).prediction AS p
            FROM t, (SELECT fit(rest, 'y', ['a', 'b*', 'k*']) AS of FROM m) WHERE fold = 0)
        WHERE p IS NOT NULL"""
    mse, r2 = con.execute(of_rows).fetchone()
    assert [model["mse"], model["r2"], model["rmse"]] == pytest.approx([mse, r2, mse**0.5])
    for ridge in (0.0, 0.1):
        sequence = f"anytime_sequence(rest, 'y', {{'ridge': {ridge}}})"
        query = f"SELECT evaluate({sequence}, g, 'y'), rest, g FROM m"
        ((seq, rest, g),) = con.execute(query).fetchall()
        in_python = ds.anytime_sequence(ds.Gram.from_struct(rest), "y", ridge=ridge)
        frame = ds.evaluate(in_python, ds.Gram.from_struct(g))
        assert [step["mse"] for step in seq] == pytest.approx(frame["mse"].to_list())
        assert [step["r2"] for step in seq] == pytest.approx(frame["r2"].to_list())


# The command line


def lines_of(capsys) -> list[str]:
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("form", ["csv", "tsv", "ndjson", "parquet", "arrow", "stream"])
def test_a_table_comes_through_a_pipe(tmp_path, capsys, monkeypatch, form):
    frame = numbers("a", "y").with_columns(y=pl.col("a") * 2 + pl.col("y"))
    content = io.BytesIO()
    write = {
        "csv": frame.write_csv,
        "tsv": lambda file: frame.write_csv(file, separator="\t"),
        "ndjson": frame.write_ndjson,
        "parquet": frame.write_parquet,
        "arrow": frame.write_ipc,
        "stream": frame.write_ipc_stream,
    }[form]
    write(content)
    content.seek(0)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(content))
    out = tmp_path / "s.json"
    assert main(["sequence", "-", "--target", "y", "--quiet", "--out", str(out)]) == 0
    assert lines_of(capsys) == []
    assert ds.read(out).steps["group"].to_list() == [None, "a"]


def test_drift_and_refit_are_commands(tmp_path, capsys):
    before, after, sequence = (str(tmp_path / name) for name in ("a.csv", "b.csv", "s.parquet"))
    for path, seed in ((before, 0), (after, 1)):
        frame = numbers("a", "e", seed=seed)
        frame.select("a", y=pl.col("a") * (seed + 1) + pl.col("e")).write_csv(path)
    assert main(["sequence", before, "--target", "y", "--out", sequence]) == 0
    lines_of(capsys)
    assert main(["drift", sequence, after]) == 0
    expected = repr(ds.drift(ds.read(sequence), after))
    assert lines_of(capsys)[-1] == f"{expected}."
    assert main(["drift", before, after]) == 2
    assert "--target is missing" in capsys.readouterr().err
    assert main(["refit", sequence, after, "--out", str(tmp_path / "r.parquet")]) == 0
    refitted = ds.read(tmp_path / "r.parquet")
    assert refitted.at().coefficients == ds.read(sequence).refit(after).at().coefficients
