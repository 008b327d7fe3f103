"""Options: one misspelt or wrong at any door is an error before data are read."""

import argparse
import ast
import inspect
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any, get_args, get_overloads

import duckdb
import polars as pl
import pytest

import dbselect as ds
from dbselect.doors.cli import every_command, main
from dbselect.doors.frames import ExprNamespace
from dbselect.doors.results import FITS, MODELS, PENALISED, PROVEN, SEQUENCES, Method
from dbselect.glm.named import FAMILIES
from dbselect.methods import types
from dbselect.methods.anytime import AnytimeOptions
from dbselect.methods.options import Options
from dbselect.selection.criteria import RULES, rules_of_foba, rules_of_glm
from dbselect.selection.removal import USEFULNESS

METHODS = {**SEQUENCES, **MODELS, **PROVEN, **PENALISED, "fit": FITS["fit"]}
MACROS = {
    file.name.removesuffix(".sql"): file.read_text()
    for file in resources.files("dbselect.sql").iterdir()
    if file.name.endswith(".sql")
}
#: Parameters of a macro that have another name in Python.
RENAMED = {"offset_column": "offset"}
MISSPELT = "rigde"


def records_of(base: type[Options]) -> Iterator[type[Options]]:
    for record in base.__subclasses__():
        yield record
        yield from records_of(record)


#: The record of each method, by the name of the method.
RECORDS = {record.method: record for record in records_of(Options) if "method" in vars(record)}


class Unreadable:
    """A table that fails as soon as a row, or its schema, is asked for."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise AssertionError("the table was read")


def needed(name: str) -> dict[str, Any]:
    """Return a value for each option without a default, in Python or Polars."""
    doors = (METHODS[name].call, getattr(pl.col("gram").dbselect, name))
    return {
        option: 1
        for door in doors
        for option, one in inspect.signature(door).parameters.items()
        if one.default is one.empty and option in METHODS[name].options.names()
    }


def wrong_options() -> list[tuple[str, str]]:
    """Return every option of every method."""
    return [(name, option) for name, method in METHODS.items() for option in method.options.names()]


both = pytest.mark.parametrize("name", list(METHODS))
each = pytest.mark.parametrize(("name", "option"), wrong_options())


# Python


@both
def test_python_refuses_a_misspelt_option(name):
    with pytest.raises(TypeError, match=MISSPELT):
        METHODS[name].call(Unreadable(), "y", **{MISSPELT: 5.0})


@each
def test_python_refuses_a_wrong_option_before_it_reads(name, option):
    call = METHODS[name].call
    with pytest.raises(ds.ArgumentError, match=f"^{option} is "):
        call(Unreadable(), "y", **{**needed(name), option: object()})


@pytest.mark.parametrize("name", [name for name in RECORDS if hasattr(ds, name)])
def test_every_record_refuses_what_its_method_has_not(name):
    with pytest.raises(ds.ArgumentError, match=f"{name} has unknown option '{MISSPELT}'; there is"):
        RECORDS[name].read({MISSPELT: 5.0})


@pytest.mark.parametrize("option", RECORDS["anytime_sequence_glm"].names())
def test_a_family_in_passes_refuses_a_wrong_option_before_it_reads(option):
    given = {"family": "binomial", option: object()}
    with pytest.raises(ds.ArgumentError, match=f"^{option} is "):
        ds.anytime_sequence(Unreadable(), "y", **given)
    with pytest.raises(ds.ArgumentError, match=f"^{option} is "):
        lazy().dbselect.anytime_sequence_glm("y", **given)


# Polars


def lazy() -> pl.LazyFrame:
    """Return a frame that fails when it is collected."""
    return pl.LazyFrame({"y": [0]}).map_batches(lambda _: pytest.fail("the frame was read"))


@both
def test_polars_refuses_a_misspelt_option(name):
    door = getattr(pl.col("gram").dbselect, name)
    given = {**needed(name), MISSPELT: 5.0}
    with pytest.raises(ds.ArgumentError, match=f"{name} has unknown option '{MISSPELT}'"):
        door("y", **given)


@each
def test_polars_refuses_a_wrong_option(name, option):
    door = getattr(pl.col("gram").dbselect, name)
    with pytest.raises(ds.ArgumentError, match=f"^{option} is "):
        door("y", **{**needed(name), option: object()})


def test_a_lazy_frame_refuses_a_misspelt_option():
    with pytest.raises(ds.ArgumentError, match=f"unknown option '{MISSPELT}'; there is"):
        lazy().dbselect.anytime_sequence_glm("y", "binomial", **{MISSPELT: 5.0})


OF_ROWS = {
    "family": "poisson",
    "weight": "w",
    "null_policy": "mean",
    "wide": True,
    "exact": True,
}
ROWS = [
    (name, option, value)
    for name, method in METHODS.items()
    for option, value in OF_ROWS.items()
    if option in method.options.names()
]


@pytest.mark.parametrize(("name", "option", "value"), ROWS)
def test_an_option_that_needs_rows_says_where_to_go(name, option, value):
    given = {**needed(name), option: value}
    with pytest.raises(ds.ArgumentError) as refusal:
        getattr(pl.col("gram").dbselect, name)("y", **given)
    words = str(refusal.value)
    assert f"{option} is {value!r}; a record holds no rows" in words
    assert f"dbselect.{name}(table, ..., {option}={value!r})" in words
    if name == "anytime_sequence" and option == "family":
        assert "lf.dbselect.anytime_sequence_glm(" in words


# SQL


def in_macro(name: str, body: bool) -> dict[str, Any]:
    """Return the parameters with a default, as the macro or its header shows them."""
    text = MACROS[name]
    comments = re.findall(r"^--(.*)$", text, re.MULTILINE)
    shown = re.sub(r"^--.*$", "", text, flags=re.MULTILINE) if body else " ".join(comments)
    inside = re.search(rf"{name}\((.*?)\)", shown, re.DOTALL)
    return {
        parameter: ast.literal_eval({"NULL": "None", "true": "True", "false": "False"}.get(v, v))
        for parameter, v in re.findall(r"(\w+) := ('[^']*'|[^\s,)]+)", inside[1])
    }


def places_of(name: str) -> list[str]:
    """Return the parameters of a macro without a default, after record and target."""
    parameters = re.search(rf"MACRO {name}\((.*?)\) AS", MACROS[name], re.DOTALL)[1]
    return [one.strip() for one in parameters.split(",") if ":=" not in one][2:]


def sql_call(name: str, **options: str) -> str:
    """Return a call on a record without the target: to look at it is another error."""
    given = {**dict.fromkeys(needed(name), "1"), **options}
    places = places_of(name)
    values = ["gram({'x': 1})", "'y'", *(given.pop(one, "NULL") for one in places)]
    return f"SELECT {name}({', '.join([*values, *(f'{k} := {v}' for k, v in given.items())])})"


def still_answers(connection: duckdb.DuckDBPyConnection) -> bool:
    return connection.execute("SELECT 1").fetchall() == [(1,)]


@both
def test_sql_refuses_a_misspelt_option(connection, name):
    with pytest.raises(duckdb.Error, match=MISSPELT):
        connection.execute(sql_call(name, **{MISSPELT: "5.0"}))
    assert still_answers(connection)


@each
def test_sql_refuses_a_wrong_option_before_it_reads(connection, name, option):
    if option not in [*places_of(name), *in_macro(name, body=True)]:
        # What needs rows has no parameter.
        assert option in ("family", "weight", "null_policy", "wide", "resume", "screen", "exact")
        return
    with pytest.raises(duckdb.InvalidInputException, match=f"{option} is 'nonsense'"):
        connection.execute(sql_call(name, **{option: "'nonsense'"})).fetchall()
    assert still_answers(connection)


@pytest.mark.parametrize("option", [*in_macro("anytime_sequence_glm", body=True), MISSPELT])
def test_sql_in_passes_refuses_a_wrong_option_before_it_reads(connection, option):
    query = f"SELECT anytime_sequence_glm('no_table', 'y', 'binomial', {option} := 'nonsense')"
    with pytest.raises(duckdb.Error) as refusal:
        connection.execute(query).fetchall()
    if option in (
        "groups",
        "costs",
        "weight",
        "offset_column",
        "positive",
    ):  # names are not known before the table is
        assert "no_table" in str(refusal.value)
    else:
        assert RENAMED.get(option, option) in str(refusal.value)
        assert "no_table" not in str(refusal.value).splitlines()[0]
    assert still_answers(connection)


# Command line


def flags() -> list[argparse.Action]:
    """Return the options of ``dbselect sequence`` that the method has."""
    (commands,) = (one for one in every_command()._actions if isinstance(one.choices, dict))
    actions = commands.choices["sequence"]._actions
    return [one for one in actions if one.dest in AnytimeOptions.names()]


def command_line(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    try:
        code = main(["sequence", "nowhere.parquet", "--target", "y", *arguments])
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    return code, capsys.readouterr().err


def test_the_command_line_refuses_a_misspelt_option(capsys):
    code, error = command_line(capsys, f"--{MISSPELT}", "5")
    assert code == 2
    assert MISSPELT in error


@pytest.mark.parametrize("flag", flags(), ids=lambda flag: flag.dest)
def test_the_command_line_refuses_a_wrong_option_before_it_reads(capsys, flag):
    wrong = {"always": None, "weight": None}.get(flag.dest, "-1")
    if wrong is None:  # any text may be a name
        return
    code, error = command_line(capsys, flag.option_strings[0], wrong)
    assert code == 2
    assert flag.dest in error or flag.option_strings[0] in error
    assert "no file" not in error


# Defaults


@pytest.mark.parametrize("name", list(MACROS))
def test_a_macro_and_its_header_have_the_defaults_of_the_record(name):
    defaults = in_macro(name, body=True)
    assert in_macro(name, body=False) == defaults
    record = RECORDS.get(name)
    owner = getattr(ds, name, None)
    if name in ("anytime_predict", "glm_predict"):
        owner = ExprNamespace.predict
    # Where a STRUCT may give the others, a default could not be told from what is given.
    only_null = "options" in defaults
    assert defaults.pop("options", None) is None
    for parameter, value in defaults.items():
        option = RENAMED.get(parameter, parameter)
        if record is not None and option in record.names():
            expected = getattr(record, option)
        elif owner is not None:
            expected = inspect.signature(owner).parameters[option].default
        else:
            expected = None
        if only_null:
            assert value is None, parameter
            continue
        # NULL is the default, whatever that is; an empty list cannot be told from it.
        assert value == expected or (value is None and expected == ()), parameter


@pytest.mark.parametrize("name", [name for name in RECORDS if hasattr(ds, name)])
def test_python_has_the_defaults_of_the_record(name):
    parameters = inspect.signature(getattr(ds, name)).parameters
    for option in RECORDS[name].names():
        default = getattr(RECORDS[name], option, inspect.Parameter.empty)
        if parameters[option].default is not inspect.Parameter.empty:
            assert parameters[option].default == default, option


def test_every_door_has_every_method():
    for name, method in METHODS.items():
        assert hasattr(pl.col("gram").dbselect, name)
        assert name in MACROS
        assert callable(getattr(ds, name))
        assert isinstance(method, Method)


@pytest.mark.parametrize(
    ("literal", "names"),
    [
        (types.RuleName, list(RULES)),
        (types.GlmRuleName, rules_of_glm()),
        (types.ForwardName, rules_of_foba()),
        (types.BackwardName, list(USEFULNESS)),
        (types.FamilyName, [*FAMILIES, "multinomial"]),
        (
            types.GlmFamilyName,
            [name for name in (*FAMILIES, "multinomial") if name != AnytimeOptions.family],
        ),
    ],
)
def test_the_names_in_types_are_those_in_the_tables(literal, names):
    assert list(get_args(literal)) == names


OF_FAMILIES = [
    pytest.param(overload, id=name)
    for name in ds.__all__
    for overload in get_overloads(getattr(ds, name))
    if inspect.get_annotations(overload).get("family") is types.GlmFamilyName
]


@pytest.mark.parametrize("overload", OF_FAMILIES)
def test_type_checkers_know_that_families_go_through_the_origin(overload):
    assert "intercept" in inspect.signature(overload).parameters
