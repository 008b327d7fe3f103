"""The rows of a fold are those of `gram_by`, whichever engine reads them."""

import datetime

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.sources.open import open_table
from dbselect.sources.request import folding_of, request_of
from dbselect.sources.sampling.folded import FoldedTable, RowFolds

ROWS = 400
RNG = np.random.default_rng(0)
FRAME = pl.DataFrame(
    {
        "id": RNG.integers(0, 90, ROWS),
        "name": RNG.choice(["anna", "bob", "cléo", "a name of many letters"], ROWS),
        "day": [datetime.date(2020, 1, 1) + datetime.timedelta(int(d)) for d in range(ROWS)],
        "x": RNG.normal(size=ROWS),
        "part": [{"u": float(u), "v": float(u) ** 2} for u in RNG.integers(0, 50, ROWS)],
        "y": RNG.normal(size=ROWS),
    }
)


def folds_of_source(source, key: str | None, seed: int = 3, k: int = 4) -> RowFolds:
    table = open_table(source, None)
    folding = folding_of(k, key, seed)
    assert folding is not None
    return RowFolds(table, request_of(table.schema, folding=folding).folding)


@pytest.mark.sample(6)
@pytest.mark.parametrize("key", [None, "id", "name", "day"])
@pytest.mark.parametrize("engine", ["frame", "arrow", "parquet", "duckdb"])
def test_folds_are_those_of_gram_by(engine, key, connection, tmp_path):
    arrow = FRAME.to_arrow()
    FRAME.write_parquet(tmp_path / "rows.parquet", row_group_size=70)
    source = {
        "frame": FRAME,
        "arrow": arrow,
        "parquet": tmp_path / "rows.parquet",
        "duckdb": connection.from_arrow(arrow),
    }[engine]
    expected = ds.gram_by(FRAME, fold=4, key=key, seed=3)
    folds = folds_of_source(source, key)
    assert folds.present() == expected["fold"].to_list()
    whole = ds.gram_by(FRAME, fold=4, key=key, seed=3)["gram"].to_list()
    columns = [name for name in whole[0]["columns"] if not name.startswith("name.")]
    for fold, record in zip(expected["fold"], whole, strict=True):
        wanted = ds.Gram.from_struct(record).select(columns)
        held = ds.gram(FoldedTable(folds, fold, held_out=True), columns)
        assert held.rows == wanted.rows
        np.testing.assert_allclose(held.mean, wanted.mean, rtol=1e-12, atol=1e-14)
        rest = ds.gram(FoldedTable(folds, fold), columns)
        assert rest.rows == ROWS - wanted.rows


def test_batches_keep_the_order_of_the_table():
    folds = folds_of_source(FRAME.to_arrow(), "id")
    parts = [
        pl.concat(pl.DataFrame(b) for b in FoldedTable(folds, k, held_out=True).batches(["x"]))
        for k in range(4)
    ]
    fold = FRAME.select(pl.col("id").dbselect.fold(4, 3).alias("fold"))["fold"]
    for k, part in enumerate(parts):
        assert part["x"].to_list() == FRAME.filter(fold == k)["x"].to_list()


def test_a_fold_is_a_table_like_any_other():
    folds = folds_of_source(FRAME.lazy(), "name")
    fold = FRAME.select(pl.col("name").dbselect.fold(4, 3).alias("fold"))["fold"]
    for k in folds.present():
        here = FoldedTable(folds, k)
        rest = FRAME.filter(fold != k)
        target = rest.with_columns(name="name")
        found = ds.fit(here, "name", ["x", "part"], family="multinomial", ridge=0.1)
        expected = ds.fit(target, "name", ["x", "part"], family="multinomial", ridge=0.1)
        assert found.rows == expected.rows
        for name in expected.classes:
            assert found.coefficients[name] == pytest.approx(expected.coefficients[name])


def test_a_key_of_a_wrong_type_is_refused():
    frame = FRAME.with_columns(key=pl.concat_list("x"))
    with pytest.raises(ds.errors.ColumnError, match="key"):
        folds_of_source(frame, "key").present()
