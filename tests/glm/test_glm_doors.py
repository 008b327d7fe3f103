"""Sequences of generalised linear models by SQL, by Polars and in files: the same everywhere."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from problems import in_passes
from test_glm import table

import dbselect as ds

GROUPS = {"ab": ["a", "b"], "c": ["c"], "de": ["d", "e"]}
COSTS = {"ab": 3.0, "c": 0.5, "de": 2.0}
FAMILIES = ["gaussian", "binomial", "poisson", "multinomial"]
OPTIONS = "groups := {'ab': ['a', 'b'], 'c': ['c'], 'de': ['d', 'e']}, ridge := 0.01"
#: What a call in SQL takes after the family, and how to say which groups there are.
CALL = f"{OPTIONS}, costs := {{'ab': 3, 'c': 0.5, 'de': 2}}, weight := 'w', rule := 'score'"

Connection = duckdb.DuckDBPyConnection


@pytest.fixture
def con() -> Iterator[Connection]:
    """Offer a connection with the table ``t``."""
    with ds.connect() as connection:
        load(connection, "t")
        yield connection


def load(connection: Connection, name: str, rows: int = 400) -> None:
    connection.register("given", table(rows=rows).to_arrow())
    connection.execute(f"CREATE TABLE {name} AS FROM given")
    connection.unregister("given")


def in_python(source: Any, family: str, **options: Any) -> ds.results.GlmSequence:
    offset = "logs" if family == "poisson" else None
    given = {"rule": "score", "ridge": 0.01, "weight": "w", "offset": offset, **options}
    # In passes, as SQL does; in Python family gaussian is the linear model.
    search = in_passes if family == "gaussian" else ds.anytime_sequence
    return search(source, family, GROUPS, COSTS, family=family, **given)


def offset_of(family: str) -> str:
    return ", offset_column := 'logs'" if family == "poisson" else ""


def value(connection: Connection, query: str) -> Any:
    ((found,),) = connection.execute(query).fetchall()
    return found


def assert_same(found: ds.results.GlmSequence, expected: ds.results.GlmSequence) -> None:
    """Compare to rounding: threads may merge what they have summed in another order."""
    shared = ["step", "action", "group", "cost", "spent", "useful", "status", "passes"]
    assert found.steps.select(shared).equals(expected.steps.select(shared))
    for name in ("score", "gain", "explained", "r2", "deviance"):
        np.testing.assert_allclose(
            found.steps[name].drop_nulls(), expected.steps[name].drop_nulls(), rtol=1e-9, atol=1e-13
        )
    np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.intercept, expected.intercept, rtol=1e-8)
    for name in ("target", "family", "classes", "offset", "rule", "ridge", "scale", "aliased"):
        assert getattr(found, name) == getattr(expected, name)
    for name in ("stop", "rows", "skipped", "passes_made", "rows_read", "bytes_read", "unused"):
        assert getattr(found, name) == getattr(expected, name)
    assert found.groups.columns == expected.groups.columns


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_sql_and_polars_give_the_sequence_of_python(con, family):
    expected = in_python(table(rows=400), family)
    call = f"anytime_sequence_glm('t', '{family}', '{family}', {CALL}{offset_of(family)})"
    assert_same(ds.results.GlmSequence.from_struct(value(con, f"SELECT {call}")), expected)

    options = {"rule": "score", "ridge": 0.01, "weight": "w", "offset": expected.offset}
    for frame in (table(rows=400), table(rows=400).lazy()):
        found = frame.dbselect.anytime_sequence(family, GROUPS, COSTS, family=family, **options)
        if family == "gaussian":
            assert found.steps["group"].equals(expected.steps["group"])
            np.testing.assert_allclose(found.coef, expected.coef[..., 0], rtol=1e-8, atol=1e-12)
        else:
            assert_same(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_sql_predicts_what_python_predicts_at_every_budget(con, family):
    call = f"anytime_sequence_glm('t', '{family}', '{family}', {CALL}{offset_of(family)})"
    con.execute(f"CREATE TABLE s AS SELECT {call} AS s")
    sequence = ds.results.GlmSequence.from_struct(value(con, "SELECT s FROM s"))
    frame = table(rows=400)
    for budget in (0.0, 0.5, 2.5, None):
        limit = "NULL" if budget is None else budget
        query = f"SELECT glm_predict(s, t, budget := {limit}) AS p FROM t, s"
        found = pl.DataFrame(con.sql(query).to_arrow_table())["p"].struct.unnest()
        expected = sequence.predict(frame, budget=budget)
        if family == "multinomial":
            rows = [[dict(row)[k] for k in sequence.classes] for row in found["probabilities"]]
            np.testing.assert_allclose(rows, expected, rtol=1e-9)
            assert found["prediction"].null_count() == len(frame)
        else:
            np.testing.assert_allclose(found["prediction"], expected, rtol=1e-9)
            assert found["probabilities"].null_count() == len(frame)
        model = sequence.at(budget)
        assert found["spent"].unique().to_list() == [model.spent]
        text = value(con, f"SELECT list({sequence.sql(budget)}) FROM t")
        if family != "multinomial":
            np.testing.assert_allclose(text, expected, rtol=1e-9)


def test_a_row_that_lacks_columns_gets_the_longest_prefix_that_it_has(con):
    con.execute(
        f"CREATE TABLE s AS SELECT anytime_sequence_glm('t', 'binomial', 'binomial', {CALL}) AS s"
    )
    sequence = ds.results.GlmSequence.from_struct(value(con, "SELECT s FROM s"))
    order = sequence.steps["group"].to_list()[1:]
    (last,) = GROUPS[order[2]][-1:]
    found = value(
        con,
        f"SELECT list(glm_predict(s, u) ORDER BY b) FROM s, (SELECT * REPLACE (NULL AS {last}) "
        "FROM t) u",
    )
    assert {row["step"] for row in found} == {2}
    assert {row["next_group"] for row in found} == {order[2]}
    model = sequence.at(sequence.spent[2])
    expected = model.predict(table(rows=400).sort("b"))
    np.testing.assert_allclose([row["prediction"] for row in found], expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_in_a_running_query_neither_blocks_nor_mixes_rows(con, threads):
    con.execute(f"SET threads = {threads}")
    query = f"""
        SELECT y, anytime_sequence_glm(q, y, f, {OPTIONS}, rule := 'score') AS s
        FROM (VALUES ('t', 'binomial', 'binomial'), ('t', 'poisson', 'poisson'), (NULL, 'y', 'f'),
                     ('FROM t WHERE a > 0', 'binomial', 'binomial')) v(q, y, f)
    """
    # Sorted and aggregated, so that other threads run the call than the main one.
    rows = con.execute(
        f"SELECT y, any_value(s) FROM ({query}) GROUP BY y, s ORDER BY ALL"
    ).fetchall()
    found = {(name, s and s["rows"]) for name, s in rows}
    part = len(table(rows=400).filter(pl.col("a") > 0))
    assert found == {("binomial", 400), ("binomial", part), ("poisson", 400), ("y", None)}


SMALL = "'binomial', 'binomial', groups := {'a': ['a']}, rule := 'score')"


def test_only_what_is_committed_is_seen(con):
    con.execute("BEGIN")
    con.execute("INSERT INTO t FROM t")
    con.execute("CREATE TABLE new AS FROM t")
    assert value(con, f"SELECT anytime_sequence_glm('t', {SMALL}.rows") == 400
    with pytest.raises(duckdb.Error, match=r"cannot read 'new'.* only what is committed is seen"):
        con.execute(f"SELECT anytime_sequence_glm('new', {SMALL}")
    con.execute("ROLLBACK")
    con.execute("INSERT INTO t FROM t")
    assert value(con, f"SELECT anytime_sequence_glm('t', {SMALL}.rows") == 800


def test_what_is_temporary_is_refused_and_python_reads_it(con):
    con.execute("CREATE TEMP TABLE short AS FROM t LIMIT 300")
    con.register("frame", table(rows=300).to_arrow())
    short = table(rows=300)
    for name in ("short", "frame"):
        with pytest.raises(duckdb.Error, match=f"cannot read '{name}'.* and no temporary table"):
            con.execute(f"SELECT anytime_sequence_glm('{name}', {SMALL}")
        assert ds.anytime_sequence(
            con.table(name), "binomial", {"a": ["a"]}, family="binomial"
        ).rows == len(short)


def test_a_view_and_a_file_are_read(con, tmp_path):
    con.execute("CREATE VIEW v AS FROM t WHERE a > 0")
    con.execute(f"COPY t TO '{tmp_path}/t.parquet'")
    assert value(con, f"SELECT anytime_sequence_glm('v', {SMALL}.rows") == value(
        con, "SELECT count(*) FROM v"
    )
    quoted = f"''{tmp_path}/t.parquet''"
    assert value(con, f"SELECT anytime_sequence_glm('{quoted}', {SMALL}.rows") == 400


BAD = [
    "anytime_sequence_glm('nowhere', 'binomial', 'binomial')",
    "anytime_sequence_glm('t', 'nothing', 'binomial')",
    "anytime_sequence_glm('t', 'poisson', 'binomial')",
    "anytime_sequence_glm('DROP TABLE t', 'binomial', 'binomial')",
    "anytime_sequence_glm('SELECT error(a::VARCHAR)::DOUBLE AS z, b FROM t', 'b', 'gaussian')",
    "anytime_sequence_glm('FROM t WHERE random() < 0.5', 'binomial', 'binomial')",
]  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("call", BAD)
def test_a_failed_call_leaves_the_connection_usable(con, call):
    with pytest.raises(duckdb.Error):
        con.execute(f"SELECT {call}").fetchall()
    assert value(con, "SELECT count(*) FROM t") == 400
    assert value(con, f"SELECT anytime_sequence_glm('t', {SMALL}.rows") == 400


@pytest.mark.slow
def test_calls_leave_no_connection_open(tmp_path):
    path = str(tmp_path / "some.db")
    with ds.connect(path) as con:
        load(con, "t")
        value(con, f"SELECT anytime_sequence_glm('t', {SMALL}.rows")
        with pytest.raises(duckdb.Error):
            con.execute("SELECT anytime_sequence_glm('nowhere', 'y', 'binomial')")
    # DuckDB refuses other settings while a database is open.
    with duckdb.connect(path, read_only=True, config={"threads": 1}) as again:
        assert value(again, "SELECT count(*) FROM t") == 400
    with ds.connect(path, read_only=True) as con:
        assert value(con, f"SELECT anytime_sequence_glm('t', {SMALL}.rows") == 400


@pytest.mark.parametrize(
    "values", [[0, 1, 2], [False, True], [0.5, 1.5, 2.5]], ids=["whole", "boolean", "fractions"]
)
def test_classes_keep_their_type_in_files(values, tmp_path):
    frame = table(rows=90).with_columns(k=pl.Series([values[i % len(values)] for i in range(90)]))
    sequence = ds.anytime_sequence(frame, "k", GROUPS, family="multinomial", ridge=0.1)
    sequence.write_json(tmp_path / "one.json")
    again = ds.results.GlmSequence.read_json(tmp_path / "one.json")
    assert again.classes == tuple(values)
    assert [type(one) for one in again.classes] == [type(one) for one in sequence.classes]


def ridged(problem: str, ridge: Any) -> str:
    """Return the JSON of a problem with another ridge."""
    found = json.loads(problem)
    found["problem"]["ridge"] = ridge
    return json.dumps(found)


def step_of(record: dict[str, Any]) -> dict[str, Any]:
    return record["predictors"][0]["sequence"][1]


DAMAGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a missing field": lambda record: record.pop("predictors"),
    "no deviance": lambda record: record["steps"][1].update(deviance=None),
    "an unknown group": lambda record: record["steps"][1].update(group="nothing"),
    "an unknown column": lambda record: step_of(record)["coefficients"].update(z=1.0),
    "text for a number": lambda record: record.update(rows="much"),
    "text for a ridge": lambda record: record.update(problem=ridged(record["problem"], "much")),
    "a problem cut off": lambda record: record.update(problem=record["problem"][:20]),
    "a step too few": lambda record: record["steps"].pop(),
    "an unknown status": lambda record: record["steps"][1].update(status="fine"),
    "an unknown end": lambda record: record.update(stop="NEVER"),
    "a group given back": lambda record: record["steps"][2].update(action="remove"),
    "no steps": lambda record: record.update(steps=None),
}  # fmt: skip


@pytest.mark.parametrize("damage", list(DAMAGES))
def test_a_damaged_record_is_refused(damage, tmp_path):
    record = copy.deepcopy(in_python(table(rows=100), "binomial").to_struct())
    DAMAGES[damage](record)
    with pytest.raises(ds.errors.RecordError, match="sequence record"):
        ds.results.GlmSequence.from_struct(record)
    (tmp_path / "one.json").write_text(json.dumps(record))
    with pytest.raises(ds.errors.RecordError, match="sequence record"):
        ds.results.GlmSequence.read_json(tmp_path / "one.json")
