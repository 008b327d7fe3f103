"""Drift between two sets of rows: moments, the sequence, coefficients and r2."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack, cast

import numpy as np
import polars as pl
from scipy.linalg import lapack, solve_triangular

from dbselect.errors import ArgumentError, DataError
from dbselect.linear.inference import check_read
from dbselect.linear.problem import unusable
from dbselect.options.option import changed, checked_options
from dbselect.pages.charts import Heights, step_curves
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
from dbselect.validation.scoring.evaluate import evaluate, gram_of_columns

#: Lines of the plot -> columns of `Drift.worth`.
LINES = {
    "on a": "r2_a",
    "the same models on b": "r2_b",
    "the same columns, fitted on b": "r2_refitted",
    "b's own sequence": "r2_own",
}


@dataclass(frozen=True, eq=False)
class Drift:
    """Drift from the rows a to the rows b.

    Parameters
    ----------
    target : the column to predict
    columns : one row per column: column; mean_a, mean_b; deviation_a, deviation_b, the standard
        deviations; shift, mean_b - mean_a in standard deviations of a; statistic, the same in
        standard errors of that difference
    correlations : one row per pair: column, other; correlation_a, correlation_b; change;
        statistic, the change in standard errors, by Fisher's z. NULL where one of them is
        constant
    groups : one row per group: group; divergence, the sum of location and spread:
        KL(b | a) of Gaussians in nats. Infinite where a direction varies in only one of them
    sequence : one row per group: group; step_a, step_b; spent_a, spent_b; gain_a, gain_b; NULL
        where it is not selected
    coefficients : one row per term of least squares on the columns that a selects: term; a, b;
        change; std_error of the change; statistic. NULL for columns that depend on others
    worth : one row per step of a's sequence: step, group, spent; r2_a, on its own rows; r2_b, of
        the same model on b; r2_refitted, of the same columns fitted on b; r2_own, of
        b's own sequence at the same cost
    before, after : the sequences on a and on b

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> may = pl.DataFrame({"x": [0, 1, 2, 3], "y": [0, 2, 4, 7]})
    >>> june = pl.DataFrame({"x": [2, 3, 4, 5], "y": [4, 4, 4, 5]})
    >>> drift = ds.drift(may, june, "y")
    >>> drift.columns.select("column", pl.col("shift").round(2)).rows()
    [('x', 1.79), ('y', 0.39)]
    >>> drift.worth.select("group", pl.col("r2_a", "r2_b", "r2_refitted").round(2)).rows()
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
        """Plot r2 of the models of a on a and on b, against cost.

        Returns
        -------
        Altair chart (``pip install 'dbselect[plot]'``) with a line for the rows of a, for the
        same models on b, for the same columns fitted on b, and for b's own sequence at the same
        cost. Its ``data`` is the plotted DataFrame, `worth` with one row per step and line:
        step, group, spent, line, r2

        Raises
        ------
        EngineError : altair is not installed
        """
        keys, lines = ["step", "group", "spent"], list(LINES)
        named = self.worth.rename({column: line for line, column in LINES.items()})
        frame = named.unpivot(lines, index=keys, variable_name="line", value_name="r2")
        last = self.worth.row(-1, named=True)
        notes = [
            f"All that is bought explains {last['r2_a']:.4f} on a and {last['r2_b']:.4f} on b, "
            f"fitted there {last['r2_refitted']:.4f}."
        ]
        return step_curves(
            frame, Heights("r2", "r2", share=True),
            f"What models of {self.target} are worth on other rows", notes, line="line",
            tips=["line:N", "step:Q", "group:N", "spent:Q", ("r2", ".4~f", "r2")],
        )  # fmt: skip


def drift_between(problem: Spec, other: Any, **options: Unpack[AnytimeOptions]) -> Drift:
    """Compare two sets of rows: moments, the sequence, its coefficients and its r2.

    Returns
    -------
    Drift; every figure is exact, not an estimate from samples

    Raises
    ------
    RecordError : the columns of a and b differ
    DataError : either has no usable rows or a constant target
    ColumnError, GroupError, ArgumentError : as `anytime_sequence`

    Notes
    -----
    O(D^3), milliseconds for a hundred columns; Grams need no rows. Standard errors are
    those of least squares on each set of rows; they are too small for autocorrelated
    rows, as in a time series.

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
    checked = checked_options(AnytimeOptions, "drift", options)
    refuse(problem, "drift")
    search = changed(AnytimeOptions, cast(Mapping[str, Any], checked))
    return _compared(problem, _gram_of(problem), _gram_of(problem.on(other)), search)


def drift_from(sequence: Any, other: Any) -> Drift:
    """Compare the rows of a search with other rows, as `drift_between`; one response only."""
    if not isinstance(sequence, Sequence):
        raise ArgumentError(
            f"a is a {type(sequence).__name__}, and drift compares least-squares models: "
            "evaluate(a, b) judges a sequence of any family on other rows"
        )
    gram_b = other.gram if isinstance(other, Sequence) else gram_of_columns(sequence, other, None)
    gram_a = sequence.gram.select([sequence.target, *sequence.columns])
    options = sequence.call.options if sequence.call.method == "anytime_sequence" else {}
    return _compared(sequence.problem, gram_a, gram_b, options)


def _compared(problem: Spec, gram_a: Gram, gram_b: Gram, search: Mapping[str, Any]) -> Drift:
    """Compute the drift from one Gram to another."""
    target = problem.targets[0]
    for gram in (gram_a, gram_b):
        check_read(gram, "the tests of drift")
    gram_a, gram_b = aligned([gram_a, gram_b])
    for name, gram in (("a", gram_a), ("b", gram_b)):
        reason = unusable(gram, target)
        if reason is not None:
            raise DataError(f"in {name}, {reason}")
    before, after = (
        cast(
            Sequence, uninterrupted(answer_of(problem.on_gram(gram), "anytime_sequence", **search))
        )
        for gram in (gram_a, gram_b)
    )
    return Drift(
        target,
        _columns(gram_a, gram_b),
        _correlations(gram_a, gram_b),
        _groups(gram_a, gram_b, before),
        _orders(before, after),
        _coefficients(problem, gram_a, gram_b, before),
        _worth(problem, gram_b, before, after, search),
        before,
        after,
    )


def _gram_of(problem: Spec) -> Gram:
    """Return the Gram of all columns of the problem's source."""
    gram = gram_given(problem)
    if gram is not None:
        return gram
    policy = policy_but_for(problem.targets, problem.null_policy)
    table = table_of(problem, None)
    return read_gram(table, None, problem.weight, null_policy=policy, terms=problem.terms)


def _deviation(gram: Gram) -> Vector:
    return np.sqrt(np.diagonal(gram.covariance()))


def _shift(gram_a: Gram, gram_b: Gram) -> Vector:
    """Return the difference of the means, with their low-order parts."""
    return np.asarray((gram_b.mean - gram_a.mean) + (gram_b.mean_low - gram_a.mean_low))


def _columns(gram_a: Gram, gram_b: Gram) -> pl.DataFrame:
    shift = _shift(gram_a, gram_b)
    deviation_a, deviation_b = _deviation(gram_a), _deviation(gram_b)
    error = np.sqrt(deviation_a**2 / gram_a.rows + deviation_b**2 / gram_b.rows)
    table = {
        "mean_a": gram_a.mean,
        "mean_b": gram_b.mean,
        "deviation_a": deviation_a,
        "deviation_b": deviation_b,
        "shift": _over(shift, deviation_a),
        "statistic": _over(shift, error),
    }
    return pl.DataFrame({"column": gram_a.columns} | table)


def _over(change: Vector, unit: Vector) -> Vector:
    """Return change / unit: 0 for no change, else infinite for a unit of 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(change == 0, 0.0, change / unit)


def _correlations(gram_a: Gram, gram_b: Gram) -> pl.DataFrame:
    row, column = np.tril_indices(len(gram_a.columns), -1)
    names = np.array(gram_a.columns, dtype=object)
    first, second = (gram.correlation()[row, column] for gram in (gram_a, gram_b))
    free = [max(gram.rows - 3, 0) for gram in (gram_a, gram_b)]
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


def _groups(gram_a: Gram, gram_b: Gram, sequence: Sequence) -> pl.DataFrame:
    shift, (A, B) = _shift(gram_a, gram_b), (gram.covariance() for gram in (gram_a, gram_b))
    parts = []
    place = {name: at for at, name in enumerate(gram_a.columns)}
    for members in sequence.groups.columns.values():
        at = [place[name] for name in members]
        parts.append(gaussian_divergence(shift[at], _block(A, at), _block(B, at)))
    location, spread = (np.array(part, dtype=np.float64) for part in zip(*parts, strict=True))
    table = {"divergence": location + spread, "location": location, "spread": spread}
    return pl.DataFrame({"group": sequence.groups.names} | table)


def _block(matrix: Matrix, at: list[int]) -> Matrix:
    return matrix[np.ix_(at, at)]


def _orders(before: Sequence, after: Sequence) -> pl.DataFrame:
    names = pl.DataFrame({"group": before.groups.names})
    for side, sequence in (("a", before), ("b", after)):
        bought = sequence.steps.filter(pl.col("group").is_not_null())
        columns = bought.select("group", pl.col("step", "spent", "gain").name.suffix(f"_{side}"))
        names = names.join(columns, on="group", how="left", maintain_order="left")
    ordered = names.sort("step_a", "step_b", nulls_last=True, maintain_order=True)
    order = [f"{field}_{side}" for field in ("step", "spent", "gain") for side in ("a", "b")]
    return ordered.select("group", *order)


def _coefficients(problem: Spec, gram_a: Gram, gram_b: Gram, before: Sequence) -> pl.DataFrame:
    model = before.at()
    columns = [name for name in model.columns if name not in model.aliased]
    if not columns:
        return pl.DataFrame(schema={"term": pl.String} | dict.fromkeys(
            ("a", "b", "change", "std_error", "statistic"), pl.Float64))  # fmt: skip
    first, second = (_fitted(problem.on_gram(gram), columns) for gram in (gram_a, gram_b))
    joined = first.join(second, on="term", how="left", suffix="_b", maintain_order="left")
    determined = pl.col("std_error").is_not_null() & pl.col("std_error_b").is_not_null()
    change = pl.when(determined).then(pl.col("estimate_b") - pl.col("estimate"))
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
    """Return term, estimate and std_error, NULL where the Gram does not determine it."""
    least_squares = problem.of_columns(ridge=0.0, scale=True)
    model: Model = answer_of(least_squares, "fit", columns)
    try:
        return model.summary().select("term", "estimate", "std_error")
    except DataError:
        coefs = {INTERCEPT: model.intercept} | model.coefficients
        table = pl.DataFrame({"term": list(coefs), "estimate": list(coefs.values())})
        return table.with_columns(std_error=pl.lit(None, pl.Float64))


def _worth(
    problem: Spec, gram_b: Gram, before: Sequence, after: Sequence, options: Mapping[str, Any]
) -> pl.DataFrame:
    steps = before.steps
    order = steps["group"].drop_nulls().to_list()
    r2_b = evaluate(before, gram_b)["r2"]
    # Refit the same groups, in the same order, on the rows b.
    forced = {**options, "max_groups": max(len(order), 1), "budget": None}
    forced_problem = problem.on_gram(gram_b).replace(always=order)
    refitted = uninterrupted(answer_of(forced_problem, "anytime_sequence", **forced)).steps["r2"]
    own_r2 = [after.r2[longest_within(after.spent, spent)] for spent in steps["spent"]]
    return steps.select("step", "group", "spent", pl.col("r2").alias("r2_a")).with_columns(
        r2_b.alias("r2_b"),
        refitted.head(steps.height).alias("r2_refitted"),
        pl.Series("r2_own", own_r2, pl.Float64),
    )


#: Share of the largest eigenvalue of a correlation matrix below which a direction has no spread:
#: rounding is about 1e-15, so that an eigenvalue of 1e-10 still has four digits.
NO_SPREAD = 1e-10


def gaussian_divergence(shift: Vector, A: Matrix, B: Matrix) -> tuple[float, float]:
    """Return location and spread of KL(b | a) in nats; `shift` is mean_b - mean_a."""
    a, b = np.sqrt(np.diagonal(A)), np.sqrt(np.diagonal(B))
    steady = (a == 0) & (b == 0)
    if steady.any() and (shift[steady] != 0).any():
        return np.inf, 0.0
    kept = np.flatnonzero(~steady)
    if not len(kept):
        return 0.0, 0.0
    # Scale a column that is constant in one set by its deviation in the other.
    a, b = np.where(a > 0, a, b)[kept], np.where(b > 0, b, a)[kept]
    A, B = A[np.ix_(kept, kept)] / a / a[:, None], B[np.ix_(kept, kept)] / b / b[:, None]
    shift_a, ratio = shift[kept] / a, b / a
    flat_a, flat_b = _flat(A), _flat(B)
    far = (flat_a.T @ shift_a) ** 2 > NO_SPREAD * max(float(shift_a @ shift_a), 1.0)
    location = np.inf if far.any() else 0.0
    # If both have the same flat directions, the same columns determine the others.
    _, pivots, _, _ = lapack.dpstrf(A, lower=1, tol=0.0)
    chosen = pivots[: len(A) - flat_a.shape[1]] - 1
    block = np.ix_(chosen, chosen)
    root = np.linalg.cholesky(A[block])
    location += 0.5 * float(np.square(solve_triangular(root, shift_a[chosen], lower=True)).sum())
    is_same = flat_a.shape == flat_b.shape
    if not is_same or _has_spread(B, flat_a, ratio) or _has_spread(A, flat_b, 1.0 / ratio):
        return location, np.inf
    after = np.linalg.cholesky(B[block])
    R = solve_triangular(root, ratio[chosen, None] * after, lower=True)
    logs = np.log(ratio[chosen]) + np.log(np.diagonal(after) / np.diagonal(root))
    return location, 0.5 * float(np.square(R).sum() - len(chosen)) - float(logs.sum())


def _flat(R: Matrix) -> Matrix:
    """Return the eigenvectors of a correlation matrix without spread; shape (k, flat)."""
    values, directions = np.linalg.eigh(R)
    return np.asarray(directions[:, values <= NO_SPREAD * max(values[-1], 1.0)])


def _has_spread(R: Matrix, flat: Matrix, ratio: Vector) -> bool:
    """Whether columns have spread in flat directions of the others; `ratio` is of their units."""
    largest = max(float(np.linalg.eigvalsh(R)[-1]), 1.0)
    has_spread = np.ones(flat.shape[1], dtype=bool)
    for least in (0.0, np.sqrt(NO_SPREAD)):
        directions = np.where(np.abs(flat) > least, flat, 0.0) * ratio[:, None]
        directions /= np.linalg.norm(directions, axis=0)
        spread = np.einsum("ij,ik,kj->j", directions, R, directions)
        has_spread &= spread > NO_SPREAD * largest
    return bool(has_spread.any())
