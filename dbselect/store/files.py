"""The parts of a table of files: each file is one, told by its size and its time.

Keys may be columns of the files or names of folders, ``day=2013-01-01``; a file may have rows
of many keys. Files have the names that they have below the folder of the source, so that a
folder may move.
"""

import glob
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl

from dbselect.errors import BusyError, DbselectError, SourceError
from dbselect.store.parts import ATTEMPTS, labelled, read
from dbselect.store.reading import Reading

#: The folder of rows without a value, in Hive.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Files:
    """Which files a path means.

    Parameters
    ----------
    root : the folder below which files have their names
    pattern : glob below the root
    shown : the path as it was given
    """

    root: Path
    pattern: str
    shown: str

    def paths(self) -> dict[str, Path]:
        """Return the files there are, by name, without hidden ones.

        Raises
        ------
        SourceError : there is none
        """
        names = glob.glob(self.pattern, root_dir=self.root, recursive=True)
        visible = (name for name in names if not Path(name).name.startswith((".", "_")))
        found = {Path(name).as_posix(): self.root / name for name in sorted(visible)}
        found = {name: path for name, path in found.items() if path.is_file()}
        if not found:
            raise SourceError(
                f"no Parquet file is at '{self.shown}'; a store never drops all parts"
            )
        return found


def files_of(source: Any) -> Files | None:
    """Return the files that a source means, None if it is no path.

    Raises
    ------
    SourceError : a path on another machine, whose files have no time to tell changes by
    """
    if not isinstance(source, str | Path):
        return None
    text = str(source)
    if "://" in text:
        raise SourceError(
            f"'{text}' is no path of this machine, and sizes and times are those of its files; "
            "give pl.scan_parquet of it, whose rows are then hashed"
        )
    path = Path(text).expanduser()
    if path.is_dir():
        return Files(path, "**/*.parquet", text)
    at = next((i for i, part in enumerate(path.parts) if glob.has_magic(part)), None)
    if at is None:
        if not path.exists():
            raise SourceError(f"no file is at '{text}'; a Parquet file or a glob is needed")
        return Files(path.parent, glob.escape(path.name), text)
    return Files(Path(*path.parts[:at]), str(Path(*path.parts[at:])), text)


class FileParts:
    """A table whose parts are files.

    Parameters
    ----------
    files : which
    reading : how
    """

    def __init__(self, files: Files, reading: Reading) -> None:
        self._files = files
        self._reading = reading
        self._paths = files.paths()
        self._types = _types(self._paths)

    def fingerprints(self) -> dict[str, str]:
        """Return size and time of each file."""
        found = {name: _fingerprint(path) for name, path in self._paths.items()}
        return {name: told for name, told in found.items() if told is not None}

    def records(self, parts: Collection[str]) -> Iterator[pl.DataFrame]:
        """Yield the records of each file."""
        for part in parts:
            for _ in range(ATTEMPTS):
                before = _fingerprint(self._paths[part])
                if before is None:
                    break
                found = self._records(part)
                if found is not None and _fingerprint(self._paths[part]) == before:
                    yield labelled(found, part, before, self._reading)
                    break
            else:
                raise BusyError(
                    f"the file '{self._paths[part]}' changes while it is read, {ATTEMPTS} times in "
                    "turn; refresh again when it is written"
                )

    def _records(self, part: str) -> pl.DataFrame | None:
        """Return the records of a file, a NULL where it has no rows; None if it is gone."""
        path = self._paths[part]
        hive = {name: self._types[name] for name in _folders(part)}
        above = {name for name in _folders(path.absolute().as_posix()) if name not in hive}
        frame = pl.scan_parquet(path, glob=False, low_memory=True, hive_partitioning=bool(hive),
                                hive_schema=hive or None)  # fmt: skip
        try:
            own = set(pl.read_parquet_schema(path))
            found = read(frame.drop(above - own, strict=False), self._reading)
        except FileNotFoundError:
            return None
        except (DbselectError, OSError, pl.exceptions.PolarsError) as error:
            if not path.exists():
                return None
            kind = type(error) if isinstance(error, DbselectError) else SourceError
            raise kind(f"in the file '{path}': {error}") from error
        return found if found.height else found.clear(1)


def _fingerprint(path: Path) -> str | None:
    """Return size and time of a file, None if it is gone."""
    try:
        told = path.stat()
    except FileNotFoundError:
        return None
    return f"{told.st_size} bytes at {told.st_mtime_ns}"


def _folders(name: str) -> dict[str, str]:
    """Return what the folders of a file say: ``name=value``."""
    pairs = (folder.partition("=") for folder in name.split("/")[:-1])
    return {key: unquote(value) for key, equals, value in pairs if equals}


def _types(names: Collection[str]) -> dict[str, pl.DataType]:
    """Return the type of what folders say: that of all its values, whole numbers, dates or text.

    Polars would take each file by itself.
    """
    said: dict[str, list[str]] = {}
    for name in names:
        for key, value in _folders(name).items():
            if value != NO_VALUE:
                said.setdefault(key, []).append(value)
    return {key: _type_of(pl.Series(values)) for key, values in said.items()}


def _type_of(values: pl.Series) -> pl.DataType:
    if values.cast(pl.Int64, strict=False).null_count() == 0:
        return pl.Int64()
    if values.str.to_date("%Y-%m-%d", strict=False).null_count() == 0:
        return pl.Date()
    return pl.String()
