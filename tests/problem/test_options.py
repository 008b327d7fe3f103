"""Options: one misspelt or wrong at any door is an error before data are read."""

import inspect
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import duckdb
import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect import _native
from dbselect.doors.cli import main
from dbselect.errors import shown
from dbselect.families import Family, NegativeBinomial, Tweedie
from dbselect.linear.information import SIGNS
from dbselect.options import names
from dbselect.options.kinds import SPLITS
from dbselect.options.option import REQUIRED, options_of
from dbselect.problem import calls
from dbselect.search.compiled import METHODS as COMPILED
from dbselect.selection.criteria import RULES
from dbselect.selection.descent import VARIANTS
from dbselect.selection.moves import USEFULNESS
from dbselect.spec.fields import ProblemOptions
from dbselect.spec.methods import METHODS, OF_FITS, OF_RECORDS, places_of

MISSPELT = "rigde"
#: What methods check when they have the groups, or take as it is.
CHECKED_LATER = (
    "penalty_factors",
    "penalties",
    "grid_columns",
    "grid_groups",
    "diversity",
    "resume",
)
FIELDS = options_of(ProblemOptions)
#: Every family that needs no number.
FAMILIES = [
    str(family(link=link))
    for family in Family.__subclasses__()
    if family is not Tweedie
    for link in (family.links[:1] if family is NegativeBinomial else family.links)
]


class Unreadable:
    """A table that fails as soon as a row, or its schema, is asked for."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise AssertionError("the table was read")


def lazy() -> pl.LazyFrame:
    """Return a frame that fails when it is collected."""
    return pl.LazyFrame({"y": [0]}).map_batches(lambda _: pytest.fail("the frame was read"))


def needed(name: str) -> dict[str, Any]:
    """Return a value for each option without a default."""
    known = (OF_RECORDS | METHODS)[name].known
    return {option: 1 for option, one in known.items() if one.default is REQUIRED}


def options_at(methods: Any, engine: bool) -> list[tuple[str, str]]:
    """Return every option of every method, and every field of its problem."""
    return [
        (name, option)
        for name, method in methods.items()
        for option, one in {
            **method.known,
            **(method.fields_in_engines if engine else FIELDS),
        }.items()
        if option not in CHECKED_LATER and (one.in_engines or not engine)
    ]


#: What each option must do, as its error says; ``method.option`` where that of a method differs.
MUST = {
    "callback": "be a function of a Progress",
    "executor": "be a concurrent.futures.Executor",
    **dict.fromkeys(
        ["max_queries", "max_groups", "screen", "max_iter", "max_steps", "k", "rounds", "samples",
         "max_columns", "draws", "size", "records", "patience", "rows"],
        "be a whole number >= 1",
    ),
    "n_lambda": "be a whole number >= 2",
    **dict.fromkeys(["folds", "cv"], SPLITS.words),
    "seed": "be a whole number from 0 to 2^63 - 1",
    "time_limit": "be a number of seconds > 0",
    **dict.fromkeys(["ridge", "foba.epsilon", "step.penalty", "sght.tol"], "be a number >= 0"),
    "best_within.budget": "be a number >= 0",
    "near_best.budget": "be a number >= 0",
    "break_even.budget": "be a number >= 0",
    "budget": "be a number >= 0, or None for no limit",
    **dict.fromkeys(["c_min", "penalty", "adaptive", "opt"], "be a number > 0"),
    **dict.fromkeys(
        ["nu", "tol", "epsilon", "lambda_min_ratio", "q"], "lie between 0 and 1, both excluded"
    ),
    "alpha": "lie in (0, 1]",
    "threshold": "be above 0.5 and at most 1",
    **dict.fromkeys(["shortlist", "l1_ratio"], "be a number from 0 to 1"),
    **dict.fromkeys(
        ["literal", "refit", "polish", "intercept", "scale"], "be True or False"
    ),
    "sght.start": "be one of ['ridge', 'zero']",
    **dict.fromkeys(["start", "always"], "be a list of group names"),
    "columns": "be a list of column names and globs",
    **dict.fromkeys(["key", "time", "weight", "offset", "exposure"], "be the name of a column"),
    "anytime_sequence.rule": f"be one of {list(RULES)}",
    "rule": f"be one of {[name for name, rule in RULES.items() if not rule.doubling]}",
    "backward": "be one of ['loss', 'coefficient']",
    "step.criterion": "be one of ['aic', 'bic']",
    "criterion": "be one of ['aic', 'bic', 'ebic', 'gic', 'cp', 'adjusted_r2']",
    "direction": "be one of ['both', 'forward', 'backward']",
    "variant": "be one of ['ista', 'ista-l', 'fista']",
    "search": "be one of ['anytime_sequence', 'foba', 'group_lasso', 'step']",
    "knockoffs.kind": "be one of ['fixed', 'second_order']",
    "stability.kind": "be one of ['poisson', 'halves']",
    "choice": "be one of ['one_standard_error', 'best']",
    "gram": "be one of ['auto', 'full', 'lazy']",
}  # fmt: skip
#: Values that lie just outside of what is allowed, or are of another type.
OUTSIDE: dict[str, list[Any]] = {
    "be a whole number >= 1": [0, -1, True, 2.5, "3"],
    "be a whole number >= 2": [1, True, 2.5],
    SPLITS.words: [1, True, 2.5, {"a": 1}],
    "be a whole number from 0 to 2^63 - 1": [-1, 2**63, False, 0.5],
    "be a number of seconds > 0": [0, -1.0, math.nan],
    "be a number >= 0": [-0.1, math.nan, "1", True],
    "be a number >= 0, or None for no limit": [-0.1, math.nan, "1"],
    "be a number > 0": [0, -1.0, math.nan, math.inf, True, "2"],
    "lie between 0 and 1, both excluded": [0, 1.0, -0.5, math.nan, "0.1"],
    "lie in (0, 1]": [0.0, 1.5],
    "be above 0.5 and at most 1": [0.5, 1.5],
    "be a number from 0 to 1": [-0.1, 1.5, "0.5"],
    "be True or False": [1, "yes"],
    "be a list of group names": ["a", 3, [1]],
    "be a list of column names and globs": ["a", [1]],
    "be the name of a column": [5],
}
#: Limits that may not be infinite.
FINITE = ("ridge", "foba.epsilon", "step.penalty")


def wrong(name: str, option: str) -> Any:
    """Return a value that no option takes."""
    return {"target": 5, "start": object()}.get(option, object())


# Python


@pytest.mark.parametrize("name", METHODS)
def test_python_refuses_a_misspelt_option(name):
    for error in (TypeError, ds.errors.ArgumentError):
        with pytest.raises(error, match=f"unknown option '{MISSPELT}'"):
            calls.of_name(name)(Unreadable(), "y", **{**needed(name), MISSPELT: 5.0})
        with pytest.raises(error, match=f"unknown option '{MISSPELT}'"):
            getattr(ds.Problem(Unreadable(), "y"), name)(**{**needed(name), MISSPELT: 5.0})


@pytest.mark.parametrize(("name", "option"), options_at(METHODS, engine=False))
def test_python_refuses_a_wrong_option_before_it_reads(name, option):
    own = f"{name}.{option}" if f"{name}.{option}" in MUST else option
    must = MUST.get(own, "")
    values = [wrong(name, option), *OUTSIDE.get(must, ["nonsense"] if must else [])]
    for value in [*values, *([math.inf] if own in FINITE else [])]:
        given = {**needed(name), option: value}
        told = f"^{option} is {re.escape(shown(value))}; " + (
            f"it must {re.escape(must)}$" * bool(must)
        )
        with pytest.raises(ds.errors.ArgumentError, match=told):
            calls.of_name(name)(Unreadable(), "y", **given)
        with pytest.raises(ds.errors.ArgumentError, match=told):
            getattr(lazy().dbselect, name)("y", **given)


def test_a_field_of_the_problem_is_none_of_its_methods():
    problem = ds.Problem(Unreadable(), "y")
    with pytest.raises(
        ds.errors.OptionError, match=re.escape("problem.replace(ridge=...).foba(...)")
    ):
        problem.foba(ridge=1.0)
    with pytest.raises(ds.errors.ColumnError, match="target is 5"):
        ds.Problem(Unreadable(), 5)


@pytest.mark.parametrize("name", [name for name in METHODS if hasattr(ds, name)])
def test_help_shows_every_parameter_with_its_default(name):
    shown = inspect.signature(getattr(ds, name)).parameters
    text = getattr(ds, name).__doc__
    for option, one in {**METHODS[name].known, **FIELDS}.items():
        # After a target, which a score has none of, a budget has to be checked by the method.
        proving = ("best_within", "near_best", "break_even")
        late = [None] if name in proving and option == "budget" else []
        assert shown[option].default in [one.default, *late]
        assert re.search(rf"^ *{option} : \S", text, re.MULTILINE), option
    own = inspect.signature(getattr(ds.Problem, name)).parameters
    assert set(own) & set(FIELDS) == set()
    assert set(options_of(METHODS[name].options)) <= set(own)


# Polars


@pytest.mark.parametrize("name", OF_RECORDS)
def test_expressions_refuse_a_misspelt_option(name):
    door = getattr(pl.col("gram").dbselect, name)
    with pytest.raises(ds.errors.ArgumentError, match=f"{name} has unknown option '{MISSPELT}'"):
        door("y", **{**needed(name), MISSPELT: 5.0})


@pytest.mark.parametrize(("name", "option"), options_at(OF_RECORDS, engine=True))
def test_expressions_refuse_a_wrong_option(name, option):
    door = getattr(pl.col("gram").dbselect, name)
    with pytest.raises(ds.errors.ArgumentError, match=f"^{option} is "):
        door("y", **{**needed(name), option: wrong(name, option)})


# SQL


def sql_call(name: str, **options: str) -> str:
    """Return a call on a record without the target: to look at it is another error."""
    given = {**dict.fromkeys(needed(name), "1"), **options}
    values = [
        "gram({'x': 1})",
        "'y'",
        *(given.pop(one, "NULL") for one in places_of(OF_RECORDS[name])),
    ]
    # An option may be a word of SQL.
    by_name = [f'"{name}" := {value}' for name, value in given.items()]
    return f"SELECT {name}({', '.join([*values, *by_name])})"


def still_answers(connection: duckdb.DuckDBPyConnection) -> bool:
    return connection.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("name", OF_RECORDS)
def test_sql_refuses_a_misspelt_option(connection, name):
    with pytest.raises(duckdb.Error, match=MISSPELT):
        connection.execute(sql_call(name, **{MISSPELT: "5.0"}))
    with pytest.raises(duckdb.Error, match=f"unknown option '{MISSPELT}'"):
        connection.execute(sql_call(name, options=f"{{'{MISSPELT}': 5.0}}")).fetchall()
    assert still_answers(connection)


@pytest.mark.sample(45)
@pytest.mark.parametrize(("name", "option"), options_at(OF_RECORDS, engine=True))
def test_sql_refuses_a_wrong_option_before_it_reads(connection, name, option):
    with pytest.raises(
        duckdb.InvalidInputException, match=f"{option} (is 'nonsense'|must be a LIST)"
    ):
        connection.execute(sql_call(name, **{option: "'nonsense'"})).fetchall()
    if option not in places_of(OF_RECORDS[name]):
        with pytest.raises(duckdb.InvalidInputException, match=f"{option} is 'nonsense'"):
            connection.execute(sql_call(name, options=f"{{'{option}': 'nonsense'}}")).fetchall()
    assert still_answers(connection)


@pytest.mark.parametrize("name", OF_RECORDS)
def test_sql_refuses_an_option_that_is_given_twice(connection, name):
    call = sql_call(name, options="{'intercept': false}", intercept="false")
    with pytest.raises(duckdb.InvalidInputException, match="is given intercept twice"):
        connection.execute(call).fetchall()


@pytest.mark.parametrize("name", ["anytime_sequence_glm", "anytime_sequence_wide"])
def test_sql_of_a_table_refuses_a_wrong_option_before_it_reads(connection, name):
    family = ", 'binomial'" if name.endswith("glm") else ""
    for option in (
        "rule",
        "budget",
        "max_groups",
        "ridge",
        "scale",
        "rows",
        "seed",
        "null_policy",
        "always",
    ):
        call = f"SELECT {name}('no_table', 'y'{family}, {option} := 'nonsense')"
        with pytest.raises(duckdb.Error, match=option) as refusal:
            connection.execute(call).fetchall()
        assert "no_table" not in str(refusal.value).splitlines()[0], option
    with pytest.raises(duckdb.Error, match="no_table"):
        connection.execute(f"SELECT {name}('no_table', 'y'{family})").fetchall()
    assert still_answers(connection)


@pytest.mark.parametrize("name", OF_RECORDS)
def test_a_macro_has_the_options_of_the_table(connection, name):
    (parameters,) = connection.execute(
        "SELECT parameters FROM duckdb_functions() "
        "WHERE function_name = ? AND database_name = 'temp'",
        [name],
    ).fetchone()
    places = places_of(OF_RECORDS[name])
    required = [one for one in places if OF_RECORDS[name].known[one].default is REQUIRED]
    optional = [one for one in places if one not in required]
    assert parameters[: len(places) + 3] == ["record", "target", *required, *optional, "options"]
    groups = [] if "columns" in places else ["groups", "costs"]
    taken = {**OF_RECORDS[name].in_engines, **OF_RECORDS[name].fields_in_engines}
    engine = [option for option in taken if option not in places]
    assert parameters[len(places) + 3 :] == [*groups, *engine]


@pytest.mark.parametrize("name", OF_FITS)
def test_least_squares_refuse_the_fields_that_they_do_not_depend_on(connection, name):
    columns = ", ['a']" if name == "f_test" else ""
    for field, value in {"ridge": 5, "scale": "false", "always": "['a']", "seed": 1}.items():
        call = f"SELECT {name}(gram(t), 'y'{columns}, options := {{'{field}': {value}}})"
        with pytest.raises(duckdb.InvalidInputException, match=f"{field} is .* of the fields"):
            connection.execute(f"{call} FROM (SELECT 1.0 AS a, 2.0 AS y) AS t").fetchall()
    assert still_answers(connection)


# The extension


def refusal(ask: Callable[[], Any]) -> str:
    with pytest.raises(ds.errors.ArgumentError) as found:
        ask()
    return str(found.value)


WRONG = [-1, -1.0, 0, 1.5, True, "nonsense", ["a", 1]]


@pytest.mark.parametrize(("name", "option"), options_at(OF_RECORDS, engine=True))
def test_the_extension_allows_and_says_what_the_table_does(name, option):
    gram = ds.gram(pl.DataFrame({"a": [1, 2, 3], "y": [1, 3, 2]})).to_struct()
    one = {**OF_RECORDS[name].known, **FIELDS}[option]
    beside = needed(name) | ({"rule": "doubling"} if option == "c_min" else {})
    search = _native.search if name in COMPILED else _native.answers
    for value in WRONG:
        records = pl.DataFrame({"gram": [gram]})["gram"].to_arrow()
        if option in ("columns", "tested") and isinstance(value, str):
            continue  # a name alone is a list of one where a STRUCT has it
        try:
            one.checked(option, value)
        except ds.errors.ArgumentError as error:
            told = str(error)
        else:
            continue
        if isinstance(value, list) and value == ["a", 1]:
            continue  # Arrow has no such list
        found = refusal(partial(search, records, name, "y", {**beside, option: value}))
        # A number is a double there.
        assert found.replace(".0;", ";") == told.replace(".0;", ";")


@pytest.mark.parametrize("name", ["foba", "anytime_sequence", "backward"])
def test_the_extension_has_the_defaults_of_the_table(name):
    rng = np.random.default_rng(0)
    table = pl.DataFrame(rng.normal(size=(50, 4)), schema=["a", "b", "c", "y"])
    records = pl.DataFrame({"gram": [ds.gram(table).to_struct()]})["gram"].to_arrow()
    known = {**OF_RECORDS[name].known, **FIELDS}
    given = {option: one.default for option, one in known.items() if one.in_engines}
    given["always"] = []
    plain = _native.search(records, name, "y", {})
    assert _native.search(records, name, "y", given).equals(plain)


# Command line


@pytest.mark.parametrize("name", METHODS)
def test_the_command_line_refuses_a_misspelt_and_a_wrong_option_before_it_reads(capsys, name):
    required = [f"--{one.replace('_', '-')}=1" for one in needed(name)]

    def told(*arguments: str) -> str:
        try:
            code = main([name, "nowhere.parquet", "--target", "y", *required, *arguments])
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        assert code == 2
        return capsys.readouterr().err

    assert "did you mean '--ridge'?" in told(f"--{MISSPELT}", "5")
    for option, one in {**METHODS[name].known, **FIELDS}.items():
        takes_text = one.kind.sql in ("VARCHAR", "VARCHAR[]") and not one.kind.words.startswith(
            "be one of"
        )
        if (
            one.kind.parse is None
            or takes_text
            or option in CHECKED_LATER
            or option in ("null_policy", "folds")
        ):
            continue
        flag = f"--{option.replace('_', '-')}"
        error = told(flag, "nonsense")
        assert option in error or flag in error
        assert "nowhere" not in error


# Names


@pytest.mark.parametrize(
    ("literal", "known"),
    [
        (names.RuleName, list(RULES)),
        (names.ForwardName, [name for name, rule in RULES.items() if not rule.doubling]),
        (names.BackwardName, list(USEFULNESS)),
        (names.FamilyName, FAMILIES),
        (names.VariantName, list(VARIANTS)),
        (names.PathCriterionName, list(SIGNS)),
        (names.GramName, ["auto", "full", "lazy"]),
    ],
)
def test_the_names_in_types_are_those_in_the_tables(literal, known):
    assert list(get_args(literal)) == known


def test_a_misspelt_table_of_costs_is_told():
    with pytest.raises(ds.errors.ArgumentError, match="unknown option 'cost'; there is 'costs'"):
        ds.anytime_sequence(pl.DataFrame({"a": [1, 2, 3], "y": [1, 2, 4]}), "y", cost={"a": 1.0})
