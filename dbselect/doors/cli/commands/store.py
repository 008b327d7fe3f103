"""``dbselect store``: keep the Grams of a table's partitions; a cron job runs its ``refresh``."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from dbselect.doors.cli.arguments import (
    SEVERAL,
    SOURCE,
    add_flags,
    add_null_policy,
    add_problem,
    options_given,
)
from dbselect.doors.cli.command import Command
from dbselect.doors.cli.commands.gram import give_gram
from dbselect.doors.cli.commands.method import add_method, answer_asked, problem_of
from dbselect.doors.cli.exits import add_max_skipped, check_skipped
from dbselect.doors.cli.out import RECORDS, TABLES, add_out, tell, write_frame
from dbselect.errors import ArgumentError

if TYPE_CHECKING:
    from dbselect.record.gram import Gram


def _add(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="store_command")
    every = {}
    for name, run, told in (
        ("refresh", _refresh, "read what is new or has changed, all or nothing"),
        ("show", _show_records, "what the store has"),
        ("window", _write_window, "write the Gram of a window"),
        ("sequence", _sequence, "order groups of columns by gain per cost in a window"),
    ):
        command = every[name] = commands.add_parser(name, help=told, description=told)
        command.set_defaults(run_in_store=run, parser=command)
        command.add_argument("store", help="file of DuckDB (.duckdb, .db) or folder")
        add_max_skipped(command)
    command = every["refresh"]
    command.add_argument("source", help=f"{SOURCE}: the whole table")
    lists = {
        "by": "keys; needed at the first refresh",
        "columns": "names and globs; default: every usable one",
    }
    add_flags(command, lists, **SEVERAL)
    add_null_policy(command)
    texts = {
        "weight": "column of row weights",
        "keep": "table: parts that are gone are dropped; all: they are retained",
        "new-columns": "how to treat new columns: version, ignore, null or error",
        "on-error": "skip: leave a file that cannot be read for the next refresh",
    }
    add_flags(command, texts)
    wholes = {"max-levels": "most levels of text", "max-dropped": "most parts that may go"}
    add_flags(command, wholes, type=int)
    command.add_argument("--json", action="store_true", help="print JSON, for other programs")
    command.set_defaults(out=None)
    add_out(every["show"], "a row for each record", TABLES)
    add_out(every["window"], "the record", RECORDS, required=True)
    add_problem(every["sequence"], fields=("intercept", "ridge", "scale", "always"))
    add_method(every["sequence"], "anytime_sequence")
    add_out(every["sequence"], "the sequence", RECORDS)
    for name in ("window", "sequence"):
        every[name].add_argument("--first", help="first key, included: 2013-01; default: no limit")
        every[name].add_argument("--last", help="last key, included: 2013-03; default: no limit")


def _run(options: argparse.Namespace) -> None:
    options.run_in_store(options)


def _refresh(options: argparse.Namespace) -> None:
    from dbselect.store.gram_store import GramStore

    names = ("by", "columns", "weight", "null_policy", "max_levels", "keep", "new_columns",
             "max_dropped", "on_error")  # fmt: skip
    store = GramStore(options.store)
    refreshed = store.refresh(options.source, **options_given(options, names))
    tell(options, [str(refreshed)], asdict(refreshed))
    # Checked after the refresh, which is kept: the next one reads only later changes.
    records = store.show()
    check_skipped(options, records["rows"].sum(), records["skipped"].sum())


def _show_records(options: argparse.Namespace) -> None:
    from dbselect.doors.cli.printing import plain_rows
    from dbselect.store.gram_store import GramStore

    store = GramStore(options.store)
    records, versions = store.show(), store.versions()
    rows, skipped = records["rows"].sum(), records["skipped"].sum()
    check_skipped(options, rows, skipped)
    write_frame(records, options.out)
    lines = [
        f"{records.height:,} records, {records['part'].n_unique():,} parts, "
        f"{rows:,} rows, {skipped:,} skipped"
    ]
    for number, columns, first, last, count, changes in versions.iter_rows():
        told = f"version {number}, {first} to {last}, {count:,} records: {', '.join(columns)}"
        lines.append(f"{told}; {', '.join(changes)}" if changes else told)
    for part, error in store.quarantine().iter_rows():
        lines.append(f"not read: {part}: {error}")
    tell(options, lines, {"records": plain_rows(records), "versions": plain_rows(versions)})


def _write_window(options: argparse.Namespace) -> None:
    give_gram(options, _window(options))


def _sequence(options: argparse.Namespace) -> None:
    from dbselect.doors.cli.printing import show

    show(
        options,
        answer_asked(problem_of(_window(options), options), "anytime_sequence", options),
        "In no group",
    )


def _window(options: argparse.Namespace) -> "Gram":
    """Return the Gram of a window, whose ends are numbers where the key is."""
    from dbselect.store.gram_store import GramStore

    store = GramStore(options.store)
    key = store.show().to_series(0)
    number = {True: int, False: float}[key.dtype.is_integer()]
    ends = {}
    for name in ("first", "last"):
        ends[name] = value = getattr(options, name)
        if value is not None and key.dtype.is_numeric():
            try:
                ends[name] = number(value)
            except ValueError:
                raise ArgumentError(
                    f"--{name} is '{value}'; the key '{key.name}' is a number"
                ) from None
    return store.window(**ends)


COMMAND = Command(_add, _run)
