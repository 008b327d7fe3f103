"""Validation of the rows of estimators: an array, sparse or not, or a frame with text."""

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import polars.selectors as cs
from scipy.sparse import issparse
from sklearn.utils.validation import _check_sample_weight, _check_y, validate_data

from dbselect import _forked
from dbselect.errors import DataError
from dbselect.record.foreign import rows_in_memory
from dbselect.record.gram import Matrix, Vector
from dbselect.sources.rows import Index

#: An array, a SciPy matrix in CSR form, or a frame with text.
Rows = Any


def validated(
    estimator: Any, X: Any, y: Any, *, numeric: bool = True, several: bool = False
) -> tuple[Rows, Any]:
    """Validate rows and target of a fit, and keep the column names; ValueError as scikit-learn."""
    _forked.check_threads()
    checks: dict[str, Any] = {"multi_output": several, "y_numeric": numeric}
    if not has_text(X):
        return validate_data(estimator, X, y, ensure_min_samples=2, **_NUMBERS, **checks)  # type: ignore[no-any-return]
    validate_data(estimator, X, y, skip_check_array=True)
    y = _check_y(y, **checks, estimator=estimator)
    frame = as_polars(X)
    if len(y) != frame.height or frame.height < 2:
        raise DataError(
            f"X has {frame.height} rows and y {len(y)}; they must be equal and 2 at least"
        )
    return frame, y


def rows_to_predict(estimator: Any, X: Any) -> Rows:
    """Validate rows to predict, which have the columns of the fit and may have gaps."""
    if not has_text(X):
        return validate_data(estimator, X, reset=False, **_NUMBERS)
    validate_data(estimator, X, reset=False, skip_check_array=True)
    return as_polars(X)


def rows_that_count(X: Any, sample_weight: Any) -> tuple[Index, Vector | None]:
    """Return the rows of weight > 0 with their weights, or None; DataError if all are 0."""
    if sample_weight is None:
        return np.arange(X.shape[0]), None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0).any():
        raise DataError(f"a sample weight is {weight.min():g}; weights must be >= 0")
    kept = np.flatnonzero(weight)
    if not kept.size:
        raise DataError("all sample weights are zero; at least one row must count")
    return kept, weight[kept]


def column_names(estimator: Any) -> list[str]:
    """Return the column names of the fit."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    return [f"x{j}" for j in range(estimator.n_features_in_)]


def has_text(X: Any) -> bool:
    """Whether X is a frame with a column that is not of numbers or booleans."""
    if isinstance(X, pl.DataFrame):
        return not all(dtype.is_numeric() or dtype == pl.Boolean for dtype in X.dtypes)
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        return False
    return any(getattr(dtype, "kind", "O") not in "biuf" for dtype in X.dtypes)


def texts_of_many_levels(X: Rows, most: int) -> list[str]:
    """Return the columns of text of a frame that have more levels than a category may have."""
    if not isinstance(X, pl.DataFrame):
        return []
    counts = X.select((cs.string() | cs.categorical()).drop_nulls().n_unique())
    return [name for name in counts.columns if counts[name].item() > most]


def as_polars(X: Any) -> pl.DataFrame:
    """Return a frame of pandas or Polars as one of Polars, NaN as NULL."""
    frame = rows_in_memory(X, texts=True)
    return frame.with_columns(pl.col(pl.Float32, pl.Float64).fill_nan(None))


def dense(X: Rows) -> Matrix:
    """Convert rows that may be sparse to an array."""
    return np.asarray(X.toarray() if issparse(X) else X)


def complete(predictions: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return predictions; DataError if one is missing."""
    lacking = np.flatnonzero(np.isnan(predictions.reshape(len(predictions), -1)).any(axis=1))
    if lacking.size:
        raise DataError(
            f"row {lacking[0]} of X lacks a value that the model needs, or has a text that no row "
            "of the fit had; with budget= each row has the longest prefix that it can have"
        )
    return predictions


_NUMBERS: dict[str, Any] = {
    "dtype": np.float64, "accept_sparse": "csr", "ensure_all_finite": "allow-nan",
}  # fmt: skip
