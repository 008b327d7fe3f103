"""Wide searches in SQL, Polars and on the command line: the steps that Python's sequence has."""

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.doors.cli import main

GROUPS = {"a": ["x0", "x5"], "b": ["x1", "x2"], "c": ["x3"], "d": ["x4", "x6"]}
COSTS = {"a": 2.0, "b": 3.0, "c": 1.0, "d": 0.5}
IN_SQL = (
    "groups := {'a': ['x0', 'x5'], 'b': ['x1', 'x2'], 'c': ['x3'], 'd': ['x4', 'x6']}, "
    "costs := {'a': 2, 'b': 3, 'c': 1, 'd': 0.5}, weight := 'w'"
)


def table() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 7)) + rng.normal(size=(120, 1))
    y = X @ rng.normal(size=7) + rng.normal(size=120)
    frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(7)])
    return frame.with_columns(y=y, w=rng.uniform(0, 2, 120))


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with ds.connect() as connection:
        ds.register(connection)
        connection.register("given", table().to_arrow())
        connection.execute("CREATE TABLE t AS FROM given")
        yield connection


def assert_is(steps: list[dict[str, Any]], expected: ds.results.Sequence) -> None:
    assert [step["group"] for step in steps] == expected.steps["group"].to_list()
    np.testing.assert_allclose([step["r2"] for step in steps], expected.r2, atol=1e-12)
    last = dict(steps[-1]["coefficients"])
    for name, value in expected.at().coefficients.items():
        assert last[name] == pytest.approx(value, rel=1e-9)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("given", "options"),
    [("", {}), (", ridge := 0.5, max_groups := 2", {"ridge": 0.5, "max_groups": 2}),
     (", budget := 3.5, always := ['c'], rule := 'omp'",
      {"budget": 3.5, "always": ["c"], "rule": "omp"})],
)  # fmt: skip
@pytest.mark.parametrize("source", ["t", "SELECT * FROM t WHERE x0 IS NOT NULL"])
def test_sql_reads_a_table_by_its_name_or_a_query(con, source, given, options):
    query = f"SELECT anytime_sequence_wide('{source}', 'y', {IN_SQL}{given})"
    ((steps,),) = con.execute(query).fetchall()
    assert_is(steps, ds.anytime_sequence(table(), "y", GROUPS, COSTS, weight="w", **options))


def test_sql_predicts_by_what_it_found(con):
    con.execute(f"CREATE TABLE s AS SELECT anytime_sequence_wide('t', 'y', {IN_SQL}) AS seq")
    query = "SELECT anytime_predict(seq, t, budget := 3).prediction FROM t, s"
    found = [row for (row,) in con.execute(query).fetchall()]
    expected = ds.anytime_sequence(table(), "y", GROUPS, COSTS, weight="w").at(3).predict(table())
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_polars_reads_a_lazy_frame():
    asked = {"groups": GROUPS, "costs": COSTS, "weight": "w"}
    found = table().lazy().dbselect.anytime_sequence("y", **asked, gram="lazy")
    assert isinstance(found, ds.results.WideSequence)
    steps = found.steps.to_dicts()
    steps[-1]["coefficients"] = found.at().coefficients
    assert_is(steps, ds.anytime_sequence(table(), "y", **asked))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("'t', 'y', rigde := 1", "rigde"),
        ("'t', 'yy'", "target names unknown column 'yy'"),
        ("'t', 'y', weight := 'v'", "weight names unknown"),
    ],
)
def test_sql_says_what_is_wrong(con, call, words):
    with pytest.raises(duckdb.Error, match=words):
        con.execute(f"SELECT anytime_sequence_wide({call})")
    assert con.execute("SELECT 1").fetchall() == [(1,)]


def test_without_a_table_there_are_no_steps(con):
    assert con.execute("SELECT anytime_sequence_wide(NULL, 'y')").fetchall() == [([],)]


def test_a_record_points_to_what_reads_rows():
    words = r"dbselect.anytime_sequence\(table, ..., gram='lazy'\) reads a table"
    with pytest.raises(ds.errors.ArgumentError, match=words):
        pl.col("gram").dbselect.anytime_sequence("y", gram="lazy")


def test_the_command_line_tells_scans_and_what_screening_left_out(tmp_path, capsys):
    path = str(tmp_path / "t.parquet")
    table().write_parquet(path)
    asked = ["anytime_sequence", path, "--target", "y", "--gram", "lazy", "--max-groups", "2"]
    assert main([*asked, "--screen", "3"]) == 0
    printed = capsys.readouterr().out
    assert " scans, " in printed
    assert "Screened to 3 of " in printed
    assert "not exact." in printed
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["n_searched"] == told["n_columns"]
    assert told["scans"] >= 2
