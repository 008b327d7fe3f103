"""A binomial target of two levels, text or not: which one counts as 1, at every door."""

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from sklearn import metrics

import dbselect as ds
from dbselect.doors.cli import main

N = 240
COLUMNS = ["a", "b"]


def table() -> pl.DataFrame:
    """Return rows whose target is told as 0/1, and by levels of every type."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, 2))
    late = rng.random(N) < 1 / (1 + np.exp(-X @ [1.0, -0.5] - 0.4))
    word = pl.Series(np.where(late, "late", "early"))
    word[3] = None
    return pl.DataFrame(
        {
            **dict(zip(COLUMNS, X.T, strict=True)),
            "number": word.eq("late").cast(pl.Int64),
            "word": word,
            "category": word.cast(pl.Categorical),
            "enum": word.cast(pl.Enum(["late", "early"])),
            "boolean": word.eq("late"),
            "code": word.eq("late").cast(pl.Int64) + 7,
        }
    )


TABLE = table()
#: Both levels of a target, that of lateness last.
LEVELS = {
    "word": ("early", "late"),
    "category": ("early", "late"),
    "enum": ("early", "late"),
    "boolean": (False, True),
    "code": (7, 8),
}
TRUTH = ds.fit(TABLE, "number", COLUMNS, family="binomial")
GROUPS = {name: [name] for name in COLUMNS}
STEPS = ds.anytime_sequence(TABLE, "number", GROUPS, family="binomial")


def in_duckdb(frame: pl.DataFrame, tmp_path: Any) -> Any:
    con = duckdb.connect()
    con.register("given", frame.to_arrow())
    con.execute("CREATE TABLE t AS FROM given")
    return con.table("t")


def in_parquet(frame: pl.DataFrame, tmp_path: Any) -> Any:
    path = tmp_path / "t.parquet"
    frame.write_parquet(path)
    return str(path)


SOURCES: dict[str, Callable[[pl.DataFrame, Any], Any]] = {
    "polars": lambda frame, _: frame.lazy(),
    "arrow": lambda frame, _: frame.to_arrow(),
    "pandas": lambda frame, _: frame.to_pandas(),
    "parquet": in_parquet,
    "duckdb": in_duckdb,
}


def same(found: ds.results.GlmModel, sign: float = 1.0) -> None:
    """Check a model against that of 0 and 1."""
    assert found.intercept == pytest.approx(sign * TRUTH.intercept, rel=1e-9)
    for name, value in TRUTH.coefficients.items():
        assert found.coefficients[name] == pytest.approx(sign * value, rel=1e-9)
    assert found.deviance == pytest.approx(TRUTH.deviance, rel=1e-12)
    assert found.skipped == TRUTH.skipped == 1


@pytest.mark.sample(8)
@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_level_counts_as_1(source, target, tmp_path):
    rows = SOURCES[source](TABLE.select(*COLUMNS, target), tmp_path)
    for at, positive in enumerate(LEVELS[target]):
        found = ds.fit(rows, target, COLUMNS, positive=positive, family="binomial")
        same(found, 1.0 if at else -1.0)
        assert found.levels == (LEVELS[target] if at else LEVELS[target][::-1])
        assert f"{target} = {positive!r}" in repr(found)


@pytest.mark.parametrize("target", ["word", "category", "enum"])
def test_of_text_it_is_the_second_in_order(target):
    found = ds.fit(TABLE, target, COLUMNS, family="binomial")
    same(found)
    assert found.levels == ("early", "late")
    np.testing.assert_allclose(found.predict(TABLE), TRUTH.predict(TABLE), rtol=1e-9)
    assert ds.fit(TABLE, "boolean", COLUMNS, family="binomial").levels == ()


def test_searches_files_and_other_rows(tmp_path):
    seq = ds.anytime_sequence(TABLE, "word", GROUPS, family="binomial")
    np.testing.assert_allclose(seq.deviance, STEPS.deviance, rtol=1e-12)
    assert "word = 'late'" in repr(seq)
    path = tmp_path / "seq.parquet"
    seq.write_parquet(path)
    again = ds.results.GlmSequence.read_parquet(path)
    assert again.levels == seq.levels == seq.at().levels
    assert again.to_struct()["predictors"][0]["class"] == "late"
    for one in (seq, again):
        judged = ds.evaluate(one, TABLE)
        expected = ds.evaluate(STEPS, TABLE)
        for name in ("deviance", "accuracy", "r2"):
            np.testing.assert_allclose(judged[name], expected[name], rtol=1e-12)
    measured = ds.evaluate(seq, TABLE, metric=["auc", "accuracy", "log_loss", "brier"]).table
    there = TABLE.filter(pl.col("word").is_not_null())
    p, y = seq.at().predict(there), there["number"].to_numpy()
    truth = {
        "auc": metrics.roc_auc_score(y, p),
        "accuracy": metrics.accuracy_score(y, p > 0.5),
        "log_loss": metrics.log_loss(y, p),
        "brier": metrics.brier_score_loss(y, p),
    }
    for name, value in truth.items():
        assert measured[name][-1] == pytest.approx(value, rel=1e-9)


def test_in_objectives_and_folds():
    objective = ds.Problem(TABLE, "word", GROUPS, positive="early", family="binomial").objective()
    plain = ds.Problem(TABLE, "number", GROUPS, family="binomial").objective()
    np.testing.assert_allclose(objective.gains(), plain.gains(), rtol=1e-6)
    chosen = ds.dash(objective, k=1).model
    assert chosen.levels == ("late", "early")
    assert ds.foba(TABLE, "word", GROUPS, family="binomial").levels == ("early", "late")
    options = {"folds": 3, "key": "a", "groups": GROUPS, "family": "binomial"}
    by_word = ds.cross_validate(TABLE, "word", "anytime_sequence", **options).table
    by_number = ds.cross_validate(TABLE, "number", "anytime_sequence", **options).table
    for name in ("deviance", "accuracy"):
        np.testing.assert_allclose(by_word[name], by_number[name], rtol=1e-9)


def test_in_sql_and_polars():
    frame = TABLE.select(*COLUMNS, "word")
    in_polars = frame.lazy().dbselect.anytime_sequence("word", family="binomial", positive="early")
    with ds.connect() as con:
        con.register("given", frame.to_arrow())
        con.execute("CREATE TABLE t AS FROM given")
        con.execute(
            "CREATE TABLE s AS SELECT "
            "anytime_sequence_glm('t', 'word', 'binomial', positive := 'early') AS seq"
        )
        in_sql = ds.results.GlmSequence.from_struct(con.execute("SELECT seq FROM s").fetchone()[0])
        assert con.execute("SELECT seq.predictors[1].class, seq.levels FROM s").fetchone() == (
            "early", ["late", "early"],
        )  # fmt: skip
        p = con.execute("SELECT glm_predict(seq, t).prediction AS p FROM t, s").fetchnumpy()["p"]
    for one in (in_polars, in_sql):
        assert one.levels == ("late", "early")
        np.testing.assert_allclose(one.deviance, STEPS.deviance, rtol=1e-9)
    np.testing.assert_allclose(p, 1 - STEPS.at().predict(frame), rtol=1e-6)


def test_on_the_command_line(tmp_path, capsys):
    path, out = tmp_path / "t.parquet", tmp_path / "s.json"
    TABLE.select(*COLUMNS, "code").write_parquet(path)
    call = ["sequence", str(path), "--target", "code", "--family", "binomial"]
    assert main([*call, "--positive", "7", "--out", str(out)]) == 0
    assert ds.results.GlmSequence.read_json(out).levels == (8, 7)
    assert "Family binomial, code = 7." in capsys.readouterr().out
    assert main([*call, "--positive", "9"]) == 2
    assert "positive is '9'; target 'code' has the levels [7, 8]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "given", "words"),
    [
        ("word", {"positive": "on time"}, "positive is 'on time'; target 'word' has the levels"),
        ("word", {"positive": [1]}, "positive is [1]; it must be"),
        ("number", {"positive": 1, "family": "poisson"}, "only family 'binomial'"),
        ("a", {"positive": 1}, "target 'a' has more than two levels"),
        ("three", {}, "target 'three' has more than two levels; a binomial target must have two"),
        ("one", {}, "target 'one' has only 'x'"),
        ("word", {"family": "poisson"}, "target 'word' is text"),
    ],
)
def test_what_cannot_be_is_refused(target, given, words):
    letters = pl.Series(["x", "y", "z"] * (N // 3))
    frame = TABLE.with_columns(three=letters, one=pl.lit("x"))
    columns = [name for name in COLUMNS if name != target]
    with pytest.raises(ds.DbselectError, match=words.replace("[", r"\[")):
        ds.fit(frame, target, columns, **{"family": "binomial", **given})


def test_a_third_level_of_other_rows_is_refused():
    seq = ds.anytime_sequence(TABLE, "word", GROUPS, family="binomial")
    other = TABLE.with_columns(word=pl.lit("never"))
    for options in ({}, {"metric": "accuracy"}):
        with pytest.raises(ds.errors.DataError, match="not 'early' or 'late'"):
            ds.evaluate(seq, other, **options)


def test_a_level_of_no_usable_row_is_told():
    frame = pl.DataFrame({"x": [1.0, 2.0, None], "y": ["a", "a", "b"]})
    with pytest.raises(ds.errors.DataError, match="target 'y' is 'a' in all usable rows"):
        ds.fit(frame, "y", family="binomial")
