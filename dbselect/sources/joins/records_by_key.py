"""Records of parts of a table, as `gram_by` and ``GROUP BY`` make them, as arrays."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.record.gram import RECORD_DTYPE, Gram, Matrix, Vector, aligned

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Parts:
    """K records of the same d columns."""

    first: Gram  # one of them, for its columns and terms
    rows: Counts  # shape (K,)
    skipped: Counts  # shape (K,)
    weight: Vector  # shape (K,)
    mean: Matrix  # shape (K, d)
    mean_low: Matrix  # shape (K, d)
    comoment: Matrix  # shape (K, d (d + 1) / 2), lower triangles, row by row
    missing: Counts  # shape (K, d)

    def total(self, times: Vector | None = None) -> tuple[Gram, Matrix]:
        """Return the Gram of all rows, and the mean of each record less that of all, (K, d).

        The latter is 0 for a record without rows; `times`, shape (K,), is how often each counts.
        """
        heavy = self.weight if times is None else self.weight * times
        there, weight = heavy > 0, heavy.sum()
        counted = np.ones(len(heavy), bool) if times is None else times > 0
        start = int(np.argmax(heavy))
        share = np.divide(heavy, weight, out=np.zeros_like(heavy), where=there)
        # From the mean of one of them, so that digits are not lost far from zero.
        step = (self.mean - self.mean[start]) + (self.mean_low - self.mean_low[start])
        step[~there] = 0.0
        own = replace(self.first, mean=self.mean[start], mean_low=self.mean_low[start])
        mean, mean_low = own._moved(share @ step)
        step -= share @ step
        step[~there] = 0.0
        rows, columns = np.tril_indices(len(mean))
        between = step.T @ (heavy[:, None] * step)
        within = np.zeros_like(between)
        lower = self.comoment.sum(axis=0) if times is None else times @ self.comoment
        within[rows, columns] = within[columns, rows] = lower
        sources, missing = self.first.terms.sources(), dict[str, int]()
        counts = self.missing[counted].sum(axis=0).tolist()
        for name, count in zip(self.first.columns, counts, strict=True):
            # All levels of a category count for its column; its indicator has no count.
            source = sources.get(name, name)
            missing[source] = max(missing.get(source, 0), count)
        gram = replace(
            own,
            rows=int(self.rows[counted].sum()),
            skipped=int(self.skipped[counted].sum()),
            weight=float(weight),
            mean=mean,
            mean_low=mean_low,
            comoment=within + (between + between.T) / 2.0,
            missing=missing,
        )
        return gram, step


def parts_of(records: pl.Series) -> Parts:
    """Return records as arrays, of the same columns."""
    first = Gram.from_struct(records.to_arrow()[0])
    if first.terms.indicators or not _are_uniform(records, len(first.columns)):
        grams = aligned([Gram.from_struct(record) for record in records.to_arrow()])
        records, first = pl.Series([one.to_struct() for one in grams], dtype=RECORD_DTYPE), grams[0]
    field = records.struct.field
    rows, skipped, weight = (field(name).to_numpy() for name in ("rows", "skipped", "weight"))
    lists = (
        field(name).explode().to_numpy().reshape(len(records), -1)
        for name in ("mean", "mean_low", "comoment", "missing")
    )
    return Parts(first, rows, skipped, weight, *lists)


def _are_uniform(records: pl.Series, width: int) -> bool:
    """Whether records have equal columns in the same order and equal terms, and every field."""
    sizes = dict.fromkeys(("columns", "mean", "mean_low", "missing"), width)
    sizes["comoment"] = width * (width + 1) // 2
    if not {*sizes, "terms"} <= {*records.struct.fields}:
        return False
    field = records.struct.field
    if not all(field(name).list.len().eq_missing(size).all() for name, size in sizes.items()):
        return False
    names = field("columns").explode().to_list()
    return names == names[:width] * len(records) and field("terms").n_unique() == 1
