"""The page for DuckDB's other clients, run as it stands."""

import re
import subprocess
from pathlib import Path

import pytest
from test_clients import COMMAND, in_node, node_has_duckdb

from dbselect.doors.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "duckdb-without-python.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Run the SQL of the page in a folder, which is the home, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["extension", "--out", "."]) == 0
    command = [str(COMMAND), "-unsigned", "-csv", "loans.duckdb"]
    ended = subprocess.run(
        command, input="\n".join(blocks("sql")), capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""
    (tmp_path / "printed").write_text(ended.stdout)
    return tmp_path


@pytest.mark.system
@pytest.mark.skipif(COMMAND is None, reason="there is no duckdb command")
def test_the_page_runs_in_the_command_line(folder):
    printed = (folder / "printed").read_text().splitlines()
    # The sequences of two regions, four steps each.
    assert sum(bool(re.match(r"(north|south),\d,", line)) for line in printed) == 8
    query = """SELECT max(abs(predicted - within_budget.prediction)) < 1e-9
        FROM plain JOIN scored USING (loan)"""
    command = [str(COMMAND), "-unsigned", "-csv", "-noheader", "loans.duckdb"]
    checked = subprocess.run(
        [*command, "-c", f"LOAD dbselect; {query}"], capture_output=True, text=True, check=False
    )
    assert (checked.stdout, checked.stderr) == ("true\n", "")
    # The view needs no extension.
    plain = subprocess.run(
        [str(COMMAND), "-readonly", "loans.duckdb", "-c", "SELECT count(predicted) FROM plain"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "5000" in plain.stdout


@pytest.mark.system
@pytest.mark.skipif(COMMAND is None, reason="there is no duckdb command")
@pytest.mark.skipif(not node_has_duckdb(), reason="node has no package @duckdb/node-api")
def test_node_serves_the_file_that_it_only_reads(folder):
    (program,) = blocks("js")
    ended = in_node(program, cwd=folder)
    assert ended.stderr == ""
    assert float(ended.stdout) > 0
