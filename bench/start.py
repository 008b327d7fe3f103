"""What a fresh interpreter takes to load dbselect, beside Polars, which it loads."""

import subprocess
import sys
from collections.abc import Iterator

from measure import seconds
from rows import Row


def imports() -> Iterator[Row]:
    """Measure the import against that of Polars, which registers the namespaces."""
    codes = ("pass", "import polars", "import dbselect", "from dbselect import *")
    empty, polars, plain, whole = seconds(
        *(lambda code=code: subprocess.run([sys.executable, "-c", code], check=True)
          for code in codes)
    )  # fmt: skip
    base = polars - empty
    note = f"beyond the start of Python, {empty:.2f} s"
    yield Row("import dbselect", plain - empty, base, "import polars", limit=0.4, note=note)
    yield Row("from dbselect import *", whole - empty, base, "import polars", note=note)


PARTS = (imports,)
