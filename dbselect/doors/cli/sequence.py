"""``dbselect sequence``: order groups of columns by gain per cost."""

import argparse
from typing import Any

from dbselect.doors.cli.arguments import add_search, named, options_given
from dbselect.doors.cli.command import Command


def _add(parser: argparse.ArgumentParser) -> None:
    add_search(parser)
    parser.add_argument("--out", help="Parquet file to write the steps to")


def _run(options: argparse.Namespace) -> None:
    from dbselect.doors.cli.printing import show

    show(asked_sequence(options.source, options), options.out, "In no group")


def asked_sequence(source: Any, options: argparse.Namespace) -> Any:
    """Return the sequence that the arguments ask for."""
    from dbselect.methods.anytime import AnytimeOptions, anytime_sequence

    given = options_given(options, AnytimeOptions.names())
    return anytime_sequence(source, options.target, **named(options), **given)


COMMAND = Command(_add, _run)
