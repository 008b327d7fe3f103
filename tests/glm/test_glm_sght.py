"""Bi-level selection on a deviance: gradients, the best columns, and least squares."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from test_glm import COLUMNS, FAMILIES, OFFSETS, table
from test_glm_objective import objective_of

import dbselect as ds
from dbselect.methods.sght import Deviance
from dbselect.selection.descent import VARIANTS

GROUPS = {"ab": ["a", "b"], "cd": ["c", "d"], "e": ["e"]}
EVERY = [*FAMILIES, "multinomial"]

variants = pytest.mark.parametrize("variant", VARIANTS)
families = pytest.mark.parametrize("family", EVERY)


def fit(frame, family, columns, **options):
    return ds.fit(frame, family, columns, family=family, offset=OFFSETS.get(family), **options)


@families
def test_history_tells_the_share_of_deviance_left_and_a_refit_does_not_lose_any(family):
    frame = table(rows=400)
    objective = objective_of(frame, family, GROUPS)
    plain = ds.sght(objective, max_columns=3, max_groups=3, refit=False, tol=1e-12)
    again = ds.sght(objective, max_columns=3, max_groups=3, tol=1e-12)
    assert 1 + 2 * plain.history.min() == pytest.approx(
        plain.model.deviance / plain.model.null_deviance
    )
    assert plain.explained == pytest.approx(
        1 - plain.model.deviance / plain.model.null_deviance, rel=1e-9
    )
    assert again.model.deviance <= plain.model.deviance * (1 + 1e-10)
    assert again.model.deviance == pytest.approx(plain.model.deviance, rel=1e-6)
    if family == "binomial":
        y, p = frame["binomial"].to_numpy(), plain.predict(frame)
        deviance = -2 * np.sum(y * np.log(p) + (1 - y) * np.log1p(-p))
        assert plain.model.deviance == pytest.approx(deviance, rel=1e-9)


@pytest.mark.slow
@families
def test_the_end_keeps_the_best_columns_of_all(family):
    frame = table(rows=600)
    objective = objective_of(frame, family, {name: [name] for name in COLUMNS})
    for size in (1, 2, 3):
        best = min(fit(frame, family, list(kept)).deviance for kept in combinations(COLUMNS, size))
        model = ds.sght(objective, max_columns=size, max_groups=size)
        assert model.model.deviance == pytest.approx(best, rel=1e-9)


@variants
def test_family_gaussian_is_least_squares(variant):
    frame = table(rows=400)
    limits = {"max_columns": 3, "max_groups": 2, "variant": variant, "tol": 1e-14}
    model = ds.sght(objective_of(frame, "gaussian", GROUPS), **limits)
    rest = frame.with_columns(gaussian=pl.col("gaussian") - pl.col(OFFSETS["gaussian"]))
    expected = ds.sght(rest, "gaussian", groups=GROUPS, **limits, polish=False)
    assert model.columns == expected.columns
    # Least squares jump to the minimum on a support; a family descends to it.
    ends = [one.history.min() for one in (model, expected)]
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-9, atol=1e-12)
    for name in model.columns:
        assert model.coefficients[name] == pytest.approx(expected.coefficients[name], rel=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
@families
def test_the_gradient_is_that_of_differences(family, intercept):
    given = {"ridge": 0.1, "weight": "w", "intercept": intercept}
    objective = objective_of(table(rows=200), family, GROUPS, **given)
    deviance = Deviance(objective.refits, objective.fit)
    rng = np.random.default_rng(0)
    x, step = 0.3 * rng.normal(size=(2, *deviance.c.shape))
    slope = np.vdot(deviance.at(x).gradient, step)
    h = 1e-4
    ends = [deviance.at(x + sign * h * step).value for sign in (1, -1)]
    # Third derivatives leave h^2.
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5)
    np.testing.assert_allclose(deviance.at(0 * x).gradient, -deviance.c)


def test_many_columns_of_few_groups_are_found():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1500, 60))
    coef = np.zeros(60)
    for group in (1, 4):
        coef[10 * group : 10 * group + 4] = [1.5, -1.0, 1.2, -1.4]
    y = rng.random(1500) < 1 / (1 + np.exp(-(X @ coef)))
    names = [f"x{j}" for j in range(60)]
    groups = {f"g{n}": names[10 * n : 10 * n + 10] for n in range(6)}
    frame = pl.DataFrame(X, schema=names).with_columns(y=pl.Series(y))
    model = ds.sght(
        ds.Problem(frame, "y", groups, family="binomial").objective(), max_columns=8, max_groups=2
    )
    assert model.columns == [f"x{j}" for j in np.flatnonzero(coef)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_columns": 6}, "max_columns is 6; it must be a whole number from 1 to 5"),
        ({"max_groups": 4}, "max_groups is 4; it must be a whole number from 1 to 3"),
        ({"groups": GROUPS}, "groups is .*; it is for tables, and source is an objective"),
        ({"null_policy": "mean"}, "null_policy is 'mean'; it is for tables"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    objective = objective_of(table(rows=50), "binomial", GROUPS)
    with pytest.raises(ds.errors.ArgumentError, match=message):
        ds.sght(objective, **{"max_columns": 2, "max_groups": 2, **options})
