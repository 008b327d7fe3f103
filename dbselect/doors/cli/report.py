"""``dbselect report``: a sequence, told on one page of HTML."""

import argparse

from dbselect.doors.cli.arguments import add_search, named, options_given
from dbselect.doors.cli.command import Command
from dbselect.doors.cli.sequence import asked_sequence
from dbselect.errors import ArgumentError


def _add(parser: argparse.ArgumentParser) -> None:
    add_search(parser)
    parser.add_argument("--out", required=True, help="HTML file to write")
    parser.add_argument(
        "--fold", type=int, help="cut the table into so many folds, for r2 on held-out rows"
    )


def _run(options: argparse.Namespace) -> None:
    from dbselect.methods.anytime import AnytimeOptions
    from dbselect.methods.cross_validate import cross_validate
    from dbselect.sources.open import stored_gram

    table = None if stored_gram(options.source) is not None else options.source
    if options.fold is not None and table is None:
        raise ArgumentError(
            f"--fold is {options.fold}; a Gram holds no rows to cut, which the table does"
        )
    sequence = asked_sequence(options.source, options)
    held_out = None
    if options.fold is not None:
        held_out = cross_validate(
            table, options.target, "anytime_sequence", fold=options.fold, **named(options),
            **options_given(options, AnytimeOptions.names()),
        )  # fmt: skip
    sequence.report(options.out, source=table, held_out=held_out)
    print(f"{options.out}: {len(sequence.spent) - 1} steps, {sequence.stop.value}")
    if table is None:
        print("Residuals and calibration need the table; this was a Gram.")


COMMAND = Command(_add, _run)
