"""Which engine reads a source, whether it is a stored Gram, and how far a reading is."""

import glob
import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from tqdm import tqdm

from dbselect.errors import (
    ArgumentError,
    RecordError,
    SourceError,
)
from dbselect.record.files import check_digest
from dbselect.record.foreign import is_of, native
from dbselect.record.gram import FIELDS, Gram, is_record
from dbselect.sources.engines.formats import format_of
from dbselect.sources.request import Table

#: Seconds after which a progress bar appears on a terminal.
PROGRESS_DELAY = 2


@dataclass(frozen=True)
class Engine:
    """The reader of a kind of source.

    Parameters
    ----------
    reads : source -> whether it is of this kind; imports nothing
    opened : source, columns -> Table; imports the engine
    """

    reads: Callable[[Any], bool]
    opened: Callable[[Any, Sequence[str] | None], Table]


def _path(source: Any, _: Sequence[str] | None) -> Table:
    from dbselect.sources.engines.polars import from_path

    return from_path(source)


def _polars(source: Any, _: Sequence[str] | None) -> Table:
    from dbselect.sources.engines.polars import from_frame

    return from_frame(source)


def _numpy(source: Any, columns: Sequence[str] | None) -> Table:
    from dbselect.sources.engines.numpy import ArrayTable

    return ArrayTable(source, columns)


def _relation(source: Any, _: Sequence[str] | None) -> Table:
    from dbselect.sources.engines.duckdb import RelationTable

    return RelationTable(source)


def _dataset(source: Any, _: Sequence[str] | None) -> Table:
    from dbselect.sources.engines.arrow import DatasetTable

    return DatasetTable(source)


def _ibis(source: Any, _: Sequence[str] | None) -> Table:
    from dbselect.sources.engines.ibis import from_expression

    return from_expression(source)


def _stream(source: Any, _: Sequence[str] | None) -> Table:
    from dbselect.sources.engines.arrow import StreamTable

    try:
        rows = len(source)
    except (TypeError, RuntimeError):  # Daft does not count a frame that is to be computed
        rows = None
    return StreamTable(source, rows)


def _delta(source: Any, _: Sequence[str] | None) -> Table:
    from dbselect.sources.engines.polars import from_frame

    return from_frame(pl.scan_delta(source))


def _spark(source: Any, _: Sequence[str] | None) -> Table:
    from dbselect.sources.engines.spark import SparkTable

    return SparkTable(source)


def _dask(source: Any, _: Sequence[str] | None) -> Table:
    from dbselect.sources.engines.dask import DaskTable

    return DaskTable(source)


def _ray(source: Any, _: Sequence[str] | None) -> Table:
    from dbselect.sources.engines.ray import RayTable

    return RayTable(source)


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


def _is_open(source: Any) -> bool:
    """Return whether a source is a `Table`, without its schema, which may take long."""
    return all(hasattr(type(source), name) for name in ("scan", "batches"))


#: Engines in the order in which a source is offered to them.
ENGINES = [
    Engine(_is_open, lambda source, _: source),
    Engine(lambda source: isinstance(source, str | Path), _path),
    Engine(lambda source: isinstance(source, pl.DataFrame | pl.LazyFrame), _polars),
    Engine(lambda source: isinstance(source, np.ndarray), _numpy),
    Engine(lambda source: is_of(source, "scipy") and hasattr(source, "tocsr"), _sparse),
    Engine(_is_of("duckdb", "DuckDBPyRelation"), _relation),
    Engine(_is_of("pyarrow.dataset", "Dataset"), _dataset),
    Engine(_is_of("deltalake", "DeltaTable"), _delta),
    Engine(_is_of("ibis", "Table"), _ibis),
    Engine(lambda source: is_of(source, "pyspark") and hasattr(source, "mapInArrow"), _spark),
    Engine(lambda source: is_of(source, "dask") and hasattr(source, "to_delayed"), _dask),
    Engine(lambda source: is_of(source, "ray") and hasattr(source, "map_batches"), _ray),
    Engine(lambda source: hasattr(source, "__arrow_c_stream__"), _stream),
]


def open_table(source: Any, columns: Sequence[str] | None, on: Any = None) -> Table:
    """Find the engine of a source; each is imported only where it is used.

    Parameters
    ----------
    source, columns, on : as in `dbselect.gram`
    """
    if on is not None:
        from dbselect.sources.engines.files import FilesTable

        return FilesTable(source, on)
    source = native(source)
    for engine in ENGINES:
        if engine.reads(source):
            return engine.opened(source, columns)
    raise SourceError(
        f"source is a {type(source).__name__}; it must be a Gram or a gram record, a path, a frame "
        "of Polars, pandas, Modin, narwhals, Spark or Dask, a dataset of Ray, a DuckDB "
        "relation, a table of ibis, another object with __arrow_c_stream__ or a NumPy array"
    )


def stored_gram(source: Any, opened: Callable[[], Table] | None = None) -> Gram | None:
    """Return the Gram of a record, of several in a list, or of a table that holds records.

    None if the source is something else.

    Parameters
    ----------
    opened : opens the table of the source for a caller that also needs it; default: the
        table is opened here
    """
    if isinstance(source, Gram):
        return source
    if isinstance(source, pa.Scalar) or (isinstance(source, Mapping) and {*FIELDS} & {*source}):
        return Gram.from_struct(source)
    if isinstance(source, list | tuple):
        return _gram_of_list(source)
    if not _can_be_looked_at(source):
        return None
    return _gram_of_table(source, opened or (lambda: open_table(source, None)))


def _gram_of_table(source: Any, opened: Callable[[], Table]) -> Gram | None:
    files = _files_of(source)
    if [path.suffix for path in files] == [".json"]:
        return _gram_in_json(files[0])
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


def _gram_in_json(path: Path) -> Gram:
    try:
        return Gram.read_json(path)
    except RecordError as error:
        raise RecordError(
            f"'{path}' is no Gram: {error}; a table of JSON lines has a name that ends in .ndjson"
        ) from None


def _files_of(source: Any) -> list[Path]:
    """Return the files of a path, a folder or a glob; of anything else none."""
    if not isinstance(source, str | Path):
        return []
    folder = Path(source)
    if folder.is_file():
        return [folder]
    found = folder.rglob("*") if folder.is_dir() else glob.iglob(str(source), recursive=True)
    return [path for path in map(Path, found) if path.is_file()]


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
    if isinstance(source, str | Path) and not format_of(str(source))[0].nested:
        return False
    return not hasattr(source, "__arrow_c_stream__") or hasattr(source, "__len__")


def progress(total: int | None, unit: str = "rows") -> Any:
    """Return a progress bar of some rows, or turns of a search, for terminals only."""
    return tqdm(
        total=total,
        unit=f" {unit}",
        unit_scale=True,
        delay=PROGRESS_DELAY,
        disable=None,
        leave=False,
    )
