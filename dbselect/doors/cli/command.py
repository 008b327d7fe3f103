"""A command, the parser that all of them share, and the options that it reads."""

import argparse
import difflib
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dbselect.doors.cli.out import (
    MISTAKE,
    RED,
    SKIPPED,
    STDOUT,
    TOLD,
    TooManySkippedError,
    check_ending,
    coloured,
)
from dbselect.errors import ArgumentError
from dbselect.options.kinds import Kind
from dbselect.options.option import REQUIRED, Option, options_of

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem

#: Of an option without a default: where nothing is given, the table of options has one.
UNSET = argparse.SUPPRESS
#: Settings of an option that takes several values, at once or one after the other.
SEVERAL: dict[str, Any] = {"nargs": "+", "action": "extend"}
#: What a table can be.
SOURCE = "file, folder or glob of Parquet, CSV, TSV, NDJSON or Arrow, or Delta or Iceberg table"
#: Options read from a JSON file, and the content of that file.
_JSON = {
    "groups": "name -> list of columns or globs",
    "costs": "name -> cost > 0",
    "penalty_factors": "column, glob or group -> factor >= 0",
    "grid": "option -> values to try",
}


class Options(argparse.Namespace):
    """The options of a command, and what every command does with them."""

    def given(self, names: Iterable[str]) -> dict[str, Any]:
        """Return those of some options that were given, by the names of Python."""
        found = {}
        for name in names:
            if name in _JSON:
                value = self.from_file(name)
                if value is not None:
                    found[name] = value
            elif name in self:
                found[name] = getattr(self, name)
        if "null_policy" in found:
            pairs = [text.rpartition("=") for text in found["null_policy"]]
            policies = {columns if equals else "*": policy for columns, equals, policy in pairs}
            # A stored Gram takes no policy but the plain one.
            found["null_policy"] = policies["*"] if list(policies) == ["*"] else policies
        return found

    def from_file(self, name: str) -> Any:
        """Return what the JSON file of an option holds, None if none was given."""
        path, option = getattr(self, name, None), _flag(name)
        if path is None:
            return None
        try:
            return json.loads(Path(path).read_text())
        except OSError as error:
            raise ArgumentError(
                f"{option} is '{path}'; it must be a JSON file: {error.strerror}"
            ) from None
        except ValueError as error:
            raise ArgumentError(f"{option}: '{path}' is not JSON: {error}") from None

    def fields(self) -> dict[str, Any]:
        """Return what was given of a problem: target, groups, costs and fields."""
        from dbselect.options.names import PROBLEM_FIELDS

        target = self.target[0] if len(self.target) == 1 else self.target
        return {"target": target, **self.given(("groups", "costs", *PROBLEM_FIELDS))}

    def problem(self, source: Any) -> "Problem":
        """Return the problem that the arguments are about."""
        from dbselect.problem.problem import Problem

        return Problem(source, **self.fields())

    def check(self) -> None:
        """Refuse a result that could not be written, or a limit that is none, before reading."""
        from dbselect.record.writing import check_place

        if getattr(self, "max_skipped", None) is not None:
            _most(self.max_skipped, 0)
        out = self.out
        if out is None:
            return
        if out == STDOUT and self.endings:
            if self.json:
                raise ArgumentError(
                    "--out is '-' and --json prints to standard output too; give one of them"
                )
            return
        if not Path(out).absolute().parent.is_dir():
            raise ArgumentError(f"--out is '{out}'; its folder does not exist")
        # The extension can go into a folder, under its own name.
        if self.command == "extension" and Path(out).is_dir():
            return
        check_place(out)
        check_ending(out, self.endings)

    def check_skipped(self, rows: Any, skipped: Any) -> None:
        """Refuse a result that left out more rows than ``--max-skipped`` allows."""
        limit = self.max_skipped
        if limit is not None and skipped > _most(limit, rows + skipped):
            raise TooManySkippedError(
                f"{skipped:,} of {rows + skipped:,} rows are left out; --max-skipped is {limit}"
            )

    def tell(self, lines: Iterable[str], facts: Mapping[str, Any]) -> None:
        """Print lines, or the facts as JSON; nothing if standard output has the result itself."""
        if self.quiet:
            return
        if self.json:
            print(json.dumps(facts, default=str))
        elif self.out != STDOUT:
            for line in lines:
                print(line)


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
        options, unknown = self.parse_known_args(args, namespace or Options())
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

    def add_source(self) -> None:
        """Add a table or a Gram."""
        self.add_argument(
            "source", help=f"{SOURCE}; or what 'gram' wrote; - for a table or a Gram from a pipe"
        )

    def add_problem(self, *, fields: Iterable[str] | None = None, needed: bool = True) -> None:
        """Add the options of a problem; `fields` names those that make sense, by default all."""
        from dbselect.spec.fields import ProblemOptions

        self.add_argument(
            "--target",
            required=needed,
            action="append",
            default=None if needed else [],
            help="column to predict; given twice, two responses that share the groups",
        )
        known = options_of(ProblemOptions)
        names = ["groups", "costs", *(known if fields is None else fields)]
        for name in names:
            if name == "null_policy":
                self.add_null_policy()
            elif name in _JSON:
                self._add_json(name)
            else:
                self.add_option(name, known[name])

    def add_option(self, name: str, option: Option) -> None:
        """Add an option of a method as a flag, if it can be parsed from text."""
        kind = option.kind
        if name in _JSON:
            self._add_json(name)
            return
        if kind.parse is None:
            return
        parse = partial(_parsed, kind, kind.parse)
        settings: dict[str, Any] = {"type": parse, "default": UNSET, "help": _help(option)}
        if kind.several:
            settings |= SEVERAL
        if kind.sql == "BOOLEAN":
            settings["metavar"] = "yes|no"
        self.add_argument(_flag(name), required=option.default is REQUIRED, **settings)

    def add_flags(self, texts: Mapping[str, str], **settings: Any) -> None:
        """Add options by name with their help; those that are not given are left to Python."""
        for name, told in texts.items():
            self.add_argument(_flag(name), default=UNSET, help=told, **settings)

    def _add_json(self, name: str) -> None:
        self.add_argument(_flag(name), metavar="FILE", help=f"JSON file: {_JSON[name]}")

    def add_null_policy(self) -> None:
        """Add what happens to missing values."""
        told = (
            "missing values: skip their row, error, mean, or indicator (0 and a column of 0 and "
            "1); COLUMNS is a name or a glob, and the last that means a column holds"
        )
        self.add_flags({"null-policy": told}, nargs="+", metavar="[COLUMNS=]POLICY")

    def add_prediction(self) -> None:
        """Add a sequence, or a model, and what it may spend."""
        self.add_argument(
            "sequence", help="file that 'sequence --out' wrote, or of a stored model; - from a pipe"
        )
        self.add_flags({"budget": "the longest prefix within it predicts"}, type=float)
        told = "levels that the fit has not seen: unavailable, error or mean"
        self.add_flags({"handle-unknown": told})

    def add_out(self, what: str, endings: Iterable[str], *, required: bool = False) -> None:
        """Add ``--out``, whose name has one of the endings if there are some, and ``--json``."""
        told = f" ({', '.join(endings)}), or - for standard output" if endings else ""
        self.add_argument("--out", required=required, metavar="FILE", help=f"file for {what}{told}")
        self.add_argument("--json", action="store_true", help="print JSON, for other programs")
        self.set_defaults(endings=tuple(endings))

    def add_max_skipped(self) -> None:
        """Add the limit on rows that are left out."""
        self.add_argument(
            "--max-skipped",
            metavar="ROWS|SHARE%",
            help=f"end with exit code {SKIPPED} where more rows are left out: 100, or 0.5%%",
        )


@dataclass(frozen=True)
class Command:
    """What a module of a command has; libraries are loaded by `run`, not by its module."""

    # adds the arguments to the parser of the command
    add: Callable[[Parser], None]
    run: Callable[[Options], None]  # executes the command


def _nearest(wrong: str, known: list[str]) -> str:
    """Return a misspelt word, and what it may mean."""
    near = difflib.get_close_matches(wrong.partition("=")[0], known, 1)
    return f"'{wrong}'" + "".join(f"; did you mean '{one}'?" for one in near)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _help(option: Option) -> str:
    """Return the text of an option for a terminal, where no quotes set names off."""
    text = re.sub("^False", "no:", option.text)
    return text.replace('``"', "").replace('"``', "").replace("`", "").replace("%", "%%")


def _parsed(kind: Kind, parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError:
        wanted = "be yes or no" if kind.sql == "BOOLEAN" else kind.words or "be a number"
        raise argparse.ArgumentTypeError(f"'{text}' must {wanted}") from None


def _most(limit: str, rows: int) -> float:
    number, percent = limit.removesuffix("%"), limit.endswith("%")
    try:
        found = float(number) if percent else int(number)
    except ValueError:
        found = math.nan
    if not (0 <= found <= 100 if percent else found >= 0):
        raise ArgumentError(
            f"--max-skipped is '{limit}'; it must be a number of rows, or a share from 0% to 100%"
        )
    return found / 100 * rows if percent else found
