"""Sums in PostgreSQL, and of its rows pulled into this process, beside a plain sum there."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from measure import seconds
from rows import Row, skipped
from tables import columns

import dbselect as ds

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from warehouses import opened


def push_down() -> Iterator[Row]:
    """`ds.gram` of a table of ibis, on a server of this machine with two workers."""
    rows = 100_000
    with ExitStack() as stack:
        try:
            warehouse = stack.enter_context(opened("postgres"))
        except pytest.skip.Exception as why:
            yield skipped(f"PostgreSQL through ibis, {rows:,} rows", str(why))
            return
        for width in (5, 50):
            names = columns(width)
            values = ", ".join(f"1e6 + random() AS {name}" for name in names)
            name = f"wide{width}"
            with warehouse.connection.begin() as cursor:
                cursor.execute(
                    f"CREATE TABLE {name} AS SELECT {values}, (i % 100)::int AS k "
                    f"FROM generate_series(1, {rows}) i"
                )
                cursor.execute(f"ANALYZE {name}")
            table = warehouse.connection.table(name)
            sums = ", ".join(f"sum({column})" for column in names)

            def floor(query: str = f"SELECT {sums} FROM {name}") -> None:
                with warehouse.connection.begin() as cursor:
                    cursor.execute(query).fetchone()

            plain, *times = seconds(
                floor,
                lambda table=table, names=names: ds.gram(table, names),
                lambda table=table, names=names: ds.gram_by(table, ["k"], names),
                lambda table=table, names=names: ds.gram(table.select(names).to_pyarrow()),
                repeats=3,
            )
            works = ("ds.gram summed there", "ds.gram_by of 100 keys", "ds.gram of rows pulled")
            for work, took in zip(works, times, strict=True):
                what = f"PostgreSQL through ibis, {rows:,} x {width}: {work}"
                yield Row(what, took, plain, "sum()")


PARTS = (push_down,)
