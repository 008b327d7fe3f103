"""Sparse matrices of SciPy as tables."""

from typing import Any

import pyarrow as pa
from scipy.sparse import issparse

from dbselect.errors import ArgumentError, ColumnError
from dbselect.record.entries import as_map
from dbselect.record.foreign import is_frame, native


def sparse_table(X: Any, columns: Any, *, field: str = "x") -> pa.Table:
    """Return the rows of a sparse matrix as a table, for a search with ``gram="lazy"``.

    Parameters
    ----------
    X : matrix or array of SciPy, shape (n, D); of a CSR matrix nothing is copied
    columns : the other columns, the target among them: a frame, an Arrow table, or a mapping
        of names to n values each
    field : name of the field of X: column j of X is column ``x[j]``, j from 0 on

    Returns
    -------
    Arrow table of `columns`, and of `field`, a MAP of the entries of each row

    Raises
    ------
    ArgumentError : X is no sparse matrix; columns are none; field is no text
    ColumnError : columns have another number of rows, or a column of the name of the field

    Examples
    --------
    >>> import dbselect as ds
    >>> import numpy as np
    >>> from scipy import sparse
    >>> X = sparse.csr_matrix([[0, 1], [2, 0], [0, 0], [1, 1]])
    >>> table = ds.io.sparse_table(X, {"y": [6.0, 9.0, 5.0, 8.0]})
    >>> seq = ds.anytime_sequence(table, "y", gram="lazy")
    >>> seq.groups.names
    ['x[0]', 'x[1]']
    >>> seq.at().predict(X).round(6).tolist()
    [6.0, 9.0, 5.0, 8.0]
    """
    if not issparse(X):
        raise ArgumentError(
            f"X is a {type(X).__name__}; it must be a sparse matrix or array of SciPy"
        )
    if not isinstance(field, str):
        raise ArgumentError(f"field is {field!r}; it must be the name of a column")
    beside = _table_of(columns)
    if field in beside.column_names:
        raise ColumnError(f"columns has '{field}', the name of the field of X; give another field")
    if beside.num_rows != X.shape[0]:
        raise ColumnError(f"columns has {beside.num_rows} rows, and X {X.shape[0]}")
    return beside.append_column(field, as_map(X))


def _table_of(columns: Any) -> pa.Table:
    """Return the other columns as Arrow has them."""
    columns = native(columns)
    try:
        if is_frame(columns):
            return pa.table(columns.collect() if hasattr(columns, "collect") else columns)
        if isinstance(columns, dict) and columns:
            return pa.table(columns)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ArgumentError(f"columns make no table: {error}") from None
    raise ArgumentError(
        f"columns is a {type(columns).__name__}; it must be a frame, an Arrow table, or a mapping "
        "of names to values, the target among them"
    )
