"""``dbselect completion``: print a shell script that completes commands, options and files."""

import argparse
from typing import Any

from dbselect.doors.cli.command import Command, Options, Parser
from dbselect.errors import EngineError

SHELLS = ("bash", "zsh", "tcsh")


def _add(parser: Parser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="whose script is printed")
    parser.set_defaults(out=None)


def _run(options: Options) -> None:
    from dbselect.doors.cli import every_command

    try:
        import shtab
    except ImportError:
        raise EngineError(
            "completion needs shtab: pip install 'dbselect[completion]'; the printed "
            "script runs without it"
        ) from None
    parser = every_command()
    _complete_files(parser, shtab.FILE)
    print(shtab.complete(parser, shell=options.shell))


def _complete_files(parser: Parser, file: Any) -> None:
    """Complete file names for free-text arguments; `shtab` reads `action.complete`."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_files(command, file)
        elif action.choices is None and action.nargs != 0:
            action.complete = file  # type: ignore[attr-defined]


COMMAND = Command(_add, _run)
