"""Which engine reads a source, whether it is a stored Gram, and how far a reading is."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from dbselect.errors import SourceError
from dbselect.record.gram import Gram
from dbselect.sources.folded import FoldedTable
from dbselect.sources.request import Table

#: Seconds after which a progress bar appears on a terminal.
PROGRESS_DELAY = 2


def open_table(source: Any, columns: Sequence[str] | None) -> Table:
    """Find the engine of a source; each is imported only where it is used."""
    if isinstance(source, FoldedTable):
        return source
    if isinstance(source, str | Path):
        from dbselect.sources.polars import from_path

        return from_path(source)
    if isinstance(source, pl.DataFrame | pl.LazyFrame):
        from dbselect.sources.polars import from_frame

        return from_frame(source)
    if isinstance(source, np.ndarray):
        from dbselect.sources.numpy import ArrayTable

        return ArrayTable(source, columns)
    table = _in_a_loaded_engine(source)
    if table is not None:
        return table
    if hasattr(source, "__arrow_c_stream__"):
        from dbselect.sources.arrow import StreamTable

        return StreamTable(source, len(source) if hasattr(source, "__len__") else None)
    raise SourceError(
        f"source is a {type(source).__name__}; it must be a Parquet path, a Polars frame, a DuckDB "
        "relation, an object with __arrow_c_stream__ or a NumPy array"
    )


def _in_a_loaded_engine(source: Any) -> Table | None:
    """Return what belongs to an engine that the caller has imported; None if nothing does."""
    duckdb = sys.modules.get("duckdb")
    if duckdb is not None and isinstance(source, duckdb.DuckDBPyRelation):
        from dbselect.sources.duckdb import RelationTable

        return RelationTable(source)
    dataset = sys.modules.get("pyarrow.dataset")
    if dataset is not None and isinstance(source, dataset.Dataset):
        from dbselect.sources.arrow import DatasetTable

        return DatasetTable(source)
    return None


def stored_gram(source: Any) -> Gram | None:
    """Return the Gram that a Parquet file or a frame holds, None if it is another table."""
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        try:
            is_gram = path.is_file() and pq.read_schema(path).names == ["gram"]
        except (OSError, pa.ArrowException) as error:
            raise SourceError(f"cannot read '{source}' as Parquet: {error}") from error
        return Gram.read_parquet(path) if is_gram else None
    if isinstance(source, pl.LazyFrame) and source.collect_schema().names() == ["gram"]:
        source = source.collect()
    if isinstance(source, pl.DataFrame) and source.columns == ["gram"] and source.height == 1:
        return Gram.from_struct(source["gram"][0])
    return None


def progress(rows: int | None) -> Any:
    """Return a progress bar of some rows, for terminals only."""
    return tqdm(
        total=rows, unit=" rows", unit_scale=True, delay=PROGRESS_DELAY, disable=None, leave=False
    )
