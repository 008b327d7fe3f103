"""Predictions as a Polars expression, as SQL text and on arrays: all are ``a + X w``."""

import sys
from collections.abc import Sequence

import duckdb
import numpy as np
import polars as pl
import pytest
import sqlglot
from problems import EPS, random_problem
from sqlglot import exp

import dbselect as ds
from dbselect.errors import ArgumentError, ColumnError

#: Names that need quotes, or more.
AWKWARD = [
    "a b",
    'the "q"',
    "o'clock",
    "größe ☃",
    "x;--y",
    "select",
    "UPPER",
    "upper_",
    "{brace}",
    "%s",
    "back`tick\\",
    "new\nline",
    " lead",
]


def model(coefficients: dict[str, float], intercept: float = 0.0) -> ds.results.Model:
    """Return a model as a search would, for coefficients that no search would find."""
    return ds.results.Model("y", intercept, coefficients, ["all"], 1.0, 0.5, 0.5, ())


def definition(found: ds.results.Model, names: Sequence[str], X: np.ndarray) -> np.ndarray:
    """Return ``intercept + X_S w``; NaN where a column of the model is."""
    at = [list(names).index(name) for name in found.columns]
    return found.intercept + X[:, at] @ np.array(
        [found.coefficients[name] for name in found.columns]
    )


def rounding_of(found: ds.results.Model, names: Sequence[str], X: np.ndarray) -> np.ndarray:
    """Bound on the error of a sum of d + 1 products; shape (n,)."""
    sizes = {name: abs(value) for name, value in found.coefficients.items()}
    whole = model(sizes, abs(found.intercept))
    return 2 * (len(sizes) + 2) * EPS * definition(whole, names, np.abs(X))


def in_polars(found: ds.results.Model, frame: pl.DataFrame, nested: bool = True) -> pl.Series:
    return frame.with_columns(prediction=found.expr(nested=nested))["prediction"]


def in_duckdb(text: str, frame: pl.DataFrame) -> pl.Series:
    """Evaluate an SQL expression on a database that knows nothing of dbselect."""
    with duckdb.connect() as con:
        con.register("rows", frame.to_arrow())
        rows = con.execute(f"SELECT {text} FROM rows").fetchall()
    return pl.Series([value for (value,) in rows], dtype=pl.Float64, strict=False)


def assert_predicts(
    found: pl.Series, truth: ds.results.Model, names: Sequence[str], X: np.ndarray
) -> None:
    expected = definition(truth, names, X)
    missing = np.isnan(expected)
    np.testing.assert_array_equal(found.is_null() | found.is_nan().fill_null(False), missing)
    error = np.abs(found.to_numpy()[~missing] - expected[~missing])
    assert (error <= rounding_of(truth, names, X)[~missing]).all()


# The same numbers everywhere


def test_null_gives_null_and_nan_gives_nan():
    frame = pl.DataFrame(
        {
            "a": [1.0, None, float("nan"), 1.0, float("nan")],
            "b": pl.Series([1, 2, 3, None, None], dtype=pl.Int32),
            "other": pl.Series([None] * 5, dtype=pl.Float64),
        }
    )
    truth = model({"a": 2.0, "b": 3.0}, 10.0)
    for found in (in_polars(truth, frame), in_duckdb(truth.sql(), frame)):
        assert found[0] == 15.0
        assert np.isnan(found[2])
        assert found.is_null().to_list() == [False, True, False, True, True]
    array = truth.predict(frame.select("a", "b").to_numpy())
    np.testing.assert_array_equal(array, [15.0, *[np.nan] * 4])


def holed(rng: np.random.Generator) -> pl.DataFrame:
    """Return a table of holes in plain and nested numbers, as NULL and as NaN."""
    n = 60
    X = rng.normal(size=(n, 4))
    y = X @ [1.0, 2.0, -1.0, 0.5] + rng.normal(size=n)
    a, b, c, d = (
        pl.Series(np.where(rng.random(n) < 0.2, np.nan, X[:, j])).fill_nan(None) for j in range(4)
    )
    # NaN is as good as NULL, and so is a child of a struct that is not there.
    demo = pl.select(pl.struct(b=b)).to_series().zip_with(b.is_not_null(), pl.Series([None] * n))
    emb = pl.select(pl.concat_list(c, d).cast(pl.Array(pl.Float64, 2))).to_series()
    return pl.DataFrame({"y": y, "a": a.fill_null(float("nan")), "demo": demo, "emb": emb})


def test_what_is_missing_is_marked_where_the_model_has_an_indicator():
    frame = holed(np.random.default_rng(21))
    gram = ds.gram(frame, null_policy={"*": "indicator", "emb[2]": "skip"})
    truth = ds.anytime_sequence(gram, "y").at()
    marked = ["a", "demo.b", "emb[1]"]
    assert [name for name in truth.columns if name.endswith(".missing")] == [
        f"{name}.missing" for name in truth.columns if name in marked
    ]
    flat = frame.select(
        "a",
        pl.col("demo").struct.field("b").alias("demo.b"),
        *(pl.col("emb").arr.get(j).alias(f"emb[{j + 1}]") for j in range(2)),
    ).fill_nan(None)
    # By hand: zeros and indicators, all columns plain.
    filled = flat.with_columns(
        *(pl.col(name).fill_null(0.0) for name in marked),
        *(flat[name].is_null().cast(float).alias(f"{name}.missing") for name in marked),
    )
    expected = truth.predict(filled)
    assert np.isnan(expected).tolist() == flat["emb[2]"].is_null().to_list()
    terms = [filled[name].to_numpy() * coef for name, coef in truth.coefficients.items()]
    by_hand = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(expected, truth.intercept + np.sum(terms, axis=0), **by_hand)
    found = {
        "Polars": in_polars(truth, frame).to_numpy(),
        "plain Polars": in_polars(truth, filled, nested=False).to_numpy(),
        "DuckDB": in_duckdb(truth.sql(), frame).to_numpy(),
        "plain DuckDB": in_duckdb(truth.sql(nested=False), filled).to_numpy(),
        "frame": truth.predict(flat),
        "array": truth.predict(flat.select(flat.columns[::-1]).to_numpy(), flat.columns[::-1]),
    }
    for predictions in found.values():
        np.testing.assert_allclose(predictions, expected, **by_hand)
    assert "isnan" not in truth.sql("postgres").lower()


def test_a_coefficient_of_zero_still_needs_its_column():
    frame = pl.DataFrame({"a": [1.0, None], "b": [None, 2.0]})
    truth = model({"a": 1.0, "b": 0.0})
    for found in (in_polars(truth, frame), in_duckdb(truth.sql(), frame)):
        assert found.to_list() == [None, None]


def test_types_become_doubles_before_they_are_multiplied():
    frame = pl.DataFrame(
        {
            "flag": [True, False],
            "tiny": pl.Series([127, -128], dtype=pl.Int8),
            "big": pl.Series([2**62, -(2**63)], dtype=pl.Int64),
            "unsigned": pl.Series([2**64 - 1, 0], dtype=pl.UInt64),
            "single": pl.Series([0.1, 3e38], dtype=pl.Float32),
            "price": pl.Series(["12345678901.25", "-0.01"]).cast(pl.Decimal(18, 2)),
        }
    )
    X = np.column_stack([frame[name].cast(pl.Float64).to_numpy() for name in frame.columns])
    truth = model(dict(zip(frame.columns, [-3.0, 1e10, 7.0, 0.5, 10.0, 1e290], strict=True)), 0.1)
    for found in (in_polars(truth, frame), in_duckdb(truth.sql(), frame)):
        assert_predicts(found, truth, frame.columns, X)


def test_numbers_keep_all_their_digits():
    rng = np.random.default_rng(2)
    values = [
        *(rng.normal(size=100) * 10.0 ** rng.integers(-300, 300, 100)),
        1 / 3,
        -5e-324,
        1e22,
        0.0,
    ]
    models = [model({"x": value}) for value in map(float, values)]
    constants = [model({}, value) for value in map(float, values)]
    texts = ", ".join(found.sql() for found in models + constants)
    (row,) = duckdb.execute(f"SELECT {texts} FROM (SELECT 1.0::DOUBLE AS x)").fetchall()
    assert list(row) == values + values
    frame = pl.DataFrame({"x": [1.0]}).select(
        found.expr().alias(str(number)) for number, found in enumerate(models + constants)
    )
    assert list(frame.row(0)) == values + values


def test_the_model_without_columns_is_a_constant_for_every_row():
    frame = pl.DataFrame({"x": [1.0, None, 3.0]})
    truth = model({}, -2.5)
    for found in (in_polars(truth, frame), in_duckdb(truth.sql(), frame)):
        assert found.to_list() == [-2.5] * 3
    assert truth.predict(np.empty((3, 0))).tolist() == [-2.5] * 3


# Names


def awkward(rng: np.random.Generator) -> tuple[pl.DataFrame, np.ndarray, ds.results.Model]:
    X = rng.normal(size=(20, len(AWKWARD)))
    return pl.DataFrame(X, schema=AWKWARD), X, model(dict(zip(AWKWARD, X[0], strict=True)), 0.25)


def test_awkward_names_survive_the_whole_way_from_the_table():
    frame, X, _ = awkward(np.random.default_rng(4))
    frame = frame.with_columns(y=X @ np.ones(len(AWKWARD)))
    truth = ds.anytime_sequence(frame, "y").at()
    assert truth.columns
    for found in (in_polars(truth, frame), in_duckdb(truth.sql(), frame)):
        assert_predicts(found, truth, AWKWARD, X)


def nested(rng: np.random.Generator, rows: int = 30) -> tuple[pl.DataFrame, list[str], np.ndarray]:
    """Structs and arrays within each other; every third row lacks one of them."""
    X = rng.normal(size=(rows, 9))
    absent = np.arange(rows) % 3 == 0
    one = [
        None if gone else {"x": a, "the y": b}
        for gone, a, b in zip(absent, *X[:, :2].T, strict=True)
    ]
    deep = [{"vec": row[:2].tolist(), 'q"': {"z": row[2]}} for row in X[:, 2:5]]
    grid = X[:, 5:9].reshape(rows, 2, 2).tolist()
    frame = pl.DataFrame(
        {
            "one": pl.Series(one),
            "deep": pl.Series(
                deep,
                dtype=pl.Struct(
                    {"vec": pl.Array(pl.Float64, 2), 'q"': pl.Struct({"z": pl.Float64})}
                ),
            ),
            "grid": pl.Series(grid, dtype=pl.Array(pl.Array(pl.Float64, 2), 2)),
        }
    )
    X[absent, :2] = np.nan
    names = ["one.x", "one.the y", "deep.vec[1]", "deep.vec[2]", 'deep.q".z']
    return frame, [*names, *(f"grid[{i}][{j}]" for i in (1, 2) for j in (1, 2))], X


def test_nested_columns_survive_the_whole_way_from_the_table():
    frame, names, X = nested(np.random.default_rng(6), rows=60)
    frame = frame.with_columns(y=pl.Series(np.nan_to_num(X) @ np.arange(9)))
    seq = ds.anytime_sequence(frame, "y")
    assert sorted(seq.columns) == sorted(names)
    for budget in seq.spent:
        truth = seq.at(budget)
        for found in (in_polars(truth, frame), in_duckdb(truth.sql(), frame)):
            assert_predicts(found, truth, names, X)


def test_names_that_look_nested_are_plain_columns_if_told():
    rng = np.random.default_rng(7)
    names = ["a.b", "e[1]", "a.b.c[2]", "x"]
    X = rng.normal(size=(10, 4))
    frame = pl.DataFrame(X, schema=names)
    truth = model(dict(zip(names, [1.0, 2.0, 3.0, 4.0], strict=True)))
    for found in (in_polars(truth, frame, nested=False), in_duckdb(truth.sql(nested=False), frame)):
        assert_predicts(found, truth, names, X)
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        in_polars(truth, frame)


def test_a_name_that_no_field_is_flattened_to_is_a_plain_column():
    rng = np.random.default_rng(8)
    names = [".a", "a.", "a[b]", "[1]", "a[1]x", "a]", "3.5%"]
    X = rng.normal(size=(10, len(names)))
    truth = model(dict(zip(names[:-1], X[1], strict=False)))
    frame = pl.DataFrame(X, schema=names)
    for found in (in_polars(truth, frame), in_duckdb(truth.sql(), frame)):
        assert_predicts(found, truth, names, X)


# Width


@pytest.mark.slow
def test_three_thousand_columns_are_no_deeper_than_an_engine_allows():
    rng = np.random.default_rng(9)
    names = [f"c{j}" for j in range(3000)]
    X = rng.normal(size=(3, 3000))
    truth = model(dict(zip(names, rng.normal(size=3000), strict=True)), 5.0)
    frame = pl.DataFrame(X, schema=names)
    assert_predicts(in_polars(truth, frame), truth, names, X)
    assert_predicts(in_duckdb(truth.sql(), frame), truth, names, X)
    assert_predicts(pl.Series(truth.predict(X)), truth, names, X)


# Other dialects


@pytest.mark.slow
def test_a_thousand_columns_are_no_deeper_than_sqlglot_allows():
    truth = model({f"c{j}": j + 0.5 for j in range(1000)})
    assert truth.sql("postgres").count(" AS DOUBLE PRECISION)") == 1000


@pytest.mark.parametrize("dialect", ["postgres", "snowflake", "bigquery", "spark", "mysql"])
def test_text_in_another_dialect_keeps_names_and_numbers(dialect):
    rng = np.random.default_rng(10)
    frame, X, _ = awkward(rng)
    values = rng.normal(size=len(AWKWARD)) * 10.0 ** rng.integers(-20, 20, len(AWKWARD))
    truth = model(dict(zip(AWKWARD, values.tolist(), strict=True)), 1 / 3)
    text = truth.sql(dialect)
    tree = sqlglot.parse_one(text, read=dialect)
    assert {column.name for column in tree.find_all(exp.Column)} == set(AWKWARD)
    numbers = sorted(float(number.this) for number in tree.find_all(exp.Literal))
    assert numbers == sorted(map(abs, [truth.intercept, *truth.coefficients.values()]))
    back = sqlglot.transpile(f"SELECT {text}", read=dialect, write="duckdb")[0]
    assert_predicts(in_duckdb(back.removeprefix("SELECT "), frame), truth, AWKWARD, X)


@pytest.mark.parametrize("dialect", ["postgres", "snowflake", "bigquery", "spark"])
def test_elements_of_arrays_are_counted_as_the_dialect_counts(dialect):
    frame, names, X = nested(np.random.default_rng(11))
    truth = model(dict(zip(names, range(1, 10), strict=True)), 1.0)
    text = truth.sql(dialect)
    first = {"postgres": 1}.get(dialect, 0)
    assert f"[{first}][{first}]" in text
    assert f"[{first + 2}]" not in text
    back = sqlglot.transpile(f"SELECT {text}", read=dialect, write="duckdb")[0]
    assert_predicts(in_duckdb(back.removeprefix("SELECT "), frame), truth, names, X)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "bigquery"])
def test_a_boolean_is_not_cast_to_a_double_where_it_is_named(dialect):
    truth = model({"flag": 2.0, "s.on": 3.0, "x": 5.0}, 1.0)
    text = truth.sql(dialect, nested=True, booleans=["flag", "s.on"])
    casts = [one.this for one in sqlglot.parse_one(text, read=dialect).find_all(exp.Cast)]
    assert [one.name for one in casts if not isinstance(one, exp.Case)] == ["x"]
    flags = [True, False, None]
    frame = pl.DataFrame({"flag": flags, "s": [{"on": one} for one in (True, True, False)], "x": 1})
    back = sqlglot.transpile(f"SELECT {text}", read=dialect, write="duckdb")[0]
    assert in_duckdb(back.removeprefix("SELECT "), frame).to_list() == [11.0, 9.0, None]


def test_a_boolean_that_is_no_number_of_the_model_is_refused():
    with pytest.raises(ColumnError, match="booleans names unknown column 'flags'"):
        model({"flag": 2.0}).sql("postgres", booleans=["flags"])
    with pytest.raises(ArgumentError, match="booleans is 'flag'"):
        model({"flag": 2.0}).sql("postgres", booleans="flag")


@pytest.mark.parametrize("dialect", ["nosuch", "DuckDB!", 3])
def test_unknown_dialect_is_refused(dialect):
    with pytest.raises(ArgumentError, match=f"dialect is {dialect!r}: "):
        model({"a": 1.0}).sql(dialect)


def test_only_other_dialects_need_sqlglot(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    assert in_duckdb(model({"a": 2.0}).sql(), pl.DataFrame({"a": [3.0]}))[0] == 6.0
    with pytest.raises(ArgumentError, match=r"need sqlglot: pip install 'dbselect\[sql\]'"):
        model({"a": 2.0}).sql("postgres")


# Arrays


@pytest.mark.parametrize(
    ("X", "columns", "kind", "message"),
    [
        (np.zeros((3, 3)), None, ArgumentError, r"X has shape \(3, 3\); it must be \(n, 2\)"),
        (np.zeros((3, 2)), ["a", "b", "c"], ArgumentError, r"it must be \(n, 3\)"),
        (np.zeros(2), None, ArgumentError, r"X has shape \(2,\)"),
        (np.zeros((1, 2, 1)), None, ArgumentError, r"X has shape \(1, 2, 1\)"),
        ([["1", "x"]], None, ArgumentError, r"X holds something else than numbers"),
        ([[1.0, 2.0], [3.0]], None, ArgumentError, r"X holds something else than numbers"),
        (np.zeros((3, 2)), ["a", "c"], ColumnError, "the rows lack column 'b', which"),
    ],
)
def test_array_of_another_shape_is_refused(X, columns, kind, message):
    with pytest.raises(kind, match=message):
        model({"a": 1.0, "b": 2.0}).predict(X, columns)


def test_forms_refuse_what_is_no_budget():
    seq = random_problem(np.random.default_rng(14)).sequence()
    for call in (
        seq.at,
        seq.expr,
        seq.sql,
        lambda budget: seq.predict(np.zeros((1, 13)), budget=budget),
    ):
        for value in (-1, np.nan, "3"):
            words = f"budget is {value!r}; it must be a number >= 0"
            with pytest.raises(ArgumentError, match=words):
                call(value)
