"""Delta and Iceberg tables, local or on an object store: folders with a log of the valid files."""

import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dbselect.errors import ArgumentError, SourceError
from dbselect.record.files import absolute
from dbselect.sources.objects import is_installed, is_url, some_below

#: Folder of the log of Delta and of Iceberg, and the ending of Iceberg's metadata files.
DELTA_LOG, ICEBERG_LOG, ICEBERG_FILE = "_delta_log", "metadata", ".metadata.json"
#: Properties that pyiceberg does not read from the environment -> their variables.
_OF_ICEBERG = {"s3.endpoint": "AWS_ENDPOINT_URL", "s3.region": "AWS_REGION"}


def is_delta(path: str | Path) -> bool:
    """Whether a folder is a Delta table."""
    log = f"{path}/{DELTA_LOG}"
    if not is_url(path):
        return Path(log).is_dir()
    if is_installed() or find_spec("deltalake") is None:
        return bool(some_below(log))
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return bool(
            DeltaTable(str(path), storage_options={"max_retries": "2", "retry_timeout": "9s"})
        )
    except TableNotFoundError:
        return False


def lake_of(folder: str | Path) -> str | None:
    """Return ``"Delta"`` or ``"Iceberg"`` if a folder is such a table, else None."""
    if is_delta(folder):
        return "Delta"
    log = f"{folder}/{ICEBERG_LOG}"
    names = some_below(log) if is_url(folder) else [path.name for path in Path(log).glob("*.json")]
    return "Iceberg" if any(name.endswith(ICEBERG_FILE) for name in names) else None


def kinds_among(names: Iterable[str]) -> dict[str, str]:
    """Map the folders that are Delta or Iceberg tables to their kind, from all file names."""
    kinds = {}
    for name in names:
        *folders, log, last = f"./{name}".split("/") if "/" in name else ("", "", "")
        if DELTA_LOG in folders or log == DELTA_LOG:
            kinds["/".join([*folders, log][: [*folders, log].index(DELTA_LOG)])] = "Delta"
        elif log == ICEBERG_LOG and last.endswith(ICEBERG_FILE):
            kinds["/".join(folders)] = "Iceberg"
    return {folder.removeprefix("./"): kind for folder, kind in kinds.items()}


def opened_lake(path: str) -> Any | None:
    """Open the lake of a folder or of an Iceberg metadata file; None if it is no lake."""
    if path.endswith(ICEBERG_FILE):
        return iceberg_table(path)
    kind = lake_of(path.rstrip("/"))
    if kind is None:
        return None
    return delta_table(path) if kind == "Delta" else iceberg_table(path)


def delta_table(path: str | Path) -> Any:
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
    except (DeltaError, OSError) as error:
        raise SourceError(f"cannot read the Delta table '{path}': {error}") from error


def iceberg_table(path: str) -> Any:
    """Open an Iceberg table of a metadata file, or of a folder that names the current one."""
    try:
        from pyiceberg.table import StaticTable
    except ImportError:
        raise ArgumentError(
            f"'{path}' is an Iceberg table, which needs pyiceberg: pip install 'dbselect[iceberg]'"
        ) from None
    try:
        properties = {key: os.environ[var] for key, var in _OF_ICEBERG.items() if var in os.environ}
        return StaticTable.from_metadata(path if is_url(path) else str(absolute(path)), properties)
    except Exception as error:  # errors of pyiceberg and its file systems have no common class
        raise SourceError(
            f"cannot read the Iceberg table '{path}': {error}; where a catalog has its current "
            "version, give catalog.load_table(...), or the path of the *.metadata.json file"
        ) from error


def check_mapping(table: Any) -> None:
    """Refuse a table of deltalake whose files call their columns otherwise than the table does."""
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise SourceError(
            f"the Delta table '{table.table_uri}' maps names of columns (delta.columnMapping.mode "
            f"is '{mode}'), which Polars and deltalake cannot read; give a relation of DuckDB, "
            "con.sql(\"FROM delta_scan('...')\"), or a frame of Spark"
        )
