"""Qian, Singer (2019): DASH against greedy, top-k, random and lasso, on D1, D3 and the design."""

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression, lars_path_gram

import dbselect as ds
from reproduce.origin import vector
from reproduce.page import Study, claims, lines, prose, table

#: As published: features, true ones, covariance, most selected.
D1, D3 = (500, 100, 0.4, 150), (200, 50, 0.4, 100)
#: Inferred, as the paper does not state them: rows, and the variance of the "small noise".
ROWS, NOISE_VARIANCE = 1000, 1.0
#: The design: columns, rows, covariance, most rows observed.
DESIGN = (256, 1024, 0.8, 100)
EPSILON = 0.1
#: Ridge of the logistic models; else the coefficients of many features have no end.
RIDGE = 1e-3
METHODS = ["DASH", "greedy", "top-k", "random", "lasso"]
RANDOM_SEEDS = range(5)


def correlated(rng: np.random.Generator, n: int, width: int, covariance: float) -> np.ndarray:
    """Return normal columns of variance 1, each two of which have one covariance."""
    common = rng.standard_normal((n, 1))
    own = rng.standard_normal((n, width))
    return np.sqrt(covariance) * common + np.sqrt(1 - covariance) * own


def regression(seed: int, design: tuple[int, int, float, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return features and a target of which some have coefficients uniform in -2 to 2."""
    width, true, covariance, _ = design
    rng = np.random.default_rng(seed)
    X = correlated(rng, ROWS, width, covariance)
    weights = np.zeros(width)
    weights[rng.choice(width, true, replace=False)] = rng.uniform(-2, 2, true)
    return X, X @ weights + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(ROWS)


def names_of(width: int) -> list[str]:
    """Return the names of features."""
    return [f"x{j}" for j in range(width)]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what something gives, and the seconds it takes."""
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


def under_its_guess(search: Callable[..., Any], told: Any) -> float:
    """Return the seconds of DASH under the guess of OPT and alpha that won."""
    return timed(partial(search, opt=told.opt, alpha=told.alpha))[1]


def picture(study: Study, name: str, words: str, curve: pl.DataFrame, rounds: pl.DataFrame) -> str:
    """Return the picture of values, by how many are selected and by adaptive rounds."""
    drawn = [method for method in METHODS if method in set(curve["method"])]
    left = lines(rounds, "rounds", "value", "method", order=drawn, titles=("rounds", "value"))
    right = lines(curve, "k", "value", "method", order=drawn, titles=("k", "value"))
    return study.picture(name, words, left | right)


def by_rounds(found: dict[str, Any]) -> pl.DataFrame:
    """Return the value after each adaptive round."""
    return pl.concat(
        pl.DataFrame(
            {"rounds": np.arange(len(history) + 1), "value": [0.0, *history]}
        ).with_columns(method=pl.lit(method))
        for method, history in found.items()
    )


def wide(curve: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield a row a k: the value of each method, rounds and seconds of DASH and greedy."""
    for (k,), part in curve.group_by("k", maintain_order=True):
        own = {row["method"]: row for row in part.to_dicts()}
        dash, greedy = own["DASH"], own["greedy"]
        yield {
            "k": k,
            **{method: round(own[method]["value"], 4) for method in METHODS if method in own},
            "DASH / greedy": dash["value"] / greedy["value"],
            "rounds, DASH and greedy": f"{dash['rounds']}, {greedy['rounds']}",
            "s, DASH": dash["seconds"],
            "s, the winning guess": dash["alone"],
            "s, greedy": greedy["seconds"],
        }


def compared(curve: pl.DataFrame, least: float) -> dict[str, tuple[bool, str]]:
    """Return the claims on values, rounds and times.

    Parameters
    ----------
    least : share of greedy's value that counts as comparable
    """
    rows = list(wide(curve))
    shares = [row["DASH / greedy"] for row in rows]
    rounds = [tuple(map(int, row["rounds, DASH and greedy"].split(", "))) for row in rows]
    faster = [row["s, greedy"] / row["s, DASH"] for row in rows]
    alone = [row["s, greedy"] / row["s, the winning guess"] for row in rows]
    others = [method for method in METHODS[2:] if method in rows[0]]
    told = {
        f"DASH is comparable to greedy (at least {least:g} of it)": (
            min(shares) >= least,
            f"{min(shares):.3f} to {max(shares):.3f} of its value",
        ),
        "DASH takes fewer adaptive rounds than greedy": (
            all(few < many for few, many in rounds),
            ", ".join(f"{few} for {many}" for few, many in rounds),
        ),
        "DASH is twice to eight times as fast as greedy at large k": (
            faster[-1] >= 2,
            f"{faster[-1]:.2g} times at the largest k; {alone[-1]:.2g} under the winning guess",
        ),
    }
    for method in others:
        behind = [row["DASH"] - row[method] for row in rows]
        told[f"DASH is above {method}"] = (
            min(behind) > 0,
            f"by {min(behind):.3g} to {max(behind):.3g}",
        )
    return told


def linear(study: Study) -> Iterator[str]:
    """Repeat D1: value against rounds, k and time, by R2."""
    width, true, covariance, most = D1
    X, y = regression(0, D1)
    gram = ds.gram(np.column_stack([X, y]), columns=[*names_of(width), "y"])
    centred, target = X - X.mean(axis=0), y - y.mean()
    path = lars_path_gram(
        centred.T @ target, centred.T @ centred, n_samples=ROWS, method="lasso", max_iter=3 * most
    )[2]
    rows, rounds = [], {}
    for k in study.of((10, 25, 50, 75, 100, 125, most), (5, 20)):
        dash, spent = timed(partial(ds.dash, gram, "y", k=k))
        greedy, own = timed(partial(ds.greedy, gram, "y", k=k))
        told = dash.diagnostics
        alone = under_its_guess(partial(ds.dash, gram, "y", k=k), told)
        held = path[:, np.flatnonzero((path != 0).sum(axis=0) <= k)[-1]] != 0
        drawn = [ds.reference.random_k(gram, "y", k=k, seed=seed) for seed in RANDOM_SEEDS]
        values = {
            "DASH": (dash.explained, told.rounds, spent, alone),
            "greedy": (greedy.explained, greedy.diagnostics.rounds, own, own),
            "top-k": (ds.reference.top_k(gram, "y", k=k).explained, 1, 0.0, 0.0),
            "random": (float(np.mean([one.explained for one in drawn])), 1, 0.0, 0.0),
            "lasso": (
                ds.fit(gram, "y", [f"x{j}" for j in np.flatnonzero(held)]).r2, 0, 0.0, 0.0,
            ),
        }  # fmt: skip
        rows += rows_of(k, values)
        rounds = {"DASH": told.history, "greedy": greedy.diagnostics.history}
    curve = pl.DataFrame(rows)
    yield "## DASH: linear regression (Qian, Singer, D1)"
    yield prose(
        f"""
        Published: {width} normal features of covariance {covariance}, {true} coefficients uniform
        in -2 to 2, "a small noise", k to {most}, five samples a round; figures whose numbers the
        text does not hold. Inferred: {ROWS:,} rows, noise of variance {NOISE_VARIANCE:g}. The
        lasso's features are those of its path at k, fitted anew; random is the mean of five
        draws.
        """
    )
    yield table(wide(curve))
    yield picture(
        study, "dash_linear", "R2 by adaptive rounds and by k, D1", curve, by_rounds(rounds)
    )
    yield claims(compared(curve, 0.95))
    correlations = np.linalg.eigvalsh(np.corrcoef(X.T))
    gamma = float(correlations[0] / correlations[-1])
    reached = min(row["DASH / greedy"] for row in wide(curve))
    yield prose(
        f"""
        What the theorems promise: of all {width} columns the least eigenvalue is
        {correlations[0]:.3g} and the largest {correlations[-1]:.3g}, so gamma is at least
        {gamma:.2g} and alpha = gamma^2 at least {gamma**2:.2g} (Corollary 7). Theorem 10 then
        promises a share of 1 - exp(-alpha^2) - epsilon = {promise(gamma**2):.3g} of the best, at
        epsilon {EPSILON}: less than nothing. Reached is {reached:.3f} of greedy or more.
        """
    )


def rows_of(k: int, values: dict[str, tuple[float, int, float, float]]) -> list[dict[str, Any]]:
    """Return one row a method: value, rounds, seconds, and seconds under the winning guess."""
    names = ("value", "rounds", "seconds", "alone")
    return [
        {"k": k, "method": method, **dict(zip(names, figures, strict=True))}
        for method, figures in values.items()
    ]


def promise(alpha: float) -> float:
    """Return the factor of Theorem 10."""
    return -math.expm1(-(alpha**2)) - EPSILON


def logistic(study: Study) -> Iterator[str]:
    """Repeat D3: value against rounds, k and time, by deviance explained."""
    width, true, covariance, most = D3
    X, score = regression(1, D3)
    label = (score > 0).astype(float)
    frame = pl.DataFrame(X, schema=names_of(width)).with_columns(y=pl.Series(label))

    def fresh() -> ds.objectives.GlmObjective:
        """Return the objective; one that has been asked remembers its refits."""
        return ds.Problem(frame, "y", family="binomial", ridge=RIDGE, rows=ROWS).objective()

    rows, rounds, right = [], {}, []
    for k in study.of((10, 20, 50, most), (3, 6)):
        dash, spent = timed(partial(ds.dash, fresh(), k=k))
        greedy, own = timed(partial(ds.greedy, fresh(), k=k))
        told = dash.diagnostics
        alone = under_its_guess(partial(ds.dash, fresh(), k=k), told)
        objective = fresh()
        others = {
            "top-k": ds.reference.top_k(objective, k=k),
            "random": ds.reference.random_k(objective, k=k),
            "lasso": ds.fit(frame, "y", l1_features(X, label, k), family="binomial", ridge=RIDGE),
        }
        values = {
            "DASH": (dash.explained, told.rounds, spent, alone),
            "greedy": (greedy.explained, greedy.diagnostics.rounds, own, own),
            **{method: (model.explained, 1, 0.0, 0.0) for method, model in others.items()},
        }
        rows += rows_of(k, values)
        rounds = {"DASH": told.history, "greedy": greedy.diagnostics.history}
        models = {"DASH": dash, "greedy": greedy, **others}
        right.append({"k": k, **{name: rate(model, X, label) for name, model in models.items()}})
    curve = pl.DataFrame(rows)
    yield "## DASH: logistic regression (Qian, Singer, D3)"
    yield prose(
        f"""
        Published: {width} features, {true} true ones, the class by a threshold of the
        probability. Inferred: {ROWS:,} rows, covariance {covariance}, noise of variance
        {NOISE_VARIANCE:g} before the threshold. The value is the share of the null deviance that
        is explained, with a ridge of {RIDGE:g}; k to {most}.
        """
    )
    yield table(wide(curve))
    yield "Classification rate on the same rows:"
    yield table(right)
    yield picture(
        study,
        "dash_logistic",
        "Deviance explained by rounds and by k, D3",
        curve,
        by_rounds(rounds),
    )
    yield claims(compared(curve, 0.95))
    largest = float(np.linalg.eigvalsh(np.corrcoef(X.T))[-1])
    gamma = RIDGE / (largest / 4 + RIDGE)
    yield prose(
        f"""
        What the theorems promise: the curvature of the deviance per row is at least the ridge and
        at most a quarter of the largest eigenvalue, {largest:.3g}, and the ridge, so gamma is at
        least {gamma:.2g} (Corollary 8). Theorem 10's factor at epsilon {EPSILON} is
        {promise(gamma**2):.3g}: less than nothing. Reached is
        {min(row["DASH / greedy"] for row in wide(curve)):.3f} of greedy or more.
        """
    )


def rate(model: Any, X: np.ndarray, label: np.ndarray) -> float:
    """Return the share of rows that a logistic model puts on the right side."""
    own = model.model if hasattr(model, "model") else model
    fitted = own.intercept + X @ vector(own, names_of(X.shape[1]))
    return float(((fitted > 0) == (label > 0)).mean())


def l1_features(X: np.ndarray, label: np.ndarray, k: int) -> list[str]:
    """Return the features of an L1 logistic regression with at most k, as near as a grid comes."""
    kept = np.zeros(X.shape[1], dtype=bool)
    for strength in np.geomspace(1e-3, 1.0, 25):
        fitted = LogisticRegression(C=strength, l1_ratio=1.0, solver="liblinear", random_state=0)
        held = fitted.fit(X, label).coef_[0] != 0
        if held.sum() > k:
            break
        kept = held
    return [f"x{j}" for j in np.flatnonzero(kept)]


def design(study: Study) -> Iterator[str]:
    """Repeat the A-optimal design: value against k and time."""
    width, n, covariance, most = DESIGN
    rng = np.random.default_rng(0)
    X = correlated(rng, n, width, covariance)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    columns = names_of(width)
    rows = []
    for k in study.of((10, 25, 50, 75, most), (5, 10)):
        greedy, own = timed(partial(ds.a_optimal, X, columns, k))
        dash, spent = timed(partial(ds.a_optimal, X, columns, k, method="dash"))
        drawn = [rng.choice(n, k, replace=False) for _ in RANDOM_SEEDS]
        values = {
            "DASH": (float(dash.value[-1]), 0, spent, spent),
            "greedy": (float(greedy.value[-1]), k, own, own),
            "top-k": (reduction(X[alone(X)[:k]]), 1, 0.0, 0.0),
            "random": (float(np.mean([reduction(X[one]) for one in drawn])), 1, 0.0, 0.0),
        }
        rows += rows_of(k, values)
    curve = pl.DataFrame(rows)
    told = [
        {name: value for name, value in row.items() if "rounds" not in name and "guess" not in name}
        for row in wide(curve)
    ]
    yield "## DASH: Bayesian A-optimal design (Qian, Singer)"
    yield prose(
        f"""
        Published: {n:,} rows of {width} columns of covariance {covariance}, each row of norm 1, k
        to {most}. Here beta^2 = sigma^2 = 1. The value is by how much the summed variance of the
        coefficients falls; as all rows have one norm, top-k has nothing to choose by.
        """
    )
    yield table(told)
    yield study.picture(
        "dash_design",
        "Variance removed by rows observed",
        lines(curve, "k", "value", "method", order=METHODS[:4], titles=("rows observed", "value")),
    )
    found = compared(curve, 0.95)
    yield claims({claim: seen for claim, seen in found.items() if "rounds" not in claim})
    norm = float(np.linalg.norm(X, 2))
    gamma = 1 / (norm**2 * (1 + norm**2))
    reached = min(row["DASH / greedy"] for row in told)
    yield prose(
        f"""
        What the theorems promise: the spectral norm of the rows is {norm:.3g}, so gamma is
        {gamma:.2g} (Corollary 9) and Theorem 10's factor at epsilon {EPSILON} is
        {promise(gamma**2):.3g}: less than nothing. Reached is {reached:.3f} of greedy or more.
        """
    )


def alone(X: np.ndarray) -> np.ndarray:
    """Return the rows by what each is worth alone, best first; beta^2 = sigma^2 = 1."""
    squares = (X**2).sum(axis=1)
    return np.argsort(-squares / (1 + squares), kind="stable")


def reduction(rows: np.ndarray) -> float:
    """Return Tr(I) - Tr((I + X'X)^-1) of some rows."""
    width = rows.shape[1]
    return float(width - np.trace(np.linalg.inv(np.eye(width) + rows.T @ rows)))
