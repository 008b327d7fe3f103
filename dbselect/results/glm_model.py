"""One generalised linear model, as Polars expression, as SQL text and on arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect import formulas
from dbselect.errors import ArgumentError, ColumnError
from dbselect.formulas import Formula, column, number, total, translate
from dbselect.glm.families import FAMILIES, Family, multinomial
from dbselect.glm.newton import Status
from dbselect.record.gram import Matrix, Vector
from dbselect.results import predict


@dataclass(frozen=True, eq=False)
class GlmModel:
    """A generalised linear model on some columns.

    Parameters
    ----------
    target : the column that is predicted
    family : ``"gaussian"``, ``"binomial"``, ``"poisson"`` or ``"multinomial"``
    classes : of a multinomial target, in their order
    offset : column that is added to the predictor
    intercept : on the scale of the predictor; multinomial: class -> intercept
    coefficients : column -> coefficient, in the table's units; aliased columns have 0;
        multinomial: class -> column -> coefficient, which sum to 0 over the classes
    groups : groups held, in the order taken
    spent : summed cost of these groups
    deviance, null_deviance : of this model and of the one without columns
    explained : share of the null deviance explained, less what the ridge takes
    status : how the fit ended
    aliased : columns that depend linearly on columns before them
    rows, skipped : rows used by each pass, and left out
    passes : times that the table was read for the fit
    rows_read, bytes_read : by all these passes; bytes as Arrow holds numbers in memory

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"x": [0, 0, 0, 1, 1, 1, 1], "y": [0, 0, 1, 0, 1, 1, 1]})
    >>> model = ds.fit_glm(table, "y", family="binomial")
    >>> model.predict(pl.DataFrame({"x": [0, 1]})).round(6).tolist()  # 1 in 3, 3 in 4
    [0.333333, 0.75]
    >>> table.select(model.expr().round(6).alias("p"))["p"].unique().sort().to_list()
    [0.333333, 0.75]
    """

    target: str
    family: str
    classes: tuple[Any, ...]
    offset: str | None
    intercept: Any
    coefficients: dict[Any, Any]
    groups: list[str]
    spent: float
    deviance: float
    null_deviance: float
    explained: float
    status: Status
    aliased: tuple[str, ...]
    rows: int
    skipped: int
    passes: int
    rows_read: int
    bytes_read: int

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.family}, {self.target} ~ "
            f"{', '.join(self.columns) or 'nothing'}; "
            f"explained {self.explained:.4f}; {self.status.value}, {self.passes} passes)"
        )

    @property
    def columns(self) -> list[str]:
        """The columns of the groups held."""
        return list(self.coefficients[self.classes[0]] if self.classes else self.coefficients)

    def expr(self, *, nested: bool = True) -> pl.Expr:
        """Return the mean of the target as a Polars expression; NULL where a column is NULL.

        A multinomial model gives a struct with the probability of each class.

        Parameters
        ----------
        nested : as in `Model.expr`
        """
        means = [translate(mean, formulas.polars()) for mean in self._means(nested)]
        if not self.classes:
            return means[0]
        named = [mean.alias(str(name)) for mean, name in zip(means, self.classes, strict=True)]
        return pl.struct(named)

    def sql(self, dialect: str = "duckdb", *, nested: bool = True) -> str:
        """Return the mean of the target as an SQL expression, with quoted names.

        A multinomial model gives a struct with the probability of each class.

        Parameters
        ----------
        dialect, nested : as in `Model.sql`

        Raises
        ------
        ArgumentError : an unknown dialect, or sqlglot is not installed
        """
        means = [translate(mean, formulas.sql()) for mean in self._means(nested)]
        text = means[0]
        if self.classes:
            named = [
                f"{formulas.quote(str(name))} := {mean}"
                for mean, name in zip(means, self.classes, strict=True)
            ]
            text = f"struct_pack({', '.join(named)})"
        return text if dialect == "duckdb" else predict.translated(text, dialect)

    def predict(
        self, X: npt.ArrayLike, columns: Sequence[str] | None = None
    ) -> npt.NDArray[np.float64]:
        """Return means of the target for rows in memory; NaN where a value is missing.

        Parameters
        ----------
        X : shape (n, d), numbers; or a frame or Arrow table, read by its own names
        columns : d names; default: the columns of the model, then the offset

        Returns
        -------
        shape (n,); multinomial: probabilities, shape (n, K)

        Raises
        ------
        ArgumentError : X has another shape
        ColumnError : a column of the model is missing
        """
        is_frame = columns is None and predict.is_frame(X)
        frame = self._flat(X) if is_frame else self._named(X, columns)
        try:
            # Not selected: a model without columns is the same number for every row.
            means = frame.with_columns(self.expr(nested=False).alias("mean"))["mean"]
        except pl.exceptions.ColumnNotFoundError as error:
            raise ColumnError(f"X lacks a column that the model needs: {error}") from None
        if self.classes:
            return means.struct.unnest().cast(pl.Float64).fill_null(np.nan).to_numpy()
        return means.fill_null(np.nan).to_numpy()

    @property
    def _needed(self) -> list[str]:
        return self.columns + ([] if self.offset is None else [self.offset])

    def _flat(self, X: Any) -> pl.DataFrame:
        """Return a frame with the parts of its nested columns that the model needs."""
        frame = pl.DataFrame(X)
        parts = {
            name: path
            for name in self._needed
            if name not in frame.columns
            and len(path := predict.path_of(name)) > 1
            and path[0] in frame.columns
        }
        algebra = formulas.polars()
        return frame.with_columns(
            translate(column(tuple(path)), algebra).alias(name) for name, path in parts.items()
        )

    def _named(self, X: npt.ArrayLike, columns: Sequence[str] | None) -> pl.DataFrame:
        names = self._needed if columns is None else list(columns)
        try:
            rows = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"X holds something else than numbers: {error}") from None
        if rows.ndim != 2 or rows.shape[1] != len(names):
            raise ArgumentError(f"X has shape {rows.shape}; it must be (n, {len(names)}): {names}")
        return pl.DataFrame(dict(zip(names, rows.T, strict=True)))

    def _means(self, nested: bool) -> list[Formula]:
        """Return the means as formulas of columns."""

        def of(name: str) -> Formula:
            return column(tuple(predict.path_of(name)) if nested else (name,))

        fixed = [] if self.offset is None else [of(self.offset)]
        predictors = [(self.intercept, self.coefficients)]
        if self.classes:
            predictors = [(self.intercept[k], self.coefficients[k]) for k in self.classes]
        return family_of(self.family, self.classes).means(
            [
                total([number(constant), *fixed, *(of(name) * one for name, one in own.items())])
                for constant, own in predictors
            ]
        )


def family_of(name: str, classes: Sequence[Any] = ()) -> Family:
    """Return a family by its name."""
    return multinomial(classes) if name == "multinomial" else FAMILIES[name]


def on_table(
    classes: Sequence[Any], intercept: Vector, coef: Matrix, columns: Sequence[str]
) -> tuple[Any, Any]:
    """Return intercept and coefficients as a `GlmModel` has them.

    Parameters
    ----------
    intercept : shape (K,)
    coef : shape (d, K)
    """
    each = [dict(zip(columns, own.tolist(), strict=True)) for own in coef.T]
    if not classes:
        return float(intercept[0]), each[0]
    return (
        dict(zip(classes, intercept.tolist(), strict=True)),
        dict(zip(classes, each, strict=True)),
    )
