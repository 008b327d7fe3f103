"""The command line: ``dbselect gram``, ``sequence``, ``report``, ``store`` and others."""

import argparse
import sys
import warnings
from collections.abc import Container, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from dbselect.errors import ArgumentError, BusyError, DbselectError

#: Exit code of what may go well later: EX_TEMPFAIL of sysexits.h.
TRY_AGAIN = 75
#: Commands and what each does; its module here has its name.
COMMANDS = {
    "gram": "read a table once and write its Gram record",
    "sequence": "order groups of columns by gain per cost",
    "report": "the same, told on one page of HTML",
    "tables": "order tables to join by gain per cost",
    "store": "keep the Grams of a table's partitions",
    "extension": "where the DuckDB extension lies, and how each client loads it",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0, or another number after one sentence.

    2 is a user's mistake, 75 that somebody else writes and the same command may do later, and
    130 an interrupt.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser(given).parse_args(given)
    warnings.showwarning = _show_warning
    try:
        _check_out(options)
        options.run(options)
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
    from dbselect.record.writing import check_place

    out = options.out
    if out is None:
        return
    if not Path(out).absolute().parent.is_dir():
        raise ArgumentError(f"--out is '{out}'; its folder does not exist")
    # The extension can go into a folder, under its own name.
    if options.command != "extension" or not Path(out).is_dir():
        check_place(out)


def _parser(named: Container[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Return the parser, with the arguments of commands that are named; others are not loaded."""
    from importlib.metadata import version

    parser = argparse.ArgumentParser(prog="dbselect", description=__doc__)
    parser.add_argument("--version", action="version", version=f"dbselect {version('dbselect')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, told in COMMANDS.items():
        added = commands.add_parser(name, help=told)
        if name in named:
            command = import_module(f"{__name__}.{name}").COMMAND
            command.add(added)
            added.set_defaults(run=command.run)
    return parser
