"""Find the files of a path or glob, local or on an object store, by the same rules for all doors.

That they do not change in and between passes, which would mix old and new rows, is checked.

As in Hive, Spark and Delta, names that begin with ``_`` or ``.`` are no data, except partitions,
``_year=2013``, and what a path or glob names. Delta and Iceberg tables are read by their log.
"""

import glob
import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dbselect.errors import SourceError
from dbselect.record.files import absolute
from dbselect.sources.engines import lakes
from dbselect.sources.engines.formats import PARQUET, Format, format_of_name
from dbselect.sources.objects import is_installed, is_listed, is_url, version_at, versions_below


@dataclass(frozen=True)
class FileListing:
    """The files that a path or glob names."""

    shown: str  # the path
    root: str  # folder that `names` are relative to; empty if they are whole addresses
    names: tuple[str, ...]  # of the files, sorted
    format: Format  # of all files
    #: Name -> size and ETag of a file on an object store
    versions: Mapping[str, str] = field(default_factory=dict)

    def address(self, name: str) -> str:
        """Return the path or the address of a file."""
        if is_url(self.root):
            return f"{self.root}/{name}"
        return str(Path(self.root, name)) if self.root else name

    @property
    def addresses(self) -> list[str]:
        """All paths or addresses."""
        return [self.address(name) for name in self.names]

    def current_versions(self) -> dict[str, str]:
        """Look the files up on the object store again; return their versions by address."""
        if len(self.names) == 1:
            versions = {self.names[0]: version_at(self.addresses[0])}
        else:
            versions = dict(versions_below(self.root))
        return {self.address(name): versions[name] or "" for name in self.names if name in versions}

    @property
    def local_paths(self) -> list[str]:
        """The paths of the files on this machine."""
        return [] if is_url(self.shown) else self.addresses


def files_at(path: str | Path, excluded: Path | None = None) -> Any:
    """Return the files of a path or glob, except those below `excluded`, or the opened lake."""
    text = str(Path(path).expanduser()) if str(path).startswith("~") else str(path)
    if not text:
        raise SourceError("no file is at ''; a Parquet file or a glob is needed")
    if not is_url(text):
        return _checked_names(_meant_here(text, excluded))
    is_named = not glob.has_magic(text) and Path(text).suffix
    if is_listed(text) and (is_installed() or not is_named):
        return _meant_there(text.rstrip("/"))
    return FileListing(text, "", (text,), format_of_name(text) or PARQUET)


def _checked_names(listing: Any) -> Any:
    """Refuse names that are no UTF-8, which no engine opens, and a folder that is gone."""
    for name in listing.names if isinstance(listing, FileListing) else ():
        try:
            name.encode()
        except UnicodeEncodeError:
            raise SourceError(
                f"the file name {name!r} of '{listing.shown!a}' is no UTF-8, which engines cannot "
                "open; rename the file"
            ) from None
    return listing


def _meant_here(text: str, excluded: Path | None) -> Any:
    if Path(text).is_file() and not text.endswith(lakes.ICEBERG_FILE):
        path = Path(text)
        format_ = format_of_name(path.name) or PARQUET
        return FileListing(text, str(path.parent), (path.name,), format_)
    table = lakes.opened_lake(text)
    if table is not None:
        return table
    parts = Path(text).parts
    at = len(parts) if Path(text).exists() else _cut(parts)
    root, pattern = str(Path(*parts[:at])), "/".join(parts[at:]) or "**"
    matches = [Path(name).as_posix() for name in glob.glob(pattern, root_dir=root, recursive=True)]
    is_recursive = pattern.endswith("**")
    folders = [name for name in matches if not is_recursive and Path(root, name).is_dir()]
    matches += [
        f"{folder}/{Path(name).as_posix()}"
        for folder in folders
        for name in glob.glob("**", root_dir=Path(root, folder), recursive=True)
    ]
    files = {name for name in matches if Path(root, name).is_file()}
    if excluded is not None:
        above = excluded.resolve()
        files = {file for file in files if not Path(root, file).resolve().is_relative_to(above)}
    top = absolute(root)
    return _listing(text, root, files, pattern, lambda name: lakes.lake_of(top / name), top.parents)


def _meant_there(text: str) -> Any:
    if not glob.has_magic(text):
        is_name = is_installed() and text.count("/") > 2 and format_of_name(text)
        version = version_at(text) if is_name else None
        if version is not None:
            root, _, name = text.rpartition("/")
            format_ = format_of_name(name) or PARQUET
            return FileListing(text, root, (name,), format_, versions={name: version})
        table = lakes.opened_lake(text)
        if table is not None:
            return table
    parts = text.split("/")
    at = _cut(parts) if glob.has_magic(text) else len(parts)
    root, pattern = "/".join(parts[:at]), parts[at:] or ["**"]
    versions = versions_below(root)

    kind = lakes.kinds_among(versions).get
    above = [root[: at.start()] for at in re.finditer("/", root)][2:]
    files = {name for name in versions if _matches(name.split("/"), pattern)}
    return _listing(text, root, files, "/".join(pattern), kind, above, versions)


def _listing(
    text: str,
    root: str,
    files: set[str],
    pattern: str,
    kind: Callable[[str], str | None],
    above: Iterable[str | Path],
    versions: Mapping[str, str] | None = None,
) -> FileListing:
    """Return the data among `files`; refuse files of lakes, of which `kind` returns the format."""
    names = sorted(name for name in files if is_data(name, pattern))
    if not names:
        how = "matches" if glob.has_magic(text) else "is at"
        hidden = "; names that begin with _ or . are no data" if files else ""
        raise SourceError(f"no file {how} '{text}'; a Parquet file or a glob is needed{hidden}")
    folders = sorted({str(parent) for name in names for parent in Path(name).parents}, key=len)
    kinds = [(f"{root}/{folder}".removesuffix("/."), kind(folder)) for folder in folders]
    kinds += [(str(folder), lakes.lake_of(folder)) for folder in above]
    for folder, lake in kinds:
        if lake is not None:
            raise SourceError(
                f"'{text}' has files of the {lake} table '{folder}', some of which may be dropped "
                f"from it; give that folder, or a filter of pl.scan_{lake.lower()} of it"
            )
    format_, names = _one_format(text, names)
    versions = {name: versions[name] for name in names} if versions else {}
    return FileListing(text, root, tuple(names), format_, versions=versions)


def _one_format(text: str, names: list[str]) -> tuple[Format, list[str]]:
    """Return the one format of some files, and the files that have it; Parquet if none is known."""
    by_format: dict[Format, list[str]] = {}
    for name in names:
        format_ = format_of_name(name)
        if format_ is not None:
            by_format.setdefault(format_, []).append(name)
    if len(by_format) > 1:
        endings = sorted({Path(name).suffix for group in by_format.values() for name in group})
        raise SourceError(f"'{text}' has files {', '.join(endings)}; give a glob of one kind")
    return next(iter(by_format.items()), (PARQUET, names))


def is_data(name: str, pattern: str = "") -> bool:
    """Whether a file below a folder is data: not hidden, or named by the glob."""
    named = [part for part in pattern.split("/") if part.startswith(("_", "."))]
    hidden = [
        part for part in name.split("/")
        if part.startswith(".") or (part.startswith("_") and "=" not in part)
    ]  # fmt: skip
    return all(any(fnmatchcase(part, glob_) for glob_ in named) for part in hidden)


def partition_of(name: str) -> dict[str, str]:
    """Return the keys and values in the folder names ``name=value`` of a file."""
    pairs = (folder.partition("=") for folder in name.split("/")[:-1])
    return {key: unquote(value) for key, equals, value in pairs if equals}


def _cut(parts: Sequence[str]) -> int:
    """Return the number of parts of a path before the first glob, or before the last part."""
    return next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)


def _matches(name: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a name, or a folder above it, matches a glob; both are split into parts."""
    if not pattern or not name:
        return not pattern or {*pattern} == {"**"}
    if pattern[0] == "**":
        return _matches(name, pattern[1:]) or _matches(name[1:], pattern)
    return fnmatchcase(name[0], pattern[0]) and _matches(name[1:], pattern[1:])


#: Nanoseconds within which two writes may leave the same time: some ticks of a kernel.
_TICKS = 20_000_000
#: Identity of a file: its inode, and what changes with its bytes.
Stamp = tuple[Any, ...]


def _stamps(paths: Iterable[str]) -> dict[str, Stamp]:
    """Return inode, size and time of local files; omit files that no longer exist."""
    stamps: dict[str, Stamp] = {}
    for path in paths:
        with suppress(OSError):
            status = os.stat(path)
            stamps[path] = status.st_ino, status.st_size, status.st_mtime_ns
    return stamps


@dataclass(frozen=True)
class Unchanged:
    """Stamps of files from when they were opened."""

    seen: Mapping[str, Stamp] = field(default_factory=dict)  # path -> stamp
    look: Callable[[Iterable[str]], Mapping[str, Stamp]] = _stamps

    @contextmanager
    def checked(self) -> Generator[None]:
        """Check the files before and after they are read, by two stats of each or two listings."""
        now = self.look(self.seen)
        for path, stamp in self.seen.items():
            if now.get(path) != stamp:
                raise SourceError(f"'{path}' has changed since it was opened; read it once more")
        try:
            yield
        except Exception as error:
            # The error may come from a file that changed while it was read: report that instead.
            self._check_in_place(error)
            raise
        self._check_in_place(None)

    def _check_in_place(self, cause: Exception | None) -> None:
        now = self.look(self.seen)
        for path, stamp in self.seen.items():
            if path in now and now[path][0] == stamp[0] and now[path] != stamp:
                raise SourceError(
                    f"'{path}' was written over while it was read; write another file and rename "
                    "it, and read it once more"
                ) from cause


def unchanged_of(paths: Iterable[str]) -> Unchanged:
    """Stamp local files as they are now, without the folders among them."""
    paths = [path for path in paths if Path(path).is_file()]
    seen = _stamps(paths)
    if any(written > time.time_ns() - _TICKS for _, _, written in seen.values()):
        # A next write might leave the same time, so wait until it cannot.
        time.sleep(_TICKS / 1e9)
        seen = _stamps(paths)
    return Unchanged(seen)


def unchanged_at(versions: Mapping[str, str], look: Callable[[], Mapping[str, str]]) -> Unchanged:
    """Stamp files of an object store, address -> version; `look` returns the current versions."""

    def stamps(_: Iterable[str]) -> dict[str, Stamp]:
        return {path: (None, version) for path, version in look().items()}

    return Unchanged({path: (None, version) for path, version in versions.items()}, stamps)
