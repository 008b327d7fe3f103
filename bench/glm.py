"""Generalised linear models: a pass against the scan, a sequence against a fit in memory."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import polars as pl
from measure import Row, seconds
from sklearn.linear_model import LogisticRegression
from tables import columns, table

import dbselect as ds

ROWS, WIDTH, FEATURES = 4_000_000, 50, 48
#: Twenty groups of two or three columns.
SIZES = (3, 2, 3, 2, 2) * 4
SELECTED = 8
#: The target: whether a sum of columns is above its mean, the last two being noise.
TERMS = {**{f"x{3 * j}": 0.5 * 0.9**j for j in range(12)}, "x49": 3.0, "x48": -3.0}
TARGET = " + ".join(f"{weight} * ({name} - 10)" for name, weight in TERMS.items()) + " > 0"


def groups() -> dict[str, list[str]]:
    """Return the groups of the features, in their order."""
    names = iter(columns(FEATURES))
    return {f"g{number}": [next(names) for _ in range(size)] for number, size in enumerate(SIZES)}


def frame() -> pl.LazyFrame:
    """Return the features and the target, read by Polars."""
    scan = pl.scan_parquet(table(ROWS, WIDTH), low_memory=True)
    return scan.select(*columns(FEATURES), y=pl.sql_expr(TARGET))


def relation(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """Return the features and the target, read by DuckDB."""
    names = ", ".join(columns(FEATURES))
    return con.sql(f"SELECT {names}, {TARGET} AS y FROM '{table(ROWS, WIDTH)}'")


def passes() -> Iterator[Row]:
    """Sequences of eight groups out of twenty, and the time of a pass in each engine."""
    names = [*columns(FEATURES), "y"]
    with ds.connect() as con:
        con.execute("SET enable_progress_bar = false")
        sums = ", ".join(f"sum({name})" for name in names)
        engines: dict[str, tuple[Any, Callable[[], object]]] = {
            "Polars": (frame(), lambda: frame().sum().collect(engine="streaming")),
            "DuckDB": (relation(con), lambda: relation(con).aggregate(sums).fetchall()),
        }
        for engine, (source, floor) in engines.items():
            (base,) = seconds(floor, repeats=3)
            for rule in ("score", "fr"):
                spent, sequence = _timed(
                    lambda source=source, rule=rule: ds.anytime_sequence(
                        source, "y", groups(), family="binomial", rule=rule, max_groups=SELECTED
                    )
                )
                count = sequence.passes_made
                yield (
                    f"binomial sequence, rule {rule}, {SELECTED} of {len(SIZES)} groups, "
                    f"4M x {FEATURES}, {engine}",
                    f"{spent:.1f} s, {count} passes, {spent / count / base:.2f}x of {base:.2f} s",
                    "<= 2x",
                )


def in_memory() -> Iterator[Row]:
    """One fit of all columns, by passes and by scikit-learn on an array."""
    spent, model = _timed(lambda: ds.fit(frame(), "y", family="binomial"))
    yield (
        f"binomial fit of {FEATURES} columns, 4M rows, Polars",
        f"{spent:.1f} s, {model.passes} passes",
        "",
    )
    loaded = frame().collect()
    X, y = loaded.drop("y").to_numpy(), loaded["y"].to_numpy()
    X -= X.mean(axis=0)
    rival = LogisticRegression(C=np.inf)
    fitted, _ = _timed(lambda: rival.fit(X, y))
    own = np.array(list(model.coefficients.values()))
    yield (
        "the same in memory by scikit-learn, without loading",
        f"{fitted:.1f} s, {rival.n_iter_[0]} iterations, {fitted / spent:.1f}x of the passes; "
        f"coefficients differ by {np.abs(own - rival.coef_[0]).max():.1e}",
        "",
    )


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result
