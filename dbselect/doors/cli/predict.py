"""``dbselect predict``: the rows of a table with what a sequence predicts for them."""

import argparse
from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from dbselect.doors.cli.arguments import SOURCE, add_prediction, options_given
from dbselect.doors.cli.command import Command
from dbselect.doors.cli.exits import add_max_skipped, check_skipped
from dbselect.doors.cli.out import STDOUT, TABLES, add_out, tell, writing_rows
from dbselect.errors import ArgumentError, ColumnError

if TYPE_CHECKING:
    import polars as pl

    from dbselect.sources.request import Table

#: Of the column that is added; several responses or classes have one each, ``prediction.<name>``.
NAME = "prediction"


def _add(parser: argparse.ArgumentParser) -> None:
    add_prediction(parser)
    parser.add_argument("source", help=SOURCE)
    parser.add_argument(
        "--keep", nargs="+", action="extend", help="columns to write beside; default: all"
    )
    add_max_skipped(parser)
    add_out(parser, "the rows", TABLES)


def _run(options: argparse.Namespace) -> None:
    from dbselect.doors.cli.stored import stored_sequence
    from dbselect.sources.open import open_table

    if options.out is None and options.json:
        raise ArgumentError("--json has no file whose writing it could tell of; give --out, too")
    options.out = options.out or STDOUT
    given = options_given(options, ("budget", "handle_unknown"))
    model = stored_sequence(options.sequence).at(given.pop("budget", None))
    table = open_table(options.source, None)
    kept = _kept(table, options)
    rows = missing = 0
    batches = _predicted(model, table, kept, given)
    with writing_rows(options.out) as write, closing(batches):
        for batch, without in batches:
            rows += batch.height
            missing += without
            write(batch)
        # Within: what is refused leaves no file.
        check_skipped(options, rows - missing, missing)
    line = f"{options.out}: {rows:,} rows, {missing:,} without a prediction"
    tell(options, [line], {"rows": rows, "missing": missing})


def _kept(table: "Table", options: argparse.Namespace) -> list[str]:
    """Return the columns that are written beside the prediction."""
    from dbselect.record.columns import unknown

    names: list[str] = table.schema.names
    for name in options.keep or []:
        if name not in names:
            raise ColumnError(f"--keep has {unknown('column', name, names)}")
    kept = names if options.keep is None else list(dict.fromkeys(options.keep))
    for name in kept:
        if name.split(".")[0] == NAME:
            raise ColumnError(
                f"the table has a column '{name}' already; --keep says which to write"
            )
    return kept


def _predicted(
    model: Any, table: "Table", kept: list[str], given: dict[str, Any]
) -> "Generator[tuple[pl.DataFrame, int]]":
    """Yield rows with their predictions, and how many have none; at least one batch."""
    import polars as pl

    def predicted(batch: pl.DataFrame) -> tuple[pl.DataFrame, int]:
        values = model.predict(batch, **given)
        names = _names(model, values)
        found = pl.DataFrame(values.reshape(batch.height, len(names)), schema=names)
        found = found.fill_nan(None)
        without = found.select(pl.any_horizontal(pl.all().is_null()).sum()).item()
        return pl.concat([batch.select(kept), found], how="horizontal"), int(without)

    came = False
    with closing(table.batches(table.schema.names)) as batches:
        for batch in batches:
            came = True
            yield predicted(pl.DataFrame(batch))
    if not came:
        yield predicted(pl.DataFrame(table.schema.empty_table()))


def _names(model: Any, values: Any) -> list[str]:
    if values.ndim == 1:
        return [NAME]
    each = model.responses if hasattr(model, "responses") else model.classes
    return [f"{NAME}.{name}" for name in each]


COMMAND = Command(_add, _run)
