"""Searches of tables too wide for a Gram, against a scan's floor and libraries in memory.

Each job runs in a process of its own; libraries load their data before the clock starts, dbselect
reads the file. scikit-learn's orthogonal matching pursuit must give the set of rule ``omp``, and
fastcan those of rule ``fr`` in order. abess minimises over sets.
"""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from measure import Apart, apart, installed
from rows import Row, skipped
from tables import FOLDER

PICKS = 50
#: Columns -> rows of the dense tables; rows, columns and entries a row of the sparse one.
DENSE, SPARSE = {20_000: 8_000, 100_000: 2_000}, (200_000, 1_000_000, 100)
#: Rows, levels of the text and numbers beside it.
LEVELED = (2_000_000, 100_000, 20)
#: Values of a row group: 40 MB.
GROUP_VALUES = 10_000_000


def dense_table(width: int) -> Path:
    """Write, unless it is there, a fixed-size list of normal numbers that share a factor."""
    rows = DENSE[width]
    path = FOLDER / f"wide-{rows}x{width}.parquet"
    schema = pa.schema([("y", pa.float64()), ("x", pa.list_(pa.float32(), width))])
    weights = np.random.default_rng(1).normal(size=2 * PICKS)

    def block(rng: np.random.Generator, size: int) -> list[pa.Array]:
        X = rng.standard_normal((size, width), dtype=np.float32)
        X += 0.5 * rng.standard_normal((size, 1), dtype=np.float32)
        y = X[:, : 2 * PICKS] @ weights + 5 * rng.standard_normal(size)
        return [pa.array(y), pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), width)]

    return _written(path, schema, rows, GROUP_VALUES // width, block)


def sparse_table() -> Path:
    """Write, unless it is there, lists of entries; low numbers are the most frequent."""
    rows, width, entries = SPARSE
    path = FOLDER / f"wide-{rows}x{width}-{entries}.parquet"
    entry = pa.struct([("at", pa.int32()), ("value", pa.float32())])
    schema = pa.schema([("y", pa.float64()), ("x", pa.list_(entry))])
    weights = np.random.default_rng(1).normal(size=1000)

    def block(rng: np.random.Generator, size: int) -> list[pa.Array]:
        at = (width * rng.random((size, entries)) ** 3).astype(np.int32)
        value = rng.standard_normal((size, entries), dtype=np.float32)
        y = np.where(at < 1000, value * weights[at % 1000], 0.0).sum(axis=1)
        y += rng.standard_normal(size)
        fields = pa.StructArray.from_arrays(
            [pa.array(at.ravel()), pa.array(value.ravel())], fields=list(entry)
        )
        ends = pa.array(np.arange(0, size * entries + 1, entries, dtype=np.int32))
        return [pa.array(y), pa.ListArray.from_arrays(ends, fields)]

    return _written(path, schema, rows, 20_000, block)


def level_table() -> Path:
    """Write, unless it is there, numbers and a text of very many levels that shifts them all."""
    rows, levels, width = LEVELED
    path = FOLDER / f"wide-{rows}x{width}-{levels}-levels.parquet"
    numbers = [f"x{j}" for j in range(width)]
    schema = pa.schema([(name, pa.float64()) for name in ("y", *numbers)] + [("user", pa.string())])
    effect = np.random.default_rng(1).normal(size=levels)

    def block(rng: np.random.Generator, size: int) -> list[pa.Array]:
        user = rng.integers(0, levels, size)
        X = rng.normal(size=(width, size)) + 0.5 * effect[user]
        y = effect[user] + X[:10].sum(axis=0) + 3 * rng.normal(size=size)
        return [pa.array(y), *map(pa.array, X), pl.Series(user).cast(pl.String).to_arrow()]

    return _written(path, schema, rows, 100_000, block)


def _written(
    path: Path,
    schema: pa.Schema,
    rows: int,
    size: int,
    block: Callable[[np.random.Generator, int], list[pa.Array]],
) -> Path:
    """Write rows in groups of a size, unless they are there."""
    if path.exists():
        return path
    FOLDER.mkdir(exist_ok=True)
    rng, temporary = np.random.default_rng(0), path.with_suffix(".tmp")
    with pq.ParquetWriter(temporary, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, rows, size):
            arrays = block(rng, min(size, rows - start))
            writer.write_table(pa.table(arrays, schema=schema))
    temporary.rename(path)
    return path


def floor(path: Path) -> Callable[[], dict]:
    """Sum the column, in the engine that reads the file."""
    x = pl.col("x")
    is_array = isinstance(pl.scan_parquet(path).collect_schema()["x"], pl.Array)
    total = x.arr.sum().sum() if is_array else x.explode().struct.field("value").sum()
    return lambda: {"sum": pl.scan_parquet(path).select(total).collect(engine="streaming").item()}


def level_floor(path: Path) -> Callable[[], dict]:
    """Sum the numbers and count the texts, in the engine that reads the file."""
    query = pl.scan_parquet(path).select(pl.exclude("user").sum(), pl.col("user").count())
    return lambda: {"sum": query.collect(engine="streaming").row(0)}


def by_levels(path: Path) -> Callable[[], dict]:
    """Search all numbers and the text, whose levels are one group."""
    import dbselect as ds

    groups = {name: [name] for name in pl.scan_parquet(path).collect_schema() if name != "y"}

    def run() -> dict:
        sequence = ds.anytime_sequence(path, "y", groups, gram="lazy")
        coefficients = sequence.at().coefficients
        coef = {name: coefficients[name] for name in groups if name != "user"}
        return {"coef": coef, "scans": sequence.scans, "fetched": sequence.rows_fetched}

    return run


def demeaned(path: Path) -> Callable[[], dict]:
    """Fit one model of all columns in memory, on numbers centred by level."""
    table = pl.read_parquet(path)

    def run() -> dict:
        numbers = pl.exclude("user")
        within = table.select(numbers - numbers.mean().over("user"))
        X = within.drop("y").to_numpy()
        coef = np.linalg.solve(X.T @ X, X.T @ within["y"].to_numpy())
        return {"coef": dict(zip(within.columns[1:], coef.tolist(), strict=True))}

    return run


def search(rule: str, **options: int) -> Callable[[Path], Callable[[], dict]]:
    """Return the job of a wide search by a rule."""

    def job(path: Path) -> Callable[[], dict]:
        import dbselect as ds

        names = pl.scan_parquet(path).collect_schema()["x"]
        groups = None
        if isinstance(names, pl.Array):
            groups = {f"x[{j}]": [f"x[{j}]"] for j in range(1, names.size + 1)}

        def run() -> dict:
            sequence = ds.anytime_sequence(
                path, "y", groups, rule=rule, max_groups=PICKS, gram="lazy", **options
            )
            first = 0 if groups is None else 1
            order = [int(name[2:-1]) - first for name in sequence.groups.names]
            return {"order": order, "scans": sequence.scans, "fetched": sequence.rows_fetched}

        return run

    return job


def _in_memory(path: Path) -> tuple[np.ndarray, np.ndarray]:
    table = pq.read_table(path)
    width = table.schema.field("x").type.list_size
    X = np.concatenate([part.flatten().to_numpy() for part in table["x"].chunks])
    return X.reshape(-1, width).astype(np.float64), table["y"].to_numpy()


def sklearn(path: Path) -> Callable[[], dict]:
    """Run orthogonal matching pursuit on standardised columns."""
    from sklearn.linear_model import orthogonal_mp

    X, y = _in_memory(path)
    X -= X.mean(axis=0)
    X /= np.sqrt((X**2).sum(axis=0))
    y = y - y.mean()

    def run() -> dict:
        # With a path it would hold D times D coefficients.
        coef = orthogonal_mp(X, y, n_nonzero_coefs=PICKS, precompute=False)
        return {"set": np.flatnonzero(coef).tolist()}

    return run


def fastcan(path: Path) -> Callable[[], dict]:
    """Run forward selection by the canonical correlation, for one target the same as by r2."""
    from fastcan import FastCan

    X, y = _in_memory(path)
    return lambda: {"order": FastCan(PICKS, verbose=0).fit(X, y[:, None]).indices_.tolist()}


def abess(path: Path) -> Callable[[], dict]:
    """Select `PICKS` columns by splicing."""
    from abess import LinearRegression

    X, y = _in_memory(path)
    model = LinearRegression(support_size=PICKS)
    return lambda: {"set": np.flatnonzero(model.fit(X, y).coef_).tolist()}


JOBS = {
    "floor": floor,
    "rule omp": search("omp"),
    "rule fr": search("fr"),
    "rule fr, screened to 1,000": search("fr", screen=1000),
    "sklearn": sklearn,
    "fastcan": fastcan,
    "abess": abess,
    "level_floor": level_floor,
    "by_levels": by_levels,
    "demeaned": demeaned,
}


def measured(job: str, path: Path) -> Apart:
    """Return what a job took in a process of its own, its data loaded before."""
    return apart(
        "result = job()", f"import wide; job = wide.JOBS[{job!r}](wide.Path({str(path)!r}))"
    )


def a_scan(what: str, search: Apart, base: float, of: str) -> Row:
    """Return the row of a search, whose time is shared among its scans."""
    scans = search.result["scans"]
    note = f"{search.seconds:.1f} s in {scans} scans, {search.megabytes:,.0f} MB"
    return Row(f"{what}: a scan", search.seconds / scans, base, of, note=note)


def dense() -> Iterator[Row]:
    """Search 20,000 and 100,000 columns in a fixed-size list; beside it, libraries in memory."""
    for width, rows in DENSE.items():
        path, what = dense_table(width), f"{PICKS} of {rows:,} x {width:,} dense"
        rules = ("rule omp", "rule fr", "rule fr, screened to 1,000")
        runs = yield from searched(what, path, rules)
        for name, rule in (("sklearn", "rule omp"), ("fastcan", "rule fr"), ("abess", "rule fr")):
            if not installed(name):
                yield skipped(f"{what}, {name} in memory", f"no {name}")
                continue
            rival, order = measured(name, path), runs[rule].result["order"]
            same = rival.result in ({"order": order}, {"set": sorted(order)})
            note = f"{'the same' if same else 'other'} columns, {rival.megabytes:,.0f} MB"
            base = runs[rule].seconds
            yield Row(f"{what}, {name} in memory", rival.seconds, base, rule, note=note)


def entered() -> Iterator[Row]:
    """Search 1,000,000 sparse columns."""
    rows, width, entries = SPARSE
    what = f"{PICKS} of {rows:,} x {width:,}, {entries} entries a row"
    yield from searched(what, sparse_table(), ("rule fr", "rule fr, screened to 1,000"))


def searched(
    what: str, path: Path, jobs: tuple[str, ...]
) -> Generator[Row, None, dict[str, Apart]]:
    """Yield the scans of searches beside their floor; return the searches."""
    base, runs = measured("floor", path).seconds, {}
    for job in jobs:
        runs[job] = measured(job, path)
        yield a_scan(f"{what}, {job}", runs[job], base, "sum of the column in Polars")
    return runs


def leveled() -> Iterator[Row]:
    """Search 100,000 levels of a text as one group."""
    rows, levels, width = LEVELED
    what, path = f"{rows:,} x {width} and a text of {levels:,} levels", level_table()
    base, sequence, single = (measured(j, path) for j in ("level_floor", "by_levels", "demeaned"))
    gap = max(abs(sequence.result["coef"][name] - x) for name, x in single.result["coef"].items())
    of = "sums of the numbers and a count in Polars"
    yield a_scan(f"{what}, all {width + 1} groups", sequence, base.seconds, of)
    note = f"coefficients differ by {gap:.0e}, {single.megabytes:,.0f} MB"
    model = f"{what}, one model demeaned by Polars in memory"
    yield Row(model, single.seconds, sequence.seconds, "the sequence", note=note)


PARTS = (dense, entered, leveled)
