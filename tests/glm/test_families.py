"""Families: means, weights and deviances against their definitions, digits at the extremes."""

import numpy as np
import pytest
from scipy import special, stats

from dbselect.glm.families import BINOMIAL, GAUSSIAN, POISSON, FamilyFormulas, multinomial
from dbselect.record import formulas
from dbselect.record.formulas import column, translate

EPS = np.finfo(float).eps
CLASSES = multinomial(["a", "b", "c", "d"])
FAMILIES = [GAUSSIAN, BINOMIAL, POISSON, CLASSES]
by_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def evaluate(
    family: FamilyFormulas, eta: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, list, np.ndarray]:
    """Return means (n, R), weight and residual of each pair, deviances (n,)."""
    known = {("eta", k): eta[:, k] for k in range(eta.shape[1])}
    known |= {("y", r): y[:, r] for r in range(y.shape[1])}
    algebra = formulas.arrays(known.__getitem__)
    predictors = [column(("eta", k)) for k in range(eta.shape[1])]
    row = family.row(predictors, [column(("y", r)) for r in range(y.shape[1])])
    shape = len(eta)
    means = [np.broadcast_to(translate(m, algebra), shape) for m in family.means(predictors)]
    pairs = [tuple(np.broadcast_to(translate(f, algebra), shape) for f in p) for p in row.pairs]
    return np.column_stack(means), pairs, translate(row.deviance, algebra)


def random_rows(family: FamilyFormulas, rng: np.random.Generator, rows: int = 200):
    eta = rng.normal(size=(rows, len(family.basis)))
    if family is CLASSES:
        return eta, np.eye(4)[rng.integers(0, 4, rows)]
    draws = {
        "gaussian": rng.normal(size=rows),
        "binomial": rng.integers(0, 2, rows),
        "poisson": rng.poisson(2.0, rows),
    }
    return eta, draws[family.name][:, None].astype(float)


def test_means_and_deviances_are_those_of_the_distributions():
    rng = np.random.default_rng(1)
    eta, y = random_rows(BINOMIAL, rng)
    mean, _, deviance = evaluate(BINOMIAL, eta, y)
    np.testing.assert_allclose(mean, special.expit(eta), rtol=8 * EPS)
    np.testing.assert_allclose(
        deviance, -2 * stats.bernoulli.logpmf(y, special.expit(eta))[:, 0], rtol=1e-13
    )
    eta, y = random_rows(POISSON, rng)
    mean, _, deviance = evaluate(POISSON, eta, y)
    np.testing.assert_allclose(mean, np.exp(eta), rtol=8 * EPS)
    saturated = stats.poisson.logpmf(y, np.maximum(y, 1e-300))
    expected = 2 * (saturated - stats.poisson.logpmf(y, np.exp(eta)))[:, 0]
    np.testing.assert_allclose(deviance, expected, rtol=1e-11, atol=1e-13)
    eta, y = random_rows(CLASSES, rng)
    mean, _, deviance = evaluate(CLASSES, eta, y)
    np.testing.assert_allclose(mean, special.softmax(eta, axis=1), rtol=1e-14)
    expected = -2 * (special.log_softmax(eta, axis=1) * y).sum(axis=1)
    np.testing.assert_allclose(deviance, expected, rtol=1e-13)


@by_family
def test_pairs_add_up_to_gradient_and_information(family):
    rng = np.random.default_rng(2)
    eta, y = random_rows(family, rng)
    mean, pairs, _ = evaluate(family, eta, y)
    gradient = sum(
        (weight * rest)[:, None] * q
        for (weight, rest), q in zip(pairs, family.contrasts, strict=True)
    )
    np.testing.assert_allclose(gradient, (y - mean) @ family.basis, atol=1e-14)
    information = sum(
        weight[:, None, None] * np.outer(q, q)
        for (weight, _), q in zip(pairs, family.contrasts, strict=True)
    )
    h = 1e-6
    for p, direction in enumerate(family.basis.T):
        up, _, _ = evaluate(family, eta + h * direction, y)
        down, _, _ = evaluate(family, eta - h * direction, y)
        slope = (up - down) / (2 * h) @ family.basis
        np.testing.assert_allclose(information[:, p], slope, atol=1e-7)


@by_family
def test_the_null_model_is_the_best_constant(family):
    rng = np.random.default_rng(3)
    _, y = random_rows(family, rng)
    share = rng.uniform(0.5, 2, len(y))
    mean = np.average(y, axis=0, weights=share)
    variance = np.average((y - mean) ** 2, axis=0, weights=share)
    y_log_y = np.average(special.xlogy(y, y)[:, 0], weights=share)
    null = family.null(mean, variance, float(y_log_y), share.sum())
    eta = np.broadcast_to(null.predictors, (len(y), len(null.predictors)))
    means, pairs, deviance = evaluate(family, eta, y)
    np.testing.assert_allclose(means, np.broadcast_to(mean, means.shape), rtol=1e-13)
    np.testing.assert_allclose(null.deviance, share @ deviance, rtol=1e-12)
    for (weight, rest), w, r in zip(pairs, null.weights, null.residuals, strict=True):
        np.testing.assert_allclose(weight, w, rtol=1e-12)
        np.testing.assert_allclose(rest, (y - mean) @ r, atol=1e-12)


@by_family
def test_no_predictor_is_too_large_and_no_gradient_is_lost(family):
    extremes = np.array([0.0, 30.0, 40.0, 90.0, 700.0, 1e5, 1e100])
    eta = np.zeros((2 * len(extremes), len(family.basis)))
    eta[:, 0] = np.concatenate([extremes, -extremes])
    size = len(family.basis)
    for r in range(max(size, 2)):
        y = np.zeros((len(eta), size))
        y[:, 0 if size == 1 else r] = r if size == 1 else 1.0
        with np.errstate(under="ignore", over="ignore" if family is GAUSSIAN else "raise"):
            mean, pairs, deviance = evaluate(family, eta, y)
        if family is GAUSSIAN:
            continue
        assert np.isfinite(deviance).all()
        assert all(np.isfinite(rest).all() and (weight > 0).all() for weight, rest in pairs)
        gradient = sum(
            (weight * rest)[:, None] * q
            for (weight, rest), q in zip(pairs, family.contrasts, strict=True)
        )
        np.testing.assert_allclose(gradient, (y - mean) @ family.basis, rtol=1e-14, atol=1e-15)


def test_a_deviance_near_nothing_keeps_its_digits():
    eta = np.array([[20.0], [-20.0], [35.0]])
    y = np.array([[1.0], [0.0], [1.0]])
    _, _, deviance = evaluate(BINOMIAL, eta, y)
    np.testing.assert_allclose(deviance, 2 * np.log1p(np.exp(-np.abs(eta[:, 0]))), rtol=1e-15)
