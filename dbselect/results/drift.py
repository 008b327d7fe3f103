"""What has changed between two sets of rows."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from dbselect.pictures.steps import Heights, step_curves
from dbselect.results.sequence import Sequence

#: Lines of the picture -> columns of `Drift.worth`.
LINES = {
    "on a": "r2_a",
    "the same models on b": "r2_b",
    "the same columns, fitted on b": "r2_refitted",
    "b's own sequence": "r2_own",
}


@dataclass(frozen=True, eq=False)
class Drift:
    """What has changed from some rows, a, to others, b.

    Parameters
    ----------
    target : the column to predict
    columns : a row a column: column; mean_a, mean_b; deviation_a, deviation_b, the standard
        deviations; shift, mean_b - mean_a in standard deviations of a; statistic, the same in
        standard errors of that difference
    correlations : a row a pair: column, other; correlation_a, correlation_b; change;
        statistic, the change in standard errors, by Fisher's z. NULL where one of them is
        constant
    groups : a row a group: group; location and spread, of which divergence is the sum:
        KL(b | a) of Gaussians in nats. Infinite where b has what a has not, or the reverse
    sequence : a row a group: group; step_a, step_b; spent_a, spent_b; gain_a, gain_b; NULL
        where it is not bought
    coefficients : a row a term of least squares on the columns that a buys: term; a, b; change;
        std_error of the change; statistic. NULL for columns that depend on others
    worth : a row a step of a's sequence: step, group, spent; r2_a, on its own rows; r2_b, of
        the same model on b; r2_refitted, of the same columns fitted on b; r2_own, of what b's
        own sequence buys for as much
    before, after : the sequences on a and on b

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> may = pl.DataFrame({"x": [0, 1, 2, 3], "y": [0, 2, 4, 7]})
    >>> june = pl.DataFrame({"x": [2, 3, 4, 5], "y": [4, 4, 4, 5]})
    >>> found = ds.drift(may, june, "y")
    >>> found.columns.select("column", pl.col("shift").round(2)).rows()
    [('x', 1.79), ('y', 0.39)]
    >>> found.worth.select("group", pl.col("r2_a", "r2_b", "r2_refitted").round(2)).rows()
    [(None, 0.0, -5.33, 0.0), ('x', 0.99, -95.19, 0.6)]
    """

    target: str
    columns: pl.DataFrame
    correlations: pl.DataFrame
    groups: pl.DataFrame
    sequence: pl.DataFrame
    coefficients: pl.DataFrame
    worth: pl.DataFrame
    before: Sequence
    after: Sequence

    def __repr__(self) -> str:
        last = self.worth.row(-1, named=True)
        return (
            f"Drift({self.target}; {self.columns.height} columns, {self.groups.height} groups; "
            f"r2 {last['r2_a']:.4f} on a, {last['r2_b']:.4f} on b, "
            f"{last['r2_refitted']:.4f} refitted)"
        )

    def plot(self) -> Any:
        """Return a picture of what the models of a are worth on a and on b, against their cost.

        Returns
        -------
        Chart of altair (``pip install 'dbselect[plot]'``): a line for the rows of a, for the same
        models on b, for the same columns fitted on b, and for what b's own sequence buys for as
        much. Its ``data`` is the DataFrame that is drawn, `worth` with a row a step and line:
        step, group, spent, line, r2

        Raises
        ------
        EngineError : altair is not installed
        """
        keys, lines = ["step", "group", "spent"], list(LINES)
        named = self.worth.rename({column: line for line, column in LINES.items()})
        frame = named.unpivot(lines, index=keys, variable_name="line", value_name="r2")
        last = self.worth.row(-1, named=True)
        told = [
            f"All that is bought explains {last['r2_a']:.4f} on a and {last['r2_b']:.4f} on b, "
            f"fitted there {last['r2_refitted']:.4f}."
        ]
        return step_curves(
            frame, Heights("r2", "r2", share=True),
            f"What models of {self.target} are worth on other rows", told, line="line",
            tips=["line:N", "step:Q", "group:N", "spent:Q", ("r2", ".4~f", "r2")],
        )  # fmt: skip
