"""Storage protocol of a store: read the state, write the next one in a step."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from dbselect.errors import ArgumentError, BusyError


@dataclass(frozen=True)
class Shelved:
    """The state of a store."""

    #: The keys, ``part``, ``fingerprint``, ``reading`` and ``gram``, NULL for a part without
    #: rows; None for a store that has never been written
    frame: pl.DataFrame | None
    mark: Any = None  # version, to detect later writes

    @property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of each part."""
        if self.frame is None:
            return {}
        return dict(self.frame.select("part", "fingerprint").iter_rows())


class Shelf(Protocol):
    """Storage of records. A step is atomic, and fails if another writer was first."""

    folder: Path | None  # folder of its files, which are not read as a table
    unfinished: Path | None  # folder for the journal of a refresh

    def read(self) -> Shelved:
        """Return the state."""

    def read_at(self, when: datetime) -> Shelved:
        """Return the state at a time, in UTC; ArgumentError without a history."""

    def write(self, before: Shelved, removed: list[str], new: pl.DataFrame) -> None:
        """Replace records; BusyError if another writer was first."""


@dataclass
class Past:
    """The state of a store at a time, which cannot be written."""

    state: Shelved
    when: datetime
    folder: Path | None = None
    unfinished: Path | None = None

    def read(self) -> Shelved:
        """Return the state."""
        return self.state

    def read_at(self, when: datetime) -> Shelved:
        """Refuse another time."""
        raise ArgumentError(f"when is {when}; this is the store as of {self.when} already")

    def write(self, before: Shelved, removed: list[str], new: pl.DataFrame) -> None:
        """Refuse to write."""
        raise ArgumentError(f"the store is that as of {self.when}, which cannot be refreshed")


def no_history(path: str) -> ArgumentError:
    """Return the error for a store that keeps only its last state."""
    return ArgumentError(
        f"the store '{path}' keeps no history; a Delta table (.delta) and a table of DuckLake or "
        "Iceberg in an attached catalog do"
    )


def beside(path: Path) -> Path:
    """Return the folder beside a store for the journal of a refresh."""
    return path.with_name(f"{path.name}.unfinished")


def was_first(path: str) -> BusyError:
    """Return the error for the second of two writers."""
    return BusyError(
        f"another process has refreshed the store '{path}' meanwhile and nothing was written; "
        "refresh again"
    )
