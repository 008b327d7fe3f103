"""The searches in every DuckDB client: a connection that has loaded the extension and no more.

What they find is held against Python's, which has the same methods and other code.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from problems import random_problem
from tables import sentence_in_sql

import dbselect as ds
from dbselect import _native
from dbselect.doors.extension import extension_path
from dbselect.record.gram import RECORD_DTYPE
from dbselect.results.store import write_sequences
from dbselect.selection.criteria import RULES
from dbselect.spec.methods import OF_RECORDS, places_of

#: Numbers of well-conditioned problems agree to so much.
EXACT = 1e-11


def load(con: duckdb.DuckDBPyConnection) -> str:
    """Return the statement that loads the extension."""
    ((platform,),) = con.execute("PRAGMA platform").fetchall()
    return f"LOAD '{extension_path(platform)}'"


def opened(path: str | Path = ":memory:", **options: Any) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(str(path), config={"allow_unsigned_extensions": True}, **options)
    con.execute(load(con))
    return con


@pytest.fixture
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with opened() as con:
        yield con


def literal(value: Any, mapping: str = "") -> str:
    """Return a Python value as SQL; `mapping` is MAP or nothing, which makes a STRUCT."""
    if isinstance(value, dict):
        entries = (f"{literal(k)}: {literal(v, mapping)}" for k, v in value.items())
        return f"{mapping} {{{', '.join(entries)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(literal(one) for one in value)}]"
    if isinstance(value, float) and not np.isfinite(value):
        return f"'{value}'::DOUBLE"
    return "NULL" if value is None else repr(value)


def options(given: dict[str, Any], mapping: str = "") -> str:
    """Return options as a STRUCT, whose maps may be MAPs."""
    return f"{{{', '.join(f'{literal(k)}: {literal(v, mapping)}' for k, v in given.items())}}}"


def one(con: duckdb.DuckDBPyConnection, query: str, *values: Any) -> Any:
    ((value,),) = con.execute(query, values).fetchall()
    return value


def steps_of(sequence: ds.results.Sequence) -> Any:
    return write_sequences([sequence]).to_pylist(maps_as_pydicts="strict")[0]


def assert_steps(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Compare steps field by field, names exactly."""
    assert len(found) == len(expected)
    for one_, other in zip(found, expected, strict=True):
        assert list(one_) == list(other)
        assert list(one_["coefficients"]) == list(other["coefficients"])
        for name, value in other.items():
            if isinstance(value, float | dict):
                assert one_[name] == pytest.approx(value, rel=EXACT, abs=EXACT), name
            else:
                assert one_[name] == value, name


def stored(con: duckdb.DuckDBPyConnection, *grams: ds.Gram | None) -> None:
    """Store records as the table `grams`."""
    kind = next(gram for gram in grams if gram is not None).to_arrow().type
    records = [None if gram is None else gram.to_struct() for gram in grams]
    con.register("given", pa.table({"i": range(len(grams)), "g": pa.array(records, kind)}))
    con.execute("CREATE OR REPLACE TABLE grams AS FROM given")
    con.unregister("given")


def in_polars(gram: ds.Gram, method: str, *places: Any, **given: Any) -> Any:
    """Return what the expression of Polars gives, coefficients as SQL has them."""
    frame = pl.DataFrame({"gram": [gram.to_struct()]}, schema={"gram": RECORD_DTYPE})
    door = getattr(pl.col("gram").dbselect, method)
    found = frame.select(door("y", *places, **given)).to_series().to_list()[0]
    for part in found if isinstance(found, list) else [found]:
        part["coefficients"] = {one["key"]: one["value"] for one in part["coefficients"]}
    return found


@pytest.mark.sample(14)
@pytest.mark.parametrize("mapping", ["", "MAP"])
@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("anytime_sequence", {}),
        *(
            ("anytime_sequence", {"rule": rule, "ridge": 0.25, "scale": scale})
            for rule in RULES
            for scale in (True, False)
        ),
        ("anytime_sequence", {"intercept": False}),
        ("foba", {"intercept": False}),
        ("backward", {"intercept": False}),
        ("anytime_sequence", {"rule": "doubling", "c_min": 2, "budget": 7.5}),
        ("anytime_sequence", {"rule": "omp-single", "max_groups": 2, "always": ["g2"]}),
        ("foba", {"nu": 0.9, "epsilon": 1e-3, "max_steps": 9}),
        ("foba", {"rule": "omp", "backward": "coefficient", "budget": 9}),
        ("backward", {"backward": "loss", "budget": 6}),
        ("backward", {"ridge": 1, "max_steps": 2}),
        ("floating", {"rule": "omp", "max_groups": 3, "always": ["g2"]}),
        ("step", {"criterion": "bic", "start": ["g1", "g3"], "scale": False}),
        ("step", {"direction": "backward", "penalty": 9, "max_steps": 2}),
    ],
)
def test_a_search_is_that_of_python(raw, method, given, mapping):
    for seed in range(3):
        problem = random_problem(np.random.default_rng([seed, 7]))
        asked = {**given, "groups": problem.names, "costs": problem.costs}
        stored(raw, problem.gram)
        found = one(raw, f"SELECT {method}(g, 'y', {options(asked, mapping)}) FROM grams")
        expected = steps_of(getattr(ds, method)(problem.gram, "y", **asked))
        assert_steps(found, expected)
        assert_steps(in_polars(problem.gram, method, **asked), expected)
        named = ", ".join(f"{name} := {literal(value)}" for name, value in asked.items())
        assert one(raw, f"SELECT dbselect.{method}(g, 'y', {named}) FROM grams") == found


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("call", "given"),
    [
        ("exchange", {"k": 2}),
        ("exchange", {"k": 3, "start": ["g1"], "always": ["g2"], "ridge": 0.25}),
        ("exchange", {"k": 4, "budget": 8.5, "intercept": False}),
        ("best_within", {"budget": 6}),
        ("best_within", {"budget": 9.5, "always": ["g2"], "ridge": 0.25, "time_limit": 60}),
        ("best_within", {"budget": 0, "intercept": False}),
        ("best_within", {"budget": 7, "intercept": False}),
    ],
)
def test_a_choice_is_that_of_python(raw, call, given):
    for seed in range(4):
        problem = random_problem(np.random.default_rng([seed, 8]))
        asked = {**given, "groups": problem.names, "costs": problem.costs}
        stored(raw, problem.gram, None)
        expected = getattr(ds, call)(problem.gram, "y", **asked)
        place, *rest = asked.values()
        after = dict(zip([*asked][1:], rest, strict=True))
        others = options(after)
        named = ", ".join(f"{name} := {literal(value)}" for name, value in asked.items())
        queries = [
            f"SELECT {call}(g, 'y', {place}, {others}) FROM grams ORDER BY i",
            f"SELECT {call}(g, 'y', {options(asked)}) FROM grams ORDER BY i",
            f"SELECT dbselect.{call}(g, 'y', {named}) FROM grams ORDER BY i",
        ]
        answers = [in_polars(problem.gram, call, place, **after)]
        for query in queries:
            (found,), (nothing,) = raw.execute(query).fetchall()
            assert nothing is None
            answers.append(found)
        for found in answers:
            if call == "exchange" and found["explained"] > expected.explained + EXACT:
                continue  # the library begins from all groups, too
            assert found.pop("coefficients") == pytest.approx(expected.coefficients, rel=EXACT)
            assert found.pop("groups") == expected.groups
            assert found.pop("columns") == expected.columns
            found.pop("terms")
            proof = getattr(expected, "how", None)
            for name, value in found.items():
                own = getattr(expected, name) if hasattr(expected, name) else getattr(proof, name)
                assert value == pytest.approx(own, rel=EXACT, abs=EXACT), name


def table(rows: int = 60) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    a, b, c = rng.normal(size=(3, rows))
    kind = rng.choice(["u", "v.w"], rows)
    y = 2 * a + b - (kind == "u") + 0.1 * c
    return pl.DataFrame(
        {"y": y, "x.a": a, "x.b": b, "demo": pl.DataFrame({"c": c, "d": a - c}).to_struct()}
    ).with_columns(kind=pl.Series(kind))


def test_prepared_statements_take_target_and_options(raw):
    stored(raw, ds.gram(table()))
    query = (
        "FROM (SELECT len(anytime_sequence(g, ?, {'max_groups': ?, 'rule': ?})) AS n FROM grams)"
    )
    assert [one(raw, query, "y", k, "omp") for k in (1, 3)] == [2, 4]
    raw.execute("PREPARE p AS SELECT len(dbselect.foba(g, $1, budget := $2)) FROM grams")
    assert raw.execute("EXECUTE p('y', 2)").fetchall() == [(3,)]


def test_every_row_has_its_own_options_and_none_harms_another(raw):
    gram, other = ds.gram(table()), ds.gram(table()).select(["x.b", "x.a", "y"])
    stored(raw, gram, None, other)
    query = """SELECT i, k, len(anytime_sequence(g, 'y', {'max_groups': 1 + k % 3, 'costs': NULL,
            'groups': if(k % 2 = 0, MAP {'one': ['x.*']}, NULL)})) AS n
        FROM grams, range(3000) t(k) ORDER BY k, i"""
    for i, k, n in raw.execute(query).fetchall():
        groups = {0: 4, 1: 0, 2: 2}[i] if k % 2 else 1
        assert n == (0 if i == 1 else 1 + min(1 + k % 3, groups))


def test_a_list_of_many_steps_keeps_its_nulls(raw):
    stored(raw, ds.gram(table()))
    raw.execute("""CREATE TABLE s AS SELECT unnest(s) AS step, k FROM (
        SELECT k, anytime_sequence(g, 'y') AS s FROM grams, range(5000) t(k))""")
    counts = raw.execute("""SELECT step.step, count(*), count(step."group"), count(step.score),
        count(step.terms), count(DISTINCT step.coefficients) FROM s GROUP BY 1 ORDER BY 1""")
    assert counts.fetchall() == [
        (0, 5000, 0, 0, 5000, 1),
        *((k, 5000, 5000, 5000, 0, 1) for k in range(1, 5)),
    ]


SEGMENTS = """CREATE TABLE t AS SELECT k, gram({'x': x, 'y': y, 'cat':
    CASE WHEN k = 2 THEN NULL WHEN k = 3 THEN 'a' WHEN i % 3 = 0 THEN 'b' ELSE 'a' END}) AS g
    FROM (SELECT i % 4 AS k, i AS i, i * 0.5 AS x, sin(i) AS y FROM range(40) r(i)) GROUP BY k"""


@pytest.mark.parametrize(
    "asked",
    [
        {"costs": {"x": 1.0, "cat": 2.0}},
        {"groups": {"c": ["cat.*"]}},
        {"groups": {"c": "cat", "d": ["x"]}},
        {"always": ["cat"]},
    ],
    ids=str,
)
def test_a_segment_without_rows_has_no_levels_and_harms_no_other(raw, asked):
    raw.execute(SEGMENTS)
    query = f"SELECT len(anytime_sequence(g, 'y', {options(asked)})) > 1 FROM t ORDER BY k"
    assert raw.execute(query).fetchall() == [(True,), (True,), (False,), (True,)]
    grams = raw.sql("SELECT k, g AS gram FROM t ORDER BY k").pl()
    status = [None, None, "no usable rows: 10 rows were skipped", None]
    assert ds.anytime_sequence_by(grams, "y", **asked)["status"].to_list() == status
    # Costs in the order of the groups are for Python, record by record.
    found = ds.anytime_sequence_by(grams, "y", costs=pl.Series([1.0, 2.0]))
    assert found["status"].to_list() == status


def test_a_target_that_a_segment_never_saw_is_told(raw):
    raw.execute(SEGMENTS)
    told = raw.execute("SELECT gram_check(g, 'cat.b') FROM t ORDER BY k").fetchall()
    none, unseen = "no usable rows: 10 rows were skipped", "level that no row has (10 rows)"
    assert told == [(None,), (None,), (none,), (f"target 'cat.b' is a {unseen}",)]
    counts = raw.execute("SELECT len(anytime_sequence(g, 'cat.b')) > 1 FROM t ORDER BY k")
    assert counts.fetchall() == [(True,), (True,), (False,), (False,)]
    with pytest.raises(duckdb.Error, match="unknown column 'z'"):
        raw.execute("SELECT gram_check(g, 'z') FROM t").fetchall()


#: What is asked -> the sentence is that of Python.
WRONG: list[dict[str, Any]] = [
    {"target": "z"},
    {"groups": {"g": ["x.q"]}},
    {"groups": {"g": []}},
    {"groups": {"g": ["y"]}},
    {"method": "foba", "groups": {"g": ["x.a"], "h": ["x.*"]}},
    {"groups": 5},
    {"groups": "x.a"},
    {"costs": {"x.a": 1.0}},
    {"costs": {"x.a": None, "x.b": 1.0, "demo": 1.0, "kind": 1.0}},
    {"costs": {"x.a": "1", "x.b": 1.0, "demo": 1.0, "kind": 1.0}},
    {"rule": "best"},
    {"ridge": -1.5},
    {"ridge": "much"},
    {"scale": "yes"},
    {"budget": -0.5},
    {"budget": [1, 2]},
    {"max_groups": 0},
    {"always": "x.a"},
    {"always": ["q"]},
    {"always": ["x.a", "x.b"], "budget": 1.5},
    {"c_min": 1.5},
    {"method": "foba", "rule": "doubling"},
    {"method": "foba", "nu": 1.0},
    {"method": "foba", "epsilon": -1.5},
    {"method": "backward", "backward": "best"},
    {"method": "backward", "max_steps": 0},
    {"method": "floating", "max_groups": 0},
    {"method": "step", "start": "x.a"},
    {"groups": {}},
    {"costs": {"x.a": 1.0, "x.b": 0.0, "demo": 1.0, "kind": 1.0}},
    {"costs": {"x.a": 1.0, "x.b": np.inf, "demo": 1.0, "kind": 1.0}},
    {"costs": {"x.a": 1.0, "x.b": 1.0, "demo": 1.0, "kind": 1.0, "kinds": 1.0}},
    {"always": ["x.a", "x.a"]},
    {"method": "step", "criterion": "cp"},
    {"method": "step", "direction": "up"},
    {"method": "step", "ridge": 0.5},
    {"method": "step", "start": ["x.a", "x.b"], "always": ["demo"], "budget": 2.5},
]


@pytest.mark.sample(25)
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_mistake_is_told_as_python_tells_it(raw, wrong):
    asked = {"method": "anytime_sequence", "target": "y", **wrong}
    method, target = asked.pop("method"), asked.pop("target")
    gram = ds.gram(table())
    stored(raw, gram)
    with pytest.raises(ds.DbselectError) as expected:
        getattr(ds, method)(gram, target, **asked)
    with pytest.raises(type(expected.value), match=f"^{re.escape(str(expected.value))}$"):
        _native.search(gram.to_arrow(), method, target, asked)
    sentence = re.escape(sentence_in_sql(f"{method}: {expected.value}"))
    with pytest.raises(duckdb.InvalidInputException, match=f"{sentence}$"):
        raw.execute(f"SELECT {method}(g, '{target}', {options(asked)}) FROM grams").fetchall()
    assert one(raw, "SELECT 42") == 42


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("anytime_sequence(g, 'y', {'rigde': 1})", "unknown option 'rigde'; there is 'ridge'"),
        (
            "backward(g, 'y', {'colour': NULL})",
            "there is 'groups', 'costs', 'backward', 'max_steps'",
        ),
        ("foba(g, 'y', 5)", "options must be a STRUCT"),
        ("foba(g, NULL)", "target is NULL; it must be the name of a column"),
        ("gram_check(g, 'z')", "target names unknown column 'z'; there is"),
        ("dbselect.foba(g, 'y', {'nu': 0.5}, nu := 0.5)", "foba is given nu twice"),
        ("dbselect.foba(g, 'y', colour := 0.5)", "colour"),
        ("anytime_predict(anytime_sequence(g, 'y'), 5)", "row must be a STRUCT"),
        ("anytime_predict(anytime_sequence(g, 'y'), {'x.a': 1}, {'unkown': 1})", "'unkown'"),
        ("anytime_predict(anytime_sequence(g, 'y'), {'x.a': 1}, 'a')", "budget has type VARCHAR"),
    ],
)
def test_other_mistakes_are_named(raw, call, words):
    stored(raw, ds.gram(table()))
    with pytest.raises(duckdb.Error, match=re.escape(words)):
        raw.execute(f"SELECT {call} FROM grams").fetchall()


ROW = "{'x.a': 1.0, 'x.b': 2.0, 'kind': 'u', 'demo': {'c': 0.5, 'd': 0.5}}"


def test_predictions_take_a_budget_and_options(raw):
    gram = ds.gram(table())
    stored(raw, gram)
    sequence = ds.anytime_sequence(gram, "y")
    frame = pl.DataFrame({"x.a": 1.0, "x.b": 2.0, "kind": "u", "demo": [{"c": 0.5, "d": 0.5}]})
    (expected,) = sequence.at(2.0).predict(frame)
    for call in (
        f"anytime_predict(anytime_sequence(g, 'y'), {ROW}, 2)",
        f"anytime_predict(anytime_sequence(g, 'y'), {ROW}, 2.0, {{'handle_unknown': 'mean'}})",
        f"anytime_predict(anytime_sequence(g, 'y'), {ROW}, {{'budget': 2}})",
        f"dbselect.anytime_predict(anytime_sequence(g, 'y'), {ROW}, budget := 2)",
    ):
        found = one(raw, f"SELECT {call} FROM grams")
        assert found["prediction"] == pytest.approx(expected, rel=1e-12)
        assert (found["step"], found["spent"]) == (2, 2.0)
    strange = ROW.replace("'u'", "'new'")
    call = (
        f"anytime_predict(anytime_sequence(g, 'y'), {strange}, NULL, {{'handle_unknown': 'error'}})"
    )
    with pytest.raises(duckdb.Error, match="new"):
        raw.execute(f"SELECT {call} FROM grams").fetchall()


def test_a_column_of_another_shape_is_told(raw):
    raw.execute("""CREATE TABLE s AS SELECT anytime_sequence(gram({'e': [i, sin(i)]::DOUBLE[2],
        'x': i % 2, 'y': i}), 'y') AS s FROM range(9) t(i)""")
    query = "SELECT anytime_predict(s, {{'e': {}, 'x': 1}}).step FROM s"
    assert one(raw, query.format("[1, 2]::DOUBLE[2]")) == 2
    assert one(raw, query.format("NULL")) == 0
    for value, kind in (("[1.5, 2]", "LIST"), ("5", "INTEGER"), ("'a'", "VARCHAR")):
        with pytest.raises(duckdb.Error, match=rf"column 'e' has type {kind}; .*'e\[1\]'"):
            raw.execute(query.format(value)).fetchall()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            "anytime_sequence(g, 'y', {'x.a': 1})",
            "Error: anytime_sequence has no option 'x.a'; costs are given as .*arguments: "
            "dbselect.anytime_sequence",
        ),
        ("foba(g, 'y', 5)", "foba: options must be a STRUCT.*arguments: dbselect.foba"),
        ("foba(g, 'y', row(1, 2))", "options has a field without a name"),
        ("anytime_predict([{'terms': '}'}], {'a': 1})", "sequence has terms that are none"),
    ],
)
def test_a_mistake_of_sql_is_told(raw, call, sentence):
    stored(raw, ds.gram(table()))
    if "terms" in call:
        raw.execute("""CREATE TABLE s AS SELECT list_transform(anytime_sequence(g, 'y'),
            lambda one: struct_update(one, terms := '}')) AS s FROM grams""")
        call = "anytime_predict(s, {'a': 1}) FROM s --"
    with pytest.raises(duckdb.Error, match=sentence):
        raw.execute(f"SELECT {call} FROM grams").fetchall()


#: Prints the steps of a view, in a process of its own.
ANOTHER = """
import duckdb, sys
path, load, read_only = sys.argv[1:]
config = {"allow_unsigned_extensions": True}
con = duckdb.connect(path, read_only=read_only == "1", config=config)
con.execute(load)
print(con.execute("SELECT a, b FROM v").fetchall())
assert "dbselect" not in sys.modules
"""


@pytest.mark.system
@pytest.mark.parametrize("read_only", ["0", "1"])
def test_a_view_answers_in_another_process(tmp_path, read_only):
    path = tmp_path / "a.duckdb"
    with opened(path) as con:
        stored(con, ds.gram(table()))
        con.execute("""CREATE VIEW v AS SELECT
            len(dbselect.anytime_sequence(g, 'y', max_groups := 2)) AS a,
            len(anytime_sequence(g, 'y', {'max_groups': 1})) AS b FROM grams""")
        statement = load(con)
    command = [sys.executable, "-c", ANOTHER, str(path), statement, read_only]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert told == "[(3, 2)]\n"


def test_nothing_is_written_to_the_file(tmp_path):
    path = tmp_path / "a.duckdb"
    with opened(path) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS x")
        assert one(con, "SELECT gram_check(gram(t), 'x') FROM t").startswith("target 'x'")
    with duckdb.connect(str(path)) as con:
        assert con.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("t",)]
        macros = "SELECT count(*) FROM duckdb_functions() WHERE database_name = 'a'"
        databases = "SELECT count(*) FROM duckdb_databases() WHERE NOT internal"
        assert (one(con, macros), one(con, databases)) == (0, 1)


@pytest.mark.parametrize(
    ("path", "before", "name"),
    [
        ("dbselect.duckdb", "CREATE TABLE t AS SELECT 42 AS x", "t"),
        ("a.db", "CREATE SCHEMA dbselect; CREATE TABLE dbselect.t AS SELECT 42 x", "dbselect.t"),
        (
            ":memory:",
            "ATTACH ':memory:' AS dbselect; CREATE TABLE dbselect.t AS SELECT 42 AS x; "
            "CREATE MACRO dbselect.main.foba(a, b) AS a + b",
            "dbselect.t",
        ),
    ],
)  # fmt: skip
def test_what_is_called_as_the_catalog_is_left_alone(tmp_path, path, before, name):
    place = path if path == ":memory:" else str(tmp_path / path)
    with duckdb.connect(place, config={"allow_unsigned_extensions": True}) as con:
        con.execute(before)
        con.execute(load(con))
        assert one(con, f"SELECT x FROM {name}") == 42
        stored(con, ds.gram(table()))
        assert one(con, "SELECT len(anytime_sequence(g, 'y', {'budget': 1})) FROM grams") == 2
        if path == ":memory:":
            assert one(con, "SELECT dbselect.foba(1, 2)") == 3
        query = "SELECT count(*) FROM duckdb_functions() WHERE function_name = 'gram_check'"
        assert one(con, f"{query} AND database_name = 'dbselect'") == 0
        ds.register(con)
        assert one(con, "SELECT len(foba(g, 'y', nu := 0.5)) > 1 FROM grams")


def test_the_catalog_tells_what_there_is(raw):
    told = raw.execute("""SELECT function_name, comment, parameters FROM duckdb_functions()
        WHERE database_name = 'dbselect' ORDER BY 1""").fetchall()
    others = ["anytime_predict", "gram_check", "gram_extend", "key_sums", "model_sql", "predict"]
    others += ["a_optimal", "anytime_sequence_glm", "fit_glm", "glm_check", "glm_predict"]
    others += ["summary_glm"]
    others += ["memory_limit", "memory_limit", "predict_available"]  # with a limit, and without
    others += [
        "allocate",
        "allocate_summary",
        "evaluate",
        "fold_of",
        "functions",
        "gram",
        "gram_em",
        "gram_mean",
    ]
    others += ["gram_missing", "gram_patterns"]
    assert [name for name, *_ in told] == sorted([*OF_RECORDS, *others])
    assert all(f"dbselect.{name}(" in comment for name, comment, _ in told if comment)
    for name, _, parameters in told:
        if name in OF_RECORDS:
            method = OF_RECORDS[name]
            places = places_of(method)
            groups = [] if "columns" in places else ["groups", "costs"]
            own = [one for one in method.in_engines if one not in places]
            known = ["record", "target", *places, "options", *groups, *own]
            assert parameters == [*known, *method.fields_in_engines]


def test_the_table_of_functions_has_every_function_and_examples_that_run(raw):
    told = raw.execute("FROM dbselect.functions()").fetchall()
    names = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE database_name = 'dbselect'"
    catalog = {name for (name,) in raw.execute(names).fetchall()} - {"functions"}
    assert catalog <= {name for name, *_ in told}
    for name, arguments, options, about, example in told:
        assert [one["name"] for one in options] == re.findall(r"(\w+) :=", arguments), name
        assert all(one["type"] and one["description"] for one in options), name
        assert about.endswith("."), name
        assert f"{name}(" in example, name
        assert raw.execute(example).fetchall(), name


def test_registered_macros_and_functions_share_their_names(connection):
    stored(connection, ds.gram(table()))
    for name in ("anytime_sequence", "dbselect.anytime_sequence", "system.main.anytime_sequence"):
        assert one(connection, f"SELECT len({name}(g, 'y', {{'max_groups': 1}})) FROM grams") == 2
    for name in ("anytime_sequence", "dbselect.anytime_sequence"):
        assert one(connection, f"SELECT len({name}(g, 'y', max_groups := 1)) FROM grams") == 2
    call = f"anytime_predict(anytime_sequence(g, 'y'), {ROW}, {{'budget': 1}}).step"
    assert one(connection, f"SELECT {call} FROM grams") == 1
    query = "SELECT len(anytime_sequence(g, 'y', {'max_groups': 1}, ridge := 0.1)) FROM grams"
    assert one(connection, query) == 2
    with pytest.raises(duckdb.Error, match="unknown option 'rigde'"):
        connection.execute("SELECT anytime_sequence(g, 'y', {'rigde': 1}) FROM grams").fetchall()


# Clients without Python

SCRIPT = """
LOAD '{path}';
CREATE TABLE t AS SELECT i AS a, i % 3 AS b, 2 * i + i % 3 AS y FROM range(30) r(i);
CREATE VIEW v AS SELECT
    dbselect.anytime_sequence(gram(t), 'y', costs := {{'a': 1, 'b': 9}}) AS steps FROM t;
SELECT s.step AS step, s."group" AS g, s.spent AS spent FROM (SELECT unnest(steps) AS s FROM v);
SELECT round(anytime_predict(steps, {{'a': 1, 'b': 2}}).prediction, 9) AS p FROM v;
"""
SHOWN = [{"step": 0, "g": None, "spent": 0.0}, {"step": 1, "g": "a", "spent": 1.0}]
SHOWN += [{"step": 2, "g": "b", "spent": 10.0}]

NODE = """
const { DuckDBInstance } = require("@duckdb/node-api");
(async () => {
  const instance = await DuckDBInstance.create(":memory:", { allow_unsigned_extensions: "true" });
  const connection = await instance.connect();
  for (const statement of require("fs").readFileSync(0, "utf8").split(";\\n")) {
    if (statement.trim() === "") continue;
    const found = await connection.runAndReadAll(statement);
    if (statement.trim().startsWith("SELECT"))
      console.log(JSON.stringify(found.getRowObjectsJson()));
  }
})();
"""


#: `make setup` puts the clients into the virtual environment; elsewhere they are anyone's.
COMMAND = shutil.which("duckdb", path=Path(sys.executable).parent) or shutil.which("duckdb")
MODULES = Path(sys.prefix) / "node" / "node_modules"
NODE_ENVIRONMENT = {**os.environ, **({"NODE_PATH": str(MODULES)} if MODULES.exists() else {})}


def in_node(code: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", "-e", code], env=NODE_ENVIRONMENT, capture_output=True, text=True, check=False,
        **options,
    )  # fmt: skip


@cache
def node_has_duckdb() -> bool:
    return bool(shutil.which("node")) and in_node("require('@duckdb/node-api')").returncode == 0


def script() -> str:
    with duckdb.connect() as con:
        ((platform,),) = con.execute("PRAGMA platform").fetchall()
    return SCRIPT.format(path=extension_path(platform))


@pytest.mark.system
@pytest.mark.skipif(COMMAND is None, reason="there is no duckdb command")
def test_the_command_line_answers_from_an_empty_folder(tmp_path):
    command = [str(COMMAND), "-unsigned", "-json"]
    ended = subprocess.run(
        command, input=script(), capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert ended.stderr == ""
    steps, predicted = (json.loads(part + "]") for part in ended.stdout.split("]\n") if part)
    assert steps == SHOWN
    assert predicted == [{"p": 4.0}]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
@pytest.mark.skipif(COMMAND is None, reason="there is no duckdb command")
def test_the_command_line_follows_a_limit_that_is_set_after_the_extension_is_loaded():
    with duckdb.connect() as con:
        ((platform,),) = con.execute("PRAGMA platform").fetchall()
    text = f"""LOAD '{extension_path(platform)}'; SET memory_limit = '300MB';
        SELECT (dbselect.gram({{'x': 1}})).rows, dbselect.memory_limit();"""
    command = [str(COMMAND), "-unsigned", "-csv", "-noheader"]
    ended = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert ended.stdout.split() == ["1,150", "MB"], ended


def storage_of(con: duckdb.DuckDBPyConnection) -> str:
    query = "SELECT tags['storage_version'] FROM duckdb_databases() WHERE path IS NOT NULL"
    return str(one(con, query))


def test_files_are_those_of_the_oldest_duckdb_that_takes_the_extension(tmp_path):
    with ds.connect(tmp_path / "a.duckdb") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS x")
        assert storage_of(con).startswith("v1.3.0")
    with ds.connect(tmp_path / "b.duckdb", config={"storage_compatibility_version": "v1.5.0"}) as b:
        assert storage_of(b).startswith("v1.5.0")
    # A file that is there keeps its own.
    with duckdb.connect(str(tmp_path / "c.duckdb")) as con:
        own = storage_of(con)
        assert not own.startswith("v1.3.0")
    with ds.connect(tmp_path / "c.duckdb") as con:
        assert storage_of(con) == own


@pytest.mark.system
@pytest.mark.skipif(COMMAND is None, reason="there is no duckdb command")
def test_the_command_line_opens_what_python_writes(tmp_path):
    with ds.connect(tmp_path / "a.duckdb") as con:
        con.execute("CREATE TABLE t AS SELECT i AS x, 2 * i AS y FROM range(9) r(i)")
        con.execute("CREATE TABLE grams AS SELECT gram(t) AS g FROM t")
    load = script().splitlines()[1]
    command = [str(COMMAND), "-unsigned", "-csv", "-noheader", str(tmp_path / "a.duckdb")]
    query = f"{load} SELECT predict(fit(g, 'y'), {{'x': 50}}).prediction::INT FROM grams;"
    ended = subprocess.run(command, input=query, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("100\n", "")


@pytest.mark.system
@pytest.mark.skipif(not node_has_duckdb(), reason="node has no package @duckdb/node-api")
def test_node_answers_from_an_empty_folder(tmp_path):
    ended = in_node(NODE, input=script(), cwd=tmp_path)
    assert ended.stderr == ""
    steps, predicted = map(json.loads, ended.stdout.splitlines())
    assert [{**step, "step": int(step["step"])} for step in steps] == SHOWN
    assert predicted == [{"p": 4.0}]


LOOKED = """SELECT gram_merge(g) AS g, dbselect.key_sums({'k': k, 's': s}, g) AS sums
    FROM (SELECT k, s, gram({'x': x, 'y': y}) AS g FROM facts GROUP BY k, s)"""
TABLE = "(SELECT list(o) FROM other o)"


@pytest.fixture
def shops(raw: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Facts of 300 rows by a key of two fields, and a table without rows for some of the keys."""
    raw.execute("""CREATE TABLE facts AS SELECT hash(i) % 7 AS k, 's' || hash(i + 500) % 3 AS s,
        sin(i) AS x, cos(i * i) + i % 5 AS y FROM range(300) t(i)""")
    raw.execute("""CREATE TABLE other AS SELECT DISTINCT k, s, 1e8 + k * k AS z,
        CASE WHEN s = 's0' THEN NULL ELSE k + 0.5 END AS gap, 't' || k % 2 AS kind
        FROM facts WHERE k <> 3""")
    return raw


def assert_records(found: dict[str, Any], expected: dict[str, Any]) -> None:
    counts = ("columns", "rows", "skipped", "missing", "weight")
    assert {name: found[name] for name in counts} == {name: expected[name] for name in counts}
    assert json.loads(found["terms"]) == json.loads(expected["terms"])
    np.testing.assert_allclose(found["mean"], expected["mean"], rtol=1e-14, atol=1e-13)
    np.testing.assert_allclose(found["comoment"], expected["comoment"], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "row", "aggregate"),
    [
        ("{'unmatched': 'skip'}", "x, y, z, gap, kind", "gram"),
        ("{'columns': ['z', 'gap']}", "x, y, z, gap", "gram_missing"),
        ("{'unmatched': 'skip', 'columns': ['ki*']}", "x, y, kind", "gram"),
    ],
)
def test_a_table_that_is_looked_up_is_as_joined(shops, options, row, aggregate):
    found = one(shops, f"SELECT gram_extend(g, sums, {TABLE}, {options}) FROM ({LOOKED})")
    fields = ", ".join(f"'{name}': {name}" for name in row.split(", "))
    joined = "facts LEFT JOIN other USING (k, s)"
    joined = ds.Gram.from_struct(one(shops, f"SELECT {aggregate}({{{fields}}}) FROM {joined}"))
    assert_records(found, joined.select(found["columns"]).to_struct())


def test_columns_that_are_looked_up_may_have_a_prefix_and_other_names(shops):
    shops.execute("CREATE TABLE renamed AS SELECT k AS a, s AS b, z FROM other")
    call = "(SELECT list(o) FROM renamed o), name := 'shop', key := {'s': 'b', 'k': 'a'}"
    found = one(shops, f"SELECT dbselect.gram_extend(g, sums, {call}) FROM ({LOOKED})")
    assert found["columns"] == ["x", "y", "shop.z", "shop.z.missing"]
    assert found["rows"] == 300


@pytest.mark.parametrize(
    ("sums", "table", "options", "told"),
    [
        ("sums", TABLE, "{'unmatched': 'error'}", "lacks a value for .* rows, .*allows none"),
        ("sums", TABLE, "NULL", "text has no indicator"),
        ("sums", TABLE, "{'unmatchd': 'skip'}", "unknown option 'unmatchd'; there is 'unmatched'"),
        ("sums", TABLE, "{'many': ['mean']}", "aggregate the table by its key first"),
        ("sums", TABLE, "{'key': ['k']}", "the sums are by .*k.*s"),
        ("sums", TABLE, "{'columns': ['none']}", "columns names unknown column 'none'"),
        ("sums", "(SELECT list({'k': k, 's': k}) FROM other)", "NULL", "text and a number"),
        ("sums", "(SELECT list({'k': k, 's': s, 'y': 1}) FROM other)", "NULL", "column 'y', which"),
        ("sums", "(SELECT list({'k': 1, 's': 's1', 'z': k}) FROM other)", "NULL", "several rows"),
        ("[1, 2]", TABLE, "NULL", "sums must be key_sums"),
        ("5", TABLE, "NULL", "sums has type INTEGER; it must be"),
        ("[{'key': {'k': 1}, 'gram': 5}]", TABLE, "NULL", "must have Gram records"),
        ("sums[:2]", TABLE, "{'unmatched': 'skip'}", "both must be of the same"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_looked_up_is_refused(shops, sums, table, options, told):
    with pytest.raises(duckdb.InvalidInputException, match=f"gram_extend: .*{told}"):
        one(shops, f"SELECT gram_extend(g, {sums}, {table}, {options}) FROM ({LOOKED})")
    assert one(shops, f"SELECT gram_extend(g, NULL, {TABLE}) FROM ({LOOKED})") is None
