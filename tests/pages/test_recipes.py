"""The recipe of extending.md for a rule: a function, its line in `RULES`, its name in `names`."""

import json
from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.options.kinds import one_of
from dbselect.options.option import options_of
from dbselect.selection.criteria import RULES, Rule, unwhitened
from dbselect.spec.options import AnytimeOptions, FloatingOptions, FobaOptions

of_any = RULES["omp-unwhitened"].gamma
GROUPS = {"first": ["a"], "second": ["b"], "third": ["c"]}
COSTS = {"first": 1.0, "second": 1.0, "third": 1.0}
#: What the rule below says, whatever the data.
ORDER = ["third", "second", "first"]


def last_named(state):
    """Prefer the group that is named last."""
    del state
    return lambda state: np.arange(1.0, 1 + len(state.members))


@pytest.fixture(autouse=True)
def rule(monkeypatch):
    """Add a rule, with neither a twin in the library nor a word about other models."""
    monkeypatch.setitem(RULES, "last", Rule(last_named, of_any))
    for table in (AnytimeOptions, FobaOptions, FloatingOptions):
        known = options_of(table)
        monkeypatch.setitem(known, "rule", replace(known["rule"], kind=one_of([*RULES])))
    return "last"


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = X @ [3.0, 2.0, 1.0] + rng.normal(size=120)
    return pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(y=pl.Series(y))


@pytest.fixture
def trials(frame):
    return frame.with_columns(y=pl.col("y") > 0)


def test_python(frame, rule):
    for source in (frame, ds.gram(frame), ds.gram(frame).to_struct()):
        found = ds.anytime_sequence(source, "y", GROUPS, COSTS, rule=rule)
        assert found.steps["group"].to_list()[1:] == ORDER
        assert found.guarantee() is not None
    joint = ds.anytime_sequence(frame, ["y", "a"], {"b": ["b"], "c": ["c"]}, rule=rule)
    assert joint.steps["group"].to_list()[1:] == ["c", "b"]
    assert ds.foba(frame, "y", GROUPS, rule=rule).steps["group"][1] == "third"


def test_generalised_linear_models(trials, rule):
    found = ds.anytime_sequence(trials, "y", GROUPS, family="binomial", rule=rule)
    assert found.steps["group"].to_list()[1:] == ORDER
    objective = ds.Problem(trials, "y", GROUPS, family="binomial").objective()
    assert ds.anytime_sequence(objective, rule=rule).steps["group"].to_list()[1:] == ORDER
    own = trials.lazy().dbselect.anytime_sequence("y", GROUPS, family="binomial", rule=rule)
    assert own.steps["group"].to_list()[1:] == ORDER


def test_many_records(frame, rule):
    tall = pl.concat([frame.with_columns(k=pl.lit(k)) for k in (1, 2)])
    grams = ds.gram_by(tall, by=["k"])
    lists = [
        ds.anytime_sequence_by(grams, "y", GROUPS, rule=rule)["sequence"],
        grams.select(s=pl.col("gram").dbselect.anytime_sequence("y", GROUPS, rule=rule))["s"],
    ]
    for sequences in lists:
        assert len(sequences) == 2
        for steps in sequences:
            assert steps.struct.field("group").to_list()[1:] == ORDER


def test_sql(connection, frame, trials, rule):
    connection.register("frame", frame.to_arrow())
    groups = "{'first': ['a'], 'second': ['b'], 'third': ['c']}"
    # The extension has the rules of the library.
    query = f"SELECT anytime_sequence(gram(frame), 'y', rule := '{rule}') FROM frame"
    with pytest.raises(duckdb.Error, match=f"rule is '{rule}'; it must be one of"):
        connection.execute(query)
    connection.register("given", trials.to_arrow())
    connection.execute("CREATE TABLE trials AS FROM given")
    ((found,),) = connection.execute(
        f"SELECT anytime_sequence_glm('trials', 'y', 'binomial', groups := {groups}, "
        f"rule := '{rule}')"
    ).fetchall()
    assert [step["group"] for step in found["steps"]][1:] == ORDER


def test_command_line(frame, rule, tmp_path, capsys):
    frame.write_parquet(tmp_path / "t.parquet")
    (tmp_path / "groups.json").write_text(json.dumps(GROUPS))
    arguments = [f"{tmp_path}/t.parquet", "--target", "y", "--groups", f"{tmp_path}/groups.json"]
    out = f"{tmp_path}/steps.parquet"
    assert main(["sequence", *arguments, "--rule", rule, "--out", out]) == 0
    assert ds.results.Sequence.read_parquet(out).steps["group"].to_list()[1:] == ORDER
    assert "third" in capsys.readouterr().out


def test_a_twin_in_the_library_is_used_where_it_is_told(frame, monkeypatch):
    used = []

    def counted(state):
        used.append(len(state.members))
        return unwhitened(state)

    grams = ds.gram_by(frame.with_columns(k=pl.lit(1)), by=["k"])
    found = {}
    for compiled in (True, False):
        rule = Rule(counted, of_any, compiled=compiled)
        monkeypatch.setitem(RULES, "omp-unwhitened", rule)
        sequences = ds.anytime_sequence_by(grams, "y", GROUPS, rule="omp-unwhitened")["sequence"]
        found[compiled] = sequences[0].struct
        assert used == ([] if compiled else [3])
    assert found[True].field("group").to_list() == found[False].field("group").to_list()
    np.testing.assert_allclose(
        found[True].field("score").to_numpy(), found[False].field("score").to_numpy(), rtol=1e-10
    )
