"""Metrics of every prefix on the rows of a table, against its cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, DataError
from dbselect.linear.problem import constant_target, is_constant
from dbselect.options.kinds import one_of
from dbselect.pages.charts import MOST_STEPS, Heights, step_curves, thinned
from dbselect.pages.html import Glance, InNotebooks, listed
from dbselect.record.gram import Vector
from dbselect.record.policies import row_counts
from dbselect.validation.scoring.judging import (
    ROUNDING_SHARE,
    Measurable,
    RowSums,
    beside_steps,
    judged,
)
from dbselect.validation.scoring.metrics import (
    OF_CLASSES,
    OF_QUERIES,
    MetricRequest,
    check_family,
    ndcg,
    requests_of,
)


@dataclass(frozen=True, eq=False)
class Evaluation(InNotebooks):
    """Metrics of every prefix on other rows.

    Parameters
    ----------
    table : one row per step: step, action, group, spent, and each metric by its name; for a
        model one row: spent and the metrics
    target : the column that is predicted
    metrics : names of the metrics
    rows, skipped : number of rows used and skipped
    queries : number of keys; None without a key

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> train = pl.DataFrame({"a": [1, 2, 3, 4], "y": [1, 2, 3, 4]})
    >>> test = pl.DataFrame({"a": [1, 2, 3, 4], "y": [1, 2, 3, 6]})
    >>> evaluation = ds.evaluate(ds.anytime_sequence(train, "y"), test, metric=["mae", "rmse"])
    >>> evaluation
    Evaluation(y by mae, rmse; 2 steps, mae 0.5 at cost 1; 4 rows)
    >>> evaluation.table.select("group", "spent", "mae").rows()
    [(None, 0.0, 1.5), ('a', 1.0, 0.5)]
    """

    table: pl.DataFrame
    target: str
    metrics: tuple[str, ...]
    rows: int
    skipped: int
    queries: int | None

    def __repr__(self) -> str:
        last = self.table.row(-1, named=True)
        name = self.metrics[0]
        steps = f"{self.table.height} steps, " if "step" in self.table.columns else ""
        queries = "" if self.queries is None else f" of {self.queries} queries"
        return (
            f"Evaluation({self.target} by {listed(self.metrics)}; {steps}{name} {last[name]:.4g} "
            f"at cost {last['spent']:g}; {row_counts(self.rows, self.skipped)}{queries})"
        )

    @property
    def _glance(self) -> Glance:
        name = self.metrics[0]
        x, y = self.table["spent"].to_numpy(), self.table[name].to_numpy()
        return Glance(self.table, (x, y, f"{name} against what is spent"))

    def plot(self, metric: str | None = None) -> Any:
        """Plot a metric against cost.

        Parameters
        ----------
        metric : one of `metrics`; default: the first

        Returns
        -------
        Altair chart. Its ``data`` is the plotted DataFrame: step, group, spent,
        value; at most 1,000 steps, evenly spaced

        Raises
        ------
        ArgumentError : another metric, or a single model, which has no curve
        EngineError : altair is not installed
        """
        name = self.metrics[0] if metric is None else metric
        one_of(self.metrics).check("metric", name)
        if "step" not in self.table.columns:
            raise ArgumentError("one model is one point; evaluate a sequence for a curve")
        queries = "" if self.queries is None else f" of {self.queries} queries"
        (request,) = requests_of(name)
        better = "More" if request.metric.more else "Less"
        notes = [f"{row_counts(self.rows, self.skipped)}{queries}. {better} is better."]
        frame = thinned(self.table.select("step", "group", "spent", value=name))
        if frame.height < self.table.height:
            notes.append(f"Of {self.table.height - 1} steps {MOST_STEPS - 1} are drawn.")
        return step_curves(
            frame, Heights("value", name, more=request.metric.more),
            f"{self.target}: {name} for its cost", notes,
            tips=["group:N", ("value", ".5~g", name), "step:Q", "spent:Q"],
        )  # fmt: skip


def measured(
    result: Measurable, data: Any, metric: Any, weight: str | None, key: str | None
) -> Evaluation:
    """Compute metrics of every prefix on the rows that all prefixes can predict, in one pass."""
    requests = requests_of(metric)
    family = getattr(result, "family", "gaussian")
    check_family(requests, family)
    _check_key(requests, key)
    kinds = [request.summed for request in requests]
    judging, sums, _ = judged(
        result, data, [kind for kind in kinds if kind], weight, key=key, is_ranked=not all(kinds),
        zero_one=family == "gaussian" and any(request.metric.zero_one for request in requests),
    )  # fmt: skip
    mean = judging.means(sums)
    queries = None if key is None else _queries(sums)
    columns = {}
    for request in requests:
        if request.summed is None:
            columns[request.name] = _of_order(request, sums.ranked, queries, result.target)
        else:
            columns[request.name] = _of_mean(request, mean[request.summed], sums, result)
    return Evaluation(
        beside_steps(result, columns), result.target, tuple(columns), sums.rows, sums.skipped,
        None if queries is None else int(queries.max()) + 1,
    )  # fmt: skip


def _check_key(requests: Sequence[MetricRequest], key: str | None) -> None:
    by_query = [request.name for request in requests if request.kind in OF_QUERIES]
    if by_query and key is None:
        raise ArgumentError(f"key is missing; metric {by_query[0]!r} is of the rows of each key")
    if key is not None and not by_query:
        raise ArgumentError(f"key is {key!r}; only the metrics {list(OF_QUERIES)} have one")


def _queries(sums: RowSums) -> Any:
    """Return the query number of each row; shape (n,)."""
    keys = pl.concat([part.key for part in sums.ranked if part.key is not None])
    first = pl.col("row").min().over("key")
    rows = keys.alias("key").to_frame().with_row_index("row").select(first.rank("dense"))
    return rows.to_series().to_numpy().astype(np.intp) - 1


def _of_mean(request: MetricRequest, mean: Vector, sums: RowSums, result: Measurable) -> Vector:
    """Return a metric of every prefix, shape (M,), from the mean contribution of the rows."""
    if request.kind != "r2":
        finished = request.metric.finished
        return mean if finished is None else np.asarray(finished(mean))
    variance = sums.target.squares / sums.weight
    if is_constant(np.sqrt(variance), sums.target.mean, None).any():
        raise DataError(constant_target(result.target, sums.rows, sums.skipped))
    return np.asarray(1.0 - mean / variance)


def _of_order(request: MetricRequest, parts: Sequence[Any], query: Any, target: str) -> Vector:
    """Return a metric of every prefix, shape (M,), from the order of the rows."""
    y = np.concatenate([part.y for part in parts], axis=1)
    weight = np.concatenate([part.weight for part in parts])
    responses, _, prefixes = parts[0].score.shape

    def score(r: int, m: int) -> Vector:
        """Return the scores of one prefix; joining all at once would double the memory."""
        return np.concatenate([part.score[r, :, m] for part in parts])

    if request.kind in OF_CLASSES:
        of = OF_CLASSES[request.kind]
        each = [[of(score(r, m), y[r], weight) for r in range(responses)] for m in range(prefixes)]
        return np.asarray(np.mean(each, axis=1))
    gain = y[0] if request.kind == "ndcg" else np.exp2(y[0]) - 1.0
    if gain.min() < 0:
        raise DataError(f"target '{target}' is {y[0].min():g} in a row; a gain must be >= 0")
    share = np.bincount(query, weight) / np.bincount(query)
    if np.abs(weight - share[query]).max() > ROUNDING_SHARE * weight.max():
        raise DataError("the rows of a key differ in weight; the weight of a query is one number")
    ndcgs = ndcg((score(0, m) for m in range(prefixes)), gain, query, request.most)
    return np.asarray(ndcgs @ share / share.sum())
