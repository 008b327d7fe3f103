"""What a mistake that is easily made says: what is wrong, and the call that was meant."""

import datetime as dt
import re
from fractions import Fraction

import duckdb
import numpy as np
import polars as pl
import pytest
from test_clients import one, opened

import dbselect as ds

ROW = "{'x': x, 'y': y, 'k': k}"
TABLE = """CREATE TABLE t AS
    SELECT i AS x, 2 * i + i % 3 AS y, ['a', 'b'][1 + i % 2] AS k FROM range(30) r(i)"""


@pytest.fixture(scope="module")
def loaded():
    with opened() as con:
        con.execute(TABLE)
        con.execute(f"CREATE TABLE grams AS SELECT gram({ROW}) AS g FROM t")
        yield con


def merged(first: str, second: str) -> str:
    """Return a query that merges the records of two rows."""
    parts = " UNION ALL ".join(f"SELECT gram({row}) AS g FROM t" for row in (first, second))
    return f"SELECT gram_merge(g) FROM ({parts})"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            merged("{'d': DATE '2026-01-01'}", "{'d': TIMESTAMP '2026-01-01'}"),
            "gram_merge: gram records differ in column 'd': it is a date in the first, a "
            "timestamp in the second; cast it to one type",
        ),
        (merged("{'d': 1}", "{'d': DATE '2026-01-01'}"), "it is a number in the first, a date"),
        (
            merged("{'x': x, 'k': k}", "{'z': x, 'k': k || '2'}"),
            "unequal columns; only in the first: 'x'; only in the second: 'z'",
        ),
        ("SELECT fit(g, 'k') FROM grams", "cast text that holds numbers before the sums"),
        ("SELECT fit(g, 'Y') FROM grams", "unknown column 'Y'; there is 'y', and case counts"),
        (
            "SELECT foba(g, 'y', {'costs': {'X': 1}}) FROM grams",
            "costs names unknown group 'X'; there is 'x', and case counts",
        ),
        (
            "SELECT foba(g, 'y', {'x': 3}) FROM grams",
            "foba has no option 'x'; costs are given as {'costs': {'x': 3}}",
        ),
        ("SELECT foba(g, 'y', {'k': 3}) FROM grams", "unknown option 'k'; there is"),
        (
            "SELECT best_within(g, 'y', 1, {'signs': {'x': '+'}}) FROM grams",
            "best_within has no option 'signs': its order and bounds are those of least squares",
        ),
        ("SELECT backward(g, 'y', {'nu': 0.5}) FROM grams", "unknown option 'nu'; there is"),
        (
            "SELECT foba(g, 'y', {'groups': ['x', 'k']}) FROM grams",
            "must map names to lists of columns, as {'x': ['x'], 'k': ['k']}",
        ),
        ("SELECT foba(g, 'y', {'budgt': 3}) FROM grams", "unknown option 'budgt'; there is 'bud"),
        (
            "SELECT sght(g, 'y', 1, 1, {'start': ['x']}) FROM grams",
            "sght has no option 'start' in SQL; dbselect.sght has it in Python",
        ),
        ("SELECT dash(g, 'y', {'k': 1, 'literal': true}) FROM grams", "has no option 'literal'"),
        ("SELECT gram({'x': INTERVAL 1 DAY})", "dates or text: take its seconds, epoch(x)"),
        ("SELECT gram({'x': TIME '10:00'})", "take its seconds, epoch(x), or leave it out"),
        ("SELECT gram({'x': [1, 2]})", "cast it to a fixed size, x::DOUBLE[3]"),
        ("SELECT gram({'x': uuid()})", "has type UUID; columns must be numeric, boolean, dates"),
    ],
)
def test_sql_says_what_to_write(loaded, query, words):
    with pytest.raises(duckdb.Error, match=re.escape(words)):
        loaded.execute(query).fetchall()


def test_records_merge_whatever_the_order_of_their_columns(loaded):
    for first, second in [
        ("{'y': y, 'x': x}", "{'x': x, 'y': y}"),
        (ROW, "{'k': k, 'y': y, 'x': x}"),
    ]:
        both = one(loaded, merged(first, second))
        assert both == one(loaded, merged(second, first))
        twice = one(loaded, merged(first, first))
        assert both["rows"] == twice["rows"] == 60
        named = [dict(zip(one_["columns"], one_["mean"], strict=True)) for one_ in (both, twice)]
        assert named[0] == pytest.approx(named[1])


def test_a_record_in_the_place_of_a_table_is_named(connection):
    connection.execute(TABLE)
    query = f"SELECT anytime_sequence_glm(gram({ROW}), 'y', 'poisson') FROM t"
    with pytest.raises(duckdb.Error, match="families need the rows, so give the name of a table"):
        connection.execute(query).fetchall()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([dt.timedelta(seconds=1)] * 2, "take its seconds"),
        ([dt.time(10)] * 2, "take its seconds"),
        ([[1], [2]], "cast it to a fixed-size array"),
        ([b"a", b"b"], "cast it"),
    ],
)
def test_types_without_numbers_name_the_cast(values, words):
    frame = pl.DataFrame({"x": [1.0, 2.0], "d": values})
    with pytest.raises(ds.errors.ColumnError, match=f"dates or text: {words}"):
        ds.gram(frame, ["x", "d"])
    with pytest.raises(pl.exceptions.ComputeError, match=f"dates or text: {words}"):
        frame.select(pl.struct("x", "d").dbselect.gram())


def test_a_target_of_text_may_be_cast():
    frame = pl.DataFrame({"x": [1.0, 2, 4], "y": ["1", "3", "9"]})
    with pytest.raises(ds.errors.ColumnError, match="cast it if it holds numbers"):
        ds.anytime_sequence(frame, "y")


@pytest.mark.parametrize("option", [{"k": 3}, {"nu": 0.5}], ids=str)
def test_an_option_of_another_method_is_taken_for_no_cost(option):
    grams = pl.DataFrame({"g": [ds.gram(pl.DataFrame({"x": [1, 2, 4], "y": [1, 3, 9]}))]})
    with pytest.raises(ds.errors.OptionError, match=f"unknown option '{next(iter(option))}'"):
        grams.select(pl.col("g").dbselect.backward("y", **option))


@pytest.mark.parametrize("option", ["signs", "uncorrelated"])
def test_a_search_says_why_it_takes_no_constraint(option):
    gram = ds.gram(pl.DataFrame({"x": [1.0, 2, 4], "y": [1.0, 3, 9]}))
    reason = f"has no option '{option}': its order and bounds are those of least squares"
    for search in (ds.anytime_sequence, ds.best_within):
        with pytest.raises(ds.errors.OptionError, match=f"{search.__name__} {reason}"):
            search(gram, "y", **{option: ["x"], "budget": 1})
    grams = pl.DataFrame({"g": [gram]})
    with pytest.raises(ds.errors.OptionError, match=reason):
        grams.select(pl.col("g").dbselect.foba("y", **{option: ["x"]}))


@pytest.mark.parametrize("listed", [list, tuple, set, iter, pl.Series], ids=repr)
def test_names_come_in_any_collection(listed):
    frame = pl.DataFrame({"a": [1.0, 2, 4, 8], "b": [1.0, 0, 1, 1], "y": [1.0, 3, 9, 7]})
    gram = ds.gram(frame)
    grams = pl.DataFrame({"g": [gram.to_struct()]})
    for source in (frame, gram):
        assert [*ds.fit(source, "y", listed(["b"])).coefficients] == ["b"]
    assert (
        ds.fit_by(grams.rename({"g": "gram"}), "y", listed(["b"]))["fit"][0]["coefficients"][0][
            "key"
        ]
        == "b"
    )
    asked = pl.col("g").dbselect.exchange("y", k=1, start=listed(["b"]))
    assert ds.exchange(gram, "y", k=1, start=listed(["b"])).groups == ["a"]
    assert grams.select(asked).item()["groups"] == ["a"]


def test_a_limit_may_be_any_whole_number_and_a_number_is_one_that_a_double_holds():
    gram = ds.gram(pl.DataFrame({"a": [1.0, 2, 4, 8], "b": [1.0, 0, 1, 1], "y": [1.0, 3, 9, 7]}))
    for limit in (2**63 - 1, 2**64, 10**309):
        assert ds.anytime_sequence(gram, "y", max_groups=limit).groups.names == ["a", "b"]
        assert ds.foba(gram, "y", max_steps=limit).stop is ds.foba(gram, "y").stop
    with pytest.raises(ds.errors.ArgumentError, match="budget is an int; it must be a number"):
        ds.anytime_sequence(gram, "y", budget=10**309)
    with pytest.raises(ds.errors.GroupError, match="group 'a' has cost an int"):
        ds.anytime_sequence(gram, "y", costs={"a": 10**309})
    half = ds.fit(gram, "y", ridge=Fraction(1, 2))
    assert half.coefficients == ds.fit(gram, "y", ridge=0.5).coefficients


@pytest.mark.parametrize("name", ["spent", "explained"])
@pytest.mark.parametrize("value", [None, np.nan, np.inf, "much"], ids=str)
def test_a_curve_with_a_value_that_is_no_number_is_refused(name, value):
    curve = pl.DataFrame({"spent": [0.0, 1.0], "explained": [0.0, 1.0]})
    bad = pl.Series(name, [0.0, value] if value != "much" else ["0", value])
    with pytest.raises(ds.errors.ArgumentError, match=f"'{name}' that is not finite"):
        ds.compare({"curve": curve.with_columns(bad)})
