"""Records in files, one each, as Parquet or as JSON, with a digest of what was written."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from dbselect.errors import SourceError
from dbselect.record import digest
from dbselect.record.writing import replacing

#: Name of the version in the metadata of Parquet.
_NAME = b"dbselect." + digest.FORMAT.encode()


def write_parquet(table: pa.Table, path: str | Path) -> None:
    """Write a table, with checksums of its pages for every reader and a digest of all for ours."""
    import pyarrow.parquet as pq  # where it is needed: it takes long

    told = {**(table.schema.metadata or {}), _NAME: str(digest.VERSION).encode()}
    with replacing(path) as temporary:
        pq.write_table(table.replace_schema_metadata(told), temporary, write_page_checksum=True)
        digest.seal(temporary)


def read_parquet(path: str | Path, what: str) -> pa.Table:
    """Read a table, and compare its checksums and its digest, if it has them.

    SourceError if there is no such file, it is not Parquet, or it is damaged.
    """
    import pyarrow.parquet as pq

    check_digest(path, what)
    try:
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise SourceError(f"cannot read {what} from '{path}': {error}") from None
    version = (table.schema.metadata or {}).get(_NAME)
    digest.check_version(digest.VERSION if version is None else int(version), f"'{path}'")
    return table


def read_row(path: str | Path, columns: Sequence[str], what: str) -> dict[str, pa.Scalar]:
    """Return a Parquet file of one row, by column.

    SourceError if there is no such file, no such column or not exactly one row, or it is damaged.
    """
    table = read_parquet(path, what)
    missing = [name for name in columns if name not in table.column_names]
    if missing or table.num_rows != 1:
        raise SourceError(
            f"'{path}' has {table.num_rows} rows and lacks {missing}; {what} is one row "
            f"with the columns {list(columns)}"
        )
    return {name: table[name][0] for name in table.column_names}


def check_digest(path: str | Path, what: str) -> None:
    """Raise SourceError for a damaged or unreadable Parquet file before an engine reads it."""
    try:
        damaged = digest.is_damaged(Path(path))
    except OSError as error:
        raise SourceError(f"cannot read {what} from '{path}': {error}") from None
    if damaged:
        raise _damaged(path, what)


def sealed_json(record: Mapping[str, Any]) -> str:
    """Return a record and its digest as text; doubles survive unchanged."""
    told = {**record, digest.FORMAT: digest.VERSION}
    return json.dumps({**told, digest.FIELD: digest.of_json(told)}, allow_nan=False)


def write_json(record: Mapping[str, Any], path: str | Path) -> None:
    """Write a record and its digest."""
    text = sealed_json(record)
    with replacing(path) as temporary:
        temporary.write_text(text)


def read_json(path: str | Path) -> Any:
    """Read a record, and compare its digest where it has one, as those of older releases have not.

    SourceError if there is no such file, it is not JSON, or it is damaged.
    """
    try:
        record = json.loads(Path(path).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise SourceError(f"cannot read JSON from '{path}': {error}") from None
    return unsealed(record, path)


def unsealed(record: Any, path: str | Path) -> Any:
    """Return what was read of JSON without its digest, which is compared: else SourceError."""
    if isinstance(record, dict):
        expected = record.pop(digest.FIELD, None)
        if expected is not None and expected != digest.of_json(record):
            raise _damaged(path, "the record")
        digest.check_version(record.pop(digest.FORMAT, digest.VERSION), f"'{path}'")
    return record


def _damaged(path: str | Path, what: str) -> SourceError:
    return SourceError(
        f"cannot read {what} from '{path}': the file is damaged, its content does not "
        "match its digest"
    )


class Stored(ABC):
    """A record that converts to plain data and is stored as JSON."""

    @abstractmethod
    def to_struct(self) -> dict[str, Any]:
        """Return the record as plain Python data."""

    @classmethod
    @abstractmethod
    def from_struct(cls, record: Any) -> Self:
        """Read what `to_struct` gave."""

    def write_json(self, path: str | Path) -> None:
        """Write `to_struct` as JSON, and a digest; every double survives unchanged."""
        write_json(self.to_struct(), path)

    @classmethod
    def read_json(cls, path: str | Path) -> Self:
        """Read what `write_json` wrote.

        Raises
        ------
        SourceError : there is no such file, it is not JSON, or it is damaged
        RecordError : it holds something else
        """
        return cls.from_struct(read_json(path))
