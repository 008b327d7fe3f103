"""Slow, dense definitions from the rows of a table; dbselect is never imported here."""

import itertools
from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

#: Rounding level: scores nearer than this are ties, smaller singular values are none.
TIE = 1e-10


@dataclass(frozen=True)
class Table:
    """Rows, and how a linear model is fitted to some of their columns.

    Parameters
    ----------
    X : shape (n, D); column j is called ``xj``
    y : shape (n,), the target
    row_weight : shape (n,); None = 1 each
    ridge : lambda, on unit-variance columns or, with ``scale=False``, on X as it is
    """

    X: np.ndarray
    y: np.ndarray
    row_weight: np.ndarray | None = None
    ridge: float = 0.0
    scale: bool = True

    @property
    def names(self) -> list[str]:
        return [f"x{j}" for j in range(self.X.shape[1])]

    @property
    def weight(self) -> np.ndarray:
        return np.ones(len(self.y)) if self.row_weight is None else self.row_weight

    @property
    def frame(self) -> pl.DataFrame:
        """Columns ``x0``, ``x1``, ..., the target ``y`` and the row weights ``w``."""
        return pl.DataFrame(self.X, schema=self.names).with_columns(
            y=pl.Series(self.y), w=pl.Series(self.weight)
        )

    @property
    def share(self) -> np.ndarray:
        return self.weight / self.weight.sum()

    @cached_property
    def deviation(self) -> np.ndarray:
        """Standard deviation of each column, 1 for constant ones; shape (D,)."""
        deviation = np.sqrt(self.share @ (self.X - self.share @ self.X) ** 2)
        return np.where(np.ptp(self.X, axis=0) > 0, deviation, 1.0)

    @cached_property
    def A(self) -> np.ndarray:  # noqa: N802 - the letter of the papers
        """Unit-variance columns with ``A'A = G``; shape (n, D)."""
        centred = np.where(np.ptp(self.X, axis=0) > 0, self.X - self.share @ self.X, 0.0)
        return np.sqrt(self.share)[:, None] * centred / self.deviation

    @cached_property
    def penalty(self) -> np.ndarray:
        """Root of what multiplies each squared coefficient of `A`; shape (D,)."""
        return np.sqrt(self.ridge) / self.deviation ** (0 if self.scale else 1)

    @cached_property
    def t(self) -> np.ndarray:
        """Centred target with ``t't`` its variance; shape (n,)."""
        return np.sqrt(self.share) * (self.y - self.share @ self.y)


def fit(table: Table, columns: Sequence[int]) -> np.ndarray:
    """Minimise ``||t - A_S w||^2 + ||penalty w||^2``."""
    rows = np.vstack([table.A[:, columns], np.diag(table.penalty[columns])])
    return np.linalg.lstsq(rows, np.append(table.t, np.zeros(len(columns))), rcond=TIE)[0]


def residual(table: Table, columns: Sequence[int]) -> np.ndarray:
    return table.t - table.A[:, columns] @ fit(table, columns)


def r2(table: Table, columns: Sequence[int]) -> float:
    """1 - RSS/TSS."""
    rest = residual(table, columns)
    return 1 - rest @ rest / (table.t @ table.t)


def explained(table: Table, columns: Sequence[int]) -> float:
    """2F/var(y), F the drop of the penalised risk."""
    paid = table.penalty[columns] * fit(table, columns)
    return r2(table, columns) - paid @ paid / (table.t @ table.t)


def model(table: Table, columns: Sequence[int]) -> tuple[float, np.ndarray]:
    """Intercept and coefficients, in the units of the table."""
    coef = fit(table, columns) / table.deviation[columns]
    return table.share @ (table.y - table.X[:, columns] @ coef), coef


def gain(table: Table, held: Sequence[int], group: Sequence[int]) -> float:
    """F(S + g) - F(S) by two fits, as a share of the target's variance."""
    return explained(table, [*held, *group]) - explained(table, held)


def omp(table: Table, held: Sequence[int], group: Sequence[int]) -> float:
    """``b_g' G_gg^+ b_g``, as a share of the target's variance."""
    columns = table.A[:, group]
    b = columns.T @ residual(table, held)
    whitened = np.linalg.pinv(columns.T @ columns, rcond=TIE, hermitian=True) @ b
    return b @ whitened / (table.t @ table.t)


def gradient(table: Table, held: Sequence[int], group: Sequence[int]) -> np.ndarray:
    """``X_g'(y - X_S w) / n``: of unit-variance columns, or of X as it is if not scaled."""
    unit = 1.0 if table.scale else table.deviation[group]
    return unit * (table.A[:, group].T @ residual(table, held))


def unwhitened(table: Table, held: Sequence[int], group: Sequence[int]) -> float:
    """``b_g' b_g``, as a share of the target's variance."""
    b = gradient(table, held, group)
    return b @ b / (table.t @ table.t)


def single(table: Table, held: Sequence[int], group: Sequence[int]) -> float:
    """``max_j b_gj^2``, as a share of the target's variance."""
    return max(unwhitened(table, held, [column]) for column in group)


#: What each rule weighs against the cost.
CRITERIA = {
    "fr": gain,
    "score": gain,
    "omp": omp,
    "omp-information": omp,  # on a Gram
    "omp-unwhitened": unwhitened,
    "omp-single": single,
    "doubling": gain,
}

#: One row of a sequence.
Step = namedtuple("Step", ["group", "cost", "spent", "score", "gain", "explained", "r2"])


def greedy(
    table: Table,
    groups: Mapping[str, list[int]],
    costs: Mapping[str, float],
    rule: str = "fr",
    *,
    budget: float = np.inf,
    max_groups: int | None = None,
    always: Sequence[str] = (),
    c_min: float | None = None,
) -> list[Step]:
    """Try every group at every step; ties go to the group named first.

    Rule "doubling" is Algorithm 2: the first group costs at most c_min, each later one at
    most what is spent; where no group is so cheap, the cheapest ones are tried.
    """
    criterion = CRITERIA[rule]
    steps, held, spent, waiting = [], [], 0.0, dict(groups)
    while waiting and len(steps) != max_groups:
        scores = {
            name: criterion(table, held, columns) / costs[name]
            for name, columns in waiting.items()
            if spent + costs[name] <= budget + TIE
        }
        if not scores:
            break
        limit = np.inf
        if rule == "doubling":
            limit = spent or (min(costs.values()) if c_min is None else c_min)
            limit = max(limit, min(costs[name] for name in scores))
        allowed = {name: score for name, score in scores.items() if costs[name] <= limit + TIE}
        best = max(allowed.values()) - TIE
        first = next(name for name, score in allowed.items() if score >= best)
        name = always[len(steps)] if len(steps) < len(always) else first
        before, held = explained(table, held), held + waiting.pop(name)
        spent += costs[name]
        after = explained(table, held)
        values = (costs[name], spent, scores[name], after - before, after, r2(table, held))
        steps.append(Step(name, *values))
    return steps


#: Every set of groups: shape (2^J, J), what each costs and explains, and the rounding of that.
Subsets = namedtuple("Subsets", ["held", "cost", "explained", "error"])


def subsets(table: Table, groups: Mapping[str, list[int]], costs: Mapping[str, float]) -> Subsets:
    """2F/var(y) of every set of groups, by the pseudo-inverse of its normal equations."""
    held = np.array(list(itertools.product([False, True], repeat=len(groups))))
    columns = np.zeros((len(held), table.X.shape[1]), dtype=bool)
    for number, members in enumerate(groups.values()):
        columns[:, members] = held[:, [number]]
    C = table.A.T @ table.A + np.diag(table.penalty**2)
    values, vectors = np.linalg.eigh(C * columns[:, :, None] * columns[:, None, :])
    kept = values > TIE * values[:, -1:]
    inverse = np.where(kept, 1 / np.where(kept, values, 1.0), 0.0)
    c = np.einsum("kji,kj->ki", vectors, columns * (table.A.T @ table.t))
    condition = (values[:, -1:] * inverse).max()
    error = table.X.size * np.finfo(float).eps * condition
    share = np.einsum("ki,ki,ki->k", c, c, inverse) / (table.t @ table.t)
    return Subsets(held, held @ np.array([costs[name] for name in groups]), share, error)


def foba(X: np.ndarray, y: np.ndarray, nu: float = 0.5, most: int = 20) -> list[int]:
    """FoBa of Zhang's slides on rows, without an intercept, by a refit of every trial.

    Returns
    -------
    steps: j + 1 where column j is added, -(j + 1) where it is given back
    """

    def risk(columns: Sequence[int]) -> float:
        A = X[:, list(columns)]
        return float(((y - A @ np.linalg.lstsq(A, y, rcond=None)[0]) ** 2).mean())

    held: list[int] = []
    steps: list[int] = []
    gains: dict[int, float] = {}
    while len(held) < X.shape[1] and len(steps) < most:
        trials = {j: risk([*held, j]) for j in range(X.shape[1]) if j not in held}
        best = min(trials, key=trials.__getitem__)
        gains[len(held) + 1] = risk(held) - trials[best]
        held.append(best)
        steps.append(best + 1)
        while len(held) > 1 and len(steps) < most:
            left = {j: risk([one for one in held if one != j]) for j in held}
            least = min(left, key=left.__getitem__)
            if left[least] - risk(held) > nu * gains[len(held)]:
                break
            held.remove(least)
            steps.append(-(least + 1))
    return steps


@dataclass(frozen=True)
class Terms:
    """What is said of prices, by names of groups."""

    costs: Mapping[str, float]
    shared: Mapping[str, tuple[float, Sequence[str]]]
    needs: Mapping[str, Sequence[str]]
    one_of: Sequence[Sequence[str]]
    limits: Mapping[str, tuple[Mapping[str, float], float, str]]

    def price(self, held: Sequence[str]) -> float:
        """Sum what groups cost, and each set-up of which a group is held."""
        own = sum(self.costs[name] for name in held)
        return own + sum(cost for cost, who in self.shared.values() if set(who) & set(held))

    def allow(self, held: Sequence[str]) -> bool:
        """Whether a set has what it needs, no two rivals, and keeps to every limit."""
        within = []
        for costs, limit, how in self.limits.values():
            used = [costs.get(name, 0.0) for name in held]
            within.append((max(used, default=0.0) if how == "max" else sum(used)) <= limit + TIE)
        return (
            all(set(self.needs.get(name, ())) <= set(held) for name in held)
            and all(len(set(rivals) & set(held)) <= 1 for rivals in self.one_of)
            and all(within)
        )

    def company(self, name: str, held: Sequence[str]) -> list[str]:
        """Return a group behind all that it needs, directly or not, and that is not held."""
        found: list[str] = []
        for need in self.needs.get(name, ()):
            found += [one for one in self.company(need, [*held, *found]) if one not in found]
        return found if name in held else [*found, name]

    def greedy(
        self, table: Table, groups: Mapping[str, list[int]], rule: str, budget: float
    ) -> list[tuple[str, float]]:
        """Return names and prices paid: the company with the largest criterion per price first."""
        criterion, steps, held = CRITERIA[rule], [], []
        while True:
            rates = {}
            for name in groups:
                moves = self.company(name, held)
                new = [*held, *moves]
                if not moves or not self.allow(new) or self.price(new) > budget + TIE:
                    continue
                worth = 0.0
                for at, move in enumerate(moves):
                    columns = [column for one in [*held, *moves[:at]] for column in groups[one]]
                    worth += criterion(table, columns, groups[move])
                # What costs nothing more comes first.
                rates[name] = worth / max(self.price(new) - self.price(held), 1e-12)
            if not rates:
                return steps
            best = max(rates.values())
            for move in self.company(
                next(n for n, r in rates.items() if r >= best - TIE * abs(best)), held
            ):
                steps.append((move, self.price([*held, move]) - self.price(held)))
                held.append(move)


def em_of_rows(
    X: np.ndarray,
    weight: np.ndarray | None = None,
    steps: int = 20_000,
    settled: float = 1e-12,
    start: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Mean and covariance of rows with NaN by plain EM, and the likelihood of each step.

    Little and Rubin (2002), section 11.2.
    """
    share = np.ones(len(X)) if weight is None else weight
    present = ~np.isnan(X)
    spread = np.nanstd(X, axis=0)
    mean, covariance = start or (np.nanmean(X, axis=0), np.diag(spread**2))
    likelihoods = []
    for _ in range(steps):
        filled, rest, likelihood = np.zeros_like(X), np.zeros_like(covariance), 0.0
        for row, has, w in zip(range(len(X)), present, share, strict=True):
            a, b = np.flatnonzero(has), np.flatnonzero(~has)
            inner, distance = covariance[np.ix_(a, a)], X[row, a] - mean[a]
            slope = np.linalg.solve(inner, covariance[np.ix_(a, b)])
            filled[row, a], filled[row, b] = X[row, a], mean[b] + distance @ slope
            rest[np.ix_(b, b)] += w * (covariance[np.ix_(b, b)] - covariance[np.ix_(b, a)] @ slope)
            quadratic = distance @ np.linalg.solve(inner, distance)
            likelihood -= 0.5 * w * (np.linalg.slogdet(inner)[1] + quadratic)
        likelihoods.append(likelihood)
        before = mean, covariance
        mean = share @ filled / share.sum()
        apart = filled - mean
        covariance = (apart.T @ (share[:, None] * apart) + rest) / share.sum()
        moved = np.abs(covariance - before[1]) / np.outer(spread, spread)
        if max(moved.max(), (np.abs(mean - before[0]) / spread).max()) < settled:
            break
    return mean, covariance, likelihoods
