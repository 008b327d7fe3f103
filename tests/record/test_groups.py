"""Groups and costs: what they come to, and each way to get them wrong."""

import re

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.errors import ColumnError, GroupError
from dbselect.record.groups import groups_of

FEATURES = ["x", "demo.age", "demo.sex", "emb[1]", "emb[2]", "emb[3]", "z"]
PAIR = {"one": ["x"], "two": ["demo", "z"]}


def test_default_groups_are_the_top_level_fields():
    groups = groups_of(FEATURES)
    assert groups.columns == {
        "x": ["x"],
        "demo": ["demo.age", "demo.sex"],
        "emb": ["emb[1]", "emb[2]", "emb[3]"],
        "z": ["z"],
    }
    assert groups.names == ["x", "demo", "emb", "z"]
    np.testing.assert_array_equal(groups.costs, np.ones(4))
    assert groups.unused == ()


def test_groups_take_names_fields_and_globs_and_leave_the_rest_unused():
    groups = groups_of(FEATURES, {"b": ["emb[*]"], "a": ["demo", "x"], "c": "z"}, None)
    assert groups.columns == {
        "b": ["emb[1]", "emb[2]", "emb[3]"],
        "a": ["demo.age", "demo.sex", "x"],
        "c": ["z"],
    }
    assert groups_of(FEATURES, {"one": ["emb[2]"]}).unused == tuple(
        name for name in FEATURES if name != "emb[2]"
    )


def test_costs_go_by_name_not_by_place():
    np.testing.assert_array_equal(groups_of(FEATURES, PAIR, {"two": 7, "one": 0.5}).costs, [0.5, 7])


@pytest.mark.parametrize("cost", [1, 2.5, np.float32(0.5), np.int64(3), 1e-300])
def test_any_number_above_zero_is_a_cost(cost):
    assert groups_of(FEATURES, PAIR, {"one": cost, "two": 1}).costs[0] == float(cost)


@pytest.mark.parametrize(
    ("groups", "error", "match"),
    [
        ({"a": ["x"], "b": ["z", "x"]}, GroupError, "'x' lies in group 'a' and in group 'b'"),
        ({"a": ["demo"], "b": ["*age"]}, GroupError, r"'demo\.age' lies in group 'a' and"),
        ({"a": ["demo.agee"]}, ColumnError, r"group 'a' names unknown column .*'demo\.age'"),
        ({"a": ["emb[4]"]}, ColumnError, r"group 'a' names unknown column 'emb\[4\]'"),
    ],
    ids=str,
)
def test_wrong_groups_are_refused(groups, error, match):
    with pytest.raises(error, match=match):
        groups_of(FEATURES, groups)


def test_target_is_in_no_default_group_and_cannot_be_put_in_one():
    rng = np.random.default_rng(1)
    gram = ds.gram(rng.normal(size=(20, 3)), columns=["x", "z", "y"])
    assert ds.anytime_sequence(gram, "y").groups.names == ["x", "z"]
    with pytest.raises(GroupError, match="group 'a' names the target 'y'"):
        ds.anytime_sequence(gram, "y", {"a": ["x", "y"]})


def test_a_group_without_a_cost_brings_those_that_it_contains():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + 2.0 * X[:, 1] * X[:, 2] + rng.normal(size=300)
    table = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
    terms = ds.terms(table, interactions=["a", "b", "c"])
    sources = {"a": ["a"], "bc": ["b", "c"]}
    groups = terms.nested_groups(sources)
    assert groups == {
        "a": ["a"], "bc": ["b", "c", "b:c"], "a:bc": ["a", "b", "c", "a:b", "a:c"],
    }  # fmt: skip
    pairs = terms.nested_groups({name: [name] for name in "abc"})
    assert terms.nested_groups() == pairs
    costs = {"a": 1.0, "b": 2.0, "c": 4.0}
    seq = ds.anytime_sequence(table, "y", pairs, costs, terms=terms)
    spent = dict(seq.steps.select("group", "spent").rows())
    bought: set[str] = set()
    for group in seq.steps["group"].drop_nulls():
        bought |= set(group.split(":"))
        assert spent[group] == sum(costs[name] for name in bought)
    order = seq.steps["group"].to_list()
    assert order.index("b:c") < order.index("b")
    # Whatever is bought comes before the next that costs.
    assert np.all(np.diff(seq.steps["spent"]) >= 0)
    model = seq.at(budget=7.0)
    assert model.spent == 7.0
    assert {"b", "c", "b:c"} <= set(model.columns)
    design = np.column_stack([np.ones(300), *(table["b"], table["c"], table["b"] * table["c"])])
    alone = ds.anytime_sequence(table, "y", pairs, costs, terms=terms, always=["b:c"], max_groups=1)
    expected, *_ = np.linalg.lstsq(design, y, rcond=None)
    assert list(alone.at().coefficients.values()) == pytest.approx(expected[1:].tolist())
    with pytest.raises(GroupError, match="groups that share columns"):
        ds.foba(table, "y", pairs, costs, terms=terms)


@pytest.mark.parametrize("pattern", ["k.*", "k.a", "k", "k.?", "k*", "k.none", "none*"])
def test_patterns_of_levels_mean_the_same_of_a_table_and_of_its_gram(pattern):
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({"x": rng.normal(size=60), "k": (["a", "b", "b", "c"] * 15)})
    y = frame["x"] + (frame["k"] == "b") + rng.normal(size=60)
    frame = frame.with_columns(y=y, late=y > 0)
    gram, groups = ds.gram(frame), {"g": [pattern], "x": ["x"]}
    calls = [
        lambda source: ds.anytime_sequence(source, "y", groups, ridge=0.1).columns,
        lambda source: ds.sght(source, "y", groups, max_columns=2, max_groups=2).columns,
        lambda source: [*ds.fit(source, "y", [pattern], ridge=0.1).coefficients],
        lambda source: [*ds.AnytimePredictor(source, "y", groups, ridge=0.1).groups.members],
    ]
    others = [
        lambda: ds.anytime_sequence(frame, "y", groups, gram="lazy", ridge=0.1).columns,
        lambda: ds.anytime_sequence(frame, "late", groups, family="binomial", ridge=0.1).columns,
        lambda: ["x", *ds.fit(frame, "late", [pattern], family="binomial", ridge=1).coefficients],
    ]
    try:
        expected = [call(gram) for call in calls]
    except ColumnError as error:
        told = str(error).split("names", 1)[1]
        for call in (*(lambda call=call: call(frame) for call in calls), *others):
            with pytest.raises(ColumnError, match=re.escape(told.split(";")[0])):
                call()
        return
    assert [call(frame) for call in calls] == expected
    assert all({*other()} == {*expected[0]} for other in others)
