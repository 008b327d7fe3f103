"""Exit codes, which scripts go by: those above 2 are of ``sysexits.h``, or 128 and a signal."""

import argparse
import errno
import math
import re
from typing import Any

from dbselect.errors import ArgumentError, BusyError, DataError

#: An error in the command, the files or the data, reported in one sentence.
MISTAKE = 2
#: More rows are left out than ``--max-skipped`` allows; nothing is written (EX_DATAERR).
SKIPPED = 65
#: The disk is full or fails (EX_IOERR); a file may not be read or written (EX_NOPERM).
DISK, RIGHTS = 74, 77
#: Another process is writing; retry later (EX_TEMPFAIL).
TRY_AGAIN = 75
#: Interrupted by the keyboard (SIGINT).
INTERRUPTED = 130
#: The reader of the output has closed the pipe, as ``head`` does (SIGPIPE).
PIPE_CLOSED = 141

#: Printed below the help of every command.
TOLD = (
    f"Exit codes: 0 done; {MISTAKE} an error, reported in one sentence; {SKIPPED} more rows left "
    f"out than --max-skipped; {DISK} the disk is full or fails; {TRY_AGAIN} another process is "
    f"writing, try again later; {RIGHTS} a file may not be read or written; "
    f"{INTERRUPTED} interrupted; {PIPE_CLOSED} the pipe was closed."
)


#: What errors of the system, and engines that only have its words for them, mean.
_meanings = {
    DISK: ((errno.ENOSPC, errno.EDQUOT, errno.EIO), "no space left|disk quota|input/output error"),
    RIGHTS: ((errno.EACCES, errno.EPERM, errno.EROFS), "permission denied|read-only file system"),
}


def exit_code(error: BaseException | None) -> int:
    """Return the exit code of an error, by what has led to it."""
    told = error
    while told is not None:
        if isinstance(told, TooManySkippedError):
            return SKIPPED
        if isinstance(told, BusyError):
            return TRY_AGAIN
        for code, (numbers, words) in _meanings.items():
            if getattr(told, "errno", None) in numbers or re.search(words, str(told), re.I):
                return code
        told = told.__cause__ or told.__context__
    return MISTAKE


class TooManySkippedError(DataError):
    """More rows are left out than the command line allows."""


def add_max_skipped(parser: argparse.ArgumentParser) -> None:
    """Add the limit on rows that are left out."""
    parser.add_argument(
        "--max-skipped",
        metavar="ROWS|SHARE%",
        help=f"end with exit code {SKIPPED} where more rows are left out: 100, or 0.5%%",
    )


def check_max_skipped(options: argparse.Namespace) -> None:
    """Refuse a limit that is none, before anything is read."""
    if getattr(options, "max_skipped", None) is not None:
        _most(options.max_skipped, 0)


def check_skipped(options: argparse.Namespace, rows: Any, skipped: Any) -> None:
    """Refuse a result that left out more rows than ``options.max_skipped``; None: no limit."""
    limit = options.max_skipped
    if limit is not None and skipped > _most(limit, rows + skipped):
        raise TooManySkippedError(
            f"{skipped:,} of {rows + skipped:,} rows are left out; --max-skipped is {limit}"
        )


def _most(limit: str, rows: int) -> float:
    """Return how many of some rows a limit allows."""
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
