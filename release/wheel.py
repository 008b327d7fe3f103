"""Build the wheel for a Linux that this machine need not be: zig links, and has the C library.

``python release/wheel.py manylinux_2_17_aarch64`` writes it to dist/. It needs the packages build,
cargo-zigbuild and ziglang, and takes what else Rust needs from rustup. macOS and Windows have
linkers and a C library of their own: there `python -m build --wheel` builds the wheel.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: The platform of a wheel -> what Rust and zig call it.
TARGETS = {
    "manylinux_2_17_x86_64": "x86_64-unknown-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-unknown-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-unknown-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-unknown-linux-musl",
}


def environment(target: str) -> dict[str, str]:
    """Return what setuptools-rust reads to build for a target."""
    # The package is built in an environment of its own, which has no zig.
    zig = {"CARGO_ZIGBUILD_PYTHON_PATH": sys.executable}
    added = {"CARGO": "cargo-zigbuild", "CARGO_BUILD_TARGET": target, **zig}
    programs = Path(sys.executable).parent
    added["PATH"] = os.pathsep.join([str(programs), os.environ.get("PATH", "")])
    if target.endswith("musl"):
        # A library that others load has the C library of those.
        added["RUSTFLAGS"] = "-C target-feature=-crt-static"
    return {**os.environ, **added}


def main() -> None:
    """Build for the platform of the argument."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("platform", choices=TARGETS)
    parser.add_argument("--out", default=ROOT / "dist", type=Path)
    given = parser.parse_args()
    target = TARGETS[given.platform]
    triple = target.removesuffix(".2.17")
    subprocess.run(["rustup", "target", "add", triple], cwd=ROOT, check=True)
    option = f"-C--build-option=--plat-name={given.platform}"
    command = [sys.executable, "-m", "build", "--wheel", option, "--outdir", str(given.out), "."]
    subprocess.run(command, cwd=ROOT, env=environment(target), check=True)


if __name__ == "__main__":
    main()
