"""The command line: which groups of features buy the most prediction for their cost."""

import logging
import sys
import warnings
from argparse import SUPPRESS
from collections.abc import Container, Sequence
from importlib import import_module
from typing import Any

from dbselect._log import JsonFormatter, log
from dbselect.doors.cli.command import Command, Parser
from dbselect.doors.cli.method import command_of
from dbselect.doors.cli.out import (
    INTERRUPTED,
    PIPE_CLOSED,
    RED,
    YELLOW,
    coloured,
    escape_letters,
    exit_code,
    leave_pipe,
)
from dbselect.errors import DbselectError, warns_once
from dbselect.spec.methods import METHODS

#: Commands beside the methods, and what each does; its module here has its name.
COMMANDS = {
    "gram": "read a table once and write its Gram record",
    "report": "a sequence, as one page of HTML",
    "tables": "order tables to join by gain per cost",
    "compare": "how early several sequences explain",
    "predict": "the rows of a table with what a sequence predicts for them",
    "summary": "least squares on named columns, and how sure each coefficient is",
    "sql": "the prediction of a sequence as an SQL expression",
    "drift": "what has changed between two sets of rows",
    "refit": "a stored sequence or model, fitted to other rows",
    "merge": "the record of all rows of some records",
    "store": "keep the Grams of a table's partitions",
    "svmlight": "write files of learning to rank as a table",
    "extension": "where the DuckDB extension lies, and how each client loads it",
    "completion": "what a shell needs to complete commands, options and files",
}


#: Other names of commands.
_ALSO = {"anytime_sequence": ["sequence"]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0, or one of `exits` after one sentence."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    escape_letters()
    options = every_command(given).parse_args(given)
    _log_to_stderr(options.log)
    warnings.showwarning = _show_nothing if options.quiet else _show_warning
    try:
        options.check()
        warns_once(options.run)(options)
        sys.stdout.flush()
    except BrokenPipeError:
        leave_pipe()
        return PIPE_CLOSED
    except (DbselectError, OSError) as error:
        # An engine's message may span several lines.
        told = " ".join(str(error).split())
        print(f"{coloured('dbselect:', RED, sys.stderr)} {told}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt:
        print("dbselect: interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


def _log_to_stderr(kind: str | None) -> None:
    if kind is not None:
        handler = logging.StreamHandler()
        if kind == "json":
            handler.setFormatter(JsonFormatter())
        log.handlers[1:] = [handler]
        log.setLevel(logging.INFO)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"{coloured('dbselect: warning:', YELLOW, sys.stderr)} {message}", file=sys.stderr)


def _show_nothing(*_: Any, **__: Any) -> None:
    """Print no warning, as `--quiet` asks."""


def every_command(named: Container[str] | None = None) -> Parser:
    """Return the parser, with the arguments of commands that are named, by default of all."""
    from importlib.metadata import version

    parser = Parser(prog="dbselect", description=__doc__)
    parser.add_argument(
        "-V", "--version", action="version", version=f"dbselect {version('dbselect')}"
    )
    parser.add_argument("--log", choices=["text", "json"],
                        help="a line a minute on long work, to the error stream")  # fmt: skip
    told_quiet = "print errors only: no result, no warnings"
    parser.add_argument("-q", "--quiet", action="store_true", help=told_quiet)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, told in {**COMMANDS, **{name: one.about for name, one in METHODS.items()}}.items():
        names = [name, *_ALSO.get(name, [])]
        added = commands.add_parser(name, help=told, description=told, aliases=names[1:])
        if named is None or any(one in named for one in names):
            command: Command
            if name in METHODS:
                command = command_of(name)
            else:
                command = import_module(f"{__name__}.{name}").COMMAND
            command.add(added)
            added.add_argument(
                "-q", "--quiet", action="store_true", default=SUPPRESS, help=told_quiet
            )
            added.set_defaults(run=command.run, parser=added)
    return parser
