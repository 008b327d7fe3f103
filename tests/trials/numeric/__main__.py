"""Random tables and models against exact rationals, brute force and other libraries.

``make numbers`` draws cases of all families; ``python tests/trials/numeric FAMILY SEED`` runs one
again. A family is a module of this folder whose ``case`` draws a table from ``random.Random``,
asks dbselect, and raises where an answer is neither right nor refused with the true reason.
What is found is mended with a test of its own.
"""

import sys
from importlib import import_module
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path[:0] = map(str, (FOLDER, FOLDER.parent, FOLDER.parents[1] / "glm"))

import drawing  # noqa: E402

FAMILIES = {
    path.stem: import_module(path.stem).case
    for path in sorted(FOLDER.glob("*.py"))
    if path.name != "__main__.py"
}

if __name__ == "__main__":
    sys.exit(drawing.main(FAMILIES, sys.argv[1:]))
