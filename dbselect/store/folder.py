"""A store in a folder of Parquet files; a numbered list names the valid ones.

A step writes its records, then the next list, atomically; it fails if the number is taken. In a
local folder a hard link creates the list, and files are synced before that. A list also names the
parts of a file that are gone; lists of before named those that are not.

The file of a step takes in those of before with no more records, so that n records are in log2(n)
files and each is rewritten as often: Bentley, Saxe (1980), Decomposable searching problems I,
section 2.
"""

import json
import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from dbselect.errors import RecordError, SourceError
from dbselect.record.files import FORMAT, VERSION, check_version, sync_folder
from dbselect.sources.objects import reached, versions_below
from dbselect.store.shelf import ALL, Shelved, beside, no_history, was_first

#: Attempts to read a list whose files are removed by a concurrent step.
READINGS = 10
#: Names of lists and of record files, with their numbers; other files are not of the store.
LIST = re.compile(r"list-(\d{8,})\.json")
RECORDS = re.compile(r"records-(\d{8,})-[0-9a-f]{8}\.parquet")


class Records(ABC):
    """Records in files that a numbered list names."""

    folder: Path | None = None
    unfinished: Path | None = None

    def __init__(self, shown: str) -> None:
        self._shown = shown

    @abstractmethod
    def _names(self) -> list[str]:
        """Return the names of all files."""

    @abstractmethod
    def _content(self, name: str) -> bytes:
        """Read a file; FileNotFoundError if it is gone."""

    @abstractmethod
    def _table(self, name: str) -> Any:
        """Return a file of records for Polars to scan."""

    @abstractmethod
    def _put(self, name: str, frame: pl.DataFrame) -> None:
        """Write a file of records."""

    @abstractmethod
    def _claim(self, name: str, text: str) -> None:
        """Write a list atomically; FileExistsError if there is one of that name."""

    @abstractmethod
    def _remove(self, name: str) -> None:
        """Remove a file if it exists."""

    def read(self, rows: pl.Expr = ALL, *, whole: bool = True) -> Shelved:
        """Return the state, or some rows of it; retry if a concurrent step replaces the list."""
        for _ in range(READINGS):
            number = self._last()
            if number is None:
                self._check_free()
                return Shelved(None, (0, {}, {}))
            try:
                files = _files_of(self._content(_name_of(number)), self._shown)
                frames = {name: self._frame(name, file, rows, whole=whole)
                          for name, file in files.items()}  # fmt: skip
                return Shelved(pl.concat(frames.values()), (number, files, frames))
            except FileNotFoundError:
                continue
            except RecordError:
                raise
            except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError) as error:
                raise SourceError(f"cannot read the store '{self._shown}': {error}") from error
        raise SourceError(f"the store '{self._shown}' lacks a file that its list {number} names")

    def _frame(
        self, name: str, file: "Valid", rows: pl.Expr = ALL, *, whole: bool = True
    ) -> pl.DataFrame:
        """Read valid records of a file."""
        table = pl.scan_parquet(self._table(name), glob=False, hive_partitioning=False)
        table = table if whole else table.drop("gram")
        return table.filter(rows).collect(engine="in-memory").filter(file.rows)

    def read_at(self, when: datetime) -> Shelved:
        """Refuse: a step removes the files of those before it."""
        raise no_history(self._shown)

    def write(self, before: Shelved, removed: list[str], new: pl.DataFrame) -> None:
        """Write the new records and the list in which they replace the parts `removed`."""
        last, files, frames = before.mark
        number = last + 1
        try:
            kept: dict[str, list[str]] = {}
            is_kept = ~pl.col("part").is_in(removed)
            left = {name: frame.filter(is_kept) for name, frame in frames.items()}
            for name in sorted(left, key=lambda name: left[name].height):
                gone = files[name].gone
                if left[name].height and (gone is None or left[name].height <= new.height):
                    new = pl.concat([self._taken(name, files[name]).filter(is_kept), new])
                elif left[name].height:
                    more = frames[name].filter(~is_kept)["part"].unique(maintain_order=True)
                    kept[name] = [*(gone or []), *more]
            if new.height or not kept:
                name = f"records-{number:08}-{secrets.token_hex(4)}.parquet"
                self._put(name, new)
                kept[name] = []
            lists = {
                FORMAT: VERSION,
                "files": [*kept],
                "gone": {n: g for n, g in kept.items() if g},
            }
            self._publish(number, json.dumps(lists))
        # A full disk raises a ComputeError in Polars.
        except (OSError, pl.exceptions.PolarsError) as error:
            raise SourceError(f"cannot write the store '{self._shown}': {error}") from error
        self._clear(number, {*kept, *files})

    def _taken(self, name: str, file: "Valid") -> pl.DataFrame:
        """Read the records of a file of the step before, which only later steps remove."""
        try:
            return self._frame(name, file)
        except FileNotFoundError as error:
            raise was_first(self._shown) from error

    def _last(self) -> int | None:
        """Return the number of the current list; None without lists."""
        return max((number for number, _ in self._numbered(LIST)), default=None)

    def _numbered(self, kind: re.Pattern[str]) -> list[tuple[int, str]]:
        """Return the files of one kind, with their numbers."""
        matches = ((kind.fullmatch(name), name) for name in self._names())
        return [(int(match[1]), name) for match, name in matches if match]

    def _check_free(self) -> None:
        """Raise SourceError if the folder has other files, except leftovers of a killed writer."""
        other = [
            name for name in sorted(self._names())
            if not name.startswith(".") and not LIST.fullmatch(name) and not RECORDS.fullmatch(name)
        ]  # fmt: skip
        if other:
            raise SourceError(
                f"the folder '{self._shown}' is no store but has other files, as '{other[0]}'; a "
                "store needs a folder of its own"
            )

    def _publish(self, number: int, text: str) -> None:
        """Write a list under its number; BusyError if that is taken."""
        try:
            self._claim(_name_of(number), text)
        except FileExistsError:
            raise was_first(self._shown) from None
        # Old lists are removed, so a slow writer may find its number free again.
        if self._last() != number:
            self._remove(_name_of(number))
            raise was_first(self._shown)

    def _clear(self, number: int, named: Iterable[str]) -> None:
        """Remove files in neither this list nor the previous one, which a reader may still use."""
        old = [name for at, name in self._numbered(LIST) if at < number - 1]
        old += [name for at, name in self._numbered(RECORDS) if at <= number]
        for name in old:
            if name not in named:
                self._remove(name)


class Folder(Records):
    """Records in a local folder, which the first step creates."""

    def __init__(self, path: Path) -> None:
        if path.exists() and not path.is_dir():
            raise SourceError(
                f"the store '{path}' is a file; it must be a folder or end in .duckdb"
            )
        super().__init__(str(path))
        self._path = path
        self.folder = path
        self.unfinished = beside(path)

    def _names(self) -> list[str]:
        return os.listdir(self._path) if self._path.is_dir() else []

    def _content(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def _table(self, name: str) -> Path:
        return self._path / name

    def _put(self, name: str, frame: pl.DataFrame) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        with (self._path / name).open("xb") as file:
            frame.write_parquet(file)
            _sync(file)

    def _claim(self, name: str, text: str) -> None:
        temporary = self._path / f".{Path(name).stem}-{secrets.token_hex(4)}"
        try:
            with temporary.open("x", encoding="utf-8") as file:
                file.write(text)
                _sync(file)
            os.link(temporary, self._path / name)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(self._path)

    def _remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)


def _name_of(number: int) -> str:
    return f"list-{number:08}.json"


@dataclass(frozen=True)
class Valid:
    """The valid records of a file."""

    rows: pl.Expr
    gone: list[str] | None  # parts that are not valid; None where the list names those that are


def _files_of(text: bytes, shown: str) -> dict[str, Valid]:
    """Return file -> its valid records, from the text of a list."""
    content, part = dict(json.loads(text)), pl.col("part")
    check_version(content.get(FORMAT, VERSION), f"the store '{shown}'")
    files = content["files"]
    for name in files:
        if not RECORDS.fullmatch(name):
            raise ValueError(f"its list names {name!r}, which is no file of records of a store")
    if isinstance(files, dict):
        return {name: Valid(part.is_in(parts), None) for name, parts in files.items()}
    gone = {name: list(content["gone"].get(name, [])) for name in files}
    return {name: Valid(~part.is_in(parts), parts) for name, parts in gone.items()}


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


class ObjectFolder(Records):
    """Records at a URL of an object store."""

    def __init__(self, url: str) -> None:
        super().__init__(url.rstrip("/"))

    def _names(self) -> list[str]:
        return list(versions_below(self._shown))

    def _content(self, name: str) -> bytes:
        with reached(self._shown) as (obstore, store):
            return bytes(obstore.get(store, name).bytes())

    def _table(self, name: str) -> BytesIO:
        return BytesIO(self._content(name))

    def _put(self, name: str, frame: pl.DataFrame) -> None:
        frame.write_parquet(file := BytesIO())
        with reached(self._shown) as (obstore, store):
            obstore.put(store, name, file.getvalue())

    def _claim(self, name: str, text: str) -> None:
        with reached(self._shown) as (obstore, store):
            try:
                obstore.put(store, name, text.encode(), mode="create")
            except obstore.exceptions.AlreadyExistsError as error:
                raise FileExistsError(str(error)) from None

    def _remove(self, name: str) -> None:
        with reached(self._shown) as (obstore, store), suppress(FileNotFoundError):
            obstore.delete(store, name)
