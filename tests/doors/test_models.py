"""Models and sequences that score rows in every DuckDB client, and as plain SQL without one.

Expected values are NumPy's products of the coefficients, and Python's predictions.
"""

from datetime import date, timedelta
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from test_clients import one, opened

import dbselect as ds

ROWS = 5000
KINDS = ["u", "v.w", "it's", None]


def table() -> pl.DataFrame:
    """Rows with text, dates, missing numbers, nested fields and names that look nested."""
    rng = np.random.default_rng(31)
    a, b, c, d = rng.normal(size=(4, ROWS))
    kind = rng.integers(4, size=ROWS)
    days = rng.integers(400, size=ROWS)
    noise = 0.1 * rng.normal(size=ROWS)
    y = 1 + 2 * a - b + 0.5 * c + kind + days / 100 + noise
    frame = pl.DataFrame({"y": y, "x.a": a, 'q"b': b, "flag": d > 0, "n": days % 7})
    return frame.with_columns(
        demo=pl.struct(age=pl.Series(c), income=pl.Series(d)),
        emb=pl.Series(np.column_stack([c + d, c - d]), dtype=pl.Array(pl.Float64, 2)),
        kind=pl.Series([KINDS[k] for k in kind]),
        day=pl.Series([date(2026, 1, 1) + timedelta(days=int(k)) for k in days]),
    )


@pytest.fixture(scope="module")
def loaded() -> Any:
    frame = table()  # noqa: F841 - DuckDB reads it
    with opened() as con:
        con.execute("CREATE TABLE t AS FROM frame")
        con.execute("""CREATE TABLE models AS
            SELECT fit(g, 'y') AS m, anytime_sequence(g, 'y', {'ridge': 0.1}) AS s, g
            FROM (SELECT gram_missing(t) AS g FROM t)""")
        yield con


def numbers(found: Any) -> np.ndarray:
    return np.array([np.nan if row[0] is None else row[0] for row in found], dtype=float)


def test_a_model_predicts_rows_of_the_raw_table(loaded):
    found = numbers(loaded.execute("SELECT predict(m, t).prediction FROM t, models").fetchall())
    gram = ds.Gram.from_struct(one(loaded, "SELECT g FROM models"))
    expected = ds.fit(gram, "y").predict(table())
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    fields = one(loaded, "SELECT any_value(predict(m, t)) FROM t, models")
    assert [fields[name] for name in ("step", "spent", "next_group")] == [None] * 3


def test_named_arguments_and_nothing(loaded):
    assert one(loaded, "SELECT predict(NULL, {'a': 1})") is None
    assert one(loaded, "SELECT predict(NULL::STRUCT(intercept DOUBLE, coefficients"
                       " MAP(VARCHAR, DOUBLE)), {'a': 1})") is None  # fmt: skip
    assert one(loaded, "SELECT predict([], {'a': 1})") is None
    model = "{'intercept': 1.0::DOUBLE, 'coefficients': MAP {'a': 2.0::DOUBLE}}"
    assert one(loaded, f"SELECT predict({model}, {{'a': 4}}).prediction") == 9.0
    assert one(loaded, f"SELECT dbselect.predict({model}, {{'A': 4}}).prediction") == 9.0
    assert one(loaded, f"SELECT predict({model}, {{'a': NULL}})") is None
    lacks = "{'missing_columns': 'unavailable'}"
    assert one(loaded, f"SELECT predict({model}, {{'b': 1}}, {lacks})") is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("predict(5, {'a': 1})", "model has type INTEGER"),
        ("predict({'x': 5}, {'a': 1})", "model has no field 'coefficients'"),
        ("predict([5], {'a': 1})", "must be a model or a sequence"),
        (
            "predict({'intercept': 'a', 'coefficients': MAP {'a': 1e0}}, {'a': 1})",
            "model has 'intercept' of type VARCHAR",
        ),
        (
            "predict({'intercept': 1e0, 'coefficients': MAP {'a': 1}}, {'a': 1})",
            "do not map names to doubles",
        ),
        ("predict(m, t, {'budget': 1}) FROM t, models", "budget is given for a model"),
        ("predict(m, {'y': 1}) FROM models", "the rows lack"),
        ("predict(m, t, {'budgte': 1}) FROM t, models", "predict has unknown option 'budgte'"),
        ("model_sql(m, {'missing_columns': 'error'}) FROM models", "unknown option"),
        ("model_sql(m, {'budget': 1}) FROM models", "budget is given for a model"),
        (
            "model_sql({'intercept': 1e0, 'coefficients': MAP {'a': 1e0, 'A': 1e0}})",
            "are one column to SQL",
        ),
    ],
)
def test_mistakes_are_named(loaded, call, words):
    with pytest.raises(duckdb.Error, match=words):
        loaded.execute(f"SELECT {call}").fetchall()


@pytest.mark.parametrize("budget", [None, 0, 1, 3.5, 100])
def test_sequences_predict_as_anytime_predict(loaded, budget):
    given = "NULL" if budget is None else str(budget)
    query = """SELECT predict(s, t, {'budget': %s}), anytime_predict(s, t, %s) FROM t, models"""
    assert all(a == b for a, b in loaded.execute(query % (given, given)).fetchall())


@pytest.mark.parametrize(
    ("model", "options"),
    [("m", ""), ("s", ""), ("s", ", {'budget': 2}"), ("s", ", {'handle_unknown': 'mean'}")],
)
def test_plain_sql_predicts_the_same_without_the_extension(loaded, model, options):
    text = one(loaded, f"SELECT model_sql({model}{options}) FROM models")
    rows = loaded.execute(f"SELECT predict({model}, t{options}) FROM t, models").fetchall()
    # The text is of one prefix; rows that lack a column of it get a shorter one in the extension.
    steps = np.array([-1 if row is None else row["step"] or 0 for (row,) in rows])
    whole = steps == steps.max()
    expected = np.array([row["prediction"] for (row,) in rows if row is not None])
    expected = expected[whole[steps >= 0]]
    frame = table()  # noqa: F841 - DuckDB reads it
    with duckdb.connect() as plain:
        plain.execute("CREATE TABLE t AS FROM frame")
        plain.execute(f"CREATE VIEW scored AS SELECT {text} AS p FROM t")
        found = numbers(plain.execute("SELECT p FROM scored").fetchall())
    np.testing.assert_allclose(found[whole], expected, rtol=1e-12, atol=1e-12)
    assert np.isnan(found[~whole]).all()


def test_plain_sql_treats_levels_that_the_fit_has_not_seen(loaded):
    row = "(SELECT * REPLACE ('new' AS kind) FROM t LIMIT 1) AS t"
    for unknown in ("unavailable", "mean"):
        options = f"{{'handle_unknown': '{unknown}'}}"
        text = one(loaded, f"SELECT model_sql(m, {options}) FROM models")
        predicted = one(loaded, f"SELECT predict(m, t, {options}).prediction FROM {row}, models")
        assert one(loaded, f"SELECT {text} FROM {row}") == pytest.approx(predicted)
    text = one(loaded, "SELECT model_sql(m, {'handle_unknown': 'error'}) FROM models")
    with pytest.raises(duckdb.Error, match="column 'kind' has the level 'new'"):
        loaded.execute(f"SELECT {text} FROM {row}").fetchall()


def test_rows_of_a_chunk_are_predicted_column_by_column_or_one_by_one(loaded):
    """Some rows lack something, sequences and budgets differ from row to row."""
    rng = np.random.default_rng(7)
    n = 6000
    X = rng.normal(size=(n, 3))
    X[rng.random((n, 3)) < 0.1] = np.nan
    X[rng.random((n, 3)) < 0.02] = np.inf
    which, budget = rng.integers(3, size=n), rng.integers(4, size=n).astype(float)
    models = rng.normal(size=(3, 4, 4))
    frame = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(  # noqa: F841
        pl.Series("i", range(n)), pl.Series("which", which), pl.Series("budget", budget)
    )
    literal = [_sequence(own) for own in models]
    sequences = " UNION ALL ".join(f"SELECT {w} AS which, {literal[w]} AS s" for w in range(3))
    query = f"""SELECT p.prediction, p.step, p.next_group FROM (
        SELECT i, anytime_predict(s, {{'a': a, 'b': b, 'c': c}}, budget) AS p
        FROM frame JOIN ({sequences}) USING (which)) ORDER BY i"""
    for row, (value, step, group) in enumerate(loaded.execute(query).fetchall()):
        there = np.isfinite(X[row])
        best = max(k for k in range(4) if k <= budget[row] and there[:k].all())
        own = models[which[row], best]
        assert (step, group) == (best, "abc"[best] if best < 3 else None)
        assert value == pytest.approx(own[3] + own[:best] @ X[row, :best])


def _sequence(models: np.ndarray) -> str:
    """Write a sequence whose step k reads the first k of a, b and c."""
    each = []
    for k, (*coefficients, intercept) in enumerate(models):
        names = ", ".join(
            f"'{name}': {float(x)!r}::DOUBLE"
            for name, x in zip("abc"[:k], coefficients[:k], strict=True)
        )
        group = f"'{'abc'[k - 1]}'" if k else "NULL::VARCHAR"
        each.append(
            f"{{'step': {k}::BIGINT, 'action': 'add', 'group': {group}, 'cost': 1e0, "
            f"'spent': {k}e0, 'score': 1e0, 'gain': 1e0, 'explained': 1e0, 'r2': 1e0, "
            f"'useful': true, 'intercept': {float(intercept)!r}::DOUBLE, "
            f"'coefficients': MAP {{{names}}}::MAP(VARCHAR, DOUBLE), 'terms': NULL::VARCHAR}}"
        )
    return f"[{', '.join(each)}]"


@pytest.mark.parametrize("catalog", ["", "dbselect."])
@pytest.mark.parametrize(
    ("call", "options", "named"),
    [
        ("predict(s, {'a': 1},", "'budget': 1, 'missing_columns': 'unavailable'", None),
        ("predict(m, t,", "'handle_unknown': 'mean'", None),
        ("anytime_predict(s, {'a': 1},", "'budget': 1, 'missing_columns': 'unavailable'", None),
        ("anytime_predict(s, t,", "'HANDLE_UNKNOWN': 'mean'", "handle_unknown := 'mean'"),
        ("model_sql(s,", "'budget': 1, 'handle_unknown': 'mean'", None),
        ("predict_available(g, 'y', {'a': 1},", "'level': 0.9, 'missing_columns': 'unavailable'",
         None),
    ],
)  # fmt: skip
def test_a_struct_of_options_is_named_arguments(catalog, call, options, named):
    frame = table()  # noqa: F841 - DuckDB reads it
    named = named or options.replace("':", " :=").replace(", '", ", ").removeprefix("'")
    with ds.connect() as con:
        con.execute("CREATE TABLE t AS FROM frame LIMIT 3")
        con.execute("""CREATE TABLE models AS
            SELECT fit(g, 'y') AS m, anytime_sequence(g, 'y') AS s, g
            FROM (SELECT gram_missing(f) AS g FROM frame f)""")
        found, other = (
            con.execute(f"SELECT {catalog}{call} {given}) FROM t, models").fetchall()
            for given in (f"{{{options}}}", named)
        )
    assert found == other
    assert found[0] != (None,)


def test_each_row_has_the_model_of_its_segment_in_any_order():
    """Hundreds of models, of the same columns and of others, with text or gaps in some rows."""
    rng = np.random.default_rng(5)
    rows, segments = 3000, 400
    X = rng.normal(size=(rows, 3))
    X[rng.random(X.shape) < 0.02] = np.nan
    k = rng.integers(segments, size=rows)
    frame = pl.DataFrame({"k": k, "a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}).fill_nan(None)
    B = rng.normal(size=(segments, 4))
    orders = [[0, 1, 2], [2, 0, 1], [1], []]
    kept = [orders[s % 4] for s in range(segments)]
    models = pl.DataFrame(
        {
            "k": range(segments),
            "intercept": B[:, 3],
            "names": [["abc"[j] for j in own] for own in kept],
            "values": [[B[s, j] for j in own] for s, own in enumerate(kept)],
        }
    )
    with opened() as con:
        con.register("t", frame.to_arrow())
        con.register("m", models.to_arrow())
        found = con.execute("""
            SELECT predict(model, {'a': a, 'b': b, 'c': c}).prediction FROM t JOIN (
                SELECT k, {'intercept': intercept, 'coefficients': map(names, values),
                           'terms': NULL::VARCHAR} AS model FROM m) USING (k)
            ORDER BY k, a, b, c""").fetchall()
    wanted = []
    order = frame.with_row_index("at").sort("k", "a", "b", "c", nulls_last=True)["at"]
    for row in order:
        own = kept[k[row]]
        wanted.append(B[k[row], 3] + X[row, own] @ B[k[row], own])
    np.testing.assert_allclose(numbers(found), wanted, rtol=1e-13, atol=1e-13)
