"""Every prefix on every row of a table, in one pass: sums of what is a mean, and what has a rank.

Means are summed batch by batch, where the rows are. What depends on the order of the rows is
kept of each: 8 (M + 2) bytes, 8 K (M + 1) + 8 of K classes, and the key.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from dbselect.errors import DataError, SourceError
from dbselect.glm.families import BINOMIAL, FamilyFormulas
from dbselect.glm.named import family_of
from dbselect.record.formulas import Path, translate
from dbselect.record.gram import Vector
from dbselect.results.prediction.contributions import LinearPredictors
from dbselect.sources.passes import algebra_of, gaps_of
from dbselect.sources.rows import part_of, values
from dbselect.validation.scoring.metrics import METRICS, Numbers, RowsSeen
from dbselect.validation.scoring.row_reading import RowReading, SummedRows


@dataclass(frozen=True, eq=False)
class Ranked:
    """What is kept of n rows whose order counts."""

    score: Numbers  # shape (R, n, M)
    y: Numbers  # shape (R, n)
    weight: Vector  # shape (n,)
    key: pl.Series | None  # n values; None if there is no key


@dataclass(eq=False)
class RowSums:
    """Sums over some rows."""

    known: Vector  # shape (C,), weight of the rows whose level of each category the fit has seen
    of_kind: Mapping[str, Vector]  # kind of metric -> shape (M,), the sum of what the rows add
    # rows, skipped: that are used, and left out
    rows: int = 0
    skipped: int = 0
    # rows, as None, and of each column those in which it is missing
    missing: Counter[str | None] = field(default_factory=Counter)
    refused: int = 0  # rows whose target is not allowed
    weight: float = 0.0  # of the rows used
    # mean, squares: of the target, and the sum of its squared deviations
    mean: float = 0.0
    squares: float = 0.0
    ranked: list[Ranked] = field(default_factory=list)  # what is kept of rows whose order counts

    def add(self, other: "RowSums") -> None:
        """Add the sums over other rows; those of the target by Chan's formula."""
        weight = self.weight + other.weight
        if other.weight:
            apart, share = other.mean - self.mean, other.weight / weight
            self.mean += apart * share
            self.squares += other.squares + apart**2 * share * self.weight
        self.weight = weight
        self.known = self.known + other.known
        self.of_kind = {kind: sums + other.of_kind[kind] for kind, sums in self.of_kind.items()}
        self.rows += other.rows
        self.skipped += other.skipped
        self.missing.update(other.missing)
        self.refused += other.refused
        self.ranked.extend(other.ranked)


@dataclass(frozen=True)
class Judging(RowReading):
    """What to sum over the rows of a table; the predictors are K of each of M prefixes."""

    # C predictors that are 1 where the fit has seen a category's level; None of no category
    known: LinearPredictors | None
    kinds: tuple[str, ...]  # metrics that are means
    is_ranked: bool  # whether the order of the rows counts
    zero_one: bool  # whether the target must be 0 or 1

    #: Bytes of a state that travels: sums are few, and rows are not fewer once merged.
    size: int = 0

    @property
    def told(self) -> FamilyFormulas:
        """The family of the models."""
        return family_of(self.family, self.classes or self.levels)

    @property
    def prefixes(self) -> int:
        """M."""
        return len(self.predictors.each) // max(len(self.classes), 1)

    @property
    def categories(self) -> int:
        """C."""
        return 0 if self.known is None else len(self.known.each)

    def none(self) -> RowSums:
        """Return the sums over no rows."""
        return RowSums(
            np.zeros(self.categories), {kind: np.zeros(self.prefixes) for kind in self.kinds}
        )

    @contextmanager
    def begin(self) -> Iterator["JudgedRows"]:
        """Begin without rows."""
        yield JudgedRows(self, sums=self.none())


@dataclass(frozen=True)
class JudgedRows(SummedRows):
    """The rows that were judged so far."""

    judging: Judging

    def _sums_of(self, batch: pa.RecordBatch) -> RowSums:
        asked = self.judging
        rows = batch.to_struct_array()
        refuse_infinite(asked.columns, asked.weight, rows)
        family = asked.told
        algebra = algebra_of(batch)
        y = np.array([translate(one, algebra) for one in family.responses(asked.target)])
        frame = pl.DataFrame(batch)
        found = asked.predictors.predict(frame, handle_unknown="mean")
        known = np.empty((len(found), 0))
        if asked.known is not None:
            known = asked.known.predict(frame, handle_unknown="mean")
        weight = np.ones(len(found)) if asked.weight is None else values(rows, asked.weight)
        there = ~(np.isnan(found).any(axis=1) | np.isnan(y).any(axis=0)) & (weight > 0)
        key = None
        if asked.key is not None:
            key = key_of(rows, asked.key)
            there &= key.is_not_null().to_numpy()
            key = key.filter(pl.Series(there))
        found, known, y, weight = found[there], known[there], y[:, there], weight[there]
        refuse_unbounded(found)
        sums = asked.none()
        sums.rows, sums.skipped = len(found), int((~there).sum())
        sums.missing = gaps_of({name: asked.columns[name] for name in asked.needed}, batch)
        if sums.rows:
            sums.known = weight @ known
            self._summed(sums, found, y, weight, key)
        return sums

    def _summed(
        self, sums: RowSums, found: Numbers, y: Numbers, weight: Vector, key: pl.Series | None
    ) -> None:
        """Sum over the rows that are used."""
        asked = self.judging
        eta = np.moveaxis(found.reshape(len(found), asked.prefixes, -1), 2, 0)
        seen = RowsSeen(asked.told, eta, y[:, :, None])
        sums.weight = float(weight.sum())
        sums.mean = float(weight @ y[0] / sums.weight)
        sums.squares = float(weight @ (y[0] - sums.mean) ** 2)
        refused = BINOMIAL.refused if asked.zero_one else seen.family.refused
        if asked.classes:
            sums.refused = int((y.sum(axis=0) == 0).sum())
        elif refused is not None:
            sums.refused = int(seen.of_both(lambda _, own: refused(own[0]))[:, 0].sum())
        if not sums.refused:
            sums.of_kind = {kind: weight @ METRICS[kind].counts(seen) for kind in asked.kinds}
        if asked.is_ranked:
            # A mean of one number rises with its predictor, which has more digits near 0 and 1.
            score = seen.means if asked.classes else eta
            sums.ranked.append(Ranked(np.ascontiguousarray(score), y, weight, key))


def key_of(rows: pa.StructArray, path: Path) -> pl.Series:
    """Return the keys of rows, texts as texts, as batches number them differently."""
    key = pl.Series(part_of(rows, path))
    if key.dtype in (pl.Categorical, pl.Enum):
        return key.cast(pl.String)
    return key.fill_nan(None) if key.dtype.is_float() else key


def refuse_infinite(columns: Mapping[str, Path], weight: Path | None, rows: pa.StructArray) -> None:
    """Refuse infinite values, which 0 times makes a missing one, and negative weights."""
    for name, path in columns.items():
        found = part_of(rows, path)
        if pa.types.is_floating(found.type) and pc.any(pc.is_inf(found)).as_py():
            raise DataError(f"column '{name}' has an infinite value; values must be finite")
    if weight is not None:
        weights = values(rows, weight)
        bad = weights[np.isinf(weights) | (weights < 0)]
        if bad.size:
            raise DataError(f"a weight is {bad[0]:g}; weights must be finite and >= 0")


def refuse_unbounded(found: Numbers) -> None:
    """Refuse predictions that are no numbers."""
    if not np.isfinite(found).all():
        raise SourceError(
            "the models predict no finite number for some of the usable rows; values must be of "
            "the size that the models were found on"
        )
