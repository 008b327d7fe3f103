"""What a long refresh has read so far, kept beside the store until the refresh is written.

A store stays what it is until a refresh ends. Where one is killed, the next takes from here the
records whose parts are still as they were.
"""

import secrets
import time
from contextlib import suppress
from pathlib import Path

import polars as pl

from dbselect._log import log
from dbselect.errors import DbselectError
from dbselect.record import files
from dbselect.store.reading import READING, Reading

#: Seconds of reading that a kill may cost.
PAUSE = 60.0
#: Ending of a file, which no glob of tables means.
ENDING = ".unfinished"


class Journal:
    """The records of a refresh under way; those that were read otherwise are left alone."""

    def __init__(self, folder: Path | None, reading: Reading) -> None:
        self._folder = folder
        self._reading = reading
        self._new: list[pl.DataFrame] = []
        self._last = time.monotonic()

    def read(self) -> list[pl.DataFrame]:
        """Return the records that a refresh which did not end has left."""
        found = [frame for path in self._files() if (frame := self._read(path)) is not None]
        if found:
            log.info("%s records of a refresh that did not end", sum(one.height for one in found))
        return found

    def _read(self, path: Path) -> pl.DataFrame | None:
        try:
            frame = pl.DataFrame(files.read_parquet(path, "records"))
            reading = Reading.from_json(frame[READING][0])
        except (DbselectError, pl.exceptions.PolarsError) as error:
            log.info("%s", error)
            return None
        return frame if reading == self._reading else None

    def add(self, frame: pl.DataFrame) -> None:
        """Keep some records; once a minute they are written."""
        if self._folder is None:
            return
        self._new.append(frame)
        if time.monotonic() - self._last >= PAUSE:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"records-{secrets.token_hex(8)}{ENDING}"
            found = pl.concat(self._new, how="vertical_relaxed")
            files.write_parquet(found.to_arrow(compat_level=pl.CompatLevel.oldest()), path)
            self._new, self._last = [], time.monotonic()

    def clear(self) -> None:
        """Forget all, once the store has it."""
        for path in self._files():
            path.unlink(missing_ok=True)
        if self._folder is not None and self._folder.is_dir():
            with suppress(OSError):  # another refresh has written
                self._folder.rmdir()

    def _files(self) -> list[Path]:
        return [] if self._folder is None else sorted(self._folder.glob(f"*{ENDING}"))
