"""Which engine reads a source, whether it is a stored Gram, and how far a reading is."""

import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from dbselect import _forked
from dbselect.errors import ArgumentError, RecordError, SourceError, type_shown
from dbselect.record.files import check_digest
from dbselect.record.foreign import is_of, native
from dbselect.record.gram import FIELDS, Gram, is_record
from dbselect.sources.paths import FilesMeant, meant
from dbselect.sources.request import Table


@dataclass(frozen=True)
class Engine:
    """The reader of a kind of source."""

    reads: Callable[[Any], bool]  # source -> whether it is of this kind; imports nothing
    #: Source, columns -> Table; imports the engine
    opened: Callable[[Any, Sequence[str] | None], Table]


def _by(
    module: str, name: str, *, named: bool = False
) -> Callable[[Any, Sequence[str] | None], Table]:
    """Return what opens a source by an engine, imported then; a `named` one takes the columns."""

    def opened(source: Any, columns: Sequence[str] | None) -> Table:
        engine = getattr(import_module(f"dbselect.sources.engines.{module}"), name)
        found: Table = engine(source, columns) if named else engine(source)
        return found

    return opened


def _sparse(source: Any, _: Sequence[str] | None) -> Table:
    raise SourceError(
        f"source is a {type(source).__name__}, which has no target beside it; "
        "sparse_table(X, {'y': y}) is a table of both"
    )


def _is_of(module: str, name: str) -> Callable[[Any], bool]:
    """Return whether a source is of a class, without importing its module."""

    def reads(source: Any) -> bool:
        loaded = sys.modules.get(module)
        return loaded is not None and isinstance(source, getattr(loaded, name))

    return reads


def _has(package: str, *methods: str) -> Callable[[Any], bool]:
    return lambda source: is_of(source, package) and all(hasattr(source, one) for one in methods)


def _is_open(source: Any) -> bool:
    """Return whether a source is a `Table`, without its schema, which may take long."""
    return all(hasattr(type(source), name) for name in ("scan", "batches"))


#: Engines in the order in which a source is offered to them.
ENGINES = [
    Engine(_is_open, lambda source, _: source),
    Engine(lambda source: isinstance(source, FilesMeant), _by("polars", "from_listing")),
    Engine(
        lambda source: isinstance(source, pl.DataFrame | pl.LazyFrame), _by("polars", "from_frame")
    ),
    Engine(lambda source: isinstance(source, np.ndarray), _by("arrow", "ArrayTable", named=True)),
    Engine(_has("scipy", "tocsr"), _sparse),
    Engine(_is_of("duckdb", "DuckDBPyRelation"), _by("duckdb", "RelationTable")),
    Engine(_is_of("pyarrow.dataset", "Dataset"), _by("arrow", "DatasetTable")),
    Engine(_is_of("deltalake", "DeltaTable"), _by("polars", "from_lake")),
    Engine(_is_of("pyiceberg.table", "Table"), _by("polars", "from_lake")),
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
    source = meant(source) if isinstance(source, str | Path) else native(source)
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
    """Return the Gram of records, or of a list or table of them; None of other sources."""
    if isinstance(source, Gram):
        return source
    if isinstance(source, pa.Scalar) or (isinstance(source, Mapping) and {*FIELDS} & {*source}):
        return Gram.from_struct(source)
    if isinstance(source, list | tuple):
        return _gram_of_list(source)
    if isinstance(source, str | Path):
        source = meant(source)
    if not _can_be_looked_at(source):
        return None
    return _gram_of_table(source, opened or (lambda: open_table(source, None)))


def _gram_of_table(source: Any, opened: Callable[[], Table]) -> Gram | None:
    files = [Path(path) for path in source.here] if isinstance(source, FilesMeant) else []
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
    fields = [field.name for field in table.schema if is_record(field.type)]
    if not fields:
        return None
    if len(fields) > 1:
        raise RecordError(f"the table has records in {fields}; give one of these columns")
    records: list[Any] = []
    lock = Lock()

    def consume(batch: Any) -> None:
        found = [record for record in pl.DataFrame(batch)[fields[0]] if record is not None]
        with lock:
            records.extend(found)

    table.scan(fields, consume)
    if not records:
        raise RecordError(f"the table has no record in column '{fields[0]}'")
    return merged(Gram.from_struct(record) for record in records)


def merged(grams: Iterable[Gram]) -> Gram:
    """Return the Gram of all rows of some."""
    return reduce(operator.add, grams)


def _gram_of_list(sources: Sequence[Any]) -> Gram | None:
    grams = [stored_gram(one) for one in sources]
    found = [gram for gram in grams if gram is not None]
    if not found:
        return None
    if len(found) < len(grams):
        odd = type(sources[grams.index(None)]).__name__
        raise ArgumentError(
            f"source is a list with a {odd}; it must have Grams, records and files of them only"
        )
    return merged(found)


def _can_be_looked_at(source: Any) -> bool:
    """Whether a source is a table of which it takes little, and uses nothing up, to see more."""
    if isinstance(source, np.ndarray) or not any(engine.reads(source) for engine in ENGINES):
        return False
    if isinstance(source, FilesMeant) and not source.format.nested:
        return False
    return not hasattr(source, "__arrow_c_stream__") or hasattr(source, "__len__")
