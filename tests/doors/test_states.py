"""An aggregate gets the rows of its own states in every client, and ends no process.

DuckDB 1.3 to 1.5 pass one state for many rows where they sort and in windows over whole
partitions. What each record holds is compared with DuckDB's own aggregates.
"""

import json
import subprocess

import duckdb
import pytest
from test_clients import COMMAND, NODE, in_node, node_has_duckdb, opened

from dbselect.doors.extension import extension_path

ROW = "{'a': a, 'b': b}"
WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
#: A record, and what belongs behind those of DuckDB beside it: a FILTER, an OVER.
RECORDS = {
    "sorted": (f"gram({ROW} ORDER BY a)", ""),
    "sorted, filtered": (f"gram({ROW} ORDER BY i DESC)", "FILTER (i % 3 <> 0)"),
    "sorted, means": (f"gram_mean({ROW} ORDER BY b, i)", ""),
    "partition": (f"gram({ROW})", "OVER (PARTITION BY k)"),
    "sorted partition": (f"gram({ROW} ORDER BY a)", "OVER (PARTITION BY k)"),
    "whole frame": (f"gram({ROW})", f"OVER (PARTITION BY k ORDER BY i {WHOLE})"),
    "sliding": (f"gram({ROW})", "OVER (PARTITION BY k ORDER BY i ROWS 9 PRECEDING)"),
    "ahead": (
        f"gram({ROW})",
        "OVER (PARTITION BY k ORDER BY i ROWS BETWEEN 3 FOLLOWING AND 9 FOLLOWING)",
    ),
    "sorted and sliding": (f"gram({ROW} ORDER BY b)", "OVER (ORDER BY i ROWS 9 PRECEDING)"),
}
TABLE = """CREATE TABLE rows AS
    SELECT i, i % 7 AS k, hash(i) % 1000 / 10.0 AS a, hash(i + 5) % 100 / 7.0 AS b
    FROM range(6000) r(i)"""
#: Records that are not as DuckDB's own aggregates of the same rows say.
WRONG = """SELECT count(*) AS wrong FROM ({query}) WHERE coalesce(g.rows, 0) <> n OR
    abs(g.mean[1] - m) > 1e-9 * m OR abs(g.comoment[2] - c * n) > 1e-9 * (n + abs(c) * n)"""


def statements() -> list[str]:
    asked = []
    for call, of_all in RECORDS.values():
        own = f"count(*) {of_all} n, avg(a) {of_all} m, covar_pop(a, b) {of_all} c"
        keys = ("",) if "OVER" in of_all else ("()", "k", "ROLLUP (i // 3)")
        # Beside others of one group or many, so that states are begun in other orders.
        for beside in ("", f"gram({ROW}) {of_all} AS h, "):
            query = f"SELECT {beside}{call} {of_all} g, {own} FROM rows"
            asked += [f"{query} GROUP BY {key}" if key else query for key in keys]
    parts = f"SELECT i % 500 AS p, k, gram({ROW}) AS g FROM rows GROUP BY ALL"
    own = "SELECT k, count(*) n, avg(a) m, covar_pop(a, b) c FROM rows GROUP BY k"
    merged = f"SELECT k, gram_merge(g ORDER BY p) AS g FROM ({parts}) GROUP BY k"
    asked.append(f"SELECT * FROM ({merged}) JOIN ({own}) USING (k)")
    return [WRONG.format(query=query) for query in asked]


def script() -> str:
    with duckdb.connect() as con:
        ((platform,),) = con.execute("PRAGMA platform").fetchall()
    lines = [f"LOAD '{extension_path(platform)}'", TABLE, *statements()]
    return "".join(f"{line};\n" for line in lines)


def test_states_get_their_own_rows():
    with opened() as con:
        con.execute(TABLE)
        found = {asked: con.execute(asked).fetchall() for asked in statements()}
    assert {asked: rows for asked, rows in found.items() if rows != [(0,)]} == {}


@pytest.mark.system
@pytest.mark.skipif(COMMAND is None, reason="there is no duckdb command")
def test_states_get_their_own_rows_in_the_command_line():
    command = [str(COMMAND), "-unsigned", "-json"]
    ended = subprocess.run(command, input=script(), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [json.loads(line) for line in ended.stdout.split("\n") if line] == (
        [[{"wrong": 0}]] * len(statements())
    )


@pytest.mark.system
@pytest.mark.skipif(not node_has_duckdb(), reason="node has no package @duckdb/node-api")
def test_states_get_their_own_rows_in_node():
    ended = in_node(NODE, input=script())
    assert (ended.returncode, ended.stderr) == (0, "")
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert found == [[{"wrong": "0"}]] * len(statements())
