"""The command line: which groups of features buy the most prediction for their cost."""

import logging
import sys
import warnings
from argparse import SUPPRESS
from collections.abc import Container, Sequence
from functools import partial
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

#: Commands besides the methods, with their help; each has a module of the same name.
COMMANDS = {
    "gram": "read a table once and write its Gram record",
    "report": "a sequence, as one page of HTML",
    "tables": "order tables to join by gain per cost",
    "allocate": "one budget for the sequences of many segments",
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


#: Aliases of commands.
_ALSO = {"anytime_sequence": ["sequence"]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code, after printing an error in one sentence."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    escape_letters()
    options = every_command(words).parse_args(words)
    _log_to_stderr(options.log)
    warnings.showwarning = partial(_show_warning, quiet=options.quiet)
    try:
        options.check()
        warns_once(options.run)(options)
        sys.stdout.flush()
    except BrokenPipeError:
        leave_pipe()
        return PIPE_CLOSED
    except (DbselectError, OSError) as error:
        # An engine's message may span several lines.
        message = " ".join(str(error).split())
        print(f"{coloured('dbselect:', RED, sys.stderr)} {message}", file=sys.stderr)
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


def _show_warning(message: Warning | str, *_: Any, quiet: bool = False, **__: Any) -> None:
    if quiet:
        return
    print(f"{coloured('dbselect: warning:', YELLOW, sys.stderr)} {message}", file=sys.stderr)


def every_command(words: Container[str] | None = None) -> Parser:
    """Return the parser, with the arguments of the named commands, by default of all."""
    from importlib.metadata import version

    parser = Parser(prog="dbselect", description=__doc__)
    parser.add_argument(
        "-V", "--version", action="version", version=f"dbselect {version('dbselect')}"
    )
    parser.add_argument("--log", choices=["text", "json"],
                        help="a line a minute on long work, to the error stream")  # fmt: skip
    quiet_help = "print errors only: no result, no warnings"
    parser.add_argument("-q", "--quiet", action="store_true", help=quiet_help)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, text in (COMMANDS | {name: one.about for name, one in METHODS.items()}).items():
        names = [name, *_ALSO.get(name, [])]
        subparser = commands.add_parser(name, help=text, description=text, aliases=names[1:])
        if words is None or any(alias in words for alias in names):
            command: Command
            if name in METHODS:
                command = command_of(name)
            else:
                command = import_module(f"{__name__}.{name}").COMMAND
            command.add(subparser)
            subparser.add_argument(
                "-q", "--quiet", action="store_true", default=SUPPRESS, help=quiet_help
            )
            subparser.set_defaults(run=command.run, parser=subparser)
    return parser
