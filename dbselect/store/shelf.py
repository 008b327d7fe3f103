"""The protocol of a place of records: read the whole state, write one step to the next."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from dbselect.errors import BusyError


@dataclass(frozen=True)
class Shelved:
    """The state of a store."""

    #: The keys, ``part``, ``fingerprint``, ``reading`` and ``gram``, NULL for a part without
    #: rows; None of a store that has never been written
    frame: pl.DataFrame | None
    mark: Any = None  # version with which the place detects later writes

    @property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of each part."""
        if self.frame is None:
            return {}
        return dict(self.frame.select("part", "fingerprint").iter_rows())


class Shelf(Protocol):
    """A place of records. A step is all or nothing, and fails if another was first."""

    folder: Path | None  # of its files, which are no part of a table around it
    unfinished: Path | None  # folder for what a refresh has read before it ends

    def read(self) -> Shelved:
        """Return the state."""

    def write(self, before: Shelved, gone: list[str], new: pl.DataFrame) -> None:
        """Replace records; a BusyError says that another was first."""


def beside(path: Path) -> Path:
    """Return the folder beside a store for what is not finished."""
    return path.with_name(f"{path.name}.unfinished")


def was_first(path: str) -> BusyError:
    """Return the error for the second of two writers."""
    return BusyError(
        f"another process has refreshed the store '{path}' meanwhile and nothing was written; "
        "refresh again"
    )
