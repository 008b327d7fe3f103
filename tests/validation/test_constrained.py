"""Fits under signs and without correlation to named columns, against SciPy and KKT systems."""

import re

import numpy as np
import polars as pl
import pytest
from scipy import stats
from scipy.optimize import lsq_linear, nnls
from sklearn.linear_model import Lasso

import dbselect as ds

#: Rounding of coefficients of these columns, of size 1.
NEAR = 1e-10
WIDTH = 6
NAMES = [f"x{j}" for j in range(WIDTH)]


def drawn(seed: int, rows: int = 60) -> tuple[np.ndarray, np.ndarray, pl.DataFrame]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, WIDTH)) + rng.normal(size=(rows, 1))
    y = x @ rng.normal(size=WIDTH) + rng.normal(size=rows) + 3.0
    z = x[:, 0] - x[:, 1] + rng.normal(size=rows)
    return x, y, pl.DataFrame({**dict(zip(NAMES, x.T, strict=True)), "z": z, "y": y})


def signs_of(seed: int) -> dict[str, str]:
    kinds = np.random.default_rng(seed).choice(["+", "-", ""], size=WIDTH)
    return {name: str(kind) for name, kind in zip(NAMES, kinds, strict=True) if kind}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_signs_are_those_of_bounded_least_squares(seed, ridge):
    x, y, table = drawn(seed)
    signs = signs_of(seed)
    model = ds.fit(table, "y", NAMES, signs=signs, ridge=ridge)
    spread, n = x.std(axis=0), len(y)
    unit = (x - x.mean(axis=0)) / spread
    rows = np.vstack([unit, np.sqrt(ridge * n) * np.eye(WIDTH)])
    lower = [0.0 if signs.get(name) == "+" else -np.inf for name in NAMES]
    upper = [0.0 if signs.get(name) == "-" else np.inf for name in NAMES]
    target = np.append(y - y.mean(), np.zeros(WIDTH))
    expected = lsq_linear(rows, target, (lower, upper), method="bvls", tol=1e-14).x / spread
    assert [*model.coefficients.values()] == pytest.approx(expected.tolist(), abs=NEAR)
    assert model.constraint.violation < 1e-12
    rss = ((y - model.predict(table)) ** 2).sum()
    assert model.r2 == pytest.approx(1 - rss / ((y - y.mean()) ** 2).sum(), abs=NEAR)
    free = ds.fit(table, "y", NAMES, ridge=ridge)
    assert model.constraint.r2_cost == pytest.approx(max(0.0, free.r2 - model.r2), abs=NEAR)


def test_through_the_origin_it_is_nnls():
    x, y, table = drawn(1)
    model = ds.fit(table, "y", NAMES, signs={"x*": "+"}, intercept=False)
    assert [*model.coefficients.values()] == pytest.approx(nnls(x, y)[0].tolist(), abs=NEAR)


def test_columns_that_depend_on_others_reach_the_same_minimum():
    _, y, table = drawn(2)
    table = table.with_columns(minus=-pl.col("x0"), both=pl.col("x1") + pl.col("x2"))
    names = [*NAMES, "minus", "both"]
    model = ds.fit(table, "y", names, signs=dict.fromkeys(names, "+"))
    rows = table.select(names).to_numpy()
    least = nnls(rows - rows.mean(axis=0), y - y.mean())[1] ** 2
    assert model.r2 == pytest.approx(1 - least / ((y - y.mean()) ** 2).sum(), abs=NEAR)


@pytest.mark.parametrize("seed", range(5))
def test_uncorrelated_solves_the_kkt_system(seed):
    x, y, table = drawn(seed)
    model = ds.fit(table, "y", NAMES, uncorrelated=["z"])
    centred = x - x.mean(axis=0)
    a = centred.T @ (table["z"].to_numpy() - table["z"].mean())
    system = np.block([[centred.T @ centred, a[:, None]], [a[None, :], np.zeros((1, 1))]])
    expected = np.linalg.solve(system, np.append(centred.T @ (y - y.mean()), 0.0))[:-1]
    assert [*model.coefficients.values()] == pytest.approx(expected.tolist(), abs=NEAR)
    assert abs(np.corrcoef(model.predict(table), table["z"])[0, 1]) < NEAR
    # Unless it is named, the column does not predict.
    assert "z" not in ds.fit(table, "y", uncorrelated=["z"]).columns
    assert "z" in ds.fit(table, "y", ["z", "x0", "x1"], uncorrelated=["z"]).columns


@pytest.mark.parametrize("seed", [0, 1])
def test_a_lasso_path_under_signs_is_that_of_scikit_learn(seed):
    x, y, table = drawn(seed)
    path = ds.lasso_path(table.drop("z"), "y", signs={"x*": "+"}, n_lambda=8)
    unit, target = (x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std()

    def objective(w, penalty):
        return ((target - unit @ w) ** 2).sum() / 2 / len(y) + penalty * np.abs(w).sum()

    for point, penalty in enumerate(path.penalties):
        w = path.coef[point] * x.std(axis=0) / y.std()
        expected = Lasso(alpha=penalty, positive=True, tol=1e-12, max_iter=10**5).fit(unit, target)
        assert (w >= 0).all()
        assert objective(w, penalty) <= objective(expected.coef_, penalty) + NEAR
    assert max(path.gap.max(), path.violation.max()) < 1e-8


def test_a_prefix_is_fitted_again_under_signs():
    _, _, table = drawn(4)
    seq = ds.anytime_sequence(table.drop("z"), "y")
    free = seq.at(3.0)
    signs = {name: "-" if w > 0 else "+" for name, w in free.coefficients.items()}
    model = seq.at(3.0, signs=signs)
    fitted = ds.fit(table, "y", free.columns, signs=signs)
    assert model.coefficients == pytest.approx(fitted.coefficients, abs=NEAR)
    assert (model.groups, model.spent) == (free.groups, free.spent)


def test_sql_has_the_same_coefficients():
    _, _, table = drawn(5)
    signs, connection = signs_of(5), ds.connect()
    connection.register("t", table)
    given = f"{{'signs': {signs!r}, 'uncorrelated': ['z']}}"
    query = f"SELECT fit(gram(t), 'y', {NAMES!r}, {given}) FROM t"
    ((found,),) = connection.execute(query).fetchall()
    model = ds.fit(table, "y", NAMES, signs=signs, uncorrelated=["z"])
    assert found["coefficients"] == pytest.approx(model.coefficients, abs=1e-14)
    assert found["note"] == f"the constraints cost {model.constraint.r2_cost:.4f} of r2"
    path = f"SELECT lasso(gram(t), 'y', {{'signs': {signs!r}, 'penalty': 0.05}}) FROM t"
    ((lasso,),) = connection.execute(path).fetchall()
    expected = ds.reference.lasso(table, "y", signs=signs, penalty=0.05)
    assert lasso["coefficients"] == pytest.approx(expected.coefficients, abs=1e-14)


def test_records_have_the_coefficients_of_their_rows():
    table = drawn(7)[2].with_columns(k=pl.int_range(pl.len()) % 2)
    given = {"signs": {"x0": "+", "x1": "-"}, "uncorrelated": ["z"]}
    fits = ds.fit_by(ds.gram_by(table, by=["k"]), "y", NAMES, **given)
    for k, found in fits.select("k", "fit").iter_rows():
        model = ds.fit(table.filter(pl.col("k") == k), "y", NAMES, **given)
        coefficients = {entry["key"]: entry["value"] for entry in found["coefficients"]}
        assert coefficients == pytest.approx(model.coefficients, abs=1e-12)
    with pytest.raises(ds.errors.ArgumentError, match="signs of 'x0' is 'q'"):
        ds.fit_by(ds.gram_by(table, by=["k"]), "y", signs={"x0": "q"})


TABLE = drawn(0)[2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"signs": {"x0": "x"}}, "signs of 'x0' is 'x'; it must be '+' or '-'"),
        ({"signs": ["x0"]}, "signs is ['x0']; it must map columns and globs to '+' or '-'"),
        ({"signs": {"x0": "+", "x*": "-"}}, "signs gives column 'x0' both '+' and '-'"),
        ({"signs": {"q": "+"}}, "signs names unknown column 'q'"),
        ({"uncorrelated": ["q"]}, "uncorrelated names unknown column 'q'"),
        ({"uncorrelated": ["y"]}, "uncorrelated names the target 'y'"),
        ({"models": {"a": "x0"}}, "models of 'a' is 'x0'; it must be a list of column names"),
        ({"models": {"a": ["x0"]}, "columns": ["x1"]}, "models has the columns of each"),
    ],
)
def test_what_is_wrong_is_refused_in_a_sentence(given, message):
    with pytest.raises(ds.errors.DbselectError, match=re.escape(message)):
        ds.fit(TABLE, "y", **given)


def test_a_fit_under_constraints_has_no_standard_errors():
    model = ds.fit(TABLE, "y", signs={"x0": "+"})
    for call in (model.summary, model.covariance, lambda: model.sigma, model.f_test):
        with pytest.raises(ds.errors.FieldError, match="coefficients are not normal"):
            call()
    with pytest.raises(ds.errors.FieldError, match="the model has no constraints"):
        _ = ds.fit(TABLE, "y").constraint


def test_models_are_compared_by_a_paired_t_test():
    _, _, table = drawn(6, rows=200)
    train, test = table[:100], table[100:]
    models = ds.fit(train, "y", models={"champion": ["x0"], "challenger": ["x0", "x1"]})
    assert models["champion"].coefficients == ds.fit(train, "y", ["x0"]).coefficients
    found = ds.compare(models, data=test, level=0.9)
    loss = {name: (test["y"].to_numpy() - m.predict(test)) ** 2 for name, m in models.items()}
    expected = stats.ttest_rel(loss["challenger"], loss["champion"])
    first, second = found.table.to_dicts()
    assert (first["name"], first["difference"]) == ("champion", None)
    assert second["loss"] == pytest.approx(loss["challenger"].mean())
    assert second["p_value"] == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval(0.9)
    assert (second["low"], second["high"]) == pytest.approx((low, high))
    with pytest.raises(ds.errors.ArgumentError, match="'s' is a Sequence beside models"):
        ds.compare({**models, "s": ds.anytime_sequence(train, "y")}, data=test)
    with pytest.raises(ds.errors.ArgumentError, match="models are compared on rows"):
        ds.compare(models)
    with pytest.raises(ds.errors.ArgumentError, match="needs a target of 0 and 1"):
        ds.compare(models, data=test, metric="log_loss")
