"""Stepwise search: R's recorded traces, and every move against refits."""

import math

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm

import dbselect as ds

#: Henderson, Velleman (1981), of Motor Trend (1974): R's `mtcars`.
MTCARS = """
21.0 6 160.0 110 3.90 2.620 16.46 0 1 4 4
21.0 6 160.0 110 3.90 2.875 17.02 0 1 4 4
22.8 4 108.0 93 3.85 2.320 18.61 1 1 4 1
21.4 6 258.0 110 3.08 3.215 19.44 1 0 3 1
18.7 8 360.0 175 3.15 3.440 17.02 0 0 3 2
18.1 6 225.0 105 2.76 3.460 20.22 1 0 3 1
14.3 8 360.0 245 3.21 3.570 15.84 0 0 3 4
24.4 4 146.7 62 3.69 3.190 20.00 1 0 4 2
22.8 4 140.8 95 3.92 3.150 22.90 1 0 4 2
19.2 6 167.6 123 3.92 3.440 18.30 1 0 4 4
17.8 6 167.6 123 3.92 3.440 18.90 1 0 4 4
16.4 8 275.8 180 3.07 4.070 17.40 0 0 3 3
17.3 8 275.8 180 3.07 3.730 17.60 0 0 3 3
15.2 8 275.8 180 3.07 3.780 18.00 0 0 3 3
10.4 8 472.0 205 2.93 5.250 17.98 0 0 3 4
10.4 8 460.0 215 3.00 5.424 17.82 0 0 3 4
14.7 8 440.0 230 3.23 5.345 17.42 0 0 3 4
32.4 4 78.7 66 4.08 2.200 19.47 1 1 4 1
30.4 4 75.7 52 4.93 1.615 18.52 1 1 4 2
33.9 4 71.1 65 4.22 1.835 19.90 1 1 4 1
21.5 4 120.1 97 3.70 2.465 20.01 1 0 3 1
15.5 8 318.0 150 2.76 3.520 16.87 0 0 3 2
15.2 8 304.0 150 3.15 3.435 17.30 0 0 3 2
13.3 8 350.0 245 3.73 3.840 15.41 0 0 3 4
19.2 8 400.0 175 3.08 3.845 17.05 0 0 3 2
27.3 4 79.0 66 4.08 1.935 18.90 1 1 4 1
26.0 4 120.3 91 4.43 2.140 16.70 0 1 5 2
30.4 4 95.1 113 3.77 1.513 16.90 1 1 5 2
15.8 8 351.0 264 4.22 3.170 14.50 0 1 5 4
19.7 6 145.0 175 3.62 2.770 15.50 0 1 5 6
15.0 8 301.0 335 3.54 3.570 14.60 0 1 5 8
21.4 4 121.0 109 4.11 2.780 18.60 1 1 4 2
"""
CARS = ["cyl", "disp", "hp", "drat", "wt", "qsec", "vs", "am", "gear", "carb"]
#: Refits of a family end at their own tolerances.
REFIT = 1e-6


def cars():
    values = np.array([[float(x) for x in line.split()] for line in MTCARS.split("\n") if line])
    return pl.DataFrame(values, schema=["mpg", *CARS])


def in_r(seq):
    """Return the criterion after each step as R's `extractAIC` of a linear model has it."""
    aic = seq.criteria()["aic"].to_numpy()
    return aic - seq.gram.rows * (math.log(2 * math.pi) + 1)


def test_backward_on_mtcars_is_the_trace_of_r():
    seq = ds.step(cars(), "mpg", direction="backward")
    moves = seq.steps.filter(pl.col("action") == "remove")
    assert moves["group"].to_list() == ["cyl", "vs", "carb", "gear", "drat", "disp", "hp"]
    trace = [70.90, 68.92, 66.97, 65.12, 63.46, 62.16, 61.52, 61.31]
    np.testing.assert_allclose(in_r(seq)[10:], trace, atol=0.005)
    np.testing.assert_allclose(moves["score"], -np.diff(in_r(seq)[10:]), atol=1e-9)
    assert sorted(seq.at().groups) == ["am", "qsec", "wt"]


def test_forward_on_mtcars_is_the_trace_of_r():
    for direction in ("forward", "both"):
        seq = ds.step(cars(), "mpg", direction=direction)
        assert seq.steps["group"].to_list() == [None, "wt", "cyl", "hp"]
        np.testing.assert_allclose(in_r(seq)[2:], [63.20, 62.66], atol=0.005)


def criterion(columns, y, price, family=None):
    design = sm.add_constant(np.column_stack(columns)) if columns else np.ones((len(y), 1))
    if family is not None:
        fit = sm.GLM(y, design, family=family).fit()
        return fit.deviance + price * np.linalg.matrix_rank(design)
    coef, *_ = np.linalg.lstsq(design, y)
    rss = float(((y - design @ coef) ** 2).sum())
    return len(y) * math.log(rss / len(y)) + price * np.linalg.matrix_rank(design)


def stepped(groups, y, price, start, family=None):
    """Emulate `step` by refits: groups by name -> list of columns."""

    def value(held):
        return criterion([column for name in held for column in groups[name]], y, price, family)

    held, moves = list(start), []
    now = value(held)
    while True:
        trials = {("remove", name): [one for one in held if one != name] for name in held}
        trials |= {("add", name): [*held, name] for name in groups if name not in held}
        values = {move: value(trial) for move, trial in trials.items()}
        best = min(values, key=values.get)
        if values[best] >= now - 1e-6:
            return moves, now
        held, now = trials[best], values[best]
        moves.append(best)


@pytest.mark.parametrize("bic", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_moves_are_those_of_refits(seed, bic):
    rng = np.random.default_rng(seed)
    rows = 60
    kind = rng.integers(0, 3, rows)
    x = rng.normal(size=(rows, 5)) @ (np.eye(5) + 0.5 * rng.normal(size=(5, 5)))
    levels = {f"kind.{level}": (kind == level) * 1.0 for level in range(3)}
    y = x[:, 0] - x[:, 1] + 0.5 * (kind == 1) + 1.5 * rng.normal(size=rows)
    frame = pl.DataFrame({f"x{j}": x[:, j] for j in range(5)} | levels | {"y": y})
    # The levels add up to 1, and the second level is in a group of its own, too, as a copy.
    frame = frame.with_columns(copy=pl.col("kind.1"))
    names = {f"x{j}": [f"x{j}"] for j in range(3)}
    names |= {"pair": ["x3", "x4"], "kind": list(levels), "copy": ["copy"]}
    price = math.log(rows) if bic else 2.0
    columns = {name: [frame[one].to_numpy() for one in members] for name, members in names.items()}
    for start in ([], list(names)):
        moves, end = stepped(columns, y, price, start)
        seq = ds.step(frame, "y", names, criterion="bic" if bic else "aic", start=start)
        taken = seq.steps[1 + len(start) :]
        assert list(zip(taken["action"], taken["group"], strict=True)) == moves
        shift = rows * (math.log(2 * math.pi) + 1)
        found = seq.criteria()["bic" if bic else "aic"][-1]
        assert found - shift == pytest.approx(end, abs=1e-6)


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_families_move_as_refits_do(family):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 6))
    eta = x[:, 0] - 0.6 * x[:, 1] + 0.3 * x[:, 2]
    y = (
        rng.random(200) < 1 / (1 + np.exp(-eta))
        if family == "binomial"
        else rng.poisson(np.exp(eta))
    )
    y = y.astype(float)
    frame = pl.DataFrame({f"x{j}": x[:, j] for j in range(6)} | {"y": y})
    truth = sm.families.Binomial() if family == "binomial" else sm.families.Poisson()
    columns = {f"x{j}": [x[:, j]] for j in range(6)}
    for start in ([], list(columns)):
        moves, _ = stepped(columns, y, 2.0, start, truth)
        seq = ds.step(frame, "y", family=family, start=start)
        taken = seq.steps[1 + len(start) :]
        assert list(zip(taken["action"], taken["group"], strict=True)) == moves
        assert seq.criteria()["aic"].to_numpy()[-1] == pytest.approx(
            seq.criteria()["aic"].to_numpy()[len(start)] - taken["score"].sum(), rel=REFIT
        )


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_through_the_origin_the_last_column_may_go(family):
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(40, 2)) + 2.0, rng.normal(size=40)
    target = {"gaussian": y, "binomial": y > 0, "poisson": rng.poisson(1.0, 40)}[family] * 1.0
    frame = pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": target})
    seq = ds.step(frame, "y", family=family, intercept=False, direction="backward", penalty=60.0)
    assert seq.steps["group"].to_list() == [None]


def test_scopes_budgets_and_limits_hold():
    frame, costs = cars(), dict.fromkeys(CARS, 1.0) | {"wt": 5.0}
    kept = ds.step(frame, "mpg", direction="backward", always=["cyl"])
    assert "cyl" in kept.at().groups
    cheap = ds.step(frame, "mpg", costs=costs, budget=2.0)
    assert cheap.spent[-1] <= 2.0
    assert "wt" not in cheap.steps["group"].to_list()
    assert cheap.stop.name == "BUDGET"
    assert ds.step(frame, "mpg", max_steps=1).steps["group"].to_list() == [None, "wt"]
    dear = ds.step(frame, "mpg", penalty=1000.0, start=["wt"])
    assert dear.steps.height == 1
    assert dear.at().groups == []
    free = ds.step(frame, "mpg", penalty=0.0)
    assert sorted(free.at().groups) == sorted(CARS)


def test_as_many_parameters_as_rows_are_never_reached():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {f"x{j}": rng.normal(size=6) for j in range(9)} | {"y": rng.normal(size=6)}
    )
    seq = ds.step(frame, "y", penalty=0.01)
    assert len(seq.at().groups) <= 4
    assert all(score > 0 for score in seq.steps["score"][1:])


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"start": ["weight"]}, "start names"),
        ({"start": CARS, "budget": 3.0}, "over the budget"),
        ({"family": "gamma"}, "no likelihood to compare"),
    ],
)
def test_bad_arguments_are_refused(given, error):
    with pytest.raises(ds.DbselectError, match=error):
        ds.step(cars(), "mpg", **given)


def test_an_objective_with_a_ridge_is_refused():
    objective = ds.Problem(cars(), "am", family="binomial", ridge=0.1).objective()
    with pytest.raises(ds.errors.ArgumentError, match="ridge"):
        ds.step(objective)
