"""The Gram record: definitions, round trips, and the name of each fault."""

from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dbselect as ds
from dbselect.record.gram import RECORD_TYPE

NAMES = ["a", "b.c", "e[1]", "e[2]"]


def rows_of(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4)) + rng.normal(size=4)


def gram_of(rng: np.random.Generator) -> ds.Gram:
    return ds.gram(rows_of(rng), columns=NAMES)


@pytest.mark.parametrize("weighted", [False, True])
def test_moments_are_numpys(weighted):
    rng = np.random.default_rng(1)
    X = rows_of(rng)
    row_weight = rng.uniform(0.1, 2, 50) if weighted else None
    frame = pl.DataFrame(X, schema=NAMES)
    if weighted:
        frame = frame.with_columns(w=pl.Series(row_weight))
    gram = ds.gram(frame, weight="w" if weighted else None)
    covariance = np.cov(X.T, bias=True, aweights=row_weight)
    deviation = np.sqrt(np.diagonal(covariance))
    assert (gram.columns, gram.rows, gram.skipped) == (NAMES, 50, 0)
    assert gram.weight == pytest.approx(row_weight.sum() if weighted else 50, rel=1e-14)
    np.testing.assert_allclose(gram.mean, np.average(X, axis=0, weights=row_weight), rtol=1e-12)
    np.testing.assert_allclose(gram.covariance(), covariance, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(gram.comoment, covariance * gram.weight, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        gram.correlation(), covariance / np.outer(deviation, deviation), rtol=1e-12, atol=1e-13
    )
    np.testing.assert_array_equal(gram.comoment, gram.comoment.T)
    np.testing.assert_array_equal(np.diagonal(gram.correlation()), 1)


def test_correlation_with_a_constant_is_nan_and_so_is_the_covariance_of_no_rows():
    rng = np.random.default_rng(2)
    gram = ds.gram(np.column_stack([rng.normal(size=9), np.full(9, 2.5)]), columns=["x", "k"])
    np.testing.assert_array_equal(gram.correlation(), [[1, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(gram.covariance()[1], [0, 0])
    nothing = ds.gram(np.empty((0, 2)), columns=["x", "k"])
    assert (nothing.rows, nothing.weight) == (0, 0)
    assert np.isnan(nothing.covariance()).all()


def test_comoment_is_packed_as_the_lower_triangle_row_by_row():
    rng = np.random.default_rng(3)
    gram = gram_of(rng)
    packed = gram.to_struct()["comoment"]
    assert len(packed) == 10
    for i in range(4):
        for j in range(i + 1):
            assert packed[i * (i + 1) // 2 + j] == gram.comoment[i, j]


def through_polars(gram: ds.Gram, path) -> ds.Gram:
    pl.DataFrame({"gram": [gram.to_struct()]}).write_parquet(path)
    return ds.Gram.read_parquet(path)


@pytest.mark.parametrize("source", [gram_of, lambda _: ds.gram(np.empty((0, 4)), columns=NAMES)])
def test_a_record_that_polars_writes_is_exact(source, tmp_path):
    rng = np.random.default_rng(4)
    gram = source(rng)
    back = through_polars(gram, tmp_path / "gram.parquet")
    assert back.to_struct() == gram.to_struct()
    np.testing.assert_array_equal(back.comoment, gram.comoment)


def test_record_has_the_frozen_fields():
    rng = np.random.default_rng(5)
    gram = gram_of(rng)
    frozen = [
        "columns", "rows", "skipped", "missing", "weight", "mean", "mean_low", "comoment", "terms"
    ]  # fmt: skip
    assert list(gram.to_struct()) == frozen
    assert [field.name for field in gram.to_arrow().type] == frozen
    assert gram.to_arrow().type == RECORD_TYPE


def test_select_takes_names_and_globs_in_their_order():
    rng = np.random.default_rng(6)
    gram = gram_of(rng)
    part = gram.select(["e[*]", "a"])
    assert part.columns == ["e[1]", "e[2]", "a"]
    at = [2, 3, 0]
    np.testing.assert_array_equal(part.mean, gram.mean[at])
    np.testing.assert_array_equal(part.comoment, gram.comoment[np.ix_(at, at)])
    assert (part.rows, part.skipped, part.weight) == (gram.rows, gram.skipped, gram.weight)
    with pytest.raises(ds.errors.ColumnError, match=r"unknown column 'b\.d'; there is 'b\.c'"):
        gram.select(["b.d"])


def test_gram_cannot_be_changed():
    rng = np.random.default_rng(7)
    gram = gram_of(rng)
    with pytest.raises(ValueError, match="read-only"):
        gram.comoment[0, 0] = 1.0
    with pytest.raises(AttributeError, match="cannot assign"):
        gram.rows = 3


RECORD = {
    "columns": ["x", "y"],
    "rows": 3,
    "skipped": 1,
    "weight": 3.0,
    "mean": [1.0, 2.0],
    "comoment": [2.0, 1.0, 5.0],
}


def test_the_record_that_the_faults_are_made_of_is_sound():
    # What a record of before has no field for is nothing.
    more = {"missing": [0, 0], "mean_low": [0.0, 0.0], "terms": None}
    assert ds.Gram.from_struct(RECORD).to_struct() == RECORD | more


@pytest.mark.parametrize("field", RECORD)
@pytest.mark.parametrize("gone", [True, False])
def test_record_without_a_field_names_it(field, gone):
    record = {name: value for name, value in RECORD.items() if name != field}
    if not gone:
        record[field] = None
    with pytest.raises(ds.errors.RecordError, match=rf"lacks \['{field}'\]"):
        ds.Gram.from_struct(record)


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("comoment", [2.0, 1.0], "2 values in 'comoment'; 2 columns need 3"),
        ("comoment", [[2.0, 1.0], [1.0, 5.0]], "'comoment'"),
        ("comoment", [2.0, np.inf, 5.0], "value in 'comoment' that is not finite"),
        ("comoment", [2.0, None, 5.0], "'comoment'"),
        ("comoment", [2.0, 1.0, -5.0], "negative diagonal in 'comoment' for column 'y'"),
        ("comoment", "text", "numbers"),
        ("mean", [1.0], "'mean' of shape"),
        ("mean", [1.0, np.nan], "value in 'mean' that is not finite"),
        ("mean", ["a", "b"], "numbers"),
        ("rows", -1, "-1 in 'rows'"),
        ("rows", "many", "whole number"),
        ("rows", np.nan, "whole number"),
        ("rows", np.inf, "whole number"),
        ("rows", 2.5, "rows"),
        ("rows", 0, "0 rows of total weight 3"),
        ("skipped", -2, "-2 in 'skipped'"),
        ("weight", -3.0, "-3.0 in 'weight'"),
        ("weight", np.nan, "nan in 'weight'"),
        ("weight", np.inf, "inf in 'weight'"),
        ("weight", 0.0, "3 rows of total weight 0"),
        ("columns", ["x", "x"], "column 'x' twice"),
        ("columns", ["x", "y", "z"], "3 columns need 6"),
        ("columns", "xy", "'columns'"),
        ("columns", [1, 2], "'columns'"),
        ("columns", 2, "'columns'"),
    ],
    ids=repr,
)
def test_malformed_record_is_refused_by_the_name_of_its_fault(field, value, match):
    with pytest.raises(ds.errors.RecordError, match=match):
        ds.Gram.from_struct(RECORD | {field: value})


@pytest.mark.parametrize(
    ("values", "match"),
    [([1.0, None], "not finite"), ([], "of shape"), (1.0, "of shape"), (["a", "b"], "numbers")],
    ids=repr,
)
def test_a_malformed_record_of_an_engine_is_refused_alike(values, match):
    with pytest.raises(ds.errors.RecordError, match=match):
        ds.Gram.from_struct(pa.array([RECORD | {"mean": values}])[0])


def test_a_record_of_decimals_is_read():
    # SQL writes 0.1 as a decimal.
    record = pa.array([RECORD | {"mean": [Decimal("0.1"), Decimal("2.5")]}])[0]
    assert ds.Gram.from_struct(record).mean.tolist() == [0.1, 2.5]


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_is_read_whatever_the_order_of_its_memory(order):
    lopsided = np.array([[1.0, 0.0], [5.0, 1.0]], order=order)
    with pytest.raises(ds.errors.RecordError, match="no rows can have: 5 of columns 'a' and 'b'"):
        ds.Gram(["a", "b"], 3, 0, 3.0, np.zeros(2), lopsided)


@pytest.mark.parametrize("record", [None, 3, "gram", [1, 2], pa.scalar(3.0), pa.scalar(None)])
def test_what_is_no_record_is_refused(record):
    with pytest.raises(ds.errors.RecordError, match="must be a mapping"):
        ds.Gram.from_struct(record)


@pytest.mark.parametrize("operator", ["__add__", "__sub__"])
def test_grams_of_unequal_columns_do_not_combine(operator):
    first = ds.Gram.from_struct(RECORD)
    second = ds.Gram.from_struct(RECORD | {"columns": ["x", "z"]})
    match = r"only in the first: \['y'\]; only in the second: \['z'\]"
    with pytest.raises(ds.errors.RecordError, match=match):
        getattr(first, operator)(second)


@pytest.mark.parametrize(
    "part", [{"rows": 4, "weight": 2.0}, {"skipped": 2}, {"rows": 2, "weight": 3.0}], ids=str
)
def test_more_than_there_is_cannot_be_removed(part):
    whole = ds.Gram.from_struct(RECORD)
    with pytest.raises(ds.errors.RecordError, match="must be a part of the first"):
        whole - ds.Gram.from_struct(RECORD | part)


@pytest.mark.parametrize(
    ("write", "match"),
    [
        (lambda path: None, "cannot read a gram"),
        (lambda path: path.write_text("gram"), "cannot read a gram"),
        (lambda path: pl.DataFrame({"other": [1]}).write_parquet(path), "gram"),
        (lambda path: pl.DataFrame({"gram": [RECORD, RECORD]}).write_parquet(path), "2 rows"),
    ],
    ids=["no file", "no Parquet", "no column", "two rows"],
)
def test_file_without_one_gram_is_refused(write, match, tmp_path):
    path = tmp_path / "gram.parquet"
    write(path)
    with pytest.raises(ds.errors.SourceError, match=match):
        ds.Gram.read_parquet(path)


def test_grams_add_up_with_sum_and_refuse_other_things():
    part = ds.gram(np.arange(6.0).reshape(3, 2), columns=["a", "b"])
    assert sum([part, part]).rows == 6
    with pytest.raises(TypeError):
        part + 1


def test_removing_what_is_no_part_is_refused():
    rng = np.random.default_rng(5)
    whole = ds.gram(rng.normal(size=(100, 2)), columns=["a", "b"])
    foreign = ds.gram(100 * rng.normal(size=(40, 2)), columns=["a", "b"])
    with pytest.raises(ds.errors.RecordError, match="must be a part of the first"):
        whole - foreign
