"""Try a wheel with the oldest and the newest of what dbselect promises, each by itself.

``python release/matrix.py dist/*.whl`` tries every Python of this machine with the newest
dependencies, the oldest Python with the oldest dependencies, and the extension in DuckDBs that have
no dbselect beside them. With ``--tests`` the quick tests run in each of the first two, with
``--only lowest`` one line runs. Environments are kept in dbselect's cache folder for the next time.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENVIRONMENTS = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dbselect" / "matrix"
)
#: Promised: `requires-python` is the first of them.
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
#: The oldest DuckDB whose C API holds, and the last of each minor release since.
DUCKDBS = ("1.3.0", "1.4.5", "1.5.6", "2.0.0")
#: What the tests import beside dbselect.
TESTING = (
    "hypothesis", "narwhals", "pandas", "psutil", "pytest", "pytest-randomly", "pytest-timeout",
    "pytest-xdist", "scikit-learn", "sqlglot", "statsmodels",
)  # fmt: skip

EXTENSION = """
import sys, duckdb
con = duckdb.connect(config={"allow_unsigned_extensions": True})
con.execute(f"LOAD '{sys.argv[1]}'")
con.execute("CREATE TABLE t AS SELECT i AS a, i % 3 AS b, 2 * i + i % 3 AS y FROM range(30) r(i)")
query = "SELECT dbselect.anytime_sequence(gram(t), 'y', ridge := 0.1) FROM t"
((steps,),) = con.execute(query).fetchall()
groups = [step["group"] for step in steps]
assert groups == [None, "a", "b"], groups
"""


@dataclass(frozen=True)
class Cell:
    """One environment: its name, its Python, and what is installed beside the wheel."""

    name: str
    python: str
    pins: tuple[str, ...] = ()

    def built(self, *packages: str) -> Path:
        """Return the interpreter of the environment, with what this cell wants in it."""
        folder = ENVIRONMENTS / self.name
        if not folder.exists():
            subprocess.run([self.python, "-m", "venv", str(folder)], check=True)
        python = folder / "bin" / "python"
        install = [str(python), "-m", "pip", "install", "--quiet", "--upgrade"]
        subprocess.run([*install, *packages, *self.pins], check=True)
        return python


def lowest() -> tuple[str, ...]:
    """Return the oldest version of every dependency that `pyproject.toml` allows."""
    return tuple(each.replace(">=", "==") for each in PROJECT["dependencies"])


def interpreter(version: str) -> str | None:
    """Return the path of a Python, if the machine has it: a shim alone does not count."""
    shim = shutil.which(f"python{version}")
    if shim is None:
        return None
    told = subprocess.run(
        [shim, "-c", "import sys; print(sys.executable)"],
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip() or None


def cells() -> Iterator[Cell]:
    """Yield the environments that the Pythons of this machine allow, and tell of the others."""
    for version in PYTHONS:
        python = interpreter(version)
        if python is None:
            print(f"python{version}: not on this machine", flush=True)
            continue
        if version == PYTHONS[0]:
            yield Cell("lowest", python, lowest())
        yield Cell(f"newest-{version}", python)


def tried(name: str, *command: str | Path) -> bool:
    """Run one line of the matrix away from the checkout, and print how it ended."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    ended = subprocess.run(
        command, cwd=ENVIRONMENTS, env=environment, capture_output=True, text=True, check=False
    )
    last = (ended.stdout + ended.stderr).strip().splitlines()[-1:] or [""]
    print(f"{name}: {'works' if ended.returncode == 0 else 'FAILS'} {last[0]}", flush=True)
    return ended.returncode == 0


def of_package(cell: Cell, wheel: Path, tests: bool) -> bool:
    """Try the wheel in a cell."""
    python = cell.built(str(wheel), *(TESTING if tests else ()))
    if not tried(cell.name, python, str(ROOT / "release" / "smoke.py")):
        return False
    quick = ["-m", "pytest", "-q", "-m", "not slow", "-n", "auto", str(ROOT / "tests")]
    return not tests or tried(f"{cell.name}, tests", python, "-P", *quick)


def of_extension(version: str, file: str) -> bool:
    """Try the extension in a DuckDB alone."""
    python = Cell(f"duckdb-{version}", sys.executable, (f"duckdb=={version}",)).built()
    return tried(f"extension in DuckDB {version}", python, "-c", EXTENSION, file)


def extension_of(wheel: Path) -> str:
    """Return where the wheel's own DuckDB extension lies."""
    python = Cell("extension", sys.executable).built(str(wheel))
    command = [python, "-m", "dbselect", "extension"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"LOAD '([^']+)'", told.stdout)
    assert found is not None, told.stdout
    return found[1]


def main() -> int:
    """Try all of it, or the lines whose name has a word; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--tests", action="store_true", help="run the quick tests as well")
    parser.add_argument("--only", default="", help="a part of the name of what is tried")
    given = parser.parse_args()
    wheel = given.wheel.resolve(strict=True)
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    good = [of_package(cell, wheel, given.tests) for cell in cells() if given.only in cell.name]
    versions = [version for version in DUCKDBS if given.only in f"duckdb-{version}"]
    if versions:
        file = extension_of(wheel)
        good += [of_extension(version, file) for version in versions]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
