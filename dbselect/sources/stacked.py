"""Many records of equal columns as arrays, merged into one Gram by Chan's formula."""

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

    first: Gram  # the first, for its columns and terms
    rows: Counts  # shape (K,), like skipped and weight
    skipped: Counts
    weight: Vector
    mean: Matrix  # shape (K, d), like mean_low
    mean_low: Matrix
    lower: Matrix  # shape (K, d (d + 1) / 2), lower triangles of the comoments, row by row
    #: Column of the table -> shape (K,), the rows in which it is missing
    missing: Mapping[str, Counts]

    def total(self, times: Vector | None = None) -> tuple[Gram, Matrix]:
        """Merge the records, each counted `times`; return also their means less its, (K, d)."""
        times = np.ones(len(self.rows)) if times is None else times
        weight = times * self.weight
        is_drawn, has_weight = times > 0, weight > 0
        share = np.divide(weight, weight.sum(), out=np.zeros_like(weight), where=has_weight)
        # Relative to the mean of one record, so that means far from zero lose no digits.
        start = int(np.argmax(weight))
        step = (self.mean - self.mean[start]) + (self.mean_low - self.mean_low[start])
        step[~has_weight] = 0.0
        start_gram = replace(
            self.first,
            mean=self.mean[start] * has_weight.any(),
            mean_low=self.mean_low[start] * has_weight.any(),
        )
        mean, mean_low = start_gram._moved(share @ step)
        step -= share @ step
        step[~has_weight] = 0.0
        rows, columns = np.tril_indices(len(mean))
        comoment = step.T @ (weight[:, None] * step)
        within = np.zeros_like(comoment)
        within[rows, columns] = within[columns, rows] = times @ self.lower
        gram = replace(
            start_gram,
            rows=int(self.rows[is_drawn].sum()),
            skipped=int(self.skipped[is_drawn].sum()),
            weight=float(weight.sum()),
            mean=mean,
            mean_low=mean_low,
            comoment=within + (comoment + comoment.T) / 2.0,
            missing={name: int(counts[is_drawn].sum()) for name, counts in self.missing.items()},
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
    """Stack records as returned by `gram_by` and by SQL with ``GROUP BY``."""
    structs = records.to_arrow()
    first = Gram.from_struct(structs[0])
    if first.terms.indicators or not _are_uniform(structs, len(first.columns)):
        return stacked(aligned([Gram.from_struct(record) for record in structs]))
    rows, skipped, weight = (
        structs.field(name).to_numpy(zero_copy_only=False) for name in ("rows", "skipped", "weight")
    )
    mean, mean_low, lower, counts = (
        structs.field(name).flatten().to_numpy(zero_copy_only=False).reshape(len(structs), -1)
        for name in ("mean", "mean_low", "comoment", "missing")
    )
    sources = first.terms.sources()
    missing: dict[str, Counts] = {}
    for name, count in zip(first.columns, counts.T, strict=True):
        # The levels of a category share the count of its column; its indicator has none.
        source = sources.get(name, name)
        missing[source] = np.maximum(missing.get(source, 0), count)
    return Stacked(first, rows, skipped, weight, mean, mean_low, lower, missing)


def _are_uniform(records: pa.StructArray, width: int) -> bool:
    """Whether all records have every field, and equal columns and terms in the same order."""
    sizes = {"mean": width, "mean_low": width, "missing": width, "columns": width}
    sizes["comoment"] = width * (width + 1) // 2
    for name, size in sizes.items():
        if name not in records.type.names:
            return False
        lists = records.field(name)
        if lists.null_count or not (np.diff(lists.offsets.to_numpy()) == size).all():
            return False
    names = records.field("columns").flatten().to_pylist()
    terms = set(records.field("terms").to_pylist())
    return names == names[:width] * len(records) and len(terms) == 1
