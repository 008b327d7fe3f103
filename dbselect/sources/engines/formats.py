"""Files of any format, by the ending of the name; a folder with a log is a Delta table.

Parquet and Arrow files have column types. CSV and NDJSON do not: all of the text is read once
to infer them, so that a number late in the file counts as much as one in the beginning, and
empty fields are missing.
"""

import glob
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from dbselect.errors import LeftOutWarning, SourceError, warn_caller
from dbselect.sources.engines.delta import delta_table, is_delta, refuse_files_of_delta

#: Rows of CSV in which columns of dates are looked for; whether all rows are dates is seen after.
#: To look for them in all rows of all texts takes ten times as long as to read the table.
_FIRST_ROWS = 10_000
#: What an Arrow stream begins with; a file begins with its name.
_STREAM = b"\xff" * 4


@dataclass(frozen=True)
class Format:
    """How files of a kind are read.

    Parameters
    ----------
    name : of the kind
    scan : path, whether it is a glob, whether folders ``name=value`` are columns -> the rows
    counted : whether files store their number of rows
    foldered : whether folders ``name=value`` can be columns
    nested : whether a column can be a struct, as a Gram record is
    """

    name: str
    scan: Callable[[str, bool, bool | None], pl.LazyFrame]
    counted: bool = True
    foldered: bool = True
    nested: bool = True


def _parquet(path: str, is_glob: bool, hive: bool | None) -> pl.LazyFrame:
    # Fewer row groups in flight: less memory, and the rows are still in the caches.
    return pl.scan_parquet(path, low_memory=True, glob=is_glob, hive_partitioning=hive)


def _arrow(path: str, is_glob: bool, hive: bool | None) -> pl.LazyFrame:
    if Path(path).is_file():
        with Path(path).open("rb") as file:
            is_stream = file.read(len(_STREAM)) == _STREAM
        if is_stream:
            raise SourceError(
                f"'{path}' is an Arrow stream, not a file; give pyarrow.ipc.open_stream of it"
            )
    return pl.scan_ipc(path, glob=is_glob, hive_partitioning=bool(hive))


def _text(separator: str) -> Callable[[str, bool, bool | None], pl.LazyFrame]:
    def scan(path: str, is_glob: bool, _: bool | None) -> pl.LazyFrame:
        read = partial(pl.scan_csv, path, separator=separator, glob=is_glob)
        # With types given, Polars does not infer them before each pass.
        types = read(infer_schema_length=None).collect_schema()
        dates = read(infer_schema_length=_FIRST_ROWS, try_parse_dates=True).collect_schema()
        for name, dtype in dates.items():
            if dtype.is_temporal() and types[name] == pl.String:
                all_dates = read(schema={**types, name: dtype})
                if _is_readable(all_dates.select(pl.col(name).count())):
                    types[name] = dtype
        return read(schema=types)

    return scan


def _is_readable(frame: pl.LazyFrame) -> bool:
    try:
        frame.collect(engine="streaming")
    except pl.exceptions.PolarsError:
        return False
    return True


def _lines(path: str, is_glob: bool, _: bool | None) -> pl.LazyFrame:
    read = partial(pl.scan_ndjson, path if is_glob else glob.escape(path))
    return read(schema=read(infer_schema_length=None).collect_schema())


PARQUET = Format("Parquet", _parquet)
_CSV = Format("CSV", _text(","), counted=False, foldered=False, nested=False)
_NDJSON = Format("NDJSON", _lines, counted=False, foldered=False)
_ARROW = Format("Arrow", _arrow)
#: Ending -> format; anything else is Parquet.
FORMATS = {
    ".csv": _CSV,
    ".tsv": Format("TSV", _text("\t"), counted=False, foldered=False, nested=False),
    ".ndjson": _NDJSON,
    ".jsonl": _NDJSON,
    ".arrow": _ARROW,
    ".feather": _ARROW,
    ".ipc": _ARROW,
}
#: Endings of text that is packed.
_PACKED = (".gz", ".zst")


def format_of(path: str) -> tuple[Format, str]:
    """Return the format of a file, a glob or a folder, and the glob of a folder of text or Arrow.

    Raises
    ------
    SourceError : a folder has files of several formats, none of them Parquet
    """
    folder = Path(path)
    if "://" in path or not folder.is_dir():
        return _told(path) or PARQUET, path
    endings = {one.suffix for one in folder.rglob("*") if one.suffix in (*FORMATS, ".parquet")}
    if not endings or ".parquet" in endings:
        return PARQUET, path
    if len(endings) > 1:
        raise SourceError(
            f"the folder '{path}' has files {', '.join(sorted(endings))}; give a glob of one kind"
        )
    (ending,) = endings
    return FORMATS[ending], str(Path(glob.escape(path)) / "**" / f"*{ending}")


def _told(path: str) -> Format | None:
    """Return the format of a file by the ending of its name."""
    name = Path(path.lower())
    return FORMATS.get(Path(name.stem).suffix if name.suffix in _PACKED else name.suffix)


def scanned(path: str) -> tuple[pl.LazyFrame, Format | None]:
    """Return the rows of files and their format, None of a Delta table.

    Folders ``name=value`` are columns, below a glob as below a folder. A path that exists is
    that file, whatever is in its name. Of a glob Polars would take none of those folders, or the
    ones above it as well.

    Raises
    ------
    SourceError : the files are some of a Delta table, or of several formats
    ArgumentError : it is a Delta table, and deltalake is not installed

    Warns
    -----
    LeftOutWarning : folders ``name=value`` of text, which are no columns
    """
    local = "://" not in path
    if local and is_delta(path):
        return pl.scan_delta(delta_table(Path(path))), None
    if local:
        refuse_files_of_delta(path)
    form, path = format_of(path)
    if local and glob.has_magic(path) and Path(path).exists():
        return form.scan(path, False, Path(path).is_dir() or None), form
    if not glob.has_magic(path):
        return form.scan(path, True, None), form
    folders = path.split("/") if not local else Path(path).absolute().parts
    first = next(i for i, part in enumerate(folders) if glob.has_magic(part))
    if not form.foldered:
        _tell_folders(form, path, first)
        return form.scan(path, True, None), form
    frame = form.scan(path, True, None)
    above = {part.split("=")[0] for part in folders[:first] if "=" in part}
    above -= set(frame.collect_schema())
    found = form.scan(path, True, True)
    return found.drop(above & set(found.collect_schema())), form


def _tell_folders(form: Format, path: str, first: int) -> None:
    """Warn of folders ``name=value`` below a glob."""
    for one in glob.iglob(path, recursive=True):
        names = [part for part in Path(one).absolute().parts[first:-1] if "=" in part]
        if names:
            warn_caller(
                f"folder '{names[0]}' is not read as a column: {form.name} does not support this, "
                "Parquet does",
                LeftOutWarning,
            )
            return
