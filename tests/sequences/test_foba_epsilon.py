"""FoBa's epsilon is that of its theorem, and what the theorem promises is kept."""

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.reference import foba_epsilon


def table(seed: int, n: int = 20_000, d: int = 6, noise: float = 0.5) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.3 * rng.standard_normal((n, 1))
    y = 4 * X[:, 1] - 3 * X[:, 4] + noise * rng.standard_normal(n)
    return pl.DataFrame(X, schema=[f"x{j}" for j in range(d)]).with_columns(y=pl.Series(y))


def test_it_is_the_bound_of_the_theorem():
    rows = table(0)
    X, y = rows.drop("y").to_numpy(), rows["y"].to_numpy()
    rho = np.linalg.eigvalsh(np.corrcoef(X.T))[0]
    eta = 0.06 / 3
    bound = 64 * rho**-2 * 0.5**2 * np.log(2 * X.shape[1] / eta) / len(y)
    found = foba_epsilon(ds.Problem(rows, "y"), noise=0.5, failure=0.06)
    assert np.isclose(found, bound / y.var(), rtol=1e-9)
    known = foba_epsilon(ds.Problem(rows, "y"), noise=0.5, failure=0.06, eigenvalue=1.0)
    assert np.isclose(known, found * rho**2, rtol=1e-9)
    fewer = foba_epsilon(ds.Problem(rows, "y", {"a": ["x1", "x4"]}), noise=0.5, eigenvalue=1.0)
    assert fewer < foba_epsilon(ds.Problem(rows, "y"), noise=0.5, eigenvalue=1.0)


def test_by_it_foba_ends_with_the_true_columns():
    for seed in range(5):
        rows = table(seed)
        found = ds.foba(rows, "y", epsilon=foba_epsilon(ds.Problem(rows, "y"), noise=0.5))
        assert set(found.at().groups) == {"x1", "x4"}


def test_what_has_no_bound_says_so():
    rows = table(0, n=50)
    for options, said in (
        ({"noise": 0}, "noise is 0"),
        ({"noise": "1"}, "noise is '1'"),
        ({"noise": 1, "failure": 1}, "failure is 1"),
        ({"noise": 1, "eigenvalue": 2}, "eigenvalue is 2"),
    ):
        with pytest.raises(ds.errors.ArgumentError, match=said):
            foba_epsilon(ds.Problem(rows, "y"), **options)
    twice = rows.with_columns(x9=2 * pl.col("x1"))
    with pytest.raises(ds.errors.DataError, match="depend linearly"):
        foba_epsilon(ds.Problem(twice, "y"), noise=1)
    assert foba_epsilon(ds.Problem(twice, "y"), noise=1, eigenvalue=0.5) > 0
    with pytest.raises(ds.errors.ArgumentError, match="least squares on one response"):
        foba_epsilon(ds.Problem(rows, ["y", "x1"]), noise=1)
