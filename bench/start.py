"""Starting: what a fresh interpreter takes to load dbselect."""

import subprocess
import sys
from collections.abc import Iterator

from measure import Row, seconds


def imports() -> Iterator[Row]:
    """Measure the import against that of Polars, which registers the namespaces."""
    codes = ("pass", "import polars", "import dbselect", "from dbselect import *")
    empty, polars, plain, whole = seconds(
        *(lambda code=code: subprocess.run([sys.executable, "-c", code], check=True)
          for code in codes)
    )  # fmt: skip
    yield (
        "import dbselect, in a fresh interpreter",
        f"{plain - empty:.2f} s beyond its start of {empty:.2f} s; import polars "
        f"{polars - empty:.2f} s; every name loaded {whole - empty:.2f} s",
        "< 0.4 s",
    )
