"""A table that others write while it is read: all queries of a call see one state of it."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import cycle

import duckdb
import numpy as np
import polars as pl
import pytest
from warehouses import Warehouse, opened

import dbselect as ds
from dbselect.sources.engines import ibis as of_ibis

#: What ibis asks of pandas.
pytestmark = pytest.mark.filterwarnings("ignore:The .future.infer_string")
SHIFT = 1000
SERVERS = ["postgres", "mysql"]


def rows() -> pl.DataFrame:
    """Return rows whose target is the sum of their features, and shifts with one of them."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(-50, 50, size=(2, 300)).astype(float)
    k = ["u", "v", "w"] * 100
    own = np.array([0.0, 1.0, 2.0] * 100)
    return pl.DataFrame({"a": a, "b": b, "k": k, "y": a + 2 * b + own})


@contextmanager
def written(warehouse: Warehouse, name: str, queries: list[str]) -> Iterator[None]:
    """Have another connection write into a table, one transaction after the other."""
    begun, stop = threading.Event(), threading.Event()

    def write() -> None:
        with closing(warehouse.another()) as other:
            for query in cycle(queries):
                other.cursor().execute(query.format(name))
                begun.set()
                if stop.wait(0.001):
                    return

    thread = threading.Thread(target=write)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        stop.set()
        thread.join()


WRITES = {
    "update": [
        f"UPDATE {{}} SET a = a {sign} {SHIFT}, y = y {sign} {SHIFT}" for sign in ("+", "-")
    ],
    "insert": ["INSERT INTO {} VALUES (3, 4, 'new', 18), (-2, 1, 'new', 7), (5, -7, 'new', -2)"],
}

CALLS = {
    "anytime_sequence": lambda table: ds.anytime_sequence(table, "y").r2[-1],
    "fit": lambda table: ds.fit(table, "y").r2,
    "by": lambda table: ds.anytime_sequence_by(ds.gram_by(table, ["k"], ["a", "b", "y"]), "y")[
        "sequence"
    ][-1][-1]["r2"],
}


@pytest.mark.system
@pytest.mark.filterwarnings("ignore::dbselect.errors.DriverWarning")
@pytest.mark.parametrize("write", ["update", "insert"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("database", SERVERS)
def test_a_call_reads_one_state_of_a_server(database, write, call):
    with opened(database) as warehouse:
        table = warehouse.load(rows())
        with written(warehouse, table.get_name(), WRITES[write]):
            found = [CALLS[call](table) for _ in range(12)]
        assert min(found) > 0.99
        # The connection is the caller's again.
        warehouse.connection.con.cursor().execute(f"DELETE FROM {table.get_name()}")


def counted(table: pl.DataFrame) -> pl.DataFrame:
    """Return rows with a count to predict, and whether it is a large one."""
    counts = (table["y"].abs() / 20).floor()
    return table.with_columns(counts.alias("c"), (counts > 3).cast(pl.Float64).alias("high"))


#: Each reads the table several times.
METHODS = {
    "poisson": lambda table: ds.fit(table, "c", ["a", "b"], family="poisson").deviance,
    "anytime": lambda table: (
        ds.Problem(table, "high", {"a": ["a"], "b": ["b"]}, family="binomial")
        .anytime_sequence()
        .steps["explained"][-1]
    ),
    "lazy": lambda table: ds.Problem(table, "y", gram="lazy").anytime_sequence().r2[2],
    "folds": lambda table: (
        ds.Problem(table, "c", {"a": ["a"], "b": ["b"]}, family="poisson")
        .cross_validate("anytime_sequence", folds=2, key="n")
        .table["deviance"][-1]
    ),
    "evaluate": lambda table: ds.evaluate(
        ds.fit(counted(rows()), "c", ["a", "b"], family="poisson"), table
    )["deviance"][0],
    "resample": lambda table: ds.io.resample(table, ["a", "k"], records=2, key="n")[
        "gram"
    ].struct.field("mean")[0][0],
}
CHANGE = "UPDATE {} SET a = 30 * high - a, c = 9 - c, y = b - y"


def check_states(table, both: list[pl.DataFrame], calls: int) -> None:
    """Check that what methods find is what they find of one of two states."""
    for name, call in METHODS.items():
        expected = [call(state) for state in both]
        assert abs(expected[0] - expected[1]) > 1e-3, name
        for _ in range(calls):
            found = call(table)
            assert min(abs(found - each) for each in expected) < 1e-6, name


def two_states() -> list[pl.DataFrame]:
    frame = counted(rows()).with_row_index("n").with_columns(pl.col("n").cast(pl.Int64))
    frame = frame.with_columns(c=pl.col("c").clip(0, 9))
    a, c, high, y, b = map(pl.col, ["a", "c", "high", "y", "b"])
    return [frame, frame.with_columns(a=30 * high - a, c=9 - c, y=b - y)]


@pytest.mark.system
@pytest.mark.filterwarnings("ignore::dbselect.errors.DriverWarning")
@pytest.mark.parametrize("database", SERVERS)
def test_methods_of_several_passes_read_one_state_of_a_server(database):
    both = two_states()
    with opened(database) as warehouse:
        table = warehouse.load(both[0])
        with written(warehouse, table.get_name(), [CHANGE]):
            check_states(table, both, 6)


@pytest.mark.slow
def test_methods_of_several_passes_read_one_state_of_duckdb():
    both = two_states()
    connection = duckdb.connect()
    connection.register("frame", both[0].to_arrow())
    connection.execute("CREATE TABLE t AS FROM frame")
    writer, stop = connection.cursor(), threading.Event()

    def write() -> None:
        while not stop.wait(0.001):
            writer.execute(CHANGE.format("t"))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        check_states(connection.table("t"), both, 6)
    finally:
        stop.set()
        thread.join()


def test_a_connection_of_duckdb_is_the_callers_after_a_call():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range AS x, -range AS y FROM range(5)")
    relation, writer = connection.table("t"), connection.cursor()

    def insert(_: object) -> None:
        """Write from a callback, once on the connection of the call and once on another."""
        connection.execute("CREATE TABLE own AS SELECT 1 AS one")
        writer.execute("INSERT INTO t VALUES (9, 9)")

    assert ds.anytime_sequence(relation, "y", callback=insert).r2[-1] > 0.99
    assert ds.gram(relation).rows == 6
    assert connection.table("own").fetchall() == [(1,)]
    assert not connection.sql("FROM duckdb_views() WHERE NOT internal").fetchall()
    # A transaction of the caller is neither ended nor left.
    connection.execute("BEGIN")
    connection.execute("DELETE FROM t WHERE x < 3")
    assert ds.fit(relation, "y").rows == 3
    connection.execute("ROLLBACK")
    assert ds.gram(relation).rows == 6
    # Nor does a call that fails leave one open.
    with pytest.raises(ds.errors.SourceError):
        ds.gram(relation.select("x, error('no')::DOUBLE AS y"))
    connection.execute("BEGIN")


@pytest.mark.system
@pytest.mark.parametrize("database", SERVERS)
def test_a_transaction_of_the_caller_stays_open(database):
    with opened(database) as warehouse:
        table, run = warehouse.load(rows()), warehouse.connection.con.cursor().execute
        run("BEGIN")
        run(f"DELETE FROM {table.get_name()} WHERE k = 'u'")
        assert ds.gram(table).rows == 200
        run("ROLLBACK")
        assert ds.gram(table).rows == 300


@pytest.mark.system
def test_a_connection_of_mysql_that_commits_nothing_stays_so():
    with opened("mysql") as warehouse:
        table = warehouse.load(rows())
        warehouse.connection.con.autocommit(False)
        with written(warehouse, table.get_name(), WRITES["update"]):
            assert min(CALLS["fit"](table) for _ in range(5)) > 0.99
        assert not warehouse.connection.con.get_autocommit()


@pytest.mark.system
@pytest.mark.filterwarnings("ignore::dbselect.errors.DriverWarning")
def test_enums_and_numbers_of_any_digits_are_read():
    frame = rows().with_columns(pl.when(pl.col("k") != "w").then("k").alias("k"), n=pl.col("a") / 3)
    with opened("postgres") as warehouse:
        run = warehouse.connection.con.execute
        run("CREATE TYPE kind AS ENUM ('v', 'u')")
        table = warehouse.load(frame, {"n": "numeric", "k": "kind"})
        run(f"UPDATE {table.get_name()} SET n = 0.12345678901234567890123 WHERE a = 0")
        frame = frame.with_columns(
            n=pl.when(pl.col("a") == 0).then(0.12345678901234567890123).otherwise("n")
        )
        for call in (
            lambda rows: ds.gram(rows, null_policy="indicator"),
            lambda rows: ds.Gram.from_struct(ds.gram_by(rows, ["k"], ["a", "n"])["gram"][0]),
            lambda rows: ds.Gram.from_struct(
                ds.gram_by(rows, ["k"], ["n"], fold=2, key="a")["gram"][0]
            ),
        ):
            found, own = call(table), call(frame)
            assert found.columns == own.columns
            np.testing.assert_allclose(found.comoment, own.comoment, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("at", [2, 3, 4, 5])
@pytest.mark.parametrize(
    "change",
    ["UPDATE t SET x = x + 100 WHERE rowid = 1", "UPDATE t SET k = 'a' WHERE rowid < 4"],
)
def test_values_that_change_between_queries_are_noticed(tmp_path, monkeypatch, change, at):
    """Where an engine has no transaction of one state, as for SQLite here without its own."""
    ibis = pytest.importorskip("ibis")
    path = tmp_path / "t.sqlite"
    with sqlite3.connect(path) as writer:
        writer.execute("CREATE TABLE t (x REAL, y REAL, k TEXT, h TEXT)")
        rng = np.random.default_rng(2)
        rows = [(*map(float, rng.normal(size=2)), "abc"[i % 3], "uv"[i % 2]) for i in range(90)]
        writer.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    writer.isolation_level = None
    connection = ibis.sqlite.connect(path)
    terms = ds.terms(connection.table("t"), ["k", "h"])
    monkeypatch.setattr(of_ibis, "_TRANSACTIONS", {})
    asked, refused = 0, ""

    def change_at(_: str) -> None:
        nonlocal asked
        asked += 1
        if asked == at:
            writer.execute(change)

    table = connection.table("t")
    connection.con.set_trace_callback(change_at)
    try:
        found = ds.gram(table, terms=terms)
    except ds.errors.SourceError as error:
        refused = str(error)
    finally:
        connection.con.set_trace_callback(None)
    if refused:
        assert "changed from one query to the next" in refused
        return
    # One state all the same: that before the change, or that after it.
    states = [pl.DataFrame(rows, ["x", "y", "k", "h"], orient="row")]
    states.append(pl.read_database("SELECT * FROM t", writer))
    close = [
        np.allclose(found.comoment, ds.gram(state, terms=terms).comoment, atol=1e-9)
        for state in states
    ]
    assert any(close)
