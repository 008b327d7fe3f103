"""Sums in PostgreSQL against its rows pulled into this process, and against a plain sum."""

import sys
from collections.abc import Iterator
from pathlib import Path

from measure import Row, seconds
from tables import columns

import dbselect as ds

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from warehouses import opened


def push_down() -> Iterator[Row]:
    """`ds.gram` of a table of ibis, on a server of this machine with two workers."""
    rows = 100_000
    with opened("postgres") as warehouse:
        for width in (5, 20, 50):
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

            plain, pushed, pulled, grouped = seconds(
                floor,
                lambda table=table, names=names: ds.gram(table, names),
                lambda table=table, names=names: ds.gram(table.select(names).to_pyarrow()),
                lambda table=table, names=names: ds.gram_by(table, ["k"], names),
                repeats=3,
            )
            yield (
                f"PostgreSQL through ibis, {rows // 1000},000 x {width}: ds.gram summed there",
                f"{pushed:.2f} s, {pushed / plain:.1f}x of its plain sum(); of rows pulled "
                f"{pulled:.2f} s, {pulled / pushed:.1f}x of that; by 100 keys {grouped:.2f} s",
                "",
            )
