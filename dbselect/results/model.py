"""One linear model: what a budget buys."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy.typing as npt
import polars as pl

from dbselect.errors import ArgumentError, SelectionWarning
from dbselect.linear.inference import INTERCEPT, FittedRows, tests
from dbselect.record.gram import Vector
from dbselect.results import predict


@dataclass(frozen=True)
class Model:
    """A linear model on the groups of one prefix.

    Parameters
    ----------
    target : the column that is predicted
    intercept : in the target's unit
    coefficients : column -> coefficient, in the table's units; aliased columns have 0
    groups : groups held, in the order taken
    spent : summed cost of these groups
    explained : share of the target's variance explained by the penalised objective
    r2 : 1 - RSS/TSS on the rows of the Gram; equals `explained` at ridge 0
    aliased : columns that depend linearly on columns before them
    fit : the rows it was fitted to, for `summary`; None if nothing is known of them

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "y": [3, 5, 7, 9]})
    >>> model = ds.anytime_sequence(table, "y").at()
    >>> model.predict([[10.0]]).round(6).tolist()
    [21.0]
    >>> table.select(model.expr().round(6).alias("p"))["p"].to_list()
    [3.0, 5.0, 7.0, 9.0]
    """

    target: str
    intercept: float
    coefficients: dict[str, float]
    groups: list[str]
    spent: float
    explained: float
    r2: float
    aliased: tuple[str, ...]
    fit: FittedRows | None = field(default=None, kw_only=True, repr=False, compare=False)

    @property
    def columns(self) -> list[str]:
        """The columns of the groups held."""
        return list(self.coefficients)

    def summary(self) -> pl.DataFrame:
        """Return each coefficient with its standard error and the test that it is 0.

        Returns
        -------
        DataFrame: term, ``"(intercept)"`` first, then the columns; estimate; std_error;
        statistic, estimate / std_error; p_value, two-sided, by Student's t with n - rank
        degrees of freedom. NULL for aliased columns, and where n <= rank

        Raises
        ------
        ArgumentError : the model has a ridge, or knows no rows (it came from SQL, or its
            coefficients are not least squares)
        DataError : the columns are too nearly dependent for standard errors from a Gram

        Warns
        -----
        SelectionWarning : the rows also chose the columns. A column that was chosen for
            its size looks more certain than it is: p-values are too small, and so are
            standard errors. Choose on some rows and call `dbselect.fit` with these
            columns on others for p-values that hold.

        Notes
        -----
        n is the number of rows, also where they have weights (statsmodels' WLS). O(D^3).

        References
        ----------
        Seber, Lee (2003), Linear Regression Analysis; Berk, Brown, Buja, Zhang, Zhao
        (2013), Valid post-selection inference, Annals of Statistics 41.
        """
        if self.fit is None:
            raise ArgumentError(
                "the model knows no rows to judge it by; fit its columns with dbselect.fit"
            )
        kept = {name: w for name, w in self.coefficients.items() if name not in self.aliased}
        deviations = self.fit.deviations(self.target, kept)
        if self.fit.chosen:
            warnings.warn(
                "the rows that chose the columns also judge them, so p-values are too small; "
                "fit the columns on other rows for p-values that hold",
                SelectionWarning,
                stacklevel=2,
            )
        intercept = {INTERCEPT: self.intercept} if self.fit.intercept else {}
        return tests(intercept | self.coefficients, deviations)

    def expr(self, *, nested: bool = True) -> pl.Expr:
        """Return the prediction as a Polars expression; NULL where a column is NULL.

        Parameters
        ----------
        nested : whether ``demo.age`` and ``emb[3]`` are the child of a struct and the
            element of an array; False if they are plain columns of these names

        Notes
        -----
        An indicator ``x.missing`` of a model that has ``x`` as well is no column of a
        table: where ``x`` is NULL or NaN, ``x`` counts as 0 and the indicator as 1. With
        ``nested=False`` both are columns like all others.
        """
        return predict.expression(self.intercept, self.coefficients, nested)

    def sql(self, dialect: str = "duckdb", *, nested: bool = True) -> str:
        """Return the prediction as the text of an SQL expression, with quoted names.

        Parameters
        ----------
        dialect : ``"duckdb"``, or a dialect of sqlglot (``pip install 'dbselect[sql]'``)
        nested : as in `expr`; only a NULL is missing in other dialects, not a NaN

        Raises
        ------
        ArgumentError : an unknown dialect, or sqlglot is not installed
        """
        return predict.sql(self.intercept, self.coefficients, dialect, nested)

    def predict(self, X: npt.ArrayLike, columns: Sequence[str] | None = None) -> Vector:
        """Return predictions, shape (n,), for rows in memory; NaN where a value is NaN.

        Parameters
        ----------
        X : shape (n, d), numbers; or a frame or Arrow table, read by its own names
        columns : d names; default: the columns of the model, in their order. Where
            ``x.missing`` is none of them, a NaN of ``x`` is what it marks

        Raises
        ------
        ArgumentError : X has another shape, or holds something else than numbers
        ColumnError : a column of the model is missing
        """
        return predict.on_array(X, columns, self.intercept, self.coefficients)
