"""A sequence on other rows than it was found on, from their Gram alone.

The models stay as they are; with ``w`` in the table's units and residual mean m,

    MSE = (yy - 2 w'c + w'Cw) + m^2        on the other rows
    r2  = 1 - MSE / var(y)                 explained = (MSE_0 - MSE - penalty) / var(y)
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, DataError
from dbselect.linear.problem import unusable
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.missing import padded
from dbselect.results.joint import JointSequence, by_response
from dbselect.results.joint_model import JointModel
from dbselect.results.model import Model
from dbselect.results.selected import Selected, model_in
from dbselect.results.sequence import Sequence


def evaluate(
    sequence: Sequence | Model | JointSequence | JointModel | Selected[Any],
    gram: Gram | Mapping[str, Any],
) -> pl.DataFrame:
    """Return what each prefix explains on other data, without touching a row.

    Parameters
    ----------
    sequence : Sequence, or one Model; also of several responses, or Selected
    gram : Gram of the other data, or its record, with the columns and the target of the
        sequence; an indicator that it lacks is 0, as nothing was missing there

    Returns
    -------
    DataFrame, one row a step: step, action, group, spent, explained, r2, mse; of a Model
    one row: spent, r2, mse

    r2 is that of scikit-learn's ``r2_score`` on the rows; explained is 0 at step 0; mse
    is in the squared unit of the target. Of several responses explained and r2 are those of
    all, by their shares on the rows of the search; r2_each and mse_each are structs with
    those of each response

    Raises
    ------
    ArgumentError : `sequence` is no such result
    RecordError : `gram` is neither a Gram nor a record
    ColumnError : the Gram lacks a column
    DataError : no usable rows, or a constant target

    Notes
    -----
    O(steps D^2), no row is read. Errors of prediction below 1e-8 of the target's
    deviation drown in rounding.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> train = pl.DataFrame({"a": [1, 2, 3, 4], "y": [1, 2, 3, 4]})
    >>> test = pl.DataFrame({"a": [1, 2, 3, 4], "y": [1, 2, 3, 6]})
    >>> seq = ds.anytime_sequence(train, "y")
    >>> ds.evaluate(seq, ds.gram(test))["mse"].to_list()
    [3.75, 1.0]
    """
    sequence = model_in(sequence)
    if not isinstance(sequence, Sequence | Model | JointSequence | JointModel):
        raise ArgumentError(
            f"sequence is a {type(sequence).__name__}; it must be a Sequence or a Model"
        )
    if isinstance(sequence, JointSequence | JointModel):
        return _in_all(sequence, gram)
    gram = gram if isinstance(gram, Gram) else Gram.from_struct(gram)
    reason = unusable(gram, sequence.target)
    if reason is not None:
        raise DataError(reason)
    mse, variance = squared_errors(sequence, gram)
    if isinstance(sequence, Model):
        return pl.DataFrame({"spent": [sequence.spent], "r2": 1.0 - mse / variance, "mse": mse})
    # On the rows of the search, r2 - explained is the penalty's share of the variance.
    penalty = (sequence.r2 - sequence.explained) * sequence.problem.target_spread**2
    return sequence.steps.select("step", "action", "group", "spent").with_columns(
        explained=(mse[0] - mse - penalty) / variance, r2=1.0 - mse / variance, mse=mse
    )


def _in_all(joint: JointSequence | JointModel, gram: Gram | Mapping[str, Any]) -> pl.DataFrame:
    """Return what each prefix explains of all responses, and of each."""
    gram = gram if isinstance(gram, Gram) else Gram.from_struct(gram)
    each = {name: evaluate(own, gram) for name, own in joint.responses.items()}
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


def squared_errors(sequence: Sequence | Model, gram: Gram) -> tuple[Vector, float]:
    """Return the mean squared error of each prefix, shape (M,), and the target's variance.

    Parameters
    ----------
    sequence : Sequence of M prefixes, or one Model
    gram : Gram of the other data, of at least one row
    """
    coef, intercept = coefficients_of(sequence)
    marked = padded(gram, sequence.columns)
    there = marked.select([sequence.target, *sequence.columns])
    C = there.covariance()
    bias = there.mean[0] - intercept - coef @ there.mean[1:]
    variance = C[0, 0] - 2.0 * coef @ C[1:, 0] + np.einsum("si,si->s", coef @ C[1:, 1:], coef)
    return np.maximum(variance, 0.0) + bias**2, float(C[0, 0])


def coefficients_of(sequence: Sequence | Model) -> tuple[Matrix, Vector]:
    """Return coefficients, shape (M, D), and intercepts, shape (M,), of M prefixes."""
    if isinstance(sequence, Model):
        coef = np.array([list(sequence.coefficients.values())])
        return coef, np.array([sequence.intercept])
    return sequence.coef, sequence.intercept
