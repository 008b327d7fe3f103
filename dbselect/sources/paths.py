"""Which files a path means, here or on an object store: the same ones for every door.

As in Hive, Spark and Delta, names that begin with ``_`` or ``.`` are no data, except partitions,
``_year=2013``, and what a path or glob names. Delta and Iceberg tables are left to their log.
"""

import glob
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dbselect.errors import SourceError
from dbselect.sources.engines import lakes
from dbselect.sources.engines.formats import PARQUET, Format, told_format
from dbselect.sources.objects import is_installed, is_listed, is_url, version_at, versions_below


@dataclass(frozen=True)
class FilesMeant:
    """The files that a path means."""

    shown: str  # the path
    root: str  # folder below which the files have their names; empty if these are whole addresses
    names: tuple[str, ...]  # of the files, sorted
    format: Format  # of all of them
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

    def looked(self) -> dict[str, str]:
        """Look at the files of an object store again, and return versions by address."""
        if len(self.names) == 1:
            found = {self.names[0]: version_at(self.addresses[0])}
        else:
            found = dict(versions_below(self.root))
        return {self.address(name): found[name] or "" for name in self.names if name in found}

    @property
    def here(self) -> list[str]:
        """The paths of the files on this machine."""
        return [] if is_url(self.shown) else self.addresses


def meant(path: str | Path, own: Path | None = None) -> Any:
    """Return the files of a path or glob, but those below `own`, or the lake that it is."""
    text = str(Path(path).expanduser()) if str(path).startswith("~") else str(path)
    if not text:
        raise SourceError("no file is at ''; a Parquet file or a glob is needed")
    if not is_url(text):
        return _meant_here(text, own)
    is_named = not glob.has_magic(text) and Path(text).suffix
    if is_listed(text) and (is_installed() or not is_named):
        return _meant_there(text.rstrip("/"))
    return FilesMeant(text, "", (text,), told_format(text) or PARQUET)


def _meant_here(text: str, own: Path | None) -> Any:
    if Path(text).is_file() and not text.endswith(lakes.ICEBERG_FILE):
        path = Path(text)
        form = told_format(path.name) or PARQUET
        return FilesMeant(text, str(path.parent), (path.name,), form)
    table = lakes.opened_lake(text)
    if table is not None:
        return table
    parts = Path(text).parts
    at = len(parts) if Path(text).exists() else _cut(parts)
    root, pattern = str(Path(*parts[:at])), "/".join(parts[at:]) or "**"
    every = [Path(one).as_posix() for one in glob.glob(pattern, root_dir=root, recursive=True)]
    is_deep = pattern.endswith("**")
    folders = [one for one in every if not is_deep and Path(root, one).is_dir()]
    every += [
        f"{folder}/{Path(one).as_posix()}"
        for folder in folders
        for one in glob.glob("**", root_dir=Path(root, folder), recursive=True)
    ]
    there = {one for one in every if Path(root, one).is_file()}
    if own is not None:
        mine = own.resolve()
        there = {one for one in there if not Path(root, one).resolve().is_relative_to(mine)}
    top = Path(root).absolute()
    return _listing(text, root, there, pattern, lambda name: lakes.lake_of(top / name), top.parents)


def _meant_there(text: str) -> Any:
    if not glob.has_magic(text):
        is_name = is_installed() and text.count("/") > 2 and told_format(text)
        version = version_at(text) if is_name else None
        if version is not None:
            root, _, name = text.rpartition("/")
            form = told_format(name) or PARQUET
            return FilesMeant(text, root, (name,), form, versions={name: version})
        table = lakes.opened_lake(text)
        if table is not None:
            return table
    parts = text.split("/")
    at = _cut(parts) if glob.has_magic(text) else len(parts)
    root, pattern = "/".join(parts[:at]), parts[at:] or ["**"]
    versions = versions_below(root)

    kind = lakes.kinds_among(versions).get
    above = [root[: at.start()] for at in re.finditer("/", root)][2:]
    there = {name for name in versions if _matches(name.split("/"), pattern)}
    return _listing(text, root, there, "/".join(pattern), kind, above, versions)


def _listing(
    text: str,
    root: str,
    there: set[str],
    pattern: str,
    kind: Callable[[str], str | None],
    above: Iterable[str | Path],
    versions: Mapping[str, str] | None = None,
) -> FilesMeant:
    """Return the files that are there; `kind` says which folders are lakes, as `lakes.lake_of`."""
    names = sorted(name for name in there if is_data(name, pattern))
    if not names:
        how = "matches" if glob.has_magic(text) else "is at"
        hidden = "; names that begin with _ or . are no data" if there else ""
        raise SourceError(f"no file {how} '{text}'; a Parquet file or a glob is needed{hidden}")
    folders = {str(up) for name in names for up in Path(name).parents}
    found = [(f"{root}/{one}".removesuffix("/."), kind(one)) for one in sorted(folders, key=len)]
    found += [(str(one), lakes.lake_of(one)) for one in above]
    for folder, known in found:
        if known is not None:
            raise SourceError(
                f"'{text}' has files of the {known} table '{folder}', some of which may be dropped "
                f"from it; give that folder, or a filter of pl.scan_{known.lower()} of it"
            )
    form, names = _one_format(text, names)
    own = {name: versions[name] for name in names} if versions else {}
    return FilesMeant(text, root, tuple(names), form, versions=own)


def _one_format(text: str, names: list[str]) -> tuple[Format, list[str]]:
    """Return the format of some files, and those that have it; of no known ending, Parquet."""
    found: dict[Format, list[str]] = {}
    for name in names:
        form = told_format(name)
        if form is not None:
            found.setdefault(form, []).append(name)
    if len(found) > 1:
        endings = sorted({Path(name).suffix for some in found.values() for name in some})
        raise SourceError(f"'{text}' has files {', '.join(endings)}; give a glob of one kind")
    return next(iter(found.items()), (PARQUET, names))


def is_data(name: str, pattern: str = "") -> bool:
    """Whether a name below a folder is that of data, or a glob names it."""
    named = [part for part in pattern.split("/") if part.startswith(("_", "."))]
    hidden = [
        part for part in name.split("/")
        if part.startswith(".") or (part.startswith("_") and "=" not in part)
    ]  # fmt: skip
    return all(any(fnmatchcase(part, one) for one in named) for part in hidden)


def partition_of(name: str) -> dict[str, str]:
    """Return the keys and values in the folder names ``name=value`` of a file."""
    pairs = (folder.partition("=") for folder in name.split("/")[:-1])
    return {key: unquote(value) for key, equals, value in pairs if equals}


def _cut(parts: Sequence[str]) -> int:
    """Return how many parts of a path come before the first glob, or, without one, the last."""
    return next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)


def _matches(name: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether a name, or a folder that it is in, matches a glob; both in parts."""
    if not pattern or not name:
        return not pattern or {*pattern} == {"**"}
    if pattern[0] == "**":
        return _matches(name, pattern[1:]) or _matches(name[1:], pattern)
    return fnmatchcase(name[0], pattern[0]) and _matches(name[1:], pattern[1:])
