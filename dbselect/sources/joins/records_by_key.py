"""Records by key, as `gram_by` and ``GROUP BY`` make them, taken apart into arrays."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from dbselect.record.gram import Gram, Matrix, Vector, aligned


@dataclass(frozen=True, eq=False)
class Parts:
    """K records of equal columns."""

    first: Gram  # one of them, for its columns and terms
    #: shape (K,)
    rows: npt.NDArray[np.int64]
    skipped: npt.NDArray[np.int64]
    weight: Vector  # shape (K,)
    #: shape (K, d)
    mean: Matrix
    mean_low: Matrix
    lower: Matrix  # shape (K, d (d + 1) / 2), lower triangles of the comoments, row by row
    missing: dict[str, int]  # column of the table -> rows in which it is missing, in all of them

    def total(self) -> tuple[Gram, Matrix]:
        """Return the Gram of all rows, and the mean of each record less that of all.

        Returns
        -------
        Gram, and an array of shape (K, d): 0 for a record without rows
        """
        weight, there = self.weight.sum(), self.weight > 0
        start = int(np.argmax(self.weight))
        share = np.divide(self.weight, weight, out=np.zeros_like(self.weight), where=there)
        # From the mean of one of them, so that digits are not lost far from zero.
        step = (self.mean - self.mean[start]) + (self.mean_low - self.mean_low[start])
        step[~there] = 0.0
        own = replace(self.first, mean=self.mean[start], mean_low=self.mean_low[start])
        mean, mean_low = own._moved(share @ step)
        step -= share @ step
        step[~there] = 0.0
        rows, columns = np.tril_indices(len(mean))
        comoment = step.T @ (self.weight[:, None] * step)
        within = np.zeros_like(comoment)
        within[rows, columns] = within[columns, rows] = self.lower.sum(axis=0)
        gram = replace(
            own,
            rows=int(self.rows.sum()),
            skipped=int(self.skipped.sum()),
            weight=float(weight),
            mean=mean,
            mean_low=mean_low,
            comoment=within + (comoment + comoment.T) / 2.0,
            missing=self.missing,
        )
        return gram, step


def parts_of(records: pl.Series) -> Parts:
    """Take records apart."""
    missing: Counter[str]
    found = records.to_arrow()
    first = Gram.from_struct(found[0])
    if first.terms.indicators or not _are_uniform(found, len(first.columns)):
        grams = aligned([Gram.from_struct(record) for record in found])
        first = grams[0]
        missing = Counter()
        for gram in grams:
            missing.update(gram.missing)
        rows, columns = np.tril_indices(len(first.columns))
        return Parts(
            first,
            np.array([gram.rows for gram in grams]),
            np.array([gram.skipped for gram in grams]),
            np.array([gram.weight for gram in grams]),
            np.array([gram.mean for gram in grams]),
            np.array([gram.mean_low for gram in grams]),
            np.array([gram.comoment[rows, columns] for gram in grams]),
            dict(missing),
        )
    field = {name: found.field(name) for name in found.type.names}
    lists = {
        name: field[name].flatten().to_numpy(zero_copy_only=False).reshape(len(found), -1)
        for name in ("mean", "mean_low", "comoment", "missing")
    }
    sources = first.terms.sources()
    missing = Counter()
    for name, count in zip(first.columns, lists["missing"].sum(axis=0).tolist(), strict=True):
        # All levels of a category count for its column; its indicator has no count.
        missing[sources.get(name, name)] = max(missing[sources.get(name, name)], count)
    rows, skipped, weight = (
        field[name].to_numpy(zero_copy_only=False) for name in ("rows", "skipped", "weight")
    )
    return Parts(
        first, rows, skipped, weight, lists["mean"], lists["mean_low"], lists["comoment"],
        dict(missing),
    )  # fmt: skip


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
