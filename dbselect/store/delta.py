"""A store in a Delta table: a step is a version, which fails if another writer was first."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from dbselect.errors import SourceError
from dbselect.sources.engines.lakes import delta_table, is_delta
from dbselect.store.shelf import ALL, Shelved, beside, typed, was_first


class DeltaFolder:
    """Records in a Delta table, in a folder or on an object store."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self.folder = path if isinstance(path, Path) else None
        self.unfinished = None if self.folder is None else beside(self.folder)

    def read(self, rows: pl.Expr = ALL, *, whole: bool = True) -> Shelved:
        """Return the state, or some rows of it, with or without the records."""
        if not is_delta(self._path):
            return Shelved(None)
        return self._of(delta_table(self._path), whole=whole).of(rows)

    def read_at(self, when: datetime) -> Shelved:
        """Return the state at a time, in UTC."""
        if not is_delta(self._path):
            return Shelved(None)
        table = delta_table(self._path)
        first = min(commit["timestamp"] for commit in table.history())
        if when.timestamp() * 1000 < first:
            why = datetime.fromtimestamp(first / 1000, UTC)
            raise SourceError(f"the store '{self._path}' is of {why}, after {when}")
        table.load_as_version(when)
        return self._of(table)

    def _of(self, table: Any, *, whole: bool = True) -> Shelved:
        try:
            names = [name for name in table.schema().to_arrow().names if whole or name != "gram"]
            frame = pl.DataFrame(table.to_pyarrow_table(columns=names))
        except Exception as error:  # deltalake and Arrow raise many types
            raise SourceError(f"cannot read the store '{self._path}': {error}") from error
        if "reading" not in frame.columns:
            raise SourceError(f"the Delta table '{self._path}' is no store; it has {frame.columns}")
        return Shelved(typed(frame), table)

    def write(self, before: Shelved, removed: list[str], new: pl.DataFrame) -> None:
        """Write the next version."""
        from deltalake import CommitProperties, write_deltalake
        from deltalake.exceptions import CommitFailedError, DeltaError

        state = new
        if before.frame is not None and before.frame.height:
            whole = self._of(before.mark).frame
            assert whole is not None
            state = pl.concat([whole.filter(~pl.col("part").is_in(removed)), new])
        try:
            write_deltalake(
                before.mark or str(self._path),
                state.to_arrow(compat_level=pl.CompatLevel.oldest()),
                mode="error" if before.mark is None else "overwrite",
                schema_mode=None if before.mark is None else "overwrite",
                # A retry would overwrite the other writer's state.
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except CommitFailedError as error:
            raise was_first(str(self._path)) from error
        except (DeltaError, OSError) as error:
            if before.mark is None and is_delta(self._path):
                raise was_first(str(self._path)) from error
            raise SourceError(f"cannot write the store '{self._path}': {error}") from error
