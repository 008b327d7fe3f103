"""``dbselect gram``: read a table once and write its record, or one for each group of rows."""

import argparse
from typing import TYPE_CHECKING, Any

from dbselect.doors.cli.arguments import (
    SEVERAL,
    SOURCE,
    add_flags,
    add_null_policy,
    options_given,
    read_option,
)
from dbselect.doors.cli.command import Command
from dbselect.doors.cli.exits import add_max_skipped, check_skipped
from dbselect.doors.cli.out import (
    NESTED,
    RECORDS,
    add_out,
    check_ending,
    tell,
    write_frame,
    write_record,
)
from dbselect.errors import ArgumentError

if TYPE_CHECKING:
    import polars as pl

    from dbselect.record.gram import Gram

#: What `gram` and `gram_by` take, and what only the second does.
_EVERY = ("columns", "weight", "null_policy", "categories", "max_levels")
_GROUPS = ("by", "fold", "key", "seed")


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help=SOURCE)
    lists = {
        "columns": "names and globs; default: every usable one",
        "categories": "columns whose levels become columns of 0 and 1",
        "by": "columns whose values make groups of rows, with a record each",
    }
    add_flags(parser, lists, **SEVERAL)
    add_flags(parser, {"weight": "column of row weights"})
    add_null_policy(parser)
    parser.add_argument("--basis", help='JSON file: column -> ["poly", 3] or ["spline", 5]')
    add_flags(parser, {"key": "with --fold: equal keys stay together"})
    wholes = {
        "max-levels": "levels with a column of their own",
        "fold": "cut each group into so many",
        "seed": "with --fold: of the hash",
    }
    add_flags(parser, wholes, type=int)
    add_max_skipped(parser)
    endings = tuple(dict.fromkeys(RECORDS + NESTED))
    add_out(parser, "the record, or the table of records", endings, required=True)


def _run(options: argparse.Namespace) -> None:
    from dbselect.doors.cli.stored import source_of
    from dbselect.sources.read import gram, gram_by

    check_ending(options.out, NESTED if options_given(options, _GROUPS) else RECORDS)
    asked = options_given(options, _EVERY) | {"basis": _basis(options)}
    groups = options_given(options, _GROUPS)
    if groups:
        give_records(options, gram_by(options.source, **asked, **groups))
        return
    give_gram(options, gram(source_of(options.source), **asked))


def give_gram(options: argparse.Namespace, found: "Gram") -> None:
    """Check and write a Gram, and print what it has."""
    check_skipped(options, found.rows, found.skipped)
    write_record(found, options.out)
    lines = [
        f"{options.out}: {len(found.columns)} columns, {found.rows:,} rows, "
        f"{found.skipped:,} skipped",
        *(f"{name}: missing in {rows:,} rows" for name, rows in found.missing.items()),
    ]
    facts = {"rows": found.rows, "skipped": found.skipped, "columns": found.columns}
    tell(options, lines, {**facts, "missing": dict(found.missing)})


def give_records(options: argparse.Namespace, found: "pl.DataFrame") -> None:
    """Check and write a table of records, and print what it has."""
    records = found["gram"].struct
    rows, skipped = records.field("rows").sum(), records.field("skipped").sum()
    check_skipped(options, rows, skipped)
    write_frame(found, options.out)
    line = f"{options.out}: {found.height:,} records, {rows:,} rows, {skipped:,} skipped"
    tell(options, [line], {"records": found.height, "rows": rows, "skipped": skipped})


def _basis(options: argparse.Namespace) -> Any:
    told = read_option(options.basis, "--basis")
    if told is None:
        return None
    if not isinstance(told, dict) or not all(isinstance(one, list) for one in told.values()):
        raise ArgumentError(f"--basis: '{options.basis}' must map columns to [kind, size]")
    return {name: tuple(one) for name, one in told.items()}


COMMAND = Command(_add, _run)
