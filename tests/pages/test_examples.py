"""The examples show what they are there to show; their pages say the same."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
#: The columns of Table 2.
METHODS = (
    "CS-G-OMP", "Single", "No-Whiten", "G-OMP", "CS-G-FR", "FR oracle", "OMP oracle", "Sparse",
)  # fmt: skip
COUNT = re.compile(r"(\d+)/(\d+)")

#: Claims of the paper that its own Table 2 does not bear out at every size of groups.
OPEN = {"G-OMP > Sparse"}


def claims(printed: str) -> dict[str, list[str]]:
    """Return claim -> in how many of the tables it holds, a text for each column."""
    table = printed.split("In how many of the tables, by size of groups\n")[1]
    rows = [re.split(r" {2,}", line) for line in table.splitlines() if COUNT.search(line)]
    return {claim: counts for claim, *counts in rows}


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Return what the quick form of the anytime example prints, and where it drew."""
    plot = tmp_path_factory.mktemp("anytime") / "curves"
    command = [sys.executable, str(EXAMPLES / "anytime.py"), "--quick", "--out", str(plot)]
    # Threads of two BLAS libraries wait for each other where other programs run, too.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return run.stdout, plot


@pytest.mark.slow
def test_the_papers_order_shows_on_correlated_documents(quick):
    printed, _ = quick
    found = claims(printed)
    assert {"CS-G-FR >= CS-G-OMP", "CS-G-OMP > No-Whiten", "CS-G-OMP > G-OMP"} <= found.keys()
    for claim in found.keys() - OPEN:
        assert found[claim] == ["2/2", "2/2"], claim


@pytest.mark.slow
def test_timeliness_is_a_share_and_oracles_are_ahead_of_their_orders(quick):
    printed, _ = quick
    (row, *_) = re.findall(r"^groups of 10 (.*)$", printed, re.MULTILINE)
    timeliness = dict(zip(METHODS, map(float, row.split()), strict=True))
    assert all(0 < value < 1 for value in timeliness.values())
    assert timeliness["FR oracle"] >= timeliness["CS-G-FR"]
    assert timeliness["OMP oracle"] >= timeliness["CS-G-OMP"]


@pytest.mark.slow
def test_curves_of_all_methods_are_drawn(quick):
    _, plot = quick
    assert plot.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    page = plot.with_suffix(".html").read_text()
    assert all(f'"{method}"' in page for method in METHODS)


@pytest.mark.slow
def test_the_page_shows_the_claims_that_the_script_counts(quick):
    printed, _ = quick
    page = (EXAMPLES.parent / "docs" / "table-2.md").read_text()
    (shown,) = re.findall(r"<!-- anytime -->\n```text\n(.*?)```", page, re.DOTALL)
    assert list(claims(shown)) == list(claims(printed))
    published = re.compile(r"^published.*$", re.MULTILINE)
    assert published.findall(shown) == published.findall(printed)
