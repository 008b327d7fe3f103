"""Means, variances and products with the target of a wide table, by Chan's formula, in O(D)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dbselect.record.gram import Vector
from dbselect.record.policies import fills_beside
from dbselect.sources.partial.partial_aggregates import Summing
from dbselect.sources.wide.wide_rows import EntryTotals, Piece, WideRows


@dataclass
class Totals:
    """Sums of D columns and the target, over the present values of each."""

    #: shape (D + 1,), a value of each column, the target last: means are relative to it, so that
    #: a mean far from 0 loses no digits, and a constant column stays exactly constant
    anchor: Vector
    #: Rows used and left out
    rows: int
    skipped: int
    missing: Counter[str]  # column of the table -> rows in which it is NULL or NaN
    weight: Vector  # shape (D + 1,), weight of the rows in which a column is present
    mean: Vector  # shape (D + 1,), relative to the anchor
    beside: Vector  # shape (D + 1,), mean of the target in these rows, relative to its anchor
    #: shape (D + 1,), centred sums of squares, and of products with the target
    squares: Vector
    products: Vector

    @classmethod
    def none(cls, anchor: Vector) -> "Totals":
        """Return the sums of no rows."""
        return cls(anchor, 0, 0, Counter(), *(np.zeros(len(anchor)) for _ in range(5)))

    @classmethod
    def of(cls, piece: Piece, anchor: Vector) -> "Totals":
        """Return the sums of a piece, whose values are overwritten."""
        X, w = piece.X, piece.weight
        totals = cls.none(anchor)
        totals.rows, totals.skipped, totals.missing = len(X), piece.skipped, piece.missing
        X -= anchor
        y = X[:, -1].copy()
        gaps = np.isnan(X) if piece.has_gaps else None
        if gaps is None:
            totals.weight = np.full(len(anchor), w.sum())
            beside = np.full(len(anchor), w @ y)
        else:
            present = (~gaps).astype(np.float64)
            totals.weight, beside = w @ present, (w * y) @ present
            X[gaps] = 0.0
        divisor = np.where(totals.weight > 0, totals.weight, 1.0)
        totals.mean, totals.beside = w @ X / divisor, beside / divisor
        X -= totals.mean
        if gaps is not None:
            X[gaps] = 0.0
        totals.products = (w * (y - totals.mean[-1])) @ X
        X *= np.sqrt(w)[:, None]
        totals.squares = np.einsum("ij,ij->j", X, X)
        return totals

    def among(self, at: Sequence[int]) -> "Totals":
        """Return the sums of a selection of columns, the target last."""
        names = ("anchor", "weight", "mean", "beside", "squares", "products")
        return replace(self, **{name: getattr(self, name)[at] for name in names})

    def moved(self, anchor: Vector) -> "Totals":
        """Return the same sums relative to another anchor."""
        step = self.anchor - anchor
        return replace(self, anchor=anchor, mean=self.mean + step, beside=self.beside + step[-1])

    def add(self, other: "Totals") -> None:
        """Add the sums of other rows; a column without values so far takes their anchor."""
        self.anchor = np.where(self.weight > 0, self.anchor, other.anchor)
        moved = other.anchor - self.anchor
        self.rows += other.rows
        self.skipped += other.skipped
        self.missing += other.missing
        weight = self.weight + other.weight
        share = np.divide(other.weight, weight, out=np.zeros_like(weight), where=weight > 0)
        step = moved + other.mean - self.mean
        aside = moved[-1] + other.beside - self.beside
        self.squares += other.squares + self.weight * share * step**2
        self.products += other.products + self.weight * share * step * aside
        self.mean += share * step
        self.beside += share * aside
        self.weight = weight

    @property
    def means(self) -> tuple[Vector, Vector]:
        """The means and their rounding errors; shape (D + 1,) each."""
        mean = self.anchor + self.mean
        taken = mean - self.anchor
        return mean, (self.anchor - (mean - taken)) + (self.mean - taken)


def fills_of(rows: WideRows, totals: Totals) -> Vector:
    """Return the fills of missing values, shape (D + 1,); NaN means the mean of present values."""
    means = rows.request.terms.plain_means
    fills = np.array([*(means.get(name, np.nan) for name in rows.names), np.nan])
    at, on = rows.marks
    fills_of_marked = fills_beside(totals.weight[at], totals.means[0][at], totals.squares[at])
    fills[at] = np.where(totals.means[0][on] > 0, fills_of_marked, np.nan)
    return fills


def filled(totals: Totals, fills: Vector) -> Totals:
    """Return totals as if missing values were filled: dense columns, target last; NaN for none."""
    entries = np.full(len(totals.mean) - len(fills), np.nan)
    fill = np.concatenate([fills[:-1], entries, fills[-1:]]) - totals.anchor
    is_filled = ~np.isnan(fill)
    weight = np.where(is_filled, totals.weight[-1], totals.weight)
    share = np.divide(totals.weight, weight, out=np.zeros_like(weight), where=weight > 0)
    step = np.where(is_filled, totals.mean - fill, 0.0)
    return replace(
        totals,
        weight=weight,
        mean=totals.mean - (1.0 - share) * step,
        beside=np.where(is_filled, totals.beside[-1], totals.beside),
        squares=totals.squares + totals.weight * (1.0 - share) * step**2,
        # Without missing values both means are of the same rows, and differ by rounding only.
        products=totals.products
        + np.where(share < 1.0, totals.weight * step * (totals.beside - totals.mean[-1]), 0.0),
    )


def anchor_of(piece: Piece) -> Vector:
    """Return a value of each column, 0 if all are missing; shape (D + 1,)."""
    if not len(piece.X):
        return np.zeros(piece.X.shape[1])
    anchor: Vector = piece.X[0].copy()
    for j in np.flatnonzero(np.isnan(anchor)).tolist():
        anchor[j] = np.nan_to_num(piece.X[np.isnan(piece.X[:, j]).argmin(), j])
    return anchor


@dataclass
class MarginSums:
    """Sums of the first pass."""

    totals: Totals
    entries: EntryTotals  # sums of the field of entries

    def all(self, width: int = 0) -> Totals:
        """Return the sums of all columns: dense, at least `width` entries, and the target."""
        self.entries.add(EntryTotals.none(width))
        dense, width = self.totals, len(self.entries.sums)
        weight = float(dense.weight[-1])
        mean, squares, products = self.entries.centred(weight, float(dense.mean[-1]))

        def joined(dense: Vector, entries: Vector) -> Vector:
            return np.concatenate([dense[:-1], entries, dense[-1:]])

        return replace(
            dense,
            anchor=joined(dense.anchor, np.zeros(width)),
            weight=joined(dense.weight, np.full(width, weight)),
            mean=joined(dense.mean, mean),
            beside=joined(dense.beside, np.full(width, dense.beside[-1])),
            squares=joined(dense.squares, squares),
            products=joined(dense.products, products),
        )


@dataclass(frozen=True)
class Margins(Summing):
    """The first pass: mean and variance of each column, and its products with the target."""

    rows: WideRows

    @property
    def size(self) -> int:
        """Approximate size of a state in bytes."""
        return 40 * len(self.rows.names)

    def none(self) -> MarginSums:
        """Return the sums of no rows."""
        return MarginSums(Totals.none(np.zeros(len(self.rows.names) + 1)), EntryTotals.none())

    def of(self, batch: Any) -> Iterator[MarginSums]:
        """Yield the sums of the pieces of a batch, each relative to its own anchor."""
        for piece in self.rows.pieces(batch):
            anchor = anchor_of(piece)
            entries = EntryTotals.none()
            if piece.entries is not None:
                y = piece.X[:, -1] - anchor[-1]
                entries = EntryTotals.of(piece.entries, piece.weight, y)
            yield MarginSums(Totals.of(piece, anchor), entries)

    def added(self, sums: MarginSums, more: MarginSums) -> MarginSums:
        """Add the sums of a piece, or of another process."""
        sums.totals.add(more.totals)
        moved = more.totals.anchor[-1] - sums.totals.anchor[-1]
        sums.entries.add(more.entries, float(moved))
        return sums
