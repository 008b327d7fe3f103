"""What has changed between two sets of rows, for a target and for what was bought for it.

All of it comes from two Grams: moments, correlations, the distance of Gaussians, a sequence on
each, and what the models of one are worth on the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import DataError
from dbselect.judging.evaluate import evaluate
from dbselect.linear.divergence import gaussian_divergence
from dbselect.linear.inference import INTERCEPT
from dbselect.linear.problem import unusable
from dbselect.methods.anytime import AnytimeOptions, anytime_sequence
from dbselect.methods.fit import fit
from dbselect.methods.setup import check_target
from dbselect.methods.types import Costs, GroupColumns, GroupNames, RuleName, Source
from dbselect.record.gram import Gram, Matrix, Vector, aligned
from dbselect.record.steps import longest_within
from dbselect.results.sequence import Sequence
from dbselect.sources.open import stored_gram
from dbselect.sources.read import gram as read_gram

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
        from dbselect.pictures.worth import worth

        keys, lines = ["step", "group", "spent"], list(LINES)
        named = self.worth.rename({column: line for line, column in LINES.items()})
        frame = named.unpivot(lines, index=keys, variable_name="line", value_name="r2")
        last = self.worth.row(-1, named=True)
        told = [
            f"All that is bought explains {last['r2_a']:.4f} on a and {last['r2_b']:.4f} on b, "
            f"fitted there {last['r2_refitted']:.4f}."
        ]
        return worth(frame, lines, f"What models of {self.target} are worth on other rows", told)


def drift(
    a: Source,
    b: Source,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    rule: RuleName = AnytimeOptions.rule,
    ridge: float = AnytimeOptions.ridge,
    scale: bool = AnytimeOptions.scale,
    budget: float | None = AnytimeOptions.budget,
    max_groups: int | None = AnytimeOptions.max_groups,
    always: GroupNames = AnytimeOptions.always,
    c_min: float | None = AnytimeOptions.c_min,
) -> Drift:
    """Compare two sets of rows: moments, the sequence, coefficients, and what it is worth.

    Parameters
    ----------
    a, b : Grams, records, or tables that `gram` reads; of the same columns but for levels of
        text and indicators. No row may be in both, or standard errors are too large
    target, groups, costs, rule, ridge, scale, budget, max_groups, always, c_min : as in
        `anytime_sequence`, of the sequences on both

    Returns
    -------
    Drift, of which every figure is the one that the rows give

    Raises
    ------
    RecordError : the columns of a and b differ
    DataError : either has no usable rows or a constant target
    ColumnError, GroupError, ArgumentError : as `anytime_sequence`

    Notes
    -----
    O(D^3), in milliseconds for a hundred columns; no row is read of Grams. Standard errors are
    those of least squares on each set of rows; rows of a time series that hang together have
    larger ones.

    References
    ----------
    Fisher (1921), On the probable error of a coefficient of correlation; Kullback (1959),
    Information Theory and Statistics, chapter 9.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> days = pl.DataFrame({"day": [1, 1, 1, 2, 2, 2], "x": [1, 2, 3, 2, 3, 4],
    ...     "y": [1, 2, 4, 1, 2, 4]})
    >>> one, two = ds.gram_by(days, by="day")["gram"]
    >>> ds.drift(one, two, "y").coefficients.select("term", "change").rows()
    [('(intercept)', -1.5), ('x', 0.0)]
    """
    check_target(target)
    options: dict[str, Any] = {
        "rule": rule, "ridge": ridge, "scale": scale, "budget": budget, "max_groups": max_groups,
        "always": always, "c_min": c_min,
    }  # fmt: skip
    AnytimeOptions(**options)
    one, two = aligned([_gram_of(source) for source in (a, b)])
    for name, gram in (("a", one), ("b", two)):
        why = unusable(gram, target)
        if why is not None:
            raise DataError(f"in {name}, {why}")
    before, after = (anytime_sequence(g, target, groups, costs, **options) for g in (one, two))
    return Drift(
        target,
        _columns(one, two),
        _correlations(one, two),
        _groups(one, two, before),
        _orders(before, after),
        _coefficients(one, two, before),
        _worth(two, before, after, groups, costs, options),
        before,
        after,
    )


def _gram_of(source: Any) -> Gram:
    found = stored_gram(source)
    return read_gram(source) if found is None else found


def _deviation(gram: Gram) -> Vector:
    return np.sqrt(np.diagonal(gram.covariance()))


def _shift(one: Gram, two: Gram) -> Vector:
    """Return the difference of the means, by both halves of each."""
    return np.asarray((two.mean - one.mean) + (two.mean_low - one.mean_low))


def _columns(one: Gram, two: Gram) -> pl.DataFrame:
    shift, (own, other) = _shift(one, two), (_deviation(gram) for gram in (one, two))
    error = np.sqrt(own**2 / one.rows + other**2 / two.rows)
    table = {
        "mean_a": one.mean,
        "mean_b": two.mean,
        "deviation_a": own,
        "deviation_b": other,
        "shift": _over(shift, own),
        "statistic": _over(shift, error),
    }
    return pl.DataFrame({"column": one.columns} | table)


def _over(change: Vector, unit: Vector) -> Vector:
    """Return a change in some unit: 0 where there is none, infinite where the unit is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(change == 0, 0.0, change / unit)


def _correlations(one: Gram, two: Gram) -> pl.DataFrame:
    row, column = np.tril_indices(len(one.columns), -1)
    names = np.array(one.columns, dtype=object)
    first, second = (gram.correlation()[row, column] for gram in (one, two))
    free = [max(gram.rows - 3, 0) for gram in (one, two)]
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(1 / np.float64(free[0]) + 1 / np.float64(free[1]))
        statistic = (np.arctanh(second) - np.arctanh(first)) / error
    table = {
        "column": pl.Series(names[column], dtype=pl.String),
        "other": pl.Series(names[row], dtype=pl.String),
        "correlation_a": first,
        "correlation_b": second,
        "change": second - first,
        "statistic": statistic,
    }
    return pl.DataFrame(table).fill_nan(None)


def _groups(one: Gram, two: Gram, sequence: Sequence) -> pl.DataFrame:
    shift, (A, B) = _shift(one, two), (gram.covariance() for gram in (one, two))
    found = []
    for members in sequence.groups.columns.values():
        at = [one.columns.index(name) for name in members]
        found.append(gaussian_divergence(shift[at], _block(A, at), _block(B, at)))
    location, spread = (np.array(part, dtype=np.float64) for part in zip(*found, strict=True))
    table = {"divergence": location + spread, "location": location, "spread": spread}
    return pl.DataFrame({"group": sequence.groups.names} | table)


def _block(matrix: Matrix, at: list[int]) -> Matrix:
    return matrix[np.ix_(at, at)]


def _orders(before: Sequence, after: Sequence) -> pl.DataFrame:
    names = pl.DataFrame({"group": before.groups.names})
    for end, sequence in (("a", before), ("b", after)):
        bought = sequence.steps.filter(pl.col("group").is_not_null())
        told = bought.select("group", pl.col("step", "spent", "gain").name.suffix(f"_{end}"))
        names = names.join(told, on="group", how="left", maintain_order="left")
    ordered = names.sort("step_a", "step_b", nulls_last=True, maintain_order=True)
    order = [f"{what}_{end}" for what in ("step", "spent", "gain") for end in ("a", "b")]
    return ordered.select("group", *order)


def _coefficients(one: Gram, two: Gram, before: Sequence) -> pl.DataFrame:
    model = before.at()
    columns = [name for name in model.columns if name not in model.aliased]
    if not columns:
        return pl.DataFrame(schema={"term": pl.String} | dict.fromkeys(
            ("a", "b", "change", "std_error", "statistic"), pl.Float64))  # fmt: skip
    first, second = (_fitted(gram, model.target, columns) for gram in (one, two))
    joined = first.join(second, on="term", how="left", suffix="_b", maintain_order="left")
    known = pl.col("std_error").is_not_null() & pl.col("std_error_b").is_not_null()
    change = pl.when(known).then(pl.col("estimate_b") - pl.col("estimate"))
    error = (pl.col("std_error").pow(2) + pl.col("std_error_b").pow(2)).sqrt()
    return joined.select(
        "term",
        pl.col("estimate").alias("a"),
        pl.col("estimate_b").alias("b"),
        change.alias("change"),
        error.alias("std_error"),
        (change / error).alias("statistic"),
    )


def _fitted(gram: Gram, target: str, columns: list[str]) -> pl.DataFrame:
    """Return term, estimate and std_error, which is NULL where a Gram cannot tell it."""
    model = fit(gram, target, columns)
    try:
        return model.summary().select("term", "estimate", "std_error")
    except DataError:
        found = {INTERCEPT: model.intercept} | model.coefficients
        return pl.DataFrame({"term": list(found), "estimate": list(found.values())}).with_columns(
            pl.lit(None, pl.Float64).alias("std_error")
        )


def _worth(
    two: Gram,
    before: Sequence,
    after: Sequence,
    groups: GroupColumns | None,
    costs: Costs | None,
    options: Mapping[str, Any],
) -> pl.DataFrame:
    steps = before.steps
    order = steps["group"].drop_nulls().to_list()
    there = evaluate(before, two)["r2"]
    # The same groups, in the same order, on the other rows.
    forced = {**options, "always": order, "max_groups": max(len(order), 1), "budget": None}
    again = anytime_sequence(two, before.target, groups, costs, **forced).steps["r2"]
    own = [after.r2[longest_within(after.spent, spent)] for spent in steps["spent"]]
    return steps.select("step", "group", "spent", pl.col("r2").alias("r2_a")).with_columns(
        there.alias("r2_b"),
        again.head(steps.height).alias("r2_refitted"),
        pl.Series("r2_own", own, pl.Float64),
    )
