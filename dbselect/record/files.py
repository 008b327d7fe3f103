"""Files of one record, as Parquet or JSON, with a digest of their content.

Parquet's page checksums do not cover names, counts and lengths elsewhere in a file. The seal is a
digest of all other bytes; it lies before the footer, where readers ignore it, and is not copied
into files derived from this one.
"""

import hashlib
import json
import os
import secrets
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from dbselect.errors import RecordError, SourceError

#: Name and value of the format version in every file.
FORMAT, VERSION = "format", 1
#: Key of the version in Parquet metadata.
_NAME = b"dbselect." + FORMAT.encode()
#: Field of the digest in a JSON file, the last one.
FIELD = "digest"
#: First bytes of a seal.
_MARK = b"dbselect sha256 "
_SEAL = len(_MARK) + hashlib.sha256().digest_size
#: A Parquet file ends with the length of its footer and a mark of four bytes.
_FOOTER_END = 8


def check_version(version: Any, what: str) -> None:
    """Raise RecordError for a format version of a newer release."""
    if version != VERSION:
        raise RecordError(
            f"{what} has format {version!r}, and this release of dbselect reads format {VERSION}; "
            "update dbselect"
        )


def of_json(record: Mapping[str, Any]) -> str:
    """Return the digest of plain data, with doubles in full precision."""
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()


def seal(path: Path) -> None:
    """Insert a digest of its bytes into a Parquet file."""
    content = path.read_bytes()
    footer = len(content) - _footer_size(content)
    digest = hashlib.sha256(content).digest()
    path.write_bytes(content[:footer] + _MARK + digest + content[footer:])


def is_sealed(path: Path) -> bool:
    """Whether a file has a seal; reads only its last bytes."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _FOOTER_END, 0))
        start = size - _footer_size(file.read()) - _SEAL
        if start < 0:
            return False
        file.seek(start)
        return file.read(len(_MARK)) == _MARK


def is_damaged(path: Path) -> bool:
    """Whether a file does not match its seal; False without a seal."""
    if not is_sealed(path):
        return False
    content = path.read_bytes()
    footer = len(content) - _footer_size(content)
    start = footer - _SEAL
    expected = content[start + len(_MARK) : footer]
    return hashlib.sha256(content[:start] + content[footer:]).digest() != expected


def _footer_size(content: bytes) -> int:
    return _FOOTER_END + int.from_bytes(content[-_FOOTER_END:-4], "little")


def write_parquet(table: pa.Table, path: str | Path) -> None:
    """Write a table with page checksums, for any reader, and a digest of the file, for ours."""
    import pyarrow.parquet as pq  # imported here because it is slow

    metadata = {**(table.schema.metadata or {}), _NAME: str(VERSION).encode()}
    with replacing(path) as temporary:
        pq.write_table(table.replace_schema_metadata(metadata), temporary, write_page_checksum=True)
        seal(temporary)


def read_parquet(path: str | Path, what: str) -> pa.Table:
    """Read a table; SourceError if it is missing, no Parquet, or damaged by its digest."""
    import pyarrow.parquet as pq

    check_digest(path, what)
    try:
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise SourceError(f"cannot read {what} from '{path}': {error}") from None
    version = (table.schema.metadata or {}).get(_NAME)
    check_version(VERSION if version is None else int(version), f"'{path}'")
    return table


def read_row(path: str | Path, columns: Sequence[str], what: str) -> dict[str, pa.Scalar]:
    """Return the row of a Parquet file by column; SourceError if not one row, or damaged."""
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
        damaged = is_damaged(Path(path))
    except OSError as error:
        raise SourceError(f"cannot read {what} from '{path}': {error}") from None
    if damaged:
        raise _damaged(path, what)


def sealed_json(record: Mapping[str, Any]) -> str:
    """Return a record and its digest as JSON; doubles are kept exactly."""
    fields = {**record, FORMAT: VERSION}
    return json.dumps({**fields, FIELD: of_json(fields)}, allow_nan=False)


def write_json(record: Mapping[str, Any], path: str | Path) -> None:
    """Write a record and its digest."""
    text = sealed_json(record)
    with replacing(path) as temporary:
        temporary.write_text(text)


def read_json(path: str | Path) -> Any:
    """Read a record; SourceError if it is missing, no JSON, or damaged by its digest."""
    try:
        record = json.loads(Path(path).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise SourceError(f"cannot read JSON from '{path}': {error}") from None
    return unsealed(record, path)


def unsealed(record: Any, path: str | Path) -> Any:
    """Return a record without its digest; SourceError if the digest does not match."""
    if isinstance(record, dict):
        expected = record.pop(FIELD, None)
        if expected is not None and expected != of_json(record):
            raise _damaged(path, "the record")
        check_version(record.pop(FORMAT, VERSION), f"'{path}'")
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
        """Read the data of `to_struct`."""

    def write_json(self, path: str | Path) -> None:
        """Write `to_struct` as JSON with a digest; doubles are kept exactly."""
        write_json(self.to_struct(), path)

    @classmethod
    def read_json(cls, path: str | Path) -> Self:
        """Read a file of `write_json`; SourceError, or RecordError for another record."""
        return cls.from_struct(read_json(path))


if sys.platform != "win32":
    import fcntl

#: Names of paths that are not regular files.
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which replaces it at the end.

    Readers see the old file or the new one, even after a power failure; links and the file mode
    are kept. The temporary file is removed if the block fails, or by the next writer if the
    process is killed. SourceError if `path` is not a regular file.
    """
    target = check_place(path)
    with _temporary(target) as (temporary, handle):
        yield temporary
        os.fsync(handle)
        if sys.platform == "win32":
            os.close(handle)
        temporary.replace(target)
    sync_folder(target.parent)


def check_place(path: str | Path) -> Path:
    """Return the path to write to, links resolved; SourceError if it is not a regular file."""
    target = Path(os.path.realpath(absolute(path)))
    try:
        kind = stat.S_IFMT(target.stat().st_mode)
    except FileNotFoundError:
        return target
    if kind != stat.S_IFREG:
        raise SourceError(
            f"'{path}' is {_KINDS.get(kind, 'no file')}, which is not replaced; a regular file or "
            "a new name is needed"
        )
    return target


def absolute(path: str | Path) -> Path:
    """Return a path from the root; SourceError where the current folder has been removed."""
    try:
        return Path(path).absolute()
    except FileNotFoundError:
        raise SourceError(
            f"'{path}' is relative to the current folder, which has been removed; give a whole path"
        ) from None


@contextmanager
def _temporary(target: Path) -> Iterator[tuple[Path, int]]:
    """Create an empty file beside `target` with its mode; remove it if the block fails."""
    # A digest, as the name of the target plus a suffix might be too long.
    stem = f".dbselect-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"
    for stray in target.parent.glob(stem + "*"):
        _remove_if_left(stray)
    while True:
        temporary = target.parent / (stem + secrets.token_hex(8))
        try:
            handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        except OSError as error:
            # Report the requested file, not the temporary one.
            raise OSError(error.errno, error.strerror, str(target)) from None
        # Another process may have removed it as stale before it was locked.
        if not _locked(handle) or temporary.exists():
            break
        os.close(handle)
    try:
        _copy_mode(target, temporary)
        yield temporary, handle
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        with suppress(OSError):
            os.close(handle)


def _locked(handle: int) -> bool:
    """Lock a file while it is open; False if the system has no locks."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


def _remove_if_left(stray: Path) -> None:
    """Remove a temporary file whose writer has died, which released its lock."""
    if sys.platform == "win32":
        return
    with suppress(OSError):
        handle = os.open(stray, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stray.unlink()
        finally:
            os.close(handle)


def _copy_mode(target: Path, temporary: Path) -> None:
    """Copy mode and owner of the target, if it exists."""
    with suppress(FileNotFoundError):
        old = target.stat()
        if hasattr(os, "chown"):
            # Only root may change the owner; the mode is kept anyway.
            with suppress(PermissionError):
                os.chown(temporary, old.st_uid, old.st_gid)
        temporary.chmod(stat.S_IMODE(old.st_mode))


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk, so that a new name is durable; not needed on Windows."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
