"""Spark's tasks against its own sum, in processor and wall seconds of one run."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from measure import Row
from tables import columns, table

import dbselect as ds

ROWS, WIDTH, REPEATS, MERGES = 4_000_000, 50, 3, 200


def spark_session() -> Any:
    """Start Spark on the two cores of this machine, its processes apart from this one."""
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


def processor() -> float:
    """Return the processor seconds so far of this process and all below it, ended ones too."""
    here = psutil.Process()
    return sum(sum(one.cpu_times()[:4]) for one in [here, *here.children(recursive=True)])


def costs(*works: Callable[[], object]) -> list[tuple[float, float]]:
    """Return the least processor and wall seconds of each work, in turns after a warm-up."""
    for work in works:
        work()
    best = [(np.inf, np.inf)] * len(works)
    for _ in range(REPEATS):
        for at, work in enumerate(works):
            cpu, wall = processor(), time.perf_counter()
            work()
            spent = processor() - cpu, time.perf_counter() - wall
            best[at] = min(best[at][0], spent[0]), min(best[at][1], spent[1])
    return best


def scans() -> Iterator[Row]:
    """Grams by Spark's tasks, and what Spark ML does of the same."""
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.regression import LinearRegression
    from pyspark.ml.stat import Correlation

    path, names = table(ROWS, WIDTH), columns(WIDTH)
    with spark_session() as spark:
        frame = spark.read.parquet(str(path)).select(names)
        vectors = VectorAssembler(inputCols=names[1:], outputCol="features").transform(frame)

        def count(batches: Any) -> Any:
            yield pa.RecordBatch.from_pydict({"n": [sum(batch.num_rows for batch in batches)]})

        def least_squares() -> object:
            model = LinearRegression(featuresCol="features", labelCol=names[0], solver="normal")
            return model.fit(vectors)

        works = {
            "rows counted by mapInArrow": (
                lambda: frame.mapInArrow(count, "n long").collect(),
                "",
            ),
            "ds.gram of the DataFrame": (lambda: ds.gram(frame), "<= 4x of processor"),
            "ds.gram(path, on=spark)": (
                lambda: ds.gram(str(path), names, on=spark),
                "<= 1.2x of processor",
            ),
            "Correlation.corr": (lambda: Correlation.corr(vectors, "features").collect(), ""),
            "LinearRegression, normal": (least_squares, ""),
        }
        sums = [f"sum({name})" for name in names]
        floor, *found = costs(
            # A query made anew: of one that it has run, Spark keeps the sums of its tasks.
            lambda: frame.selectExpr(sums).collect(),
            *(work for work, _ in works.values()),
        )
    for (what, (_, bar)), (cpu, wall) in zip(works.items(), found, strict=True):
        yield (
            f"Spark, {ROWS // 10**6}M x {WIDTH}: {what}",
            f"{cpu:.1f} s of processor, {cpu / floor[0]:.2f}x of {floor[0]:.1f} s; "
            f"{wall:.1f} s, {wall / floor[1]:.2f}x of {floor[1]:.1f} s",
            bar,
        )


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
        each, size = (time.process_time() - start) / MERGES, len(part)
        stages = merging(size)
        for tasks in (100, 1000, 10_000):
            last = stages[-1] if stages else tasks
            yield (
                f"{tasks:,} tasks x {width} columns, {size / 1e3:,.0f} kB each",
                f"to the driver {tasks * size / 1e6:,.0f} MB, {tasks * each:.1f} s to merge; "
                f"by {stages} merging tasks {last * size / 1e6:,.0f} MB, {last * each:.1f} s",
                "<= 256 MB",
            )


if __name__ == "__main__":
    for part in (states, scans):
        for row in part():
            print(" | ".join(row), flush=True)
