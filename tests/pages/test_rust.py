"""Rust at hand for `make`: that of the machine, or a sentence."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "release" / "rust.py"


def run(*command: str, path: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Run a command with Rust, on a machine that has what lies in a folder and no network."""
    environment = {**os.environ, "PATH": str(path), "XDG_CACHE_HOME": str(cache)}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *command],
        env={**environment, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def executable(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.system
@pytest.mark.skipif(shutil.which("cargo") is None, reason="there is no cargo on this machine")
def test_the_rust_of_the_machine_is_taken_and_nothing_is_set_up(tmp_path):
    cargo = Path(str(shutil.which("cargo")))
    ended = run("cargo", "--version", path=cargo.parent, cache=tmp_path)
    assert ended.stdout.startswith("cargo 1.")
    assert (ended.returncode, list(tmp_path.iterdir())) == (0, [])


@pytest.mark.system
def test_the_command_decides_how_it_ended(tmp_path):
    executable(tmp_path / "cargo", "echo cargo 1.999.0")
    executable(tmp_path / "fails", "exit 7")
    assert run("fails", path=tmp_path, cache=tmp_path / "cache").returncode == 7


@pytest.mark.system
@pytest.mark.parametrize("version", [None, "cargo 1.63.0", "no cargo at all"])
def test_no_rust_and_no_network_is_one_sentence(tmp_path, version):
    if version is not None:
        executable(tmp_path / "cargo", f"echo {version}")
    ended = run("cargo", "build", path=tmp_path, cache=tmp_path / "cache")
    assert ended.returncode == 1
    (told,) = ended.stderr.splitlines()
    assert told.startswith("dbselect is built with Rust 1.")
    assert "https://rustup.rs" in told
