"""The lasso and the elastic net against their optimality conditions and scikit-learn."""

import numpy as np
import polars as pl
import pytest
from penalties import (
    KINDS,
    PROMISED,
    assert_fits_rows,
    duplicated,
    kinds,
    mixed,
    seeds,
    units,
    violation,
    weights,
)
from problems import Problem
from reference import Table
from sklearn.linear_model import LassoLarsIC, LinearRegression, enet_path, lasso_path

import dbselect as ds
from dbselect.methods import lasso as methods

#: Solvers that go on until a step is nothing agree to so much, in units of deviations.
SOLVED = 1e-7

ratios = pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.05])


def path_of(problem: Problem, **options) -> ds.results.LassoPath:
    given = {"costs": problem.costs, "scale": problem.table.scale, "n_lambda": 30} | options
    return ds.lasso_path(problem.gram, "y", problem.names, **given)


def factors_in_order(problem: Problem, given: dict[str, float]) -> np.ndarray:
    """Return a factor for every column of A; 1 where none is given."""
    return np.array([given.get(name, 1.0) for name in problem.table.names])


@pytest.mark.sample(18)
@seeds
@ratios
@kinds
def test_every_point_of_the_path_is_optimal(kind, l1_ratio, seed):
    problem = KINDS[kind](np.random.default_rng(seed))
    path = path_of(problem, l1_ratio=l1_ratio)
    assert violation(problem, path, 0.0, l1_ratio, 1 - l1_ratio) <= PROMISED
    assert path.violation.max() <= PROMISED
    assert (path.gap >= 0).all()
    assert path.gap.max() <= PROMISED


FACTORS = {"x0": 0.0, "x3": 4.0, "x5": 0.0, "x7": 0.25}


@ratios
@kinds
def test_points_with_factors_are_optimal_and_what_has_none_is_never_out(kind, l1_ratio):
    problem = KINDS[kind](np.random.default_rng(5))
    given = {name: f for name, f in FACTORS.items() if name in problem.table.names}
    path = path_of(problem, l1_ratio=l1_ratio, penalty_factors=given)
    f = factors_in_order(problem, given)
    assert violation(problem, path, 0.0, l1_ratio * f, (1 - l1_ratio) * f) <= PROMISED
    assert path.gap.max() <= PROMISED
    if kind in ("mixed", "weighted", "columns as they are"):
        assert {"x0", "x5"} <= set(path.points["columns"][0])
        # The path begins with least squares of what has no penalty.
        fit = ds.fit(problem.gram, "y", ["x0", "x5"])
        assert path.model(0).coefficients == pytest.approx(fit.coefficients, rel=1e-8)
        assert path.r2[0] == pytest.approx(fit.r2)


@seeds
def test_lambdas_are_scikit_learns_alphas_of_a_target_in_its_own_unit(seed):
    problem = mixed(np.random.default_rng(seed))
    path, table = path_of(problem), problem.table
    X = (table.X - table.X.mean(axis=0)) / table.X.std(axis=0)
    y = table.y - table.y.mean()
    _, peer, _ = lasso_path(X, y, alphas=path.lambdas, tol=1e-14, max_iter=10**6)
    places = [table.names.index(name) for name in path.columns]
    own = path.coef * table.X.std(axis=0)[places]
    np.testing.assert_allclose(own, peer.T[:, places], rtol=0, atol=SOLVED)
    largest = np.abs(X.T @ y).max() / len(y)
    np.testing.assert_allclose(path.lambdas, np.geomspace(largest, 1e-3 * largest, 30))


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_path_through_the_origin_is_scikit_learns_on_rows_as_they_are(l1_ratio):
    rng = np.random.default_rng(23)
    X = rng.normal(size=(50, 6)) + 2
    y = X @ rng.normal(size=6) + rng.normal(size=50) + 1
    y /= np.sqrt(np.mean(y**2))
    frame = Table(X, y).frame.drop("w")
    options = {"l1_ratio": l1_ratio, "scale": False, "intercept": False, "n_lambda": 20}
    path = ds.lasso_path(frame, "y", **options)
    given = {"alphas": path.lambdas, "l1_ratio": l1_ratio, "tol": 1e-14, "max_iter": 10**6}
    _, peer, _ = enet_path(X, y, **given)
    np.testing.assert_allclose(path.coef, peer.T, rtol=0, atol=SOLVED)
    assert not path.intercept.any()


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_adaptive_path_is_the_lasso_of_rescaled_columns(power):
    problem = mixed(np.random.default_rng(8))
    path = path_of(problem, adaptive=power)
    A, t = units(problem)
    root = np.sqrt(len(t))
    pilot = np.abs(LinearRegression(fit_intercept=False).fit(A, t / np.linalg.norm(t)).coef_)
    scaled = A * pilot**power
    options = {"alphas": path.penalties, "tol": 1e-14, "max_iter": 10**6}
    _, peer, _ = lasso_path(scaled * root, t * root, **options)
    found = weights(problem, path)
    np.testing.assert_allclose(found, peer.T * pilot**power, rtol=0, atol=SOLVED)
    # Zou's elastic net adapts |w_j| alone.
    net = path_of(problem, adaptive=power, l1_ratio=0.5)
    assert violation(problem, net, 0.0, 0.5 * pilot**-power, 0.5) <= PROMISED


def test_columns_that_depend_on_others_never_enter_an_adaptive_path():
    rng = np.random.default_rng(9)
    x, other = rng.normal(size=(2, 60))
    table = Table(np.column_stack([x, other, 3 * x - 1]), x + other + 0.1 * rng.normal(size=60))
    path = ds.lasso_path(table.frame.drop("w"), "y", adaptive=1.0)
    assert sorted(path.entered) == ["x0", "x1"]


@kinds
@ratios
def test_r2_and_intercept_are_those_of_the_coefficients_on_the_rows(kind, l1_ratio):
    problem = KINDS[kind](np.random.default_rng(8))
    assert_fits_rows(problem, path_of(problem, l1_ratio=l1_ratio))


def test_degrees_are_the_rank_or_the_trace_of_the_ridge():
    problem = duplicated(np.random.default_rng(10))
    A, _ = units(problem)
    path = path_of(problem)
    for w, df in zip(weights(problem, path), path.df, strict=True):
        assert df == np.linalg.matrix_rank(A[:, w != 0], tol=1e-8)
    net = path_of(problem, l1_ratio=0.4)
    for penalty, w, df in zip(net.penalties, weights(problem, net), net.df, strict=True):
        S = A[:, w != 0]
        ridge = 0.6 * penalty * np.eye(S.shape[1])
        hat = S @ np.linalg.solve(S.T @ S + ridge, S.T)
        assert df == pytest.approx(np.trace(hat), abs=1e-6)


@pytest.mark.parametrize("criterion", ["aic", "bic"])
def test_criteria_choose_what_scikit_learns_choose(criterion):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(200, 12)) + rng.normal(size=(200, 1))
    y = X[:, :3] @ [3.0, -2.0, 1.0] + rng.normal(size=200)
    table = Table(X, y)
    A = table.A * np.sqrt(200)
    peer = LassoLarsIC(criterion=criterion).fit(A, y)
    # LARS chooses among the corners of the path.
    deviation = np.sqrt(table.t @ table.t)
    corners = peer.alphas_[peer.alphas_ > 0] / deviation
    path = ds.lasso_path(table.frame.drop("w"), "y", penalties=corners)
    # Its criterion has the noise of all columns: that of Cp is AIC there.
    criteria = path.criteria()
    noise = 200 * (1 - ds.fit(table.frame.drop("w"), "y").r2) / (200 - 13) * deviation**2
    rss = (1 - path.r2) * 200 * deviation**2
    factor = 2.0 if criterion == "aic" else np.log(200)
    values = rss / noise + factor * path.df
    assert int(values.argmin()) == int(peer.criterion_[: len(corners)].argmin())
    if criterion == "aic":
        np.testing.assert_allclose(criteria["cp"].to_numpy(), values - 200 + 2)
    likelihood = 200 * (np.log(2 * np.pi * rss / 200) + 1)
    np.testing.assert_allclose(
        criteria[criterion].to_numpy(), likelihood + factor * (path.df + 1), rtol=1e-10
    )
    chosen = int(criteria[criterion].arg_min())
    assert path.best(criterion).coefficients == path.model(chosen).coefficients


def test_models_are_those_of_the_points_and_predict_from_the_table():
    problem = mixed(np.random.default_rng(12))
    frame, path = problem.table.frame, path_of(problem)
    for i in (0, 7, 29):
        model, w = path.model(i), path.coef[i]
        assert model.columns == [name for name, one in zip(path.columns, w, strict=True) if one]
        assert model.spent == path.points["spent"][i]
        assert model.groups == path.points["groups"][i].to_list()
        X = frame.select(path.columns).to_numpy()
        expected = path.intercept[i] + X @ w
        np.testing.assert_allclose(model.predict(frame), expected)
        np.testing.assert_allclose(frame.with_columns(p=model.expr())["p"], expected)
    with pytest.raises(ds.errors.ArgumentError, match="no statistics of its rows"):
        path.model(7).summary()
    within = path.at(budget=20.0)
    assert within.spent <= 20.0
    assert path.at().r2 == path.r2[-1]
    for point in (-1, 30, 1.5, None, True):
        with pytest.raises(ds.errors.ArgumentError, match=f"point is {point!r}; .* from 0 to 29"):
            path.model(point)


def test_steps_begin_with_what_is_not_penalised():
    problem = mixed(np.random.default_rng(13))
    path = path_of(problem, penalty_factors={"x3": 0.0})
    assert path.steps.row(0) == (
        path.penalties[0],
        "add",
        "x3",
        path._costs[path.columns.index("x3")],
    )
    assert path.steps.columns == ["penalty", "action", "column", "cost"]
    assert path.points.columns == ["penalty", "columns", "groups", "spent", "r2", "gap"]
    assert path.entered[0] == "x3"


def test_names_of_factors_are_columns_globs_fields_and_groups():
    rng = np.random.default_rng(14)
    X = rng.normal(size=(50, 4))
    frame = pl.DataFrame(X, schema=["a", "b1", "b2", "c"]).with_columns(
        s=pl.struct(u=pl.Series(rng.normal(size=50)), v=pl.Series(rng.normal(size=50))),
        y=pl.Series(X.sum(axis=1)),
    )
    groups = {"b": ["b1", "b2"], "rest": ["a", "c"], "s": ["s"]}

    def unpenalised(given: dict[str, float]) -> set[str]:
        path = ds.lasso_path(frame, "y", groups, penalty_factors=given, n_lambda=2)
        return set(path.points["columns"][0])

    assert unpenalised({"b": 0}) == {"b1", "b2"}
    assert unpenalised({"b?": 0}) == {"b1", "b2"}
    assert unpenalised({"s": 0}) == {"s.u", "s.v"}
    # The nearer name holds, whatever the order.
    assert unpenalised({"b1": 2, "b": 0}) == {"b2"}
    assert unpenalised({"b1": 2, "b*": 0}) == {"b2"}
    with pytest.raises(ds.errors.ColumnError, match=r"penalty_factors names .*'z'"):
        unpenalised({"z": 0})
    clash = {"a": ["b1"], "other": ["a"]}
    with pytest.raises(
        ds.errors.ArgumentError, match="'a', which is a group and a column of another"
    ):
        ds.lasso_path(frame, "y", clash, penalty_factors={"a": 0})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"l1_ratio": 0}, "l1_ratio is 0; it must be a number above 0 and at most 1"),
        ({"penalties": []}, "penalties is"),
        ({"penalties": [0.1, 0.2]}, "each less than the one before"),
        ({"penalties": [0.1, 0.0]}, "penalties is .* numbers > 0"),
        ({"penalties": "0.1"}, "penalties is '0.1'"),
        ({"penalties": 0.1}, "penalties is 0.1"),
        ({"penalty_factors": [1.0]}, "penalty_factors is .1.0.; it must map"),
        ({"penalty_factors": {"x0": -1}}, "penalty_factors of 'x0' is -1; .* number >= 0"),
        ({"penalty_factors": {"x0": "1"}}, "penalty_factors of 'x0' is '1'; .* number >= 0"),
        ({"penalty_factors": {0: 1}}, "penalty_factors names 0; names are text"),
        ({"penalty_factors": {"x*": 0}}, "penalty_factors are 0 for all columns"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(options, words):
    frame = Table(np.random.default_rng(15).normal(size=(20, 3)), np.arange(20.0)).frame.drop("w")
    with pytest.raises(ds.errors.ArgumentError, match=words):
        ds.lasso_path(frame, "y", **options)


def test_a_target_that_nothing_explains_has_an_empty_path():
    path = ds.lasso_path(pl.DataFrame({"a": [1.0, 1.0], "y": [1.0, 2.0]}), "y")
    assert path.entered == []
    assert not path.coef.any()
    assert path.steps.is_empty()
    assert path.model(5).intercept == 1.5


def test_a_record_that_no_rows_can_have_is_refused_and_a_point_short_of_its_minimum_is_said(
    monkeypatch,
):
    correlation = np.full((3, 3), -0.9) + 1.9 * np.eye(3)
    comoment = np.pad(100 * correlation, (0, 1))
    comoment[3] = comoment[:, 3] = [10, 10, 10, 100]
    record = ds.Gram([*"abc", "y"], 100, 0, 100.0, np.zeros(4), comoment)
    for call in (
        ds.lasso_path,
        ds.group_lasso_path,
        ds.reference.lasso,
        ds.reference.sparse_group_lasso,
    ):
        with pytest.raises(ds.errors.RecordError, match="comoments that no rows can have"):
            call(record, "y")
    monkeypatch.setattr(methods, "PROMISED", 0.0)
    problem = mixed(np.random.default_rng(22))
    with pytest.warns(ds.errors.ConvergenceWarning, match="conditions hold to .* only"):
        path_of(problem, penalties=[1e-4])


# One model


@pytest.mark.parametrize("call", [ds.reference.lasso, ds.reference.sparse_group_lasso])
def test_model_is_that_of_the_path_at_its_penalty_or_where_the_criterion_is_best(call):
    problem = mixed(np.random.default_rng(16))
    options = {"l1_ratio": 0.6, "penalty_factors": {"g1": 0.5}}
    run = ds.lasso_path if call is ds.reference.lasso else ds.group_lasso_path
    path = run(problem.gram, "y", problem.names, problem.costs, n_lambda=100, **options)
    found = call(problem.gram, "y", problem.names, problem.costs, **options)
    assert found.coefficients == path.best("bic").coefficients
    for criterion in ("aic", "ebic", "gic", "cp"):
        chosen = call(
            problem.gram, "y", problem.names, problem.costs, criterion=criterion, **options
        )
        assert chosen.coefficients == path.best(criterion).coefficients
    point = path.penalties.tolist().index(found.shrinkage.penalty)
    assert found.shrinkage.df == path.df[point]
    for point in (3, 40, 99):
        penalty = path.penalties[point]
        alone = call(problem.gram, "y", problem.names, problem.costs, penalty=penalty, **options)
        expected = path.model(point)
        # From zeros, not from the point before: to the minimum as exactly.
        assert alone.coefficients == pytest.approx(expected.coefficients, rel=1e-5, abs=1e-9)
        assert (alone.groups, alone.spent) == (expected.groups, expected.spent)
        assert alone.shrinkage.gap <= PROMISED
        assert alone.shrinkage.violation <= PROMISED
    assert f"penalty {found.shrinkage.penalty:.3g}" in repr(found)
    for wrong in ("diagnostics", "history"):
        with pytest.raises(ds.errors.ArgumentError, match="it has shrinkage"):
            getattr(found, wrong)
    with pytest.raises(ds.errors.ArgumentError, match="exchange has no shrinkage"):
        _ = ds.exchange(problem.gram, "y", k=1).shrinkage
    with pytest.raises(ds.errors.ArgumentError, match="penalty is 0; it must be a number > 0"):
        call(problem.gram, "y", penalty=0)
    with pytest.raises(ds.errors.ArgumentError, match="criterion is 'mse'; it must be one of"):
        call(problem.gram, "y", criterion="mse")


def test_too_few_rows_for_a_criterion_are_said():
    frame = pl.DataFrame({"a": [0.0, 1.0], "y": [1.0, 2.0]})
    with pytest.raises(ds.errors.DataError, match="cp has no value: 2 rows are too few"):
        ds.reference.lasso(frame, "y", criterion="cp")


def test_a_path_warns_of_columns_that_lose_digits():
    rng = np.random.default_rng(1)
    x, z, noise = rng.normal(size=(3, 400))
    frame = pl.DataFrame({"a": x, "b": x + 8e-6 * z, "y": 1e5 * z + x + noise})
    gram = ds.gram(frame)
    with pytest.warns(ds.errors.ConditionWarning, match="condition number"):
        ds.lasso_path(gram, "y", penalties=[1e-8])
    ds.lasso_path(gram, "y", penalties=[1e-8], l1_ratio=1e-3)  # a ridge keeps the digits
