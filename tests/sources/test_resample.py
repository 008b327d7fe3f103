"""Records of rows drawn anew: what each counts is what its rows are, counted by themselves."""

from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

import dbselect as ds
from dbselect.sources.sampling.drawn import Draws, in_blocks

ROWS = 40


def table(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, 3)) + [1e6, 0.0, 5.0]
    return pl.DataFrame(
        {"a": x[:, 0], "b": x[:, 1], "y": x[:, 2], "w": rng.uniform(0.5, 2.0, rows)}
    )


def with_marks(frame):
    """Return the table with a column of 1 in each row alone: a record's counts can be read."""
    marks = np.eye(frame.height)
    return frame.with_columns(**{f"row{i}": marks[:, i] for i in range(frame.height)})


def counts_of(gram):
    at = [gram.columns.index(f"row{i}") for i in range(ROWS)]
    return gram.mean[at] * gram.weight


def grams_of(frame):
    return [ds.Gram.from_struct(record) for record in frame["gram"]]


def assert_same(one, other):
    assert one.columns == other.columns
    assert (one.rows, one.skipped) == (other.rows, other.skipped)
    np.testing.assert_allclose(one.weight, other.weight, rtol=1e-12)
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
    np.testing.assert_allclose(one.comoment, other.comoment, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["poisson", "halves"])
@pytest.mark.parametrize("weight", [None, "w"])
def test_a_record_is_the_gram_of_its_rows_repeated(kind, weight):
    frame = with_marks(table())
    drawn = ds.io.resample(frame, weight=weight, records=6, kind=kind, seed=3)
    assert drawn["record"].to_list() == list(range(6))
    for gram in grams_of(drawn):
        counts = counts_of(gram)
        if weight:
            counts = counts / frame["w"].to_numpy()
        times = np.rint(counts).astype(int)
        np.testing.assert_allclose(counts, times, atol=1e-9)
        repeated = frame[np.repeat(np.arange(ROWS), times).tolist()]
        expected = ds.gram(repeated, weight=weight)
        assert gram.rows == (times > 0).sum()
        np.testing.assert_allclose(gram.weight, expected.weight, rtol=1e-12)
        np.testing.assert_allclose(gram.mean, expected.mean, rtol=1e-12)
        np.testing.assert_allclose(gram.comoment, expected.comoment, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["poisson", "halves"])
def test_weights_do_not_change_which_rows_are_drawn(kind):
    frame = with_marks(table())
    own, plain = (
        grams_of(ds.io.resample(frame, weight=weight, records=4, kind=kind, seed=3))
        for weight in ("w", None)
    )
    for one, other in zip(own, plain, strict=True):
        times = counts_of(one) / frame["w"].to_numpy()
        np.testing.assert_allclose(times, counts_of(other), atol=1e-9)


def test_counts_have_the_distribution_of_poisson_and_do_not_depend_on_each_other():
    draws = Draws("poisson", 12, 5)
    begun = draws.begin(np.arange(50_000))
    counts = np.array([draws.times(begun, record) for record in range(12)])
    seen = np.bincount(counts.astype(int).ravel(), minlength=9)[:7]
    expected = stats.poisson.pmf(np.arange(7), 1.0) * counts.size
    assert stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > 0.001
    together = np.corrcoef(counts) - np.eye(12)
    assert np.abs(together).max() < 4.5 / np.sqrt(counts.shape[1])
    neighbours = np.corrcoef(counts[0, 1:], counts[0, :-1])[0, 1]
    assert abs(neighbours) < 4.0 / np.sqrt(counts.shape[1])


def test_the_two_halves_of_a_pair_have_all_rows_between_them():
    frame = table(1000)
    first, second, third, _ = grams_of(ds.io.resample(frame, records=4, kind="halves"))
    assert_same(first + second, ds.gram(frame))
    assert 400 < first.rows < 600
    assert first.rows != third.rows


def test_draws_depend_on_the_seed_and_not_on_how_the_rows_come(tmp_path):
    frame = table(3000)
    expected = grams_of(ds.io.resample(frame, records=3, seed=1))
    frame.write_parquet(tmp_path / "t.parquet", row_group_size=700)
    chunks = pa.Table.from_batches(frame.to_arrow().to_batches(max_chunksize=113))
    con = duckdb.connect()
    con.register("t", frame.to_arrow())
    for source in (
        tmp_path / "t.parquet",
        frame.lazy(),
        chunks,
        con.sql("FROM t"),
        frame.to_pandas(),
    ):
        for one, other in zip(
            grams_of(ds.io.resample(source, records=3, seed=1)), expected, strict=True
        ):
            assert_same(one, other)
    assert grams_of(ds.io.resample(frame, records=3, seed=2))[0].weight != expected[0].weight


def test_blocks_have_the_rows_in_order_however_they_come():
    whole = pa.table({"x": range(1000)})
    for size in (1, 7, 250, 1000, 4000):
        blocks = list(in_blocks(whole.to_batches(max_chunksize=33), size))
        assert pa.concat_tables(blocks)["x"].to_pylist() == list(range(1000))
        assert {len(block) for block in blocks[:-1]} <= {size}


def test_a_key_draws_rows_together_in_any_order():
    frame = table(600).with_columns(shop=pl.int_range(600) // 3)
    expected = grams_of(ds.io.resample(frame, records=3, key="shop", seed=9))
    assert "shop" not in expected[0].columns
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=4)
    for one, other in zip(
        grams_of(ds.io.resample(shuffled, records=3, key="shop", seed=9)), expected, strict=True
    ):
        assert_same(one, other)
        assert one.rows % 3 == 0


def test_parts_are_drawn_whole():
    frame = with_marks(table())
    parts = [ds.gram(frame[start : start + 4]) for start in range(0, ROWS, 4)]
    for kind in ("poisson", "halves"):
        for gram in grams_of(ds.io.resample(parts, records=4, kind=kind, seed=2)):
            times = np.rint(counts_of(gram)).astype(int).reshape(-1, 4)
            assert (times == times[:, :1]).all()
            repeated = [part for part, n in zip(parts, times[:, 0], strict=True) for _ in range(n)]
            assert gram.rows == 4 * (times[:, 0] > 0).sum()
            assert_same(gram, replace(sum(repeated), rows=gram.rows))
    by_fold = ds.io.resample(ds.gram_by(frame, fold=5), records=2)
    assert by_fold.columns == ["record", "gram"]


def test_each_record_has_the_means_of_its_own_draws():
    """Of halves, whose rows are known: the record is the Gram of its rows, filled alone."""
    frame = with_marks(table()).with_columns(
        a=pl.when(pl.int_range(ROWS) % 5 == 0).then(None).otherwise("a"),
        k=pl.Series(["x", "y", None, "z"] * (ROWS // 4)),
    )
    policy = {"a": "mean", "k": "mean"}
    drawn = ds.io.resample(frame, records=4, kind="halves", null_policy=policy)
    for gram in grams_of(drawn):
        rows = frame.filter(pl.Series(counts_of(gram)) > 0.5)
        wanted = ds.gram(rows, null_policy=policy)
        assert_same(gram.select(wanted.columns), wanted)
        assert gram.terms.means["a"] == pytest.approx(rows["a"].mean(), rel=1e-12)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"records": 0}, "records is 0"),
        ({"records": 2.5}, "records is 2.5"),
        ({"records": 3, "kind": "halves"}, "give an even one"),
        ({"kind": "half"}, "kind is 'half'"),
        ({"seed": -1}, "seed is -1"),
        ({"key": "z"}, "key names"),
        ({"weight": "z"}, "weight names"),
        ({"columns": ["z"]}, "'z'"),
    ],
)
def test_bad_arguments_are_refused(given, error):
    with pytest.raises(ds.DbselectError, match=error):
        ds.io.resample(table(), **{"records": 2, **given})


def test_weights_that_are_none_are_refused_by_their_name():
    for value, error in ((-1.0, "weight 'w' is negative"), (float("inf"), "weight 'w' has an inf")):
        with pytest.raises(ds.errors.DataError, match=error):
            ds.io.resample(table().with_columns(w=pl.lit(value)), weight="w", records=2)
    gaps = table().with_columns(w=pl.when(pl.int_range(ROWS) >= 5).then(pl.col("w")))
    for gram in grams_of(ds.io.resample(gaps, weight="w", records=2)):
        assert 0 < gram.skipped <= 5


def test_what_has_no_rows_to_draw_is_refused():
    frame = table()
    with pytest.raises(ds.errors.ArgumentError, match="one Gram"):
        ds.io.resample(ds.gram(frame))
    with pytest.raises(ds.errors.ArgumentError, match="key is 'a'"):
        ds.io.resample([ds.gram(frame), ds.gram(frame)], key="a")
    with pytest.raises(ds.errors.ArgumentError, match="at least 2"):
        ds.io.resample([ds.gram(frame)])
    with pytest.raises(ds.errors.ColumnError, match="rename it"):
        ds.io.resample(frame.rename({"a": "record"}))
