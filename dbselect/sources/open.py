"""Open a source: as a table of its engine, as a LazyFrame, or as the stored Gram that it is."""

import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from dbselect import _forked
from dbselect._arrow import empty_table
from dbselect.errors import ArgumentError, RecordError, SourceError, type_shown
from dbselect.record.files import check_digest
from dbselect.record.foreign import is_of, native
from dbselect.record.gram import FIELDS, Gram, is_record
from dbselect.sources.engines.polars import LazyTable
from dbselect.sources.partial.records_by_pattern import Patterns, added, is_patterns
from dbselect.sources.paths import FileListing, files_at
from dbselect.sources.request import Table


@dataclass(frozen=True)
class Engine:
    """The reader of one kind of source."""

    reads: Callable[[Any], bool]  # source -> whether it is of this kind; imports nothing
    #: Source, columns -> Table; imports the engine
    opened: Callable[[Any, Sequence[str] | None], Table]


def _by(
    module: str, name: str, *, named: bool = False
) -> Callable[[Any, Sequence[str] | None], Table]:
    """Return a function that imports an engine and opens a source; `named`: with its columns."""

    def opened(source: Any, columns: Sequence[str] | None) -> Table:
        engine = getattr(import_module(f"dbselect.sources.engines.{module}"), name)
        table: Table = engine(source, columns) if named else engine(source)
        return table

    return opened


def _sparse(source: Any, _: Sequence[str] | None) -> Table:
    raise SourceError(
        f"source is a {type(source).__name__}, which has no target beside it; "
        "sparse_table(X, {'y': y}) is a table of both"
    )


def _is_of(module: str, name: str) -> Callable[[Any], bool]:
    """Return a test whether a source is of a class, which does not import its module."""

    def reads(source: Any) -> bool:
        loaded = sys.modules.get(module)
        return loaded is not None and isinstance(source, getattr(loaded, name))

    return reads


def _has(package: str, *methods: str) -> Callable[[Any], bool]:
    return lambda source: is_of(source, package) and all(hasattr(source, name) for name in methods)


def _is_open(source: Any) -> bool:
    """Whether a source is a `Table`; its schema is not tested, as computing it may take long."""
    return all(hasattr(type(source), name) for name in ("scan", "batches"))


#: Engines in the order in which they are tried.
ENGINES = [
    Engine(_is_open, lambda source, _: source),
    Engine(lambda source: isinstance(source, FileListing), _by("polars", "from_listing")),
    Engine(
        lambda source: isinstance(source, pl.DataFrame | pl.LazyFrame), _by("polars", "from_frame")
    ),
    Engine(lambda source: isinstance(source, np.ndarray), _by("arrow", "ArrayTable", named=True)),
    Engine(_has("scipy", "tocsr"), _sparse),
    Engine(_is_of("duckdb", "DuckDBPyRelation"), _by("duckdb", "RelationTable")),
    Engine(_is_of("pyarrow.dataset", "Dataset"), _by("arrow", "DatasetTable")),
    Engine(_is_of("deltalake", "DeltaTable"), _by("polars", "from_lake")),
    Engine(_is_of("pyiceberg.table", "Table"), _by("polars", "from_lake")),
    Engine(_is_of("pyiceberg.table", "DataScan"), _by("arrow", "ScanTable")),
    Engine(_is_of("ibis", "Table"), _by("ibis", "from_expression")),
    Engine(_has("pyspark", "mapInArrow"), _by("spark", "SparkTable")),
    Engine(_has("dask", "to_delayed"), _by("dask", "DaskTable")),
    Engine(_has("ray", "map_batches"), _by("ray", "RayTable")),
    Engine(lambda source: hasattr(source, "__arrow_c_stream__"), _by("arrow", "StreamTable")),
]


def open_table(source: Any, columns: Sequence[str] | None, on: Any = None) -> Table:
    """Find the engine of a source, as of `dbselect.gram`; it is imported only where it is used."""
    _forked.check_threads()
    if on is not None:
        from dbselect.sources.engines.spark import FilesTable

        return FilesTable(source, on)
    source = files_at(source) if isinstance(source, str | Path) else native(source)
    if isinstance(source, Gram | Patterns):
        raise SourceError(f"source is {type_shown(source)}, which holds no rows; give the table")
    if type(source).__name__ == "Series":
        raise SourceError(
            f"source is {type_shown(source)}, one column; give the table that has the columns and "
            "the target"
        )
    for engine in ENGINES:
        if engine.reads(source):
            return engine.opened(source, columns)
    raise SourceError(
        f"source is {type_shown(source)}; it must be a Gram or a gram record, a path, a frame of "
        "Polars, pandas, Modin, narwhals, Spark or Dask, a dataset of Ray, a DuckDB relation, a "
        "table of ibis, another object with __arrow_c_stream__ or a NumPy array"
    )


def stored_gram(source: Any, opened: Callable[[], Table] | None = None) -> Gram | None:
    """Return the Gram of a record, or of a list or table of records; None for other sources.

    Patterns are completed by EM.
    """
    if isinstance(source, Gram):
        return source
    patterns = stored_patterns(source)
    if patterns is not None:
        return patterns.em()
    if isinstance(source, pa.Scalar) or (isinstance(source, Mapping) and {*FIELDS} & {*source}):
        return Gram.from_struct(source)
    if isinstance(source, list | tuple):
        return _gram_of_list(source)
    if isinstance(source, str | Path):
        source = files_at(source)
    if not _is_cheap_to_open(source):
        return None
    return _gram_of_table(source, opened or (lambda: open_table(source, None)))


def stored_patterns(source: Any) -> Patterns | None:
    """Return patterns of gaps, those of a list added up, or stored ones; None for other sources."""
    if isinstance(source, Patterns):
        return source
    if isinstance(source, Mapping) and "patterns" in source:
        return Patterns.from_struct(source)
    is_list = isinstance(source, list | tuple) and source
    if is_list and all(isinstance(part, Patterns) for part in source):
        return added(source)
    return None


def _gram_of_table(source: Any, opened: Callable[[], Table]) -> Gram | None:
    files = [Path(path) for path in source.local_paths] if isinstance(source, FileListing) else []
    if [path.suffix for path in files] == [".json"]:
        try:
            return Gram.read_json(files[0])
        except RecordError as error:
            raise RecordError(
                f"'{files[0]}' is no Gram: {error}; a table of JSON lines has a name that ends in "
                ".ndjson"
            ) from None
    for path in files:
        check_digest(path, "a gram")
    table = opened()
    fields = [
        field.name for field in table.schema if is_record(field.type) or is_patterns(field.type)
    ]
    if not fields:
        return None
    if len(fields) > 1:
        raise RecordError(f"the table has records in {fields}; give one of these columns")
    records: list[Any] = []
    lock = Lock()

    def consume(batch: Any) -> None:
        present = [record for record in pl.DataFrame(batch)[fields[0]] if record is not None]
        with lock:
            records.extend(present)

    table.scan(fields, consume)
    if not records:
        raise RecordError(f"the table has no record in column '{fields[0]}'")
    if is_patterns(table.schema.field(fields[0]).type):
        return added(Patterns.from_struct([*record]) for record in records).em()
    return merged(Gram.from_struct(record) for record in records)


def merged(grams: Iterable[Gram]) -> Gram:
    """Merge Grams into the Gram of all their rows."""
    return reduce(operator.add, grams)


def _gram_of_list(sources: Sequence[Any]) -> Gram | None:
    stored = [stored_gram(source) for source in sources]
    grams = [gram for gram in stored if gram is not None]
    if not grams:
        return None
    if len(grams) < len(stored):
        odd = type(sources[stored.index(None)]).__name__
        raise ArgumentError(
            f"source is a list with a {odd}; it must have Grams, records and files of them only"
        )
    return merged(grams)


def _is_cheap_to_open(source: Any) -> bool:
    """Whether a source is a table that can be opened cheaply, and without consuming a stream."""
    if isinstance(source, np.ndarray) or not any(engine.reads(source) for engine in ENGINES):
        return False
    if isinstance(source, FileListing) and not source.format.nested:
        return False
    return not hasattr(source, "__arrow_c_stream__") or hasattr(source, "__len__")


def lazy(table: Table) -> pl.LazyFrame:
    """Return a table as a LazyFrame, which reads only the fields used when it is collected."""
    if isinstance(table, LazyTable):
        return table.frame
    schema = dict(pl.DataFrame(empty_table(table.schema)).schema)

    def batches(
        fields: list[str] | None, predicate: pl.Expr | None, rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        left = rows
        for batch in table.batches(list(schema) if fields is None else fields):
            frame = pl.DataFrame(batch) if left is None else pl.DataFrame(batch).head(left)
            left = None if left is None else left - frame.height
            yield frame if predicate is None else frame.filter(predicate)
            if left is not None and left <= 0:
                return

    return register_io_source(batches, schema=schema)


def collected(frame: pl.LazyFrame) -> pl.DataFrame:
    """Read a frame with the streaming engine."""
    try:
        return frame.collect(engine="streaming")
    except pl.exceptions.PolarsError as error:
        raise SourceError(f"Polars cannot read the table: {error}") from error


def table_elsewhere(source: Any) -> Table | None:
    """Open a frame of Spark or ibis without reading it; None for other sources."""
    source = native(source)
    return open_table(source, None) if is_of(source, "pyspark") or is_of(source, "ibis") else None


def brought_here(table: Table, fields: Sequence[str]) -> pl.DataFrame:
    """Read fields of a table into memory."""
    schema = pa.schema([table.schema.field(name) for name in fields])
    parts = [pl.DataFrame(batch) for batch in table.batches(list(fields))]
    return pl.concat([pl.DataFrame(empty_table(schema)), *parts], how="vertical_relaxed")
