"""Fits on text of which some levels have few rows, with real weights, against refits on indicators.

The levels of a field add up to 1, so that its last level is dependent, however rare a level is; the
cells of a product add up to the column of the other factor.
"""

import random
from typing import Any

import numpy as np
import polars as pl

import dbselect as ds

#: Share of a standard error by which a coefficient may be off, and of the error itself.
KNOWN = 1e-6
#: Singular value, as a share of the largest, below which numbers lose more digits than that.
TOLD = 1e-3


def case(draw: random.Random) -> None:
    """Fit a table, a part of it, and what merges and removals make of its parts."""
    rng = np.random.default_rng(draw.getrandbits(32))
    rows = int(10 ** draw.uniform(1, np.log10(30_000)))
    has_products = draw.random() < 0.4
    fields = ["k", "m"][: draw.randint(1, 2)]
    frame = pl.DataFrame({name: _levels(draw, rng, rows) for name in fields}).with_columns(
        x=rng.normal(size=rows) + (0.0 if has_products else draw.choice([0.0, 1e3])),
        w=np.exp(draw.choice([0.5, 2.0]) * rng.normal(size=rows)),
        y=rng.normal(size=rows),
        part=rng.integers(0, 2, rows),
    )
    columns = [*fields, "x", "y", "w"]
    read: dict[str, Any] = {}
    if has_products:
        learnt = ds.terms(frame[[*fields, "x"]], fields, interactions="pairs")
        read = {"terms": learnt, "null_policy": "skip"}
    check(ds.fit(frame[columns], "y", weight="w", **read), frame)
    parts = {part: rows for (part,), rows in frame.group_by("part")}
    records = ds.gram_by(frame, ["part"], [*fields, "x", "y"], weight="w", **read)
    grams = {row["part"]: ds.Gram.from_struct(row["gram"]) for row in records.iter_rows(named=True)}
    for part, gram in grams.items():
        check(ds.fit(gram, "y"), parts[part])
    check(ds.fit(sum(grams.values()), "y"), frame)


def check(model: ds.results.Model, frame: pl.DataFrame) -> None:
    """Refit the columns that are not aliased, in orthogonal directions; compare all numbers."""
    terms = model.summary().filter(pl.col("std_error").is_not_null())
    names = [name for name in terms["term"] if name != "(intercept)"]
    columns = {
        f"{name}.{level}": (frame[name] == level).to_numpy().astype(float)
        for name in {"k", "m"} & set(frame.columns)
        for level in frame[name].unique()
    }
    columns["x"] = frame["x"].to_numpy()
    columns |= {
        name: np.prod([columns.get(part, np.zeros(len(frame))) for part in name.split(":")], axis=0)
        for name in model.columns
        if ":" in name
    }
    every = np.column_stack([*columns.values(), np.ones(len(frame))])
    root = np.sqrt(frame["w"].to_numpy())
    scaled = every * root[:, None]
    length = np.linalg.norm(scaled, axis=0)
    scaled = scaled[:, length > 0] / length[length > 0]
    size = np.linalg.svd(scaled, compute_uv=False)
    rank = int((size > 1e-9 * size[0]).sum())
    if rank >= len(frame):
        return
    assert len(names) == rank - 1, f"{names} are {len(names)} columns of rank {rank - 1}"
    if size[rank - 1] < TOLD * size[0]:
        return
    X = np.column_stack([np.ones(len(frame)), *(columns[name] for name in names)])
    y = frame["y"].to_numpy() * root
    coef, *_ = np.linalg.lstsq(X * root[:, None], y, rcond=None)
    left = y - (X * root[:, None]) @ coef
    inverse = np.linalg.pinv(X * root[:, None], rcond=1e-14)
    errors = np.sqrt((inverse**2).sum(axis=1) * (left @ left) / (len(frame) - rank))
    for name, b, error, truth, own in zip(
        terms["term"], terms["estimate"], terms["std_error"], coef, errors, strict=True
    ):
        assert abs(error / own - 1) < KNOWN, f"std_error of {name} is {error}, not {own}"
        assert abs(b - truth) < KNOWN * own, f"coefficient of {name} is {b}, not {truth}"


def _levels(draw: random.Random, rng: np.random.Generator, rows: int) -> list[str]:
    """Draw a text of up to four levels, all but one or two of them in few rows."""
    levels = draw.sample(["a", "b", "c", "z"], draw.randint(2, 4))
    common = levels[: draw.randint(1, 2)]
    values = rng.choice(common, size=rows)
    for level in levels:
        few = rng.permutation(rows)[: draw.randint(1, 5)]
        values[few] = level
    return values.tolist()
