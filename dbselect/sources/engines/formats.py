"""Formats of files, by the ending of the name; types of text files are inferred from all rows."""

import glob
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl

from dbselect.errors import ColumnError, SchemaWarning, SourceError, warn_caller
from dbselect.record import formulas

#: Types without parameters.
_PLAIN = {
    pl.Boolean, pl.Date, pl.Float32, pl.Float64, pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128,
    pl.Null, pl.String, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64,
}  # fmt: skip
#: Files whose columns are looked up concurrently.
READERS = 16
#: Runs of files of equal columns up to which rows are in the order of the files.
MOST_RUNS = 32
#: Most differing columns named in a warning.
NAMED = 8

#: Rows of CSV in which columns of dates are searched; these columns are then checked in all rows.
#: Searching all rows of all text columns takes ten times as long as reading the table.
_FIRST_ROWS = 10_000
#: First bytes of an Arrow stream; an Arrow file begins with ARROW1.
_STREAM = b"\xff" * 4


@dataclass(frozen=True)
class Format:
    """A file format and its reader."""

    name: str
    #: Files, whether the engine expands them as globs, whether folders ``name=value`` are
    #: columns -> the rows
    scan: Callable[[list[str], bool, bool], pl.LazyFrame]
    #: File -> its columns: names, and types if the file stores them
    columns: Callable[[str], tuple[Any, ...]]
    counted: bool = True  # whether files store their number of rows
    foldered: bool = True  # whether folders ``name=value`` can be columns
    nested: bool = True  # whether a column can be a struct, as a Gram record is


def _parquet(paths: list[str], is_glob: bool, hive: bool) -> pl.LazyFrame:
    # low_memory keeps fewer row groups in flight: less memory, and rows stay in the caches.
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
        # With explicit types, Polars does not infer them before each pass.
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


def _parquet_columns(path: str) -> tuple[Any, ...]:
    """Return the columns of a file; the footer of a local one is read without a scan."""
    if "://" in path:
        return _typed(pl.scan_parquet(path, glob=False))
    return _compared(pl.read_parquet_schema(path))


def _typed(frame: pl.LazyFrame) -> tuple[Any, ...]:
    return _compared(frame.collect_schema())


def _compared(schema: Mapping[str, pl.DataType]) -> tuple[Any, ...]:
    """Return names and types; of plain types the classes, which compare a hundred times faster."""
    types = (type(dtype) if type(dtype) in _PLAIN else dtype for dtype in schema.values())
    return (*schema, *types)


def _header(separator: str) -> Callable[[str], tuple[Any, ...]]:
    def columns(path: str) -> tuple[Any, ...]:
        scanned = pl.scan_csv(path, separator=separator, glob=False, infer_schema=False)
        return tuple(scanned.collect_schema().names())

    return columns


PARQUET = Format("Parquet", _parquet, _parquet_columns)
_CSV = Format("CSV", _text(","), _header(","), counted=False, foldered=False, nested=False)
_NDJSON = Format(
    "NDJSON", _lines, lambda path: _typed(_lines([path], False, False)),
    counted=False, foldered=False,
)  # fmt: skip
_ARROW = Format("Arrow", _arrow, lambda path: _typed(pl.scan_ipc(path, glob=False)))
#: Ending -> format; a name without ending is Parquet.
FORMATS = {
    "": PARQUET,
    ".parquet": PARQUET,
    ".csv": _CSV,
    ".tsv": Format("TSV", _text("\t"), _header("\t"), counted=False, foldered=False, nested=False),
    ".ndjson": _NDJSON,
    ".jsonl": _NDJSON,
    ".arrow": _ARROW,
    ".feather": _ARROW,
    ".ipc": _ARROW,
}
#: Endings of compressed text.
_PACKED = (".gz", ".zst")


def format_of_name(name: str) -> Format | None:
    """Return the format of a file by the ending of its name; None for an unknown ending."""
    path = Path(name.lower())
    return FORMATS.get(Path(path.stem).suffix if path.suffix in _PACKED else path.suffix)


def scan_of(format_: Format, paths: Sequence[str], hive: bool, shown: str) -> pl.LazyFrame:
    """Return the rows of several files, united by column name.

    Numbers are widened, and a column that a file lacks is NULL in its rows, with a SchemaWarning.
    SourceError for a column that is numeric in one file and text in another.
    """
    if len(paths) == 1:
        return format_.scan(list(paths), False, hive)
    if "://" in paths[0]:
        with ThreadPoolExecutor(READERS) as pool:
            columns = list(pool.map(format_.columns, paths))
    else:
        columns = list(map(format_.columns, paths))
    pairs = list(zip(paths, columns, strict=True))
    runs = [[path for path, _ in run] for _, run in groupby(pairs, key=lambda pair: pair[1])]
    if len(runs) > MOST_RUNS:
        # The plan of many scans takes the square of their number: files of equal columns together.
        alike: dict[Any, list[str]] = {}
        for path, own in pairs:
            alike.setdefault(own, []).append(path)
        runs = list(alike.values())
    frames = [format_.scan(run, False, hive) for run in runs]
    if len(frames) == 1:
        return frames[0]
    schemas = [frame.collect_schema() for frame in frames]
    names = list(dict.fromkeys(name for schema in schemas for name in schema))
    types = {name: _widened(name, schemas, shown) for name in names}
    _warn_of_differences(types, schemas, [len(run) for run in runs], shown)
    parts = [
        frame.select(
            formulas.polars_field(name).cast(dtype)
            if name in schema
            else pl.lit(None, dtype).alias(name)
            for name, dtype in types.items()
        )
        for frame, schema in zip(frames, schemas, strict=True)
    ]
    return pl.concat(parts)


def _widened(name: str, schemas: Iterable[pl.Schema], shown: str) -> pl.DataType:
    """Return the type that holds the values of all files."""
    types = dict.fromkeys(schema[name] for schema in schemas if name in schema)
    types.pop(pl.Null(), None)
    if len(types) <= 1:
        return next(iter(types), pl.Null())
    kinds = {"number" if dtype.is_numeric() or dtype == pl.Boolean else type(dtype).__name__
             for dtype in types}  # fmt: skip
    if len(kinds) > 1 and not all(dtype.is_temporal() for dtype in types):
        raise SourceError(
            f"column '{name}' is {', '.join(map(str, types))} in the files of '{shown}'; cast it "
            "to one type"
        )
    empty = [pl.DataFrame(schema={name: dtype}) for dtype in types]
    return pl.concat(empty, how="vertical_relaxed").schema[name]


def _warn_of_differences(
    types: Mapping[str, pl.DataType], schemas: list[pl.Schema], sizes: list[int], shown: str
) -> None:
    """Warn of columns that some files lack, or that have several types."""
    texts = []
    for name, dtype in types.items():
        dtypes = [schema.get(name) for schema in schemas]
        lacking = sum(size for size, type_ in zip(sizes, dtypes, strict=True) if type_ is None)
        if lacking:
            texts.append(f"'{name}' is NULL in {lacking}, which lack it")
        others = [str(t) for t in dict.fromkeys(dtypes) if t is not None and t != dtype]
        if others:
            texts.append(f"'{name}' is {dtype}, in some {', '.join(others)}")
    if texts:
        more = f", and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
        warn_caller(
            f"the {sum(sizes)} files of '{shown}' have different columns: "
            f"{', '.join(texts[:NAMED])}{more}",
            SchemaWarning,
        )
