"""Intervals of a predictor of any groups, and F tests, against exact fractions.

Rows are whole numbers, so that fractions decide the rank and hold every sum of squares. The
interval is by the residuals alone, as its page says.
"""

import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import polars as pl
from scipy import stats

import dbselect as ds

#: Relative differences that doubles leave.
KNOWN = 1e-7


def case(draw: random.Random) -> None:
    """Draw a small table of whole numbers, in which a column may be the sum of others."""
    width, rows = draw.randint(1, 4), draw.randint(4, 14)
    columns = {f"x{j}": [draw.randint(-9, 9) for _ in range(rows)] for j in range(width)}
    if width > 1 and draw.random() < 0.4:
        columns["x0"] = [
            a + 2 * b for a, b in zip(columns["x1"], columns[f"x{width - 1}"], strict=True)
        ]
    y = [sum(x[i] for x in columns.values()) + draw.randint(-5, 5) for i in range(rows)]
    if len(set(y)) == 1 or any(len(set(x)) == 1 for x in columns.values()):
        return
    frame = pl.DataFrame({**columns, "y": y}).cast(pl.Float64)
    names = list(columns)
    _interval(draw, frame, names)
    _test(draw, frame, names)


def _interval(draw: random.Random, frame: pl.DataFrame, names: Sequence[str]) -> None:
    has = draw.sample(names, draw.randint(1, len(names)))
    rank, left = residual(frame, has)
    ridge = draw.choice([0.0, 0.01, 0.3])
    if rank >= frame.height or left == 0:
        return
    level = draw.choice([0.5, 0.9, 0.99])
    row = {name: (float(draw.randint(-9, 9)) if name in has else None) for name in names}
    found = ds.AnytimePredictor(frame, "y", ridge=ridge).predict(row, level=level)
    X, y = frame.select(has).to_numpy(), frame["y"].to_numpy()
    if rank < len(has) + 1:
        return  # beyond the plane of the rows there is no one prediction
    # On standardised columns: (C + ridge I) w = c, and the trace of what it does to a target.
    Z, at = (X - X.mean(axis=0)) / X.std(axis=0), np.array([row[name] for name in has])
    penalised = Z.T @ Z / len(y) + ridge * np.eye(len(has))
    w = np.linalg.solve(penalised, Z.T @ (y - y.mean()) / len(y))
    predicted = float(y.mean() + (at - X.mean(axis=0)) / X.std(axis=0) @ w)
    squares = float(left) if ridge == 0 else float(((y - y.mean() - Z @ w) ** 2).sum())
    free = len(y) - 1 - np.trace(np.linalg.solve(penalised, Z.T @ Z / len(y)))
    reach = stats.t.ppf((1 + level) / 2, free) * np.sqrt(squares / free)
    scale = abs(predicted) + reach
    assert abs(found["prediction"] - predicted) < KNOWN * scale, f"{found} is not {predicted}"
    for name, bound in (("lower", predicted - reach), ("upper", predicted + reach)):
        assert abs(found[name] - bound) < KNOWN * scale, f"{name} is {found[name]}, not {bound}"


def _test(draw: random.Random, frame: pl.DataFrame, names: Sequence[str]) -> None:
    tested = sorted(draw.sample(names, draw.randint(1, len(names))))
    rank, left = residual(frame, names)
    less, more = residual(frame, [name for name in names if name not in tested])
    ours = ds.fit(frame, "y").f_test(tested).row(0, named=True)
    given = ", ".join(f"'{name}'" for name in tested)
    with ds.connect() as connection:
        connection.register("t", frame.to_arrow())
        query = f"SELECT f_test(gram(t), 'y', [{given}]) FROM t"
        ((told,),) = connection.execute(query).fetchall()
    for door, found in (("Python", ours), ("SQL", told)):
        assert found["df"] == rank - less, f"{door}: df {found['df']}, not {rank - less}"
        if rank >= frame.height or rank == less or left == 0:
            continue
        truth = (more - left) / (rank - less) / (left / (frame.height - rank))
        statistic = found["statistic"]
        short = abs(statistic - float(truth))
        assert short <= KNOWN * (1 + float(truth)), f"{door}: F {statistic}, not {float(truth)}"


def residual(frame: pl.DataFrame, names: Sequence[str]) -> tuple[int, Fraction]:
    """Return the rank with the intercept, and the residual sum of squares, both exact."""
    columns = [[1] * frame.height, *(frame[name].to_list() for name in names)]
    basis: list[list[Fraction]] = []
    left = [Fraction(int(value)) for value in frame["y"]]

    def without(values: list[Fraction]) -> list[Fraction]:
        for one in basis:
            share = sum(a * b for a, b in zip(values, one, strict=True)) / sum(a * a for a in one)
            values = [a - share * b for a, b in zip(values, one, strict=True)]
        return values

    for column in columns:
        values = without([Fraction(int(value)) for value in column])
        if any(values):
            basis.append(values)
    return len(basis), sum((value * value for value in without(left)), Fraction(0))
