"""Names of columns: flattening, patterns and what is said of an unknown one."""

import pyarrow as pa
import pytest

import dbselect as ds
from dbselect.record.columns import field_of, leaves, match

NAMES = ["age", "agent", "demo.age", "demo.sex", "emb[1]", "emb[2]", "emb[10]"]


def test_leaves_are_named_by_their_path_and_keep_their_order():
    home = pa.struct([("lat", pa.bool_())])
    schema = pa.schema(
        [
            ("x", pa.int32()),
            ("demo", pa.struct([("age", pa.float64()), ("home", home)])),
            ("emb", pa.list_(pa.float32(), 3)),
            ("pairs", pa.list_(pa.struct([("a", pa.int8())]), 2)),
        ]
    )
    found = {leaf.name: leaf.path for leaf in leaves(schema)}
    assert list(found.items()) == [
        ("x", ("x",)),
        ("demo.age", ("demo", "age")),
        ("demo.home.lat", ("demo", "home", "lat")),
        ("emb[1]", ("emb", 1)),
        ("emb[2]", ("emb", 2)),
        ("emb[3]", ("emb", 3)),
        ("pairs[1].a", ("pairs", 1, "a")),
        ("pairs[2].a", ("pairs", 2, "a")),
    ]
    assert all(leaf.field == field_of(leaf.name) for leaf in leaves(schema))


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (["emb[2]", "age"], ["emb[2]", "age"]),
        (["demo"], ["demo.age", "demo.sex"]),
        (["emb"], ["emb[1]", "emb[2]", "emb[10]"]),
        (["age*"], ["age", "agent"]),
        (["*age"], ["age", "demo.age"]),
        (["emb[?]"], ["emb[1]", "emb[2]"]),
        (["emb[*]"], ["emb[1]", "emb[2]", "emb[10]"]),
        (["demo.*", "age"], ["demo.age", "demo.sex", "age"]),
        (["agent", "age*"], ["agent", "age"]),
        (["age*", "agent"], ["age", "agent"]),
        (["*", "demo"], NAMES),
        ([], []),
    ],
    ids=str,
)
def test_patterns_mean_columns_in_the_order_of_the_patterns(patterns, found):
    assert match(patterns, NAMES, "columns") == found


@pytest.mark.parametrize("pattern", ["emb[12]", "emb[12]*", "[a]ge*", "demo_*", "AGE", "ag.*", ""])
def test_brackets_dots_and_case_are_taken_literally(pattern):
    with pytest.raises(ds.errors.ColumnError, match="columns names unknown column"):
        match([pattern], NAMES, "columns")


def test_a_column_whose_name_looks_like_a_glob_is_found_by_its_name():
    assert match(["a*"], ["a*", "ab"], "columns") == ["a*"]


@pytest.mark.parametrize(
    ("wrong", "near"), [("demo.agee", "'demo.age'"), ("emb[3]", "'emb[2]'"), ("agnet", "'agent'")]
)
def test_unknown_column_comes_with_the_nearest_ones(wrong, near):
    with pytest.raises(ds.errors.ColumnError, match="unknown column") as caught:
        match([wrong], NAMES, "columns")
    assert f"'{wrong}'" in str(caught.value)
    assert near in str(caught.value)


def test_unknown_column_of_a_wide_table_does_not_list_them_all():
    with pytest.raises(ds.errors.ColumnError, match=r"'x9', \.\.\.$"):
        match(["nothing"], [f"x{j}" for j in range(1000)], "columns")
