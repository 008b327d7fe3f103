"""Digests of stored files, which detect damage after writing.

Checksums of Parquet's pages leave out the names, counts and lengths elsewhere in a
file. The seal is a digest of all other bytes; it lies before the footer, where no reader looks,
and does not travel into what is made of the file.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbselect.errors import RecordError

#: The version of what is stored, and its name in every file.
FORMAT, VERSION = "format", 1
#: Where a JSON file has its digest: the last field of the record.
FIELD = "digest"
#: What a seal begins with.
_MARK = b"dbselect sha256 "
_SEAL = len(_MARK) + hashlib.sha256().digest_size
#: A Parquet file ends with the length of its footer and a mark of four bytes.
_END = 8


def check_version(version: Any, what: str) -> None:
    """Raise RecordError for what a newer release has written."""
    if version != VERSION:
        raise RecordError(
            f"{what} has format {version!r}, and this release of dbselect reads format {VERSION}; "
            "update dbselect"
        )


def of_json(record: Mapping[str, Any]) -> str:
    """Return the digest of plain data; doubles count by all their digits."""
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()


def seal(path: Path) -> None:
    """Put a digest of its bytes into a Parquet file."""
    content = path.read_bytes()
    footer = len(content) - _footer_size(content)
    digest = hashlib.sha256(content).digest()
    path.write_bytes(content[:footer] + _MARK + digest + content[footer:])


def is_sealed(path: Path) -> bool:
    """Whether a file has a seal; reads a few bytes, however long it is."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _END, 0))
        start = size - _footer_size(file.read()) - _SEAL
        if start < 0:
            return False
        file.seek(start)
        return file.read(len(_MARK)) == _MARK


def is_damaged(path: Path) -> bool:
    """Whether a file does not fit its seal; of one without nothing is known."""
    if not is_sealed(path):
        return False
    content = path.read_bytes()
    footer = len(content) - _footer_size(content)
    start = footer - _SEAL
    expected = content[start + len(_MARK) : footer]
    return hashlib.sha256(content[:start] + content[footer:]).digest() != expected


def _footer_size(content: bytes) -> int:
    return _END + int.from_bytes(content[-_END:-4], "little")
