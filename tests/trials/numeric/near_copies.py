"""Searches on columns that nearly depend on each other, against all subsets in long doubles.

What explains the target may be the trace by which a column differs from others. A method finds
it, or warns that it could not; a proof holds.
"""

import itertools
import random
import warnings
from collections.abc import Sequence

import numpy as np
import polars as pl

import dbselect as ds

#: What six digits of coefficients leave uncertain of what is explained.
KNOWN = 1e-5
#: Power of ten of the least trace: the variance of smaller ones is below the rounding of a Gram.
LEAST = -7
#: What a column that is left out may explain without a warning.
TOLD = 2e-3
#: Share of an F statistic by which it may be off without a warning.
TESTED = 2e-2


def case(draw: random.Random) -> None:
    rng = np.random.default_rng(draw.getrandbits(32))
    width, rows = draw.randint(2, 6), draw.randint(15, 60)
    X = rng.normal(size=(rows, width))
    traces = rng.normal(size=(rows, width))
    for j in range(1, width):
        if draw.random() < 0.5:
            parts = X[:, :j] @ (rng.normal(size=j) * (rng.random(j) < 0.6))
            size = 10 ** draw.uniform(LEAST, -3) if draw.random() < 0.85 else 0.0
            X[:, j] = parts + size * traces[:, j]
    X += 10 ** draw.uniform(-2, 4) * (draw.random() < 0.3)
    y = X @ (rng.normal(size=width) * (rng.random(width) < 0.4)) * draw.choice([0.0, 1.0])
    y = y + traces @ (rng.normal(size=width) * (rng.random(width) < 0.5))
    y = y + draw.choice([0.0, 0.1, 1.0]) * rng.normal(size=rows)
    names = [f"x{j}" for j in range(width)]
    frame = pl.DataFrame(X, names).with_columns(y=y)
    if min(np.ptp(frame.to_numpy(), axis=0)) == 0:
        return
    costs = {name: float(draw.randint(1, 3)) for name in names}
    budget = float(draw.randint(1, 6))
    _best(frame, names, costs, budget)
    size = draw.randint(1, width)
    method = draw.choice([ds.exchange, ds.greedy, ds.dash])
    found, is_warned = told(lambda: method(frame, "y", k=size))
    if not is_warned:
        _is_right(frame, found.model)
    if not is_warned and method is ds.exchange:
        for out, into in itertools.product(found.groups, set(names) - set(found.groups)):
            other = [*(set(found.groups) - {out}), into]
            better = explained(frame, other) - explained(frame, found.groups)
            assert better < TOLD, f"exchange of {out} for {into} gains {better}"
    search = draw.choice([ds.anytime_sequence, ds.foba, ds.step])
    sequence, is_warned = told(lambda: search(frame, "y"))
    if not is_warned:
        _is_right(frame, sequence.at())
    fitted, is_warned = told(lambda: ds.fit(frame.with_columns(o=pl.lit(0.0)), "y", offset="o"))
    if not is_warned:
        truth = explained(frame, fitted.columns)
        assert abs(fitted.explained - truth) < TOLD, f"fit: {fitted.explained} for {truth}"
    intercept = draw.random() < 0.5
    predictor, is_warned = told(lambda: ds.AnytimePredictor(frame, "y"))
    if not is_warned:
        r2, truth = predictor.patterns([names])[0]["r2"], explained(frame, names)
        assert abs(r2 - truth) < TOLD, f"predictor: r2 {r2} for {truth}"
    _tests(frame, draw.sample(names, draw.randint(1, width)))
    path, is_warned = told(lambda: ds.lasso_path(frame, "y", intercept=intercept))
    if not is_warned:
        _follows(frame, path, intercept)


def _best(
    frame: pl.DataFrame, names: Sequence[str], costs: dict[str, float], budget: float
) -> None:
    """Check that what is proven is the best of all subsets."""
    found, is_warned = told(lambda: ds.best_within(frame, "y", budget, costs=costs))
    best = max(
        explained(frame, some)
        for size in range(len(names) + 1)
        for some in itertools.combinations(names, size)
        if sum(costs[name] for name in some) <= budget
    )
    if found.how.proven:
        assert abs(found.how.explained - best) < KNOWN, f"{found} is proven; the best is {best}"
    else:
        assert is_warned, f"{found} is not proven, without a reason"
        assert found.how.bound > best - KNOWN, f"the bound is {found.how.bound}; the best is {best}"
    if not is_warned:
        _is_right(frame, found.model)


def _is_right(frame: pl.DataFrame, model: ds.results.Model) -> None:
    """Check what a model explains that came without a warning."""
    truth = explained(frame, model.columns)
    assert abs(model.r2 - truth) < TOLD, f"{model} explains {truth}"


def _tests(frame: pl.DataFrame, tested: Sequence[str]) -> None:
    """Check the F test of some columns, the same from both doors, where no digits are said lost."""
    model, _ = told(lambda: ds.fit(frame, "y"))
    found, is_warned = told(lambda: model.f_test(tested).row(0, named=True))
    with ds.connect() as connection:
        connection.register("t", frame.to_arrow())
        query = "SELECT f_test(gram(t), 'y', ?) FROM t"
        ((sql,),) = connection.execute(query, [list(tested)]).fetchall()
    if is_warned or found["statistic"] is None:
        return
    whole = explained(frame, model.columns)
    less = explained(frame, [name for name in model.columns if name not in tested])
    if 1 - whole < KNOWN:
        return
    truth = (whole - less) / found["df"] * found["df_residual"] / (1 - whole)
    for door, statistic in (("Python", found["statistic"]), ("SQL", sql["statistic"])):
        short = abs(statistic - truth) / (1 + truth)
        assert short < TESTED, f"F test of {tested}, {door}: {statistic} for {truth}"


def _follows(frame: pl.DataFrame, path: ds.results.LassoPath, intercept: bool) -> None:
    """Check r2 of a path by its coefficients."""
    X, y = frame.select(path.columns).to_numpy(), frame["y"].to_numpy()
    X, y = X.astype(np.longdouble), y.astype(np.longdouble)
    if intercept:
        X, y = X - X.mean(axis=0), y - y.mean()
    for coef, r2 in zip(path.coef, path.r2, strict=True):
        left = y - X @ coef
        truth = float(1 - left @ left / (y @ y))
        assert abs(r2 - truth) < KNOWN, f"lasso_path: r2 {r2} where coefficients have {truth}"


def told(call):
    """Return what a call does, and whether it warns of digits that are lost."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call()
    return found, any(issubclass(one.category, ds.errors.ConditionWarning) for one in caught)


def explained(frame: pl.DataFrame, columns: Sequence[str]) -> float:
    """Return R2 of least squares, by orthogonalising the rows twice in long doubles."""
    y = frame["y"].to_numpy().astype(np.longdouble)
    left = y - y.mean()
    basis: list[np.ndarray] = []
    for name in columns:
        x = frame[name].to_numpy().astype(np.longdouble)
        x = x - x.mean()
        length = np.sqrt(x @ x)
        for _ in range(2):
            for one in basis:
                x = x - one * (one @ x)
        # What is left of an exact dependence is the rounding of doubles.
        if np.sqrt(x @ x) > 1e-14 * length * (1 + np.abs(frame[name].to_numpy()).max() / length):
            basis.append(x / np.sqrt(x @ x))
    for one in [*basis, *basis]:
        left = left - one * (one @ left)
    return float(1 - left @ left / ((y - y.mean()) @ (y - y.mean())))
