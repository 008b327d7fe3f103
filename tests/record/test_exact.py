"""The exact mode: the same sums and solutions in fractions."""

import math
from datetime import datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.linear.exact import exact_least_squares, ratio
from dbselect.sources.wide.exact import READ_ROWS, exact_sums


def fractions(frame: pl.DataFrame, columns: list[str], weight: str | None) -> list[list[Fraction]]:
    """Return the sums of w x_i x_j of 1 and the columns, by their definition."""
    rows = [[Fraction(1), *map(Fraction, row)] for row in frame.select(columns).rows()]
    weights = [Fraction(1)] * len(rows) if weight is None else map(Fraction, frame[weight])
    weighted = [[w * x for x in row] for w, row in zip(weights, rows, strict=True)]
    width = range(len(columns) + 1)
    return [
        [sum(wr[i] * r[j] for wr, r in zip(weighted, rows, strict=True)) for j in width]
        for i in width
    ]


def solved(A: list[list[Fraction]]) -> list[Fraction]:
    """Solve for the last column of an invertible system of sums of products."""
    size = len(A) - 1
    M = [row[:] for row in A[:size]]
    for k in range(size):
        M[k] = [value / M[k][k] for value in M[k]]
        for i in range(size):
            if i != k:
                M[i] = [a - M[i][k] * b for a, b in zip(M[i], M[k], strict=True)]
    return [row[-1] for row in M]


def wide(rng: np.random.Generator, rows: int) -> pl.DataFrame:
    """Return doubles of all magnitudes and signs, some of them zeros, and row weights."""
    X = rng.normal(size=(rows, 3)) * 10.0 ** rng.integers(-12, 13, (rows, 3))
    X[rng.random((rows, 3)) < 0.1] = 0.0
    return pl.DataFrame(X, schema=["a", "b", "y"]).with_columns(
        w=pl.Series(rng.uniform(0.1, 3, rows))
    )


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_sums_are_those_of_fractions(rows, weight):
    frame = wide(np.random.default_rng(rows), rows)
    found = exact_sums(frame, "y", ["a", "b"], weight)
    assert (found.columns, found.rows, found.skipped) == (["a", "b", "y"], rows, 0)
    expected = fractions(frame, ["a", "b", "y"], weight)
    for i in range(4):
        for j in range(4):
            power = found.exponent[i] + found.exponent[j] + found.scale
            assert found.products[i, j] * Fraction(2) ** power == expected[i][j]


def test_sums_over_many_blocks_are_those_of_whole_numbers():
    rng = np.random.default_rng(1)
    # Later blocks have larger values than the first, which set the exponents.
    X = rng.integers(-(2**40), 2**40, (2 * READ_ROWS + 5, 2)) >> 30
    X[READ_ROWS + 1 :] <<= 22
    frame = pl.DataFrame(X, schema=["a", "y"])
    found = exact_sums(frame, "y")
    expected = X.astype(object).T @ X.astype(object)
    for i in range(2):
        for j in range(2):
            power = found.exponent[i + 1] + found.exponent[j + 1] + found.scale
            assert found.products[i + 1, j + 1] * Fraction(2) ** power == expected[i, j]


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("intercept", [True, False])
def test_coefficients_are_the_true_ones_rounded_once(intercept, weight):
    rng = np.random.default_rng(2)
    frame = wide(rng, 12)
    model = ds.fit(frame, "y", ["a", "b"], weight=weight, intercept=intercept, exact=True)
    sums = fractions(frame, ["a", "b", "y"], weight)
    if not intercept:
        sums = [row[1:] for row in sums[1:]]
    found = [model.intercept, *model.coefficients.values()][not intercept :]
    assert found == [float(value) for value in solved(sums)]


def test_nearly_dependent_columns_are_solved():
    rng = np.random.default_rng(3)
    a = rng.normal(size=20)
    frame = pl.DataFrame({"a": a, "b": a * (1 + 2.0**-50 * rng.integers(0, 4, 20)), "y": a[::-1]})
    model = ds.fit(frame, "y", exact=True)
    expected = solved(fractions(frame, ["a", "b", "y"], None))
    assert [model.intercept, *model.coefficients.values()] == [float(x) for x in expected]
    assert np.linalg.cond(np.corrcoef(frame["a"], frame["b"])) > 1e15


def test_rank_is_decided_exactly():
    rng = np.random.default_rng(4)
    a, b = rng.integers(-100, 100, (2, 10)).astype(float)
    frame = pl.DataFrame(
        {"zero": 0.0 * a, "a": a, "copy": 3 * a + 1, "b": b, "y": rng.normal(size=10)}
    )
    model = ds.fit(frame, "y", exact=True)
    assert model.aliased == ("zero", "copy")
    expected = ds.fit(frame, "y", ["a", "b"], exact=True)
    assert {n: w for n, w in model.coefficients.items() if w} == expected.coefficients
    nudged = frame.with_columns(copy=pl.Series(np.nextafter(frame["copy"].to_numpy(), np.inf)))
    assert ds.fit(nudged, "y", exact=True).aliased == ("zero",)


def test_any_source_gives_the_same_bits(as_any_source):
    frame = wide(np.random.default_rng(5), 700)
    expected = ds.fit(frame, "y", ["a", "b"], weight="w", exact=True)
    assert ds.fit(as_any_source(frame), "y", ["a", "b"], weight="w", exact=True) == expected


def test_order_of_rows_changes_no_bit():
    frame = wide(np.random.default_rng(6), 3000)
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=1)
    first, second = (ds.fit(one, "y", weight="w", exact=True) for one in (frame, shuffled))
    assert first == second
    assert first.summary().equals(second.summary())


def test_incomplete_rows_and_weights_of_zero_are_left_out():
    frame = wide(np.random.default_rng(7), 30)
    holes = pl.DataFrame(
        {"a": [None, 1.0, 1.0, 2.0], "b": [1.0, math.nan, 1.0, 2.0], "y": [1.0, 1.0, 1.0, 2.0],
         "w": [1.0, 1.0, None, 0.0]}
    )  # fmt: skip
    found = exact_sums(pl.concat([holes, frame]), "y", weight="w")
    assert (found.rows, found.skipped) == (30, 4)
    both = [
        ds.fit(one, "y", weight="w", exact=True)
        for one in (frame, pl.concat([holes, frame, holes]))
    ]
    assert both[0] == both[1]


def test_variances_are_the_diagonal_of_the_inverse():
    rng = np.random.default_rng(8)
    frame = pl.DataFrame(rng.integers(-9, 9, (15, 4)), schema=[*"abcy"])
    sums = exact_sums(frame, "y")
    found = exact_least_squares(sums.products, sums.exponent, sums.scale, True)
    A = fractions(frame, [*"abcy"], None)
    for j in range(4):
        unit = [[*row[:4], Fraction(int(i == j))] for i, row in enumerate(A[:4])]
        assert found.variance[j] == float(solved([*unit, [Fraction(0)] * 5])[j])


@pytest.mark.parametrize("power", [-1100, -60, 0, 60, 900])
def test_ratio_rounds_once(power):
    for numerator, denominator in [(1, 3), (-(2**90) + 1, 7), (0, 5), (2**53 + 1, 1)]:
        exact = Fraction(numerator, denominator) * Fraction(2) ** power
        assert ratio(numerator, denominator, power) == float(exact)


def test_ratio_beyond_doubles_is_infinite():
    assert ratio(-1, 1, 2000) == -math.inf


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": 1e61}, "column 'a' has the value 1e\\+61"),
        ({"y": math.inf}, "column 'y' has the value inf"),
        ({"a": 1e-250}, "a value times its weight is 1e-250"),
        ({"w": -1.0}, "weight 'w' is -1.0; weights must be >= 0"),
    ],
)
def test_values_without_exact_sums_are_refused(row, message):
    good = {"a": 1.0, "y": 2.0, "w": 1.0}
    frame = pl.DataFrame([good, good | {"a": 3.0}, good | row])
    with pytest.raises(ds.errors.DataError, match=message):
        ds.fit(frame, "y", ["a"], weight="w", exact=True)


MOMENT = datetime(2024, 1, 1)
#: Type -> whole numbers of it and what they are.
MANY_DIGITS = {
    "int64": lambda step: (pl.Int64, 2**63 - 500 + step, Fraction(2**63 - 500 + step)),
    "negative": lambda step: (pl.Int64, -(2**63) + 500 + step, Fraction(-(2**63) + 500 + step)),
    "uint64": lambda step: (pl.UInt64, 2**64 - 500 + step, Fraction(2**64 - 500 + step)),
    "decimal": lambda step: (
        pl.Decimal(38, 3),
        Decimal(10**35 + step).scaleb(-3, Context(prec=50)),
        Fraction(10**35 + step, 1000),
    ),
    "timestamp": lambda step: (
        pl.Datetime("us"),
        MOMENT + timedelta(microseconds=step),
        Fraction(1_704_067_200) + Fraction(step, 10**6),
    ),
}


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("kind", MANY_DIGITS)
def test_whole_numbers_and_decimals_keep_all_of_their_digits(kind, weight):
    rng = np.random.default_rng(5)
    steps = rng.integers(-200, 200, 60).tolist()
    made = [MANY_DIGITS[kind](step) for step in steps]
    x = [value for _, _, value in made]
    y = [step + more for step, more in zip(steps, rng.integers(-9, 9, 60).tolist(), strict=True)]
    w = rng.integers(1, 4, 60).tolist()
    column = pl.Series("x", [value for _, value, _ in made], made[0][0])
    frame = pl.DataFrame([column, pl.Series("y", y), pl.Series("w", w)])
    # A NULL has no digits.
    frame = pl.concat([frame, pl.DataFrame([(None, 1, 1)], frame.schema, orient="row")])
    weights = w if weight else [1] * 60
    rows = list(zip([Fraction(1)] * 60, x, map(Fraction, y), weights, strict=True))
    A = [[sum(r[i] * r[j] * r[3] for r in rows) for j in range(3)] for i in range(3)]
    model = ds.fit(frame, "y", ["x"], weight=weight, exact=True)
    assert [model.intercept, model.coefficients["x"]] == [float(value) for value in solved(A)]
    # The other way round, its last digits are those of the target.
    B = [[A[i][j] for j in (0, 2, 1)] for i in (0, 2, 1)]
    model = ds.fit(frame, "x", ["y"], weight=weight, exact=True)
    if kind != "timestamp":  # which is no target
        assert [model.intercept, model.coefficients["y"]] == [float(value) for value in solved(B)]
