"""The path of the lasso on a ready Gram, beside other libraries, and how exact each is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from measure import installed, seconds
from rows import Row, skipped
from sklearn.linear_model import lasso_path
from tables import columns

import dbselect as ds

#: Share of the columns' variance that ten common factors have, and of columns in the truth.
COMMON, TRUE = 0.5, 0.1
#: Last penalty as a share of the first, by the number of columns.
WIDTHS = {50: 1e-3, 500: 1e-3, 2000: 1e-2}


@dataclass(frozen=True)
class Task:
    """Rows of unit variance, their correlations, and those with the target."""

    X: np.ndarray
    y: np.ndarray
    G: np.ndarray
    c: np.ndarray

    @property
    def gram(self) -> ds.Gram:
        rows = np.column_stack([self.X, self.y])
        n, names = len(rows), [*columns(len(self.c)), "y"]
        return ds.Gram(names, n, 0, float(n), np.zeros(len(names)), rows.T @ rows)

    def violation(self, w: np.ndarray, penalties: np.ndarray) -> float:
        """Return how far coefficients are from optimal at most, in correlations."""
        b, limit = self.c - w @ self.G, penalties[:, None]
        return float(np.where(w != 0, abs(b - limit * np.sign(w)), abs(b) - limit).max())


def correlated(width: int) -> Task:
    """Return columns with common factors and a noisy target, twice as much noise as signal."""
    rng = np.random.default_rng(0)
    rows = 3 * width + 200
    X = np.sqrt(1 - COMMON) * rng.standard_normal((rows, width))
    X += np.sqrt(COMMON / 10) * rng.standard_normal((rows, 10)) @ rng.standard_normal((10, width))
    signal = X[:, : round(TRUE * width)] @ rng.standard_normal(round(TRUE * width))
    y = signal + np.sqrt(2) * signal.std() * rng.standard_normal(rows)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    X = np.asfortranarray(X)
    return Task(X, y, X.T @ X / rows, X.T @ y / rows)


def of_scikit_learn(task: Task, penalties: np.ndarray, tol: float) -> np.ndarray:
    """Return coordinate descent on the Gram; shape (L, D)."""
    n = len(task.y)
    _, w, _ = lasso_path(
        task.X, task.y, alphas=penalties, precompute=n * task.G, Xy=n * task.c, tol=tol,
        max_iter=10**5, check_input=False,
    )  # fmt: skip
    return np.asarray(w.T)


def of_adelie(task: Task, penalties: np.ndarray, tol: float) -> np.ndarray:
    """Return adelie's solver for a covariance; shape (L, D)."""
    import adelie

    solution = adelie.solver.gaussian_cov(
        adelie.matrix.dense(task.G, method="cov", n_threads=1), task.c, lmda_path=penalties,
        tol=tol, early_exit=False, n_threads=1, progress_bar=False,
    )  # fmt: skip
    return solution.betas.toarray()


@dataclass(frozen=True)
class Peer:
    """A library, and its tolerances: its own, and one nearly as exact as the path here."""

    module: str
    solve: Callable[[Task, np.ndarray, float], np.ndarray]
    tolerances: tuple[float, float]


PEERS = (
    Peer("sklearn", of_scikit_learn, (1e-4, 1e-10)),
    Peer("adelie", of_adelie, (1e-7, 1e-14)),
)


def paths() -> Iterator[Row]:
    """Measure 100 penalties of the lasso, and the installed peers on them."""
    for width, smallest in WIDTHS.items():
        task, few = correlated(width), width < 1000
        search = partial(ds.lasso_path, task.gram, "y", lambda_min_ratio=smallest)
        path = search()
        penalties, off = path.penalties[1:], task.violation(path.scaled_coef, path.penalties)
        count = int((path.coef[-1] != 0).sum())
        what = f"lasso at 100 penalties, D = {width}, {count} columns at the last"
        for peer in PEERS:
            if not installed(peer.module):
                yield skipped(f"{what}, against {peer.module}", f"no {peer.module}")
                continue
            # The more exact tolerance takes minutes for 2,000 columns.
            for tol in peer.tolerances if few else peer.tolerances[:1]:
                solve = partial(peer.solve, task, penalties, tol)
                took, peer_seconds = seconds(search, solve, repeats=3 if few else 1)
                note = (
                    f"off by {off:.0e}, {peer.module} by {task.violation(solve(), penalties):.0e}"
                )
                yield Row(what, took, peer_seconds, f"{peer.module}, tol {tol:g}", note=note)


def sparse_groups() -> Iterator[Row]:
    """Measure the sparse group lasso and the elastic net on the same Gram."""
    gram = correlated(500).gram
    groups = {f"g{i}": columns(500)[5 * i : 5 * i + 5] for i in range(100)}
    lasso, net, group, sparse = seconds(
        lambda: ds.lasso_path(gram, "y"),
        lambda: ds.lasso_path(gram, "y", l1_ratio=0.5),
        lambda: ds.group_lasso_path(gram, "y", groups, n_lambda=100),
        lambda: ds.group_lasso_path(gram, "y", groups, n_lambda=100, l1_ratio=0.5),
    )
    what = "at 100 penalties, D = 500"
    yield Row(f"elastic net {what}", net, lasso, "lasso")
    yield Row(f"group lasso {what} in 100 groups", group, lasso, "lasso", limit=2.0)
    yield Row(f"sparse group lasso {what} in 100 groups", sparse, lasso, "lasso")


PARTS = (paths, sparse_groups)
