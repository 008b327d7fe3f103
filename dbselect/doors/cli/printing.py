"""What commands print of a sequence, and the file of its steps."""

from typing import Any

import polars as pl

from dbselect.record.files import write_parquet
from dbselect.results.prefixes import Prefixes


def show(sequence: Prefixes[Any], out: str | None, left: str) -> None:
    """Write and print the steps, why there are no more, and what was left.

    Parameters
    ----------
    sequence : of any family
    out : Parquet file to write
    left : what to call what was left
    """
    if out is not None:
        write_parquet(sequence.steps.to_arrow(), out)
    _print_table(sequence.steps)
    print(f"{sequence.stop.value}.")
    if sequence.aliased:
        print(f"Linearly dependent, coefficient 0: {', '.join(sequence.aliased)}.")
    if sequence.unused:
        print(f"{left}: {', '.join(sequence.unused)}.")


def _print_table(steps: pl.DataFrame) -> None:
    with pl.Config(
        fmt_str_lengths=80,
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_width_chars=120,
        tbl_hide_dataframe_shape=True,
        tbl_hide_column_data_types=True,
        tbl_formatting="UTF8_BORDERS_ONLY",
        float_precision=4,
    ):
        print(steps.select("step", "action", "group", "cost", "spent", "gain", "r2", "useful"))
