"""Several responses at once: sums over responses, against dense fits of every response."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import duckdb
import numpy as np
import polars as pl
import polars.testing
import pytest
import reference
from problems import EPS, Problem, random_problem, rounding
from reference import Table
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error, r2_score

import dbselect as ds
from dbselect.record.steps import Stop
from dbselect.results import joint
from dbselect.selection.criteria import RULES

seeds = pytest.mark.parametrize("seed", range(3))
rules = pytest.mark.parametrize("rule", list(RULES))
penalties = pytest.mark.parametrize(
    "asked",
    [{}, {"ridge": 0.3}, {"ridge": 0.3, "scale": False}, {"scale": False}],
    ids=["none", "scaled", "raw", "raw without ridge"],
)


@dataclass(frozen=True)
class Responses:
    """Three responses of unequal units on the columns of a problem."""

    problem: Problem
    Y: np.ndarray

    @property
    def names(self) -> list[str]:
        return [f"y{k}" for k in range(self.Y.shape[1])]

    @cached_property
    def tables(self) -> list[Table]:
        return [replace(self.problem.table, y=y) for y in self.Y.T]

    @cached_property
    def share(self) -> np.ndarray:
        """What each response counts: one each, or its variance."""
        variance = np.array([table.t @ table.t for table in self.tables])
        weight = np.ones(len(variance)) if self.problem.table.scale else variance
        return weight / weight.sum()

    @property
    def frame(self) -> pl.DataFrame:
        responses = pl.DataFrame(self.Y, schema=self.names)
        return self.problem.table.frame.drop("y").hstack(responses)

    @cached_property
    def gram(self) -> ds.Gram:
        return ds.gram(self.frame, weight="w")

    def in_all(self, value: Callable[..., float], *arguments: Any) -> float:
        """Return the sum over the responses of a value of one of them."""
        return self.share @ [value(table, *arguments) for table in self.tables]

    def search(self, method: Callable[..., Any] = ds.anytime_sequence, **options: Any) -> Any:
        table, problem = self.problem.table, self.problem
        given = {"costs": problem.costs, "ridge": table.ridge, "scale": table.scale} | options
        return method(self.gram, self.names, groups=problem.names, **given)

    def columns(self, names: list[str]) -> list[int]:
        """Return the columns of some groups."""
        return [column for name in names for column in self.problem.groups[name]]


def random_responses(seed: int, **asked: Any) -> Responses:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, weighted=bool(seed % 2), **asked)
    X = problem.table.X / problem.table.deviation
    mixing = rng.normal(size=(X.shape[1], 3)) * rng.integers(0, 2, (X.shape[1], 3))
    noise = rng.normal(size=(len(X), 3))
    return Responses(problem, (X @ mixing + noise) * [1.0, 30.0, 0.2] + [5.0, 0.0, -1.0])


def criterion(responses: Responses, rule: str, held: list[int], group: list[int]) -> float:
    if rule == "omp-single":
        return max(responses.in_all(reference.unwhitened, held, [column]) for column in group)
    return responses.in_all(reference.CRITERIA[rule], held, group)


# The search


@pytest.mark.sample(30)
@seeds
@rules
@penalties
def test_every_step_takes_the_best_sum_over_the_responses(seed, rule, asked):
    responses = random_responses(seed, **asked)
    problem, found = responses.problem, responses.search(rule=rule)
    tolerance = rounding(problem.table)
    held: list[str] = []
    for row in found.steps.rows(named=True)[1:]:
        before = responses.columns(held)
        scores = {
            name: criterion(responses, rule, before, columns) / problem.costs[name]
            for name, columns in problem.groups.items()
            if name not in held
        }
        if rule == "doubling":
            limit = sum(problem.costs[name] for name in held) or min(problem.costs.values())
            limit = max(limit, min(problem.costs[name] for name in scores))
            scores = {name: one for name, one in scores.items() if problem.costs[name] <= limit}
        assert scores[row["group"]] >= max(scores.values()) * (1 - tolerance) - tolerance
        assert row["score"] == pytest.approx(scores[row["group"]], rel=tolerance, abs=tolerance)
        held.append(row["group"])
        columns = responses.columns(held)
        explained = responses.in_all(reference.explained, columns)
        assert row["explained"] == pytest.approx(explained, abs=tolerance)
        assert row["r2"] == pytest.approx(responses.in_all(reference.r2, columns), abs=tolerance)
        gain = explained - responses.in_all(reference.explained, before)
        assert row["gain"] == pytest.approx(gain, abs=tolerance)
        for table, own in zip(responses.tables, responses.names, strict=True):
            expected = reference.r2(table, columns)
            assert row["r2_each"][own] == pytest.approx(expected, abs=tolerance)
    assert set(held) == set(problem.groups)


@seeds
@penalties
def test_one_response_in_a_list_is_that_response(seed, asked):
    problem = random_problem(np.random.default_rng(seed), **asked)
    options = {"costs": problem.costs, **asked}
    alone = ds.anytime_sequence(problem.gram, "y", problem.names, **options)
    listed = ds.anytime_sequence(problem.gram, ["y"], problem.names, **options)
    own = listed.responses["y"]
    # The library sums over K responses in another order than over one.
    near = rounding(problem.table)
    np.testing.assert_allclose(own.coef, alone.coef, rtol=near, atol=near)
    np.testing.assert_allclose(own.intercept, alone.intercept, rtol=near, atol=near)
    pl.testing.assert_series_equal(listed.steps["score"], alone.steps["score"], rel_tol=near)
    np.testing.assert_allclose(listed.explained, alone.explained, rtol=0, atol=20 * EPS)
    pl.testing.assert_series_equal(listed.steps["gain"], alone.steps["gain"], abs_tol=20 * EPS)


def test_limits_and_forced_groups_are_those_of_one_response():
    responses = random_responses(1)
    assert (
        responses.search(max_groups=2).stop
        is ds.anytime_sequence(responses.gram, "y0", responses.problem.names, max_groups=2).stop
    )
    found = responses.search(always=["g3"], budget=sum(responses.problem.costs.values()) / 2)
    assert found.steps["group"][1] == "g3"
    assert found.spent[-1] <= sum(responses.problem.costs.values()) / 2
    assert "g3" in repr(found)


def test_a_budget_of_nothing_buys_the_means():
    found = random_responses(1).search(budget=0.0)
    assert (len(found.spent), found.stop) == (1, Stop.BUDGET)
    assert found.steps["r2_each"].to_list() == [{"y0": 0.0, "y1": 0.0, "y2": 0.0}]
    assert "nothing" in repr(found)


def test_rows_that_lack_a_response_are_left_out():
    responses = random_responses(2)
    frame = responses.frame.drop("w")
    holes = frame.with_columns(
        y0=pl.when(pl.int_range(pl.len()) % 7 == 0).then(None).otherwise("y0"),
        y2=pl.when(pl.int_range(pl.len()) % 11 == 5).then(None).otherwise("y2"),
    )
    for policy in ("skip", "mean", {"y2": "mean", "*": "mean"}):
        found = ds.anytime_sequence(
            holes, ["y0", "y2"], responses.problem.names, null_policy=policy
        )
        whole = ds.anytime_sequence(
            holes.drop_nulls(["y0", "y2"]), ["y0", "y2"], responses.problem.names
        )
        assert found.gram.rows == holes.drop_nulls(["y0", "y2"]).height
        np.testing.assert_allclose(found.explained, whole.explained, rtol=1e-12)


def test_other_columns_of_a_table_are_unused_and_responses_are_no_groups():
    responses = random_responses(2)
    found = ds.anytime_sequence(responses.frame, ["y0", "y2"])
    assert set(found.columns) == {*responses.problem.table.names, "y1", "w"}
    named = ds.anytime_sequence(responses.frame, ["y0", "y2"], responses.problem.names)
    assert set(named.unused) == {"y1", "w"}


# The objective


@seeds
@penalties
def test_no_groups_explain_more_than_the_certificate(seed, asked):
    responses = random_responses(seed, **asked)
    problem, found = responses.problem, responses.search()
    sets = [reference.subsets(table, problem.groups, problem.costs) for table in responses.tables]
    explained = responses.share @ [one.explained for one in sets]
    error = max(one.error for one in sets)
    budgets = [*found.spent, 0.5, 3.3]
    bounds = found.certificate(budgets)
    for budget, bound, ratio in bounds.select("budget", "bound", "ratio").iter_rows():
        best = explained[sets[0].cost <= budget * (1 + EPS)].max()
        assert bound >= best - error
        assert ratio <= 1.0
    # A bound that says nothing would be above what all groups explain.
    assert bounds["bound"].max() <= explained.max() + error


@seeds
@rules
def test_the_guarantee_holds_of_the_responses_together(seed, rule):
    responses = random_responses(seed, ridge=0.5)
    problem, found = responses.problem, responses.search(rule=rule)
    sets = [reference.subsets(table, problem.groups, problem.costs) for table in responses.tables]
    explained = responses.share @ [one.explained for one in sets]
    for cost in (None, 2.0, 5.0):
        guarantee = found.guarantee(cost)
        assert guarantee.gamma > 0
        for step, spent, factor in guarantee.steps.iter_rows():
            rival = cost or max(spent, min(problem.costs.values()))
            best = explained[sets[0].cost <= rival * (1 + EPS)].max()
            assert found.explained[step] >= factor * best - 1e-12
    alone = ds.anytime_sequence(
        responses.gram, "y0", problem.names, problem.costs, rule=rule, ridge=0.5
    )
    assert found.guarantee().gamma == alone.guarantee().gamma


def test_no_response_alone_has_the_guarantee():
    found = random_responses(0).search()
    with pytest.raises(ds.errors.ArgumentError, match="rule is 'fr, for several responses'"):
        found.responses["y0"].guarantee()


# Models


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_coefficients_are_those_of_scikit_learn(seed):
    responses = random_responses(seed)
    table, found = responses.problem.table, responses.search()
    X = pl.DataFrame(table.X, schema=table.names)
    for spent in found.spent[1:]:
        model = found.at(spent)
        expected = LinearRegression().fit(X[model.columns].to_numpy(), responses.Y)
        tolerance = 1e4 * rounding(table)
        for k, name in enumerate(responses.names):
            np.testing.assert_allclose(
                list(model.coefficients[name].values()), expected.coef_[k], rtol=tolerance
            )
            assert model.intercept[name] == pytest.approx(expected.intercept_[k], rel=tolerance)
        predicted = expected.predict(X[model.columns].to_numpy())
        scale = np.abs(predicted).max(axis=0)
        for rows, columns in ((X, None), (table.X, table.names), (X.to_arrow(), None)):
            np.testing.assert_allclose(
                model.predict(rows, columns) / scale, predicted / scale, atol=tolerance
            )
        np.testing.assert_allclose(
            found.predict(X, budget=spent) / scale, model.predict(X) / scale, atol=tolerance
        )
        assert r2_score(responses.Y, predicted) == pytest.approx(model.r2)
        assert model.explained == pytest.approx(model.r2)


@seeds
def test_each_response_has_the_ridge_models_of_its_own(seed):
    responses = random_responses(seed, ridge=0.4)
    found = responses.search()
    held: list[str] = []
    for step, group in enumerate(found.steps["group"][1:], 1):
        held.append(group)
        for name, table in zip(responses.names, responses.tables, strict=True):
            own = found.responses[name]
            intercept, coef = reference.model(table, responses.columns(held))
            at = [own.columns.index(f"x{j}") for j in responses.columns(held)]
            np.testing.assert_allclose(own.coef[step, at], coef, rtol=1e-8, atol=1e-10)
            assert own.intercept[step] == pytest.approx(intercept, rel=1e-8)
            explained = reference.explained(table, responses.columns(held))
            assert own.explained[step] == pytest.approx(explained, abs=rounding(table))


def test_nearly_dependent_columns_lose_no_digits_of_any_response():
    rng = np.random.default_rng(0)
    X = rng.integers(-50, 50, (60, 4)) * 1.0
    X[:, 3] = X[:, 0] + X[:, 1] + rng.integers(-1, 2, 60) * 2.0**-8
    W = np.array([[3.0, -7.0], [5.0, 2.0], [-4.0, 1.0], [6.0, -9.0]])
    # Rows of both signs and few bits: means are 0 and every sum of products is exact.
    rows = np.vstack([np.hstack([X, X @ W]), -np.hstack([X, X @ W])])
    gram = ds.Gram(list("abcdyz"), 120, 0, 120.0, np.zeros(6), rows.T @ rows)
    found = ds.anytime_sequence(gram, ["y", "z"])
    assert found.condition > 1e9
    for k, name in enumerate(("y", "z")):
        own = found.at().coefficients[name]
        np.testing.assert_allclose([own[c] for c in "abcd"], W[:, k], rtol=1e-13)


def test_expressions_and_sql_give_a_struct_of_predictions():
    responses = random_responses(4)
    found, frame = responses.search(), responses.frame
    expected = found.predict(frame, budget=6.0)
    with_null = frame.with_columns(
        pl.when(pl.int_range(pl.len()) == 0).then(None).otherwise(pl.col(column)).alias(column)
        for column in found.at(6.0).columns
    )
    by_polars = with_null.select(p=found.expr(6.0)).unnest("p")
    with duckdb.connect() as con:
        by_sql = con.sql(f"SELECT {found.sql(6.0)} AS p FROM with_null").pl().unnest("p")
    for table in (by_polars, by_sql):
        assert table.columns == responses.names
        assert table.row(0) == (None, None, None)
        np.testing.assert_allclose(table[1:].to_numpy(), expected[1:], rtol=1e-12)
    assert np.isnan(found.at(6.0).predict(with_null)[0]).all()
    without = found.predict(with_null, budget=6.0)  # by the means, as all columns are missing
    np.testing.assert_allclose(without[0], responses.Y.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(without[1:], expected[1:], rtol=1e-12)


# Other rows


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_other_rows_are_scored_as_by_scikit_learn(ridge):
    responses = random_responses(2, ridge=ridge)
    found = responses.search()
    rng = np.random.default_rng(9)
    there = replace(responses, Y=responses.Y + rng.normal(size=responses.Y.shape))
    scores = ds.evaluate(found, there.gram)
    assert scores.height == len(found.spent)
    for row in scores.rows(named=True):
        predicted = found.predict(there.frame, budget=row["spent"])
        assert row["r2"] == pytest.approx(r2_score(there.Y, predicted), abs=1e-9)
        each = r2_score(there.Y, predicted, multioutput="raw_values")
        np.testing.assert_allclose(list(row["r2_each"].values()), each, atol=1e-9)
        errors = mean_squared_error(there.Y, predicted, multioutput="raw_values")
        np.testing.assert_allclose(list(row["mse_each"].values()), errors, rtol=1e-9)
        (one,) = ds.evaluate(found.at(row["spent"]), there.gram.to_struct()).rows(named=True)
        assert one["r2"] == pytest.approx(row["r2"], abs=1e-12)
        for name in ("r2_each", "mse_each"):
            assert one[name] == pytest.approx(row[name], rel=1e-12, abs=1e-12)
    # On its own rows the search said the same.
    here = ds.evaluate(found, responses.gram)
    for name in ("explained", "r2"):
        np.testing.assert_allclose(here[name], found.steps[name], atol=1e-10)


def test_responses_as_they_are_have_the_share_of_all_variance():
    responses = random_responses(2, scale=False)
    found = responses.search()
    predicted = found.predict(responses.frame, budget=5.0)
    expected = r2_score(responses.Y, predicted, multioutput="variance_weighted")
    assert found.at(5.0).r2 == pytest.approx(expected, abs=1e-9)
    assert 1e-3 < expected < 1


# Files


def test_the_stored_steps_of_a_response_predict_in_sql(connection, tmp_path):
    responses = random_responses(2)
    found = responses.search()
    found.write_parquet(tmp_path / "joint.parquet")
    frame = responses.frame
    connection.register("rows", frame.to_arrow())
    rows = connection.sql(
        f"""
        SELECT own.target, anytime_predict(own.sequence, t, 6.0).prediction AS p
        FROM rows t, (SELECT unnest(responses) AS own FROM '{tmp_path}/joint.parquet')
        """
    ).pl()
    expected = found.predict(frame, budget=6.0)
    for k, name in enumerate(responses.names):
        np.testing.assert_allclose(rows.filter(target=name)["p"], expected[:, k], rtol=1e-12)


def test_a_damaged_record_is_refused():
    record = random_responses(1).search().to_struct()
    other = random_responses(1).search(max_groups=2).to_struct()
    mixed = [record["responses"][0], other["responses"][1]]
    for damage, message in (
        ({"responses": []}, "0 responses"),
        ({"responses": mixed}, "2 responses have 2 orders"),
        ({"responses": None}, "damaged"),
        ({"gram": None}, "damaged"),
    ):
        with pytest.raises(ds.errors.RecordError, match=message):
            ds.results.JointSequence.from_struct(record | damage)
    del record["rule"]
    with pytest.raises(ds.errors.RecordError, match=r"lacks \['rule'\]"):
        ds.results.JointSequence.from_struct(record)
    with pytest.raises(ds.errors.RecordError, match="mapping"):
        ds.results.JointSequence.from_struct(3)


# SGHT


def sparse(seed: int) -> tuple[pl.DataFrame, dict[str, list[str]], np.ndarray, np.ndarray]:
    """Return rows, groups, X and Y with four strong columns of two groups."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 9))
    W = np.zeros((9, 2))
    # Of the second response columns 3 and 4 alone are larger than 1 and 5.
    W[[0, 1, 3, 5]] = [[3, 0.5], [0, 2], [2, -2], [0.7, 1]]
    Y = X @ W * [1.0, 100.0] + rng.normal(size=(80, 2)) * [0.2, 20.0]
    frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(9)])
    groups = {f"g{i}": [f"x{j}" for j in range(3 * i, 3 * i + 3)] for i in range(3)}
    return frame.hstack(pl.DataFrame(Y, schema=["y", "z"])), groups, X, Y


def supports(most_columns: int, most_groups: int) -> list[list[int]]:
    """Return every set of nine columns in three groups within the limits."""
    return [
        list(found)
        for found in itertools.combinations(range(9), most_columns)
        if len({j // 3 for j in found}) <= most_groups
    ]


@cache
def best_support(seed: int, limits: tuple[int, int]) -> tuple[list[int], float]:
    """Return the columns that leave the least of both responses, and how much."""
    _, _, X, Y = sparse(seed)
    A, scaled = X - X.mean(axis=0), (Y - Y.mean(axis=0)) / Y.std(axis=0)

    def left(support: list[int]) -> float:
        rest = scaled - A[:, support] @ np.linalg.lstsq(A[:, support], scaled, rcond=None)[0]
        return float(np.mean(rest**2))

    best = min(supports(*limits), key=left)
    return best, left(best)


@pytest.mark.parametrize("variant", ["ista", "ista-l", "fista"])
@pytest.mark.parametrize("limits", [(4, 2), (2, 2), (3, 1)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_sght_finds_the_best_common_support(variant, limits, seed):
    frame, groups, X, Y = sparse(seed)
    best, left = best_support(seed, limits)
    model = ds.sght(
        frame, ["y", "z"], groups=groups, max_columns=limits[0], max_groups=limits[1],
        variant=variant,
    )  # fmt: skip
    assert model.columns == [f"x{j}" for j in best]
    assert model.groups == [f"g{i}" for i in sorted({j // 3 for j in best})]
    assert model.r2 == pytest.approx(1 - left, abs=1e-10)
    expected = LinearRegression().fit(X[:, best], Y)
    predicted = expected.predict(X[:, best])
    for k, name in enumerate(("y", "z")):
        own = model.model.responses[name]
        np.testing.assert_allclose(list(own.coefficients.values()), expected.coef_[k], rtol=1e-9)
        assert own.r2 == pytest.approx(r2_score(Y[:, k], predicted[:, k]))
    np.testing.assert_allclose(model.predict(frame), predicted, rtol=1e-8, atol=1e-8)


def test_what_the_descent_leaves_is_its_objective():
    frame, groups, _, Y = sparse(3)
    model = ds.sght(frame, ["y", "z"], groups=groups, max_columns=3, max_groups=2, refit=False)
    assert model.converged
    assert model.iterations == len(model.history) - 1
    assert (np.diff(model.history) <= 1e-15).all()
    left = 1 - r2_score(Y, model.predict(frame))
    # Intercepts follow from the means, so the mean of the residuals is 0.
    assert 1 + 2 * model.history[-1] == pytest.approx(left, abs=1e-12)
    with pytest.raises(ds.errors.ArgumentError, match="no statistics of its rows"):
        model.summary()
    assert repr(model.model).startswith("JointModel(y, z ~ g0")


# Refusals

FRAME = random_responses(0).frame
BOTH = ["y0", "y1"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: ds.fit(FRAME, BOTH),
        lambda: ds.fit(FRAME, BOTH, family="gaussian"),
        lambda: ds.anytime_sequence(FRAME, BOTH, family="poisson"),
        lambda: ds.anytime_sequence_by(ds.gram_by(FRAME, fold=2), BOTH),
        lambda: ds.cross_validate(ds.gram_by(FRAME, fold=2), BOTH, "foba"),
        lambda: pl.col("gram").dbselect.anytime_sequence(BOTH),
        lambda: pl.col("gram").dbselect.sght(BOTH, max_columns=1, max_groups=1),
    ],
)
def test_methods_of_one_response_refuse_a_list(call):
    with pytest.raises(
        ds.errors.ArgumentError, match=r"target is \['y0', 'y1'\]; it must be one column"
    ):
        call()


@pytest.mark.parametrize(
    ("target", "kind", "message"),
    [
        ([], ds.errors.ArgumentError, r"target is \[\]; it must name at least one column"),
        ((), ds.errors.ArgumentError, r"target is \(\); it must name"),
        (["y0", "y0"], ds.errors.ColumnError, "target names column 'y0' twice"),
        (["y0", 3], ds.errors.ColumnError, "target has 3; it must list names"),
        (["y0", "yy"], ds.errors.ColumnError, "target names unknown column 'yy'"),
        ({"y0": 1}, ds.errors.ColumnError, "it must be the name of a column"),
    ],
)
@pytest.mark.parametrize("source", [FRAME, ds.gram(FRAME)], ids=["table", "gram"])
def test_a_wrong_list_of_responses_is_refused(target, kind, message, source):
    for method in (ds.anytime_sequence, ds.sght):
        limits = {} if method is ds.anytime_sequence else {"max_columns": 1, "max_groups": 1}
        if message == "target names unknown column 'yy'" and source is FRAME:
            message = "yy"
        with pytest.raises(kind, match=message):
            method(source, target, **limits)


def test_a_group_with_a_response_and_a_constant_response_are_refused():
    with pytest.raises(ds.errors.GroupError, match="group 'g' names the target 'y1'"):
        ds.anytime_sequence(FRAME, BOTH, {"g": ["x0", "y1"]})
    with pytest.raises(ds.errors.DataError, match="target 'k' is constant"):
        ds.anytime_sequence(FRAME.with_columns(k=1.0), ["y0", "k"])
    with pytest.raises(ds.errors.ArgumentError, match="budget is -1"):
        ds.anytime_sequence(FRAME, BOTH).at(-1)
    assert joint.by_response({"a": [1.0]}).to_list() == [{"a": 1.0}]
