"""Every method takes every field of a problem at every door, or refuses it in one sentence."""

import json
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_diabetes

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.doors.frames import LazyFrameNamespace
from dbselect.options.names import PROBLEM_FIELDS
from dbselect.options.option import REQUIRED, options_of
from dbselect.spec.fields import ProblemOptions
from dbselect.spec.methods import METHODS, OF_RECORDS

sys.path.append(str(Path(__file__).parents[2] / "docs" / "website"))
import fields as page

COLUMNS = {"age": 2.0, "bmi": 1.0, "bp": 3.0, "glucose": 1.0, "sex": 1.0}
GROUPS = {name: [name] for name in COLUMNS}
#: What is asked about the data, by the field that asks it.
ASKED: dict[str, dict[str, Any]] = {
    "target": {"target": ["progression", "cholesterol"]},
    "family": {"target": "fast", "family": "binomial"},
    "weight": {"weight": "share"},
    "offset": {"offset": "known"},
    "exposure": {"target": "visits", "family": "poisson", "exposure": "days"},
    "positive": {"target": "fast", "family": "binomial", "positive": "no"},
    "intercept": {"intercept": False},
    "ridge": {"ridge": 0.5},
    "scale": {"scale": False},
    "null_policy": {"null_policy": "indicator"},
    "always": {"always": ["bp"]},
    "rows": {"rows": 200},
    "seed": {"seed": 5},
    "gram": {"gram": "lazy"},
    "terms": {},  # made of the table, below
    "shared": {"shared": {"draw": {"cost": 2.0, "groups": ["age", "bmi"]}}},
    "needs": {"needs": {"bmi": ["age"]}},
    "one_of": {"one_of": [["age", "sex"]]},
    "limits": {"limits": {"ms": {"costs": {"age": 5.0, "bp": 1.0}, "limit": 9.0, "how": "max"}}},
}
#: What methods cannot do without, or would choose every group without.
NEEDED: dict[str, dict[str, Any]] = {
    **{name: {"k": 2} for name in ("exchange", "dash", "greedy", "top_k", "random_k")},
    "sght": {"max_columns": 2, "max_groups": 2},
    "best_within": {"budget": 3.0},
    "near_best": {"budget": 3.0},
    "break_even": {"budget": 3.0},
    "cross_validate": {"folds": 3},
    "stopped_sequence": {"folds": 3},
    "stability": {"records": 4, "size": 2},
    "knockoffs": {"q": 0.5},
}
ENGINE = [name for name, one in options_of(ProblemOptions).items() if one.in_engines]
pytestmark = pytest.mark.filterwarnings("ignore::dbselect.errors.SkippedRowsWarning")


@cache
def diabetes() -> pl.DataFrame:
    """Return the patients of Efron et al. (2004), with a category, missing values and counts."""
    found = load_diabetes(scaled=False)
    table = pl.DataFrame(found.data, schema=found.feature_names)
    rng = np.random.default_rng(0)
    return table.select(
        "age", "bmi", "bp",
        glucose="s6", cholesterol="s1", progression=pl.Series(found.target),
        sex=pl.when(pl.col("sex") == 1).then(pl.lit("f")).otherwise(pl.lit("m")),
    ).with_columns(
        bmi=pl.when(pl.Series(rng.uniform(size=table.height)) < 0.9).then("bmi"),
        share=rng.uniform(0.5, 2.0, table.height),
        known=pl.col("progression") / 10,
        days=rng.uniform(1.0, 9.0, table.height),
        fast=pl.when(pl.col("progression") > 150).then(pl.lit("yes")).otherwise(pl.lit("no")),
    ).with_columns(
        visits=pl.Series(rng.poisson(0.5 * rng.uniform(1, 9, table.height))),
    )  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = tmp_path_factory.mktemp("fields") / "diabetes.parquet"
    diabetes().write_parquet(found)
    return str(found)


def asked(method: str, field: str) -> dict[str, Any]:
    """Return the fields of the problem of a cell."""
    given = {"target": "progression", "groups": GROUPS, "costs": COLUMNS} | ASKED[field]
    if field == "terms":
        given["terms"] = ds.terms(diabetes(), categories=["sex"], basis={"age": ("poly", 2)})
    if field == "gram":  # a text has rows of its own there
        given["groups"] = {name: [name] for name in COLUMNS if name != "sex"}
        given["costs"] = {name: COLUMNS[name] for name in given["groups"]}
    return given


def expected(method: str, field: str) -> str | None:
    """Return how the refusal of a cell ends; None where the method takes the field."""
    reason = page.reason_of(method, field)
    return None if reason is None else reason.format(method=method)


def check(method: str, field: str, answer: Any) -> Any:
    """Return what comes of a call, which is refused where the table says so."""
    why = expected(method, field)
    if why is None:
        return answer()
    with pytest.raises(ds.errors.ArgumentError) as refusal:
        answer()
    text = str(refusal.value)
    assert text.endswith(why)
    assert " is " in text
    return None


cells = pytest.mark.parametrize("field", ASKED)
methods = pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "cross_validate" else ())
        for name in METHODS
    ],
)


def test_the_page_is_that_of_the_tables():
    assert page.PAGE.read_text() == page.page()


def test_fields_are_listed_once():
    assert list(options_of(ProblemOptions)) == list(PROBLEM_FIELDS)
    own = [name for name in ds.Problem.__dataclass_fields__ if name[0] != "_"]
    assert own == ["source", "target", "groups", "costs", *PROBLEM_FIELDS]
    defaults = {name: one.default for name, one in options_of(ProblemOptions).items()}
    made = ds.Problem(None, "y")
    assert {name: getattr(made, name) for name in defaults} == {
        **defaults, "family": ds.families.Gaussian(),
    }  # fmt: skip
    assert set(ASKED) == {"target", *PROBLEM_FIELDS}


@pytest.mark.sample(120)
@cells
@methods
def test_python_takes_the_field_or_says_why_not(path, method, field):
    given = asked(method, field)
    problem = ds.Problem(path, **given)
    found = check(method, field, lambda: getattr(problem, method)(**NEEDED.get(method, {})))
    if found is not None and hasattr(found, "problem"):
        kept = found.problem
        assert kept.source is None
        for name, value in given.items():
            assert getattr(kept, name) == getattr(problem, name), (name, value)


@pytest.mark.sample(8)
@methods
def test_frames_and_the_command_line_do_as_python_does(path, tmp_path, capsys, method):
    own = NEEDED.get(method, {})
    names = {"groups": GROUPS, "costs": COLUMNS}
    for name, value in names.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    for field in ("intercept", "weight", "family", "null_policy"):
        given = asked(method, field)
        check(
            method, field, lambda g=given: getattr(diabetes().lazy().dbselect, method)(**g, **own)
        )
        flags = ["--target", given.pop("target")]
        for name, value in {**given, **own}.items():
            flags.append(f"--{name.replace('_', '-')}")
            told = str(tmp_path / f"{name}.json") if name in names else value
            each = told if isinstance(told, list) else [told]
            flags += [{False: "no"}.get(one, str(one)) for one in each]
        code, why = main([method, path, *flags]), expected(method, field)
        error = capsys.readouterr().err
        assert code == (0 if why is None else 2), error
        assert why is None or why in error


def test_every_method_is_one_of_frames_and_a_command():
    for method in METHODS:
        assert hasattr(ds.Problem, method)
        assert hasattr(LazyFrameNamespace, method)


@pytest.mark.sample(60)
@pytest.mark.parametrize("field", PROBLEM_FIELDS)
@pytest.mark.parametrize("method", [name for name in OF_RECORDS if name in METHODS])
def test_sql_and_expressions_take_the_field_or_say_why_not(connection, method, field):
    value = asked(method, field).get(field)
    own = NEEDED.get(method, {})
    places = [name for name, one in METHODS[method].known.items() if one.default is REQUIRED]
    grams = pl.DataFrame(
        {"gram": [ds.gram(diabetes().select(*COLUMNS, "progression")).to_struct()]}
    )
    options = {**{name: v for name, v in own.items() if name not in places}, field: value}
    expression = getattr(pl.col("gram").dbselect, method)
    in_engine = field in ENGINE

    def in_polars() -> Any:
        return grams.select(expression("progression", *(own[name] for name in places), **options))

    if field == "terms":  # no value of SQL
        with pytest.raises(ds.errors.ArgumentError, match=r"terms is .*; a record holds no rows"):
            in_polars()
        return
    connection.register("grams", grams.to_arrow())
    values = ", ".join(str(own[name]) for name in places)
    call = f"{method}(gram, 'progression'{', ' if values else ''}{values}, {literal(options)})"

    def in_sql() -> Any:
        return connection.execute(f"SELECT {call} FROM grams").fetchone()

    for answer in (in_polars, in_sql):
        if in_engine and expected(method, field) is None:
            assert answer() is not None
            continue
        with pytest.raises(Exception, match=f"{field} is") as refusal:
            answer()
        why = expected(method, field) if in_engine else "a record holds no rows"
        assert str(why) in str(refusal.value)
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def literal(value: Any) -> str:
    """Return a value as SQL writes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"'{name}': {literal(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return str(value).lower() if isinstance(value, bool) else repr(value)


@pytest.mark.parametrize("field", [f for f in PROBLEM_FIELDS if f not in ("gram", "terms")])
def test_a_table_by_its_name_takes_every_field(connection, field):
    connection.register("seen", diabetes().to_arrow())
    connection.execute("CREATE TABLE patients AS FROM seen")
    given = {"family": "gaussian", **asked("anytime_sequence", field)}
    target, family = given.pop("target"), given.pop("family")
    query = f"SELECT anytime_sequence_glm('patients', '{target}', '{family}', {literal(given)})"
    found = ds.results.GlmSequence.from_struct(connection.execute(query).fetchone()[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = ds.Problem(diabetes(), target, family=family, **given)
    assert getattr(found.problem, field) == getattr(problem, field)
