"""Standard errors that do not need errors of equal variance: one more pass over the rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, DataError
from dbselect.judging.bread import (
    Wanted,
    check_gradient,
    check_rows,
    of_family,
    of_linear,
    scoring_of,
    whitener,
)
from dbselect.judging.evaluate import is_gram
from dbselect.judging.sandwich import Middle
from dbselect.linear.inference import (
    INTERCEPT,
    Deviations,
    t_quantile,
    tests,
    with_ends,
)
from dbselect.pages.glance import Glance, InNotebooks
from dbselect.record.checks import check_column, check_share
from dbselect.record.gram import Matrix
from dbselect.record.rows import rows_told
from dbselect.results.choice import warn_of_choice
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import JointModel, Model
from dbselect.results.selected import Selected, model_in
from dbselect.sources.with_bar import with_bar
from dbselect.sources.works import gather

#: Names of the covariances, those of statsmodels.
CovType = Literal["HC0", "HC1", "HC2", "HC3", "cluster"]


@dataclass(frozen=True, eq=False)
class RobustErrors(InNotebooks):
    """Standard errors of a model where errors differ in variance, or go together in clusters.

    Parameters
    ----------
    target : the column that is predicted
    cov_type : ``"HC0"`` to ``"HC3"`` or ``"cluster"``
    estimates : term -> coefficient, the intercept first; aliased columns have 0
    terms : those that are not aliased, in the order of `covariance`
    covariance : of their coefficients, shape (len(terms), len(terms)), in the table's units
    free : degrees of freedom of Student's t; infinite for the normal distribution
    chosen : whether the rows also chose the columns
    rows, skipped : that were used, and left out
    clusters : how many there are; None without

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"x": [1, 2, 3, 4, 5], "y": [2, 3, 5, 6, 9]})
    >>> found = ds.robust_errors(ds.fit(table, "y"), table, cov_type="HC0")
    >>> found
    RobustErrors(y by HC0; 2 terms; 5 rows)
    >>> found.covariance.round(4).tolist()
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
        clusters = "" if self.clusters is None else f" in {self.clusters} clusters"
        return (
            f"RobustErrors({self.target} by {self.cov_type}; {len(self.terms)} terms; "
            f"{rows_told(self.rows, self.skipped)}{clusters})"
        )

    @property
    def _glance(self) -> Glance:
        return Glance(tests(self.estimates, self._deviations))

    @property
    def _deviations(self) -> Deviations:
        errors = np.sqrt(np.diagonal(self.covariance))
        return Deviations(dict(zip(self.terms, errors.tolist(), strict=True)), self.free)

    def summary(self) -> pl.DataFrame:
        """Return each coefficient with its robust standard error and the test that it is 0.

        Returns
        -------
        DataFrame: term, estimate, std_error, statistic and p_value, as `Model.summary` and
        `GlmModel.summary` have them; NULL for aliased columns

        Warns
        -----
        SelectionWarning : the rows also chose the columns: p-values are too small
        """
        if self.chosen:
            warn_of_choice()
        return tests(self.estimates, self._deviations)

    def intervals(self, level: float = 0.95) -> pl.DataFrame:
        """Return each coefficient with the interval that it lies in at a level of confidence.

        Parameters
        ----------
        level : in (0, 1)

        Returns
        -------
        DataFrame: term, estimate, std_error, low, high

        Raises
        ------
        ArgumentError : level is out of range

        Warns
        -----
        SelectionWarning : the rows also chose the columns: the interval is too short
        """
        check_share("level", level)
        if self.chosen:
            warn_of_choice()
        found = tests(self.estimates, self._deviations)
        return with_ends(found, t_quantile(level, self.free))


def robust_errors(
    model: Model | GlmModel | Selected[Any],
    data: Any,
    *,
    weight: str | None = None,
    cov_type: CovType | None = None,
    cluster: str | None = None,
) -> RobustErrors:
    """Read the rows of a fit once more, for standard errors that hold if their errors differ.

    Parameters
    ----------
    model : Model of least squares, as `fit` and prefixes give it, or GlmModel of one predictor
    data : the table that it was fitted to: the same rows, in any order and any form that
        `gram` reads. Of a prefix the columns of the whole search are read, as a missing value
        in any of them left a row out
    weight : column of row weights that the fit had
    cov_type : as statsmodels names it; default ``"HC1"``, with `cluster` ``"cluster"``:

        =============== ========================================================
        ``HC0``         squared residuals (White 1980)
        ``HC1``         times n / (n - r), r the rank
        ``HC2``         each over 1 - its leverage; unbiased where variances agree
        ``HC3``         each over the square of that; for few rows. HC2 and HC3 of
                        least squares only
        ``cluster``     sums of each cluster, times G / (G - 1) (n - 1) / (n - r)
        =============== ========================================================
    cluster : column whose values are the clusters, within which errors may go together

    Returns
    -------
    RobustErrors. Of least squares tests are by Student's t with n - r degrees of freedom, of G
    clusters G - 1; of a family by the normal distribution

    Raises
    ------
    ArgumentError : there is no such cov_type, or it does not go with `cluster`; the model has a
        ridge, knows no rows, or was fitted with ``exact=True``; several responses or classes;
        data is a Gram, which holds no rows
    ColumnError : the table lacks a column, or has one of another type
    DataError : the rows are not those of the fit; no rows are left to judge the model, n <= r; a
        row of it has no cluster, or all have one; HC2 and HC3 of rows that are fitted exactly;
        the columns are too nearly dependent

    Notes
    -----
    One pass, O(D r + r^2) a row, streamed as any work over rows: Spark, Dask and Ray sum where
    their rows are. Memory 32,768 rows of r numbers at a time for each thread; of G clusters 8 G r
    bytes more and the keys, so that clusters of one row each cost as much as the rows.

    Row weights tell precision, as ``var_weights`` of statsmodels, whose numbers these are: OLS, WLS
    and, with ``use_t``, their ``get_robustcov_results``. Of families with a link that is not the
    canonical one the expected information is taken, as R's sandwich does; HC1 of statsmodels' GLM
    is its HC0.

    The same rows are recognised by their number, their weight, and by their gradient, which
    vanishes at the coefficients of a fit.

    References
    ----------
    White (1980), Econometrica 48; MacKinnon, White (1985), Journal of Econometrics 29; Long,
    Ervin (2000), American Statistician 54, of which to take; Cameron, Miller (2015), Journal of
    Human Resources 50, of clusters: fewer than some 40 give p-values that are too small.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame(
    ...     {"x": [1, 2, 3, 4, 5, 6], "shop": list("aabbcc"), "y": [2, 3, 5, 6, 9, 7]}
    ... )
    >>> model = ds.fit(table, "y", ["x"])
    >>> model.summary()["std_error"].round(4).to_list()
    [1.109, 0.2848]
    >>> ds.robust_errors(model, table, cov_type="HC3").summary()["std_error"].round(4).to_list()
    [1.1617, 0.4994]
    >>> ds.robust_errors(model, table, cluster="shop").summary()["std_error"].round(4).to_list()
    [0.5877, 0.1205]
    """
    kind = _kind(cov_type, cluster)
    check_column("weight", weight)
    found = model_in(model)
    if isinstance(found, JointModel):
        raise ArgumentError(
            f"model has the responses {list(found.responses)}; give one of model.responses"
        )
    if not isinstance(found, Model | GlmModel):
        raise ArgumentError(
            f"model is a {type(model).__name__}; it must be a Model or a GlmModel, as fit, fit_glm "
            "and seq.at() return it"
        )
    if is_gram(data):
        raise ArgumentError(
            "data is a Gram and holds no rows, which are read again; give the table"
        )
    wanted = of_linear(found) if isinstance(found, Model) else of_family(found, kind)
    scoring, table = scoring_of(found, wanted, data, kind, weight, cluster)
    fields = [scoring.target, *scoring.columns.values(), scoring.weight, scoring.cluster]
    names = dict.fromkeys(str(path[0]) for path in fields if path is not None)
    with scoring.begin() as scored:
        gather(table, list(names), scoring, scored, with_bar(table, table.rows))
        sums = scored.sums
    check_rows(sums, found, weight, cluster)
    return _finished(found, wanted, sums, kind)


def _kind(cov_type: Any, cluster: Any) -> CovType:
    """Return the name of the covariance, once it goes with the cluster."""
    check_column("cluster", cluster)
    if cov_type is None:
        return "HC1" if cluster is None else "cluster"
    if cov_type not in get_args(CovType):
        raise ArgumentError(
            f"cov_type is {cov_type!r}; it must be one of {list(get_args(CovType))}"
        )
    if (cov_type == "cluster") != (cluster is not None):
        raise ArgumentError(
            f"cov_type is {cov_type!r} and cluster is {cluster!r}; 'cluster' needs the column "
            "whose values are the clusters, and no other type has one"
        )
    kind: CovType = cov_type
    return kind


def _finished(found: Model | GlmModel, wanted: Wanted, sums: Middle, kind: CovType) -> RobustErrors:
    """Return the covariance of what was summed."""
    n, r = sums.rows, len(wanted.terms)
    white, back = whitener(sums, wanted)
    check_gradient(sums, white @ sums.gradient)
    meat, factor, free, clusters = sums.meat, 1.0, n - r, None
    if kind == "HC1":
        factor = n / (n - r)
    if kind == "cluster":
        scores = sums.clusters.settle()
        clusters, meat = len(scores), scores.T @ scores
        if clusters < 2:
            raise DataError("cluster has one value in all rows; at least two clusters are needed")
        factor, free = clusters / (clusters - 1) * (n - 1) / (n - r), clusters - 1
    half = back @ white
    intercept = {INTERCEPT: found.intercept} if INTERCEPT in wanted.terms else {}
    return RobustErrors(
        target=found.target,
        cov_type=kind,
        estimates=intercept | found.coefficients,
        terms=tuple(wanted.terms),
        covariance=factor * half @ meat @ half.T,
        free=free if isinstance(found, Model) else np.inf,
        chosen=wanted.chosen,
        rows=n,
        skipped=sums.skipped,
        clusters=clusters,
    )
