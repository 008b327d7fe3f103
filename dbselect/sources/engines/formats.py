"""Files of any format, by the ending of the name; types of text are inferred from all of it."""

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

#: Files whose columns are looked up at a time.
READERS = 16
#: Columns that differ between files and are named.
NAMED = 8

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
    #: File -> its columns: names, and types where the file states them
    columns: Callable[[str], tuple[Any, ...]]
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


def _typed(frame: pl.LazyFrame) -> tuple[Any, ...]:
    return tuple(frame.collect_schema().items())


def _header(separator: str) -> Callable[[str], tuple[Any, ...]]:
    def columns(path: str) -> tuple[Any, ...]:
        scanned = pl.scan_csv(path, separator=separator, glob=False, infer_schema=False)
        return tuple(scanned.collect_schema().names())

    return columns


PARQUET = Format("Parquet", _parquet, lambda path: _typed(pl.scan_parquet(path, glob=False)))
_CSV = Format("CSV", _text(","), _header(","), counted=False, foldered=False, nested=False)
_NDJSON = Format(
    "NDJSON", _lines, lambda path: _typed(_lines([path], False, False)),
    counted=False, foldered=False,
)  # fmt: skip
_ARROW = Format("Arrow", _arrow, lambda path: _typed(pl.scan_ipc(path, glob=False)))
#: Ending -> format; a name without one is Parquet, too.
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
#: Endings of text that is packed.
_PACKED = (".gz", ".zst")


def told_format(name: str) -> Format | None:
    """Return the format of a file by the ending of its name; None of an unknown ending."""
    own = Path(name.lower())
    return FORMATS.get(Path(own.stem).suffix if own.suffix in _PACKED else own.suffix)


def scan_of(form: Format, paths: Sequence[str], hive: bool, shown: str) -> pl.LazyFrame:
    """Return the rows of some files, united by name where their columns differ.

    Numbers are widened, and a column that a file lacks is NULL in its rows. SchemaWarning says so;
    SourceError for a column of numbers here and text there.
    """
    with ThreadPoolExecutor(READERS) as pool:
        columns = list(pool.map(form.columns, paths))
    runs = [
        [path for path, _ in run]
        for _, run in groupby(zip(paths, columns, strict=True), key=lambda pair: pair[1])
    ]
    frames = [form.scan(run, False, hive) for run in runs]
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
    """Say which columns are not in all files, and which are of several types."""
    texts = []
    for name, dtype in types.items():
        own = [schema.get(name) for schema in schemas]
        lacking = sum(size for size, each in zip(sizes, own, strict=True) if each is None)
        if lacking:
            texts.append(f"'{name}' is NULL in {lacking}, which lack it")
        others = [str(each) for each in dict.fromkeys(own) if each is not None and each != dtype]
        if others:
            texts.append(f"'{name}' is {dtype}, in some {', '.join(others)}")
    if texts:
        more = f", and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
        warn_caller(
            f"the {sum(sizes)} files of '{shown}' have different columns: "
            f"{', '.join(texts[:NAMED])}{more}",
            SchemaWarning,
        )
