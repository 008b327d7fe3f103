"""Run a command with Rust at hand: that of this machine, or one set up for dbselect alone.

``python release/rust.py cargo test`` runs ``cargo test``. Where there is no cargo, or one too old
for `native/Cargo.toml`, Rust comes from rustup into dbselect's cache folder, which touches nothing
else; where its server is out of reach, and we are root on Debian, from the package cargo-web.
Needs Python alone.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

MANIFEST = Path(__file__).parents[1] / "native" / "Cargo.toml"
#: Beside the build folder of the Makefile.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dbselect"
#: Debian's Rust that keeps up with browsers, and its linters.
DEBIAN = ("cargo-web", "rust-web-clippy", "rustfmt-web")

Version = tuple[int, ...]


def needed() -> Version:
    """Return the oldest Rust, major and minor, that builds the library."""
    manifest = tomllib.loads(MANIFEST.read_text(encoding="utf-8"))
    return tuple(map(int, manifest["package"]["rust-version"].split(".")))


def found(environment: dict[str, str]) -> Version | None:
    """Return the version of the cargo that an environment has."""
    cargo = shutil.which("cargo", path=environment.get("PATH", ""))
    if cargo is None:
        return None
    told = subprocess.run(
        [cargo, "--version"], env=environment, capture_output=True, text=True, check=False
    )
    version = re.match(r"cargo (\d+)\.(\d+)", told.stdout)
    return tuple(map(int, version.groups())) if version else None


def serves(environment: dict[str, str]) -> bool:
    """Say whether an environment has a cargo that is new enough."""
    version = found(environment)
    return version is not None and version >= needed()


def own(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment with the Rust of dbselect's cache folder before all others."""
    home = CACHE / "rust" / "cargo"
    return {
        **environment,
        "RUSTUP_HOME": str(CACHE / "rust" / "rustup"),
        "CARGO_HOME": str(home),
        "PATH": os.pathsep.join([str(home / "bin"), environment.get("PATH", "")]),
    }


def from_rustup(environment: dict[str, str]) -> None:
    """Set up `own` with puccinialin, which knows the machine's rustup, and the linters."""
    with tempfile.TemporaryDirectory() as tools:
        for command in (
            [sys.executable, "-m", "pip", "install", "--quiet", "--target", tools, "puccinialin"],
            [sys.executable, "-m", "puccinialin", "--location", str(CACHE / "rust")],
            ["rustup", "component", "add", "clippy", "rustfmt"],
        ):
            inside = {**own(environment), "PYTHONPATH": tools}
            # The child looks for rustup in its own PATH, and not in ours.
            program = shutil.which(command[0], path=inside["PATH"]) or command[0]
            subprocess.run([program, *command[1:]], env=inside, capture_output=True, check=True)


def from_debian(environment: dict[str, str]) -> None:
    """Install Debian's newest Rust, if that takes nothing else away."""
    for command in (["update"], ["install", "--yes", "--no-remove", *DEBIAN]):
        subprocess.run(
            ["apt-get", *command],
            env={**environment, "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            check=True,
        )


def provided(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment with a Rust that builds the library, set up if there is none.

    Raises
    ------
    SystemExit : there is none, and none can be set up
    """
    version = ".".join(map(str, needed()))
    for given in (environment, own(environment)):
        if serves(given):
            return given
    print(f"dbselect is built with Rust {version}; setting it up in {CACHE / 'rust'}", flush=True)
    ways = [(from_rustup, own(environment))]
    if shutil.which("apt-get", path=environment.get("PATH", "")) and os.geteuid() == 0:
        ways.append((from_debian, environment))
    for set_up, given in ways:
        try:
            set_up(environment)
        except (OSError, subprocess.CalledProcessError):
            continue
        if serves(given):
            return given
    raise SystemExit(
        f"dbselect is built with Rust {version} or newer, which this machine does not have and "
        "which could not be downloaded: install it from https://rustup.rs and try again"
    )


def main() -> int:
    """Run the command of the arguments."""
    environment = provided(dict(os.environ))
    command = sys.argv[1:]
    if not command:
        return 0
    program = shutil.which(command[0], path=environment["PATH"]) or command[0]
    return subprocess.run([program, *command[1:]], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
