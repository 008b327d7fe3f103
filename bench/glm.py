"""Generalised linear models: a pass against the scan, a sequence against a fit in memory."""

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import polars as pl
from limits import limit
from measure import once, seconds
from rows import Row
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
                spent, sequence = once(
                    lambda source=source, rule=rule: ds.anytime_sequence(
                        source, "y", groups(), family="binomial", rule=rule, max_groups=SELECTED
                    )
                )
                count = sequence.passes_made
                yield Row(
                    f"a pass of a binomial sequence, rule {rule}, {SELECTED} of {len(SIZES)} "
                    f"groups, 4M x {FEATURES}, {engine}",
                    spent / count,
                    base,
                    "sum()",
                    most=2.2 if rule == "fr" else 2.0,
                    note=f"{spent:.1f} s in {count} passes; {limit(base, ROWS * WIDTH**2)}",
                )


def in_memory() -> Iterator[Row]:
    """One fit of all columns, by passes and by scikit-learn on an array."""
    spent, model = once(lambda: ds.fit(frame(), "y", family="binomial"))
    loaded = frame().collect()
    X, y = loaded.drop("y").to_numpy(), loaded["y"].to_numpy()
    X -= X.mean(axis=0)
    rival = LogisticRegression(C=np.inf)
    fitted, _ = once(lambda: rival.fit(X, y))
    coefficients = np.array(list(model.coefficients.values()))
    yield Row(
        f"binomial fit of {FEATURES} columns, 4M rows, Polars",
        spent,
        fitted,
        "scikit-learn in memory, loaded before",
        note=f"{model.passes} passes, {rival.n_iter_[0]} iterations there; "
        f"coefficients differ by {np.abs(coefficients - rival.coef_[0]).max():.1e}",
    )


PARTS = (passes, in_memory)
