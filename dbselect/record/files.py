"""Files that appear whole or not at all: one record each, as Parquet or as JSON."""

import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from dbselect.errors import SourceError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path` to write to; it takes the name at the end.

    Other processes see the old file, or none, or the new one. If the block fails,
    the temporary file is removed and `path` stays as it was.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        yield temporary
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_parquet(table: pa.Table, path: str | Path) -> None:
    """Write a table."""
    with replacing(path) as temporary:
        pq.write_table(table, temporary)


def read_row(path: str | Path, columns: Sequence[str], what: str) -> dict[str, pa.Scalar]:
    """Return the columns of a Parquet file of one row.

    Raises
    ------
    SourceError : there is no such file, no such column or not exactly one row
    """
    try:
        table = pq.ParquetFile(path).read(columns=list(columns))
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"cannot read {what} from '{path}': {error}") from None
    missing = [name for name in columns if name not in table.column_names]
    if missing or table.num_rows != 1:
        raise SourceError(
            f"'{path}' has {table.num_rows} rows and lacks {missing}; {what} is one row "
            f"with the columns {list(columns)}"
        )
    return {name: table[name][0] for name in columns}


def write_json(record: Mapping[str, Any], path: str | Path) -> None:
    """Write a record; doubles survive unchanged."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(record, allow_nan=False))


def read_json(path: str | Path) -> Any:
    """Read a record.

    Raises
    ------
    SourceError : there is no such file, or it is not JSON
    """
    try:
        return json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise SourceError(f"cannot read JSON from '{path}': {error}") from None


class Stored(ABC):
    """What can be told as plain data, and kept as such in a JSON file."""

    @abstractmethod
    def to_struct(self) -> dict[str, Any]:
        """Return the record as plain Python data."""

    @classmethod
    @abstractmethod
    def from_struct(cls, record: Any) -> Self:
        """Read what `to_struct` gave."""

    def write_json(self, path: str | Path) -> None:
        """Write `to_struct` as JSON; every double survives unchanged."""
        write_json(self.to_struct(), path)

    @classmethod
    def read_json(cls, path: str | Path) -> Self:
        """Read what `write_json` wrote.

        Raises
        ------
        SourceError : there is no such file, or it is not JSON
        RecordError : it holds something else
        """
        return cls.from_struct(read_json(path))
