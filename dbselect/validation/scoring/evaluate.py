"""Prefixes on other rows than they were found on.

The models stay as they are. Of linear ones a Gram of the rows is enough; with ``w`` in the
table's units and residual mean m,

    MSE = (yy - 2 w'c + w'Cw) + m^2        on the other rows
    r2  = 1 - MSE / var(y)                 explained = (MSE_0 - MSE - penalty) / var(y)

and of generalised linear ones the same with the mean deviance for the MSE, that of the rows'
own model without columns for the variance, and one pass over the rows.
"""

from collections.abc import Mapping
from collections.abc import Sequence as Names
from typing import Any, overload

import numpy as np
import polars as pl
import pyarrow as pa

from dbselect.errors import ArgumentError, DataError
from dbselect.linear.problem import constant_target, unusable
from dbselect.options.kinds import COLUMN
from dbselect.record.categories import Category
from dbselect.record.columns import SUFFIX
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
from dbselect.sources.wide.many_levels import has_many
from dbselect.validation.scoring.coefficients import coefficients_of
from dbselect.validation.scoring.judging import Measurable, beside_steps
from dbselect.validation.scoring.measured import Evaluation, measured
from dbselect.validation.scoring.row_scores import row_scores
from dbselect.validation.simulate import simulate
from dbselect.validation.unknown import unseen_in, with_mean_effects


@overload
def evaluate(
    sequence: AnySequence | AnyModel | Selected[Any] | AnytimePredictor,
    data: Any,
    *,
    weight: str | None = None,
) -> pl.DataFrame: ...


@overload
def evaluate(
    sequence: AnySequence | AnyModel | Selected[Any] | AnytimePredictor,
    data: Any,
    *,
    weight: str | None = None,
    metric: str | Names[str],
    key: str | None = None,
) -> Evaluation: ...


@one_snapshot
def evaluate(
    sequence: AnySequence | AnyModel | Selected[Any] | AnytimePredictor,
    data: Any,
    *,
    weight: str | None = None,
    metric: str | Names[str] | None = None,
    key: str | None = None,
) -> pl.DataFrame | Evaluation:
    """Return what each prefix explains on other data, or other metrics of it on their rows.

    Parameters
    ----------
    sequence : Sequence, or one Model; also of several responses or of a family, or Selected; or an
        AnytimePredictor
    data : a table that `gram` reads, with the columns and the target of the sequence; of
        linear models also the Gram of the other data, or its record, and no row is then
        read. An indicator that it lacks is 0, as nothing was missing there
    weight : of a table, column of row weights, >= 0
    metric : name of a metric, or several; default: what is explained

        ============================ ===============================================
        mse, rmse, mae, r2           of one number; of a family that of its mean
        accuracy, auc                of classes; of linear models of a target of 0
                                     and 1, foreseen where more than 1/2 is predicted
        log_loss, brier              of probabilities of classes
        ndcg, exponential_ndcg       of queries, with their places as in ``"ndcg@10"``:
                                     a row gains its target, or ``2**target - 1``
        ============================ ===============================================
    key : column whose values are the queries; with ndcg only

    Returns
    -------
    Of an `AnytimePredictor` the ``table`` of `Problem.simulate` on the rows: error against what is
    spent, of prefixes, of all that arrived, and of buying the next group row by row. Else
    without `metric` a DataFrame, one row a step: step, action, group, spent, explained, r2,
    mse; of a Model one row: spent, r2, mse. With a family deviance and accuracy stand in the
    place of mse. With `metric` an `Evaluation`, whose ``table`` has step, action, group, spent
    and the metrics by name, and whose ``plot()`` draws them against cost

    r2 is that of scikit-learn's ``r2_score`` on the rows, about their mean also of models through
    the origin, so that both compare; explained is 0 at step 0; mse is in the squared unit of the
    target. Of several responses explained and r2 are those of
    all, by their shares on the rows of the search; r2_each and mse_each are structs with
    those of each response.
    With a family, deviance is the mean per unit of weight (of classes twice scikit-learn's
    ``log_loss``), r2 is 1 - deviance / that of the rows' own model without columns, as in
    ``d2_log_loss_score`` and ``d2_tweedie_score``, and accuracy the share of the weight whose
    class is the likeliest (binomial: more likely than 1/2), NULL where there are no classes.

    Metrics are those of scikit-learn, but that no probability is rounded to 0 or 1: log_loss has
    no limit of 36.04 a row, auc orders rows by their linear predictors (several classes by
    probabilities), and predictions within 1e-12 of their size are equal. Several classes have the
    mean of their AUCs, each against the rest (``multi_class="ovr"``), and the sum over them as
    Brier score (``scale_by_half=False``); rows that are scored alike count in every order alike;
    ndcg is the mean over queries, and 0 of one without gain. A weight of queries is that of their
    rows, which must agree

    Raises
    ------
    ArgumentError : `sequence` is no such result; a Gram for models of a family or for a metric,
        which need rows; `weight` with a Gram; there is no such metric, or it means nothing for
        the family; ndcg without `key`, or a `key` without ndcg
    SourceError : there is no such table; beside an offset, a stream that can be read only once
    RecordError : a record is malformed, or has curves, dates, means or levels beside
        ``other`` that are not those of the fit
    ColumnError : the data lack a column, or have a date in another unit than the fit
    DataError : no usable rows, a constant target, or a value of it that the family or the
        classes of the model do not allow

    Warns
    -----
    UnknownLevelWarning : rows have a level of a category that the fit has not seen, and no
        column ``other`` takes it; they are judged with the mean effect of its levels over the
        rows of the fit
    SkippedRowsWarning : more than a tenth of the rows of a table is left out

    Notes
    -----
    A table is read with the terms of the sequence: its categories, curves, dates and means.
    Linear: O(steps D^2) on a Gram; of entries, and of a text of more than 1,000 levels, one pass
    as for metrics; errors of prediction below 1e-8 of the target's
    deviation drown in rounding. With a family: one pass, O(steps D) a row, on the rows
    where no column of the sequence is missing, so that all prefixes are judged on the same, and
    some more beside an offset, but of family poisson, for the model without columns.
    What the ridge takes is that share of the null deviance which it took on the rows of the
    search.
    Metrics: one pass, O(steps D) a row, on the rows where neither a column of the sequence nor
    target, weight and key are missing; also of a stream. Means need no memory for rows. Where
    their order counts, auc and ndcg, each row takes 8 (steps + 2) bytes of this process, of K
    classes 8 K (steps + 1) + 8, and its key; sorting takes O(steps n log n). Spark, Dask and
    Ray judge their rows where they are, and send sums, or what is ordered.

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
    >>> found = ds.evaluate(seq, table, metric=["auc", "log_loss"])
    >>> found.table.select("group", pl.col("auc", "log_loss").round(3)).rows()
    [(None, 0.5, 0.683), ('a', 0.708, 0.594)]
    """
    for name, column in (("weight", weight), ("key", key)):
        COLUMN.or_none().check(name, column)
    found = model_in(sequence)
    if isinstance(found, AnytimePredictor):
        options = {"weight": weight, "metric": metric, "key": key}
        given = next((name for name, value in options.items() if value is not None), None)
        if given is not None:
            raise ArgumentError(f"{given} is {options[given]!r}; a predictor is judged by mse")
        return simulate(found.problem.on_gram(found.gram), data).table
    if not isinstance(found, AnySequence | AnyModel):
        raise ArgumentError(
            f"sequence is a {type(sequence).__name__}; it must be a Sequence or a Model"
        )
    if metric is not None:
        return measured(_of_rows(found, data), data, metric, weight, key)
    if key is not None:
        raise ArgumentError(f"key is {key!r}; only a metric of queries has one, as 'ndcg'")
    if isinstance(found, GlmSequence | GlmModel):
        return _by_rows(found, data, weight)
    if isinstance(found, Sequence | Model) and _has_no_gram(found) and not is_gram(data):
        return _by_predictions(found, data, weight)
    gram = gram_there(found, data, weight)
    unseen = unseen_in(gram, found.terms.of(found.columns))
    if isinstance(found, JointSequence | JointModel):
        return _in_all(found, gram, unseen)
    return _on_gram(found, gram, unseen)


def _linear(found: Sequence | Model, mse: Vector, variance: float) -> pl.DataFrame:
    """Return what each prefix explains of one response, given its errors."""
    judged = {"r2": 1.0 - mse / variance, "mse": mse}
    if isinstance(found, Sequence):
        # On the rows of the search, r2 - explained is the penalty's share of the variance.
        penalty = (found.r2 - found.explained) * found.linear.target_spread**2
        # Through the origin the model without columns predicts 0.
        total = variance if found.has_intercept else mse[0]
        judged = {"explained": (mse[0] - mse - penalty) / total} | judged
    return beside_steps(found, judged)


def _on_gram(found: Sequence | Model, gram: Gram, unseen: Names[Category]) -> pl.DataFrame:
    """Return what each prefix explains of one response; `unseen` categories have new levels."""
    reason = unusable(gram, found.target)
    if reason is not None:
        raise DataError(reason)
    return _linear(found, *squared_errors(found, gram, unseen))


def _has_no_gram(found: Sequence | Model) -> bool:
    """Whether the columns are entries, or levels of a text too many for a Gram."""
    terms = found.terms.of(found.columns)
    return bool(terms.entries) or any(map(has_many, terms.categories))


def _by_predictions(found: Sequence | Model, data: Any, weight: str | None) -> pl.DataFrame:
    """Return what each prefix explains of one response, from what it predicts for each row."""
    judged = measured(found, data, ["r2", "mse"], weight, None).table
    r2, mse = judged["r2"].to_numpy(), judged["mse"].to_numpy()
    return _linear(found, mse, mse[0] / (1.0 - r2[0]))


def _in_all(joint: JointSequence | JointModel, gram: Gram, unseen: Names[Category]) -> pl.DataFrame:
    """Return what each prefix explains of all responses, and of each."""
    each = {name: _on_gram(own, gram, unseen) for name, own in joint.responses.items()}
    first = next(iter(each.values()))
    in_all = {
        name: joint.share @ np.array([own[name].to_numpy() for own in each.values()])
        for name in ("explained", "r2")
        if name in first.columns
    }
    by_name = {
        f"{name}_each": by_response({response: own[name] for response, own in each.items()})
        for name in ("r2", "mse")
    }
    return first.drop("mse").with_columns(**in_all, **by_name)


def _by_rows(found: GlmSequence | GlmModel, data: Any, weight: str | None) -> pl.DataFrame:
    """Return how each prefix of a family does, from one pass over a table."""
    if is_gram(data):
        raise ArgumentError(
            f"data is a Gram and holds no rows, and the deviance of family {found.family!r} "
            "needs them; give the table"
        )
    scores = row_scores(found, data, weight)
    if scores.null_deviance == 0:
        raise DataError(constant_target(found.target, scores.rows, scores.skipped))
    judged: dict[str, Any] = {"accuracy": pl.lit(None, pl.Float64)} | scores.measures
    judged = {name: judged[name] for name in ("r2", "deviance", "accuracy")}
    if isinstance(found, GlmSequence):
        drop = (scores.deviance[0] - scores.deviance) / scores.null_deviance
        judged = {"explained": drop - (found.r2 - found.explained)} | judged
    return beside_steps(found, judged)


def _of_rows(found: Any, data: Any) -> Measurable:
    """Refuse what has no single prediction a row, and data without rows."""
    if isinstance(found, JointSequence | JointModel):
        raise ArgumentError(
            f"sequence has the responses {list(found.responses)}; a metric is of one: give "
            f"sequence.responses[{next(iter(found.responses))!r}]"
        )
    if is_gram(data):
        raise ArgumentError(
            "data is a Gram and holds no rows, and a metric needs them; give the table, "
            "or leave metric out for r2 and mse of linear models"
        )
    measurable: Measurable = found
    return measurable


def is_gram(data: Any) -> bool:
    """Whether data are a Gram, its record or a file of one, which hold no rows."""
    return isinstance(data, Gram | Mapping | pa.Scalar) or stored_gram(data) is not None


def gram_there(
    found: Sequence | Model | JointSequence | JointModel, data: Any, weight: str | None
) -> Gram:
    """Return the Gram that is given, or that of the target and the columns in a table."""
    if isinstance(data, Mapping | pa.Scalar):
        data = Gram.from_struct(data)
    given = data if isinstance(data, Gram) else stored_gram(data)
    if given is not None:
        if weight is not None:
            raise ArgumentError(f"weight is {weight!r}; a Gram has its weights already")
        return given
    targets = (
        [*found.responses] if isinstance(found, JointSequence | JointModel) else [found.target]
    )
    inputs = inputs_as_fitted(found.columns, found.terms)
    plain = [one for one in inputs if not isinstance(one, Product)]  # those are made anyway
    marked = [one.source for one in plain if one.source + SUFFIX in one.names]
    return read_gram(
        data,
        [*targets, *(one.source for one in plain)],
        weight,
        null_policy=dict.fromkeys(marked, "indicator"),
        terms=found.terms.of({*targets, *found.columns}),
    )


def squared_errors(
    sequence: Sequence | Model, gram: Gram, unseen: Names[Category] = ()
) -> tuple[Vector, float]:
    """Return each prefix's MSE, shape (M,), and the target's variance; `unseen` as `_on_gram`."""
    columns = list(sequence.columns)
    columns, constants, each = with_mean_effects(columns, *coefficients_of(sequence), unseen)
    coef, intercept = each[..., 0], constants[..., 0]
    there = as_fitted(gram, [sequence.target, *columns], sequence.terms)
    C = there.covariance()
    bias = there.mean[0] - intercept - coef @ there.mean[1:]
    variance = C[0, 0] - 2.0 * coef @ C[1:, 0] + np.einsum("si,si->s", coef @ C[1:, 1:], coef)
    return np.maximum(variance, 0.0) + bias**2, float(C[0, 0])
