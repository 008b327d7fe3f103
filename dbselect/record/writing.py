"""Atomic, durable writing of files; symbolic links are followed."""

import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dbselect.errors import SourceError

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
