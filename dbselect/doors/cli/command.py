"""A command of the command line, the common parser, and the parsed options."""

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
    HELP,
    MISTAKE,
    RED,
    SKIPPED,
    STDOUT,
    TooManySkippedError,
    check_ending,
    coloured,
)
from dbselect.errors import ArgumentError, shown, unknown
from dbselect.options.kinds import Kind
from dbselect.options.option import REQUIRED, Option, options_of

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem

#: Default of options that are not given; their defaults are in the tables of options.
UNSET = argparse.SUPPRESS
#: Settings of an option with several values, given at once or repeatedly.
SEVERAL: dict[str, Any] = {"nargs": "+", "action": "extend"}
#: Forms of a table.
SOURCE = "file, folder or glob of Parquet, CSV, TSV, NDJSON or Arrow, or Delta or Iceberg table"
#: Options that are read from a JSON file, with the content of the file.
_JSON = {
    "groups": "name -> list of columns or globs",
    "costs": "name -> cost > 0",
    "prices": "any of costs, shared, needs, one_of and limits, as fields of a problem",
    "penalty_factors": "column, glob or group -> factor >= 0",
    "signs": 'column or glob -> "+" or "-"',
    "grid": "option -> values to try",
}


class Options(argparse.Namespace):
    """The parsed options of a command, and common steps of all commands."""

    def given(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the options among `names` that were given, by their Python names."""
        values = {}
        for name in names:
            if name in _JSON:
                value = self.from_file(name)
                if value is not None:
                    values[name] = value
            elif name in self:
                values[name] = getattr(self, name)
        if "costs" in names and (prices := self.from_file("prices")) is not None:
            values |= self._prices(prices, values)
        if "null_policy" in values:
            pairs = [text.rpartition("=") for text in values["null_policy"]]
            policies = {columns if equals else "*": policy for columns, equals, policy in pairs}
            # A stored Gram accepts only a policy for all columns.
            values["null_policy"] = policies["*"] if list(policies) == ["*"] else policies
        return values

    def _prices(self, prices: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """Check the content of ``--prices``, which is fields of a problem."""
        from dbselect.options.conditions import CONDITIONS

        if not isinstance(prices, dict):
            raise ArgumentError(f"--prices holds {shown(prices)}; it must map names to prices")
        for name in prices:
            if name not in ("costs", *CONDITIONS):
                known = ["costs", *CONDITIONS]
                raise ArgumentError(f"--prices names {unknown('field', name, known)}")
        if "costs" in prices and "costs" in given:
            raise ArgumentError("--costs and --prices both give costs; give them once")
        return prices

    def from_file(self, name: str) -> Any:
        """Return the content of an option's JSON file, None if no file was given."""
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
        """Return the given arguments of a problem: target, groups, costs and fields."""
        from dbselect.options.names import PROBLEM_FIELDS

        target = self.target[0] if len(self.target) == 1 else self.target
        return {"target": target, **self.given(("groups", "costs", *PROBLEM_FIELDS))}

    def problem(self, source: Any) -> "Problem":
        """Return the problem of the arguments on a source."""
        from dbselect.problem.problem import Problem

        return Problem(source, **self.fields())

    def check(self) -> None:
        """Refuse an output that cannot be written and an invalid limit, before reading."""
        from dbselect.record.files import absolute, check_place

        if getattr(self, "max_skipped", None) is not None:
            _skip_limit(self.max_skipped, 0)
        out = self.out
        if out is None:
            return
        if out == STDOUT and self.endings:
            if self.json:
                raise ArgumentError(
                    "--out is '-' and --json prints to standard output too; give one of them"
                )
            return
        if not absolute(out).parent.is_dir():
            raise ArgumentError(f"--out is '{out}'; its folder does not exist")
        # The extension can go into a folder, under its own name.
        if self.command == "extension" and Path(out).is_dir():
            return
        check_place(out)
        check_ending(out, self.endings)

    def check_skipped(self, rows: Any, skipped: Any) -> None:
        """Refuse a result that skipped more rows than ``--max-skipped`` allows."""
        limit = self.max_skipped
        if limit is not None and skipped > _skip_limit(limit, rows + skipped):
            raise TooManySkippedError(
                f"{skipped:,} of {rows + skipped:,} rows are left out; --max-skipped is {limit}"
            )

    def tell(self, lines: Iterable[str], facts: Mapping[str, Any]) -> None:
        """Print lines, or the facts as JSON; nothing if the result goes to standard output."""
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
        super().__init__(**{"allow_abbrev": False, "epilog": HELP, **settings})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse known arguments; keep all for the error message."""
        self._given = [] if args is None else list(args)
        return super().parse_known_args(args, namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all arguments; suggest the nearest for an unknown one."""
        options, unknown = self.parse_known_args(args, namespace or Options())
        if unknown:
            command: Parser = getattr(options, "parser", self)
            flags = list(command._option_string_actions)
            command.error(f"unknown {_nearest(unknown[0], flags)}")
        return options

    def error(self, message: str) -> NoReturn:
        """Print an error and exit with code 2."""
        flags_given = [text for text in getattr(self, "_given", []) if text.startswith("--")]
        known = list(self._option_string_actions)
        misspelt = [text for text in flags_given if text.partition("=")[0] not in known]
        if misspelt and message.startswith("the following arguments are required"):
            message = f"unknown {_nearest(misspelt[0], known)}"
        choice = re.fullmatch(r"(.*: invalid choice: )'(.*)' \(choose from (.*)\)", message)
        if choice:
            start, wrong, choices = choice.groups()
            known = [text.strip(" '") for text in choices.split(",")]
            message = f"{start}{_nearest(wrong, known)}; it must be one of {', '.join(known)}"
        print(f"{coloured('dbselect:', RED, sys.stderr)} {message}; see '{self.prog} --help'",
              file=sys.stderr)  # fmt: skip
        sys.exit(MISTAKE)

    def add_source(self) -> None:
        """Add the source: a table or a Gram."""
        self.add_argument(
            "source", help=f"{SOURCE}; or what 'gram' wrote; - for a table or a Gram from a pipe"
        )

    def add_problem(self, *, fields: Iterable[str] | None = None, needed: bool = True) -> None:
        """Add the options of a problem, with the given fields, by default all."""
        from dbselect.spec.fields import ProblemOptions

        self.add_argument(
            "--target",
            required=needed,
            action="append",
            default=None if needed else [],
            help="column to predict; given twice, two responses that share the groups",
        )
        all_fields = options_of(ProblemOptions)
        names = ["groups", "costs", "prices", *(all_fields if fields is None else fields)]
        for name in names:
            if name == "null_policy":
                self.add_null_policy()
            elif name in _JSON:
                self._add_json(name)
            else:
                self.add_option(name, all_fields[name])

    def add_option(self, name: str, option: Option) -> None:
        """Add a flag for an option of a method, if it can be parsed from text."""
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
        """Add options by name with their help; Python sets the defaults."""
        for name, text in texts.items():
            self.add_argument(_flag(name), default=UNSET, help=text, **settings)

    def _add_json(self, name: str) -> None:
        self.add_argument(_flag(name), metavar="FILE", help=f"JSON file: {_JSON[name]}")

    def add_null_policy(self) -> None:
        """Add the policy for missing values."""
        text = (
            "missing values: skip their row, error, mean, or indicator (0 and a column of 0 and "
            "1); COLUMNS is a name or a glob, and the last that means a column holds"
        )
        self.add_flags({"null-policy": text}, nargs="+", metavar="[COLUMNS=]POLICY")

    def add_prediction(self) -> None:
        """Add the arguments of a prediction: a sequence or a model, and the budget."""
        self.add_argument(
            "sequence", help="file that 'sequence --out' wrote, or of a stored model; - from a pipe"
        )
        self.add_flags({"budget": "the longest prefix within it predicts"}, type=float)
        text = "levels that the fit has not seen: unavailable, error or mean"
        self.add_flags({"handle-unknown": text})

    def add_out(self, item: str, endings: Iterable[str], *, required: bool = False) -> None:
        """Add ``--out``, with one of the endings if given, and ``--json``."""
        form = f" ({', '.join(endings)}), or - for standard output" if endings else ""
        self.add_argument("--out", required=required, metavar="FILE", help=f"file for {item}{form}")
        self.add_argument("--json", action="store_true", help="print JSON, for other programs")
        self.set_defaults(endings=tuple(endings))

    def add_max_skipped(self) -> None:
        """Add the limit on skipped rows."""
        self.add_argument(
            "--max-skipped",
            metavar="ROWS|SHARE%",
            help=f"end with exit code {SKIPPED} where more rows are left out: 100, or 0.5%%",
        )


@dataclass(frozen=True)
class Command:
    """The two functions of a command; libraries are imported in `run`, not by its module."""

    # adds the arguments to the parser of the command
    add: Callable[[Parser], None]
    run: Callable[[Options], None]  # executes the command


def _nearest(wrong: str, words: list[str]) -> str:
    """Return a misspelt word, with the nearest match."""
    matches = difflib.get_close_matches(wrong.partition("=")[0], words, 1)
    return f"'{wrong}'" + "".join(f"; did you mean '{match}'?" for match in matches)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _help(option: Option) -> str:
    """Return the text of an option for a terminal, without the quotes of markup."""
    text = re.sub("^False", "no:", option.text)
    return text.replace('``"', "").replace('"``', "").replace("`", "").replace("%", "%%")


def _parsed(kind: Kind, parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError:
        requirement = "be yes or no" if kind.sql == "BOOLEAN" else kind.words or "be a number"
        raise argparse.ArgumentTypeError(f"'{text}' must {requirement}") from None


def _skip_limit(limit: str, rows: int) -> float:
    number, percent = limit.removesuffix("%"), limit.endswith("%")
    try:
        value = float(number) if percent else int(number)
    except ValueError:
        value = math.nan
    if not (0 <= value <= 100 if percent else value >= 0):
        raise ArgumentError(
            f"--max-skipped is '{limit}'; it must be a number of rows, or a share from 0% to 100%"
        )
    return value / 100 * rows if percent else value
