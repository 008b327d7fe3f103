"""Formulas: every engine computes the same numbers, and what is shared but once."""

import duckdb
import numpy as np
import polars as pl
import pytest

from dbselect.record import formulas
from dbselect.record.formulas import (
    absolute,
    at_least,
    choose,
    column,
    equals,
    exp,
    if_finite,
    kept,
    largest,
    log,
    log1p,
    number,
    plan,
    total,
    translate,
)

EPS = np.finfo(float).eps
FRAME = pl.DataFrame(
    {
        "x": [-3.0, -1e-20, 0.0, 1e-20, 0.5, 800.0, None],
        "y": [1, 2, 3, 4, 5, 6, 7],
        'odd " name': [1.5, 2.5, -1.0, 0.0, 7.0, 1e-300, 2.0],
        "s": [{"a": float(i)} for i in range(7)],
        "e": pl.Series([[i, 2.0 * i] for i in range(7)], dtype=pl.Array(pl.Float64, 2)),
        "k": ["it's", "b", "c", "b", None, "it's", "b"],
        "flag": [True, False, None, True, True, False, True],
    }
)
X, Y, ODD = column(("x",)), column(("y",)), column(('odd " name',))
x = np.array([-3.0, -1e-20, 0.0, 1e-20, 0.5, 800.0, np.nan])
y = np.arange(1.0, 8.0)
odd = FRAME['odd " name'].to_numpy()
CASES = {
    "arithmetic": (((X + 2.0) * Y - ODD) / Y, ((x + 2.0) * y - odd) / y),
    "inverse": (1.0 / Y, 1.0 / y),
    "exp": (exp(X * -1.0), np.exp(-x)),
    "log": (log(Y), np.log(y)),
    "log1p of what is small": (log1p(absolute(X) * 1e-3), np.log1p(np.abs(x) * 1e-3)),
    "absolute": (absolute(X), np.abs(x)),
    "largest": (largest([Y, Y * -1.0, number(3.0)]), np.maximum(y, 3.0)),
    "floor": (at_least(X, -1.0), np.maximum(x, -1.0)),
    "choose": (choose(Y - 3.0, Y, ODD), np.where(y > 3, y, odd)),
    "given": (if_finite(X, ODD, Y * 2.0), np.where(np.isnan(x), 2 * y, odd)),
    "nested": (column(("s", "a")) + column(("e", 2)), np.arange(7.0) * 3),
    "total": (total([X, Y, number(1e-7), ODD, X]), 2 * x + y + odd + 1e-7),
    "text": (equals(("k",), "it's"), np.array([1, 0, 0, 0, np.nan, 1, 0.0])),
    "boolean": (equals(("flag",), True), np.array([1, 0, np.nan, 1, 1, 0, 1.0])),
    "whole number": (equals(("y",), 3), (y == 3).astype(float)),
    "shared": (kept(kept(X * 2.0) + Y) * kept(Y + 1.0), (2 * x + y) * (y + 1)),
}


@pytest.mark.parametrize("name", list(CASES))
def test_polars_computes_the_formula(name):
    formula, expected = CASES[name]
    found = FRAME.select(p=translate(formula, formulas.polars()))["p"].fill_null(np.nan)
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=8 * EPS)


@pytest.mark.parametrize("name", list(CASES))
def test_duckdb_computes_the_formula(name):
    formula, expected = CASES[name]
    text = translate(formula, formulas.sql())
    with duckdb.connect() as con:
        table = con.from_arrow(FRAME.to_arrow())
        found = pl.DataFrame(table.select(f"{text} AS p").to_arrow_table())["p"].fill_null(np.nan)
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=8 * EPS)


def test_numpy_keeps_a_missing_value_missing():
    known = {("x",): x, ("y",): y, ('odd " name',): odd}
    algebra = formulas.arrays(known.__getitem__)
    for name in ("arithmetic", "exp", "absolute", "floor", "given", "shared"):
        formula, expected = CASES[name]
        np.testing.assert_allclose(translate(formula, algebra), expected, rtol=8 * EPS)


def test_a_plan_computes_what_is_shared_once_and_before_its_uses():
    inner = kept(X * 2.0)
    outer = kept(inner + Y)
    steps = plan({"a": outer * inner, "b": outer + 1.0}, "shared")
    assert [list(layer) for layer in steps.layers] == [["shared0"], ["shared1"], ["a", "b"]]
    algebra = formulas.polars(lambda formula: pl.col(steps.names[id(formula)]))
    frame = FRAME
    for layer in steps.layers:
        frame = frame.with_columns(translate(f, algebra).alias(n) for n, f in layer.items())
    np.testing.assert_array_equal(frame["b"].drop_nulls(), (2 * x + y + 1)[:-1])


def test_a_formula_knows_the_fields_it_reads():
    formula = kept(column(("s", "a")) * X) + equals(("k",), "b") + kept(column(("e", 1)))
    assert formula.fields() == {"s", "x", "k", "e"}


def test_nan_is_as_missing_as_null_where_a_formula_asks():
    frame = pl.DataFrame({"x": [1.0, float("nan"), None]})
    formula = if_finite(X, X * 2.0, 7.0)
    expected = [2.0, 7.0, 7.0]
    assert frame.select(p=translate(formula, formulas.polars()))["p"].to_list() == expected
    with duckdb.connect() as con:
        table = con.from_arrow(frame.to_arrow())
        rows = table.select(translate(formula, formulas.sql())).fetchall()
        assert [value for (value,) in rows] == expected
        # Dialects without a name for NaN ask for NULL only.
        (one, nan, null) = table.select(translate(formula, formulas.sql(duckdb=False))).fetchall()
    assert (one, null) == ((2.0,), (7.0,))
    assert np.isnan(nan[0])


def test_a_child_of_a_struct_is_no_column_of_a_table_of_that_name():
    text = translate(column(("demo", "age")) + column(("emb", 2, 1)), formulas.sql())
    assert text == '(CAST(("demo")."age" AS DOUBLE) + CAST(("emb")[2][1] AS DOUBLE))'
    with duckdb.connect() as con:
        con.execute("CREATE TABLE demo AS SELECT 1 AS age, {'age': 2} AS demo, [[0], [3]] AS emb")
        assert con.execute(f"SELECT {text} FROM demo").fetchall() == [(5.0,)]


@pytest.mark.parametrize(
    ("options", "new", "missing"),
    [
        ({}, None, None),
        ({"other": 0.0}, 0.0, None),
        ({"missing": 7.0}, None, 7.0),
        ({"other": 0.0, "missing": 7.0}, 0.0, 7.0),
        ({"other": 0.0, "missing": 0.0}, 0.0, 0.0),
    ],
    ids=str,
)
def test_duckdb_looks_many_texts_up_by_their_place(options, new, missing):
    levels = ["", *(f"l'{j} ü" for j in range(formulas.MANY))]
    numbers = [5e-324, -1.7e308, 0.1, *np.random.default_rng(1).normal(size=len(levels) - 3)]
    found = formulas.Lookup(("user",), tuple(levels), tuple(numbers), **options)
    # A column that DuckDB has a function of, too; an ENUM is a text.
    frame = pl.DataFrame({"user": [*levels, "new", None]})
    with duckdb.connect() as con:
        table = con.from_arrow(frame.to_arrow())
        text = translate(formulas.lookup(found), formulas.sql())
        assert "CASE CAST" not in text
        rows = [value for (value,) in table.select(text).fetchall()]
        assert rows == [*numbers, new, missing]
        con.execute("CREATE TYPE level AS ENUM ('', 'other')")
        assert con.sql(f"SELECT {text} FROM (SELECT ''::level AS user)").fetchall() == [(5e-324,)]


def test_duckdb_says_which_of_many_texts_a_fit_has_not_seen():
    levels = tuple(f"u{j}" for j in range(2 * formulas.MANY))
    found = formulas.Lookup(("user",), levels, (1.0,) * len(levels), refuses=True)
    text = translate(formulas.lookup(found), formulas.sql())
    with duckdb.connect() as con:
        known = "(VALUES ('u1'), (NULL)) AS known(user)"
        assert con.sql(f"SELECT {text} FROM {known}").fetchall() == [(1.0,), (None,)]
        with pytest.raises(duckdb.Error, match="'user' has the level nobody, which the fit"):
            con.sql(f"SELECT {text} FROM (SELECT 'nobody' AS user)").fetchall()
