"""The criteria of `selection.criteria`, for many records side by side.

A rule makes a criterion for some problems; the criterion maps their states to one number
a group and record. What is rounding counts as 0 there and here.
"""

from collections.abc import Callable

import numpy as np

from dbselect.linear.batched import States
from dbselect.linear.problem import Index, by_size, inverse_root
from dbselect.record.gram import Matrix
from dbselect.record.steps import ROUNDING_GAIN
from dbselect.selection.rounding import ROUNDING_GRADIENT, ROUNDING_WHITENED, above

#: States -> the score of each group in each record, before the cost; shape (J, B).
BatchedCriterion = Callable[[States], Matrix]


def batched_forward_regression(states: States) -> BatchedCriterion:
    """CS-G-FR: the exact gain."""
    buckets = list(by_size(states.members))

    def criterion(states: States) -> Matrix:
        scores = np.empty((len(states.members), states.b.shape[1]))
        for groups, columns in buckets:
            scores[groups] = states.gains(columns)
        return above(scores, ROUNDING_GAIN)

    return criterion


def batched_orthogonal_matching_pursuit(states: States) -> BatchedCriterion:
    """CS-G-OMP: the gradient, whitened within the group."""
    whiteners = [
        (groups, columns, _whitener(states.problem.G, columns))
        for groups, columns in by_size(states.members)
    ]

    def criterion(states: States) -> Matrix:
        scores = np.empty((len(states.members), states.b.shape[1]))
        for groups, columns, root in whiteners:
            white = (root * states.b[columns][:, :, None]).sum(axis=1)
            scores[groups] = (white**2).sum(axis=1)
        return above(scores, ROUNDING_WHITENED)

    return criterion


def batched_unwhitened(states: States) -> BatchedCriterion:
    """CS-G-OMP without whitening: the gradient as it is, in the caller's scaling."""
    return _of_gradient(states, lambda squares: squares.sum(axis=1))


def batched_single(states: States) -> BatchedCriterion:
    """CS-G-OMP by the best single column of each group."""
    return _of_gradient(states, lambda squares: squares.max(axis=1))


def _of_gradient(states: States, summary: Callable[[Matrix], Matrix]) -> BatchedCriterion:
    buckets = list(by_size(states.members))
    units = states.problem.unit**2

    def criterion(states: States) -> Matrix:
        scores = np.empty((len(states.members), states.b.shape[1]))
        squares = above(states.b**2, ROUNDING_GRADIENT) * units
        for groups, columns in buckets:
            scores[groups] = summary(squares[columns])
        return scores

    return criterion


def _whitener(G: Matrix, columns: Index) -> Matrix:
    """Return `inverse_root` of the blocks of n groups of s columns; shape (n, s, s, B)."""
    blocks = np.moveaxis(G[columns[:, :, None], columns[:, None, :]], -1, 1)
    root = inverse_root(blocks.reshape(-1, *blocks.shape[2:])).reshape(blocks.shape)
    return np.ascontiguousarray(np.moveaxis(root, 1, -1))
