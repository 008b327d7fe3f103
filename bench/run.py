"""Measure dbselect against the floor of each engine and against its peers.

``make bench`` prints a table and writes it to bench/RESULTS.md; with names, as in
``python bench/run.py compiled proofs``, those parts are printed alone. The floor is a
plain ``sum()`` over the same columns of the same file in the same engine and
run; ratios are to that floor. Medians of five, alternatives in turns.
"""

import os
import platform
import sys
from pathlib import Path

import best_within
import duckdb
import fits
import glm
import numpy as np
import paths
import polars as pl
import purchases
import resamples
import scans
import searches
import start
import stores
import warehouse

PARTS = (
    start.imports,
    scans.duckdb_gram,
    scans.polars_gram,
    scans.levels,
    scans.memory,
    scans.segments,
    scans.many_segments,
    scans.predictions,
    scans.peers,
    warehouse.push_down,
    glm.passes,
    glm.in_memory,
    searches.sequences,
    searches.many_records,
    searches.compiled,
    searches.responses,
    searches.certificates,
    best_within.proofs,
    best_within.against_all,
    best_within.against_prefixes,
    best_within.published,
    searches.lasso,
    paths.paths,
    paths.sparse_groups,
    searches.removals,
    searches.projections,
    searches.limits,
    searches.wide_descents,
    searches.sampling,
    searches.designs,
    fits.exact_sums,
    fits.exact_solutions,
    resamples.resamples,
    stores.refreshes,
    purchases.star,
    purchases.purchases,
)


def machine() -> str:
    """Describe the machine and the versions."""
    cpu = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
         if line.startswith("model name")),
        platform.processor(),
    )  # fmt: skip
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{cpu}, {os.cpu_count()} cores, {memory:.0f} GiB; Python {platform.python_version()}, "
        f"DuckDB {duckdb.__version__}, Polars {pl.__version__}, NumPy {np.__version__}. "
        "Parquet is uncompressed and in the page cache."
    )


def main() -> None:
    """Run every benchmark, print the table and keep it; of some print it."""
    names = sys.argv[1:]
    unknown = set(names) - {part.__name__ for part in PARTS}
    if unknown:
        sys.exit(f"there is no part {sorted(unknown)}; there is {[one.__name__ for one in PARTS]}")
    lines = ["# Measurements", "", f"`make bench` on {machine()}", ""]
    lines += ["| what | measured | to reach |", "|---|---|---|"]
    print("\n".join(lines), flush=True)
    for part in (part for part in PARTS if not names or part.__name__ in names):
        for row in part():
            lines.append("| " + " | ".join(row) + " |")
            print(lines[-1], flush=True)
    if not names:
        Path(__file__).with_name("RESULTS.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
