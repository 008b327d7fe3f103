"""What several commands take: how a table is read, and what is asked of a sequence."""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from dbselect.errors import ArgumentError
from dbselect.methods.names import FamilyName, RuleName

#: Of an option without a default: where nothing is given, the record of options has one.
UNSET = argparse.SUPPRESS


def add_sequence_options(parser: argparse.ArgumentParser) -> None:
    """Add what `anytime_sequence` takes, but for how a table is read."""
    parser.add_argument("--target", required=True, help="column to predict")
    parser.add_argument("--groups", help="JSON file: name -> list of columns or globs")
    parser.add_argument("--costs", help="JSON file: name -> cost")
    parser.add_argument("--rule", default=UNSET, choices=get_args(RuleName))
    parser.add_argument("--ridge", default=UNSET, type=float)
    parser.add_argument("--budget", default=UNSET, type=float, help="limit on the summed cost")
    parser.add_argument("--max-groups", default=UNSET, type=int)
    parser.add_argument("--always", default=UNSET, nargs="+", help="groups to take first")
    parser.add_argument(
        "--c-min", default=UNSET, type=float, help="rule doubling: of the first group"
    )
    parser.add_argument("--family", default=UNSET, choices=get_args(FamilyName))


def add_search(parser: argparse.ArgumentParser) -> None:
    """Add what `anytime_sequence` takes."""
    parser.add_argument("source", help="Parquet file, folder or glob, or what 'gram' wrote")
    add_sequence_options(parser)
    parser.add_argument("--weight", default=UNSET, help="column of row weights")
    add_null_policy(parser)


def add_null_policy(parser: argparse.ArgumentParser) -> None:
    """Add what becomes of missing values."""
    parser.add_argument(
        "--null-policy",
        nargs="+",
        default=UNSET,
        metavar="[COLUMNS=]POLICY",
        help="missing values: skip their row, error, mean, or indicator (0 and a column of 0 "
        "and 1); COLUMNS is a name or a glob, and the last that means a column holds",
    )


def options_given(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Return those of some options that were given, by the names of Python."""
    found = {name: value for name, value in vars(options).items() if name in names}
    if "null_policy" in found:
        found["null_policy"] = _policies(found["null_policy"])
    return found


def _policies(texts: list[str]) -> Any:
    pairs = [text.rpartition("=") for text in texts]
    policies = {columns if equals else "*": policy for columns, equals, policy in pairs}
    # A stored Gram takes no policy but the plain one.
    return policies["*"] if list(policies) == ["*"] else policies


def read_option(path: str | None, option: str) -> Any:
    """Return what a JSON file holds, None if none was given.

    Raises
    ------
    ArgumentError : it is not JSON
    """
    if path is None:
        return None
    try:
        return json.loads(Path(path).read_text())
    except ValueError as error:
        raise ArgumentError(f"{option}: '{path}' is not JSON: {error}") from None


def named(options: argparse.Namespace) -> dict[str, Any]:
    """Return the groups and costs that were given."""
    return {
        "groups": read_option(options.groups, "--groups"),
        "costs": read_option(options.costs, "--costs"),
    }
