"""What is said of releases, versions and platforms is what the files do."""

import re
import runpy
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSIONS = (ROOT / "docs" / "versions.md").read_text()
RELEASING = (ROOT / "docs" / "releasing.md").read_text()
WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text()

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
    (pythons,) = re.findall(r"python: \[(.*)\]", WORKFLOW)
    assert tuple(re.findall(r'"([\d.]+)"', pythons)) == MATRIX["PYTHONS"]


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
