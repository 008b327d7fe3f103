"""How uncertain r2 is, as few rows have both of two groups: what a next trial is to buy."""

from collections.abc import Sequence

import numpy as np

from dbselect.errors import DataError
from dbselect.record.gram import Gram, Matrix


def r2_errors(
    gram: Gram, target: str, groups: Sequence[Sequence[str]], always: Sequence[str]
) -> Matrix:
    """Return the standard error of r2 that the covariance of each pair has from one row.

    With r2 of the model with all columns, coefficients b and the score ``s_g = b_g' x_g`` of a
    group, ``d r2 = -2 b_g' dS_gh b_h / S_yy``. Given the columns that all rows have and the target,
    n rows leave the covariance of two scores a variance of at most ``v_g v_h / n`` under normality,
    v their variances; no covariance is farther from 0 than ``sqrt(v_g v_h)``, whatever n is.
    """
    spread = np.sqrt(np.diagonal(gram.covariance()))
    place = {name: at for at, name in enumerate(gram.columns)}
    y = place[target]
    if not spread[y] > 0:
        raise DataError(f"target '{target}' is constant, so that it has no r2")
    unit = np.where(spread > 0, spread, 1.0)
    correlation = gram.covariance() / np.outer(unit, unit)
    features = [at for at in range(len(unit)) if at != y]
    share = np.zeros(len(unit))
    # Levels of a text depend on each other: any solution has the same scores.
    share[features] = np.linalg.lstsq(
        correlation[np.ix_(features, features)], correlation[features, y], rcond=None
    )[0]
    scores = np.zeros((len(unit), len(groups)))
    for at, columns in enumerate(groups):
        own = [place[name] for name in columns if name in place]
        scores[own, at] = share[own]
    given = [place[name] for name in {*always, target} if name in place]
    across = correlation[given] @ scores
    known = np.linalg.lstsq(correlation[np.ix_(given, given)], across, rcond=None)[0]
    variance = np.einsum("jg,jk,kg->g", scores, correlation, scores) - (across * known).sum(axis=0)
    root = np.sqrt(np.maximum(variance, 0.0))
    return np.asarray(2.0 * np.outer(root, root))
