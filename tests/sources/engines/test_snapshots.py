"""A table that others write while it is read: all queries of a call see one state of it."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import polars as pl
import pytest
from warehouses import Warehouse, opened

import dbselect as ds
from dbselect.sources import snapshots

#: What ibis asks of pandas.
pytestmark = pytest.mark.filterwarnings("ignore:The .future.infer_string")
SHIFT = 1000


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
    import psycopg

    stop, writes = threading.Event(), 0

    def write() -> None:
        nonlocal writes
        info = warehouse.connection.con.info
        with psycopg.connect(
            host=info.host, user="dbselect", dbname="postgres", autocommit=True
        ) as other:
            while not stop.wait(0.001):
                other.execute(queries[writes % len(queries)].format(name))
                writes += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert writes > 10


WRITES = {
    "update": [
        f"UPDATE {{}} SET a = a {sign} {SHIFT}, y = y {sign} {SHIFT}" for sign in ("+", "-")
    ],
    "insert": ["INSERT INTO {} SELECT a, b, 'new', a + 2 * b + 7 FROM {} LIMIT 5".replace(
        "FROM {}", "FROM (SELECT random() a, random() b) r")],
}  # fmt: skip

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
def test_a_call_reads_one_state_of_postgresql(write, call):
    with opened("postgres") as warehouse:
        table = warehouse.load(rows())
        with written(warehouse, table.get_name(), WRITES[write]):
            found = [CALLS[call](table) for _ in range(12)]
        assert min(found) > 0.99
        # The connection is the caller's again.
        warehouse.connection.con.execute(f"DELETE FROM {table.get_name()}")


@pytest.mark.system
def test_a_transaction_of_the_caller_stays_open():
    with opened("postgres") as warehouse:
        table = warehouse.load(rows())
        with warehouse.connection.con.transaction():
            warehouse.connection.con.execute(f"DELETE FROM {table.get_name()} WHERE k = 'u'")
            assert ds.gram(table).rows == 200
        assert ds.gram(table).rows == 200


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
    monkeypatch.setattr(snapshots, "_TRANSACTIONS", {})
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
