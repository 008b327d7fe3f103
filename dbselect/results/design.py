"""A design: rows in the order in which to observe them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.pages.html import Glance, InNotebooks
from dbselect.record.gram import Matrix, Vector

Index = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Design(InNotebooks):
    """Rows in the order in which observing them shrinks the posterior variance.

    Parameters
    ----------
    columns : d columns
    rows : shape (k,), row numbers, counted from 0 in the order that the source gives
    keys : k values of the key column; None without a key
    gain : shape (k,), what each row added to the value
    value : shape (k,), Tr(Lambda^-1) - Tr(P) after each row
    covariance : shape (d, d), posterior covariance P after all k rows
    skipped : rows that were no candidates because of a NULL or NaN

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"id": ["p", "q", "r"], "a": [2, 0, 1], "b": [0, 1, 1]})
    >>> design = ds.a_optimal(table, ["a", "b"], 2, key="id")
    >>> design.keys, design.value.round(3).tolist(), design.covariance.round(3).tolist()
    (['p', 'q'], [0.8, 1.3], [[0.2, 0.0], [0.0, 0.5]])
    """

    columns: list[str]
    rows: Index
    keys: list[Any] | None
    gain: Vector
    value: Vector
    covariance: Matrix
    skipped: int

    def __repr__(self) -> str:
        return (
            f"Design({len(self.rows)} rows, {len(self.columns)} columns, "
            f"value {self.value[-1]:.4g}; {self.skipped} rows skipped)"
        )

    @property
    def _glance(self) -> Glance:
        words = "value against the rows chosen"
        return Glance(self.steps, (self.steps["step"], self.value, words))

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row per step: step, row, key if there is one, gain, value."""
        key = {} if self.keys is None else {"key": self.keys}
        step = np.arange(1, len(self.rows) + 1)
        return pl.DataFrame(
            {"step": step, "row": self.rows, **key, "gain": self.gain, "value": self.value}
        )
