"""The files of one version of a Delta table; others in its folder are of older versions."""

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import polars as pl

from dbselect.errors import SourceError
from dbselect.store.files import ScannedFiles, version_of


class DeltaFiles(ScannedFiles):
    """The files of a Delta table at the version that it was opened at, by its log.

    Raises
    ------
    SourceError : rows are not in the files alone (deletion vectors)
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        self.shown = str(table.table_uri)
        try:
            self._types = dict(pl.DataFrame(table.to_pyarrow_dataset().schema.empty_table()).schema)
        except Exception as error:  # deltalake has many kinds
            raise SourceError(
                f"the files of the Delta table '{self.shown}' are not its rows: {error}; give "
                "pl.scan_delta of it, whose rows are then hashed"
            ) from error
        self._there: dict[str, str] = {}
        self._is_here = urlparse(self.shown).scheme in ("", "file")
        self._folder = (_path(self.shown) if self._is_here else self.shown).rstrip("/")

    def versions(self) -> dict[str, str]:
        """Return size and time of the files of the version, without those that are gone here."""
        if not self._is_here:
            told = pl.DataFrame(self._table.get_add_actions(flatten=True))
            files = told.select("path", "size_bytes", "modification_time").iter_rows()
            self._there = {unquote(path): f"{size} bytes at {time}" for path, size, time in files}
            return self._there
        root = Path(self._folder)
        paths = sorted(Path(_path(uri)) for uri in self._table.file_uris())
        found = {path.relative_to(root).as_posix(): version_of(str(path)) for path in paths}
        return {name: version for name, version in found.items() if version is not None}

    def version(self, name: str) -> str | None:
        """Look at one file again; files on an object store stay what they are."""
        return version_of(f"{self._folder}/{name}") if self._is_here else self._there.get(name)


def _path(uri: str) -> str:
    """Return the path of a file; names of folders are encoded in an address only."""
    return unquote(urlparse(uri).path) if uri.startswith("file:") else uri
