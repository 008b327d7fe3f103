"""Storage protocol of a store: read the state, write the next one in a step."""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self

import polars as pl

from dbselect.errors import ArgumentError, BusyError
from dbselect.record.gram import RECORD_DTYPE

#: All rows of a state.
ALL = pl.lit(True)


@dataclass(frozen=True)
class Shelved:
    """The state of a store."""

    #: The keys, ``part``, ``fingerprint``, ``reading`` and, if read, ``gram``, NULL for a part
    #: without rows; None for a store that has never been written
    frame: pl.DataFrame | None
    mark: Any = None  # version, to detect later writes

    def of(self, rows: pl.Expr) -> Self:
        """Return some rows of the state."""
        return self if self.frame is None else replace(self, frame=self.frame.filter(rows))

    @cached_property
    def parts(self) -> pl.DataFrame:
        """The fingerprint and reading of each part, as they first occur."""
        labels = ["part", "fingerprint", "reading"]
        if self.frame is None:
            return pl.DataFrame(schema=dict.fromkeys(labels, pl.String))
        return self.frame.select(labels).unique("part", keep="first", maintain_order=True)


class Shelf(Protocol):
    """Storage of records. A step is atomic, and fails if another writer was first."""

    folder: Path | None  # folder of its files, which are not read as a table
    unfinished: Path | None  # folder for the journal of a refresh

    def read(self, rows: pl.Expr = ALL, *, whole: bool = True) -> Shelved:
        """Return the state, or some rows of it, with or without the records."""

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

    def read(self, rows: pl.Expr = ALL, *, whole: bool = True) -> Shelved:
        """Return the state, or some rows of it."""
        return self.state.of(rows)

    def read_at(self, when: datetime) -> Shelved:
        """Refuse another time."""
        raise ArgumentError(f"when is {when}; this is the store as of {self.when} already")

    def write(self, before: Shelved, removed: list[str], new: pl.DataFrame) -> None:
        """Refuse to write."""
        raise ArgumentError(f"the store is that as of {self.when}, which cannot be refreshed")


def typed(frame: pl.DataFrame) -> pl.DataFrame:
    """Cast records, if there are any, to the type that all stores have."""
    return frame.with_columns(pl.col("^gram$").cast(RECORD_DTYPE))


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
