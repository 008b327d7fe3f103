"""Tables read again and again: weighted Grams by formula, the same from every engine."""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from conftest import OPENERS
from tables import assert_gram, typed

import dbselect as ds
from dbselect.record.formulas import choose, column, equals, exp, kept
from dbselect.sources.passes import Passes, Weighted

ONE_SHOT = ("arrow reader", "arrow stream")
every_source = pytest.mark.parametrize(
    "as_source", [kind for kind in OPENERS if kind not in ONE_SHOT], indirect=True
)


@every_source
def test_a_pass_is_the_gram_of_columns_and_formulas_with_weights_by_formula(as_source):
    t = typed(np.random.default_rng(1), rows=900)
    emb, ratio, flag = column(("emb", 2)), column(("ratio",)), column(("flag",))
    eta = kept(emb * 0.5 + ratio * column(("demo", "body", "height")))
    factor = kept(exp(eta))
    wanted = [
        Weighted({"south": equals(("region",), "south"), "rest": flag / factor}, factor),
        Weighted({"sign": choose(ratio, 1.0, -1.0)}),
    ]
    passes = Passes(
        as_source(t.frame), ["y", "count", "demo", "emb", "ratio", "flag"], "weight", ["y"]
    )
    first, second = passes.read(wanted)

    names = ["count", "demo.age", "demo.body.height", "emb[1]", "emb[2]", "emb[3]", "ratio", "flag"]
    X = t.take(names)
    south = (t.frame["region"] == "south").to_numpy().astype(float)
    power = np.exp(t.column("emb[2]") * 0.5 + t.column("ratio") * t.column("demo.body.height"))
    assert_gram(
        first,
        [*names, "south", "rest"],
        np.column_stack([X, south, t.column("flag") / power]),
        t.weight * power,
    )
    signs = np.where(t.column("ratio") > 0, 1.0, -1.0)
    assert_gram(second, [*names, "sign"], np.column_stack([X, signs]), t.weight)
    assert first.rows == second.rows
    assert passes.count == 1
    assert passes.rows_read == 900


@every_source
def test_a_pass_can_be_of_some_columns_only(as_source):
    t = typed(np.random.default_rng(2), rows=300)
    passes = Passes(as_source(t.frame), ["count", "emb", "flag"])
    first, second = passes.read([Weighted(columns=["emb[3]", "flag"]), Weighted()])
    assert_gram(first, ["emb[3]", "flag"], t.take(["emb[3]", "flag"]))
    every = ["count", "emb[1]", "emb[2]", "emb[3]", "flag"]
    assert_gram(second, every, t.take(every))


def test_a_numpy_array_and_an_arrow_dataset_are_read_again(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 3))
    frame = pl.DataFrame(X, schema=["a", "b", "c"])
    frame.write_parquet(tmp_path / "one.parquet")
    for source in (X, pa.dataset.dataset(tmp_path), frame.to_arrow().slice(0, 500)):
        passes = Passes(source, ["a", "b", "c"], None, ["c"])
        for _ in range(2):
            (gram,) = passes.read([Weighted({"p": exp(column(("c",)))}, exp(column(("a",))))])
            expected = np.column_stack([X[:, :2], np.exp(X[:, 2])])
            assert_gram(gram, ["a", "b", "p"], expected, np.exp(X[:, 0]))
        # Two passes over 500 rows of three doubles.
        assert (passes.count, passes.rows_read, passes.bytes_read) == (2, 1000, 1000 * 24)


@pytest.mark.parametrize("kind", ONE_SHOT)
def test_a_stream_that_can_be_read_once_is_refused_with_the_reason(kind, tmp_path):
    source = OPENERS[kind](pl.DataFrame({"x": [1.0]}), tmp_path, None)
    with pytest.raises(ds.errors.SourceError, match="only once, and every step of the fit reads"):
        Passes(source)


def test_the_values_of_a_column_are_found_in_order():
    frame = pl.DataFrame(
        {"x": [1.0] * 4, "k": ["b", None, "a", "b"], "f": [2.0, np.nan, 1.0, None]}
    )
    passes = Passes(frame)
    assert passes.values_of(passes.leaf("k", "k"), 5) == ["a", "b"]
    assert passes.values_of(passes.leaf("f", "f"), 5) == [1.0, 2.0]


def test_what_a_pass_cannot_use_is_an_error():
    frame = pl.DataFrame({"x": [1.0, np.inf], "w": [1.0, -1.0], "l": [[1], [2]]})
    with pytest.raises(ds.errors.DataError, match="column 'x' has an infinite value"):
        Passes(frame, ["x"]).read([Weighted()])
    with pytest.raises(ds.errors.DataError, match="weight 'w' is negative"):
        Passes(frame.head(2).with_columns(x=pl.lit(1.0)), ["x"], "w").read([Weighted()])
    with pytest.raises(ds.errors.ColumnError, match="column 'l' has type"):
        Passes(frame, ["l"])
    with pytest.raises(ds.errors.ColumnError, match="target names unknown column 'z'"):
        Passes(frame, ["x"]).leaf("z", "target")
