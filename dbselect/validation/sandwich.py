"""The middle of a sandwich covariance, summed over the rows of a fit in one pass.

A row has coordinates u, a weight w and, by its family, a working weight W and residual r: of
least squares 1 and y - x'b. With leverage h = w W u' A^-1 u::

    A = sum w W u u'      B = sum s^2 u u' / (1 - h)^k,  s = w W r      k = 0 (HC0, HC1), 1, 2

and of clusters g, within which errors may go together, ``B = sum_g (sum s u) (sum s u)'``. The
covariance is A^-1 B A^-1. In order of a time, T_t the sum of s u over its rows and L lags,
``B = G_0 + sum_l (1 - l / (L + 1)) (G_l + G_l')``, ``G_l = sum_t T_t T_{t-l}'``. Of clusters in two
ways B is that of the one and of the other, less that of both. Of least squares u is white
(`linear.inference`): A is 1, and h is known while the rows are read.

Each process sums its rows: (r + 1)^2 numbers, of G clusters G (r + 1) more and their keys.

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

#: Keys that may be added before those of one cluster are put together.
KEYS_AT_ONCE = 1 << 15

#: Leverages nearer to 1 than this are 1: such a row has a residual of rounding.
LEVERAGE_ROUNDING = 1e-9


@dataclass(eq=False)
class ClusterSums:
    """Sums of numbers over the rows of each cluster, by its exact key."""

    # keys, sums: of parts of the rows; a key may be in several
    keys: list[pl.Series] = field(default_factory=list)
    sums: list[Matrix] = field(default_factory=list)
    settled: int = 0  # number of keys when they were last put together

    def add(self, key: pl.Series, scores: Matrix) -> None:
        """Add rows; parts are put together once they are twice as long as then."""
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
            self.settled = len(key)  # what is put together is no longer than that
            self.add(key, scores)
        self.settled = sum(map(len, self.keys))
        return self.sums[0] if self.sums else np.empty((0, 0))

    def merge(self, other: "ClusterSums") -> None:
        """Add the clusters of other rows."""
        for key, scores in zip(other.keys, other.sums, strict=True):
            self.add(key, scores)


@dataclass(eq=False, kw_only=True)
class MeatSums(Sums):
    """Sums over some rows."""

    information: Matrix  # A, shape (r + 1, r + 1); zeros where it is known
    meat: Matrix  # B, of rows on their own
    gradient: Vector  # shape (r + 1,), sum of s u
    # of rows in clusters; of two ways each, and both together
    clusters: list[ClusterSums] = field(default_factory=list)
    left: float = 0.0  # sum of w W r^2
    squares: float = 0.0  # sum of w y^2
    exact: int = 0  # rows with leverage 1

    def add(self, other: "MeatSums") -> None:
        """Add the sums over other rows."""
        for own, one in zip(self.clusters, other.clusters, strict=True):
            own.merge(one)
        super().add(replace(other, clusters=[]))


@dataclass(frozen=True)
class Scoring(RowReading):
    """What to sum over the rows of a table; the predictors are the model's, then r coordinates."""

    constant: float | None  # the coordinate that all rows have; None if there is none
    white: bool  # whether A is 1
    power: int  # k, what a row's square is divided by 1 - h so often

    @property
    def width(self) -> int:
        """How many coordinates a row has."""
        return len(self.predictors.each) - (self.constant is None)

    @property
    def size(self) -> int:
        """Bytes of a state without clusters, whose number is unknown."""
        return 16 * self.width**2

    def none(self) -> MeatSums:
        """Return the sums over no rows."""
        A, B = np.zeros((2, self.width, self.width))
        ways = [ClusterSums() for _ in range((0, 1, 3)[len(self.keys)])]
        return MeatSums(information=A, meat=B, gradient=np.zeros(self.width), clusters=ways)

    def sum_up(self, sums: MeatSums, rows: UsedRows) -> None:
        """Set the sums over rows."""
        u, (y,) = rows.found, rows.y
        seen = RowsSeen(self.told, u[None, :, :1], y[None, :, None])
        working = rows.weight * SUMMED["working"](seen)[:, 0]  # w W
        score = rows.weight * SUMMED["score"](seen)[:, 0]  # s
        sums.squares, sums.left = float(rows.weight @ y**2), float(score @ (score / working))
        if self.constant is None:
            u = u[:, 1:]
        else:
            u[:, 0] = self.constant  # in the place of the prediction, which is used up
        sums.gradient = score @ u
        if not self.white:
            sums.information = (u * working[:, None]).T @ u
        if self.keys:
            each = rows.keys.get_columns()
            both = [] if len(each) == 1 else [rows.keys.select(pl.struct(pl.all())).to_series()]
            for clusters, key in zip(sums.clusters, [*each, *both], strict=True):
                clusters.add(key, u * score[:, None])
            return
        if self.power:
            rest = 1.0 - working * (u**2).sum(axis=1)
            exact = rest <= LEVERAGE_ROUNDING
            sums.exact = int(exact.sum())
            score = score / np.where(exact, 1.0, rest) ** (0.5 * self.power)
        own = u * score[:, None]
        sums.meat = own.T @ own


def lagged(scores: Matrix, lags: int) -> Matrix:
    """Return B of the sums of times in their order, with Bartlett's weights."""
    meat = scores.T @ scores
    for lag in range(1, min(lags, len(scores) - 1) + 1):
        between = scores[lag:].T @ scores[:-lag]
        meat += (1.0 - lag / (lags + 1.0)) * (between + between.T)
    return np.asarray(meat)
