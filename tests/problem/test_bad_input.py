"""A mistake is one clear sentence: the argument, its value and what is allowed."""

import re

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dbselect as ds
from dbselect.errors import (
    ArgumentError,
    ColumnError,
    DataError,
    GroupError,
    RecordError,
    SchemaWarning,
    SourceError,
)
from dbselect.options.option import REQUIRED
from dbselect.spec.methods import METHODS

TABLE = pl.DataFrame(
    {
        "y": [1.0, 3.0, 8.0, 2.0, 7.0],
        "a": [1, 2, 3, 4, 6],
        "b": [2.0, 1.0, 0.0, 5.0, 3.0],
        "c": [True, False, False, True, True],
        "name": ["u", "v", "w", "x", "z"],
        "zero": [0.0] * 5,
    }
)
GRAM = ds.gram(TABLE, columns=["y", "a", "b", "c"])
#: Methods that read the records of several folds.
OF_FOLDS = ("cross_validate", "stability", "stopped_sequence", "knockoffs")

#: One source of each engine, where what is checked is the same for all.
some_sources = pytest.mark.parametrize(
    "as_source", ["parquet path", "DataFrame", "relation, extension", "arrow Table"], indirect=True
)


def refused(kind, words, call, *args, **kwargs):
    """Check that a call fails with one short sentence that holds all the words."""
    with pytest.raises(ds.DbselectError) as refusal:
        call(*args, **kwargs)
    message = str(refusal.value)
    missing = [word for word in words if word not in message]
    assert not missing, f"{missing} not in: {message}"
    assert type(refusal.value) is kind, message
    assert "Traceback" not in message
    assert isinstance(refusal.value, ValueError)


@pytest.mark.sample(20)
@some_sources
@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"columns": ["y", "width"]}, ColumnError, ["columns", "'width'", "there is"]),
        ({"columns": ["y", "aa"]}, ColumnError, ["columns", "unknown column 'aa'", "'a'"]),
        ({"columns": ["q*"]}, ColumnError, ["columns", "'q*'"]),
        ({"columns": ["a", "y", "a"]}, ColumnError, ["columns", "'a' twice"]),
        ({"columns": []}, ColumnError, ["columns is empty", "at least one"]),
        ({"columns": "a"}, ArgumentError, ["columns is 'a'", "list"]),
        ({"columns": [3]}, ArgumentError, ["columns is [3]", "list of column names"]),
        ({"weight": "ww"}, ColumnError, ["weight", "unknown column 'ww'"]),
        ({"weight": "name"}, ColumnError, ["'name'", "string", "numeric"]),
        ({"weight": 3.0}, ArgumentError, ["weight is 3.0", "name of a column"]),
    ],
)
def test_columns_and_weight_are_checked(as_source, options, kind, words):
    refused(kind, words, ds.gram, as_source(TABLE), **options)


@some_sources
@pytest.mark.parametrize(
    ("by", "kind", "words"),
    [
        (["who"], ColumnError, ["by", "unknown column 'who'"]),
        ([], ArgumentError, ["by is empty", "gram"]),
        ([3], ArgumentError, ["by has 3", "columns of the table"]),
        (["c", "c"], ColumnError, ["by", "'c' twice"]),
    ],
)
def test_keys_are_checked(as_source, by, kind, words):
    refused(kind, words, ds.gram_by, as_source(TABLE), by, columns=["y", "a"])


def test_a_key_named_like_the_result_is_refused():
    table = TABLE.rename({"name": "gram"})
    refused(ArgumentError, ["by", "'gram'", "rename"], ds.gram_by, table, ["gram"])


def test_a_table_without_numbers_is_refused(as_source):
    words = ["no numeric column", "words"]
    table = TABLE.select(words=pl.concat_list("name"))
    refused(ColumnError, words, ds.gram, as_source(table))


def test_an_infinite_value_names_its_column(as_source):
    table = TABLE.with_columns(a=pl.when(pl.col("a") == 3).then(-np.inf).otherwise("a"))
    words = ["'a'", "infinite value (-inf)", "must be finite"]
    refused(DataError, words, ds.gram, as_source(table.drop("name")))


def test_a_negative_weight_names_its_column(as_source):
    table = TABLE.with_columns(share=pl.col("b") - 1)
    words = ["'share'", "-1", "weights must be >= 0"]
    refused(DataError, words, ds.gram, as_source(table), columns=["y"], weight="share")


@some_sources
def test_a_weight_of_a_nested_type_is_refused(as_source):
    table = TABLE.with_columns(w=pl.struct(v="a"))
    words = ["'w'", "struct", "numeric"]
    refused(ColumnError, words, ds.gram, as_source(table), columns=["y"], weight="w")


@some_sources
def test_two_columns_that_flatten_to_one_name_are_refused(as_source):
    table = TABLE.select("y", pl.struct(age="a").alias("demo"), pl.col("b").alias("demo.age"))
    refused(ColumnError, ["'demo.age'"], ds.gram, as_source(table))


def test_a_table_with_two_columns_of_one_name_is_refused():
    table = pa.table([pa.array([1.0]), pa.array([2.0])], names=["x", "x"])
    refused(ColumnError, ["two columns named 'x'"], ds.gram, table)


@pytest.mark.parametrize("groups", [None, {"g": ["a"]}], ids=str)
@pytest.mark.parametrize("gram", ["full", "lazy"])
def test_a_misspelt_target_is_called_the_target_whatever_else_is_read(groups, gram):
    words = ["target names unknown column 'yy'"]
    kind = ColumnError
    refused(kind, words, ds.anytime_sequence, TABLE, "yy", groups, gram=gram)
    refused(kind, words, ds.fit, TABLE, "yy", ["a"])
    refused(kind, words, ds.fit, TABLE, "yy", ["a"], family="poisson")
    refused(kind, words, ds.AnytimePredictor, TABLE, "yy", groups)


def test_a_text_file_with_two_columns_of_one_name_is_refused(tmp_path):
    # Polars calls the second x_duplicated_0.
    (tmp_path / "t.csv").write_text("x,x,y\n1,2,3\n2,3,5\n")
    refused(ColumnError, ["two columns named 'x'"], ds.gram, tmp_path / "t.csv")


@pytest.mark.parametrize("family", [None, "poisson"])
@pytest.mark.parametrize("call", [ds.fit, ds.anytime_sequence])
def test_a_column_that_is_called_as_the_intercept_is_refused(call, family):
    table = TABLE.rename({"a": "(intercept)"})
    given = {} if family is None else {"family": family}
    refused(ColumnError, ["'(intercept)'", "rename it"], call, table, "y", **given)
    with ds.connect() as con:
        con.register("t", table.to_arrow())
        ask = "fit(gram(t), 'y')" if family is None else "fit_glm(t, 'y', 'poisson')"
        with pytest.raises(duckdb.Error, match="has the name of the intercept; rename it"):
            con.execute(f"SELECT {ask} FROM t").fetchall()


@pytest.mark.parametrize(
    ("array", "columns", "kind", "words"),
    [
        (np.zeros((3, 2)), None, ArgumentError, ["columns is missing", "list"]),
        (np.zeros((3, 2)), "ab", ArgumentError, ["columns", "list of column names"]),
        (np.zeros((3, 2)), ["a"], ArgumentError, ["(3, 2)", "1 column names", "(n, 1)"]),
        (np.zeros(3), ["a"], ArgumentError, ["shape (3,)", "(n, 1)"]),
        (np.zeros((2, 2, 2)), ["a", "b"], ArgumentError, ["(2, 2, 2)"]),
        (np.zeros((3, 2)), ["a", "a"], ColumnError, ["'a'"]),
        (np.zeros((3, 1), dtype=complex), ["a"], ColumnError, ["complex128", "numeric"]),
        (np.array([["u"], ["v"]]), ["a"], ColumnError, ["<U1", "numeric"]),
        (np.array([[1], [None]]), ["a"], ColumnError, ["object", "numeric"]),
        (np.zeros((3, 1), dtype="M8[s]"), ["a"], ColumnError, ["datetime64", "numeric"]),
        (np.zeros((3, 1), dtype=np.longdouble), ["a"], ColumnError, ["float128"]),
    ],
)
def test_arrays_need_names_a_shape_and_numbers(array, columns, kind, words):
    refused(kind, words, ds.gram, array, columns=columns)


@pytest.mark.parametrize("source", [5, None, [[1.0, 2.0]], {"x": [1.0]}, object(), TABLE["a"].len])
def test_what_is_no_table_is_refused_by_its_type(source):
    words = [type(source).__name__, "a path", "__arrow_c_stream__"]
    refused(SourceError, words, ds.gram, source)


@pytest.mark.parametrize("name", ["missing.parquet", "missing/", "part-*.parquet", "no/**/x.pq"])
def test_a_path_without_a_file_is_named(tmp_path, name):
    refused(SourceError, [str(tmp_path / name)], ds.gram, str(tmp_path / name))


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"PAR1 and then nothing of use PAR1"])
def test_a_file_that_is_not_parquet_is_named(tmp_path, content):
    path = tmp_path / "table.parquet"
    path.write_bytes(content)
    refused(SourceError, [str(path), "Parquet"], ds.gram, path)


def test_a_column_that_a_file_lacks_is_missing_there(tmp_path):
    TABLE.write_parquet(tmp_path / "1.parquet")
    TABLE.drop("b").write_parquet(tmp_path / "2.parquet")
    words = ["columns", "unknown column 'b'"]
    refused(ColumnError, words, ds.gram, tmp_path / "2.parquet", columns=["y", "b"])
    with pytest.warns(SchemaWarning, match="'b' is NULL in 1, which lack it"):
        found = ds.gram(tmp_path, columns=["y", "b"])
    assert (found.rows, found.skipped) == (TABLE.height, TABLE.height)


def test_a_lazy_frame_that_fails_is_a_source_error():
    lf = TABLE.lazy().with_columns(n=pl.col("name").cast(pl.Int64))
    refused(SourceError, ["Polars", "name"], ds.gram, lf)


ARGUMENTS = [
    ({"target": "yy"}, ColumnError, ["target", "unknown column 'yy'", "'y'"]),
    ({"target": 3}, ColumnError, ["target", "3"]),
    ({"target": None}, ColumnError, ["target", "None"]),
    ({"groups": {"g": ["a", "w"]}}, ColumnError, ["'g'", "unknown column 'w'"]),
    ({"groups": {"g": ["a", "y"]}}, GroupError, ["'g'", "the target 'y'"]),
    ({"groups": {1: ["a"]}}, GroupError, ["group 1", "text"]),
    ({"groups": {"g": ["a", "a"]}}, ColumnError, ["'g'", "'a' twice"]),
    ({"groups": {"g": ["q*"]}}, ColumnError, ["'g'", "'q*'"]),
    ({"groups": {"g": ["a"], "h": []}}, GroupError, ["'h' is empty", "at least one column"]),
    ({"groups": {"g": None}}, GroupError, ["'g' is empty"]),
    ({"groups": {}}, GroupError, ["group"]),
    ({"groups": ["a"]}, GroupError, ["groups is ['a']", "map names"]),
    ({"groups": {"g": 5}}, ds.DbselectError, ["'g'", "5", "list"]),
    ({"groups": {"g": [5]}}, GroupError, ["'g'", "[5]", "list"]),
    ({"costs": {"a": 0, "b": 1, "c": 1}}, GroupError, ["'a' has cost 0", "> 0"]),
    ({"costs": {"a": -2.5, "b": 1, "c": 1}}, GroupError, ["'a' has cost -2.5", "> 0"]),
    ({"costs": {"a": np.nan, "b": 1, "c": 1}}, GroupError, ["'a' has cost nan", "> 0"]),
    ({"costs": {"a": np.inf, "b": 1, "c": 1}}, GroupError, ["'a' has cost inf", "finite"]),
    ({"costs": {"a": None, "b": 1, "c": 1}}, GroupError, ["'a' has cost None", "> 0"]),
    ({"costs": {"a": "x", "b": 1, "c": 1}}, GroupError, ["'a' has cost", "x", "> 0"]),
    ({"costs": {"a": 1, "b": 1}}, GroupError, ["'c' has no cost", "every group"]),
    ({"costs": {"a": 1, "b": 1, "c": 1, "d": 1}}, GroupError, ["costs", "unknown group 'd'"]),
    ({"costs": [1, 1, 1]}, GroupError, ["costs is [1, 1, 1]", "map group names"]),
    ({"costs": 1}, GroupError, ["costs is 1", "map group names"]),
    ({"always": ["d"]}, GroupError, ["always", "unknown group 'd'", "'a'"]),
    ({"always": ["b", "b"]}, GroupError, ["always", "'b'", "twice"]),
    ({"always": ["a", "b"], "budget": 1.5}, ArgumentError, ["always costs 2", "budget of 1.5"]),
    ({"always": ["a", "b"], "max_groups": 1}, ArgumentError, ["always", "2", "max_groups", "1"]),
]


@pytest.mark.parametrize(
    "call",
    [
        lambda array: ds.anytime_sequence(array, "y", {"a": ["a"]}),
        lambda array: ds.anytime_sequence(array, "y", {"a": ["a"]}, family="gaussian"),
        lambda array: ds.Problem(array, "y", {"a": ["a"]}, family="binomial").objective(),
    ],
)
def test_an_array_is_not_taken_for_columns_in_the_order_of_the_groups(call):
    refused(ArgumentError, ["array", "no names"], call, np.ones((3, 2)))


@pytest.mark.parametrize(("options", "kind", "words"), ARGUMENTS)
def test_arguments_of_a_sequence_are_checked(options, kind, words):
    if kind is ds.DbselectError:
        with pytest.raises(kind) as refusal:
            ds.anytime_sequence(GRAM, **{"target": "y", **options})
        assert all(word in str(refusal.value) for word in words), refusal.value
    else:
        refused(kind, words, ds.anytime_sequence, GRAM, **{"target": "y", **options})


@pytest.mark.filterwarnings("ignore::dbselect.errors.SkippedRowsWarning")
def test_rows_that_cannot_be_used_are_refused():
    none = ds.gram(TABLE.with_columns(b=None).cast({"b": pl.Float64}), columns=["y", "a", "b"])
    words = ["no usable rows", "5 rows were skipped"]
    refused(DataError, words, ds.anytime_sequence, none, "y")
    empty = TABLE.clear().select("y", "a")
    refused(DataError, ["no usable rows", "0 rows"], ds.anytime_sequence, empty, "y")


@pytest.mark.parametrize("value", [0.0, 0.1, -1e300, 1e-300])
@pytest.mark.parametrize("method", sorted({*METHODS} - {*OF_FOLDS}))
def test_a_constant_target_is_refused(method, value):
    problem = ds.Problem(ds.gram(TABLE.select("a", y=pl.lit(value))), "y")
    known = METHODS[method].known
    needed = {name: 1 for name, option in known.items() if option.default is REQUIRED}
    needed |= {"worth": 1} if method == "break_even" else {}
    words = ["target 'y' is constant"]
    refused(DataError, words, getattr(problem, method), **needed)


@pytest.mark.parametrize(
    "record",
    [{}, {"columns": ["x"]}, {**GRAM.to_struct(), "rows": None}, pa.scalar(5), pa.scalar({"x": 1})],
)
def test_what_is_no_record_is_refused(record):
    refused(RecordError, ["gram record"], ds.anytime_sequence, record, "y")


def test_a_file_that_holds_no_gram_is_named(tmp_path):
    TABLE.write_parquet(tmp_path / "table.parquet")
    GRAM.write_parquet(tmp_path / "gram.parquet")
    two = pl.read_parquet(tmp_path / "gram.parquet")
    pl.concat([two, two]).write_parquet(tmp_path / "two.parquet")
    for name in ("table.parquet", "two.parquet", "missing.parquet"):
        path = tmp_path / name
        refused(SourceError, [str(path)], ds.Gram.read_parquet, path)
    refused(SourceError, ["two.parquet", "2 rows"], ds.read, tmp_path / "two.parquet")
    refused(ArgumentError, ["path is None"], ds.read, None)


def test_every_message_starts_like_a_sentence_in_a_text():
    seen = []
    for options, _, _ in ARGUMENTS:
        try:
            ds.anytime_sequence(GRAM, **{"target": "y", **options})
        except ds.DbselectError as error:
            seen.append(str(error))
        except TypeError:
            continue
    assert len(seen) > 20
    assert [text for text in seen if re.match("[A-Z]", text) or text.endswith(".")] == []


@pytest.mark.parametrize(
    "name", ["groups", "costs", "null_policy", "folds", "time", "metric", "weight"]
)
@pytest.mark.parametrize("kind", ["to_pandas", "to_arrow", "to_numpy", "lazy", "clone"])
def test_an_error_never_prints_a_frame(name, kind):
    table = pl.DataFrame({"a": np.arange(500.0), "y": np.arange(500.0) % 7})
    with pytest.raises(ds.DbselectError, match=f"^{name} is an? [A-Za-z]+; ") as caught:
        ds.cross_validate(table, "y", **{"folds": 3, name: getattr(table, kind)()})
    assert len(str(caught.value)) < 250
