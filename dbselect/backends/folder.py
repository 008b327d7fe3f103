"""A store in a folder of Parquet files; a numbered list names the valid ones.

A step writes its records to a file of its own, then the next list, under a temporary name, and
gives that list its number by a hard link: this happens whole or not at all, and fails if the
number is taken, that is if another writer was first. The state is the list of the highest
number. Files are synced before they are named, so that no crash leaves a name without its
bytes. What nothing names any more goes at a later step.
"""

import json
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from dbselect.backends.shelf import Shelved, beside, was_first
from dbselect.errors import RecordError, SourceError
from dbselect.record.digest import FORMAT, VERSION, check_version

#: Files of records above which a step writes all records into one.
MOST_FILES = 16
#: Readings of a list whose files go away meanwhile, before something else is wrong.
READINGS = 10
#: Names of lists and of files of records, with their numbers; any other file is not the store's.
LIST = re.compile(r"list-(\d{8,})\.json")
RECORDS = re.compile(r"records-(\d{8,})-[0-9a-f]{8}\.parquet")


class Folder:
    """Records in a folder.

    Parameters
    ----------
    path : the folder; it is made at the first step
    """

    def __init__(self, path: Path) -> None:
        if path.exists() and not path.is_dir():
            raise SourceError(
                f"the store '{path}' is a file; it must be a folder or end in .duckdb"
            )
        self._path = path
        self.folder: Path | None = path
        self.unfinished: Path | None = beside(path)

    def read(self) -> Shelved:
        """Return the state; a list that is followed by the next meanwhile is left for that."""
        for _ in range(READINGS):
            number = self._last()
            if number is None:
                self._check_free()
                return Shelved(None, (0, {}))
            try:
                files = self._list(number)
                return Shelved(_records(self._path, files), (number, files))
            except FileNotFoundError:
                continue
            except RecordError:
                raise
            except (OSError, ValueError, KeyError, pl.exceptions.PolarsError) as error:
                raise SourceError(f"cannot read the store '{self._path}': {error}") from error
        raise SourceError(f"the store '{self._path}' lacks a file that its list {number} names")

    def write(self, before: Shelved, gone: list[str], new: pl.DataFrame) -> None:
        """Write the new records and the list in which they take the place of those gone."""
        last, files = before.mark
        number = last + 1
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            kept = {name: [part for part in parts if part not in gone]
                    for name, parts in files.items()}  # fmt: skip
            kept = {name: parts for name, parts in kept.items() if parts}
            if len(kept) >= MOST_FILES:
                assert before.frame is not None
                new = pl.concat([before.frame.filter(~pl.col("part").is_in(gone)), new])
                kept = {}
            name = f"records-{number:08}-{secrets.token_hex(4)}.parquet"
            _write_synced(self._path / name, new)
            if not new.is_empty() or not kept:
                kept[name] = new["part"].unique(maintain_order=True).to_list()
            self._name(number, {FORMAT: VERSION, "files": kept})
        # A disk that fills up while Polars writes is a ComputeError.
        except (OSError, pl.exceptions.PolarsError) as error:
            raise SourceError(f"cannot write the store '{self._path}': {error}") from error
        self._clear(number, {*kept, *files})

    def _last(self) -> int | None:
        """Return the number of the list that holds."""
        return max((number for number, _ in self._numbered(LIST)), default=None)

    def _numbered(self, kind: re.Pattern[str]) -> list[tuple[int, Path]]:
        """Return the store's own files of one kind, with their numbers."""
        if not self._path.is_dir():
            return []
        found = ((kind.fullmatch(path.name), path) for path in self._path.iterdir())
        return [(int(match[1]), path) for match, path in found if match]

    def _check_free(self) -> None:
        """Refuse a folder of other files; leftovers of a killed writer belong to the store."""
        names = [path.name for path in self._path.iterdir()] if self._path.is_dir() else []
        other = [
            name for name in sorted(names)
            if not name.startswith(".") and not LIST.fullmatch(name) and not RECORDS.fullmatch(name)
        ]  # fmt: skip
        if other:
            raise SourceError(
                f"the folder '{self._path}' is no store but has other files, as '{other[0]}'; a "
                "store needs a folder of its own"
            )

    def _list(self, number: int) -> dict[str, list[str]]:
        """Return the files of a list, with the parts whose records they have."""
        text = (self._path / _name_of(number)).read_text(encoding="utf-8")
        told = json.loads(text)
        check_version(told.get(FORMAT, VERSION), f"the store '{self._path}'")
        files: dict[str, list[str]] = told["files"]
        if not all(RECORDS.fullmatch(name) for name in files):
            raise ValueError(f"list {number} names files that are none of the store's")
        return files

    def _name(self, number: int, told: Any) -> None:
        """Write a list and give it its number, unless that is taken."""
        temporary = self._path / f".list-{number:08}-{secrets.token_hex(4)}"
        try:
            with temporary.open("x", encoding="utf-8") as file:
                json.dump(told, file)
                _sync(file)
            os.link(temporary, self._path / _name_of(number))
        except FileExistsError:
            raise was_first(str(self._path)) from None
        finally:
            temporary.unlink(missing_ok=True)
        # Old lists are removed, so a slow writer may find its number free again.
        if self._last() != number:
            (self._path / _name_of(number)).unlink(missing_ok=True)
            raise was_first(str(self._path))
        _sync_folder(self._path)

    def _clear(self, number: int, named: Iterable[str]) -> None:
        """Remove what neither this list nor the one before names; a reader may hold that one.

        Files of higher numbers belong to writers that start from this one.
        """
        old = [path for own, path in self._numbered(LIST) if own < number - 1]
        old += [path for own, path in self._numbered(RECORDS) if own <= number]
        for path in old:
            if path.name not in named:
                path.unlink(missing_ok=True)


def _name_of(number: int) -> str:
    return f"list-{number:08}.json"


def _records(folder: Path, files: dict[str, list[str]]) -> pl.DataFrame:
    frames = [
        pl.read_parquet(folder / name, hive_partitioning=False, glob=False).filter(
            pl.col("part").is_in(parts)
        )
        for name, parts in files.items()
    ]
    return pl.concat(frames)


def _write_synced(path: Path, frame: pl.DataFrame) -> None:
    with path.open("xb") as file:
        frame.write_parquet(file)
        _sync(file)


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Have the names of a folder survive a crash; Windows opens no folder, and needs none."""
    if os.name == "nt":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
