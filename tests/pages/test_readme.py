"""What the README and the pages of the documentation show is what happens."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_clients import in_node, node_has_duckdb

from dbselect.doors.cli import main
from dbselect.doors.sql import texts

ROOT = Path(__file__).parents[2]
#: The pages with examples that show what they print; `test_clusters` runs those on clusters.
PAGES = [
    page
    for folder in ("*.md", "docs/**/*.md")
    for page in sorted(ROOT.glob(folder))
    if ">>> " in page.read_text()
]
ENGINEER = (ROOT / "docs" / "start" / "engineer.md").read_text()
#: What a newcomer reads, to the first answers.
FIRST = [
    ROOT / "README.md",
    *(ROOT / "docs").glob("start/*.md"),
    *(
        ROOT / "docs" / f"{name}.md"
        for name in ("index", "groups-and-costs", "which-method", "questions")
    ),
]


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_first_pages_are_read_in_one_sitting():
    words = {page.name: len(page.read_text().split()) for page in FIRST}
    assert sum(words.values()) <= 5_700
    assert words["README.md"] <= 900


def test_pages_stay_short():
    measured = {"reproduction.md", "table-2.md"}
    generated = {"fields.md", "calls.md", "duckdb-functions.md", "whole-api.md"}
    pages = [
        page for page in (ROOT / "docs").rglob("*.md") if page.name not in measured | generated
    ]
    words = {page.name: len(page.read_text().split()) for page in pages}
    assert max(words.values()) <= 1_200
    assert sum(words.values()) <= 30_000


def test_what_agents_read_names_pages_that_are_there():
    links = re.findall(r"/blob/main/(\S+?)\)", (ROOT / "docs" / "llms.txt").read_text())
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).is_file()] == []


def run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .future.infer_string")  # what ibis asks of pandas
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_examples_print_what_they_show(demo_folder, page):
    assert_examples(page.name, page.read_text())


def assert_examples(name: str, page: str) -> None:
    """Run the Python of a page."""
    text = "\n".join(blocks("python", page))
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    failures: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    result = runner.run(test, out=failures.append)
    assert result.attempted
    assert not failures, "".join(failures)


@pytest.mark.slow
@pytest.mark.skipif(not node_has_duckdb(), reason="node has no package @duckdb/node-api")
def test_the_program_for_node_prints_what_it_shows(demo_folder, capsys):
    assert_examples("engineer.md", ENGINEER)  # writes the file that the program reads
    assert main(["extension", "--out", str(demo_folder)]) == 0
    assert "@duckdb/node-api" in capsys.readouterr().out
    (program,) = blocks("js", ENGINEER)
    (shown,) = re.findall(r"console\.log\(.*\); // (.*)", program)
    ended = in_node(program, cwd=demo_folder)
    assert (ended.stdout, ended.stderr) == (f"{shown}\n", "")


@pytest.mark.slow
def test_the_first_demo_prints_the_table_of_the_readme(demo_folder):
    printed = run([sys.executable, str(ROOT / "examples" / "heart.py")])
    (table,) = re.findall(
        r"(Sequence\(disease.*?)>>> ", (ROOT / "README.md").read_text(), re.DOTALL
    )
    assert table in printed
    assert "explain 0.36" in printed
    assert "$102.90 explain 0.28" in printed


@pytest.mark.slow
def test_demo_prints_what_is_shown(demo_folder):
    shown = (ROOT / "examples" / "flights.txt").read_text()
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
