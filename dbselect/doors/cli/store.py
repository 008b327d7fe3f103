"""``dbselect store``: keep the Grams of a table's partitions; a cron job runs its ``refresh``."""

import argparse
from typing import TYPE_CHECKING

from dbselect.doors.cli.arguments import UNSET, add_null_policy, add_sequence_options, options_given
from dbselect.doors.cli.command import Command
from dbselect.doors.cli.sequence import asked_sequence
from dbselect.errors import ArgumentError

if TYPE_CHECKING:
    from dbselect.record.gram import Gram


def _add(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    every = {}
    for name, run, told in (
        ("refresh", _refresh, "read what is new or has changed, all or nothing"),
        ("show", _show_records, "what the store has"),
        ("window", _write_window, "write the Gram of a window"),
        ("sequence", _sequence, "order groups of columns by gain per cost in a window"),
    ):
        command = every[name] = commands.add_parser(name, help=told)
        command.set_defaults(run_in_store=run, out=None)
        command.add_argument("store", help="file of DuckDB (.duckdb, .db) or folder")
    command = every["refresh"]
    command.add_argument("source", help="Parquet file, folder or glob: the whole table")
    for option, told in (
        ("--by", "keys; needed at the first refresh"),
        ("--columns", "names and globs; default: every usable one"),
    ):
        command.add_argument(option, default=UNSET, nargs="+", action="extend", help=told)
    command.add_argument("--weight", default=UNSET, help="column of row weights")
    add_null_policy(command)
    command.add_argument("--max-levels", default=UNSET, type=int, help="most levels of text")
    every["show"].add_argument("--out", help="Parquet file to write a row for each record to")
    every["window"].add_argument("--out", required=True, help="Parquet file to write")
    add_sequence_options(every["sequence"])
    every["sequence"].add_argument("--out", help="Parquet file to write the steps to")
    for name in ("window", "sequence"):
        every[name].add_argument("--first", help="first key, included: 2013-01; default: no limit")
        every[name].add_argument("--last", help="last key, included: 2013-03; default: no limit")


def _run(options: argparse.Namespace) -> None:
    options.run_in_store(options)


def _refresh(options: argparse.Namespace) -> None:
    from dbselect.store.gram_store import GramStore

    names = ("by", "columns", "weight", "null_policy", "max_levels")
    print(GramStore(options.store).refresh(options.source, **options_given(options, names)))


def _show_records(options: argparse.Namespace) -> None:
    from dbselect.record.files import write_parquet
    from dbselect.store.gram_store import GramStore

    store = GramStore(options.store)
    records, versions = store.show(), store.versions()
    if options.out is not None:
        write_parquet(records.to_arrow(), options.out)
    print(
        f"{records.height:,} records, {records['part'].n_unique():,} parts, "
        f"{records['rows'].sum():,} rows, {records['skipped'].sum():,} skipped"
    )
    for number, columns, first, last, count in versions.iter_rows():
        print(f"version {number}, {first} to {last}, {count:,} records: {', '.join(columns)}")


def _write_window(options: argparse.Namespace) -> None:
    found = _window(options)
    found.write_parquet(options.out)
    print(
        f"{options.out}: {len(found.columns)} columns, {found.rows:,} rows, "
        f"{found.skipped:,} skipped"
    )


def _sequence(options: argparse.Namespace) -> None:
    from dbselect.doors.cli.printing import show

    show(asked_sequence(_window(options), options), options.out, "In no group")


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
