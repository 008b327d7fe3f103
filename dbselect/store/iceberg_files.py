"""The files of one snapshot of an Iceberg table, by its manifests."""

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self


class IcebergFiles:
    """The files of an Iceberg table at the snapshot that it was opened at."""

    root: str | None = None

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
        return {name: _version(task) for name, task in self._tasks.items()}

    def version(self, name: str) -> str | None:
        """Return the version of a file, which stays what it is."""
        return _version(self._tasks[name])

    def rows(self, name: str, *others: str) -> Any:
        """Return the rows of a file, with the columns that the table has by then."""
        from pyiceberg.io.pyarrow import ArrowScan

        scan = self._scan
        read = ArrowScan(
            self._table.metadata, self._table.io, scan.projection(), scan.row_filter,
            scan.case_sensitive,
        )  # fmt: skip
        return read.to_table([self._tasks[name]])

    def near(self, _: Collection[str]) -> AbstractContextManager[Self]:
        """Return these files, which are read through the table's own access."""
        return nullcontext(self)


def _version(task: Any) -> str:
    deleted = sorted(each.file_path for each in task.delete_files)
    return ", ".join([f"{task.file.file_size_in_bytes} bytes", *deleted])
