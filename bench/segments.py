"""A plain regression for each of many segments, beside polars_ds: seconds and memory.

``DBSELECT_PEERS`` is the Python of an environment with polars and polars_ds.
"""

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from measure import Row
from tables import FOLDER

ROWS, FEATURES = 10, 5
REPEATS = 3
#: What is timed: from a file in the page cache to a table of models. Each prints its seconds
#: and the peak of its process, imports included.
REPORT = """
import resource
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
SQL = """
import time, dbselect
con = dbselect.connect()
start = time.perf_counter()
con.execute("CREATE TABLE r AS SELECT k, fit(gram({row}), 'y') AS fit FROM '{path}' GROUP BY k")
"""
FRAMES = """
import time, dbselect
start = time.perf_counter()
dbselect.fit_by(dbselect.gram_by('{path}', ['k']), 'y')
"""
#: It ends with an error where a segment has fewer rows than coefficients.
POLARS_DS = """
import time, polars as pl, polars_ds
start = time.perf_counter()
frame = pl.read_parquet('{path}')
frame.group_by('k').agg(polars_ds.lin_reg({features}, target='y', add_bias=True))
"""


def table(segments: int) -> Path:
    """Write, unless it is there, ten rows a segment, in random order."""
    path = FOLDER / f"segments-{segments}.parquet"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        rng = np.random.default_rng(0)
        X = rng.standard_normal((FEATURES, ROWS * segments)) + 10
        keys = rng.permutation(np.repeat(np.arange(segments, dtype=np.int32), ROWS))
        columns = {f"x{j}": x for j, x in enumerate(X)}
        y = X.sum(axis=0) + rng.standard_normal(ROWS * segments)
        pl.DataFrame({**columns, "y": y, "k": keys}).write_parquet(path)
    return path


def timed(code: str, python: str) -> tuple[float, float]:
    """Return the seconds and the peak megabytes that a new process reports."""
    found = subprocess.run(
        [python, "-c", code + REPORT], check=True, capture_output=True, text=True
    )
    # A bar of progress may come before.
    seconds, megabytes = map(float, found.stdout.split()[-2:])
    return seconds, megabytes


def regressions(segments: int) -> Iterator[Row]:
    """Fit every segment, in SQL, from frames and by polars_ds, in turns."""
    path, names = table(segments), [f"x{j}" for j in range(FEATURES)]
    row = "{" + ", ".join(f"'{name}': {name}" for name in [*names, "y"]) + "}"
    ways = {
        "fit(gram(...)) in SQL": (SQL.format(row=row, path=path), sys.executable),
        "fit_by(gram_by(...))": (FRAMES.format(path=path), sys.executable),
    }
    if peers := os.environ.get("DBSELECT_PEERS"):
        features = ", ".join(map(repr, names))
        ways["polars_ds.lin_reg"] = (POLARS_DS.format(path=path, features=features), peers)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(REPEATS):
        for name, (code, python) in ways.items():
            found[name].append(timed(code, python))
    median = {name: statistics.median(time for time, _ in runs) for name, runs in found.items()}
    peak = {name: statistics.median(peak for _, peak in runs) for name, runs in found.items()}
    for name in ways:
        ratio = f", {median['polars_ds.lin_reg'] / median[name]:.1f}x as fast" if peers else ""
        yield (
            f"{segments:,} segments x {FEATURES} features, {ROWS} rows each, from Parquet: {name}",
            f"{median[name]:.2f} s{ratio}; peak {peak[name]:.0f} MB",
            "",
        )


if __name__ == "__main__":
    for count in map(int, sys.argv[1:] or ["100000", "1000000"]):
        for row in regressions(count):
            print(" | ".join(row))
