"""The files of one version of a Delta table; others in its folder are of older versions."""

from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import polars as pl

from dbselect.errors import SourceError


class DeltaFiles:
    """The files of a Delta table on this machine, at the version that it was opened at.

    Parameters
    ----------
    table : DeltaTable of deltalake

    Raises
    ------
    SourceError : the files are elsewhere, or rows are not in them alone (deletion vectors)
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        self.shown = str(table.table_uri)
        if urlparse(self.shown).scheme not in ("", "file"):
            raise SourceError(
                f"'{self.shown}' is not a local path; give pl.scan_delta of it, whose rows "
                "are hashed instead"
            )
        try:
            self._schema = pl.DataFrame(table.to_pyarrow_dataset().schema.empty_table()).schema
        except Exception as error:  # deltalake has many kinds
            raise SourceError(
                f"the files of the Delta table '{self.shown}' are not its rows: {error}; give "
                "pl.scan_delta of it, whose rows are then hashed"
            ) from error

    def paths(self) -> dict[str, Path]:
        """Return the files of the version that are still there."""
        root = Path(_path(self.shown))
        found = sorted(Path(_path(uri)) for uri in self._table.file_uris())
        return {path.relative_to(root).as_posix(): path for path in found if path.is_file()}

    def types(self, names: Collection[str]) -> dict[str, pl.DataType]:
        """Return the types that the table has."""
        return dict(self._schema)


def _path(uri: str) -> str:
    """Return the path of a file; names of folders are encoded in an address only."""
    return unquote(urlparse(uri).path) if uri.startswith("file:") else uri
