"""The version stands in pyproject.toml; whatever else tells it tells the same."""

import re
import tomllib
from pathlib import Path

import pytest

import dbselect as ds
from dbselect.doors.cli import main

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_package_and_the_command_tell_their_version(capsys):
    assert ds.__version__ == VERSION
    assert "__version__" in dir(ds)
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"dbselect {VERSION}\n"


def test_the_description_of_the_extension_has_it():
    text = (ROOT / "native" / "community" / "description.yml").read_text()
    assert re.findall(r"^  version: (.*)$", text, re.MULTILINE) == [VERSION]


def test_the_crates_leave_the_version_to_the_package():
    for folder in ("native", "native/community"):
        assert "version" not in tomllib.loads((ROOT / folder / "Cargo.toml").read_text())["package"]


def test_the_changelog_has_the_version_with_its_date_or_what_is_not_released():
    first, *released = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", each) for each in released)
    assert first == "Unreleased" or first.startswith(f"{VERSION} (")
