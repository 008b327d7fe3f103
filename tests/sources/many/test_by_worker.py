"""Many keys on Spark, Dask and Ray: each worker finishes the records of its keys."""

import os
import shutil
import sys

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.sources import bounded
from dbselect.sources.bounded import KeyCount, estimated_keys, rows_and_keys
from dbselect.sources.engines.polars import from_frame
from dbselect.sources.partial.partial_aggregates import merge_of, partial_of

ROWS = 3000
BY = ["k", "t"]
COLUMNS = ["a", "b", "gap"]
slow = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    # Dask and Ray use what pandas and Ray are about to drop.
    pytest.mark.filterwarnings("ignore:The inplace keyword"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(3)
    numbers = {name: rng.normal(size=ROWS) for name in COLUMNS}
    texts = rng.choice(["u", "v", None], ROWS).tolist()
    frame = pl.DataFrame({"k": rng.integers(0, 300, ROWS), "t": texts, **numbers})
    return frame.with_columns(pl.when(pl.col("k") % 7 > 0).then("gap"))


@pytest.fixture(scope="module", params=["spark", "dask", "ray"])
def table(request, frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows")
    for at in range(0, ROWS, 1000):
        frame[at : at + 1000].write_parquet(path / f"{at}.parquet")
    if request.param == "dask":
        dask = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
        yield dask.read_parquet(path)
    elif request.param == "ray":
        ray = pytest.importorskip("ray", reason="Ray is not installed")
        ray.init(num_cpus=2, log_to_driver=False)
        yield ray.data.read_parquet(str(path))
        ray.shutdown()
    else:
        sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed")
        if shutil.which("java") is None:
            pytest.skip("Java is not installed, which Spark needs")
        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        with builder.config("spark.sql.shuffle.partitions", "2").getOrCreate() as session:
            yield session.read.parquet(str(path))


@pytest.fixture
def small_tasks(monkeypatch):
    """Have a task hold few groups."""
    monkeypatch.setattr(bounded, "TASK", 100_000)


def assert_same(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    """Compare records, sorted by their keys, up to the rounding of merges."""
    assert found.drop("gram").rows() == expected.drop("gram").rows()
    for one, other in zip(found["gram"], expected["gram"], strict=True):
        exact = ("columns", "rows", "skipped", "missing")
        assert [one[name] for name in exact] == [other[name] for name in exact]
        for name in ("mean", "comoment"):
            np.testing.assert_allclose(one[name], other[name], rtol=1e-11, atol=1e-11)


@pytest.mark.usefixtures("small_tasks")
class TestManyKeys:
    """Groups that no task could hold all of."""

    pytestmark = slow

    @pytest.mark.filterwarnings("ignore:only 1 of 2 folds")
    def test_records_come_here_where_they_fit(self, table, frame):
        asked = {"null_policy": {"gap": "mean"}, "fold": 2}
        with pytest.warns(ds.errors.FoldsWarning, match=r"in \d+ of \d+ groups") as told:
            found = ds.gram_by(table, BY, COLUMNS, **asked)
        assert sum(each.category is ds.errors.FoldsWarning for each in told) == 1
        assert_same(found, ds.gram_by(frame, BY, COLUMNS, **asked))

    def test_workers_write_a_folder(self, table, frame, tmp_path):
        out = tmp_path / "grams.parquet"
        keys = ds.gram_by(table, BY, COLUMNS, out=out)
        expected = ds.gram_by(frame, BY, COLUMNS)
        assert_same(pl.read_parquet(out).sort(BY, nulls_last=True), expected)
        sizes = pl.col("gram").struct.field("rows", "skipped")
        assert keys.rows() == expected.select(*BY, sizes).rows()
        assert len(list(out.iterdir())) > 1
        with pytest.raises(ds.errors.ArgumentError, match=r"out is '.*', which exists"):
            ds.gram_by(table, BY, COLUMNS, out=out)

    def test_a_failure_leaves_no_folder(self, table, tmp_path):
        with pytest.raises(ds.errors.DbselectError, match="gap"):
            ds.gram_by(table, BY, COLUMNS, null_policy="error", out=tmp_path / "grams")
        assert not list(tmp_path.iterdir())

    def test_what_fits_nowhere_is_refused_with_its_size(self, table):
        with pytest.raises(ds.errors.ArgumentError, match=r"take \d.* MB, and memory_limit is 0.1"):
            ds.gram_by(table, BY, COLUMNS, memory_limit="100kB")
        with pytest.raises(ds.errors.ArgumentError, match=r"take \d.*'indicator'.* use 'mean'"):
            ds.gram_by(table, BY, COLUMNS, null_policy="indicator")


@pytest.mark.parametrize("keys", [1, 4000, 50_000])
def test_keys_are_counted(keys):
    rng = np.random.default_rng(1)
    table = pl.DataFrame({"k": rng.permutation(np.arange(100_000) % keys), "one": 1})
    rows, found = rows_and_keys(from_frame(table), ["k", "one"])
    assert rows == 100_000
    assert found == (keys if keys < 4096 else pytest.approx(keys, rel=0.08))
    work = KeyCount(("k",))
    parts = [partial_of(work, [table[at : at + 50_000].to_arrow()]) for at in (0, 50_000)]
    with work.begin() as counted:
        counted.load(merge_of(work, parts))
    rows_of_both, hashes = counted.sums
    assert (rows_of_both, estimated_keys(hashes)) == (rows, pytest.approx(keys, rel=0.08))
