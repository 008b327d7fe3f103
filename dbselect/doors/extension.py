"""The compiled library as a DuckDB extension: a copy in a cache folder, with DuckDB's footer."""

import hashlib
import os
import platform as machines
import re
import stat
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from platformdirs import user_cache_path

from dbselect._native import library_path
from dbselect.errors import ArgumentError, EngineError
from dbselect.record.files import replacing

#: Version of the stable C API; every DuckDB that offers it loads the extension.
C_API = "v1.2.0"
#: File name, from which DuckDB derives the name of the entry point.
FILE_NAME = "dbselect.duckdb_extension"
#: Mode of the folder: private, as its files are loaded as code.
OWN = 0o700
#: Names of the folders of builds: release and content.
_BUILD = re.compile(r"\d[\w.+]*-[0-9a-f]{12}")
#: Number of most recently used builds that are always kept, and the time in seconds that others
#: are kept; a process loads a build right after it has requested it.
KEPT, KEPT_SECONDS = 4, 7 * 86_400
#: Processor name of the system -> its name in DuckDB.
_PROCESSORS = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
#: Oldest supported DuckDB; older ones offer the C API, but it fails.
LOWEST_DUCKDB = "1.3"


def extension_path(platform: str) -> Path:
    """Return the path of the extension for a ``PRAGMA platform``, written on first use."""
    library = library_path().read_bytes()
    release = version("dbselect")
    content = library + _footer(platform, f"v{release}")
    digest = hashlib.sha256(content).hexdigest()[:12]
    folder = user_cache_path("dbselect") / f"{release}-{digest}"
    if _placed(content, folder / FILE_NAME):
        _remove_builds(folder)
    with suppress(OSError):  # a folder that belongs to root
        os.utime(folder)
    return folder / FILE_NAME


def lasting_path(platform: str) -> Path:
    """Return a copy of the extension at a path that does not change when dbselect is upgraded.

    ArgumentError for the platform of another system or processor than the library's.
    """
    native = _library_platform()
    if platform != native and not platform.startswith(f"{native}_gcc"):
        raise ArgumentError(
            f"--platform is '{platform}', and the library that is installed here is for {native}; "
            "the wheel of dbselect for that system has the extension for it"
        )
    path = user_cache_path("dbselect") / "extension" / platform / FILE_NAME
    _placed(extension_path(platform).read_bytes(), path)
    return path


def _placed(content: bytes, path: Path) -> bool:
    """Write a file into the cache if it differs; return whether it was written."""
    try:
        path.parent.mkdir(mode=OWN, parents=True, exist_ok=True)
        _close(path.parent.parent)
        _close(path.parent)
        # The file is loaded into this process, so compare its content, not its size.
        is_new = path.is_symlink() or not path.is_file() or path.read_bytes() != content
        if is_new:
            path.unlink(missing_ok=True)
            with replacing(path) as temporary:
                temporary.write_bytes(content)
        _close(path)
    except OSError as error:
        raise EngineError(
            f"cannot write the DuckDB extension to '{path.parent}' ({error.strerror}); "
            "set XDG_CACHE_HOME to a folder that can be written"
        ) from error
    return is_new


def _remove_builds(current: Path) -> None:
    """Remove old builds, except those that another process uses or removes."""
    used = {}
    for folder in current.parent.iterdir():
        with suppress(OSError):
            if _BUILD.fullmatch(folder.name) and folder != current and not folder.is_symlink():
                used[folder] = folder.stat().st_mtime
    limit = time.time() - KEPT_SECONDS
    for folder in sorted(used, key=lambda folder: -used[folder])[KEPT - 1 :]:
        if used[folder] < limit:
            with suppress(OSError):
                (folder / FILE_NAME).unlink()
                folder.rmdir()


def _close(path: Path) -> None:
    """Make a path private to the user; on Windows the cache is private already."""
    if not hasattr(os, "geteuid"):
        return
    status, user = path.stat(), os.geteuid()
    if status.st_uid not in {user, 0}:
        raise EngineError(
            f"'{path}' belongs to user {status.st_uid}, who could change what is loaded; set "
            "XDG_CACHE_HOME to a folder of your own"
        )
    if stat.S_IMODE(status.st_mode) & ~OWN and status.st_uid == user:
        path.chmod(OWN & stat.S_IMODE(status.st_mode))


def _footer(platform: str, release: str) -> bytes:
    """Return the 512 bytes that mark a file as a DuckDB extension; the signature is empty."""
    fields = ["4", platform, C_API, release, "C_STRUCT", "", "", ""]
    return b"".join(field.encode().ljust(32, b"\0") for field in reversed(fields)) + bytes(256)


def _library_platform() -> str:
    """Return the DuckDB platform of the installed library."""
    system = {"linux": "linux", "darwin": "osx", "win32": "windows"}.get(sys.platform, sys.platform)
    machine = machines.machine().lower()
    return f"{system}_{_PROCESSORS.get(machine, machine)}"


def platform_of_this_machine() -> str:
    """Return the DuckDB platform of this process."""
    import duckdb

    with duckdb.connect() as con:
        ((platform,),) = con.execute("PRAGMA platform").fetchall()
        return str(platform)


def copied(extension: Path, target: Path) -> Path:
    """Copy the extension to a file or folder; return its absolute path."""
    if target.is_dir():
        target /= FILE_NAME
    if target.name != FILE_NAME:
        raise ArgumentError(
            f"--out is '{target}'; DuckDB takes the name of an extension from its file, which "
            f"must be called {FILE_NAME}"
        )
    with replacing(target) as temporary:
        temporary.write_bytes(extension.read_bytes())
    return target.absolute()


def loading(path: Path) -> dict[str, list[str]]:
    """Return the code that loads the extension in each DuckDB client."""
    file = "'" + str(path).replace("'", "''") + "'"
    load = f"LOAD {file};"
    return {
        "Installed, in any client": [
            f"FORCE INSTALL {file};  -- once, and after an upgrade of DuckDB or dbselect",
            "LOAD dbselect;  -- in each session, which allows unsigned extensions as below",
        ],
        "Command line": ["duckdb -unsigned my.db", load],
        "Node (@duckdb/node-api)": [
            "const db = await DuckDBInstance.create('my.db', {allow_unsigned_extensions: 'true'});",
            f'await (await db.connect()).run("{load}");',
        ],
        "JDBC": [
            'properties.setProperty("allow_unsigned_extensions", "true");',
            f'statement.execute("{load}");',
        ],
        "R": [
            'drv <- duckdb::duckdb("my.db", config = list(allow_unsigned_extensions = "true"))',
            f'DBI::dbExecute(DBI::dbConnect(drv), "{load}")',
        ],
        "Python": ['con = dbselect.connect("my.db")  # loads it, and named arguments with it'],
    }
