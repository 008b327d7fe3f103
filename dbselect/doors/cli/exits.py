"""Exit codes, which scripts go by: those above 2 are of ``sysexits.h``, or 128 and a signal."""

import errno
import re

from dbselect.errors import BusyError, DataError

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
