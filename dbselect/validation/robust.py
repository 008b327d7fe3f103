"""Robust standard errors: sandwich covariances, in one more pass over the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, DataError, shown, warn_of_choice
from dbselect.linear.inference import Deviations, t_quantile, tests, with_ends
from dbselect.options.kinds import COLUMN, SHARE, one_of, whole
from dbselect.pages.html import Glance, InNotebooks
from dbselect.record.columns import INTERCEPT
from dbselect.record.gram import Matrix
from dbselect.record.policies import row_counts
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import Model
from dbselect.sources.snapshots import one_snapshot
from dbselect.validation.bread import (
    SandwichPlan,
    check_gradient,
    check_rows,
    of_family,
    of_linear,
    scoring_of,
    whitener,
)
from dbselect.validation.sandwich import MeatSums, lagged
from dbselect.validation.scoring.evaluate import is_gram

#: Names of the covariances, those of statsmodels.
CovType = Literal["HC0", "HC1", "HC2", "HC3", "cluster", "HAC"]


@dataclass(frozen=True, eq=False)
class RobustErrors(InNotebooks):
    """Standard errors for errors of unequal variance, or correlated ones.

    Parameters
    ----------
    target : the column that is predicted
    cov_type : ``"HC0"`` to ``"HC3"``, ``"cluster"`` or ``"HAC"``
    estimates : term -> coefficient, the intercept first; aliased columns have 0
    terms : those that are not aliased, in the order of `covariance`
    covariance : of their coefficients, shape (len(terms), len(terms)), in the table's units
    free : degrees of freedom of Student's t; infinite for the normal distribution
    chosen : whether the columns were selected on the same rows
    rows, skipped : number of rows used and skipped
    clusters : number of clusters, the smaller of two columns; with HAC of times; None without

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"x": [1, 2, 3, 4, 5], "y": [2, 3, 5, 6, 9]})
    >>> errors = ds.fit(table, "y").robust_errors(table, cov_type="HC0")
    >>> errors
    RobustErrors(y by HC0; 2 terms; 5 rows)
    >>> errors.covariance.round(4).tolist()
    [[0.1874, -0.0638], [-0.0638, 0.0266]]
    """

    target: str
    cov_type: CovType
    estimates: Mapping[str, float]
    terms: tuple[str, ...]
    covariance: Matrix
    free: float
    chosen: bool
    rows: int
    skipped: int
    clusters: int | None

    def __repr__(self) -> str:
        noun = "times" if self.cov_type == "HAC" else "clusters"
        clusters = "" if self.clusters is None else f" in {self.clusters} {noun}"
        return (
            f"RobustErrors({self.target} by {self.cov_type}; {len(self.terms)} terms; "
            f"{row_counts(self.rows, self.skipped)}{clusters})"
        )

    @property
    def _glance(self) -> Glance:
        return Glance(tests(self.estimates, self._deviations))

    @property
    def _deviations(self) -> Deviations:
        errors = np.sqrt(np.diagonal(self.covariance))
        return Deviations(dict(zip(self.terms, errors.tolist(), strict=True)), self.free)

    def summary(self) -> pl.DataFrame:
        """Return each coefficient with its robust standard error and a test that it is 0.

        Returns
        -------
        DataFrame: term, estimate, std_error, statistic and p_value, as in `Model.summary` and
        `GlmModel.summary`; NULL for aliased columns

        Warns
        -----
        SelectionWarning : the columns were selected on the same rows: p-values are too small
        """
        if self.chosen:
            warn_of_choice()
        return tests(self.estimates, self._deviations)

    def intervals(self, level: float = 0.95) -> pl.DataFrame:
        """Return each coefficient with its confidence interval.

        Parameters
        ----------
        level : confidence level, in (0, 1)

        Returns
        -------
        DataFrame: term, estimate, std_error, low, high

        Raises
        ------
        ArgumentError : level is out of range

        Warns
        -----
        SelectionWarning : the columns were selected on the same rows: intervals are too short
        """
        SHARE.check("level", level)
        if self.chosen:
            warn_of_choice()
        table = tests(self.estimates, self._deviations)
        return with_ends(table, t_quantile(level, self.free))


@one_snapshot
def robust_errors(
    model: Model | GlmModel,
    data: Any,
    *,
    weight: str | None = None,
    cov_type: CovType | None = None,
    cluster: str | Sequence[str] | None = None,
    time: str | None = None,
    maxlags: int | None = None,
) -> RobustErrors:
    """Compute robust errors of least squares or a GLM in one more pass over its rows."""
    kind, clusters = check_kind(cov_type, cluster, time)
    if maxlags is not None:
        whole(0).check("maxlags", maxlags)
        if kind != "HAC":
            raise ArgumentError(f"maxlags is {maxlags!r}; only cov_type 'HAC' has lags")
    COLUMN.or_none().check("weight", weight)
    if is_gram(data):
        raise ArgumentError("data is a Gram and holds no rows; give the table")
    plan = of_linear(model) if isinstance(model, Model) else of_family(model, kind)
    scoring, table = scoring_of(model, plan, data, kind, weight, clusters)
    sums = scoring.over(table, scoring.fields)
    check_rows(sums, model, weight, clusters)
    return _covariance(model, plan, sums, kind, maxlags)


def check_kind(cov_type: Any, cluster: Any, time: Any) -> tuple[CovType, list[str]]:
    """Return the covariance type, and the columns of clusters or time."""
    COLUMN.or_none().check("time", time)
    names = list(cluster) if isinstance(cluster, list | tuple) else [cluster]
    if not 1 <= len(names) <= 2 or len(set(names)) < len(names):
        raise ArgumentError(f"cluster is {shown(cluster)}; it must be a column, or two of them")
    for name in names:
        COLUMN.or_none().check("cluster", name)
    if cov_type is None:
        cov_type = "HAC" if time is not None else "HC1" if cluster is None else "cluster"
    one_of(CovType).check("cov_type", cov_type)
    for kind, name, value in (("cluster", "cluster", cluster), ("HAC", "time", time)):
        if (cov_type == kind) != (value is not None):
            raise ArgumentError(
                f"cov_type is {cov_type!r} and {name} is {value!r}; '{kind}' needs the column of "
                f"the {name}s, and no other type has one"
            )
    return cov_type, [name for name in (*names, time) if name is not None]


def _covariance(
    model: Model | GlmModel,
    plan: SandwichPlan,
    sums: MeatSums,
    kind: CovType,
    maxlags: int | None,
) -> RobustErrors:
    """Build the covariance from the sums."""
    n, r = sums.rows, len(plan.terms)
    white, back = whitener(sums, plan)
    check_gradient(sums, white @ sums.gradient, model)
    meat, factor, free, clusters = sums.meat, 1.0, n - r, None
    if kind == "HC1":
        factor = n / (n - r)
    if kind == "cluster":
        cluster_sums = [scores.settle() for scores in sums.clusters]
        clusters = min(map(len, cluster_sums))
        if clusters < 2:
            raise DataError("cluster has one value in all rows; at least two clusters are needed")
        signs = (1.0, 1.0, -1.0)  # pairs of rows in the same intersection are in both sums
        parts = zip(signs, cluster_sums, strict=False)
        meat = sum((s * len(u) / (len(u) - 1) * u.T @ u for s, u in parts), 0.0 * meat)
        factor, free = (n - 1) / (n - r), clusters - 1
    if kind == "HAC":
        (scores,) = [scores.settle() for scores in sums.clusters]
        clusters = len(scores)
        default_lags = int(4 * (clusters / 100) ** (2 / 9))
        meat = lagged(scores, default_lags if maxlags is None else maxlags)
    half = back @ white
    with np.errstate(over="ignore", invalid="ignore"):
        covariance = factor * half @ meat @ half.T
    if not np.isfinite(covariance).all():
        raise DataError(
            "variances of the coefficients overflow a double; divide the target, or multiply the "
            "columns, by a power of ten"
        )
    intercept = {INTERCEPT: model.intercept} if INTERCEPT in plan.terms else {}
    return RobustErrors(
        target=model.target,
        cov_type=kind,
        estimates=intercept | model.coefficients,
        terms=tuple(plan.terms),
        covariance=covariance,
        free=free if isinstance(model, Model) else np.inf,
        chosen=plan.chosen,
        rows=n,
        skipped=sums.skipped,
        clusters=clusters,
    )
