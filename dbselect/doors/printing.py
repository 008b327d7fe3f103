"""Print a sequence: its steps, the reason to stop, and the unused columns."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from dbselect.doors.cli.command import Options
from dbselect.doors.cli.out import has_borders, write_record
from dbselect.results.glm.model import predicted
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.prefixes import Prefixes
from dbselect.results.wide import WIDE_FIELDS, WideSequence

#: Columns of the steps to print, which fit into a terminal.
_SHOWN = ("step", "action", "group", "cost", "spent", "gain", "r2", "useful")


def show(
    options: Options,
    sequence: Prefixes[Any],
    unused_label: str,
    held_out: pl.DataFrame | None = None,
) -> None:
    """Check, write and print a sequence; `unused_label` introduces the unused names."""
    start: Any = sequence.model(0)
    options.check_skipped(start.rows, start.skipped)
    write_record(sequence, options.out)
    facts = {
        "rows": start.rows,
        "skipped": start.skipped,
        "steps": plain_rows(sequence.steps),
        "stop": sequence.stop.value,
        "aliased": list(sequence.aliased),
        "unused": list(sequence.unused),
    }
    if isinstance(sequence, GlmSequence):
        facts |= {"family": sequence.family, "levels": list(sequence.levels)}
    if isinstance(sequence, WideSequence):
        facts |= {name: getattr(sequence, name) for name in WIDE_FIELDS}
    if held_out is not None:
        facts["held_out"] = plain_rows(held_out)
    options.tell(_lines(sequence, start, unused_label, held_out), facts)


def _lines(
    sequence: Prefixes[Any], start: Any, unused_label: str, held_out: pl.DataFrame | None
) -> Iterator[str]:
    yield table_text(sequence.steps.select(_SHOWN))
    yield f"{sequence.stop.value}."
    if isinstance(sequence, GlmSequence):
        yield f"Family {sequence.family}, {predicted(sequence.target, sequence.levels)}."
    if isinstance(sequence, WideSequence):
        yield f"{sequence.scans} scans, {sequence.rows_fetched} rows of the Gram."
        if sequence.screened is not None:
            yield f"{str(sequence.screened).capitalize()}."
    if start.skipped:
        yield f"{start.rows:,} rows, {start.skipped:,} skipped."
    if sequence.aliased:
        yield f"Linearly dependent, coefficient 0: {', '.join(sequence.aliased)}."
    if sequence.unused:
        yield f"{unused_label}: {', '.join(sequence.unused)}."
    if held_out is not None:
        yield "On held-out rows:"
        yield table_text(held_out)


def plain_rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return rows for JSON, with null for NaN and infinity."""
    floats = pl.selectors.float()
    finite = frame.with_columns(pl.when(floats.is_finite()).then(floats))
    return finite.to_dicts()


def table_text(frame: pl.DataFrame) -> str:
    """Return a table as text, of any width."""
    with pl.Config(
        fmt_str_lengths=80,
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_width_chars=120,
        tbl_hide_dataframe_shape=True,
        tbl_hide_column_data_types=True,
        tbl_formatting="UTF8_BORDERS_ONLY" if has_borders() else "ASCII_BORDERS_ONLY",
        float_precision=4,
    ):
        return str(frame)
