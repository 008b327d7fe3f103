"""A command, and the parser that all of them share."""

import argparse
import difflib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from dbselect.doors.cli.exits import MISTAKE, TOLD
from dbselect.doors.cli.terminal import RED, coloured


@dataclass(frozen=True)
class Command:
    """What a module of a command has; libraries are loaded by `run`, not by its module."""

    # adds the arguments to the parser of the command
    add: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]  # executes the command


class Parser(argparse.ArgumentParser):
    """A parser that refuses abbreviated options and reports an error in one sentence."""

    def __init__(self, **settings: Any) -> None:
        # An abbreviation could match another option in a later release and break scripts.
        super().__init__(**{"allow_abbrev": False, "epilog": TOLD, **settings})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse what is known, and remember all for an error."""
        self._given = [] if args is None else list(args)
        return super().parse_known_args(args, namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all arguments; for an unknown one, suggest the nearest."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            used: Parser = getattr(options, "parser", self)
            known = list(used._option_string_actions)
            used.error(f"unknown {_nearest(unknown[0], known)}")
        return options

    def error(self, message: str) -> NoReturn:
        """Print an error and exit with its code."""
        given = [one for one in getattr(self, "_given", []) if one.startswith("--")]
        known = list(self._option_string_actions)
        misspelt = [one for one in given if one.partition("=")[0] not in known]
        if misspelt and message.startswith("the following arguments are required"):
            message = f"unknown {_nearest(misspelt[0], known)}"
        choice = re.fullmatch(r"(.*: invalid choice: )'(.*)' \(choose from (.*)\)", message)
        if choice:
            start, wrong, choices = choice.groups()
            known = [one.strip(" '") for one in choices.split(",")]
            message = f"{start}{_nearest(wrong, known)}; it must be one of {', '.join(known)}"
        print(f"{coloured('dbselect:', RED, sys.stderr)} {message}; see '{self.prog} --help'",
              file=sys.stderr)  # fmt: skip
        sys.exit(MISTAKE)


def _nearest(wrong: str, known: list[str]) -> str:
    """Return a misspelt word, and what it may mean."""
    near = difflib.get_close_matches(wrong.partition("=")[0], known, 1)
    return f"'{wrong}'" + "".join(f"; did you mean '{one}'?" for one in near)
