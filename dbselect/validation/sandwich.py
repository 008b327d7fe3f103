"""The meat of a sandwich covariance, summed over the rows of a fit in one pass.

A row has coordinates u, a weight w and, by its family, a working weight W and residual r: for
least squares 1 and y - x'b. With leverage h = w W u' A^-1 u::

    A = sum w W u u'      B = sum s^2 u u' / (1 - h)^k,  s = w W r      k = 0 (HC0, HC1), 1, 2

and for clusters g, within which errors may be correlated, ``B = sum_g (sum s u) (sum s u)'``. The
covariance is A^-1 B A^-1. For HAC with L lags, where T_t is the sum of s u over the rows of time
t, ``B = G_0 + sum_l (1 - l / (L + 1)) (G_l + G_l')``, ``G_l = sum_t T_t T_{t-l}'``. For two-way
clusters B is the sum of both one-way matrices minus that of the intersections. For least
squares u is white (`linear.inference`): A is 1, so that h is known while the rows are read.

Each process sums its rows: (r + 1)^2 numbers, with G clusters G (r + 1) more and their keys.

Sources: White (1980), Econometrica 48; MacKinnon, White (1985), Journal of Econometrics 29, for
HC1 to HC3; Liang, Zeger (1986), Biometrika 73, for clusters; Cameron, Gelbach, Miller (2011),
Journal of Business and Economic Statistics 29, for two ways; Newey, West (1987), Econometrica 55,
and Driscoll, Kraay (1998), Review of Economics and Statistics 80, for time.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from dbselect.record.gram import Matrix, Vector
from dbselect.validation.scoring.metrics import SUMMED, RowsSeen
from dbselect.validation.scoring.reading import RowReading, Sums, UsedRows

#: Number of keys to collect before equal keys are merged.
KEYS_AT_ONCE = 1 << 15

#: Leverages nearer to 1 than this count as 1: the residual of such a row is rounding error.
LEVERAGE_ROUNDING = 1e-9


@dataclass(eq=False)
class ClusterSums:
    """Sums over the rows of each cluster, by its exact key."""

    # keys, sums: one entry per part of the rows; parts may share keys
    keys: list[pl.Series] = field(default_factory=list)
    sums: list[Matrix] = field(default_factory=list)
    settled: int = 0  # number of keys after the last merge

    def add(self, key: pl.Series, scores: Matrix) -> None:
        """Add rows; equal keys are merged whenever the number of keys has doubled."""
        if not len(key):
            return
        order = key.arg_sort().to_numpy()
        ordered = key.gather(order)
        starts = np.flatnonzero(np.diff(ordered.rle_id().to_numpy().astype(np.int64), prepend=-1))
        self.keys.append(ordered.gather(starts))
        self.sums.append(np.add.reduceat(scores[order], starts, axis=0))
        if sum(map(len, self.keys)) > 2 * self.settled + KEYS_AT_ONCE:
            self.settle()

    def settle(self) -> Matrix:
        """Return the sums of each cluster, shape (G, r + 1), each key once."""
        if len(self.keys) > 1:
            key, scores = pl.concat(self.keys), np.concatenate(self.sums)
            self.keys, self.sums = [], []
            self.settled = len(key)  # an upper limit, so that `add` does not merge again
            self.add(key, scores)
        self.settled = sum(map(len, self.keys))
        return self.sums[0] if self.sums else np.empty((0, 0))

    def merge(self, other: "ClusterSums") -> None:
        """Add the clusters of other rows."""
        for key, scores in zip(other.keys, other.sums, strict=True):
            self.add(key, scores)


@dataclass(eq=False, kw_only=True)
class MeatSums(Sums):
    """Sums over rows."""

    information: Matrix  # A, shape (r + 1, r + 1); zeros for white coordinates
    meat: Matrix  # B without clusters
    gradient: Vector  # shape (r + 1,), sum of s u
    # by cluster; for two-way clusters also by their intersections
    clusters: list[ClusterSums] = field(default_factory=list)
    rss: float = 0.0  # sum of w W r^2
    squares: float = 0.0  # sum of w y^2
    exact: int = 0  # rows with leverage 1

    def add(self, other: "MeatSums") -> None:
        """Add the sums over other rows."""
        for clusters, other_clusters in zip(self.clusters, other.clusters, strict=True):
            clusters.merge(other_clusters)
        super().add(replace(other, clusters=[]))


@dataclass(frozen=True)
class Scoring(RowReading):
    """Sums over the rows of a table; the predictors are the model's, then r coordinates."""

    constant: float | None  # the constant coordinate of all rows; None without intercept
    white: bool  # whether A is 1
    power: int  # k, exponent of 1 - h

    @property
    def width(self) -> int:
        """Number of coordinates of a row."""
        return len(self.predictors.each) - (self.constant is None)

    @property
    def size(self) -> int:
        """Bytes of a state, without the clusters."""
        return 16 * self.width**2

    def none(self) -> MeatSums:
        """Return the sums over no rows."""
        A, B = np.zeros((2, self.width, self.width))
        ways = [ClusterSums() for _ in range((0, 1, 3)[len(self.keys)])]
        return MeatSums(information=A, meat=B, gradient=np.zeros(self.width), clusters=ways)

    def sum_up(self, sums: MeatSums, rows: UsedRows) -> None:
        """Set the sums over rows."""
        u, (y,) = rows.predictions, rows.y
        rows_seen = RowsSeen(self.formulas, u[None, :, :1], y[None, :, None])
        working = rows.weight * SUMMED["working"](rows_seen)[:, 0]  # w W
        score = rows.weight * SUMMED["score"](rows_seen)[:, 0]  # s
        sums.squares, sums.rss = float(rows.weight @ y**2), float(score @ (score / working))
        if self.constant is None:
            u = u[:, 1:]
        else:
            u[:, 0] = self.constant  # overwrites the prediction, which is no longer needed
        sums.gradient = score @ u
        if not self.white:
            sums.information = (u * working[:, None]).T @ u
        if self.keys:
            keys = rows.keys.get_columns()
            both = [] if len(keys) == 1 else [rows.keys.select(pl.struct(pl.all())).to_series()]
            for clusters, key in zip(sums.clusters, [*keys, *both], strict=True):
                clusters.add(key, u * score[:, None])
            return
        if self.power:
            rest = 1.0 - working * (u**2).sum(axis=1)
            exact = rest <= LEVERAGE_ROUNDING
            sums.exact = int(exact.sum())
            score = score / np.where(exact, 1.0, rest) ** (0.5 * self.power)
        scores = u * score[:, None]
        sums.meat = scores.T @ scores


def lagged(scores: Matrix, lags: int) -> Matrix:
    """Return B from sums by time, in order, with Bartlett's weights."""
    meat = scores.T @ scores
    for lag in range(1, min(lags, len(scores) - 1) + 1):
        between = scores[lag:].T @ scores[:-lag]
        meat += (1.0 - lag / (lags + 1.0)) * (between + between.T)
    return np.asarray(meat)
