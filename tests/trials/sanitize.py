"""The library under AddressSanitizer and with overflow checks: `make sanitize`.

``sanitize.py SECONDS [SEED]`` builds it by a nightly Rust, draws cases for its
entry points with leaks counted, then runs tests and cases at the doors of Python, DuckDB and
Polars, into which the sanitizer's runtime is preloaded. What reads or writes out of bounds ends the
process with a report; what overflows is a panic, which the cases count as a finding.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
MANIFEST = str(ROOT / "native" / "Cargo.toml")
TARGET = "x86_64-unknown-linux-gnu"
NIGHTLY = "rustup toolchain install nightly --profile minimal --component miri --component rust-src"
#: Tests that go through every host of the library; those of figures and pages do not.
TESTS = (
    "test_trust.py", "test_state.py", "test_extension.py", "test_foreign_data.py", "test_gram.py",
    "test_merge.py", "test_duckdb.py", "test_folds.py", "test_missing.py", "test_names.py",
    "test_bad_input.py",
)  # fmt: skip
#: The one test that a library with checks in it fails.
TOO_LARGE = "not test_the_library_is_small"
#: A use of memory that is freed: a sanitizer that is at work ends the process.
CANARY = """
from dbselect._native import Reader, _library
reader = Reader(["a"])
_library().dbselect_reader_free(reader._handle)
reader.finish()
"""
#: Of Python and the engines what they keep to the end is no leak of ours.
OF_ENGINES = "detect_leaks=0:allocator_may_return_null=1:abort_on_error=1"


def built() -> Path:
    """Build the library and its cases, and return the folder they are in."""
    environment = {**os.environ, "RUSTFLAGS": "-Zsanitizer=address --cfg system_allocator"}
    command = ["cargo", "+nightly", "build", "--profile", "trial", "--lib", "--example", "fuzz"]
    command += ["--locked", "--quiet", "--manifest-path", MANIFEST, "--target", TARGET]
    if subprocess.run(command, env=environment, check=False).returncode:
        sys.exit(f"AddressSanitizer needs a nightly Rust: {NIGHTLY}")
    folder = os.environ.get("CARGO_TARGET_DIR") or ROOT / "native" / "target"
    return Path(folder) / TARGET / "trial"


def runtime(folder: Path) -> Path:
    """Make a library of the runtime that the nightly Rust links into programs."""
    command = ["rustc", "+nightly", "--print", "sysroot"]
    sysroot = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    (archive,) = (Path(sysroot) / "lib" / "rustlib" / TARGET / "lib").glob("*_rt.asan.a")
    objects = folder / "runtime"
    objects.mkdir()
    subprocess.run(["ar", "x", str(archive)], cwd=objects, check=True)
    # A library cannot run before all else, as this object has programs do.
    parts = [str(path) for path in objects.glob("*.o") if "preinit" not in path.name]
    library = folder / "asan.so"
    # Engines throw exceptions of C++, which the runtime must find when it is loaded.
    linked = ["-Wl,--no-as-needed", "-lstdc++", "-lpthread", "-ldl", "-lm", "-lrt"]
    subprocess.run(["cc", "-shared", "-o", str(library), *parts, *linked], check=True)
    return library


def package(library: Path, folder: Path) -> Path:
    """Make the package anew with another library, and return the folder that it lies in."""
    own = folder / "package" / "dbselect"
    own.mkdir(parents=True)
    for path in (ROOT / "dbselect").iterdir():
        if not path.name.startswith(("_library", "__pycache__")):
            (own / path.name).symlink_to(path.resolve())
    shutil.copy(library, own / "_library.abi3.so")
    return own.parent


def main(given: list[str]) -> int:
    """Run all; 1 if anything was found."""
    seconds, seed = given[0], [*given, "0"][1]
    made = built()
    leaks = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1"}
    ended = [subprocess.run([made / "examples" / "fuzz", seconds, seed], env=leaks, check=False)]
    with tempfile.TemporaryDirectory(prefix="dbselect-trial-") as name:
        folder = Path(name)
        environment = {
            **os.environ,
            "ASAN_OPTIONS": OF_ENGINES,
            "LD_PRELOAD": str(runtime(folder)),
            "PYTHONPATH": str(package(made / "libdbselect_native.so", folder)),
            # Its copy for DuckDB is none of the user's, and pyarrow's memory is looked at.
            "XDG_CACHE_HOME": str(folder / "cache"),
            "ARROW_DEFAULT_MEMORY_POOL": "system",
        }
        python = [sys.executable, "-P"]
        tests = [str(next((ROOT / "tests").rglob(name))) for name in TESTS]
        canary = subprocess.run(
            [*python, "-c", CANARY], env=environment, capture_output=True, text=True, check=False
        )
        if "heap-use-after-free" not in canary.stderr:
            sys.exit(f"the sanitizer finds nothing: {canary.stderr[-500:]}")
        options = ["-q", "-m", "not slow", "-k", TOO_LARGE, "-p", "no:randomly"]
        commands = (
            [*python, str(ROOT / "tests" / "trials" / "doors.py"), seconds, seed],
            [*python, "-m", "pytest", *options, *tests],
        )
        ended += [
            subprocess.run(command, env=environment, cwd=folder, check=False)
            for command in commands
        ]
    return int(any(one.returncode for one in ended))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
