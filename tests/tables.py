"""Tables of many types, and the Gram record of an array by its definition."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

import dbselect as ds


def assert_gram(
    found: Any,
    names: Sequence[str],
    X: np.ndarray,
    weight: np.ndarray | None = None,
    tolerance: float = 1e-12,
) -> None:
    """Compare a Gram or a record with the definition; NaN in X or weight is a missing value."""
    record = found.to_struct() if isinstance(found, ds.Gram) else found
    w = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=float)
    used = ~np.isnan(X).any(axis=1) & (w > 0)
    X, w = X[used], w[used]
    assert record["columns"] == list(names)
    assert (record["rows"], record["skipped"]) == (used.sum(), (~used).sum())
    np.testing.assert_allclose(record["weight"], w.sum(), rtol=tolerance)
    if not used.any():
        assert not np.any(record["mean"])
        assert not np.any(record["comoment"])
        return
    mean = np.average(X, axis=0, weights=w)
    centred = X - mean
    comoment = (centred * w[:, None]).T @ centred
    lower = np.tril_indices(len(names))
    magnitude = np.sqrt(np.average(X**2, axis=0, weights=w))
    # What a constant column has instead of a spread is the rounding of its mean.
    spread = np.sqrt(np.diagonal(comoment)) + 1e-6 * np.sqrt(w.sum()) * magnitude
    packed = np.zeros_like(comoment)
    packed[lower] = record["comoment"]
    assert np.all(np.abs(record["mean"] - mean) <= tolerance * magnitude)
    assert np.all(np.abs(packed - comoment)[lower] <= tolerance * np.outer(spread, spread)[lower])


@dataclass
class Typed:
    """A table with columns of many types, some values missing, and what it holds as numbers."""

    frame: pl.DataFrame
    names: list[str]
    X: np.ndarray
    weight: np.ndarray

    def column(self, name: str) -> np.ndarray:
        return self.X[:, self.names.index(name)]

    def take(self, names: Sequence[str]) -> np.ndarray:
        return self.X[:, [self.names.index(name) for name in names]]


def typed(rng: np.random.Generator, rows: int = 400) -> Typed:
    """Booleans, integers, decimals, floats, a struct and an array; NULL, NaN and weight 0."""

    def holes(values: np.ndarray) -> np.ndarray:
        return np.where(rng.random(rows) < 0.03, np.nan, values)

    def nullable(values: np.ndarray, dtype: Any) -> pl.Series:
        return pl.Series(values).fill_nan(None).cast(dtype)

    y = 50.0 + rng.standard_normal(rows)
    flag = holes(rng.integers(0, 2, rows).astype(float))
    count = holes(rng.integers(-300, 300, rows).astype(float))
    big = holes(rng.integers(-(2**40), 2**40, rows).astype(float))
    cents = holes(rng.integers(-99999, 99999, rows).astype(float))
    ratio = holes(rng.standard_normal(rows).astype(np.float32).astype(float))
    age = holes(rng.integers(18, 90, rows).astype(float))
    height = holes(rng.standard_normal(rows))
    emb = rng.standard_normal((rows, 3)).astype(np.float32).astype(float)
    weight = rng.integers(0, 4, rows) * 0.75
    no_demo, no_emb, no_item = rng.random((3, rows)) < 0.02

    demo = pl.DataFrame(
        {"age": nullable(age, pl.UInt8), "body": pl.DataFrame({"height": height}).to_struct()}
    ).to_struct()
    # `height` keeps its NaN, which counts as missing like a NULL.
    items = [
        None if no_emb[i] else [None if no_item[i] and j == 1 else emb[i, j] for j in range(3)]
        for i in range(rows)
    ]
    frame = pl.DataFrame(
        {
            "region": pl.Series(rng.choice(["north", "south"], rows)),
            "y": y,
            "flag": nullable(flag, pl.Boolean),
            "count": nullable(count, pl.Int16),
            "big": nullable(big, pl.Int64),
            "price": nullable(cents, pl.Int64).cast(pl.Decimal(12, 2)) / 100,
            "ratio": nullable(ratio, pl.Float32),
            "demo": demo,
            "emb": pl.Series(items, dtype=pl.Array(pl.Float32, 3)),
            "weight": weight,
        }
    ).with_columns(
        pl.col("price").cast(pl.Decimal(12, 2)),
        demo=pl.when(pl.Series(~no_demo)).then("demo"),
    )
    age, height = (np.where(no_demo, np.nan, x) for x in (age, height))
    emb = np.where(no_emb[:, None], np.nan, emb)
    emb[no_item, 1] = np.nan
    columns = {
        "y": y,
        "flag": flag,
        "count": count,
        "big": big,
        "price": cents / 100,
        "ratio": ratio,
        "demo.age": age,
        "demo.body.height": height,
        **{f"emb[{j + 1}]": emb[:, j] for j in range(3)},
    }
    return Typed(frame, list(columns), np.column_stack(list(columns.values())), weight)


def sentence_in_sql(sentence: str) -> str:
    """Return an error of Python as SQL says it: with its values, and ``name := value``."""
    if " in Python" in sentence:
        return re.sub(r"('[^']*')|\b(True|False|None)\b", _value, sentence)
    return re.sub(r"('[^']*')|\b(True|False|None)\b|(?<=\w)=(?=[^\s=])", _value, sentence)


def _value(found: re.Match) -> str:
    values = {"True": "true", "False": "false", "None": "NULL", "=": " := "}
    return values.get(found[0], found[0])
