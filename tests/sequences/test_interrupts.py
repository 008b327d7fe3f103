"""Ctrl-C, in a process of its own: it ends what runs, and the connection goes on."""

import os
import signal
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to one process"),
]

PREPARED = """
import duckdb, numpy as np, polars as pl, sys, time, dbselect as ds
con = ds.connect()
X = np.random.default_rng(0).normal(size=(1000, 250))
frame = pl.DataFrame(X, [f"x{j}" for j in range(250)]).with_columns(y=pl.Series(X.sum(axis=1)))
con.register("t", frame.to_arrow())
con.execute("CREATE TABLE g AS SELECT gram(t) AS g FROM t")
gram = ds.gram(frame)
"""

SCRIPT = """
try:
    print("ready", flush=True)
    while True:
        WORK
except BaseException as error:
    print(type(error).__name__, *str(error).splitlines())
print(con.execute("SELECT (gram({'x': i})).rows FROM range(5) t(i)").fetchall())
"""


def interrupted(work: str) -> list[str]:
    """Return what a process prints that is interrupted while it works."""
    process = subprocess.Popen(
        [sys.executable, "-c", PREPARED + SCRIPT.replace("WORK", work)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.7)
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate()
    return told.splitlines()


def test_a_search_in_python_is_a_keyboard_interrupt():
    error, after = interrupted("ds.dash(gram, 'y', k=100)")
    assert error.startswith("KeyboardInterrupt")
    assert after == "[(5,)]"


@pytest.mark.parametrize(
    "work",
    [
        "con.execute(\"SELECT dash(g, 'y', k := 100) FROM g, range(9)\").fetchall()",
        "con.execute(\"SELECT anytime_sequence(g, 'y') FROM g, range(9)\").fetchall()",
        "con.execute('SELECT gram(t) FROM t, range(300)').fetchall()",
    ],
)
def test_a_query_ends_in_the_words_of_duckdb(work):
    # DuckDB runs the query: it makes errors of its own of an interrupt, or a KeyboardInterrupt.
    # A query that takes long may have begun to show its progress.
    *told, after = interrupted(work)
    assert "interrupt" in " ".join(told).lower()
    assert after == "[(5,)]"
