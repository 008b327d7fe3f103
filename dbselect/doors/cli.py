"""The command line: ``dbselect gram``, ``sequence``, ``report``, ``store`` and others."""

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from dbselect.doors import buying
from dbselect.doors.extension import (
    FILE_NAME,
    LOWEST_DUCKDB,
    copied,
    extension_path,
    loading,
    platform_of_this_machine,
)
from dbselect.errors import ArgumentError, BusyError, DbselectError
from dbselect.glm.families import FAMILY_NAMES
from dbselect.methods.anytime import AnytimeOptions, anytime_sequence
from dbselect.methods.cross_validate import cross_validate
from dbselect.record.files import write_parquet
from dbselect.record.gram import Gram
from dbselect.record.writing import check_place
from dbselect.results.prefixes import Prefixes
from dbselect.selection.criteria import RULES
from dbselect.sources.learn import MAX_LEVELS
from dbselect.sources.open import stored_gram
from dbselect.sources.read import gram
from dbselect.store.gram_store import GramStore

#: Exit code of what may go well later: EX_TEMPFAIL of sysexits.h.
TRY_AGAIN = 75


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0, or another number after one sentence.

    2 is a user's mistake, 75 that somebody else writes and the same command may do later, and
    130 an interrupt.
    """
    options = _parser().parse_args(arguments)
    warnings.showwarning = _show_warning
    try:
        _check_out(options)
        options.command(options)
    except (DbselectError, OSError) as error:
        print(f"dbselect: {error}", file=sys.stderr)
        return TRY_AGAIN if isinstance(error, BusyError) else 2
    except KeyboardInterrupt:
        print("dbselect: interrupted", file=sys.stderr)
        return 130
    return 0


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"dbselect: warning: {message}", file=sys.stderr)


def _check_out(options: argparse.Namespace) -> None:
    """Refuse a result that could not be written, before anything is read."""
    out = options.out
    if out is None:
        return
    if not Path(out).absolute().parent.is_dir():
        raise ArgumentError(f"--out is '{out}'; its folder does not exist")
    # The extension can go into a folder, under its own name.
    if options.command is not _extension or not Path(out).is_dir():
        check_place(out)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dbselect", description=__doc__)
    parser.add_argument("--version", action="version", version=f"dbselect {version('dbselect')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("gram", help="read a table once and write its Gram record")
    command.set_defaults(command=_gram)
    command.add_argument("source", help="Parquet file, folder or glob")
    command.add_argument("--out", required=True, help="Parquet file to write")
    command.add_argument("--columns", nargs="+", help="names and globs; default: every numeric one")
    command.add_argument("--weight", help="column of row weights")
    _add_null_policy(command)
    command.add_argument(
        "--categories", nargs="+", help="columns whose levels become columns of 0 and 1"
    )
    command.add_argument(
        "--max-levels", type=int, default=MAX_LEVELS, help="levels with a column of their own"
    )

    command = commands.add_parser("sequence", help="order groups of columns by gain per cost")
    command.set_defaults(command=_sequence)
    _add_search(command)
    command.add_argument("--out", help="Parquet file to write the steps to")

    command = commands.add_parser("report", help="the same, told on one page of HTML")
    command.set_defaults(command=_report)
    _add_search(command)
    command.add_argument("--out", required=True, help="HTML file to write")
    command.add_argument(
        "--fold", type=int, help="cut the table into so many folds, for r2 on held-out rows"
    )

    buying.add_command(commands, _tables)

    _add_store(commands.add_parser("store", help="keep the Grams of a table's partitions"))

    command = commands.add_parser(
        "extension", help="where the DuckDB extension lies, and how each client loads it"
    )
    command.set_defaults(command=_extension)
    command.add_argument("--out", help="file to copy it to; it must be called " + FILE_NAME)
    command.add_argument(
        "--platform", help="as PRAGMA platform of the client says; default: this machine's"
    )
    return parser


def _add_search(command: argparse.ArgumentParser) -> None:
    command.add_argument("source", help="Parquet file, folder or glob, or what 'gram' wrote")
    _add_sequence_options(command)
    command.add_argument("--weight", default=argparse.SUPPRESS, help="column of row weights")
    _add_null_policy(command)


def _add_sequence_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--target", required=True, help="column to predict")
    command.add_argument("--groups", help="JSON file: name -> list of columns or globs")
    command.add_argument("--costs", help="JSON file: name -> cost")
    # Without a default: where nothing is given, the record of options has one.
    command.add_argument("--rule", default=argparse.SUPPRESS, choices=list(RULES))
    command.add_argument("--ridge", default=argparse.SUPPRESS, type=float)
    command.add_argument(
        "--budget", default=argparse.SUPPRESS, type=float, help="limit on the summed cost"
    )
    command.add_argument("--max-groups", default=argparse.SUPPRESS, type=int)
    command.add_argument(
        "--always", default=argparse.SUPPRESS, nargs="+", help="groups to take first"
    )
    command.add_argument(
        "--c-min", default=argparse.SUPPRESS, type=float, help="rule doubling: of the first group"
    )
    command.add_argument("--family", default=argparse.SUPPRESS, choices=FAMILY_NAMES)


def _add_store(parser: argparse.ArgumentParser) -> None:
    """Add the commands of stores; a cron job runs ``store refresh``."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    every = {}
    for name, run, told in (
        ("refresh", _store_refresh, "read what is new or has changed, all or nothing"),
        ("show", _store_show, "what the store has"),
        ("window", _store_window, "write the Gram of a window"),
        ("sequence", _store_sequence, "order groups of columns by gain per cost in a window"),
    ):
        command = every[name] = commands.add_parser(name, help=told)
        command.set_defaults(command=run, out=None)
        command.add_argument("store", help="file of DuckDB (.duckdb, .db) or folder")
    command = every["refresh"]
    command.add_argument("source", help="Parquet file, folder or glob: the whole table")
    command.add_argument(
        "--by", nargs="+", action="extend", help="keys; needed at the first refresh"
    )
    command.add_argument(
        "--columns", nargs="+", action="extend", help="names and globs; default: every usable one"
    )
    command.add_argument("--weight", help="column of row weights")
    _add_null_policy(command)
    command.add_argument("--max-levels", type=int, help="most levels of text")
    every["show"].add_argument("--out", help="Parquet file to write a row for each record to")
    every["window"].add_argument("--out", required=True, help="Parquet file to write")
    _add_sequence_options(every["sequence"])
    every["sequence"].add_argument("--out", help="Parquet file to write the steps to")
    for name in ("window", "sequence"):
        every[name].add_argument("--first", help="first key, included: 2013-01; default: no limit")
        every[name].add_argument("--last", help="last key, included: 2013-03; default: no limit")


def _add_null_policy(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--null-policy",
        nargs="+",
        default=argparse.SUPPRESS,
        metavar="[COLUMNS=]POLICY",
        help="missing values: skip their row, error, mean, or indicator (0 and a column of 0 "
        "and 1); COLUMNS is a name or a glob, and the last that means a column holds",
    )


def _options(options: argparse.Namespace) -> dict[str, Any]:
    """Return what was given of the options of a sequence, by the names of Python."""
    given = {name: value for name, value in vars(options).items() if name in AnytimeOptions.names()}
    return {**given, **_null_policy(options)}


def _null_policy(options: argparse.Namespace) -> dict[str, Any]:
    if "null_policy" not in options:
        return {}
    pairs = [text.rpartition("=") for text in options.null_policy]
    policies = {columns if equals else "*": policy for columns, equals, policy in pairs}
    # A stored Gram takes no policy but the plain one.
    return {"null_policy": policies["*"] if list(policies) == ["*"] else policies}


def _gram(options: argparse.Namespace) -> None:
    result = gram(
        options.source,
        options.columns,
        options.weight,
        **_null_policy(options),
        categories=options.categories,
        max_levels=options.max_levels,
    )
    result.write_parquet(options.out)
    print(
        f"{options.out}: {len(result.columns)} columns, {result.rows:,} rows, "
        f"{result.skipped:,} skipped"
    )
    for name, rows in result.missing.items():
        print(f"{name}: missing in {rows:,} rows")


def _found(options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Return the sequence, and the groups and costs that were given."""
    groups, costs = _read_json(options.groups, "--groups"), _read_json(options.costs, "--costs")
    sequence = anytime_sequence(options.source, options.target, groups, costs, **_options(options))
    return sequence, {"groups": groups, "costs": costs}


def _report(options: argparse.Namespace) -> None:
    table = None if stored_gram(options.source) is not None else options.source
    if options.fold is not None and table is None:
        raise ArgumentError(
            f"--fold is {options.fold}; a Gram holds no rows to cut, which the table does"
        )
    sequence, named = _found(options)
    held_out = None
    if options.fold is not None:
        held_out = cross_validate(
            table, options.target, "anytime_sequence", fold=options.fold, **named,
            **_options(options),
        )  # fmt: skip
    sequence.report(options.out, source=table, held_out=held_out)
    print(f"{options.out}: {len(sequence.spent) - 1} steps, {sequence.stop.value}")
    if table is None:
        print("Residuals and calibration need the table; this was a Gram.")


def _sequence(options: argparse.Namespace) -> None:
    sequence, _ = _found(options)
    _show(sequence, options.out, "In no group")


def _tables(options: argparse.Namespace) -> None:
    groups, costs = _read_json(options.groups, "--groups"), _read_json(options.costs, "--costs")
    candidates = _read_json(options.candidates, "--candidates")
    _show(buying.bought(options, candidates, groups, costs), options.out, "Not bought")


def _show(sequence: Prefixes[Any], out: str | None, left: str) -> None:
    """Write and print the steps, why there are no more, and what was left."""
    if out is not None:
        write_parquet(sequence.steps.to_arrow(), out)
    _print_table(sequence.steps)
    print(f"{sequence.stop.value}.")
    if sequence.aliased:
        print(f"Linearly dependent, coefficient 0: {', '.join(sequence.aliased)}.")
    if sequence.unused:
        print(f"{left}: {', '.join(sequence.unused)}.")


def _store_refresh(options: argparse.Namespace) -> None:
    print(
        GramStore(options.store).refresh(
            options.source,
            options.by,
            options.columns,
            options.weight,
            max_levels=options.max_levels,
            **_null_policy(options),
        )
    )


def _store_show(options: argparse.Namespace) -> None:
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


def _store_window(options: argparse.Namespace) -> None:
    found = _window(options)
    found.write_parquet(options.out)
    print(
        f"{options.out}: {len(found.columns)} columns, {found.rows:,} rows, "
        f"{found.skipped:,} skipped"
    )


def _store_sequence(options: argparse.Namespace) -> None:
    options.source = _window(options)
    _sequence(options)


def _window(options: argparse.Namespace) -> Gram:
    """Return the Gram of a window, whose ends are numbers where the key is."""
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


def _extension(options: argparse.Namespace) -> None:
    platform = options.platform or platform_of_this_machine()
    path = extension_path(platform)
    if options.out is not None:
        path = copied(path, Path(options.out))
    print(f"The DuckDB extension for {platform}, DuckDB {LOWEST_DUCKDB} or newer:\n{path}\n")
    for client, lines in loading(path).items():
        print(f"{client}\n    " + "\n    ".join(lines))


def _read_json(path: str | None, option: str) -> Any:
    if path is None:
        return None
    try:
        return json.loads(Path(path).read_text())
    except ValueError as error:
        raise ArgumentError(f"{option}: '{path}' is not JSON: {error}") from None


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


if __name__ == "__main__":
    sys.exit(main())
