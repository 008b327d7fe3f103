"""Records that are merged: by every door, in any order, with the digits of one pass."""

import json
from fractions import Fraction
from functools import cache

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dbselect as ds

PARTS, ROWS = 1000, 8


def exact(columns: np.ndarray) -> tuple[list[Fraction], list[list[Fraction]]]:
    """Return mean and comoment of the rows of an array without rounding."""
    n = len(columns)
    values = [[Fraction(x) for x in column] for column in columns.T.tolist()]
    mean = [sum(column) / n for column in values]
    rest = [[x - m for x in column] for column, m in zip(values, mean, strict=True)]
    return mean, [
        [sum(a * b for a, b in zip(one, two, strict=True)) for two in rest] for one in rest
    ]


def error(gram: ds.Gram, expected: list[list[Fraction]]) -> float:
    """Return the largest error of a comoment, as a share of the two deviations."""
    found = gram.comoment.tolist()
    spread = [float(expected[j][j]) ** 0.5 for j in range(len(expected))]
    return max(
        abs(float(Fraction(found[i][j]) - expected[i][j])) / (spread[i] * spread[j])
        for i in range(len(found))
        for j in range(len(found))
    )


@cache
def exact_of(ratio: float, first: int = 0) -> tuple[list[Fraction], list[list[Fraction]]]:
    return exact(pl.concat(far_parts(ratio)[first:]).to_numpy())


def far_parts(ratio: float) -> list[pl.DataFrame]:
    rng = np.random.default_rng(0)
    spread = rng.standard_normal((PARTS * ROWS, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    frame = pl.DataFrame(spread + ratio, schema=["x", "y"])
    return [frame[k * ROWS : (k + 1) * ROWS] for k in range(PARTS)]


def through_python(parts, connection):
    return sum(ds.gram(part) for part in parts)


def pairwise(parts, connection):
    grams = [ds.gram(part) for part in reversed(parts)]
    while len(grams) > 1:
        grams = [sum(grams[k : k + 2]) for k in range(0, len(grams), 2)]
    return grams[0]


def through_sql(parts, connection):
    grams = pa.concat_arrays([ds.gram(part).to_arrow() for part in parts])
    records = pa.table({"gram": grams})  # noqa: F841
    connection.execute("CREATE TABLE stored AS SELECT * FROM records")
    ((record,),) = connection.execute("SELECT gram_merge(gram) FROM stored").fetchall()
    return ds.Gram.from_struct(record)


def through_polars(parts, connection):
    records = pa.concat_arrays([ds.gram(part).to_arrow() for part in parts])
    frame = pl.DataFrame(pa.table({"gram": records}))
    return ds.Gram.from_struct(frame.select(pl.col("gram").dbselect.merge())[0, 0])


def through_a_lazy_frame(parts, connection):
    lf = pl.concat([part.lazy() for part in parts])
    return ds.Gram.from_struct(lf.dbselect.gram().collect(engine="streaming")["gram"][0])


def through_all_doors(parts, connection):
    """Merge in SQL what was merged in Polars and in Python, each a third."""
    thirds = [parts[0::3], parts[1::3], parts[2::3]]
    grams = [
        through_python(thirds[0], connection),
        through_polars(thirds[1], connection),
        pairwise(thirds[2], connection),
    ]
    records = pl.DataFrame(pa.table({"gram": pa.concat_arrays([g.to_arrow() for g in grams])}))  # noqa: F841
    ((record,),) = connection.execute("SELECT gram_merge(gram) FROM records").fetchall()
    return ds.Gram.from_struct(record)


DOORS = [
    through_python, pairwise, through_sql, through_polars, through_a_lazy_frame, through_all_doors
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1e8, 1e10])
@pytest.mark.parametrize("door", DOORS)
def test_a_thousand_merges_keep_the_digits_of_one_pass(connection, door, ratio):
    parts = far_parts(ratio)
    mean, comoment = exact_of(ratio)
    found = door(parts, connection)
    assert found.rows == PARTS * ROWS
    # A mean of one double alone costs 6e-10 and 9e-8 here.
    assert error(found, comoment) < 1e-13
    for j in range(2):
        both = Fraction(float(found.mean[j])) + Fraction(float(found.mean_low[j]))
        assert abs(float(both - mean[j])) < 1e-14


@pytest.mark.slow
def test_removing_gives_back_the_digits(connection):
    parts = far_parts(1e8)
    rest = sum(ds.gram(part) for part in parts) - sum(ds.gram(part) for part in parts[:300])
    assert error(rest, exact_of(1e8, 300)[1]) < 1e-12


FRAME = pl.DataFrame(
    {
        "day": [1, 1, 2, 2, 3, 3],
        "k": ["a", "b", "a", "c", "b", "b"],
        "x": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
    }
)


@pytest.fixture
def stored(tmp_path):
    """Write a record for each day, and one table of all."""
    grams = [ds.gram(FRAME.filter(day=day), ["k", "x"]) for day in (1, 2, 3)]
    for day, gram in enumerate(grams):
        gram.write_parquet(tmp_path / f"{day}.parquet")
    records = pa.concat_arrays([gram.to_arrow() for gram in grams])
    pl.DataFrame(pa.table({"day": [1, 2, 3], "gram": records})).write_parquet(tmp_path / "all.pq")
    return tmp_path, grams


def test_stored_records_merge(stored, connection):
    folder, grams = stored
    whole = ds.gram(FRAME, ["k", "x"])
    table = pl.read_parquet(folder / "all.pq")
    relation = connection.read_parquet(str(folder / "all.pq"))
    sources = {
        "glob": str(folder / "*.parquet"),
        "paths": [folder / f"{day}.parquet" for day in range(3)],
        "Grams": grams,
        "records": [gram.to_struct() for gram in grams],
        "scalars": [gram.to_arrow()[0] for gram in grams],
        "file": folder / "all.pq",
        "frame": table,
        "lazy": table.lazy(),
        "arrow": table.to_arrow(),
        "relation": relation,
    }
    for name, source in sources.items():
        found = ds.gram(source)
        assert found.columns == ["k.a", "k.b", "k.c", "x"], name
        assert (found.rows, found.terms) == (6, whole.terms), name
        np.testing.assert_allclose(found.comoment, whole.comoment, atol=1e-12, err_msg=name)
        assert ds.anytime_sequence(source, "x").steps["group"].to_list() == [None, "k"], name


def test_records_are_never_read_as_numbers(stored):
    folder, _ = stored
    table = pl.read_parquet(folder / "all.pq").with_columns(x=pl.Series([1.0, 2.0, 3.0]))
    assert ds.gram(table, columns=["x"]).columns == ["x"]
    with pytest.raises(ds.errors.ColumnError, match=r"unknown column 'gram.rows'"):
        ds.gram(table, columns=["gram.rows"])
    with pytest.raises(ds.errors.RecordError, match=r"records in \['gram', 'more'\]"):
        ds.gram(table.with_columns(more="gram"))
    with pytest.raises(
        ds.errors.ArgumentError, match="weight is 'x'; a Gram was made with its weights"
    ):
        ds.gram(table, weight="x")
    with pytest.raises(
        ds.errors.ArgumentError,
        match=r"a list with a DataFrame; it must have Grams, records and files",
    ):
        ds.gram([ds.gram(FRAME), FRAME])
    with pytest.raises(ds.errors.SourceError, match="source is a list"):
        ds.gram([])


def test_what_does_not_merge_says_why(connection):
    one = ds.gram(FRAME, ["k", "x"])
    other = ds.gram(FRAME, ["k", "x"], categories=["k"], max_levels=1)
    for merge in (lambda a, b: a + b, lambda a, b: b + a):
        with pytest.raises(ds.errors.RecordError, match="one column stands for all other levels"):
            merge(one, other)
    numbers = ds.gram(FRAME.with_columns(k=pl.Series([1, 2, 3, 4, 5, 6])), ["k", "x"])
    with pytest.raises(ds.errors.RecordError, match="unequal categories"):
        one + numbers
    records = pl.DataFrame({"gram": [one.to_struct(), numbers.to_struct()]})
    with pytest.raises(pl.exceptions.ComputeError, match="unequal categories"):
        records.select(pl.col("gram").dbselect.merge())
    two_records = pa.table({"gram": pa.concat_arrays([one.to_arrow(), other.to_arrow()])})  # noqa: F841
    with pytest.raises(duckdb.Error, match="one column stands for all other levels"):
        connection.execute("SELECT gram_merge(gram) FROM two_records").fetchall()
    broken = {**one.to_struct(), "terms": "no json"}
    with pytest.raises(ds.errors.RecordError, match="terms that are no JSON"):
        ds.Gram.from_struct(broken)
    with pytest.raises(pl.exceptions.ComputeError, match="terms"):
        pl.DataFrame({"gram": [broken]}).select(pl.col("gram").dbselect.merge())


def test_records_of_before_are_read(connection):
    record = ds.gram(FRAME, ["x"]).to_struct()
    before = {
        name: record[name] for name in ("columns", "rows", "skipped", "weight", "mean", "comoment")
    }
    assert ds.Gram.from_struct(before).to_struct() == record
    frame = pl.DataFrame({"gram": [before, before]})
    merged = frame.select(pl.col("gram").dbselect.merge())[0, 0]
    assert merged["rows"] == 12
    assert merged["terms"] is None
    connection.execute("CREATE TABLE old AS SELECT gram FROM frame")
    ((merged,),) = connection.execute("SELECT gram_merge(gram) FROM old").fetchall()
    assert (merged["rows"], merged["missing"]) == (12, [0])


@pytest.mark.parametrize("policy", ["mean", "indicator"])
def test_folds_of_a_table_are_filled_alike(policy):
    """A held-out fold has no mean of its own: all folds have that of the table."""
    rng = np.random.default_rng(4)
    x = np.where(rng.random(400) < 0.3, np.nan, rng.standard_normal(400))
    k = np.where(rng.random(400) < 0.2, None, rng.choice(["a", "b"], 400))
    frame = pl.DataFrame({"x": x, "k": k, "y": rng.standard_normal(400)})
    options = {"null_policy": {"x": policy, "k": policy}}
    folds = ds.gram_by(frame, fold=4, **options)["gram"].to_list()
    whole = ds.gram(frame, **options)
    total = sum(ds.Gram.from_struct(record) for record in folds)
    assert total.columns == whole.columns
    np.testing.assert_allclose(total.comoment, whole.comoment, atol=1e-10)
    np.testing.assert_allclose(total.mean, whole.mean, atol=1e-12)
    if policy == "mean":
        means = [json.loads(record["terms"])["means"] for record in folds]
        assert all(mean == means[0] for mean in means)
        assert means[0]["x"] == pytest.approx(np.nanmean(x))
        assert means[0]["k.a"] == pytest.approx(np.mean(k[k != None] == "a"))  # noqa: E711
    # The terms of one read another as it was.
    again = ds.gram(frame, terms=whole.terms)
    np.testing.assert_allclose(again.comoment, whole.comoment, atol=1e-10)
    assert again.terms == whole.terms


def test_a_level_that_is_called_missing_is_not_what_is_missing(connection):
    one = pl.DataFrame({"k": ["a", "missing", None, "a"], "y": [1.0, 2, 3, 4]})
    two = pl.DataFrame({"k": ["a", None, "a", None], "y": [1.0, 2, 3, 5]})
    options = {"null_policy": {"k": "indicator"}}
    parts = [ds.gram(part, **options) for part in (one, two)]
    whole = ds.gram(pl.concat([one, two]), **options)
    assert dict(zip(whole.columns, whole.mean * 8, strict=True)) == {
        "k.a": 4.0, "k.missing": 1.0, "k.missing_": 3.0, "y": 21.0
    }  # fmt: skip
    records = pa.table({"gram": pa.concat_arrays([part.to_arrow() for part in parts])})
    ((merged,),) = connection.execute("SELECT gram_merge(gram) FROM records").fetchall()
    in_polars = pl.DataFrame(records).select(pl.col("gram").dbselect.merge())[0, 0]
    found = [parts[0] + parts[1], parts[1] + parts[0], whole - parts[0] + parts[0]]
    for gram in (*found, ds.Gram.from_struct(merged), ds.Gram.from_struct(in_polars)):
        assert gram.columns == whole.columns
        np.testing.assert_allclose(gram.mean, whole.mean, atol=1e-15)
        np.testing.assert_allclose(gram.comoment, whole.comoment, atol=1e-14)
