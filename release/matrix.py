"""Try a wheel with the oldest and the newest of what dbselect promises, each by itself.

``python release/matrix.py`` tries the wheel of this version and machine in dist/, or the one named,
in every Python of this machine with the newest dependencies, in the oldest Python with the oldest
dependencies, and its extension in DuckDBs that have no dbselect beside them. With ``--tests`` the
quick tests run in each of the first two, with ``--only lowest`` one line runs. Environments are
kept in dbselect's cache folder for the next time.
"""

import argparse
import os
import platform
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
#: The newest of all that is published, a night's build if there is one: no version is promised.
NIGHTLY = "nightly"
#: What the tests import beside dbselect.
TESTING = (
    "altair", "fastcan", "hypothesis", "ibis-framework[duckdb,sqlite]", "matplotlib", "mlxtend",
    "narwhals", "pandas", "psutil", "skglm",
    "pytest", "pytest-randomly", "pytest-timeout", "pytest-xdist", "scikit-learn", "sqlglot",
    "statsmodels", "vl-convert-python",
)  # fmt: skip

EXTENSION = """
import sys, duckdb
print(duckdb.__version__)
con = duckdb.connect(config={"allow_unsigned_extensions": True})
con.execute(f"LOAD '{sys.argv[1]}'")
con.execute("CREATE TABLE t AS SELECT i AS a, i % 3 AS b, 2 * i + i % 3 AS y FROM range(30) r(i)")
query = "SELECT dbselect.anytime_sequence(gram(t), 'y', ridge := 0.1) FROM t"
((steps,),) = con.execute(query).fetchall()
groups = [step["group"] for step in steps]
assert groups == [None, "a", "b"], groups
# Where DuckDB passes one state for many rows.
for call, rows in (("gram(t ORDER BY a DESC)", 30), ("gram(t) OVER (PARTITION BY b)", 10)):
    found = {record["rows"] for (record,) in con.execute(f"SELECT {call} FROM t").fetchall()}
    assert found == {rows}, (call, found)
"""


@dataclass(frozen=True)
class Cell:
    """One environment: its name, its Python, and what is installed beside the wheel."""

    name: str
    python: str
    pins: tuple[str, ...] = ()

    def built(self, wheel: Path | None, *packages: str) -> Path:
        """Return the interpreter of the environment, with what this cell wants in it."""
        folder = ENVIRONMENTS / self.name
        # Its pip is the last that an environment gets: one that was interrupted is made again.
        if not (folder / "bin" / "pip").exists():
            subprocess.run([self.python, "-m", "venv", str(folder)], check=True)
        python = folder / "bin" / "python"
        install = [str(python), "-m", "pip", "install", "--quiet", "--upgrade"]
        subprocess.run([*install, *packages, *self.pins], check=True)
        if wheel is not None:
            # In a kept environment pip takes an older build of the same version for this one.
            again = ["--force-reinstall", "--no-deps", str(wheel)]
            subprocess.run([*install, *again], check=True)
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
            print(f"newest-{version}: no python{version} on PATH, not tried", flush=True)
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
    told = (ended.stdout + ended.stderr).strip()
    last = told.splitlines()[-1:] or [""]
    if ended.returncode == 0:
        print(f"{name}: works {last[0]}", flush=True)
        return True
    log = ENVIRONMENTS / f"{name}.log"
    log.write_text(told + "\n", encoding="utf-8")
    print(f"{name}: FAILS {last[0]} (status {ended.returncode}, all of it: {log})", flush=True)
    return False


def of_package(cell: Cell, wheel: Path, tests: bool) -> bool:
    """Try the wheel in a cell."""
    python = cell.built(wheel, str(wheel), *(TESTING if tests else ()))
    if not tried(cell.name, python, str(ROOT / "release" / "smoke.py")):
        return False
    quick = ["-m", "pytest", "-q", "-m", "not slow", "-n", "auto", str(ROOT / "tests")]
    return not tests or tried(f"{cell.name}, tests", python, "-P", *quick)


def of_extension(version: str, file: str) -> bool:
    """Try the extension in a DuckDB alone."""
    pins = ("--pre", "duckdb") if version == NIGHTLY else (f"duckdb=={version}",)
    python = Cell(f"duckdb-{version}", sys.executable, pins).built(None)
    return tried(f"extension in DuckDB {version}", python, "-c", EXTENSION, file)


def extension_of(wheel: Path) -> str:
    """Return where the wheel's own DuckDB extension lies."""
    python = Cell("extension", sys.executable).built(wheel, str(wheel))
    command = [python, "-m", "dbselect", "extension"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"LOAD '([^']+)'", told.stdout)
    assert found is not None, told.stdout
    return found[1]


def of_dist() -> Path:
    """Return the wheel in dist/ of this version and this machine, the last that was built.

    Raises
    ------
    SystemExit : there is none
    """
    of_here = f"dbselect-{PROJECT['version']}-*_{platform.machine()}.whl"
    found = [each for each in (ROOT / "dist").glob(of_here) if "musllinux" not in each.name]
    if not found:
        raise SystemExit(f"there is no dist/{of_here}: `make wheel` builds one")
    return max(found, key=lambda each: each.stat().st_mtime)


def main() -> int:
    """Try all of it, or the lines whose name has a word; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path, nargs="?", help="of dist/ if not given")
    parser.add_argument("--tests", action="store_true", help="run the quick tests as well")
    parser.add_argument("--only", default="", help="a part of the name of what is tried")
    given = parser.parse_args()
    wheel = (given.wheel or of_dist()).resolve()
    if not wheel.is_file():
        parser.error(f"{given.wheel} is no file")
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    good = [of_package(cell, wheel, given.tests) for cell in cells() if given.only in cell.name]
    versions = [each for each in (*DUCKDBS, NIGHTLY) if given.only in f"duckdb-{each}"]
    if versions:
        file = extension_of(wheel)
        good += [of_extension(version, file) for version in versions]
    if not good:
        parser.error(f"--only {given.only}: no line of the matrix on this machine has that name")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
