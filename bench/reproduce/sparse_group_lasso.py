"""The sparse group lasso of skglm, its penalty chosen by cross-validation."""

import numpy as np
import polars as pl
from skglm.datafits import QuadraticGroup
from skglm.penalties import WeightedL1GroupL2
from skglm.solvers import GroupBCD

#: Penalties of the path, the last as a share of the first; as much on columns as on groups.
PENALTIES, SMALLEST = 20, 0.01
#: By the rule's name: coefficients of columns, and the intercept.
Chosen = dict[str, tuple[dict[str, float], float]]


def path(X: np.ndarray, y: np.ndarray, sizes: list[int], penalties: np.ndarray) -> np.ndarray:
    """Return the coefficients at falling penalties, on centred rows; shape (penalties, d).

    Minimised is ``||y - Xw||^2 / 2n + penalty (sum_g sqrt(size) ||w_g|| + sum_j |w_j|)``.
    """
    indices, pointer = (
        np.arange(X.shape[1], dtype=np.int32),
        np.cumsum([0, *sizes]).astype(np.int32),
    )
    datafit = QuadraticGroup(pointer, indices)
    solver = GroupBCD(max_iter=200, max_epochs=2000, tol=1e-4, ws_strategy="fixpoint")
    w, solutions = np.zeros(X.shape[1]), []
    X = np.asfortranarray(X)
    for penalty in penalties:
        sparse = WeightedL1GroupL2(
            penalty, np.sqrt(np.array(sizes, dtype=float)), np.ones(X.shape[1]), pointer, indices
        )
        w = solver.solve(X, y, datafit, sparse, w_init=w.copy(), Xw_init=X @ w)[0]
        solutions.append(w)
    return np.array(solutions)


def sparse_group_lasso(train: pl.DataFrame, groups: dict[str, list[str]], folds: int) -> Chosen:
    """Return the best model by cross-validation, and the sparsest within a standard error."""
    names = [name for members in groups.values() for name in members]
    sizes = [len(members) for members in groups.values()]
    X, y = train.select(names).to_numpy(), train["y"].to_numpy()
    scale = X.std(axis=0)
    X = X / scale
    largest = np.abs((X - X.mean(axis=0)).T @ (y - y.mean())).max() / len(y)
    penalties = largest * np.geomspace(1.0, SMALLEST, PENALTIES)
    fold = np.arange(len(y)) % folds
    errors = []
    for held_out_fold in range(folds):
        is_held, rest = fold == held_out_fold, fold != held_out_fold
        mean, level = X[rest].mean(axis=0), y[rest].mean()
        coef = path(X[rest] - mean, y[rest] - level, sizes, penalties)
        residual = y[is_held][:, None] - level - (X[is_held] - mean) @ coef.T
        errors.append((residual**2).mean(axis=0))
    error = np.mean(errors, axis=0)
    best = int(error.argmin())
    within = error[best] + np.std(errors, axis=0, ddof=1)[best] / np.sqrt(folds)
    at = {"best": best, "one_standard_error": int(np.flatnonzero(error <= within)[0])}
    coef = path(X - X.mean(axis=0), y - y.mean(), sizes, penalties) / scale
    return {
        choice: (
            {name: float(value) for name, value in zip(names, coef[i], strict=True) if value},
            float(y.mean() - (X * scale).mean(axis=0) @ coef[i]),
        )
        for choice, i in at.items()
    }
