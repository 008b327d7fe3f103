"""What the page of the command line shows is what happens in a shell."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dbselect.doors.cli import COMMANDS, out

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text()
SHELL = f'dbselect() {{ {sys.executable} -m dbselect "$@"; }}\n'


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def rounded(text: str) -> str:
    """Return a text whose numbers have six digits: the last ones depend on the order of sums."""
    return re.sub(r"\d+\.\d{7,}(e-?\d+)?", lambda number: f"{float(number[0]):.6g}", text)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a shell of Unix")
def test_commands_print_what_the_page_shows(demo_folder):
    for name, text in zip(("groups", "costs", "prices"), blocks("json"), strict=True):
        (demo_folder / f"{name}.json").write_text(text)
    for block in blocks("console"):
        for part in block.split("$ ")[1:]:
            command, _, shown = part.partition("\n")
            found = subprocess.run(
                ["bash", "-c", SHELL + command],
                capture_output=True, text=True, check=False, cwd=demo_folder,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
            )  # fmt: skip
            assert rounded(found.stdout) == rounded(shown), command


def test_the_page_tells_every_exit_code():
    codes = {value for name, value in vars(out).items() if name.isupper() and type(value) is int}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)} == codes | {0}
    assert all(str(code) in out.HELP for code in codes)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_shows_every_command(command):
    if command in ("tables", "extension"):  # shown in docs/duckdb.md and docs/guides/
        return
    assert re.search(rf"`{command}|dbselect {command}|`{command}`", PAGE)
