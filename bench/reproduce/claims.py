"""Claims of papers, and verdicts by paired differences.

A claim is *seen* if the whole 95 % interval of the mean difference has the published sign,
*contradicted* if all of it has the other sign, and *undecided* otherwise. Differences are paired:
both methods run on the same data. With fewer than `LEAST_RUNS` data sets every claim is undecided.
A theorem is contradicted by a single violation.
"""

import itertools
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import stats

from reproduce.published import Printed

VERDICTS = ("seen", "undecided", "contradicted")
#: Data sets below which nothing is decided, and the level of an interval.
LEAST_RUNS, LEVEL = 20, 0.95
#: A difference that is rounding, as a share of what is compared.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and the differences that were observed.

    Parameters
    ----------
    paper, table, claim : the source and the claim
    n : data sets
    mean, low, high : of the paired differences, > 0 as published, with their 95 % interval; of a
        theorem the mean, least and largest of what is reached above what is promised
    is_bound : whether it is a theorem
    """

    paper: str
    table: str
    claim: str
    n: int = 0
    mean: float = 0.0
    low: float = 0.0
    high: float = 0.0
    is_bound: bool = False

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        if self.is_bound and self.low < 0:
            return "contradicted"
        if self.n < LEAST_RUNS or (self.low <= 0 <= self.high and not self.is_bound):
            return "undecided"
        return "seen" if self.low > 0 or self.is_bound else "contradicted"

    @property
    def row(self) -> dict[str, str | int | float]:
        """The claim as a row of the file of claims."""
        numbers = {name: float(f"{getattr(self, name):.4g}") for name in ("mean", "low", "high")}
        source = {"paper": self.paper, "table": self.table, "claim": self.claim}
        return {**source, "verdict": self.verdict, "n": self.n, **numbers}


def said(paper: str, table: str, claim: str, margins: npt.ArrayLike) -> Claim:
    """Return a claim with its margins, one per data set, > 0 in favour of the claim."""
    values = np.asarray(margins, dtype=float)
    mean, n = float(values.mean()), len(values)
    error = float(values.std(ddof=1)) / np.sqrt(n) if n > 1 else np.inf
    half = float(stats.t.ppf((1 + LEVEL) / 2, n - 1)) * error if error > 0 else 0.0
    return Claim(paper, table, claim, n, mean, mean - half, mean + half)


def bound(paper: str, table: str, claim: str, ratios: npt.ArrayLike) -> Claim:
    """Return a theorem; `ratios` are what is reached over what is promised, one per problem."""
    margins = np.asarray(ratios, dtype=float) - 1.0
    ends = [float(end) for end in (margins.mean(), margins.min(), margins.max())]
    return Claim(paper, table, claim, len(margins), *ends, is_bound=True)


def orders(printed: Printed) -> Iterator[tuple[str, str, str]]:
    """Yield measure, higher and lower method of every two figures that differ."""
    for measure, row in printed.figures.items():
        for first, second in itertools.combinations(row, 2):
            if row[first] > row[second]:
                yield measure, first, second
            elif row[first] < row[second]:
                yield measure, second, first


def judged(
    printed: Printed,
    runs: pl.DataFrame,
    *,
    table: str | None = None,
    only: Iterable[str] = (),
    measures: Sequence[str] | None = None,
    certain: Container[tuple[str, str]] = (),
) -> list[Claim]:
    """Return the claims of all orders that a table prints, of methods that run.

    Parameters
    ----------
    runs : one row a data set, method and measure: seed, method, and a column a measure
    table : how the claims are filed; default: as the table is cited
    only : leaves out pairs without one of these methods; default: all pairs
    measures : of the table; default: all
    certain : pairs whose order is a definition, and no claim
    """
    claims = []
    wide = {
        measure: runs.pivot("method", index="seed", values=measure, aggregate_function="first")
        for measure in (measures or printed.figures)
        if measure in runs.columns
    }
    for measure, high, low in orders(printed):
        columns = wide.get(measure)
        if columns is None or not {high, low} <= set(columns.columns) or (high, low) in certain:
            continue
        if only and not {high, low} & set(only):
            continue
        both = columns.select(high, low).drop_nulls().cast(pl.Float64).to_numpy()
        margins = both[:, 0] - both[:, 1]
        margins[np.abs(margins) <= ROUNDING * np.abs(both).max(axis=1)] = 0.0
        name = f"{measure}: {high} > {low}"
        claims.append(said(printed.paper, table or printed.table, name, margins))
    return claims


def counted(claims: pl.DataFrame, by: str) -> pl.DataFrame:
    """Return how many claims have each verdict, by paper or table, in their order."""
    counts = [(pl.col("verdict") == verdict).sum().alias(verdict) for verdict in VERDICTS]
    return claims.group_by(by, maintain_order=True).agg(
        pl.col("n").max().alias("data sets"), pl.len().alias("claims"), *counts
    )


def framed(claims: Iterable[Claim]) -> pl.DataFrame:
    """Return claims as a table."""
    rows = [claim.row for claim in claims]
    return pl.DataFrame(rows or [Claim("", "", "").row]).head(len(rows))
