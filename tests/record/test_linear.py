"""Objective: gains, models, rank and condition against refits from the rows."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import reference
from problems import Problem, random_problem, rounding
from reference import Table

import dbselect as ds
from dbselect.linear.problem import linear
from dbselect.linear.state import LinearState

penalties = pytest.mark.parametrize(
    "asked", [{}, {"ridge": 0.3}, {"ridge": 0.3, "scale": False}], ids=["none", "scaled", "raw"]
)


def state_of(problem: Problem) -> LinearState:
    table = problem.table
    members = [np.array(columns) for columns in problem.groups.values()]
    return LinearState(linear(problem.gram, "y", table.names, table.ridge, table.scale), members)


def one_group(table: Table) -> ds.results.Sequence:
    everything = list(range(table.X.shape[1]))
    return Problem(table, {"all": everything}, {"all": 1.0}).sequence()


def predictions(model: ds.results.Model, table: Table) -> np.ndarray:
    coef = np.array([model.coefficients.get(name, 0.0) for name in table.names])
    return model.intercept + table.X @ coef


@pytest.mark.parametrize("weighted", [False, True])
@penalties
def test_model_of_every_prefix_equals_refit(asked, weighted):
    rng = np.random.default_rng(3)
    problem = random_problem(rng, weighted=weighted, **asked)
    table = problem.table
    seq = problem.sequence()
    held: list[int] = []
    for group, spent in seq.steps.select("group", "spent").rows():
        held += problem.groups.get(group, [])
        model = seq.at(spent)
        intercept, coef = reference.model(table, held)
        assert model.columns == [f"x{j}" for j in held]
        tolerance = rounding(table) * table.y.std()
        found = np.array(list(model.coefficients.values())) * table.X.std(axis=0)[held]
        np.testing.assert_allclose(found, coef * table.X.std(axis=0)[held], rtol=0, atol=tolerance)
        np.testing.assert_allclose(
            predictions(model, table), intercept + table.X[:, held] @ coef, rtol=0, atol=tolerance
        )


def dependent(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, list[int]]]:
    """Return columns of which some depend on others, and their groups."""
    X = rng.normal(size=(30, 7)) + 5.0
    groups = {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6]}
    match kind:
        case "duplicate within a group":
            X[:, 2] = X[:, 0]
        case "combination within a group":
            X[:, 2] = 2 * X[:, 0] - 3 * X[:, 1] + 7
        case "duplicate across groups":
            X[:, 5] = X[:, 0]
        case "combination across groups":
            X[:, 6] = X[:, 1] - X[:, 4] / 3
        case "constant":
            X[:, 3] = 0.1
        case "constant group":
            X[:, [5, 6]] = [0.0, -1e9]
        case "fewer rows than columns":
            X = X[:5]
        case "one row more than nothing":
            X = X[:2]
    return X, groups


KINDS = [
    "duplicate within a group",
    "combination within a group",
    "duplicate across groups",
    "combination across groups",
    "constant",
    "constant group",
    "fewer rows than columns",
    "one row more than nothing",
]


@pytest.mark.parametrize("rule", ["fr", "omp"])
@pytest.mark.parametrize("kind", KINDS)
def test_aliased_columns_are_listed_get_zero_and_change_no_prediction(kind, rule):
    rng = np.random.default_rng(5)
    X, groups = dependent(kind, rng)
    table = Table(X, X @ rng.normal(size=7) + rng.normal(size=len(X)))
    seq = Problem(table, groups, dict.fromkeys(groups, 1.0)).sequence(rule=rule)
    rank = np.linalg.matrix_rank(table.A, tol=1e-10)
    assert len(seq.aliased) == len(set(seq.aliased)) == 7 - rank
    held: list[int] = []
    for step, group in enumerate(seq.steps["group"]):
        held += groups.get(group, [])
        assert seq.explained[step] == pytest.approx(
            reference.explained(table, held), abs=rounding(table)
        )
    model = seq.at()
    assert {name for name, value in model.coefficients.items() if value == 0} == set(seq.aliased)
    assert set(model.aliased) == set(seq.aliased)
    intercept, coef = reference.model(table, held)
    np.testing.assert_allclose(
        predictions(model, table), intercept + X[:, held] @ coef, atol=rounding(table) * X.max()
    )


def test_ridge_does_not_revive_constant_columns():
    rng = np.random.default_rng(7)
    X, groups = dependent("constant", rng)
    table = Table(X, X @ rng.normal(size=7), ridge=0.5)
    seq = Problem(table, groups, dict.fromkeys(groups, 1.0)).sequence()
    assert seq.aliased == ("x3",)
    assert seq.at().coefficients["x3"] == 0


def test_rounding_of_a_constant_is_not_variance():
    rng = np.random.default_rng(11)
    constant = rng.choice([0.1, np.nextafter(0.1, 1)], size=50)
    x = rng.normal(size=50)
    assert one_group(Table(np.column_stack([constant, x]), x + constant)).aliased == ("x0",)
    with pytest.raises(ds.errors.DataError, match="target 'y' is constant"):
        one_group(Table(x[:, None], constant))


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("rare", [1, 5])
@pytest.mark.parametrize(("rows", "categories"), [(1_000, 3), (10_000, 20), (100_000, 20)])
def test_last_indicator_is_aliased_however_rare_its_category(rows, categories, rare, together):
    """Indicators add up to one; what is left of the last one's small variance is rounding."""
    rng = np.random.default_rng(rows + categories)
    category = rng.integers(0, categories - 1, rows)
    category[:rare] = categories - 1
    columns = {f"c{j}": (category == j).astype(float) for j in range(categories)}
    gram = ds.gram(pl.DataFrame({**columns, "y": rng.normal(size=rows) + category}))
    last = f"c{categories - 1}"
    seq = ds.anytime_sequence(gram, "y", {"all": list(columns)} if together else None)
    assert len(seq.aliased) == 1
    assert not together or seq.aliased == (last,)
    if together:
        assert ds.backward(gram, "y", groups={"all": list(columns)}).at(size=1).groups == ["all"]
    else:
        with pytest.raises(ds.errors.DataError, match=rf"columns \['{last}'\] depend linearly"):
            ds.backward(gram, "y", backward="coefficient")
        # One of them says nothing beside the others, so it goes first.
        first = ds.backward(gram, "y").steps.filter(pl.col("action") == "remove").row(0, named=True)
        assert abs(first["gain"]) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("aliased", [(), (31, 32, 33, 63, 64, 99)])
def test_group_of_a_hundred_columns_equals_lstsq(aliased):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(300, 100))
    for column in aliased:
        X[:, column] = X[:, column - 7] + X[:, column - 9]
    table = Table(X, X @ rng.normal(size=100) + 5 * rng.normal(size=300))
    everything = list(range(100))
    seq = one_group(table)
    assert seq.aliased == tuple(f"x{column}" for column in aliased)
    expected = reference.explained(table, everything)
    assert seq.explained[1] == pytest.approx(expected, abs=rounding(table))
    state = state_of(Problem(table, {"all": everything}, {}))
    assert state.gains()[0] == pytest.approx(expected, abs=rounding(table))
    intercept, coef = reference.model(table, everything)
    np.testing.assert_allclose(
        predictions(seq.at(), table), intercept + X @ coef, atol=rounding(table) * table.y.std()
    )


def nearly_equal(distance: float) -> Table:
    rng = np.random.default_rng(9)
    x, noise = rng.normal(size=(2, 200))
    X = np.column_stack([x, x + distance * noise])
    return Table(X, x + rng.normal(size=200))


def test_nearly_dependent_columns_warn_with_their_condition_number():
    table = nearly_equal(5e-6)
    with pytest.warns(ds.errors.ConditionWarning, match="condition number") as caught:
        seq = one_group(table)
    (number,) = re.findall(r"condition number (\S+);", str(caught[0].message))
    truth = np.linalg.cond(table.A) ** 2
    # The 1-norm condition of a factor of order 2 lies within a factor 2 of the 2-norm's.
    assert truth / 4 <= float(number) <= truth * 4
    assert seq.condition == pytest.approx(float(number), rel=0.05)
    assert caught[0].filename == str(Path(__file__).parents[1] / "problems.py")


def test_a_column_made_of_the_target_is_named():
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"x": rng.normal(size=200), "y": rng.normal(size=200)})
    table = table.with_columns(seconds=60.0 * pl.col("y") + 0.01 * pl.col("x"))
    share = np.corrcoef(table["seconds"], table["y"])[0, 1] ** 2
    told = f"column 'seconds' alone explains {share:.4f} of the variance of 'y'"
    for ask in (ds.fit, ds.anytime_sequence, ds.foba):
        with pytest.warns(ds.errors.LeakageWarning, match=told):
            ask(table, "y")
    ds.fit(table.head(99), "y")  # an example without noise is no leak
    ds.fit(table.drop("seconds"), "y")
