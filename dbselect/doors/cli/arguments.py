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
#: What a table can be.
SOURCE = "file, folder or glob of Parquet, CSV, TSV, NDJSON or Arrow, or folder of a Delta table"


def add_sequence_options(parser: argparse.ArgumentParser) -> None:
    """Add what `anytime_sequence` takes, but for how a table is read."""
    parser.add_argument(
        "--target",
        required=True,
        action="append",
        help="column to predict; given twice, two responses that share the groups",
    )
    parser.add_argument("--groups", help="JSON file: name -> list of columns or globs")
    parser.add_argument("--costs", help="JSON file: name -> cost")
    parser.add_argument("--rule", default=UNSET, help=_one_of(RuleName))
    parser.add_argument("--ridge", default=UNSET, type=float)
    parser.add_argument(
        "--scale", default=UNSET, type=_flag, metavar="yes|no", help="ridge on unit variances"
    )
    add_intercept(parser)
    parser.add_argument("--budget", default=UNSET, type=float, help="limit on the summed cost")
    parser.add_argument("--max-groups", default=UNSET, type=int)
    parser.add_argument("--always", default=UNSET, nargs="+", help="groups to take first")
    parser.add_argument(
        "--c-min", default=UNSET, type=float, help="rule doubling: of the first group"
    )
    parser.add_argument("--family", default=UNSET, help=f"{_one_of(FamilyName)}, tweedie(1.5)")
    parser.add_argument(
        "--offset", default=UNSET, help="of a family: column added to the predictor"
    )
    parser.add_argument(
        "--positive", default=UNSET, help="of binomial: level of the target that counts as 1"
    )
    parser.add_argument("--max-iter", default=UNSET, type=int, help="of a family: most passes")
    parser.add_argument("--tol", default=UNSET, type=float, help="of a family: when to end")


def add_intercept(parser: argparse.ArgumentParser) -> None:
    """Add whether models have a constant term."""
    parser.add_argument(
        "--intercept", default=UNSET, type=_flag, metavar="yes|no", help="no: through the origin"
    )


def add_search(parser: argparse.ArgumentParser) -> None:
    """Add what `anytime_sequence` takes."""
    parser.add_argument("source", help=f"{SOURCE}; or what 'gram' wrote, - from a pipe")
    add_sequence_options(parser)
    parser.add_argument("--weight", default=UNSET, help="column of row weights")
    add_null_policy(parser)


def add_wide(parser: argparse.ArgumentParser) -> None:
    """Add the search of a table too wide for its Gram."""
    parser.add_argument(
        "--wide",
        default=UNSET,
        type=_flag,
        metavar="yes|no",
        help="read the table some times for the rows of its Gram that are needed",
    )
    parser.add_argument(
        "--resume", default=UNSET, metavar="FILE", help="go on from what a wide search wrote"
    )


def add_cv(parser: argparse.ArgumentParser) -> None:
    """Add cross-validation."""
    parser.add_argument(
        "--cv",
        "--fold",
        dest="cv",
        type=int,
        metavar="FOLDS",
        help="cut the table into so many folds, for r2 on held-out rows",
    )


def add_prediction(parser: argparse.ArgumentParser) -> None:
    """Add a sequence and what it may spend."""
    parser.add_argument("sequence", help="file that 'sequence --out' wrote, - from a pipe")
    parser.add_argument(
        "--budget", default=UNSET, type=float, help="the longest prefix within it predicts"
    )
    parser.add_argument(
        "--handle-unknown", default=UNSET, help="levels never seen: unavailable, error or zero"
    )


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


def _one_of(names: Any) -> str:
    """Return names in words; the record of options checks them."""
    return ", ".join(get_args(names))


def _flag(text: str) -> bool:
    if text not in ("yes", "no"):
        raise argparse.ArgumentTypeError(f"'{text}' must be yes or no")
    return text == "yes"


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
    ArgumentError : it cannot be read, or is not JSON
    """
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


def named(options: argparse.Namespace) -> dict[str, Any]:
    """Return the groups and costs that were given."""
    return {
        "groups": read_option(options.groups, "--groups"),
        "costs": read_option(options.costs, "--costs"),
    }
