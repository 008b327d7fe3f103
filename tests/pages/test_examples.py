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


def timeliness(printed: str, row: str) -> list[dict[str, float]]:
    """Return the figures of each method, of every row that begins so."""
    rows = re.findall(rf"^{row} +([\d. ]+)$", printed, re.MULTILINE)
    return [dict(zip(METHODS, map(float, one.split()), strict=True)) for one in rows]


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
def test_costs_and_whitening_are_ahead_and_oracles_are_ahead_of_their_orders(quick):
    (found,) = timeliness(quick[0], "groups of 10")
    assert all(0 < value < 1 for value in found.values())
    last = {name: found[name] for name in ("Single", "No-Whiten", "G-OMP", "Sparse")}
    assert max(last.values()) < min(found["CS-G-OMP"], found["CS-G-FR"])
    assert found["FR oracle"] >= found["CS-G-FR"]
    assert found["OMP oracle"] >= found["CS-G-OMP"]


@pytest.mark.slow
def test_curves_of_all_methods_are_drawn(quick):
    _, plot = quick
    assert plot.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    page = plot.with_suffix(".html").read_text()
    assert all(f'"{method}"' in page for method in METHODS)


@pytest.mark.slow
def test_the_page_shows_what_the_script_prints(quick):
    page = (EXAMPLES.parent / "docs" / "table-2.md").read_text()
    (shown,) = re.findall(r"<!-- anytime -->\n```text\n(.*?)```", page, re.DOTALL)
    (published,) = timeliness(quick[0], "  published")
    assert published in timeliness(shown, "  published")
    assert len(timeliness(shown, r"groups of \d+")) == 4
