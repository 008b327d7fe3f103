"""Write the licences of the compiled crates, ``native/licenses.txt``, which every wheel has.

``python release/licenses.py`` after ``native/Cargo.lock`` changes; a test compares the two.
"""

import json
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILE = ROOT / "native" / "licenses.txt"
#: How files of licences are called.
NAMES = ("LICENSE*", "LICENCE*", "COPYING*", "COPYRIGHT*", "NOTICE*", "UNLICENSE*")
LINE = "-" * 80


def crates() -> list[dict[str, Any]]:
    """Return the crates that the library is compiled with, but for itself."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    found = subprocess.run(command, cwd=ROOT / "native", capture_output=True, check=True)
    packages = [each for each in json.loads(found.stdout)["packages"] if each["source"]]
    return sorted(packages, key=lambda each: (each["name"], each["version"]))


def texts(crate: dict[str, Any]) -> list[str]:
    """Return the texts of the licences that a crate comes with."""
    folder = Path(crate["manifest_path"]).parent
    files = sorted({file for name in NAMES for file in folder.glob(name) if file.is_file()})
    return [file.read_text(encoding="utf-8", errors="replace").strip() for file in files]


def text() -> str:
    """Return the list of crates with their licences, then each different text once."""
    every = crates()
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for crate in every:
        for own in texts(crate):
            owners["\n".join(line.rstrip() for line in own.splitlines())].append(crate["name"])
    head = "The library of dbselect is compiled with these crates:\n\n"
    listed = [
        f"{crate['name']} {crate['version']}: {crate['license'] or 'see below'}" for crate in every
    ]
    parts = [f"{LINE}\n{', '.join(dict.fromkeys(names))}\n\n{own}" for own, names in owners.items()]
    return head + "\n".join(listed) + "\n\n" + "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
