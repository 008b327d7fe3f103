"""One choice of groups for several responses: a linear model of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.formulas import quote
from dbselect.record.gram import Matrix, Vector
from dbselect.results import predict
from dbselect.results.model import Model


@dataclass(frozen=True, eq=False)
class JointModel:
    """Linear models of several responses on the same groups.

    Parameters
    ----------
    responses : response -> its Model
    share : shape (K,), what each response counts in `explained` and `r2`, 1 in all

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3], "y": [3, 5, 7], "z": [3, 2, 1]})
    >>> model = ds.anytime_sequence(table, ["y", "z"]).at()
    >>> model.predict([[10.0]]).round(6).tolist()
    [[21.0, -6.0]]
    >>> table.select(model.expr().alias("p")).unnest("p")["z"].round(6).to_list()
    [3.0, 2.0, 1.0]
    """

    responses: dict[str, Model]
    share: Vector

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(self.responses)} ~ "
            f"{', '.join(self.groups) or 'nothing'}; r2 {self.r2:.4f}, spent {self.spent:g})"
        )

    @property
    def _first(self) -> Model:
        return next(iter(self.responses.values()))

    @property
    def groups(self) -> list[str]:
        """Groups held, in the order taken."""
        return self._first.groups

    @property
    def columns(self) -> list[str]:
        """The columns of the groups held."""
        return self._first.columns

    @property
    def aliased(self) -> tuple[str, ...]:
        """Columns that depend linearly on columns before them."""
        return self._first.aliased

    @property
    def spent(self) -> float:
        """Summed cost of the groups held, which serve all responses."""
        return self._first.spent

    @property
    def explained(self) -> float:
        """Share of the responses' variance explained by the penalised objective."""
        return float(self.share @ [model.explained for model in self.responses.values()])

    @property
    def r2(self) -> float:
        """1 - RSS/TSS of the responses, each counted by its share."""
        return float(self.share @ [model.r2 for model in self.responses.values()])

    @property
    def intercept(self) -> dict[str, float]:
        """Response -> intercept, in its unit."""
        return {name: model.intercept for name, model in self.responses.items()}

    @property
    def coefficients(self) -> dict[str, dict[str, float]]:
        """Response -> column -> coefficient, in the table's units."""
        return {name: model.coefficients for name, model in self.responses.items()}

    def summary(self) -> pl.DataFrame:
        """Return the table of `Model.summary` for each response, named in ``response``.

        Raises
        ------
        ArgumentError, DataError : as `Model.summary`

        Warns
        -----
        SelectionWarning : as `Model.summary`
        """
        tables = [
            model.summary().select(pl.lit(name).alias("response"), pl.all())
            for name, model in self.responses.items()
        ]
        return pl.concat(tables)

    def expr(self, *, nested: bool = True) -> pl.Expr:
        """Return a struct with the prediction of each response as a Polars expression.

        Parameters
        ----------
        nested : as in `Model.expr`
        """
        return pl.struct(
            model.expr(nested=nested).alias(name) for name, model in self.responses.items()
        )

    def sql(self, dialect: str = "duckdb", *, nested: bool = True) -> str:
        """Return a struct with the prediction of each response as an SQL expression.

        Parameters
        ----------
        dialect, nested : as in `Model.sql`

        Raises
        ------
        ArgumentError : an unknown dialect, or sqlglot is not installed
        """
        fields = [
            f"{quote(name)} := {model.sql(nested=nested)}" for name, model in self.responses.items()
        ]
        text = f"struct_pack({', '.join(fields)})"
        return text if dialect == "duckdb" else predict.translated(text, dialect)

    def predict(self, X: npt.ArrayLike, columns: Sequence[str] | None = None) -> Matrix:
        """Return predictions, shape (n, K), for rows in memory; NaN where a value is NaN.

        Parameters
        ----------
        X, columns : as in `Model.predict`

        Raises
        ------
        ArgumentError, ColumnError : as `Model.predict`
        """
        rows: Any = X
        if predict.is_frame(rows):
            rows = pl.DataFrame(rows)  # a stream can be read once only
        return np.column_stack([model.predict(rows, columns) for model in self.responses.values()])
