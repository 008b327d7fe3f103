"""The models of SGHT at every pair of limits."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from dbselect.pages.glance import Glance, InNotebooks
from dbselect.pictures.cells import limits_grid
from dbselect.results.call import Answer, Call
from dbselect.results.fields import StoredFields

PATH_DTYPES: dict[str, pl.DataType] = {
    "max_columns": pl.Int64(),
    "max_groups": pl.Int64(),
    "columns": pl.List(pl.String),
    "groups": pl.List(pl.String),
    "spent": pl.Float64(),
    "intercept": pl.Float64(),
    "coefficients": pl.List(pl.Struct({"key": pl.String, "value": pl.Float64})),
    "explained": pl.Float64(),
    "r2": pl.Float64(),
    "iterations": pl.Int64(),
    "converged": pl.Boolean(),
}


@dataclass(frozen=True, eq=False)
class SghtPath(Answer, StoredFields, InNotebooks):
    """The models of `sght` at every pair of limits.

    Parameters
    ----------
    points : one row a pair, as `Problem.sght_path` says
    call : what was asked

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b, c = [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]
    >>> y = [3 * i + 2 * j + k for i, j, k in zip(a, b, c)]
    >>> table = pl.DataFrame({"a": a, "b": b, "c": c, "y": y})
    >>> ds.Problem(table, "y").sght_path(grid_columns=[1, 2], grid_groups=[1, 2])
    SghtPath(4 pairs; explained 0.6429 to 0.9286)
    """

    points: pl.DataFrame
    call: Call

    def __repr__(self) -> str:
        explained = self.points["explained"].to_numpy()
        return (
            f"SghtPath({len(explained)} pairs; explained {explained.min():.4f} "
            f"to {explained.max():.4f})"
        )

    @property
    def _glance(self) -> Glance:
        return Glance(
            self.points.select(
                "max_columns", "max_groups", pl.col("columns", "groups").list.len(), "spent",
                "explained", "converged",
            )
        )  # fmt: skip

    def plot(self) -> Any:
        """Return a picture of what is explained at each pair of limits.

        Returns
        -------
        Chart of altair. Its ``data`` is the DataFrame that is drawn, `points` with the
        lists as text

        Raises
        ------
        EngineError : altair is not installed
        """
        names = pl.col("columns", "groups").list.join(", ")
        frame = self.points.select(
            "max_columns", "max_groups", names, "spent", "explained", "r2", "converged"
        )
        stopped = frame.filter(~pl.col("converged")).height
        told = ["Each cell is a model; hover to see its columns."]
        if stopped:
            told.append(f"{stopped} descents were stopped by max_iter.")
        return limits_grid(frame, "What is explained within two limits", told)
