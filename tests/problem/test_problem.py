"""One problem means the same in every method and at every door, and says what it cannot mean."""

import ast
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dbselect as ds

ROWS = 12_000
COSTS = {"a": 1.0, "b": 2.0, "c": 3.0}


@pytest.fixture(scope="module")
def flights() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, ROWS))
    late = (a - 0.5 * b + rng.logistic(size=ROWS) > 0).astype(int)
    return pl.DataFrame({"a": a, "b": b, "c": c, "late": late})


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("anytime_sequence", {}),
        ("foba", {"epsilon": 0.001}),
        ("step", {}),
        ("floating", {}),
        ("greedy", {"k": 2}),
        ("dash", {"k": 2}),
        ("exchange", {"k": 2}),
        ("sght", {"max_columns": 2, "max_groups": 2}),
        ("fit", {}),
    ],
)
def test_every_method_of_a_family_uses_every_row(flights, method, options):
    found = getattr(ds, method)(flights, "late", family="binomial", **options)
    model = found.at() if hasattr(found, "at") else getattr(found, "model", found)
    assert (model.rows, model.skipped) == (ROWS, 0)


def test_options_in_the_place_of_groups_are_refused_with_the_right_call(flights):
    gram = ds.gram(flights)
    with pytest.raises(ds.errors.GroupError, match=r"costs=") as refused:
        ds.anytime_sequence(gram, "late", {"costs": {"a": 1, "b": 2}})
    assert "\n" not in str(refused.value)
    with pytest.raises(ds.DbselectError, match="costs"):
        pl.DataFrame({"g": [gram.to_struct()]}).select(
            pl.col("g").dbselect.anytime_sequence("late", {"costs": {"a": 1, "b": 2}})
        )


def test_null_policies_are_for_every_family_and_method(flights):
    holes = flights.with_columns(a=pl.when(pl.int_range(pl.len()) % 7 > 0).then("a"))
    fields = {"null_policy": "indicator"}
    seq = ds.anytime_sequence(holes, "late", family="binomial", **fields)
    assert "a.missing" in seq.columns
    assert seq.at().rows == ROWS
    assert ds.fit(holes, "late", **fields).rows == ROWS
    assert ds.fit(holes, "late", family="binomial", **fields).rows == ROWS
    assert "a.missing" in ds.lasso_path(holes, "late", **fields).columns
    assert ds.drift(holes[:6000], holes[6000:], "late", **fields)


def test_a_problem_is_a_value(flights):
    problem = ds.Problem(flights, "late", costs=COSTS, ridge=0.1)
    assert problem == ds.Problem(flights, "late", costs=COSTS, ridge=0.1)
    assert problem != problem.replace(ridge=0.2)
    with pytest.raises(AttributeError):
        problem.ridge = 0.2
    found = problem.foba(epsilon=0.01)
    assert found.problem == problem.replace(source=None)
    assert found.call.method == "foba"
    with pytest.raises(TypeError, match="rigde"):
        problem.replace(rigde=0.1)
    with pytest.raises(ds.errors.ArgumentError, match=r"target is .*; it must be one column"):
        problem.replace(target=["late", "a"]).foba()


@pytest.mark.slow
def test_the_public_surface_is_small():
    package = Path(ds.__file__).parent
    assert len(ds.__all__) <= 44
    assert {name for name in dir(ds) if name[0] != "_"} == set(ds.__all__)
    decorators = [
        decorator
        for path in package.rglob("*.py*")
        if path.suffix in (".py", ".pyi")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Name) and decorator.id == "overload"
    ]
    assert len(decorators) <= 8


def test_no_folder_has_more_than_twenty_files():
    root = Path(__file__).parents[2]
    crowded = {}
    for top in ("dbselect", "native/src", "tests"):
        for folder in [root / top, *(one for one in (root / top).rglob("*") if one.is_dir())]:
            files = [one for one in folder.iterdir() if one.suffix in (".py", ".pyi", ".rs")]
            if len(files) > 20 and "data" not in folder.parts:
                crowded[str(folder.relative_to(root))] = len(files)
    assert crowded == {}
