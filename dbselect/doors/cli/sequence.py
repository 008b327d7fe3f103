"""``dbselect sequence``: order groups of columns by gain per cost."""

import argparse
from typing import TYPE_CHECKING, Any

from dbselect.doors.cli.arguments import add_cv, add_search, add_wide, named, options_given
from dbselect.doors.cli.command import Command
from dbselect.doors.cli.exits import add_max_skipped
from dbselect.doors.cli.out import RECORDS, add_out
from dbselect.errors import ArgumentError, SourceError

if TYPE_CHECKING:
    from dbselect.judging.validation import CrossValidation

#: Options of the families that read a table in passes.
_IN_PASSES = ("offset", "positive", "max_iter", "tol")


def _add(parser: argparse.ArgumentParser) -> None:
    add_search(parser)
    add_wide(parser)
    add_cv(parser)
    add_max_skipped(parser)
    add_out(parser, "the sequence", RECORDS)


def _run(options: argparse.Namespace) -> None:
    from dbselect.doors.cli.printing import show
    from dbselect.doors.cli.stored import source_of

    source = source_of(options.source)
    held_out = cross_validated(source, options)
    scores = None
    if held_out is not None:
        names = ["step", "spent", "r2", "r2_std_error", "mse", "deviance", "accuracy"]
        kept = [name for name in names if held_out.table[name].count()]
        scores = held_out.table.select(*kept, "best", "one_standard_error")
    show(options, asked_sequence(source, options), "In no group", scores)


def asked_sequence(source: Any, options: argparse.Namespace) -> Any:
    """Return the sequence that the arguments ask for."""
    from dbselect.methods.anytime import anytime_sequence

    return anytime_sequence(source, _target(options), **named(options), **_options(options))


def cross_validated(source: Any, options: argparse.Namespace) -> "CrossValidation | None":
    """Return how the sequence does on held-out rows, None if that was not asked for.

    Raises
    ------
    ArgumentError : the source is a Gram
    """
    from dbselect.methods.cross_validate import cross_validate
    from dbselect.sources.open import stored_gram

    if options.cv is None:
        return None
    if stored_gram(source) is not None:
        raise ArgumentError(
            f"--cv is {options.cv}; a Gram holds no rows to cut, which the table does"
        )
    return cross_validate(
        source, _target(options), "anytime_sequence", fold=options.cv, **named(options),
        **_options(options),
    )  # fmt: skip


def _target(options: argparse.Namespace) -> Any:
    return options.target[0] if len(options.target) == 1 else options.target


def _options(options: argparse.Namespace) -> dict[str, Any]:
    from dbselect.doors.cli.stored import stored_sequence
    from dbselect.methods.anytime import AnytimeOptions

    given = options_given(options, [*AnytimeOptions.names(), *_IN_PASSES])
    if "resume" in given:
        try:
            given["resume"] = stored_sequence(given["resume"])
        except SourceError as error:
            raise SourceError(f"--resume: {error}") from None
    return given


COMMAND = Command(_add, _run)
