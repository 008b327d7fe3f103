"""Many small problems in one pass: grams, sequences and plain regressions by segment."""

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
import pyarrow as pa
from limits import limit
from measure import PEERS, Apart, apart, seconds
from rows import Row, skipped
from tables import FOLDER, columns, table

import dbselect as ds


def grouped() -> Iterator[Row]:
    """Solve ten thousand small problems in one query."""
    row = "{'a': a, 'b': b, 'c': c, 'd': d, 'e': e}"
    with ds.connect() as con:
        con.execute(
            "CREATE TABLE s AS SELECT i % 10000 AS k, random() AS a, random() AS b, "
            "random() AS c, random() AS d, random() AS e FROM range(1000000) t(i)"
        )
        grams, whole = seconds(
            lambda: con.execute(f"SELECT k, (gram({row})).rows FROM s GROUP BY k").fetchall(),
            lambda: con.execute(
                f"SELECT k, len(anytime_sequence(gram({row}), 'e')) FROM s GROUP BY k"
            ).fetchall(),
        )
    yield Row("10,000 segments x 5 columns in SQL", whole, grams, "grams alone", limit=20.0)


#: From a file in the page cache to sums by segment; the floor of what follows.
FLOOR = """
frame = pl.scan_parquet('{path}').group_by('k').agg(pl.all().sum()).collect(engine='streaming')
"""
#: The whole job of a million segments by door: the table read, the sequences and their status.
SEQUENCES = {
    "SQL": """
dbselect.connect().execute(
    f"CREATE TABLE s AS SELECT k, anytime_sequence(g, 'x0') AS s, gram_check(g, 'x0') AS status "
    f"FROM (SELECT k, gram({row}) AS g FROM '{path}' GROUP BY k)"
)""",
    "Python": "dbselect.anytime_sequence_by(dbselect.gram_by('{path}', ['k']), 'x0')",
}


#: Bytes of the record of a segment and of its sequence, as `estimated_size` tells: they are written
#: once at least, to memory that the kernel has cleared.
SEGMENT = 252 + 399


def many() -> Iterator[Row]:
    """Solve a million small problems."""
    path = table(10_000_000, 4, 1_000_000)
    floor = apart(FLOOR.format(path=path), "import polars as pl").seconds
    for door, code in SEQUENCES.items():
        took = apart(code.format(path=path, row=_row(columns(4))), "import dbselect")
        yield Row(
            f"1,000,000 segments x 3 features, 10M rows: sequences in {door}",
            took.seconds,
            floor,
            "sums by segment in Polars",
            most=4.0 if door == "Python" else None,
            limit=120.0,
            note=f"peak {took.megabytes:,.0f} MB; {limit(floor, moved=2 * SEGMENT * 1e6)}",
        )


def _row(names: list[str]) -> str:
    """Return the braces of a struct in SQL, doubled for an f-string."""
    return "{{" + ", ".join(f"'{name}': {name}" for name in names) + "}}"


def records(count: int, width: int) -> pl.DataFrame:
    """Return `count` Gram records of `width` features and a target, of random rows."""
    shape = (3 * width + 20, width + 1, min(count, 1000))
    rows = np.random.default_rng(0).standard_normal(shape)
    rows[:, -1] += rows[:, :-1].sum(axis=1)
    rows -= rows.mean(axis=0)
    names, n = [*columns(width), "y"], len(rows)
    mean = np.zeros(width + 1)
    grams = [
        ds.Gram(names, n, 0, float(n), mean, rows[:, :, k].T @ rows[:, :, k]).to_arrow()
        for k in range(rows.shape[2])
    ]
    distinct = pa.concat_arrays(grams)
    return pl.DataFrame({"gram": distinct.take(pa.array(np.arange(count) % len(distinct)))})


def many_records() -> Iterator[Row]:
    """Measure the searches of the compiled library, by door, against one by one in Python."""
    for count, width in ((1_000_000, 3), (10_000, 50)):
        frame = records(count, width)
        con = ds.connect()
        con.execute("CREATE TABLE records AS SELECT * FROM frame")
        query = "SELECT count(len(anytime_sequence(gram, 'y'))) FROM records"
        alone = [ds.Gram.from_struct(record) for record in frame["gram"][:100].to_list()]
        *doors, alone_seconds = seconds(
            lambda frame=frame: ds.anytime_sequence_by(frame, "y"),
            lambda frame=frame: frame.select(pl.col("gram").dbselect.anytime_sequence("y")),
            lambda con=con, query=query: con.execute(query).fetchall(),
            lambda alone=alone: [ds.anytime_sequence(gram, "y") for gram in alone],
            repeats=3,
        )
        base = alone_seconds * count / len(alone)
        for door, time in zip(("Python", "Polars", "SQL"), doors, strict=True):
            what = f"sequences of {count:,} ready grams x {width} features, {door}"
            yield Row(what, time, base, "one by one, scaled from 100", limit=3.0)
    frame = records(1, 18)
    con = ds.connect()
    con.execute("CREATE TABLE records AS SELECT * FROM frame")
    search, scan = seconds(
        lambda: con.execute("SELECT len(anytime_sequence(gram, 'y')) FROM records").fetchall(),
        lambda: con.execute("SELECT len(gram.comoment) FROM records").fetchall(),
        repeats=51,
    )
    what = "the sequence of one record of 19 columns in SQL, beside its scan"
    yield Row(what, search - scan, scan, "the scan", limit=0.001)


ROWS, FEATURES = 10, 5
#: A regression a segment, from a file in the page cache to a table of models.
REGRESSIONS = {
    "fit(gram(...)) in SQL": """
con.execute(f"CREATE TABLE r AS SELECT k, fit(gram({row}), 'y') AS fit FROM '{path}' GROUP BY k")
""",
    "fit_by(gram_by(...))": "dbselect.fit_by(dbselect.gram_by('{path}', ['k']), 'y')",
}
#: It ends with an error where a segment has fewer rows than coefficients.
POLARS_DS = """
frame = pl.read_parquet('{path}')
frame.group_by('k').agg(polars_ds.lin_reg({features}, target='y', add_bias=True))
"""


def rows_of(segments: int) -> Path:
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


def regressions() -> Iterator[Row]:
    """Fit every segment in SQL, from frames and by polars_ds, in turns."""
    names, peers = columns(FEATURES), PEERS
    for segments in (100_000, 1_000_000):
        filled = {
            "path": rows_of(segments),
            "row": _row([*names, "y"]),
            "features": ", ".join(map(repr, names)),
        }
        floor = ("floor", FLOOR, "import polars as pl", sys.executable)
        ways = [
            (name, code, "import dbselect; con = dbselect.connect()", sys.executable)
            for name, code in REGRESSIONS.items()
        ]
        if peers:
            ways.append(("polars_ds.lin_reg", POLARS_DS, "import polars as pl, polars_ds", peers))
        runs: dict[str, list[Apart]] = {name: [] for name, *_ in [floor, *ways]}
        for _ in range(3):
            for name, code, prepare, python in [floor, *ways]:
                runs[name].append(apart(code.format(**filled), prepare, python))
        base = median(run.seconds for run in runs["floor"])
        what = f"{segments:,} regressions of {FEATURES} features, {ROWS} rows each"
        for name, *_ in ways:
            took = median(run.seconds for run in runs[name])
            peak = f"peak {median(run.megabytes for run in runs[name]):,.0f} MB"
            yield Row(f"{what}: {name}", took, base, "sums by segment in Polars", note=peak)
        if not peers:
            yield skipped(f"{what}: polars_ds.lin_reg", "no DBSELECT_PEERS")


PARTS = (grouped, many, many_records, regressions)
