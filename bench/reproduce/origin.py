"""Least squares without an intercept, from a Gram record."""

import numpy as np

import dbselect as ds


def through_origin(X: np.ndarray, y: np.ndarray, names: list[str]) -> ds.Gram:
    """Return the Gram by which models have no intercept.

    It is that of the n rows and their mirror images (-x, -y), halved: every mean is 0, so the
    centred sums are the sums of products themselves.

    Parameters
    ----------
    X : shape (n, d)
    y : shape (n,), the target "y"
    names : d columns
    """
    rows = np.column_stack([X, y])
    n, width = rows.shape
    return ds.Gram([*names, "y"], n, 0, float(n), np.zeros(width), rows.T @ rows)


def vector(model: ds.results.Model, names: list[str]) -> np.ndarray:
    """Return the coefficients of all columns, 0 of those that are not in the model."""
    return np.array([model.coefficients.get(name, 0.0) for name in names])
