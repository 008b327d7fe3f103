"""``dbselect predict``: the rows of a table with what a sequence predicts for them."""

import argparse
from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from dbselect.doors.cli.arguments import SOURCE, UNSET, add_prediction, options_given
from dbselect.doors.cli.command import Command
from dbselect.doors.cli.exits import add_max_skipped, check_skipped
from dbselect.doors.cli.out import STDOUT, TABLES, add_out, tell, writing_rows
from dbselect.errors import ArgumentError, ColumnError, unknown

if TYPE_CHECKING:
    import polars as pl

    from dbselect.sources.request import Table

#: Of the column that is added; several responses or classes have one each, ``prediction.<name>``.
NAME = "prediction"


def _add(parser: argparse.ArgumentParser) -> None:
    add_prediction(parser)
    parser.add_argument(
        "--missing-columns",
        default=UNSET,
        help="columns that the source lacks: error, or unavailable for a prefix without them",
    )
    parser.add_argument("source", help=SOURCE)
    parser.add_argument(
        "--keep", nargs="+", action="extend", help="columns to write beside; default: all"
    )
    add_max_skipped(parser)
    add_out(parser, "the rows", TABLES)


def _run(options: argparse.Namespace) -> None:
    from dbselect.doors.cli.stored import stored_sequence
    from dbselect.options.kinds import BUDGET
    from dbselect.record.steps import longest_within
    from dbselect.sources.open import open_table

    if options.out is None and options.json:
        raise ArgumentError("--json reports on the file that is written, so it needs --out")
    options.out = options.out or STDOUT
    given = options_given(options, ("budget", "handle_unknown", "missing_columns"))
    sequence = stored_sequence(options.sequence)
    BUDGET.check("budget", given.get("budget"))
    longest = longest_within(sequence.spent, given.get("budget"))
    table = open_table(options.source, None)
    kept = _kept(table, options)
    rows = shorter = missing = 0
    batches = _predicted(sequence, table, kept, given)
    with writing_rows(options.out) as write, closing(batches):
        for batch, steps, without in batches:
            rows += batch.height
            shorter += int((steps != longest).sum())
            missing += without
            write(batch)
        # Within: what is refused leaves no file.
        check_skipped(options, rows - missing, missing)
    line = (
        f"{options.out}: {rows:,} rows, {shorter:,} by a shorter prefix, "
        f"{missing:,} without a prediction"
    )
    tell(options, [line], {"rows": rows, "shorter": shorter, "missing": missing})


def _kept(table: "Table", options: argparse.Namespace) -> list[str]:
    """Return the columns that are written beside the prediction."""
    names: list[str] = table.schema.names
    for name in options.keep or []:
        if name not in names:
            raise ColumnError(f"--keep has {unknown('column', name, names)}")
    kept = names if options.keep is None else list(dict.fromkeys(options.keep))
    for name in kept:
        if name.split(".")[0] == NAME:
            raise ColumnError(
                f"the table has a column '{name}' already; choose columns with --keep"
            )
    return kept


def _predicted(
    sequence: Any, table: "Table", kept: list[str], given: dict[str, Any]
) -> "Generator[tuple[pl.DataFrame, pl.Series, int]]":
    """Yield rows with their predictions, their steps, and how many have none; at least one batch.

    A row that no prefix serves has no step.
    """
    import polars as pl

    def predicted(batch: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series, int]:
        answers = sequence.anytime_predict(batch, **given)
        found = answers.select(NAME)
        if isinstance(found.schema[NAME], pl.Struct):
            found = found[NAME].struct.unnest().select(pl.all().name.prefix(f"{NAME}."))
        without = found.select(pl.any_horizontal(pl.all().is_null()).sum()).item()
        rows = pl.concat([batch.select(kept), found], how="horizontal")
        return rows, answers["step"], int(without)

    came = False
    with closing(table.batches(table.schema.names)) as batches:
        for batch in batches:
            came = True
            yield predicted(pl.DataFrame(batch))
    if not came:
        yield predicted(pl.DataFrame(table.schema.empty_table()))


COMMAND = Command(_add, _run)
