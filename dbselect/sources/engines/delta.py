"""Delta tables on this machine: a folder with a log that lists the files of the table."""

import glob
from pathlib import Path
from typing import Any

from dbselect.errors import ArgumentError, SourceError


def is_delta(path: str | Path) -> bool:
    """Whether a folder is a Delta table."""
    return (Path(path) / "_delta_log").is_dir()


def delta_table(path: Path) -> Any:
    """Open a Delta table."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise ArgumentError(
            f"'{path}' is a Delta table, which needs deltalake: pip install 'dbselect[delta]'"
        ) from None
    try:
        return DeltaTable(path)
    except DeltaError as error:
        raise SourceError(f"cannot read the Delta table '{path}': {error}") from error


def refuse_files_of_delta(path: str, own: Path | None = None) -> None:
    """Refuse files of a Delta table that a folder around it or a glob would read.

    Its folder keeps files that are dropped from the table. A file that is named by itself is
    meant.

    Parameters
    ----------
    path : file, folder or glob
    own : a folder that is not read
    """
    if Path(path).is_file():
        return
    if Path(path).is_dir():
        tables = {log.parent for log in Path(path).rglob("_delta_log")}
    else:
        found = [Path(one).absolute() for one in glob.iglob(path, recursive=True)]
        tables = {up for one in found for up in (one, *one.parents)}
    table = next((one for one in sorted(tables) if is_delta(one) and one != own), None)
    if table is not None:
        raise SourceError(
            f"'{path}' has files of the Delta table '{table}', some of which may be dropped from "
            "it; give that folder, or pl.scan_delta of it"
        )
