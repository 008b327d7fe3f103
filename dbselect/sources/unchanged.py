"""Check that files do not change in and between passes, which would mix old and new rows."""

import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbselect.errors import SourceError

#: Nanoseconds within which two writes may leave the same time: some ticks of a kernel.
_TICKS = 20_000_000
#: Identity of a file: its inode, and what changes with its bytes.
Stamp = tuple[Any, ...]


def _stamps(paths: Iterable[str]) -> dict[str, Stamp]:
    """Return inode, size and time of local files; omit files that no longer exist."""
    stamps: dict[str, Stamp] = {}
    for path in paths:
        with suppress(OSError):
            status = os.stat(path)
            stamps[path] = status.st_ino, status.st_size, status.st_mtime_ns
    return stamps


@dataclass(frozen=True)
class Unchanged:
    """Stamps of files from when they were opened."""

    seen: Mapping[str, Stamp] = field(default_factory=dict)  # path -> stamp
    look: Callable[[Iterable[str]], Mapping[str, Stamp]] = _stamps

    @contextmanager
    def checked(self) -> Generator[None]:
        """Check the files before and after they are read, by two stats of each or two listings."""
        now = self.look(self.seen)
        for path, stamp in self.seen.items():
            if now.get(path) != stamp:
                raise SourceError(f"'{path}' has changed since it was opened; read it once more")
        try:
            yield
        except Exception as error:
            # The error may come from a file that changed while it was read: report that instead.
            self._check_in_place(error)
            raise
        self._check_in_place(None)

    def _check_in_place(self, cause: Exception | None) -> None:
        now = self.look(self.seen)
        for path, stamp in self.seen.items():
            if path in now and now[path][0] == stamp[0] and now[path] != stamp:
                raise SourceError(
                    f"'{path}' was written over while it was read; write another file and rename "
                    "it, and read it once more"
                ) from cause


def unchanged_of(paths: Iterable[str]) -> Unchanged:
    """Stamp local files as they are now, without the folders among them."""
    paths = [path for path in paths if Path(path).is_file()]
    seen = _stamps(paths)
    if any(written > time.time_ns() - _TICKS for _, _, written in seen.values()):
        # A next write might leave the same time, so wait until it cannot.
        time.sleep(_TICKS / 1e9)
        seen = _stamps(paths)
    return Unchanged(seen)


def unchanged_at(versions: Mapping[str, str], look: Callable[[], Mapping[str, str]]) -> Unchanged:
    """Stamp files of an object store, address -> version; `look` returns the current versions."""

    def stamps(_: Iterable[str]) -> dict[str, Stamp]:
        return {path: (None, version) for path, version in look().items()}

    return Unchanged({path: (None, version) for path, version in versions.items()}, stamps)
