"""The compiled library as a DuckDB extension: a copy with DuckDB's footer in a cache folder."""

import hashlib
from importlib.metadata import version
from pathlib import Path

from platformdirs import user_cache_path

from dbselect._native import library_path
from dbselect.errors import EngineError
from dbselect.record.files import replacing

#: The stable C API asked for: every DuckDB that offers it loads the extension.
C_API = "v1.2.0"
#: DuckDB takes the name of the entry point from the file name.
FILE_NAME = "dbselect.duckdb_extension"


def extension_path(platform: str) -> Path:
    """Return the extension for a platform (``PRAGMA platform``), placed on first use.

    The file is written under another name and renamed, so that processes that
    start at once never load half of it.

    Raises
    ------
    EngineError : the cache folder cannot be written
    """
    library = library_path().read_bytes()
    release = version("dbselect")
    content = library + _footer(platform, f"v{release}")
    digest = hashlib.sha256(content).hexdigest()[:12]
    folder = user_cache_path("dbselect") / f"{release}-{digest}"
    path = folder / FILE_NAME
    if path.is_file() and path.stat().st_size == len(content):
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise EngineError(
            f"cannot write the DuckDB extension to '{folder}' ({error.strerror}); "
            "set XDG_CACHE_HOME to a folder that can be written"
        ) from error
    return path


def _footer(platform: str, release: str) -> bytes:
    """Return the 512 bytes by which DuckDB knows an extension; the signature is empty."""
    fields = ["4", platform, C_API, release, "C_STRUCT", "", "", ""]
    return b"".join(field.encode().ljust(32, b"\0") for field in reversed(fields)) + bytes(256)
