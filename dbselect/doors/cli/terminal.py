"""What a terminal can show: letters, borders and colours."""

import os
import sys
from contextlib import suppress
from typing import TextIO

#: Codes of ANSI.
RED, YELLOW, _PLAIN = "\x1b[1;31m", "\x1b[33m", "\x1b[0m"


def escape_letters() -> None:
    """Have letters that a stream cannot show escaped, where they would end the command."""
    for stream in (sys.stdout, sys.stderr):
        # Streams of tests and notebooks have no such method.
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def has_borders() -> bool:
    """Whether lines of boxes can be printed: not in ASCII, the C locale or a dumb terminal."""
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG")
    if locale in ("C", "POSIX") or os.environ.get("TERM") == "dumb":
        return False
    try:
        "┌═│".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def coloured(text: str, code: str, stream: TextIO) -> str:
    """Return a text in a colour on terminals, unless ``NO_COLOR`` is set (no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or not stream.isatty() else f"{code}{text}{_PLAIN}"


def leave_pipe() -> None:
    """Have nothing more written to a pipe that is closed, at the end of the process neither."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError, ValueError):
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
