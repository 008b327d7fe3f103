"""Measure dbselect against the floor of each engine and against its peers.

``make bench`` prints a table for each subject and writes them to bench/RESULTS.md, if the machine
is idle; a run that ends early goes on where it ended. With names of parts or subjects, as in
``python bench/run.py compiled proofs``, those are printed alone; with ``--processor`` in seconds of
processors, for a machine that others use. The floor is a plain ``sum()`` over the same columns of
the same file in the same engine and run. What needs a system or a library that is not there is
skipped by name; ``DBSELECT_PEERS`` is the Python of an environment with what bench/peers.txt lists,
which ``make bench`` makes: what is not installed here is imported from there.
"""

import sys
from pathlib import Path

import beside
import best_within
import glm
import many
import object_store
import page
import paths
import predictions
import purchases
import resamples
import sampling
import scans
import searches
import segments
import spark
import start
import stores
import thresholding
import warehouse
import wide

SUBJECTS = {
    "Import": start,
    "Scans": scans,
    "Segments": segments,
    "Many groups": many,
    "Predictions": predictions,
    "Other libraries": beside,
    "Families": glm,
    "Searches": searches,
    "Best sets": best_within,
    "Paths": paths,
    "Thresholding": thresholding,
    "Adaptive sampling": sampling,
    "Resamples": resamples,
    "Stores": stores,
    "Object stores": object_store,
    "Purchases": purchases,
    "Wide tables": wide,
    "Warehouses": warehouse,
    "Clusters": spark,
}

if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name != "--processor"]
    folder = Path(__file__).parent
    page.main(SUBJECTS, names, folder / "RESULTS.md", folder / "data" / "finished.json")
