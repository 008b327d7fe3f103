"""Try an installed dbselect: the same order from Python, DuckDB and Polars, and from no Rust.

``python release/smoke.py`` away from the checkout; it needs nothing but the wheel and its
dependencies, prints what it found, and fails where the doors differ.
"""

import platform

import polars as pl

import dbselect as ds

ORDER = ["a", "b"]


def table() -> pl.DataFrame:
    """Return 300 rows whose target is 3 a + b, to rounding."""
    i = pl.int_range(300)
    frame = pl.select(a=i % 97, b=i * 7 % 31, c=i * 11 % 13, kind="k" + (i % 3).cast(pl.String))
    return frame.with_columns(y=3.0 * pl.col("a") + pl.col("b") + 0.001 * pl.col("c"))


def from_python(frame: pl.DataFrame) -> tuple[list[str], float]:
    """Return the order of the first two groups, and the second r2."""
    steps = ds.anytime_sequence(frame, "y", max_groups=2).steps
    return steps["group"].drop_nulls().to_list(), steps["r2"][-1]


def from_duckdb(frame: pl.DataFrame) -> tuple[list[str], float]:
    """Return the same by the functions of the extension."""
    with ds.connect() as con:
        con.register("t", frame.to_arrow())
        ((steps,),) = con.execute(
            "SELECT anytime_sequence(gram(t), 'y', {'max_groups': 2}) FROM t"
        ).fetchall()
    return [step["group"] for step in steps[1:]], steps[-1]["r2"]


def from_polars(frame: pl.DataFrame) -> tuple[list[str], float]:
    """Return the same by the plugin."""
    record = frame.select(g=pl.struct(pl.all()).dbselect.gram())
    found = record.select(pl.col("g").dbselect.anytime_sequence("y", max_groups=2))
    steps = found["g"][0].struct.unnest()
    return steps["group"].drop_nulls().to_list(), steps["r2"][-1]


def main() -> None:
    """Ask every door, and compare."""
    for door in (from_python, from_duckdb, from_polars):
        order, r2 = door(table())
        print(door.__name__, order, round(r2, 9))
        assert order == ORDER, order
        assert 0.999 < r2 <= 1.0, r2
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    print(f"dbselect {ds.__version__} works on {machine}")


if __name__ == "__main__":
    main()
