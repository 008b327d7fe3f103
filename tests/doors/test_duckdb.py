"""The SQL functions, in a real DuckDB, against NumPy."""

import re
import subprocess
import sys

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tables import assert_gram, typed

import dbselect as ds

NAMES = ["a", "b", "y"]


def rows_of(con, rng, rows, name="t", groups=5):
    """Store a table of three columns, a weight, an order and a key; return X, w and the key."""
    X = rng.normal([100.0, 0.0, -3.0], 1.0, (rows, 3))
    X[rng.random(X.shape) < 0.02] = np.nan
    weight = rng.integers(0, 4, rows) / 2.0
    key = rng.integers(0, groups, rows)
    columns = {**{n: pa.array(X[:, j], from_pandas=True) for j, n in enumerate(NAMES)},
               "w": weight, "k": key, "seq": np.arange(rows)}  # fmt: skip
    con.register("arrow", pa.table(columns))
    con.execute(f"CREATE OR REPLACE TABLE {name} AS FROM arrow")
    con.unregister("arrow")
    return X, weight, key


def one(con, query):
    return con.execute(query).fetchall()[0][0]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 31, 33, 2048, 5001, 130_000])
@pytest.mark.parametrize("threads", [1, 4])
def test_gram_of_a_stored_table_is_the_definition(rows, threads):
    with ds.connect(config={"threads": threads}) as con:
        X, weight, _ = rows_of(con, np.random.default_rng(1), rows)
        assert_gram(one(con, "SELECT gram({'a': a, 'b': b, 'y': y}) FROM t"), NAMES, X)
        weighted = one(con, "SELECT gram({'a': a, 'b': b, 'y': y}, w) FROM t")
        assert_gram(weighted, NAMES, X, weight)


def test_a_table_alias_is_a_row(connection):
    X, weight, key = rows_of(connection, np.random.default_rng(2), 3000)
    names = [*NAMES, "w", "k", "seq"]
    whole = np.column_stack([X, weight, key, np.arange(3000)])
    assert_gram(one(connection, "SELECT gram(q) FROM t q"), names, whole)
    some = "SELECT gram(q) FROM (SELECT * EXCLUDE (w, k, seq) FROM t) q"
    assert_gram(one(connection, some), NAMES, X)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "groups"), [(60_000, 3), (60_000, 7000), (200, 400)])
@pytest.mark.parametrize("weighted", [False, True])
def test_group_by_gives_each_group_its_own_rows(connection, rows, groups, weighted):
    X, weight, key = rows_of(connection, np.random.default_rng(3), rows, groups=groups)
    argument = ", w" if weighted else ""
    query = f"SELECT k, gram({{'a': a, 'b': b, 'y': y}}{argument}) FROM t GROUP BY k ORDER BY k"
    found = connection.execute(query).fetchall()
    assert [k for k, _ in found] == sorted(set(key.tolist()))
    for k, record in found[:: max(1, len(found) // 50)]:
        mine = key == k
        assert_gram(record, NAMES, X[mine], weight[mine] if weighted else None)
    assert sum(record["rows"] + record["skipped"] for _, record in found) == rows


@pytest.mark.parametrize(
    ("frame", "bounds"),
    [
        ("ROWS UNBOUNDED PRECEDING", lambda i, n: (0, i + 1)),
        ("ROWS BETWEEN 40 PRECEDING AND 7 FOLLOWING", lambda i, n: (max(0, i - 40), i + 8)),
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", lambda i, n: (0, n)),
        ("ROWS BETWEEN 3 FOLLOWING AND 9 FOLLOWING", lambda i, n: (i + 3, i + 10)),
    ],
    ids=["cumulative", "sliding", "whole", "ahead"],
)
@pytest.mark.parametrize("function", ["gram", "gram_merge"])
def test_window_frames_hold_their_own_rows(connection, frame, bounds, function):
    X, weight, key = rows_of(connection, np.random.default_rng(6), 2500, groups=2)
    if function == "gram":
        table, call = "t", "gram({'a': a, 'b': b, 'y': y}, w)"
    else:
        table = "(SELECT k, seq, gram({'a': a, 'b': b, 'y': y}, w) AS g FROM t GROUP BY k, seq)"
        call = "gram_merge(g)"
    query = (
        f"SELECT k, {call} OVER (PARTITION BY k ORDER BY seq {frame}) FROM {table} ORDER BY k, seq"
    )
    found = connection.execute(query).fetchall()
    for k in (0, 1):
        records = [record for other, record in found if other == k]
        mine = np.flatnonzero(key == k)
        assert len(records) == len(mine)
        for i in [*range(0, len(mine), 97), len(mine) - 1]:
            start, end = bounds(i, len(mine))
            at = mine[start:end]
            if len(at) == 0:
                assert records[i] is None
            else:
                assert_gram(records[i], NAMES, X[at], weight[at])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT gram({'x': 1}) FROM range(0)",
        "SELECT gram({'x': 1}) FILTER (false) FROM range(9)",
        "SELECT gram(NULL)",
        "SELECT gram(NULL, 1.0) FROM range(5000)",
        "SELECT gram_merge(NULL)",
        "SELECT gram_merge(g) FROM (SELECT gram({'x': 1}) AS g FROM range(0))",
        "SELECT gram_remove(NULL, gram({'x': 1}))",
        "SELECT gram_remove(gram({'x': 1}), NULL)",
    ],
)
def test_no_rows_and_null_give_null(connection, query):
    assert connection.execute(query).fetchall() == [(None,)]


@pytest.mark.parametrize(
    ("row", "skipped"),
    [
        ("{'x': NULL, 'y': i}", 10),
        ("NULL::STRUCT(x INTEGER, y INTEGER)", 10),
        ("{'x': CASE WHEN i < 4 THEN NULL ELSE i END, 'y': i}", 4),
        ("{'x': CASE WHEN i < 4 THEN 'nan'::DOUBLE ELSE i END, 'y': i}", 4),
        ("{'x': CASE WHEN i < 4 THEN 'nan'::FLOAT ELSE i::FLOAT END, 'y': i}", 4),
        ("CASE WHEN i < 4 THEN NULL ELSE {'x': i, 'y': i} END", 4),
    ],
)
def test_incomplete_rows_are_skipped_and_counted(connection, row, skipped):
    found = one(connection, f"SELECT gram({row}) FROM range(10) t(i)")
    X = np.arange(10.0)[:, None].repeat(2, axis=1)
    X[:skipped, 0] = np.nan
    assert_gram(found, ["x", "y"], X)


INTEGERS = "TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT"
LARGEST = {
    "TINYINT": 127, "SMALLINT": 2**15 - 1, "INTEGER": 2**31 - 1, "BIGINT": 2**63 - 1,
    "HUGEINT": 2**127 - 1, "UTINYINT": 255, "USMALLINT": 2**16 - 1, "UINTEGER": 2**32 - 1,
    "UBIGINT": 2**64 - 1, "UHUGEINT": 2**128 - 1,
}  # fmt: skip


@pytest.mark.parametrize("kind", INTEGERS.split())
def test_integers_are_read_over_their_whole_range(connection, kind):
    top = LARGEST[kind]
    values = [top, top // 3, 1, 0 if kind.startswith("U") else -top]
    rows = ", ".join(f"('{v}'::{kind})" for v in values)
    found = one(connection, f"SELECT gram({{'x': x}}) FROM (VALUES {rows}, (NULL)) t(x)")
    X = np.array([*map(float, values), np.nan])[:, None]
    assert_gram(found, ["x"], X)


@pytest.mark.parametrize(
    "kind", ["DECIMAL(3,1)", "DECIMAL(8,3)", "DECIMAL(17,6)", "DECIMAL(38,10)", "FLOAT", "DOUBLE"]
)
def test_fractions_are_read_at_every_stored_width(connection, kind):
    values = [12.5, -0.5, 99.0, -44.5, 0.0]
    rows = ", ".join(f"('{v}'::{kind})" for v in values)
    found = one(connection, f"SELECT gram({{'x': x}}) FROM (VALUES {rows}) t(x)")
    assert_gram(found, ["x"], np.array(values)[:, None])


@pytest.mark.parametrize("weight", ["2", "2::UTINYINT", "2.0", "2::FLOAT", "2::HUGEINT"])
def test_a_weight_may_have_any_numeric_type(connection, weight):
    found = one(connection, f"SELECT gram({{'x': i}}, {weight}) FROM range(3) t(i)")
    assert_gram(found, ["x"], np.arange(3.0)[:, None], np.full(3, 2.0))


def test_typed_and_nested_columns_are_flattened(connection):
    table = typed(np.random.default_rng(7), rows=5000)
    connection.register("t", table.frame.to_arrow())
    query = "SELECT gram(q, weight) FROM (SELECT * EXCLUDE (region, weight), weight FROM t) q"
    names = [*table.names, "weight"]
    found = one(connection, query)
    assert_gram(found, names, np.column_stack([table.X, table.weight]), table.weight)


def test_null_at_each_level_of_nesting_skips_the_row(connection):
    kind = "STRUCT(p DOUBLE, e DOUBLE[2])[2]"
    full = "[{'p': 1, 'e': [2, 3]}, {'p': 4, 'e': [5, 6]}]"
    rows = [
        full,
        "NULL",
        "[NULL, {'p': 4, 'e': [5, 6]}]",
        "[{'p': NULL, 'e': [2, 3]}, {'p': 4, 'e': [5, 6]}]",
        "[{'p': 1, 'e': [2, 3]}, {'p': 4, 'e': NULL}]",
        "[{'p': 1, 'e': [2, NULL]}, {'p': 4, 'e': [5, 6]}]",
        "[{'p': 1, 'e': [2, 3]}, {'p': 4, 'e': [5, 'nan'::DOUBLE]}]",
        "[{'p': 7, 'e': [8, 9]}, {'p': 10, 'e': [11, 12]}]",
    ]
    names = ["s[1].p", "s[1].e[1]", "s[1].e[2]", "s[2].p", "s[2].e[1]", "s[2].e[2]"]
    X = np.full((len(rows), 6), np.nan)
    X[0], X[-1] = np.arange(1, 7), np.arange(7, 13)
    values = ", ".join(f"(({row})::{kind})" for row in rows)
    # Stored, so that vectors are flat; many copies, so that they are cut anywhere.
    connection.execute(f"CREATE TABLE t AS SELECT s FROM (VALUES {values}) v(s), range(700)")
    assert_gram(one(connection, "SELECT gram({'s': s}) FROM t"), names, np.tile(X, (700, 1)))
    inside = one(connection, "SELECT gram({'o': {'s': s, 'n': 1}}) FROM t")
    assert inside["columns"] == [*(f"o.{name}" for name in names), "o.n"]
    assert (inside["rows"], inside["skipped"]) == (1400, 4200)


def test_merged_parts_are_the_whole(connection, tmp_path):
    X, weight, key = rows_of(connection, np.random.default_rng(8), 40_000, groups=300)
    parts = tmp_path / "parts.parquet"
    call = "gram({'a': a, 'b': b, 'y': y}, w)"
    connection.execute(f"COPY (SELECT k, {call} AS g FROM t GROUP BY k) TO '{parts}'")
    assert_gram(one(connection, f"SELECT gram_merge(g) FROM '{parts}'"), NAMES, X, weight)
    query = f"SELECT k % 7 AS m, gram_merge(g) FROM '{parts}' GROUP BY m ORDER BY m"
    for m, record in connection.execute(query).fetchall():
        assert_gram(record, NAMES, X[key % 7 == m], weight[key % 7 == m])
    listed = one(connection, f"SELECT list_aggregate(list(g), 'gram_merge') FROM '{parts}'")
    assert_gram(listed, NAMES, X, weight)


def test_remove_is_the_inverse_of_merge(connection):
    X, weight, key = rows_of(connection, np.random.default_rng(9), 9000)
    query = """WITH g AS (SELECT k, gram({'a': a, 'b': b, 'y': y}, w) AS g FROM t GROUP BY k)
        SELECT k, gram_remove((SELECT gram_merge(g) FROM g), g) FROM g ORDER BY k"""
    for k, record in connection.execute(query).fetchall():
        assert_gram(record, NAMES, X[key != k], weight[key != k], tolerance=1e-11)
    nothing = one(connection, "SELECT gram_remove(g, g) FROM (SELECT gram({'x': a}) g FROM t)")
    assert (nothing["rows"], nothing["weight"]) == (0, 0.0)


def test_a_record_is_cut_to_columns(connection):
    X, weight, _ = rows_of(connection, np.random.default_rng(10), 500)
    X[np.isnan(X).any(axis=1)] = np.nan  # what was left out for b stays so
    whole = "gram({'a': a, 'b': b, 'y': y, 'kind': k::VARCHAR}, w)"
    cut = one(connection, f"SELECT gram_select({whole}, ['y', 'a']) FROM t")
    assert_gram(cut, ["y", "a"], X[:, [2, 0]], weight)
    assert cut["terms"] is None
    kept = one(connection, f"SELECT gram_select({whole}, ['kind', '?']) FROM t")
    read = one(connection, "SELECT gram({'kind': k::VARCHAR, 'a': a, 'b': b, 'y': y}, w) FROM t")
    assert (kept["columns"], kept["terms"]) == (read["columns"], read["terms"])
    np.testing.assert_allclose(kept["comoment"], read["comoment"], rtol=1e-11, atol=1e-9)
    assert one(connection, "SELECT gram_select(NULL, ['a'])") is None
    for columns, told in [
        ("['kind.1']", "'kind.0'; name 'kind', or all of it"),
        ("['z']", "unknown column 'z'"),
        ("[]", "columns is \\[\\]; it must"),
        ("'a'", "columns is 'a'; it must be a list of column names and globs"),
    ]:
        with pytest.raises(duckdb.InvalidInputException, match=f"gram_select: .*{told}"):
            connection.execute(f"SELECT gram_select({whole}, {columns}) FROM t").fetchall()


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("gram({'y': i, 'x': i * i})", None),
        ("gram({'y': 7, 'x': i})", r"'y' is constant \(5 rows\)"),
        ("gram({'y': i, 'x': i}) FILTER (false)", "no rows"),
        ("gram({'y': i, 'x': NULL})", "no usable rows.*5 rows were skipped"),
        ("gram({'y': i, 'x': i}, 0)", "no usable rows"),
        ("any_value({'columns': ['y'], 'rows': 2, 'skipped': 0, 'weight': 2, "
         "'mean': [1.0, 2.0], 'comoment': [1.0]})", "'mean'"),
    ],
)  # fmt: skip
def test_gram_check_says_why_a_record_is_unusable(connection, record, reason):
    found = one(connection, f"SELECT gram_check({record}, 'y') FROM range(5) t(i)")
    if reason is None:
        assert found is None
    else:
        assert re.search(reason, found)


def linear_table(con, rng, rows=2000):
    """Store `t` with y = 3 a + b - 2 c + noise in three segments; c costs most to get."""
    a, b, c, noise = rng.standard_normal((4, rows))
    y = 10 + 3 * a + b - 2 * c + 0.1 * noise
    segment = np.arange(rows) % 3
    con.register("arrow", pa.table({"y": y, "a": a, "b": b, "c": c, "segment": segment}))
    con.execute("CREATE OR REPLACE TABLE t AS FROM arrow")
    con.unregister("arrow")
    return np.column_stack([a, b, c]), y, segment


ROW = "{'y': y, 'a': a, 'b': b, 'c': c}"


def predictions(con, row, budget="", table="t"):
    sequence = f"anytime_sequence(gram({ROW}), 'y', costs := {{'a': 1, 'b': 2, 'c': 4}})"
    query = f"""SELECT p.prediction, p.step, p.spent, p.next_group FROM (
        SELECT anytime_predict(s, {row}{budget}) AS p
        FROM {table}, (SELECT {sequence} AS s FROM t))"""
    return con.execute(query).fetchall()


@pytest.mark.parametrize(
    ("row", "step"),
    [
        ("{'a': a, 'b': b, 'c': c}", 3),
        ("{'c': c, 'b': b, 'more': 1, 'a': a}", 3),
        ("{'a': a, 'b': NULL, 'c': c}", 2),
        ("{'a': a, 'b': 'nan'::DOUBLE, 'c': c}", 2),
        ("{'a': a, 'b': b}, missing_columns := 'unavailable'", 1),
        ("{'A': a, 'B': b, 'c': c}", 3),
        ("{'b': b, 'c': c, 'day': DATE '2026-01-01'}, missing_columns := 'unavailable'", 0),
        ("{'a': a, 'b': b, 'c': c, 'name': 'text', 'tags': ['x']}", 3),
        ("{'a': a}, budget := 4.9", 1),
        ("NULL", 0),
    ],
)
def test_a_prefix_needs_its_columns_to_be_present(connection, row, step):
    linear_table(connection, np.random.default_rng(18))
    found = predictions(connection, row)
    assert {found[1] for found in found} == {step}
    assert {found[3] for found in found} == {["a", "c", "b", None][step]}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("{'a': a, 'b': 'text', 'c': c}", "column 'b' has type VARCHAR; the fit has read a number"),
        ("{'a': a, 'b': DATE '2026-01-01'}", "column 'b' has type DATE; the fit has read a number"),
        ("{'aa': a, 'b': b}", "the rows lack columns 'a', 'c', which the prediction reads; there"),
        ("{'a': a, 'b': b}, budget := 5", "the rows lack column 'c', which"),
        ("t, handle_unknown := 'no'", "handle_unknown is 'no'; it must be one of"),
        ("t, missing_columns := 'no'", "missing_columns is 'no'; it must be one of"),
    ],
)
def test_a_row_that_no_prefix_can_read_is_an_error(connection, row, words):
    linear_table(connection, np.random.default_rng(18))
    with pytest.raises(duckdb.Error, match=re.escape(words)):
        predictions(connection, row)
    assert len(predictions(connection, "t")) > 0  # the connection goes on


def test_registering_twice_is_harmless(connection):
    ds.register(connection)
    ds.register(connection)
    assert one(connection, "SELECT gram({'x': i}).rows FROM range(3) t(i)") == 3
    assert one(connection, "SELECT gram_check(gram({'y': i}), 'y') FROM range(3) t(i)") is None


def test_a_cursor_is_registered_on_its_own(connection):
    with connection.cursor() as cursor:
        ds.register(cursor)
        query = "SELECT len(anytime_sequence(gram({'y': i * i, 'x': i}), 'y')) FROM range(9) t(i)"
        assert one(cursor, query) == 2
    assert one(connection, query) == 2


def test_functions_outlive_the_cursor_that_registered_them():
    with duckdb.connect(config={"allow_unsigned_extensions": True}) as con:
        with con.cursor() as cursor:
            ds.register(cursor)
        ds.register(con)
        query = "SELECT len(anytime_sequence(gram({'y': i * i, 'x': i}), 'y')) FROM range(9) t(i)"
        assert one(con, query) == 2


def test_a_connection_that_refuses_the_extension_is_told_two_ways_out():
    with duckdb.connect() as con:
        with pytest.raises(ds.errors.EngineError) as refusal:
            ds.register(con)
        assert "dbselect.connect()" in str(refusal.value)
        assert "allow_unsigned_extensions" in str(refusal.value)
        assert con.execute("SELECT 42").fetchall() == [(42,)]
        assert ds.gram(con.sql("SELECT i AS x FROM range(3) t(i)")).mean == [1.0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("gram({'x': i, 'name': 'text'::BLOB})", ["'name'", "BLOB", "numeric, boolean, dates"]),
        ("gram({'s': {'day': TIME '12:00:00'}})", ["'s.day'", "TIME"]),
        ("gram({'x': [1, i]})", ["'x'", "LIST"]),
        ("gram({'x': if(i = 9, 'inf'::DOUBLE, 0)})", ["'x'", "infinite value (inf)", "finite"]),
        ("gram({'e': [0, if(i = 9, '-inf'::FLOAT, 0)]::FLOAT[2]})", ["'e[2]'", "(-inf)"]),
        ("gram({'x': i}, 3 - i)", ["weight is negative (-1)", ">= 0"]),
        ("gram({'x': i}, 'inf'::DOUBLE)", ["weight", "infinite"]),
        ("gram({'x': i * 1e200})", ["'x'", "overflow"]),
        ("gram(i)", ["row", "STRUCT", "BIGINT"]),
        ("gram(row(i, i))", ["without a name"]),
        ("gram_remove(gram({'x': i}) FILTER (i > 3), gram({'x': i}))", ["cannot remove", "part"]),
        ("gram_remove(gram({'x': i, 'y': i}), gram({'x': i, 'z': i}))", ["'y'", "'z'", "unequal"]),
        (
            "gram_remove(gram({'x': i, 'k': i::VARCHAR}), gram({'z': i, 'k': 'other'}))",
            ["first: 'x'; only in the second: 'z'"],
        ),
        (
            "gram_remove(gram({'x': i, 'd': DATE '2026-01-01'}), gram({'x': i, 'd': now()}))",
            ["column 'd': it is a date in the first, a timestamp in the second"],
        ),
    ],
)
def test_mistakes_are_named_and_the_connection_goes_on(connection, call, words):
    with pytest.raises(duckdb.Error) as refusal:
        connection.execute(f"SELECT {call} FROM range(10) t(i)").fetchall()
    missing = [word for word in words if word not in str(refusal.value)]
    assert not missing, f"{missing} not in: {refusal.value}"
    assert connection.execute("SELECT 42").fetchall() == [(42,)]


def test_an_error_in_one_group_of_many_threads_leaves_the_database_usable():
    with ds.connect(config={"threads": 4}) as con:
        query = """SELECT k, gram({'x': if(i = 299999, 'inf'::DOUBLE, i)}) FROM (
            SELECT i, i % 1000 AS k FROM range(300000) t(i)) GROUP BY k"""
        for _ in range(3):
            with pytest.raises(duckdb.InvalidInputException, match="'x' has an infinite"):
                con.execute(query).fetchall()
        assert len(con.execute(query.replace("inf", "0")).fetchall()) == 1000


@pytest.mark.slow
def test_a_script_that_closes_its_connection_ends_in_silence():
    script = """import dbselect as ds
con = ds.connect()
call = "anytime_sequence(gram({'y': i * i, 'x': i}), 'y')"
con.execute(f"SELECT {call} FROM range(9) t(i)").fetchall()
con.close()"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert (ended.stdout, ended.stderr) == ("", "")


def test_a_relation_whose_table_is_gone_is_refused():
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT 1.0 AS x")
        relation = con.table("t")
        con.execute("DROP TABLE t")
        with pytest.raises(ds.errors.SourceError, match="DuckDB cannot read the relation"):
            ds.gram(relation)
