"""What is said of releases, versions and platforms is what the files do."""

import os
import platform
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSIONS = (ROOT / "docs" / "versions.md").read_text()
RELEASING = (ROOT / "release" / "README.md").read_text()
WORKFLOW, TESTS = (
    (ROOT / ".github" / "workflows" / f"{name}.yml").read_text() for name in ("release", "test")
)

WHEEL = runpy.run_path(str(ROOT / "release" / "wheel.py"))
MATRIX = runpy.run_path(str(ROOT / "release" / "matrix.py"))


def row(name: str) -> list[str]:
    """Return the cells of a row of the page on versions."""
    (found,) = re.findall(rf"^\| {name} \|(.*)\|$", VERSIONS, re.MULTILINE)
    return [cell.strip() for cell in found.split("|")]


def test_the_page_has_the_bounds_of_the_package():
    names = {"duckdb": "DuckDB, the Python package", "numpy": "NumPy", "scipy": "SciPy"}
    for dependency in PROJECT["dependencies"]:
        name, bound = dependency.split(">=")
        if name in {"platformdirs", "tqdm"}:  # any version of these will do
            continue
        oldest, _ = row(names.get(name, "Polars" if name == "polars" else name))
        assert oldest.split(".")[:2] == bound.split("."), dependency
    assert PROJECT["requires-python"] == f">={row('Python')[0]}"


def test_the_matrix_tries_what_the_page_promises():
    assert row("Python") == [MATRIX["PYTHONS"][0], MATRIX["PYTHONS"][-1]]
    tried = MATRIX["DUCKDBS"]
    assert row("DuckDB, the extension in any client") == [tried[0], tried[-1]]
    assert MATRIX["lowest"]() == tuple(one.replace(">=", "==") for one in PROJECT["dependencies"])
    every, ends = (
        re.findall(r'"([\d.]+)"', *re.findall(r"python: \[(.*)\]", text))
        for text in (WORKFLOW, TESTS)
    )
    assert (*every,) == MATRIX["PYTHONS"]
    assert ends == [every[0], every[-1]]


def test_the_workflow_builds_every_platform_that_is_told_of():
    built = set(
        re.findall(r"^ +(?:- |platform: )((?:many|musl)linux_\w+)$", WORKFLOW, re.MULTILINE)
    )
    assert built == set(WHEEL["TARGETS"])
    native = set(re.findall(r"platform: (macosx_\w+|win_\w+)$", WORKFLOW, re.MULTILINE))
    table = RELEASING.split("| wheel |")[1].split("\n\n")[0]
    assert (
        set(re.findall(r"`((?:many|musl)linux_\w+|macosx_\w+|win_\w+)`", table)) == built | native
    )


def test_a_wheel_is_that_of_this_version_and_machine(tmp_path, monkeypatch):
    of_dist = MATRIX["of_dist"]
    monkeypatch.setitem(of_dist.__globals__, "ROOT", tmp_path)
    (tmp_path / "dist").mkdir()
    with pytest.raises(SystemExit, match="make wheel"):
        of_dist()
    here, version = platform.machine(), PROJECT["version"]
    for of in (
        f"{version}-cp311-abi3-musllinux_1_2_{here}",
        f"{version}-cp311-abi3-linux_sparc",
        f"0.0.9-cp311-abi3-linux_{here}",
        f"{version}-cp311-abi3-linux_{here}",
    ):
        (tmp_path / "dist" / f"dbselect-{of}.whl").touch()
    assert of_dist().name == f"dbselect-{version}-cp311-abi3-linux_{here}.whl"


@pytest.mark.system
def test_a_name_that_is_no_line_of_the_matrix_is_an_error(tmp_path):
    wheel = tmp_path / "any.whl"
    wheel.touch()
    command = [sys.executable, ROOT / "release" / "matrix.py", wheel, "--only", "lowesst"]
    ended = subprocess.run(
        command,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "--only lowesst: no line of the matrix" in ended.stderr


def test_every_package_is_in_the_wheel():
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {file.parent.relative_to(ROOT) for file in (ROOT / "dbselect").rglob("__init__.py")}
    assert {".".join(folder.parts) for folder in folders} <= set(packed)
