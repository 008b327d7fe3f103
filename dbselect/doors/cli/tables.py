"""``dbselect tables``: which tables to buy, told by a JSON file of candidates."""

import argparse
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from dbselect.doors.cli.arguments import (
    SOURCE,
    UNSET,
    add_intercept,
    named,
    options_given,
    read_option,
)
from dbselect.doors.cli.command import Command
from dbselect.doors.cli.exits import add_max_skipped
from dbselect.doors.cli.out import RECORDS, add_out
from dbselect.errors import ArgumentError

if TYPE_CHECKING:
    from dbselect.methods.candidates import Candidate


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help=SOURCE + ": the facts")
    parser.add_argument("--target", required=True, help="column to predict")
    parser.add_argument(
        "--candidates",
        required=True,
        help='JSON file: name -> {"table": path, "key": name, list or mapping, "cost": 5, ...}',
    )
    parser.add_argument("--groups", help="JSON file: name -> list of columns of the facts")
    parser.add_argument("--costs", help="JSON file: name of such a group -> cost")
    for name in ("--budget", "--epsilon", "--ridge"):
        parser.add_argument(name, default=UNSET, type=float)
    add_intercept(parser)
    parser.add_argument("--max-groups", default=UNSET, type=int)
    parser.add_argument("--always", default=UNSET, nargs="+", help="taken first")
    parser.add_argument("--unmatched", default=UNSET, help="skip, zero or indicator")
    parser.add_argument("--weight", default=UNSET, help="column of row weights")
    add_max_skipped(parser)
    add_out(parser, "the sequence", RECORDS)


def _run(options: argparse.Namespace) -> None:
    from dbselect.doors.cli.printing import show
    from dbselect.methods.anytime_tables import AnytimeTablesOptions, anytime_tables

    candidates = read_option(options.candidates, "--candidates")
    if not isinstance(candidates, Mapping):
        raise ArgumentError(f"--candidates: '{options.candidates}' must map names to candidates")
    sequence = anytime_tables(
        options.source,
        options.target,
        {name: _candidate(name, each) for name, each in candidates.items()},
        **named(options),
        **options_given(options, AnytimeTablesOptions.names()),
    )
    show(options, sequence, "Not bought")


def _candidate(name: str, told: Any) -> "Candidate":
    from dbselect.methods.candidates import Candidate, naming
    from dbselect.record.columns import unknown

    names = [field.name for field in fields(Candidate)]
    needed = [field.name for field in fields(Candidate) if field.default is MISSING]
    if not isinstance(told, Mapping):
        raise ArgumentError(f"candidate '{name}' is {told!r}; it must have {needed}")
    for option in told:
        if option not in names:
            raise ArgumentError(f"candidate '{name}' has {unknown('option', option, names)}")
    lacking = [option for option in needed if option not in told]
    if lacking:
        raise ArgumentError(f"candidate '{name}' lacks {lacking}")
    with naming(name):
        return Candidate(**told)


COMMAND = Command(_add, _run)
