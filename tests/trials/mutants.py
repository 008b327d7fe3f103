"""Break the product by hand-made mutants, one at a time, and see that a quick test catches each.

``python tests/trials/mutants.py`` runs the test that ``mutants.tsv`` names for each: a file, what
stands there, what stands there in the mutant, and the test. ``mutants.py sets glm`` runs those
whose line has one of these words. Mutants stand in a copy of the tree; the library is built anew
for those of ``native``, without optimisation, in the copy's own build folder.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_suffix(".tsv")
#: What no test of the list needs, and the largest that a checkout has.
APART = shutil.ignore_patterns(".*", "target", "dist", "bench", "__pycache__")

Mutant = tuple[str, str, str, str]


def mutants() -> list[Mutant]:
    """Return file, text before, text after and test of each mutant."""
    lines = [line.replace("\\n", "\n") for line in LIST.read_text().splitlines()[1:]]
    return [(name, *texts) for name, *texts in (line.split("\t") for line in lines)]


def is_caught(tree: Path, name: str, before: str, after: str, test: str) -> bool:
    """Whether a test fails on a mutant."""
    path = tree / name
    content = path.read_text()
    if before not in content:
        sys.exit(f"{name} has no {before!r}: write its mutant anew")
    library = next((tree / "dbselect").glob("_library*"))
    path.write_text(content.replace(before, after, 1))
    try:
        if name.startswith("native"):
            build(tree, library)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly", "-n", "0"]
        command += ["-m", "not (slow or system or far)", test]
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        run = subprocess.run(command, cwd=tree, env=environment, capture_output=True, check=False)
        return run.returncode == 1
    finally:
        path.write_text(content)
        if name.startswith("native"):
            shutil.copy(ROOT / "dbselect" / library.name, library)


def build(tree: Path, library: Path) -> None:
    """Build the library of a tree."""
    target = tree / "target"
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(target),
        "CARGO_PROFILE_DEV_OPT_LEVEL": "0",
    }
    command = ["cargo", "build", "--locked", "--quiet", "--lib"]
    manifest = ["--manifest-path", str(tree / "native" / "Cargo.toml")]
    rust = [sys.executable, str(tree / "release" / "rust.py")]
    subprocess.run([*rust, *command, *manifest], env=environment, check=True)
    names = ("libdbselect_native.so", "libdbselect_native.dylib", "dbselect_native.dll")
    made = (target / "debug" / name for name in names)
    shutil.copy(next(path for path in made if path.exists()), library)


def main() -> int:
    """Run all, or those with a word of the arguments; return 1 if one survives."""
    survivors = 0
    with TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=APART)
        for number, mutant in enumerate(mutants(), 1):
            if sys.argv[1:] and not any(word in " ".join(mutant) for word in sys.argv[1:]):
                continue
            caught = is_caught(tree, *mutant)
            print(
                f"{number:3} {'caught' if caught else 'SURVIVES'} {mutant[0]}: {mutant[3]}",
                flush=True,
            )
            survivors += not caught
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
