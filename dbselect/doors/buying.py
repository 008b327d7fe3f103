"""``dbselect tables``: which tables to buy, told by a JSON file of candidates."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from dbselect.errors import ArgumentError
from dbselect.methods.anytime_tables import AnytimeTablesOptions, anytime_tables
from dbselect.methods.candidates import Candidate, naming
from dbselect.record.columns import unknown
from dbselect.results.sequence import Sequence
from dbselect.sources.looked_up import UNMATCHED


def add_command(commands: Any, run: Callable[[argparse.Namespace], None]) -> None:
    """Add the command to a parser; it needs no default, the record of options has them."""
    command = commands.add_parser("tables", help="order tables to join by gain per cost")
    command.set_defaults(command=run)
    command.add_argument("source", help="Parquet file, folder or glob of the facts")
    command.add_argument("--target", required=True, help="column to predict")
    command.add_argument(
        "--candidates",
        required=True,
        help='JSON file: name -> {"table": path, "key": name, list or mapping, "cost": 5, ...}',
    )
    command.add_argument("--groups", help="JSON file: name -> list of columns of the facts")
    command.add_argument("--costs", help="JSON file: name of such a group -> cost")
    for name in ("--budget", "--epsilon", "--ridge"):
        command.add_argument(name, default=argparse.SUPPRESS, type=float)
    command.add_argument("--max-groups", default=argparse.SUPPRESS, type=int)
    command.add_argument("--always", default=argparse.SUPPRESS, nargs="+", help="taken first")
    command.add_argument("--unmatched", default=argparse.SUPPRESS, choices=UNMATCHED)
    command.add_argument("--weight", default=argparse.SUPPRESS, help="column of row weights")
    command.add_argument("--out", help="Parquet file to write the steps to")


def bought(options: argparse.Namespace, candidates: Any, groups: Any, costs: Any) -> Sequence:
    """Return the sequence that the arguments of the command ask for.

    Parameters
    ----------
    options : as parsed
    candidates, groups, costs : what the JSON files hold

    Raises
    ------
    ArgumentError : the candidates are no mapping, or one lacks something
    """
    known = AnytimeTablesOptions.names()
    given = {name: value for name, value in vars(options).items() if name in known}
    if not isinstance(candidates, Mapping):
        raise ArgumentError(f"--candidates: '{options.candidates}' must map names to candidates")
    named = {name: _candidate(name, each) for name, each in candidates.items()}
    return anytime_tables(options.source, options.target, named, groups, costs, **given)


def _candidate(name: str, given: Any) -> Candidate:
    names = [field.name for field in fields(Candidate)]
    needed = [field.name for field in fields(Candidate) if field.default is MISSING]
    if not isinstance(given, Mapping):
        raise ArgumentError(f"candidate '{name}' is {given!r}; it must have {needed}")
    for option in given:
        if option not in names:
            raise ArgumentError(f"candidate '{name}' has {unknown('option', option, names)}")
    lacking = [option for option in needed if option not in given]
    if lacking:
        raise ArgumentError(f"candidate '{name}' lacks {lacking}")
    with naming(name):
        return Candidate(**given)
