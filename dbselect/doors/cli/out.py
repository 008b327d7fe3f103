"""Where results and errors go: ``--out``, standard output, colours of a terminal, exit codes."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbselect.errors import ArgumentError

if TYPE_CHECKING:
    import polars as pl

    from dbselect.record.gram import Gram
    from dbselect.results.prefixes import Prefixes

import errno
import os
import re
from contextlib import suppress
from typing import TextIO

from dbselect.errors import BusyError, DataError

STDOUT = "-"
#: Endings of files: a record, a table with records, any table, and a record or table with records.
#: A name without an ending is Parquet.
RECORDS = (".parquet", ".json")
NESTED = (".parquet", ".ndjson", ".jsonl", ".arrow", ".feather")
TABLES = (*NESTED, ".csv", ".tsv")
GRAMS = tuple(dict.fromkeys(RECORDS + NESTED))
#: A file of any name.
ANY: tuple[str, ...] = ()


def check_ending(out: str, endings: tuple[str, ...]) -> None:
    """Refuse a file name with another ending; a name without an ending is Parquet."""
    ending = Path(out).suffix
    if out != STDOUT and ending and endings and ending not in endings:
        raise ArgumentError(
            f"--out is '{out}'; its name must end in {', '.join(endings)}, or be '-'"
        )


def write_record(record: "Gram | Prefixes[Any]", out: str | None) -> None:
    """Write a Gram or a sequence as Parquet or JSON; to standard output as JSON."""
    from dbselect.record.files import sealed_json

    if out == STDOUT:
        print(sealed_json(record.to_struct()))
    elif out is not None and Path(out).suffix == ".json":
        record.write_json(out)
    elif out is not None:
        record.write_parquet(out)


def write_frame(frame: "pl.DataFrame", out: str | None) -> None:
    """Write a table in the format of its ending; Parquet with a digest."""
    from dbselect.record.files import write_parquet

    if out is None:
        return
    if out != STDOUT and Path(out).suffix in ("", ".parquet"):
        write_parquet(frame.to_arrow(), out)
        return
    with writing_rows(out) as write:
        write(frame)


@contextmanager
def writing_rows(out: str) -> Iterator[Callable[["pl.DataFrame"], None]]:
    """Yield a function that writes batches of a table; to standard output CSV or NDJSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dbselect.record.files import replacing

    ending = None if out == STDOUT else Path(out).suffix
    opened: list[Any] = []
    file: Any = sys.stdout.buffer

    def write_text(batch: "pl.DataFrame") -> None:
        nested = any(dtype.is_nested() for dtype in batch.dtypes)
        if nested and ending in (".csv", ".tsv"):
            raise ArgumentError(f"--out ends in {ending}, a format without nested columns")
        # Write the text here: engines raise other errors for a closed pipe.
        if nested or ending in (".ndjson", ".jsonl"):
            text = batch.write_ndjson()
        else:
            separator = "\t" if ending == ".tsv" else ","
            text = batch.write_csv(include_header=not opened, separator=separator)
        opened.append(None)
        remaining = memoryview(text.encode())
        while remaining:  # an unbuffered pipe (PYTHONUNBUFFERED) may write only a part
            remaining = remaining[file.write(remaining) :]

    def write_arrow(batch: "pl.DataFrame") -> None:
        import polars as pl

        table = batch.to_arrow(compat_level=pl.CompatLevel.oldest())
        if not opened:
            is_parquet = ending in ("", ".parquet")
            opened.append((pq.ParquetWriter if is_parquet else pa.ipc.new_file)(file, table.schema))
        opened[0].write_table(table)

    arrow = ending in ("", ".parquet", ".arrow", ".feather")
    with ExitStack() as files:
        if out != STDOUT:
            file = files.enter_context(files.enter_context(replacing(out)).open("wb"))
        try:
            yield write_arrow if arrow else write_text
        finally:
            if arrow:
                for writer in opened:
                    writer.close()


#: ANSI escape codes.
RED, YELLOW, _PLAIN = "\x1b[1;31m", "\x1b[33m", "\x1b[0m"


def escape_letters() -> None:
    """Escape letters that a stream cannot encode, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        # Streams of tests and notebooks have no `reconfigure`.
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def has_borders() -> bool:
    """Whether box-drawing characters can be printed: not in ASCII, C locale, dumb terminal."""
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG")
    if locale in ("C", "POSIX") or os.environ.get("TERM") == "dumb":
        return False
    try:
        "┌═│".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def coloured(text: str, code: str, stream: TextIO) -> str:
    """Colour a text on terminals, unless ``NO_COLOR`` is set (no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or not stream.isatty() else f"{code}{text}{_PLAIN}"


def leave_pipe() -> None:
    """Discard further output to a closed pipe, also at the end of the process."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError, ValueError):
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


#: An error in the command, the files or the data, reported in one sentence.
MISTAKE = 2
#: More rows are skipped than ``--max-skipped`` allows; nothing is written (EX_DATAERR).
SKIPPED = 65
#: A server does not answer (EX_UNAVAILABLE).
UNREACHED = 69
#: The disk is full or fails (EX_IOERR); a file may not be read or written (EX_NOPERM).
DISK, RIGHTS = 74, 77
#: Another process is writing; retry later (EX_TEMPFAIL).
TRY_AGAIN = 75
#: Interrupted by the keyboard (SIGINT).
INTERRUPTED = 130
#: The reader of the output has closed the pipe, as ``head`` does (SIGPIPE).
PIPE_CLOSED = 141

#: Printed below the help of every command.
HELP = (
    f"Exit codes: 0 done; {MISTAKE} an error, reported in one sentence; {SKIPPED} more rows left "
    f"out than --max-skipped; {UNREACHED} a server does not answer; {DISK} the disk is full or "
    f"fails; {TRY_AGAIN} another process is writing, try again later; {RIGHTS} a file may "
    f"not be read or written; {INTERRUPTED} interrupted; {PIPE_CLOSED} the pipe was closed."
)


#: Exit code -> error numbers of the system, and words in the messages of engines.
_meanings = {
    DISK: ((errno.ENOSPC, errno.EDQUOT, errno.EIO), "no space left|disk quota|input/output error"),
    UNREACHED: (
        (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT),
        "error sending request|connection refused|could not resolve|dns error|timed out",
    ),
    RIGHTS: ((errno.EACCES, errno.EPERM, errno.EROFS), "permission denied|read-only file system"),
}


def exit_code(error: BaseException | None) -> int:
    """Return the exit code of an error, from its chain of causes."""
    cause = error
    while cause is not None:
        if isinstance(cause, TooManySkippedError):
            return SKIPPED
        if isinstance(cause, BusyError):
            return TRY_AGAIN
        for code, (numbers, words) in _meanings.items():
            if getattr(cause, "errno", None) in numbers or re.search(words, str(cause), re.I):
                return code
        cause = cause.__cause__ or cause.__context__
    return MISTAKE


class TooManySkippedError(DataError):
    """More rows are skipped than ``--max-skipped`` allows."""
