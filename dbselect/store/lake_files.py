"""The files of one version of a Delta or Iceberg table, by its log; others there are older."""

from typing import Any
from urllib.parse import unquote, urlparse

import polars as pl

from dbselect.errors import SourceError
from dbselect.store.files import Files, ScannedFiles


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
        # Names of folders are encoded in an address only.
        is_file = self.shown.startswith("file:")
        self._folder = unquote(urlparse(self.shown).path) if is_file else self.shown
        self._folder = self._folder.rstrip("/")

    def versions(self) -> dict[str, str]:
        """Return size and time of the files of the version, which are never written over."""
        told = pl.DataFrame(self._table.get_add_actions(flatten=True)).sort("path")
        files = told.select("path", "size_bytes", "modification_time").iter_rows()
        self._there = {unquote(path): f"{size} bytes at {time}" for path, size, time in files}
        return self._there


class IcebergFiles(Files):
    """The files of an Iceberg table at the snapshot that it was opened at."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._scan = table.scan()
        self.shown = str(table.location())
        self._tasks: dict[str, Any] = {}

    def versions(self) -> dict[str, str]:
        """Return the size of each file, which is never written over, and what is deleted of it."""
        tasks = {task.file.file_path: task for task in self._scan.plan_files()}
        start = f"{self.shown}/"
        self._tasks = {path.removeprefix(start): task for path, task in tasks.items()}
        self._there = {name: _version(task) for name, task in self._tasks.items()}
        return self._there

    def rows(self, name: str, *others: str) -> Any:
        """Return the rows of a file, with the columns that the table has by then."""
        from pyiceberg.io.pyarrow import ArrowScan

        scan = self._scan
        read = ArrowScan(
            self._table.metadata, self._table.io, scan.projection(), scan.row_filter,
            scan.case_sensitive,
        )  # fmt: skip
        return read.to_table([self._tasks[name]])


def _version(task: Any) -> str:
    deleted = sorted(each.file_path for each in task.delete_files)
    return ", ".join([f"{task.file.file_size_in_bytes} bytes", *deleted])
