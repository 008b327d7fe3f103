"""Information criteria and tests of linear models.

With n rows, residual sum of squares RSS, rank r with the intercept, J groups to choose
from and D columns, and ``L = -n/2 (log(2 pi RSS / n) + 1)``, the Gaussian log-likelihood::

    AIC  = -2 L + 2 r                                    Akaike (1974)
    BIC  = -2 L + r log n                                Schwarz (1978)
    EBIC = BIC + 2 gamma log binomial(J, groups held)    Chen, Chen (2008), eq. 1
    GIC  = -2 L + a r,   a = log(log n) log D            Fan, Tang (2013), section 4.1
    Cp   = RSS / s2 - n + 2 r                            Mallows (1973)
    adjusted r2 = 1 - (RSS / (n - r)) / (TSS / (n - 1))

Through the origin, r has no intercept and TSS is the sum of squares about 0, with n degrees.
s2 is RSS / (n - r) of the model on all columns. With a ridge, r is the trace of the map
from the target to the fit, 1 + tr(G (G + ridge)^-1) (Hastie, Tibshirani, Friedman 2009,
eq. 3.50), and RSS that of the penalised fit.

Generalised linear models have another L (`by_likelihood`); Cp and adjusted r2, which compare
residual variances, are not defined for them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import scipy

from dbselect.linear.state import LinearState
from dbselect.record.gram import Gram, Vector
from dbselect.record.steps import ROUNDING_GAIN, Step

#: Least share of residual variance: smaller ones are rounding error of a perfect fit.
SMALLEST_SHARE = ROUNDING_GAIN
#: The penalty of GIC is at least that of AIC, also for tables too narrow for its theory.
SMALLEST_PENALTY = 2.0

#: Criterion -> the sign with which smaller is better.
SIGNS = {"aic": 1, "bic": 1, "ebic": 1, "gic": 1, "cp": 1, "adjusted_r2": -1}


@dataclass(frozen=True)
class Fits:
    """Fits of M models on the same rows, the input of criteria."""

    rows: int  # n, number of rows
    total: float  # TSS, weighted sum of squares of the target about its mean, or 0
    unexplained: Vector  # shape (M,), RSS / TSS
    degrees: Vector  # shape (M,), rank or effective number of parameters, the intercept included
    sizes: Vector  # shape (M,), number of groups held
    # n_groups, n_columns: J and D, the candidates
    n_groups: int
    n_columns: int
    # unexplained_all, degrees_all: the same for the model on all columns
    unexplained_all: float
    degrees_all: float
    degrees_none: float  # degrees of the model without columns: 1, or 0 through the origin


def criteria(fits: Fits, gamma: float = 1.0, penalty: float | None = None) -> pl.DataFrame:
    """Return the criteria of each model, NULL with too few rows; `penalty` is a in GIC."""
    return joint_criteria([fits], np.ones(1), gamma, penalty)


def joint_criteria(
    responses: Sequence[Fits], share: Vector, gamma: float = 1.0, penalty: float | None = None
) -> pl.DataFrame:
    """Return joint criteria of K responses; adjusted_r2 is weighted by `share`."""
    first = responses[0]
    n, r, none = first.rows, first.degrees, first.degrees_none
    shares = [np.maximum(fits.unexplained, SMALLEST_SHARE) for fits in responses]
    losses = [gaussian_loss(n, s * fits.total) for s, fits in zip(shares, responses, strict=True)]
    free = np.where(n - r > 0, n - r, np.nan)
    free_all = n - first.degrees_all if n > first.degrees_all else math.nan
    # Residual variance share of the model on all columns, per degree of freedom.
    noises = [max(fits.unexplained_all, SMALLEST_SHARE) / free_all for fits in responses]
    cp = sum(s / noise - n + 2.0 * r for s, noise in zip(shares, noises, strict=True))
    adjusted = sum(
        part * (1.0 - s / free * (n - none)) for s, part in zip(shares, share, strict=True)
    )
    trials = Trials(n, r, len(responses) * r, first.sizes, first.n_groups, first.n_columns)
    return by_likelihood(
        np.sum(losses, axis=0), trials, gamma, penalty, cp=cp, adjusted_r2=adjusted
    )


@dataclass(frozen=True)
class Trials:
    """Numbers of rows, parameters and candidates of M models of any family."""

    rows: int  # n, number of rows
    ranks: Vector  # shape (M,), parameters of one predictor: at least so many rows are needed
    degrees: Vector  # shape (M,), parameters in all
    sizes: Vector  # shape (M,), number of groups held
    # n_groups, n_columns: J and D, the candidates
    n_groups: int
    n_columns: int


def by_likelihood(
    loss: Vector,
    trials: Trials,
    gamma: float,
    penalty: float | None,
    *,
    cp: Any = math.nan,
    adjusted_r2: Any = math.nan,
) -> pl.DataFrame:
    """Return the criteria of models from `loss`, -2 log-likelihood; NULL with too few rows."""
    n, r = trials.rows, trials.degrees
    bic = loss + r * math.log(n)
    choices = _log_binomial(trials.n_groups, trials.sizes)
    a = penalty
    if a is None:  # Fan, Tang (2013)
        log_log = math.log(math.log(max(n, 3)))
        a = max(SMALLEST_PENALTY, log_log * math.log(max(trials.n_columns, 1)))
    table = {
        "df": r,
        "aic": loss + 2.0 * r,
        "bic": bic,
        "ebic": bic + 2.0 * gamma * choices,
        "gic": loss + a * r,
        "cp": np.broadcast_to(cp, r.shape),
        "adjusted_r2": np.broadcast_to(adjusted_r2, r.shape),
    }
    judged = n - trials.ranks > 0
    columns = {
        name: np.where(judged | (name == "df"), values, np.nan) for name, values in table.items()
    }
    return pl.DataFrame(columns).fill_nan(None)


def gaussian_loss(rows: int, rss: Vector) -> Vector:
    """Return -2 L of normal errors of variance RSS / n."""
    return np.asarray(rows * (np.log(2.0 * math.pi * rss / rows) + 1.0))


def fits_of(
    gram: Gram,
    target: str,
    state: LinearState,
    records: Sequence[Step],
    r2: Vector,
    has_intercept: bool,
) -> Fits:
    """Return the fits of a sequence's models; `state`, empty at first, is changed in place."""
    at = gram.position(target, "target")
    none, ridge = float(has_intercept), state.problem.ridge
    degrees, sizes = [none], [0.0]
    for step in records:
        if step.action == "add":
            state.add(step.group)
        else:
            state.remove(step.group)
        degrees.append(none + state.degrees())
        sizes.append(float(len(state.held)))
    rest = sorted(set(range(state.size)) - set(state.held))
    if rest:
        state.add_all(rest)
    penalty = float(state.coef() ** 2 @ ridge)
    return Fits(
        rows=gram.rows,
        total=float(gram.comoment[at, at]),
        unexplained=1.0 - r2,
        degrees=np.array(degrees),
        sizes=np.array(sizes),
        n_groups=state.size,
        n_columns=len(ridge),
        unexplained_all=1.0 - (state.explained + penalty),
        degrees_all=none + state.degrees(),
        degrees_none=none,
    )


def _log_binomial(n: int, k: Vector) -> Vector:
    return np.asarray(
        scipy.special.gammaln(n + 1.0)
        - scipy.special.gammaln(k + 1.0)
        - scipy.special.gammaln(n - k + 1.0)
    )


def lr_table(degrees: Vector, statistic: Vector) -> pl.DataFrame:
    """Return likelihood-ratio tests (Wilks 1938); NULL without additional parameters."""
    more = np.rint(degrees)
    clipped = np.where(more > 0, np.maximum(statistic, 0.0), np.nan)
    table = {"df": more, "statistic": clipped, "p_value": scipy.special.chdtrc(more, clipped)}
    return pl.DataFrame(table).fill_nan(None).with_columns(pl.col("df").cast(pl.Int64))


def step_tests(fits: Fits, steps: pl.DataFrame, kind: Literal["f", "lr"]) -> pl.DataFrame:
    """Return the test of each of M steps, from the fits of M + 1 models."""
    shares, rank = np.minimum(fits.unexplained, 1.0), fits.degrees
    smaller, larger = sides(steps)
    if kind == "f":
        # Seber, Lee (2003), section 4.3
        more = np.rint(rank[larger] - rank[smaller])
        free = np.rint(fits.rows - rank[larger])
        judged = (more > 0) & (free > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            gained = np.maximum(shares[smaller] - shares[larger], 0.0)
            statistic = np.where(judged, gained / more / (shares[larger] / free), np.nan)
            p_value = scipy.special.fdtrc(more, free, statistic)
        table = {"df": more, "df_residual": free, "statistic": statistic, "p_value": p_value}
        whole = pl.col("df", "df_residual").cast(pl.Int64)
        tests = pl.DataFrame(table).fill_nan(None).with_columns(whole)
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = fits.rows * np.log(shares[smaller] / shares[larger])
        tests = lr_table(rank[larger] - rank[smaller], statistic)
    return tests_beside(steps, tests)


def sides(steps: pl.DataFrame) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the indices of the smaller and of the larger model of each step."""
    adds, step = (steps["action"][1:] == "add").to_numpy(), np.arange(steps.height - 1)
    return np.where(adds, step, step + 1), np.where(adds, step + 1, step)


def tests_beside(steps: pl.DataFrame, tests: pl.DataFrame) -> pl.DataFrame:
    """Return steps with their tests; the first step has none."""
    shown = steps.select("step", "action", "group")
    return pl.concat([shown, pl.concat([tests.clear(1), tests])], how="horizontal")
