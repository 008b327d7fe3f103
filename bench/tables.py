"""The Parquet files that the benchmarks read: correlated normal columns, and a key."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).parent / "data"
ROW_GROUP = 125_000
KEYS = 1000


def columns(width: int) -> list[str]:
    """Names of the numeric columns."""
    return [f"x{j}" for j in range(width)]


def table(rows: int, width: int, keys: int = KEYS, compression: str = "none") -> Path:
    """Write, unless it is there, a table of `width` doubles and a key of some values."""
    name = f"{rows}x{width}{f'x{keys}' if keys != KEYS else ''}"
    path = FOLDER / f"{name}{'' if compression == 'none' else '.' + compression}.parquet"
    if path.exists():
        return path
    FOLDER.mkdir(exist_ok=True)
    rng = np.random.default_rng(width)
    schema = pa.schema([*((name, pa.float64()) for name in columns(width)), ("k", pa.int32())])
    temporary = path.with_suffix(".tmp")
    with pq.ParquetWriter(
        temporary, schema, compression=compression, use_dictionary=False
    ) as writer:
        for start in range(0, rows, ROW_GROUP):
            size = min(ROW_GROUP, rows - start)
            common = rng.standard_normal(size)
            values = [pa.array(rng.standard_normal(size) + common + 10) for _ in range(width)]
            key = pa.array(rng.integers(0, keys, size, dtype=np.int32))
            writer.write_table(pa.table([*values, key], schema=schema))
    temporary.rename(path)
    return path


def categories(rows: int, width: int, levels: tuple[int, ...]) -> Path:
    """Write, unless it is there, `width` doubles and categories, as integers and as text."""
    path = FOLDER / f"{rows}x{width}-{'-'.join(map(str, levels))}.parquet"
    if path.exists():
        return path
    FOLDER.mkdir(exist_ok=True)
    rng = np.random.default_rng(width)
    coded = [f"{kind}{n}" for n in levels for kind in ("i", "t")]
    schema = pa.schema(
        [(name, pa.float64()) for name in columns(width)]
        + [(name, pa.int32() if name[0] == "i" else pa.string()) for name in coded]
    )
    temporary = path.with_suffix(".tmp")
    with pq.ParquetWriter(temporary, schema, compression="none", use_dictionary=coded) as writer:
        for start in range(0, rows, ROW_GROUP):
            size = min(ROW_GROUP, rows - start)
            common = rng.standard_normal(size)
            values = [pa.array(rng.standard_normal(size) + common + 10) for _ in range(width)]
            for n in levels:
                codes = rng.integers(0, n, size, dtype=np.int32)
                names = pa.array([f"level {j}" for j in range(n)])
                values += [pa.array(codes), names.take(pa.array(codes))]
            writer.write_table(pa.table(values, schema=schema))
    temporary.rename(path)
    return path
