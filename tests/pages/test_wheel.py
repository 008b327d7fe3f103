"""One wheel holds everything: it works in an empty environment, away from the checkout."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOT_SOURCE = (".*", "target", "data", "build", "dist", "*.egg-info", "*.so", "__pycache__")

QUERY = """
import dbselect as ds
con = ds.connect()
con.execute("CREATE TABLE t AS SELECT i AS a, i % 3 AS b, 2.0 * i + 1 AS y FROM range(30) r(i)")
((steps,),) = con.sql("SELECT anytime_sequence(gram(t), 'y') FROM t").fetchall()
con.close()
print(ds.__file__)
print(steps[1]["group"], round(steps[1]["intercept"], 9), round(steps[1]["r2"], 9))
"""


def run(*command: str | Path, folder: Path) -> str:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_wheel_works_in_an_empty_environment(tmp_path):
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(*NOT_SOURCE))
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", ".", folder=checkout)
    (wheel,) = (checkout / "dist").glob("*.whl")
    sizes = {file.filename: file.file_size for file in zipfile.ZipFile(wheel).infolist()}
    names = list(sizes)
    (library,) = (name for name in names if name.startswith("dbselect/_library"))
    assert 100_000 < sizes[library] < 7_000_000
    pages = {f"report.{end}" for end in ("css", "html", "js")} | {"chart.js", "search.js"}
    assert {f"dbselect/pages/{name}" for name in pages} <= set(names)
    examples = (ROOT / "dbselect" / "sources" / "examples").iterdir()
    assert {f"dbselect/sources/examples/{file.name}" for file in examples} <= set(names)
    assert {f"dbselect/sql/{file.name}" for file in (ROOT / "sql").glob("*.sql")} <= set(names)

    python = tmp_path / "environment" / "bin" / "python"
    run(sys.executable, "-m", "venv", tmp_path / "environment", folder=tmp_path)
    run(python, "-m", "pip", "install", "--quiet", wheel, folder=tmp_path)
    where, answer = run(python, "-c", QUERY, folder=tmp_path).splitlines()
    assert Path(where).is_relative_to(tmp_path / "environment")
    assert answer == "a 1.0 1.0"


def test_the_wheel_has_the_licences_of_every_crate():
    lock = tomllib.loads((ROOT / "native" / "Cargo.lock").read_text())
    crates = {f"{each['name']} {each['version']}:" for each in lock["package"] if "source" in each}
    listed = (ROOT / "native" / "licenses.txt").read_text().splitlines()
    assert crates <= {line.partition(":")[0] + ":" for line in listed}, "run release/licenses.py"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "native/licenses.txt" in project["license-files"]
