"""Files that stay what they are in and between passes: one written over would give rows of both."""

import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbselect.errors import SourceError

#: Nanoseconds within which two writes may leave the same time at a file: some ticks of a kernel.
_TICKS = 20_000_000
#: What a file is: its number, and what changes with its bytes.
Stamp = tuple[Any, ...]


def _stamps(paths: Iterable[str]) -> dict[str, Stamp]:
    """Return number, length and time of files of this machine, without those that are gone."""
    found: dict[str, Stamp] = {}
    for path in paths:
        with suppress(OSError):
            told = os.stat(path)
            found[path] = told.st_ino, told.st_size, told.st_mtime_ns
    return found


@dataclass(frozen=True)
class Unchanged:
    """What some files were when they were opened."""

    seen: Mapping[str, Stamp] = field(default_factory=dict)  # path -> stamp
    look: Callable[[Iterable[str]], Mapping[str, Stamp]] = _stamps

    @contextmanager
    def held(self) -> Generator[None]:
        """Read the files. Costs two looks at each, or at a list of them."""
        now = self.look(self.seen)
        for path, stamp in self.seen.items():
            if now.get(path) != stamp:
                raise SourceError(f"'{path}' has changed since it was opened; read it once more")
        try:
            yield
        except Exception as error:
            # An error of an engine or of a check of values may come from a torn file: report that.
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
    """Return some files as they are now, without the folders among them."""
    paths = [path for path in paths if Path(path).is_file()]
    seen = _stamps(paths)
    if any(written > time.time_ns() - _TICKS for _, _, written in seen.values()):
        # What is written next may leave the same time.
        time.sleep(_TICKS / 1e9)
        seen = _stamps(paths)
    return Unchanged(seen)


def unchanged_at(versions: Mapping[str, str], look: Callable[[], Mapping[str, str]]) -> Unchanged:
    """Return files of an object store, address -> ETag, as a look at their names finds them."""

    def stamps(_: Iterable[str]) -> dict[str, Stamp]:
        return {path: (None, version) for path, version in look().items()}

    return Unchanged({path: (None, version) for path, version in versions.items()}, stamps)
