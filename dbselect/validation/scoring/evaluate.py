"""Evaluate the prefixes of a sequence on other rows.

The models are not refitted. Linear models need only a Gram of the rows; with ``w`` in the
table's units and residual mean m,

    MSE = (yy - 2 w'c + w'Cw) + m^2        on the other rows
    r2  = 1 - MSE / var(y)                 explained = (MSE_0 - MSE - penalty) / var(y)

Generalised linear models take one pass over the rows: the mean deviance replaces the MSE, and
the deviance of the null model of these rows replaces the variance.
"""

from collections.abc import Mapping
from collections.abc import Sequence as Names
from typing import Any, overload

import numpy as np
import polars as pl
import pyarrow as pa

from dbselect import _forked
from dbselect.errors import ArgumentError, DataError
from dbselect.linear.problem import constant_target, unusable
from dbselect.options.kinds import COLUMN, COLUMNS
from dbselect.record.categories import Category
from dbselect.record.columns import SUFFIX, match
from dbselect.record.gram import Gram, Vector, as_fitted
from dbselect.record.inputs import Product, inputs_as_fitted
from dbselect.results.glm.model import GlmModel
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.joint import AnySequence, JointSequence, by_response
from dbselect.results.model import JointModel, Model
from dbselect.results.prediction.arrived import AnytimePredictor
from dbselect.results.selected import AnyModel, Selected, model_in
from dbselect.results.sequence import Sequence
from dbselect.sources.open import stored_gram
from dbselect.sources.read import gram as read_gram
from dbselect.sources.snapshots import one_snapshot
from dbselect.sources.wide.wide_rows import has_many
from dbselect.validation.scoring.judging import (
    Measurable,
    beside_steps,
    coefficients_of,
    row_scores,
    unseen_in,
    with_mean_effects,
)
from dbselect.validation.scoring.measured import Evaluation, measured
from dbselect.validation.scoring.metrics import with_payoff
from dbselect.validation.simulate import simulate


@overload
def evaluate(
    sequence: AnySequence | AnyModel | Selected[Any] | AnytimePredictor,
    data: Any,
    *,
    weight: str | None = None,
    watch: Names[str] = (),
) -> pl.DataFrame: ...


@overload
def evaluate(
    sequence: AnySequence | AnyModel | Selected[Any] | AnytimePredictor,
    data: Any,
    *,
    weight: str | None = None,
    metric: str | Names[str],
    payoff: tuple[float, float] | None = None,
    key: str | None = None,
) -> Evaluation: ...


@overload
def evaluate(
    sequence: AnySequence | AnyModel | Selected[Any] | AnytimePredictor,
    data: Any,
    *,
    weight: str | None = None,
    payoff: tuple[float, float],
) -> Evaluation: ...


@one_snapshot
def evaluate(
    sequence: AnySequence | AnyModel | Selected[Any] | AnytimePredictor,
    data: Any,
    *,
    weight: str | None = None,
    metric: str | Names[str] | None = None,
    payoff: tuple[float, float] | None = None,
    key: str | None = None,
    watch: Names[str] = (),
) -> pl.DataFrame | Evaluation:
    """Score each prefix on other data: explained and r2, or the given metrics.

    Parameters
    ----------
    sequence : Sequence or Model, also of several responses or of a family; Selected; or
        AnytimePredictor
    data : a table that `gram` reads, with the columns and the target of the sequence; for
        linear models also the Gram of the other data, or its record, so that no row is
        read. A missing-value indicator that the data lack is taken as 0
    weight : column of row weights in a table, >= 0
    metric : name of a metric, or several; default: explained, r2 and mse or deviance

        ============================ ===============================================
        mse, rmse, mae, r2           numeric targets; with a family of the predicted mean
        accuracy, auc, gini, ks      classes; linear models need a target of 0 and 1,
                                     and predict 1 where the prediction exceeds 1/2
        log_loss, brier              probabilities of classes
        ndcg, exponential_ndcg       rankings within queries, cut as in ``"ndcg@10"``;
                                     the gain is the target, or ``2**target - 1``
        ============================ ===============================================
    payoff : what an accepted row earns if its target is 1, and loses if it is 0, in any unit of
        money: metric ``payoff`` is the mean that all rows earn if those are accepted that are
        expected to earn more than 0. For a target of 0 and 1
    key : column that identifies the queries; with ndcg only
    watch : names and globs of columns of the data: for each the table has a column of its name,
        the correlation of every prefix's prediction with it; of linear models of one response,
        without `metric`

    Returns
    -------
    For an `AnytimePredictor` the ``table`` of `Problem.simulate` on the rows: error against cost
    for prefixes, for all groups that arrived, and for choosing the next group row by row. Else
    without `metric` a DataFrame, one row per step: step, action, group, spent, explained, r2,
    mse; for a Model one row: spent, r2, mse. With a family, deviance and accuracy replace
    mse. With `metric` an `Evaluation`, whose ``table`` has step, action, group, spent
    and the metrics by name, and whose ``plot()`` draws them against cost

    r2 equals scikit-learn's ``r2_score`` on the rows; it is about their mean also for models
    through the origin, so that the two compare. explained is 0 at step 0; mse is in the squared
    unit of the target. For several responses explained and r2 are averages over the responses,
    weighted by their shares on the rows of the search; the structs r2_each and mse_each have
    one value per response.
    With a family, deviance is the mean per unit of weight (for classes twice scikit-learn's
    ``log_loss``), r2 is 1 - deviance / deviance of the null model of these rows, as in
    ``d2_log_loss_score`` and ``d2_tweedie_score``, and accuracy is the share of the weight whose
    class is predicted (binomial: probability above 1/2), NULL where there are no classes.

    Metrics are those of scikit-learn, except that no probability is rounded to 0 or 1: log_loss
    has no limit of 36.04 a row, auc orders rows by their linear predictors (several classes by
    probabilities), and predictions within 1e-12 of their size are ties. For several classes auc
    is the mean of one-versus-rest AUCs (``multi_class="ovr"``), and the Brier score is the sum
    over classes (``scale_by_half=False``). gini is 2 auc - 1, and ks the largest distance between
    the distributions of predictions of both classes, as scipy's ``ks_2samp``. Ties count as the
    mean over their orders. ndcg is the mean over queries, 0 for a query without gain. The weight of
    a query is that of its rows, which must agree

    Raises
    ------
    ArgumentError : `sequence` is no such result; a Gram for models of a family or for a metric,
        which need rows; `weight` with a Gram; an unknown metric, or one that is not defined for
        the family; ndcg without `key`, or `key` without ndcg
    SourceError : there is no such table; with an offset, a stream that can be read only once
    RecordError : a record is malformed, or its curves, dates, means or levels beside
        ``other`` differ from those of the fit
    ColumnError : the data lack a column, or have a date in another unit than the fit
    DataError : no usable rows, a constant target, or a target value that the family or the
        classes of the model do not allow

    Warns
    -----
    UnknownLevelWarning : rows have a level of a category that was not in the fit, and there is
        no column ``other``; such a level gets the mean effect of the levels over the
        rows of the fit
    SkippedRowsWarning : more than a tenth of the rows of a table is skipped

    Notes
    -----
    A table is read with the terms of the sequence: its categories, curves, dates and means.
    Linear: O(steps D^2) on a Gram; for entries, and for a text of more than 1,000 levels, one
    pass as for metrics. Prediction errors below 1e-8 of the target's standard deviation are
    lost in rounding. With a family: one pass, O(steps D) a row, on the rows where no column of
    the sequence is missing, so that all prefixes are scored on the same rows. With an offset the
    null model takes further passes, except for poisson.
    The penalty is the same share of the null deviance as on the rows of the search.
    Metrics: one pass, O(steps D) a row, on the rows where no column of the sequence, target,
    weight or key is missing; a stream will do. Metrics that are means keep no rows in memory.
    auc and ndcg, which sort, keep 8 (steps + 2) bytes a row in this process, with K classes
    8 K (steps + 1) + 8, and its key; sorting takes O(steps n log n). Spark, Dask and
    Ray evaluate their rows in place, and send sums, or the values to sort.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> train = pl.DataFrame({"a": [1, 2, 3, 4], "y": [1, 2, 3, 4]})
    >>> test = pl.DataFrame({"a": [1, 2, 3, 4], "y": [1, 2, 3, 6]})
    >>> seq = ds.anytime_sequence(train, "y")
    >>> ds.evaluate(seq, ds.gram(test))["mse"].to_list()
    [3.75, 1.0]
    >>> table = pl.DataFrame({"a": [0, 0, 0, 1, 1, 1, 1], "y": [0, 0, 1, 0, 1, 1, 1]})
    >>> seq = ds.anytime_sequence(table, "y", family="binomial")
    >>> ds.evaluate(seq, table).select("group", pl.col("deviance", "accuracy").round(3)).rows()
    [(None, 1.366, 0.571), ('a', 1.188, 0.714)]
    >>> evaluation = ds.evaluate(seq, table, metric=["auc", "log_loss"])
    >>> evaluation.table.select("group", pl.col("auc", "log_loss").round(3)).rows()
    [(None, 0.5, 0.683), ('a', 0.708, 0.594)]
    """
    _forked.check_threads()
    for name, column in (("weight", weight), ("key", key)):
        COLUMN.or_none().check(name, column)
    COLUMNS.check("watch", watch)
    result = model_in(sequence)
    is_watched = isinstance(result, Sequence | Model) and metric is None
    if watch and not (is_watched and not _has_no_gram(result)):
        raise ArgumentError(
            f"watch is {list(watch)}; correlations are computed on the Gram of a linear model of "
            "one response, without metric"
        )
    if isinstance(result, AnytimePredictor):
        options = {"weight": weight, "metric": metric, "payoff": payoff, "key": key}
        extra = next((name for name, value in options.items() if value is not None), None)
        if extra is not None:
            raise ArgumentError(f"{extra} is {options[extra]!r}; a predictor is judged by mse")
        return simulate(result.problem.on_gram(result.gram), data).table
    if not isinstance(result, AnySequence | AnyModel):
        raise ArgumentError(
            f"sequence is a {type(sequence).__name__}; it must be a Sequence or a Model"
        )
    metric = with_payoff(metric, payoff)
    if metric is not None:
        return measured(_check_measurable(result, data), data, metric, weight, key)
    if key is not None:
        raise ArgumentError(f"key is {key!r}; only a metric of queries has one, as 'ndcg'")
    if isinstance(result, GlmSequence | GlmModel):
        return _by_rows(result, data, weight)
    if isinstance(result, Sequence | Model) and _has_no_gram(result) and not is_gram(data):
        return _by_prediction(result, data, weight)
    gram = gram_of_columns(result, data, weight, watch)
    unseen = unseen_in(gram, result.terms.of(result.columns))
    if isinstance(result, JointSequence | JointModel):
        return _joint(result, gram, unseen)
    table = _on_gram(result, gram, unseen)
    return with_watched(table, result, gram, watch) if watch else table


def _linear(result: Sequence | Model, mse: Vector, variance: float) -> pl.DataFrame:
    """Table of explained, r2 and mse of each prefix for one response."""
    judged = {"r2": 1.0 - mse / variance, "mse": mse}
    if isinstance(result, Sequence):
        # On the rows of the search r2 - explained is the penalty's share of the variance.
        penalty = (result.r2 - result.explained) * result.linear.target_spread**2
        # Without an intercept the model without columns predicts 0.
        total = variance if result.has_intercept else mse[0]
        judged = {"explained": (mse[0] - mse - penalty) / total} | judged
    return beside_steps(result, judged)


def _on_gram(result: Sequence | Model, gram: Gram, unseen: Names[Category]) -> pl.DataFrame:
    """Score each prefix for one response on a Gram; `unseen` categories have new levels."""
    reason = unusable(gram, result.target)
    if reason is not None:
        raise DataError(reason)
    return _linear(result, *squared_errors(result, gram, unseen))


def _has_no_gram(result: Sequence | Model) -> bool:
    """Whether the columns are entries, or a category has too many levels for a Gram."""
    terms = result.terms.of(result.columns)
    return bool(terms.entries) or any(map(has_many, terms.categories))


def _by_prediction(result: Sequence | Model, data: Any, weight: str | None) -> pl.DataFrame:
    """Score each prefix for one response, from its predictions of the rows."""
    judged = measured(result, data, ["r2", "mse"], weight, None).table
    r2, mse = judged["r2"].to_numpy(), judged["mse"].to_numpy()
    return _linear(result, mse, mse[0] / (1.0 - r2[0]))


def _joint(joint: JointSequence | JointModel, gram: Gram, unseen: Names[Category]) -> pl.DataFrame:
    """Score each prefix for all responses together, and for each."""
    tables = {name: _on_gram(table, gram, unseen) for name, table in joint.responses.items()}
    first = next(iter(tables.values()))
    in_all = {
        name: joint.share @ np.array([table[name].to_numpy() for table in tables.values()])
        for name in ("explained", "r2")
        if name in first.columns
    }
    by_name = {
        f"{name}_each": by_response({response: table[name] for response, table in tables.items()})
        for name in ("r2", "mse")
    }
    return first.drop("mse").with_columns(**in_all, **by_name)


def _by_rows(result: GlmSequence | GlmModel, data: Any, weight: str | None) -> pl.DataFrame:
    """Score each prefix of a GLM in one pass over a table."""
    if is_gram(data):
        raise ArgumentError(
            f"data is a Gram and holds no rows, and the deviance of family {result.family!r} "
            "needs them; give the table"
        )
    scores = row_scores(result, data, weight)
    if scores.null_deviance == 0:
        raise DataError(constant_target(result.target, scores.rows, scores.skipped))
    judged: dict[str, Any] = {"accuracy": pl.lit(None, pl.Float64)} | scores.measures
    judged = {name: judged[name] for name in ("r2", "deviance", "accuracy")}
    if isinstance(result, GlmSequence):
        drop = (scores.deviance[0] - scores.deviance) / scores.null_deviance
        judged = {"explained": drop - (result.r2 - result.explained)} | judged
    return beside_steps(result, judged)


def _check_measurable(result: Any, data: Any) -> Measurable:
    """Refuse results of several responses, and data without rows."""
    if isinstance(result, JointSequence | JointModel):
        raise ArgumentError(
            f"sequence has the responses {list(result.responses)}; a metric is of one: give "
            f"sequence.responses[{next(iter(result.responses))!r}]"
        )
    if is_gram(data):
        raise ArgumentError(
            "data is a Gram and holds no rows, and a metric needs them; give the table, "
            "or leave metric out for r2 and mse of linear models"
        )
    measurable: Measurable = result
    return measurable


def is_gram(data: Any) -> bool:
    """Whether data are a Gram, its record or a file of one, which hold no rows."""
    return isinstance(data, Gram | Mapping | pa.Scalar) or stored_gram(data) is not None


def gram_of_columns(
    result: Sequence | Model | JointSequence | JointModel,
    data: Any,
    weight: str | None,
    also: Names[str] = (),
) -> Gram:
    """Return the given Gram, or the Gram of the target and the model's columns in a table."""
    if isinstance(data, Mapping | pa.Scalar):
        data = Gram.from_struct(data)
    gram = data if isinstance(data, Gram) else stored_gram(data)
    if gram is not None:
        if weight is not None:
            raise ArgumentError(f"weight is {weight!r}; a Gram has its weights already")
        return gram
    targets = (
        [*result.responses] if isinstance(result, JointSequence | JointModel) else [result.target]
    )
    inputs = inputs_as_fitted(result.columns, result.terms)
    plain = [field for field in inputs if not isinstance(field, Product)]  # those are made anyway
    marked = [field.source for field in plain if field.source + SUFFIX in field.names]
    return read_gram(
        data,
        list(dict.fromkeys([*targets, *(field.source for field in plain), *also])),
        weight,
        null_policy=dict.fromkeys(marked, "indicator"),
        terms=result.terms.of({*targets, *result.columns}),
    )


def squared_errors(
    sequence: Sequence | Model, gram: Gram, unseen: Names[Category] = ()
) -> tuple[Vector, float]:
    """Return each prefix's MSE, shape (M,), and the target's variance; `unseen` as `_on_gram`."""
    columns = list(sequence.columns)
    columns, constants, coefs = with_mean_effects(columns, *coefficients_of(sequence), unseen)
    # A column without a coefficient need not be there.
    held, used = set(gram.columns), np.count_nonzero(coefs[..., 0], axis=0)
    at = [j for j, name in enumerate(columns) if used[j] or name in held]
    columns, coef, intercept = [columns[j] for j in at], coefs[:, at, 0], constants[..., 0]
    fitted_gram = as_fitted(gram, [sequence.target, *columns], sequence.terms)
    C = fitted_gram.covariance()
    bias = fitted_gram.mean[0] - intercept - coef @ fitted_gram.mean[1:]
    variance = C[0, 0] - 2.0 * coef @ C[1:, 0] + np.einsum("si,si->s", coef @ C[1:, 1:], coef)
    return np.maximum(variance, 0.0) + bias**2, float(C[0, 0])


def with_watched(
    table: pl.DataFrame, result: Sequence | Model, gram: Gram, watch: Names[str]
) -> pl.DataFrame:
    """Add for each watched column the correlation of each prefix's prediction with it.

    NULL where the column or the prediction is constant. O(steps D^2).
    """
    names = match(watch, gram.columns, "watch")
    for name in names:
        if name in table.columns:
            raise ArgumentError(
                f"watch names column '{name}', as a column of the result; rename it"
            )
    columns = list(result.columns)
    coef = coefficients_of(result)[1][..., 0]
    fitted = as_fitted(gram, columns, result.terms).covariance() if columns else np.zeros((0, 0))
    position = {name: at for at, name in enumerate(gram.columns)}
    variance = np.maximum(np.einsum("sd,de,se->s", coef, fitted, coef), 0.0)
    found = {}
    for name in names:
        other = gram.comoment[position[name]] / gram.weight
        # A level that these rows lack is a column of 0.
        own = np.array([other[position[c]] if c in position else 0.0 for c in columns])
        with np.errstate(divide="ignore", invalid="ignore"):
            values = coef @ own / np.sqrt(variance * other[position[name]])
        found[name] = pl.Series(name, np.clip(values, -1.0, 1.0)).fill_nan(None)
    return table.with_columns(*found.values())
