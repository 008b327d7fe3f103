"""Models of chosen groups in every DuckDB client: a connection that has loaded the extension only.

What they are is held against Python's, which has other code around the same paths.
"""

import re
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from problems import random_problem
from test_clients import in_polars, literal, one, options, raw, stored, table

import dbselect as ds
from dbselect.problem import calls

__all__ = ["raw"]

#: Numbers of well-conditioned problems agree to so much.
EXACT = 1e-9
#: Options without a default, which have places.
LIMITS = ("k", "max_columns", "max_groups")
CASES: list[tuple[str, dict[str, Any]]] = [
    ("lasso", {}),
    ("lasso", {"penalty": 0.1, "scale": False}),
    ("lasso", {"l1_ratio": 0.4, "criterion": "aic", "always": ["g1"], "n_lambda": 30}),
    ("lasso", {"adaptive": 1.5, "criterion": "ebic", "penalty_factors": {"x1": 0.2, "g2": 3.0}}),
    ("sparse_group_lasso", {"criterion": "cp", "lambda_min_ratio": 0.01}),
    ("sparse_group_lasso", {"criterion": "adjusted_r2", "l1_ratio": 0.0, "adaptive": 1.0}),
    ("sparse_group_lasso", {"criterion": "gic", "penalty_factors": {"x*": 0.5, "g1": 0.0}}),
    ("sparse_group_lasso", {"penalty": 0.05, "intercept": False}),
    ("dash", {"k": 3, "seed": 4, "rounds": 2}),
    ("dash", {"k": 4, "seed": 5, "rounds": 2, "opt": 0.9, "alpha": 0.8, "epsilon": 0.2}),
    ("dash", {"k": 4, "always": ["g2", "g0"], "samples": 3, "ridge": 0.1}),
    ("sght", {"max_columns": 3, "max_groups": 2}),
    ("sght", {"max_columns": 4, "max_groups": 2, "ridge": 0.5, "scale": False}),
    ("sght", {"max_columns": 5, "max_groups": 3, "polish": False, "variant": "fista"}),
    ("sght", {"max_columns": 5, "max_groups": 3, "refit": False, "tol": 1e-10}),
    ("sght", {"max_columns": 2, "max_groups": 1, "polish": False, "variant": "ista-l"}),
]


def assert_model(found: dict[str, Any], expected: Any) -> None:
    """Compare a model in SQL with Python's."""
    assert found["columns"] == expected.columns == list(found["coefficients"])
    assert found["groups"] == expected.groups
    assert found["coefficients"] == pytest.approx(expected.coefficients, rel=EXACT, abs=EXACT)
    for name in ("intercept", "explained", "r2", "spent"):
        assert found[name] == pytest.approx(getattr(expected, name), rel=EXACT, abs=EXACT), name
    if "penalty" in found:
        how = expected.shrinkage
        assert found["penalty"] == pytest.approx(how.penalty, rel=EXACT)
        assert found["df"] == pytest.approx(how.df, abs=1e-6)
        assert max(found["gap"], found["violation"]) <= 1e-8


@pytest.mark.sample(8)
@pytest.mark.parametrize("mapping", ["", "MAP"])
@pytest.mark.parametrize(("method", "given"), CASES)
def test_a_model_is_that_of_python(raw, method, given, mapping):
    for seed in range(4):
        problem = random_problem(np.random.default_rng([seed, 11]))
        asked = {**given, "groups": problem.names, "costs": problem.costs}
        stored(raw, problem.gram)
        expected = calls.of_name(method)(problem.gram, "y", **asked)
        limits = {name: asked.pop(name) for name in LIMITS if name in asked}
        places = [str(limit) for limit in limits.values()]
        by_place = ", ".join(["g", "'y'", *places])
        found = one(raw, f"SELECT {method}({by_place}, {options(asked, mapping)}) FROM grams")
        assert_model(found, expected)
        assert_model(in_polars(problem.gram, method, *limits.values(), **asked), expected)
        named = ", ".join(f"{name} := {literal(value)}" for name, value in asked.items())
        again = one(raw, f"SELECT dbselect.{method}({by_place}, {named}) FROM grams")
        assert again == found


#: What is asked -> the sentence is that of Python.
WRONG: list[dict[str, Any]] = [
    {"target": "z"},
    {"penalty": 0.0},
    {"penalty": "much"},
    {"criterion": "mse"},
    {"l1_ratio": 0.0},
    {"l1_ratio": 1.5},
    {"ridge": 0.5},
    {"penalty_factors": 5},
    {"penalty_factors": {"kind.u": -1.5}},
    {"penalty_factors": {"q": 1.5}},
    {"penalty_factors": {"*": 0.0}},
    {"method": "sparse_group_lasso", "l1_ratio": 0.0, "penalty_factors": {"demo.c": 0.5}},
    {"method": "dash", "k": 9},
    {"method": "dash", "k": 1, "always": ["x.a", "x.b"]},
    {"method": "dash", "k": 1, "rounds": 2},
    {"method": "dash", "k": 1, "alpha": 1.5},
    {"method": "dash", "k": 1, "epsilon": 0.0},
    {"method": "sght", "max_columns": 9, "max_groups": 1},
    {"method": "sght", "max_columns": 2, "max_groups": 9},
    {"method": "sght", "max_columns": 2, "max_groups": 1, "variant": "best"},
]


@pytest.mark.sample(8)
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_mistake_is_told_as_python_tells_it(raw, wrong):
    asked = {"method": "lasso", "target": "y", **wrong}
    method, target = asked.pop("method"), asked.pop("target")
    gram = ds.gram(table())
    stored(raw, gram)
    with pytest.raises(ds.DbselectError) as expected:
        calls.of_name(method)(gram, target, **asked)
    sentence = re.escape(f"{method}: {expected.value}")
    with pytest.raises(duckdb.InvalidInputException, match=f"{sentence}$"):
        raw.execute(f"SELECT {method}(g, '{target}', {options(asked)}) FROM grams").fetchall()
    assert one(raw, "SELECT 42") == 42


def test_a_limit_has_no_default_and_no_group_can_be_forced(raw):
    stored(raw, ds.gram(table()))
    with pytest.raises(duckdb.Error, match="sght needs option 'max_columns', which has no default"):
        raw.execute("SELECT sght(g, 'y') FROM grams").fetchall()
    with pytest.raises(duckdb.Error, match="sght keeps the largest coefficients and cannot force"):
        raw.execute("SELECT sght(g, 'y', 2, 1, {'always': ['x.a']}) FROM grams").fetchall()


@pytest.mark.parametrize("call", ["lasso(g, 'y')", "sght(g, 'y', 2, 1)", "dash(g, 'y', 1)"])
def test_a_record_without_a_model_is_null_and_harms_no_other(raw, call):
    frame = table()
    constant = ds.gram(frame.with_columns(y=pl.lit(1.0)))
    stored(raw, ds.gram(frame), constant, None)
    query = f"SELECT {call} IS NULL FROM grams ORDER BY i"
    assert raw.execute(query).fetchall() == [(False,), (True,), (True,)]


@pytest.mark.parametrize("kind", ["fixed", "second_order"])
@pytest.mark.parametrize("search", ["anytime_sequence", "foba", "group_lasso", "step"])
def test_knockoffs_of_a_seed_are_those_of_python(raw, search, kind):
    rng = np.random.default_rng(8)
    x = rng.normal(size=(200, 14)) + rng.normal(size=(200, 1))
    x[:, 13] = 2 * x[:, 0] - 1  # without a copy
    y = x[:, :6].sum(axis=1) + rng.normal(size=200)
    gram = ds.gram(np.column_stack([x, y]), columns=[*(f"x{j}" for j in range(14)), "y"])
    groups = {f"g{j}": [f"x{j}"] for j in range(12)} | {"h": ["x12"], "again": ["x13"]}
    costs = {name: 1.0 + (at % 3) for at, name in enumerate(groups)}
    asked = {"groups": groups, "costs": costs, "q": 0.3, "seed": 5, "search": search, "kind": kind}
    stored(raw, gram)
    for draws in (1, 3):
        expected = ds.knockoffs(gram, "y", **asked, draws=draws)
        given = options({**asked, "draws": draws})
        found = one(raw, f"SELECT knockoffs(g, 'y', {given}) FROM grams")
        assert len(found) == 14
        for row, other in zip(found, expected.table.to_dicts(), strict=True):
            assert row == pytest.approx(other)
        assert one(raw, f"SELECT knockoffs(g, 'y', {given}) FROM grams") == found
