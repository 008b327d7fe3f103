"""Files of any format, by the ending of the name; types of text are inferred from all of it."""

import glob
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from dbselect.errors import ColumnError, SourceError

#: Rows of CSV in which columns of dates are looked for; whether all rows are dates is seen after.
#: To look for them in all rows of all texts takes ten times as long as to read the table.
_FIRST_ROWS = 10_000
#: What an Arrow stream begins with; a file begins with its name.
_STREAM = b"\xff" * 4


@dataclass(frozen=True)
class Format:
    """How files of a kind are read."""

    name: str  # of the kind
    #: Files, whether the engine expands them as a glob, whether folders ``name=value`` are
    #: columns -> the rows
    scan: Callable[[list[str], bool, bool], pl.LazyFrame]
    counted: bool = True  # whether files store their number of rows
    foldered: bool = True  # whether folders ``name=value`` can be columns
    nested: bool = True  # whether a column can be a struct, as a Gram record is


def _parquet(paths: list[str], is_glob: bool, hive: bool) -> pl.LazyFrame:
    # Fewer row groups in flight: less memory, and the rows are still in the caches.
    return pl.scan_parquet(paths, low_memory=True, glob=is_glob, hive_partitioning=hive)


def _arrow(paths: list[str], is_glob: bool, hive: bool) -> pl.LazyFrame:
    for path in filter(Path.is_file, map(Path, paths)):
        with path.open("rb") as file:
            is_stream = file.read(len(_STREAM)) == _STREAM
        if is_stream:
            raise SourceError(
                f"'{path}' is an Arrow stream, not a file; give pyarrow.ipc.open_stream of it"
            )
    return pl.scan_ipc(paths, glob=is_glob, hive_partitioning=hive)


def _text(separator: str) -> Callable[[list[str], bool, bool], pl.LazyFrame]:
    def scan(paths: list[str], is_glob: bool, _: bool) -> pl.LazyFrame:
        read = partial(pl.scan_csv, paths, separator=separator, glob=is_glob)
        # With types given, Polars does not infer them before each pass.
        types = read(infer_schema_length=None).collect_schema()
        for name in types:
            renamed = re.fullmatch(r"(.*)_duplicated_\d+", name)
            if renamed and renamed[1] in types:
                raise ColumnError(
                    f"'{paths[0]}' has two columns named '{renamed[1]}'; names must differ"
                )
        dates = read(infer_schema_length=_FIRST_ROWS, try_parse_dates=True).collect_schema()
        for name, dtype in dates.items():
            if dtype.is_temporal() and types[name] == pl.String:
                all_dates = read(schema={**types, name: dtype})
                with suppress(pl.exceptions.PolarsError):
                    all_dates.select(pl.col(name).count()).collect(engine="streaming")
                    types[name] = dtype
        return read(schema=types)

    return scan


def _lines(paths: list[str], is_glob: bool, _: bool) -> pl.LazyFrame:
    read = partial(pl.scan_ndjson, paths if is_glob else list(map(glob.escape, paths)))
    return read(schema=read(infer_schema_length=None).collect_schema())


PARQUET = Format("Parquet", _parquet)
_CSV = Format("CSV", _text(","), counted=False, foldered=False, nested=False)
_NDJSON = Format("NDJSON", _lines, counted=False, foldered=False)
_ARROW = Format("Arrow", _arrow)
#: Ending -> format; a name without one is Parquet, too.
FORMATS = {
    "": PARQUET,
    ".parquet": PARQUET,
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


def told_format(name: str) -> Format | None:
    """Return the format of a file by the ending of its name; None of an unknown ending."""
    own = Path(name.lower())
    return FORMATS.get(Path(own.stem).suffix if own.suffix in _PACKED else own.suffix)
