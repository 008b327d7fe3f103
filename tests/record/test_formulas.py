"""Formulas: every engine computes the same numbers, and what is shared but once."""

import duckdb
import numpy as np
import polars as pl
import pytest

from dbselect.record import formulas
from dbselect.record.formulas import column, if_finite, kept, plan, translate

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
