"""Tables larger than memory: 40 GB within 4 GB, beside the engine's own scan.

``python bench/larger.py`` takes some ten minutes on two cores, ``python bench/larger.py 2`` of two
files one. The files are hard links to one of 4 million rows of 50 columns: each is decoded, and the
disk holds one.
"""

import shutil
import sys
from pathlib import Path

from measure import apart
from rows import HEADER, Row
from tables import FOLDER, table

#: Number of files, of 1.6 GB each.
FILES = 25
LIMIT = 4000.0
#: A column of 0 and 1, and 100,000 keys.
READ = """
import dbselect as ds, polars as pl
frame = pl.scan_parquet('{files}').with_columns(
    y=pl.col('x0') > 10, key=100 * pl.col('k') + (pl.col('x1') * 1e6).cast(pl.Int64) % 100)
columns = [f'x{{j}}' for j in range(50)]
"""
FLOOR = "pl.scan_parquet('{files}').select(pl.all().sum()).collect(engine='streaming')"
JOBS = {
    "gram, 50 columns": "result = ds.gram('{files}', columns).rows",
    "gram_by, 100,000 keys x 50, memory_limit='3GB', out=": """
result = ds.gram_by(frame, 'key', columns, memory_limit='3GB', out='{out}').height""",
    "a binomial sequence, 3 of 20 columns, rule fr": """
result = len(ds.anytime_sequence(frame, 'y', groups={{n: [n] for n in columns[1:21]}},
    family='binomial', rule='fr', max_groups=3).steps)""",
    "a lazy search, 3 of 49 columns": """
result = len(ds.anytime_sequence(frame, 'x0', groups={{n: [n] for n in columns[1:]}}, gram='lazy',
    max_groups=3).steps)""",
}


def linked(files: int) -> Path:
    """Return a folder with so many hard links to one file."""
    file = table(4_000_000, 50).resolve()
    folder = FOLDER / "larger"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"{number:02}.parquet").hardlink_to(file)
    return folder


def main(files: int) -> None:
    """Print a table of times and peaks."""
    folder = linked(files)
    out = FOLDER / "larger-grams.parquet"
    print(f"{files * 4_000_000:,} rows x 50, {files * 1.64:.0f} GB\n\n{HEADER}", flush=True)
    values = {"files": folder / "*.parquet", "out": out}
    prepare = READ.format(**values)
    floor = apart(FLOOR.format(**values), prepare)
    print(Row("sum() of all columns", floor.seconds, note=_peak(floor.megabytes)).line())
    for name, code in JOBS.items():
        took = apart(code.format(**values), prepare)
        row = Row(name, took.seconds, floor.seconds, "sum()", note=_peak(took.megabytes))
        print(row.line(), flush=True)
    shutil.rmtree(folder)
    out.unlink(missing_ok=True)


def _peak(megabytes: float) -> str:
    beyond = "" if megabytes <= LIMIT else f", beyond {LIMIT:,.0f}"
    return f"peak {megabytes:,.0f} MB{beyond}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else FILES)
