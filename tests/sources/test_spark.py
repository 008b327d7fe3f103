"""Spark by its own engine: tasks sum over their rows, and faults leave the sums exact."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.errors import ArgumentError, ColumnError, DataError, SourceError

pytest.importorskip("pyspark", reason="PySpark is not installed")
if shutil.which("java") is None:
    pytest.skip("Java is not installed, which Spark needs", allow_module_level=True)

from pyspark import TaskContext
from pyspark.sql import functions
from sessions import session_of

pytestmark = [
    pytest.mark.slow,
    # PySpark 4 asks for pandas 2, and needs nothing of it here.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

ROWS = 2000
#: Sums in another order differ by the rounding of some dozen merges.
SAME = 1e-12


@pytest.fixture(scope="module")
def spark():
    # Tasks may fail up to three times, so that a fault can be mended by trying again.
    with session_of("local[2,3]") as session:
        yield session


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(3)
    a, b, noise = rng.normal(size=(3, ROWS))
    frame = pl.DataFrame(
        {
            "a": a,
            "far": b + 1e8,
            "gap": np.where(rng.random(ROWS) < 0.1, np.nan, b + noise),
            "flag": rng.random(ROWS) < 0.4,
            "kind.of": rng.choice(["u", "v", "w"], ROWS),
            "site": rng.integers(0, 3, ROWS),
            "y": 2 * a - b + noise,
            "bought": a + noise > 0,
            "n": rng.poisson(np.exp(0.3 * a)),
        }
    )
    return frame.with_columns(gap=pl.col("gap").fill_nan(None))


@pytest.fixture(scope="module")
def path(frame, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    for at in range(0, ROWS, 500):
        frame[at : at + 500].write_parquet(folder / f"part-{at}.parquet")
    return folder


@pytest.fixture(scope="module")
def table(spark, path):
    return spark.read.parquet(str(path))


def assert_same(found: ds.Gram, expected: ds.Gram) -> None:
    assert found.columns == expected.columns
    assert (found.rows, found.skipped) == (expected.rows, expected.skipped)
    assert found.missing == expected.missing
    spread = np.sqrt(np.diagonal(expected.comoment))
    assert (np.abs(found.comoment - expected.comoment) <= SAME * np.outer(spread, spread)).all()
    np.testing.assert_allclose(found.mean, expected.mean, rtol=SAME, atol=SAME)


def test_a_gram_is_that_of_the_rows_here(table, frame):
    for asked in [{"null_policy": "indicator"}, {"columns": ["a", "gap"], "weight": "n"}]:
        assert_same(ds.gram(table, **asked), ds.gram(frame, **asked))


def test_groups_and_folds_are_those_of_the_rows_here(table, frame):
    asked = {"by": ["site"], "fold": 2, "columns": ["a", "far"], "key": "n"}
    found, expected = ds.gram_by(table, **asked), ds.gram_by(frame, **asked)
    assert found.drop("gram").equals(expected.drop("gram").cast(found.drop("gram").schema))
    for one, other in zip(found["gram"], expected["gram"], strict=True):
        assert_same(ds.Gram.from_struct(one), ds.Gram.from_struct(other))


def test_a_store_is_refreshed_by_the_workers(table, frame, tmp_path):
    """Rows that reached the driver would raise a DriverWarning."""
    asked = {"by": ["site"], "columns": ["a", "far", "kind.of"]}
    store = ds.GramStore(tmp_path / "stats")
    assert len(store.refresh(table, **asked).added) == 3
    expected = ds.gram(frame, asked["columns"])
    assert_same(store.total(), expected)
    # The hash of a row is the same here and there.
    assert store.refresh(frame).unchanged == 3
    assert store.refresh(table).unchanged == 3
    more = table.withColumn("far", functions.expr("IF(site = 1 AND n = 0, far + 1, far)"))
    assert len(store.refresh(more).changed) == 1
    here = frame.with_columns(pl.col("far") + ((pl.col("site") == 1) & (pl.col("n") == 0)))
    assert_same(store.total(), ds.gram(here, asked["columns"]))


def test_a_search_and_its_model_score_in_spark(table, frame):
    found = ds.anytime_sequence(table, "y")
    assert (
        found.steps["group"].to_list() == ds.anytime_sequence(frame, "y").steps["group"].to_list()
    )
    model = found.at(size=3)
    text = model.sql(dialect="spark", nested=False)
    scored = table.select(functions.expr(text).alias("p"), "*").toArrow()
    table.createOrReplaceTempView("scored_rows")
    queried = table.sparkSession.sql(f"SELECT {text} AS p FROM scored_rows").toArrow()
    expected = model.predict(pl.DataFrame(scored.drop("p")))
    assert np.isfinite(expected).sum() > ROWS // 2
    np.testing.assert_allclose(scored["p"].to_numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(queried["p"].to_numpy(), expected, rtol=1e-12)


@pytest.mark.far
def test_passes_of_a_family_run_on_the_workers(table, frame):
    asked = {"columns": ["a", "flag", "kind.of"], "family": "binomial", "ridge": 0.1}
    found, expected = (
        ds.fit(rows, "bought", **asked, family="binomial") for rows in (table, frame)
    )
    assert found.coefficients == pytest.approx(expected.coefficients, rel=1e-9)
    asked = {"columns": ["a"], "family": "multinomial"}
    found, expected = (
        ds.fit(rows, "kind.of", **asked, family="binomial") for rows in (table, frame)
    )
    assert found.classes == expected.classes


@pytest.mark.far
def test_large_states_are_merged_by_tasks_of_their_own(table, frame, monkeypatch):
    from dbselect.sources.engines import spark as engine

    monkeypatch.setattr(engine, "merging", lambda size: [3, 2])
    assert_same(ds.gram(table, ["a", "far"]), ds.gram(frame, ["a", "far"]))
    with pytest.raises(DataError, match=r"^column 'a' has an infinite value"):
        ds.gram(table.withColumn("a", functions.expr("if(a > 2, double('inf'), a)")), ["a", "far"])


def test_how_many_tasks_merge_follows_the_bytes():
    from dbselect.sources.partial.partial_aggregates import ARRIVING, merging

    assert merging(11_000) == []  # 50 columns
    assert merging(4_000_000) == [16]  # 1,000 columns
    for size in (4_000_000, 50_000_000, 200_000_000):
        assert merging(size)[-1] * size <= ARRIVING


# Faults


def test_a_task_that_raises_is_told_in_its_own_words(table):
    def fails(batches):
        for batch in batches:
            raise OSError("the disk is gone")
            yield batch

    broken = table.select("a").mapInArrow(fails, "a double")
    with pytest.raises(SourceError, match=r"^Spark cannot read the table: .*the disk is gone$"):
        ds.gram(broken)


@pytest.mark.far
@pytest.mark.parametrize("kills", [False, True], ids=["raises", "is killed"])
def test_a_task_that_is_tried_again_counts_once(spark, table, frame, kills):
    def stumbles(batches):
        context = TaskContext.get()
        batches = list(batches)
        yield batches[0]
        if context.attemptNumber() == 0 and context.partitionId() == 0:
            if kills:
                os._exit(1)
            raise OSError("once")
        yield from batches[1:]

    rows = table.select("a", "far").mapInArrow(stumbles, "a double, far double")
    assert_same(ds.gram(rows), ds.gram(frame, ["a", "far"]))


@pytest.mark.far
def test_empty_partitions_and_skewed_keys_change_nothing(spark, table, frame):
    skewed = table.select("a", "far", "site").repartition(40, "site")
    assert_same(ds.gram(skewed, ["a", "far"]), ds.gram(frame, ["a", "far"]))
    found = ds.gram_by(skewed, by=["site"], columns=["a"])
    expected = ds.gram_by(frame, by=["site"], columns=["a"])
    for one, other in zip(found["gram"], expected["gram"], strict=True):
        assert_same(ds.Gram.from_struct(one), ds.Gram.from_struct(other))
    none = table.where("a > 1000")
    assert ds.gram(none, ["a", "far"]).rows == 0
    assert ds.gram_by(none, by=["site"], columns=["a"]).is_empty()


def test_an_infinite_value_in_one_partition_names_its_column(table):
    bad = table.withColumn("far", functions.expr("if(a > 2.5, double('inf'), far)"))
    with pytest.raises(DataError, match=r"^column 'far' has an infinite value"):
        ds.gram(bad, ["a", "far"])


def test_what_a_caller_asks_wrongly_is_refused_before_any_task(table, path):
    with pytest.raises(ColumnError, match="'aa'"):
        ds.gram(table, ["aa"])
    with pytest.raises(ArgumentError, match="on is a str; it must be a SparkSession"):
        ds.gram(str(path), on="spark")
    with pytest.raises(ArgumentError, match="on is a SparkContext; it must be a SparkSession"):
        ds.gram(str(path), on=table.sparkSession.sparkContext)
    with pytest.raises(ColumnError, match="columns 'a' and 'A' are one to Spark"):
        ds.gram(table.sparkSession.sql("SELECT 1.0 AS a, 2.0 AS A"))
    with pytest.raises(ArgumentError, match="source is a DataFrame, and on= is for Parquet"):
        ds.gram(table, on=table.sparkSession)


@pytest.mark.far
def test_tasks_read_their_own_files(spark, path, frame):
    for source in (path, str(path / "*.parquet"), [str(one) for one in path.iterdir()]):
        assert_same(ds.gram(source, ["a", "far"], on=spark), ds.gram(frame, ["a", "far"]))
    asked = {"by": ["site"], "columns": ["a", "kind.of"]}
    found, expected = ds.gram_by(path, **asked, on=spark), ds.gram_by(frame, **asked)
    for one, other in zip(found["gram"], expected["gram"], strict=True):
        assert_same(ds.Gram.from_struct(one), ds.Gram.from_struct(other))


@pytest.mark.far
def test_a_file_of_another_schema_is_named(spark, path, frame, tmp_path):
    folder = Path(shutil.copytree(path, tmp_path / "rows"))
    # Another number is the same number.
    frame[:500].cast({"n": pl.Float64}).write_parquet(folder / "part-0.parquet")
    assert_same(ds.gram(folder, ["a", "n"], on=spark), ds.gram(frame, ["a", "n"]))
    last = folder / "part-500.parquet"
    frame[500:1000].cast({"n": pl.String}).write_parquet(last)
    with pytest.raises(
        SourceError, match=rf"^field 'n' has type .* in file '{last}' and double in"
    ):
        ds.gram(folder, ["a", "n"], on=spark)
    frame[500:1000].drop("n").write_parquet(last)
    with pytest.raises(SourceError, match=rf"^file '{last}' has no field 'n', which is read"):
        ds.gram(folder, ["a", "n"], on=spark)


def run(code: str, folder: Path, *arguments: str) -> str:
    """Run a script in a process of its own, whose workers find nothing in their folder."""
    folder.mkdir()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


WITHOUT = """
    import os, sys
    import dbselect as ds
    from pyspark.sql import SparkSession

    os.environ["PYTHONPATH"] = sys.argv[1]  # of the workers, which start later
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.log.level", "OFF")
    with builder.getOrCreate() as spark:
        try:
            ds.gram(spark.range(10))
        except ds.errors.SourceError as error:
            print(error)
"""


@pytest.mark.far
@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("raise ImportError('no such package')", "cannot load dbselect (no such package); install"),
        ("import sys\nsys.modules['dbselect.sources'] = None", "cannot load dbselect (No module"),
    ],
    ids=["absent", "old"],
)
def test_workers_without_dbselect_are_told(tmp_path, package, words):
    (tmp_path / "dbselect").mkdir()
    (tmp_path / "dbselect" / "__init__.py").write_text(package)
    printed = run(WITHOUT, tmp_path / "elsewhere", str(tmp_path))
    assert words in printed
    assert len(printed.splitlines()) == 1


STOPPED = """
    import dbselect as ds
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    rows = spark.range(10)
    spark.stop()
    try:
        ds.gram(rows)
    except ds.errors.SourceError as error:
        print(error)
"""


@pytest.mark.far
def test_a_session_that_is_stopped_is_told(tmp_path):
    printed = run(STOPPED, tmp_path / "stopped")
    assert printed == ("the Spark session is stopped; start another, and read the table in it\n")


CLUSTER = """
    import sys, time
    import dbselect as ds
    from pyspark import TaskContext
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1", "spark.log.level": "OFF",
        "spark.speculation": "true", "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1", "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in settings.items():
        builder = builder.config(name, value)

    def waits(batches):
        context = TaskContext.get()
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            time.sleep(20)
        yield from batches

    with builder.getOrCreate() as spark:
        rows = spark.range(0, 1000, 1, 4).mapInArrow(waits, "id long")
        gram = ds.gram(rows)
        print(gram.rows, round(gram.mean[0], 9), round(gram.comoment[0, 0], 3))
"""

CONNECT = """
    import dbselect as ds
    from pyspark.sql import SparkSession

    with SparkSession.builder.remote("local[1]").getOrCreate() as spark:
        rows = spark.range(0, 1000, 1, 3)
        gram = ds.gram(rows)
        print(gram.rows, round(gram.mean[0], 9), round(gram.comoment[0, 0], 3))
        print(len(ds.gram_by(rows.selectExpr("id", "id % 3 AS k"), by=["k"])))
"""


@pytest.mark.far
def test_executors_that_are_asked_twice_count_once(tmp_path):
    # The sum of (k - 499.5)^2 over 0 to 999.
    assert run(CLUSTER, tmp_path / "cluster") == "1000 499.5 83333250.0\n"


@pytest.mark.far
def test_spark_connect_runs_the_same(tmp_path):
    pytest.importorskip("grpc_status", reason="Spark Connect needs grpcio-status")
    assert run(CONNECT, tmp_path / "connect") == "1000 499.5 83333250.0\n3\n"


@pytest.mark.far
def test_workers_of_another_version_are_told():
    from dbselect.sources.engines.remote import ran, release

    answer = ran("partial", "9.9", b"", iter(()))
    assert answer == (
        None,
        f"SourceError: the workers have dbselect {release()} and the driver has 9.9; install the "
        "same version on every machine",
    )
