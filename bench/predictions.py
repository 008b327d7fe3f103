"""Predictions with one sequence or predictor for all rows, beside the full model alone."""

from collections.abc import Callable, Iterator

import polars as pl
from limits import limit
from measure import seconds
from rows import Row
from scans import struct
from tables import columns, table

import dbselect as ds


def predictions() -> Iterator[Row]:
    """Measure `anytime_predict` by one budget and by a budget a row."""
    path, (target, *features) = table(2_000_000, 21), columns(21)
    groups = {f"g{i}": features[5 * i // 2 : 5 * (i + 1) // 2] for i in range(8)}
    frame, row = pl.scan_parquet(path), pl.struct(features)
    with ds.connect() as con:
        con.execute(
            f"CREATE TABLE s AS SELECT anytime_sequence(gram({struct([target, *features])}), "
            f"'{target}', groups := {groups}) AS steps FROM '{path}'"
        )
        sequence = pl.lit(con.sql("FROM s").pl()["steps"])
        model = con.execute("SELECT steps[-1] FROM s").fetchall()[0][0]
        intercept, coefficients = model["intercept"], model["coefficients"].items()
        sql = " + ".join([str(intercept), *(f"{x} * {name}" for name, x in coefficients)])
        expression = intercept + pl.sum_horizontal(x * pl.col(name) for name, x in coefficients)

        def query(value: str) -> Callable[[], object]:
            return lambda: con.execute(f"SELECT sum({value}) FROM '{path}'").fetchall()

        def predict(budget: str) -> Callable[[], object]:
            call = f"anytime_predict((SELECT steps FROM s), {struct(features)}, budget := {budget})"
            return query(f"({call}).prediction")

        def lazy(value: pl.Expr) -> Callable[[], object]:
            return lambda: frame.select(value.sum()).collect(engine="streaming")

        def lazy_predict(budget: pl.Expr | float) -> Callable[[], object]:
            return lazy(sequence.dbselect.predict(row, budget).struct.field("prediction"))

        engines = {
            "DuckDB": [predict("8"), predict("k / 100"), query(sql)],
            "Polars": [lazy_predict(8), lazy_predict(pl.col("k") / 100), lazy(expression)],
        }
        for engine, works in engines.items():
            *times, plain = seconds(*works)
            for budget, time in zip(("one budget", "a budget a row"), times, strict=True):
                yield Row(
                    f"{engine}, 2M x 20 in 8 groups, from Parquet, {budget}",
                    time,
                    plain,
                    "the full model as an expression",
                    limit=1.0,
                    note=f"{2 / time:.1f}M rows a second",
                )


def arrivals() -> Iterator[Row]:
    """Measure a predictor on rows of 50 patterns of 6 groups, and what each column costs."""
    path, (target, *features) = table(1_000_000, 16), columns(16)
    groups = {f"g{i}": features[5 * i // 2 : 5 * (i + 1) // 2] for i in range(6)}
    problem = ds.Problem(path, target, groups)
    predictor = problem.predictor()
    pattern = pl.int_range(pl.len()) * 7919 % 50
    lost = [
        pl.when(pattern // 2**number % 2 == 0).then(name).alias(name)
        for number, names in enumerate(groups.values())
        for name in names
    ]
    rows = pl.read_parquet(path, columns=features).with_columns(lost)
    full = predictor.patterns([groups])[0]
    expression = sum((pl.col(name) * w for name, w in full["coefficients"].items()), pl.lit(0.0))
    sequence = problem.anytime_sequence()
    works = {
        "predictor, all columns": lambda: predictor.predict(rows),
        "predictor, all columns, level=0.9": lambda: predictor.predict(rows, level=0.9),
        "sequence, the longest prefix of each row": lambda: sequence.predict(rows),
    }
    *times, plain = seconds(*works.values(), lambda: rows.select(expression + full["intercept"]))
    # What is written, after the kernel has cleared it.
    least = limit(plain, moved=2 * predictor.predict(rows).estimated_size())
    for name, time in zip(works, times, strict=True):
        yield Row(
            f"1M x 15 in 6 groups, 50 patterns, from memory: {name}",
            time,
            plain,
            "the full model as an expression",
            most=3.0,
            note=f"{1 / time:.1f}M rows a second; {least}",
        )


PARTS = (predictions, arrivals)
