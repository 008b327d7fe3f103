"""Criteria of every step: statsmodels' numbers, and formulas from its log-likelihood."""

import math
from functools import partial

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from problems import Problem, random_problem

import dbselect as ds

NAMES = ["aic", "bic", "ebic", "gic", "cp", "adjusted_r2"]
#: Digits of n log(RSS / n): RSS is a difference of shares that err by some 1e-15.
CLOSE = {"rtol": 1e-10, "atol": 1e-9}


def held_columns(problem: Problem, seq: ds.results.Sequence) -> list[list[int]]:
    """Return the column numbers held after each step, from the table of steps alone."""
    held: dict[str, None] = {}
    found: list[list[int]] = [[]]
    for action, group in seq.steps.select("action", "group").rows()[1:]:
        if action == "add":
            held[group] = None
        else:
            del held[group]
        found.append([j for name in held for j in problem.groups[name]])
    return found


def refits(problem: Problem, seq: ds.results.Sequence) -> list:
    """Fit the rows of every step anew."""
    table = problem.table
    one = np.ones((len(table.X), 1))
    return [
        sm.WLS(table.y, np.hstack([one, table.X[:, at]]), table.weight).fit()
        for at in held_columns(problem, seq)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_aic_bic_and_adjusted_r2_are_those_of_statsmodels(seed):
    problem = random_problem(np.random.default_rng(seed))
    seq = problem.sequence()
    found, fits = seq.criteria(), refits(problem, seq)
    assert found["df"].to_list() == [fit.df_model + 1 for fit in fits]
    np.testing.assert_allclose(found["aic"], [fit.aic for fit in fits], **CLOSE)
    np.testing.assert_allclose(found["bic"], [fit.bic for fit in fits], **CLOSE)
    np.testing.assert_allclose(found["adjusted_r2"], [fit.rsquared_adj for fit in fits], **CLOSE)


def test_ebic_gic_and_cp_are_their_formulas():
    problem = random_problem(np.random.default_rng(7))
    seq = problem.sequence()
    found, fits = seq.criteria(gamma=0.5, penalty=3.0), refits(problem, seq)
    n, groups, columns = len(problem.table.X), len(problem.groups), problem.table.X.shape[1]
    choices = [math.log(math.comb(groups, step)) for step in range(len(fits))]
    ebic = [fit.bic + 2 * 0.5 * more for fit, more in zip(fits, choices, strict=True)]
    np.testing.assert_allclose(found["ebic"], ebic, **CLOSE)
    gic = [-2 * fit.llf + 3.0 * (fit.df_model + 1) for fit in fits]
    np.testing.assert_allclose(found["gic"], gic, **CLOSE)
    noise = fits[-1].mse_resid
    cp = [fit.ssr / noise - n + 2 * (fit.df_model + 1) for fit in fits]
    np.testing.assert_allclose(found["cp"], cp, rtol=1e-9, atol=1e-9 * n)
    default = seq.criteria()
    np.testing.assert_allclose(
        default["ebic"], [f.bic + 2 * c for f, c in zip(fits, choices, strict=True)], **CLOSE
    )
    a = max(2.0, math.log(math.log(n)) * math.log(columns))
    assert a > 2
    np.testing.assert_allclose(
        default["gic"], [-2 * fit.llf + a * (fit.df_model + 1) for fit in fits], **CLOSE
    )


@pytest.mark.parametrize("rows", [3, 40])
def test_aliased_columns_are_not_counted(rows):
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, rows))
    table = pl.DataFrame({"a": a, "b": b, "sum": a + b, "one": np.ones(rows)})
    table = table.with_columns(y=pl.Series(a - b + rng.normal(size=rows)))
    groups = {"first": ["a", "b", "sum", "one"]}
    found = ds.anytime_sequence(table, "y", groups).criteria()
    assert found["df"].to_list() == [1.0, 3.0]
    if rows == 3:
        assert found.select(NAMES).row(1) == (None,) * len(NAMES)
        return
    fit = sm.OLS(table["y"].to_numpy(), np.column_stack([np.ones(rows), a, b])).fit()
    np.testing.assert_allclose(
        found.select("aic", "bic", "adjusted_r2").row(1),
        [fit.aic, fit.bic, fit.rsquared_adj],
        **CLOSE,
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_counts_the_trace_of_the_map_from_target_to_fit(weighted):
    problem = random_problem(np.random.default_rng(2), weighted=weighted, ridge=0.3)
    seq = problem.sequence()
    table = problem.table
    n = len(table.X)
    w = table.weight
    Z = (table.X - np.average(table.X, axis=0, weights=w)) * np.sqrt(w)[:, None]
    Z /= np.linalg.norm(Z, axis=0)
    degrees, losses = [], []
    y = (table.y - np.average(table.y, weights=w)) * np.sqrt(w)
    for at in held_columns(problem, seq):
        hat = Z[:, at] @ np.linalg.solve(Z[:, at].T @ Z[:, at] + 0.3 * np.eye(len(at)), Z[:, at].T)
        degrees.append(1 + np.trace(hat))
        losses.append(n * (math.log(2 * math.pi * ((y - hat @ y) ** 2).sum() / n) + 1))
    found = seq.criteria()
    np.testing.assert_allclose(found["df"], degrees, rtol=1e-10)
    np.testing.assert_allclose(found["aic"], np.add(losses, 2 * np.array(degrees)), **CLOSE)


@pytest.mark.parametrize("method", [partial(ds.foba, epsilon=1e-6, nu=0.9), ds.backward])
def test_steps_that_give_groups_back_are_judged_by_what_they_hold(method):
    problem = random_problem(np.random.default_rng(2), sizes=(1, 2, 1, 3, 1))
    seq = method(problem.gram, "y", groups=problem.names)
    found, fits = seq.criteria(), refits(problem, seq)
    assert (seq.steps["action"] == "remove").any()
    np.testing.assert_allclose(found["df"], [fit.df_model + 1 for fit in fits])
    np.testing.assert_allclose(found["aic"], [fit.aic for fit in fits], **CLOSE)


@pytest.mark.parametrize("name", NAMES)
def test_best_is_the_step_with_the_best_value(name):
    problem = random_problem(np.random.default_rng(13))
    seq = problem.sequence()
    values = seq.criteria()[name].to_numpy()
    step = int(values.argmax() if name == "adjusted_r2" else values.argmin())
    model = seq.best(name)
    assert model.groups == seq.at(size=step).groups
    assert model.coefficients == seq.at(size=step).coefficients


def test_of_perfect_fits_the_smallest_is_best_and_no_number_is_infinite():
    rng = np.random.default_rng(19)
    a, b, c = rng.normal(size=(3, 30))
    table = pl.DataFrame({"a": a, "b": b, "c": c, "y": 3 * a - b})
    seq = ds.anytime_sequence(table, "y")
    found = seq.criteria()
    assert found["adjusted_r2"][2] == pytest.approx(1.0)
    for name in NAMES:
        assert found[name].is_finite().all()
        assert sorted(seq.best(name).columns) == ["a", "b"]


def test_models_without_rows_left_to_judge_them_have_no_criteria():
    rng = np.random.default_rng(23)
    table = pl.DataFrame(rng.normal(size=(4, 6)), schema=["y", *"abcde"])
    seq = ds.anytime_sequence(table, "y")
    found = seq.criteria()
    judged = found["df"] < 4
    assert judged.to_list()[:4] == [True, True, True, False]
    for name in ("aic", "bic", "ebic", "gic", "adjusted_r2"):
        assert (found[name].is_not_null() == judged).all()
    assert found["cp"].null_count() == found.height
    assert len(seq.best("aic").columns) <= 2
    with pytest.raises(ds.errors.DataError, match="4 rows are too few for criterion 'cp'"):
        seq.best("cp")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": -0.1}, r"gamma is -0.1; it must be a number from 0 to 1"),
        ({"gamma": "1"}, r"gamma is '1'"),
        ({"penalty": 0.0}, r"penalty is 0.0; it must be a number > 0"),
        ({"penalty": math.nan}, r"penalty is nan"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    seq = random_problem(np.random.default_rng(0), sizes=(1, 1)).sequence()
    with pytest.raises(ds.errors.ArgumentError, match=message):
        seq.criteria(**options)
    with pytest.raises(ds.errors.ArgumentError, match=message):
        seq.best(**options)


def test_unknown_criterion_is_refused():
    seq = random_problem(np.random.default_rng(0), sizes=(1, 1)).sequence()
    with pytest.raises(
        ds.errors.ArgumentError, match=r"criterion is 'r2'; it must be one of \['aic'"
    ):
        seq.best("r2")
