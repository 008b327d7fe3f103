"""Build the search for pages and Node: WebAssembly without imports, beside the page that holds it.

``python release/wasm.py`` writes ``dbselect/pages/search.wasm``, which the repository and wheels
have. Where this Rust has no standard library for WebAssembly and cannot get one, it is made of the
sources that come with Debian's rust-web-src; where there are none either, nothing is built and one
sentence says so. ``python release/wasm.py --npm FOLDER`` also fills a folder for ``npm pack``.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from rust import provided

ROOT = Path(__file__).parents[1]
TARGET = "wasm32-unknown-unknown"
PAGES = ROOT / "dbselect" / "pages"
MODULE = PAGES / "search.wasm"
#: What the npm package consists of.
PACKAGE = [
    *(ROOT / "native" / "npm" / name for name in ("package.json", "README.md", "index.js")),
    *(ROOT / "native" / "npm" / name for name in ("index.d.ts",)),
    PAGES / "search.js",
    MODULE,
    ROOT / "LICENSE",
]


def told(*command: str, environment: dict[str, str]) -> str:
    """Return what a command prints; nothing if it fails."""
    try:
        ended = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return ended.stdout.strip() if ended.returncode == 0 else ""


def options(environment: dict[str, str]) -> list[str] | None:
    """Return what cargo needs to build for WebAssembly; None where it cannot."""
    folder = ["rustc", "--print", "target-libdir", "--target", TARGET]
    found = told(*folder, environment=environment)
    if found and Path(found).is_dir():
        return []
    told("rustup", "target", "add", TARGET, environment=environment)
    if found and Path(found).is_dir():
        return []
    root = Path(told("rustc", "--print", "sysroot", environment=environment) or "/nowhere")
    linker = next(root.glob("lib/rustlib/*/bin/rust-lld"), None) or shutil.which("wasm-ld")
    if not (root / "lib/rustlib/src/rust/library").exists() or linker is None:
        return None
    # Nightly options of a stable compiler; what it builds is its own standard library.
    environment["RUSTC_BOOTSTRAP"] = "1"
    environment["CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER"] = str(linker)
    return ["-Z", "build-std=std,panic_abort"]


def build() -> bool:
    """Build the module; return whether there is one."""
    # A wheel for another platform has programs and flags of its own.
    own = ("CARGO", "CARGO_BUILD_TARGET", "RUSTFLAGS")
    environment = provided({key: one for key, one in os.environ.items() if key not in own})
    more = options(environment)
    if more is None:
        print(f"Rust here cannot build for {TARGET}: reports will not answer edits", flush=True)
        return False
    target = environment.setdefault("CARGO_TARGET_DIR", str(ROOT / "native" / "target"))
    # The file is in the repository: it says nothing of the machine that built it.
    environment["RUSTFLAGS"] = f"-C target-feature=+simd128 --remap-path-prefix={Path.home()}=~"
    manifest = str(ROOT / "native" / "Cargo.toml")
    command = ["cargo", "build", "--locked", "--quiet", "--lib", "--profile", "wasm", *more,
               "--target", TARGET, "--manifest-path", manifest]  # fmt: skip
    program = shutil.which("cargo", path=environment["PATH"]) or "cargo"
    subprocess.run([program, *command[1:]], env=environment, check=True)
    built = Path(target) / TARGET / "wasm" / "dbselect_native.wasm"
    # Where crates lay on this machine is no part of the file, whose offsets stay.
    plain = re.sub(
        rb"[~/\w.-]*/registry/src/[\w.-]+", lambda at: b"-" * len(at[0]), built.read_bytes()
    )
    # A process may have the file open.
    beside = MODULE.with_suffix(".new")
    beside.write_bytes(plain)
    beside.replace(MODULE)
    print(f"{MODULE}: {MODULE.stat().st_size:,} bytes", flush=True)
    return True


def fill(folder: Path) -> None:
    """Put the npm package into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in PACKAGE:
        shutil.copy(file, folder)


def main() -> int:
    """Build, and fill the folder of the argument."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--npm", type=Path, help="folder for the npm package")
    given = parser.parse_args()
    if not build():
        return int(given.npm is not None)
    if given.npm is not None:
        fill(given.npm)
    return 0


if __name__ == "__main__":
    sys.exit(main())
