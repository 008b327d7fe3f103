"""Predictions with one sequence for all rows, beside its full model as an expression."""

from collections.abc import Callable, Iterator

import polars as pl
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


PARTS = (predictions,)
