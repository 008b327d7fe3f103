"""Break the product by hand-made mutants, one at a time, and see that a quick test catches each.

``python tests/trials/mutants.py`` runs the test that ``mutants.tsv`` names for each: a file, what
stands there, what stands there in the mutant, and the test. The files are as they were at the end.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_suffix(".tsv")


def mutants() -> list[list[str]]:
    """Return file, text before, text after and test of each mutant."""
    lines = LIST.read_text().splitlines()[1:]
    return [[part.replace("\\n", "\n") for part in line.split("\t")] for line in lines]


def is_caught(name: str, before: str, after: str, test: str) -> bool:
    """Whether a test fails on a mutant."""
    path = ROOT / name
    content = path.read_text()
    if content.count(before) < 1:
        sys.exit(f"{name} has no {before!r}: write its mutant anew")
    path.write_text(content.replace(before, after, 1))
    try:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly", "-n", "0", test]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
        return run.returncode == 1
    finally:
        path.write_text(content)


def main() -> int:
    """Run all; return 1 if one survives."""
    survivors = []
    for number, (name, before, after, test) in enumerate(mutants(), 1):
        caught = is_caught(name, before, after, test)
        print(f"{number:3} {'caught' if caught else 'SURVIVES'} {name}: {test}", flush=True)
        if not caught:
            survivors.append(name)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
