"""What has changed between two sets of rows, for a target and for what was bought for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack, cast

import numpy as np
import polars as pl
from scipy.linalg import lapack, solve_triangular

from dbselect.errors import ArgumentError, DataError
from dbselect.linear.problem import unusable
from dbselect.options.option import changed, checked_options
from dbselect.pages.steps import Heights, step_curves
from dbselect.record.columns import INTERCEPT
from dbselect.record.gram import Gram, Matrix, Vector, aligned
from dbselect.record.steps import longest_within, uninterrupted
from dbselect.results.model import Model
from dbselect.results.sequence import Sequence
from dbselect.search.table import gram_given, policy_but_for, table_of
from dbselect.sources.read import gram as read_gram
from dbselect.spec.options import AnytimeOptions
from dbselect.spec.refusals import refuse
from dbselect.spec.spec import Spec, answer_of
from dbselect.validation.scoring.evaluate import evaluate, gram_there

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


def drift_between(problem: Spec, other: Any, **options: Unpack[AnytimeOptions]) -> Drift:
    """Compare two sets of rows: moments, the sequence, coefficients, and what it is worth.

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
    known = checked_options(AnytimeOptions, "drift", options)
    refuse(problem, "drift")
    search = changed(AnytimeOptions, cast(Mapping[str, Any], known))
    return _compared(problem, _gram_of(problem), _gram_of(problem.on(other)), search)


def drift_from(sequence: Any, other: Any) -> Drift:
    """Compare the rows of a search, of one response, with others, as `drift_between`."""
    if not isinstance(sequence, Sequence):
        raise ArgumentError(
            f"a is a {type(sequence).__name__}, and drift compares least-squares models: "
            "evaluate(a, b) judges a sequence of any family on other rows"
        )
    there = other.gram if isinstance(other, Sequence) else gram_there(sequence, other, None)
    one = sequence.gram.select([sequence.target, *sequence.columns])
    options = sequence.call.options if sequence.call.method == "anytime_sequence" else {}
    return _compared(sequence.problem, one, there, options)


def _compared(problem: Spec, one: Gram, two: Gram, search: Mapping[str, Any]) -> Drift:
    """Return what has changed from one Gram to another."""
    target = problem.targets[0]
    one, two = aligned([one, two])
    for name, gram in (("a", one), ("b", two)):
        why = unusable(gram, target)
        if why is not None:
            raise DataError(f"in {name}, {why}")
    before, after = (
        cast(
            Sequence, uninterrupted(answer_of(problem.on_gram(gram), "anytime_sequence", **search))
        )
        for gram in (one, two)
    )
    return Drift(
        target,
        _columns(one, two),
        _correlations(one, two),
        _groups(one, two, before),
        _orders(before, after),
        _coefficients(problem, one, two, before),
        _worth(problem, two, before, after, search),
        before,
        after,
    )


def _gram_of(problem: Spec) -> Gram:
    """Return the Gram of all columns, as the problem reads them."""
    found = gram_given(problem)
    if found is not None:
        return found
    policy = policy_but_for(problem.targets, problem.null_policy)
    table = table_of(problem, None)
    return read_gram(table, None, problem.weight, null_policy=policy, terms=problem.terms)


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


def _coefficients(problem: Spec, one: Gram, two: Gram, before: Sequence) -> pl.DataFrame:
    model = before.at()
    columns = [name for name in model.columns if name not in model.aliased]
    if not columns:
        return pl.DataFrame(schema={"term": pl.String} | dict.fromkeys(
            ("a", "b", "change", "std_error", "statistic"), pl.Float64))  # fmt: skip
    first, second = (_fitted(problem.on_gram(gram), columns) for gram in (one, two))
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


def _fitted(problem: Spec, columns: list[str]) -> pl.DataFrame:
    """Return term, estimate and std_error, which is NULL where a Gram does not determine it."""
    asked = problem.replace(groups=None, costs=None, always=(), ridge=0.0, scale=True)
    model: Model = answer_of(asked, "fit", columns)
    try:
        return model.summary().select("term", "estimate", "std_error")
    except DataError:
        found = {INTERCEPT: model.intercept} | model.coefficients
        return pl.DataFrame({"term": list(found), "estimate": list(found.values())}).with_columns(
            pl.lit(None, pl.Float64).alias("std_error")
        )


def _worth(
    problem: Spec, two: Gram, before: Sequence, after: Sequence, options: Mapping[str, Any]
) -> pl.DataFrame:
    steps = before.steps
    order = steps["group"].drop_nulls().to_list()
    there = evaluate(before, two)["r2"]
    # The same groups, in the same order, on the other rows.
    forced = {**options, "max_groups": max(len(order), 1), "budget": None}
    asked = problem.on_gram(two).replace(always=order)
    again = uninterrupted(answer_of(asked, "anytime_sequence", **forced)).steps["r2"]
    own = [after.r2[longest_within(after.spent, spent)] for spent in steps["spent"]]
    return steps.select("step", "group", "spent", pl.col("r2").alias("r2_a")).with_columns(
        there.alias("r2_b"),
        again.head(steps.height).alias("r2_refitted"),
        pl.Series("r2_own", own, pl.Float64),
    )


#: Share of the largest eigenvalue of a correlation below which a direction has no spread:
#: rounding leaves about 1e-15 of k columns, and a direction of 1e-10 has four digits left.
NO_SPREAD = 1e-10


def gaussian_divergence(shift: Vector, A: Matrix, B: Matrix) -> tuple[float, float]:
    """Return location and spread of KL(b | a) in nats; `shift` is b's mean less that of a."""
    a, b = np.sqrt(np.diagonal(A)), np.sqrt(np.diagonal(B))
    steady = (a == 0) & (b == 0)
    if steady.any() and (shift[steady] != 0).any():
        return np.inf, 0.0
    kept = np.flatnonzero(~steady)
    if not len(kept):
        return 0.0, 0.0
    # Of a column that is constant in one, the spread in the other is its unit.
    a, b = np.where(a > 0, a, b)[kept], np.where(b > 0, b, a)[kept]
    A, B = A[np.ix_(kept, kept)] / a / a[:, None], B[np.ix_(kept, kept)] / b / b[:, None]
    step, ratio = shift[kept] / a, b / a
    flat, other = _flat(A), _flat(B)
    far = (flat.T @ step) ** 2 > NO_SPREAD * max(float(step @ step), 1.0)
    location = np.inf if far.any() else 0.0
    # Where both have the same flat directions, the same columns determine the others.
    _, pivots, _, _ = lapack.dpstrf(A, lower=1, tol=0.0)
    chosen = pivots[: len(A) - flat.shape[1]] - 1
    own = np.ix_(chosen, chosen)
    root = np.linalg.cholesky(A[own])
    location += 0.5 * float(np.square(solve_triangular(root, step[chosen], lower=True)).sum())
    is_same = flat.shape == other.shape
    if not is_same or _has_spread(B, flat, ratio) or _has_spread(A, other, 1.0 / ratio):
        return location, np.inf
    after = np.linalg.cholesky(B[own])
    R = solve_triangular(root, ratio[chosen, None] * after, lower=True)
    logs = np.log(ratio[chosen]) + np.log(np.diagonal(after) / np.diagonal(root))
    return location, 0.5 * float(np.square(R).sum() - len(chosen)) - float(logs.sum())


def _flat(R: Matrix) -> Matrix:
    """Return the directions in which correlated columns have no spread; shape (k, flat)."""
    values, directions = np.linalg.eigh(R)
    return np.asarray(directions[:, values <= NO_SPREAD * max(values[-1], 1.0)])


def _has_spread(R: Matrix, flat: Matrix, ratio: Vector) -> bool:
    """Whether columns have spread where others are flat; `ratio` is of their units."""
    largest = max(float(np.linalg.eigvalsh(R)[-1]), 1.0)
    has_spread = np.ones(flat.shape[1], dtype=bool)
    for least in (0.0, np.sqrt(NO_SPREAD)):
        directions = np.where(np.abs(flat) > least, flat, 0.0) * ratio[:, None]
        directions /= np.linalg.norm(directions, axis=0)
        spread = np.einsum("ij,ik,kj->j", directions, R, directions)
        has_spread &= spread > NO_SPREAD * largest
    return bool(has_spread.any())
