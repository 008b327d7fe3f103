"""Spark's tasks beside its own sum of every column, in processor and in wall seconds."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from measure import installed, processor, spent
from rows import Row, skipped
from tables import columns, table

import dbselect as ds

ROWS, WIDTH, MERGES = 4_000_000, 50, 200
#: Tasks of a large table, and the greatest ratios to Spark's sum, in processor seconds.
TASKS = 10_000
BARS = {"ds.gram of the DataFrame": 4.0, "ds.gram(path, on=spark)": 1.2}


def spark_session() -> Any:
    """Start Spark on the two cores of this machine, its processes apart from this one.

    They end with this one: of processes that end before, nobody would know the seconds.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def tasks() -> Iterator[Row]:
    """Grams by Spark's tasks, and what Spark ML does of the same."""
    if not installed("pyspark") or shutil.which("java") is None:
        yield skipped(f"{ROWS // 10**6}M x {WIDTH}", "no Spark")
        return
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.regression import LinearRegression
    from pyspark.ml.stat import Correlation

    path, names = table(ROWS, WIDTH), columns(WIDTH)
    spark = spark_session()
    frame = spark.read.parquet(str(path)).select(names)
    vectors = VectorAssembler(inputCols=names[1:], outputCol="features").transform(frame)
    least_squares = LinearRegression(featuresCol="features", labelCol=names[0], solver="normal")

    def count(batches: Any) -> Any:
        yield pa.RecordBatch.from_pydict({"n": [sum(batch.num_rows for batch in batches)]})

    sums = [f"sum({name})" for name in names]
    works = {
        # A query made anew: of one that it has run, Spark keeps the sums of its tasks.
        "sum()": lambda: frame.selectExpr(sums).collect(),
        "rows counted by mapInArrow": lambda: frame.mapInArrow(count, "n long").collect(),
        "ds.gram of the DataFrame": lambda: ds.gram(frame),
        "ds.gram(path, on=spark)": lambda: ds.gram(str(path), names, on=spark),
        "Correlation.corr": lambda: Correlation.corr(vectors, "features").collect(),
        "LinearRegression, normal": lambda: least_squares.fit(vectors),
    }
    clocks = {"processor": processor, "wall": time.perf_counter}
    medians = spent(*works.values(), clocks=tuple(clocks.values()), repeats=3)
    _, *others = works
    for clock, (base, *times) in zip(clocks, medians, strict=True):
        for work, took in zip(others, times, strict=True):
            most = BARS.get(work) if clock == "processor" else None
            what = f"{ROWS // 10**6}M x {WIDTH}, {clock}: {work}"
            yield Row(what, took, base, "sum() in Spark", most=most)


def states() -> Iterator[Row]:
    """Measure what a task sends and how long a merge takes; count that for many tasks."""
    from dbselect.sources.partial.partial_aggregates import merging

    rng = np.random.default_rng(0)
    for width in (50, 200, 500, 1000):
        rows = pa.table({name: rng.normal(size=2 * width) for name in columns(width)})
        plan = ds.io.plan_gram(rows.schema)
        part = plan.partial(rows)
        plan.merge([part])
        start = time.process_time()
        plan.merge([part] * MERGES)
        merge_seconds, size = (time.process_time() - start) / MERGES, len(part)
        stages = merging(size)
        last = stages[-1] if stages else TASKS
        yield Row(
            f"what {TASKS:,} tasks of {width} columns, {size / 1e3:,.0f} kB each, send the driver",
            last * size / 1e6,
            TASKS * size / 1e6,
            "all their states",
            unit="MB",
            limit=256.0,
            note=f"{1e3 * last * merge_seconds:.0f} ms to merge; merging tasks {stages}",
        )


PARTS = (states, tasks)
