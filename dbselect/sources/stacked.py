"""Many records of equal columns as arrays, and the Gram of them all by Chan's formula."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from dbselect.record.gram import Gram, Matrix, Vector, aligned

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stacked:
    """K records of equal columns."""

    first: Gram  # one of them, for its columns and terms
    rows: Counts  # shape (K,), as skipped and weight
    skipped: Counts
    weight: Vector
    mean: Matrix  # shape (K, d), as mean_low
    mean_low: Matrix
    lower: Matrix  # shape (K, d (d + 1) / 2), lower triangles of the comoments, row by row
    #: Column of the table -> shape (K,), the rows in which it is missing
    missing: Mapping[str, Counts]

    def total(self, times: Vector | None = None) -> tuple[Gram, Matrix]:
        """Return the Gram of all rows, records counting `times`, and means less its, (K, d)."""
        times = np.ones(len(self.rows)) if times is None else times
        weight = times * self.weight
        taken, there = times > 0, weight > 0
        share = np.divide(weight, weight.sum(), out=np.zeros_like(weight), where=there)
        # From the mean of one of them, so that digits are not lost far from zero.
        start = int(np.argmax(weight))
        step = (self.mean - self.mean[start]) + (self.mean_low - self.mean_low[start])
        step[~there] = 0.0
        own = replace(
            self.first,
            mean=self.mean[start] * there.any(),
            mean_low=self.mean_low[start] * there.any(),
        )
        mean, mean_low = own._moved(share @ step)
        step -= share @ step
        step[~there] = 0.0
        rows, columns = np.tril_indices(len(mean))
        comoment = step.T @ (weight[:, None] * step)
        within = np.zeros_like(comoment)
        within[rows, columns] = within[columns, rows] = times @ self.lower
        gram = replace(
            own,
            rows=int(self.rows[taken].sum()),
            skipped=int(self.skipped[taken].sum()),
            weight=float(weight.sum()),
            mean=mean,
            mean_low=mean_low,
            comoment=within + (comoment + comoment.T) / 2.0,
            missing={name: int(counts[taken].sum()) for name, counts in self.missing.items()},
        )
        return gram, step


def stacked(grams: Sequence[Gram]) -> Stacked:
    """Stack Grams of equal columns."""
    first = grams[0]
    lower = np.tril_indices(len(first.columns))
    names = dict.fromkeys(name for gram in grams for name in gram.missing)
    return Stacked(
        first,
        np.array([gram.rows for gram in grams]),
        np.array([gram.skipped for gram in grams]),
        np.array([gram.weight for gram in grams]),
        np.array([gram.mean for gram in grams]),
        np.array([gram.mean_low for gram in grams]),
        np.array([gram.comoment[lower] for gram in grams]),
        {name: np.array([gram.missing.get(name, 0) for gram in grams]) for name in names},
    )


def stacked_records(records: pl.Series) -> Stacked:
    """Stack records, as `gram_by` and ``GROUP BY`` make them."""
    found = records.to_arrow()
    first = Gram.from_struct(found[0])
    if first.terms.indicators or not _are_uniform(found, len(first.columns)):
        return stacked(aligned([Gram.from_struct(record) for record in found]))
    rows, skipped, weight = (
        found.field(name).to_numpy(zero_copy_only=False) for name in ("rows", "skipped", "weight")
    )
    mean, mean_low, lower, counts = (
        found.field(name).flatten().to_numpy(zero_copy_only=False).reshape(len(found), -1)
        for name in ("mean", "mean_low", "comoment", "missing")
    )
    sources = first.terms.sources()
    missing: dict[str, Counts] = {}
    for name, count in zip(first.columns, counts.T, strict=True):
        # All levels of a category count for its column; its indicator has no count.
        source = sources.get(name, name)
        missing[source] = np.maximum(missing.get(source, 0), count)
    return Stacked(first, rows, skipped, weight, mean, mean_low, lower, missing)


def _are_uniform(records: pa.StructArray, width: int) -> bool:
    """Whether records have equal columns in the same order and equal terms, and every field."""
    named = {"mean": width, "mean_low": width, "missing": width, "columns": width}
    named["comoment"] = width * (width + 1) // 2
    for name, size in named.items():
        if name not in records.type.names:
            return False
        lists = records.field(name)
        if lists.null_count or not (np.diff(lists.offsets.to_numpy()) == size).all():
            return False
    names = records.field("columns").flatten().to_pylist()
    terms = set(records.field("terms").to_pylist())
    return names == names[:width] * len(records) and len(terms) == 1
