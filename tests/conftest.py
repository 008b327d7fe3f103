"""Connections that are closed again, and a table in every form that a source can take."""

import atexit
import os
import subprocess
import sys

# Tests run side by side, and matrices of tests are small. It must stand before NumPy is there.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from economy import (  # noqa: F401
    pytest_collection_modifyitems,
    pytest_runtest_call,
    pytest_terminal_summary,
)
from hypothesis import HealthCheck, settings

import dbselect as ds
from dbselect.linear import lazy_gram

# A commit passes or fails by what is in it: the examples of the suite are the same in each run.
# `HYPOTHESIS_PROFILE=wander pytest` looks for new ones. They may take as long as they need.
anywhere = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", anywhere, derandomize=True)
settings.register_profile("wander", anywhere)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@atexit.register
def end_in_silence() -> None:
    """Have the summary be the last that is printed.

    DuckDB's module outlives the teardown of an interpreter that runs hypothesis and Polars
    beside it, and then lists a page of its own objects after the line that counts.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


@pytest.fixture(scope="session")
def flights_file() -> Path:
    """Return the joined flights of the demo, made first where it has not run."""
    examples = Path(__file__).parents[1] / "examples"
    path = examples / "data" / "flights.parquet"
    if not (path.exists() and (path.parent / "nycflights13" / "airlines.parquet").exists()):
        subprocess.run([sys.executable, examples / "flights_data.py"], check=True)
    return path


@pytest.fixture
def demo_folder(flights_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, one that looks like the checkout to the examples."""
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "data").symlink_to(flights_file.parent)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with ds.connect() as con:
        yield con


@pytest.fixture
def connection(database: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """Offer an empty database, the same one for all tests, whatever errors it has seen."""
    yield database
    for kind in ("view", "table"):
        query = f"SELECT {kind}_name FROM duckdb_{kind}s() WHERE NOT internal"
        for (name,) in database.execute(query).fetchall():
            database.execute(f'DROP {kind} "{name}"')


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read few rows at a time, so that searches of small tables need many scans."""
    monkeypatch.setattr(lazy_gram, "BATCH", 3)


class Stream:
    """An object of which nothing is known but its Arrow C stream."""

    def __init__(self, table: Any) -> None:
        self.__arrow_c_stream__ = table.__arrow_c_stream__


def _few(frame: pl.DataFrame) -> int:
    """Rows in a row group, so that there are about a dozen."""
    return max(50, frame.height // 12)


def _files(frame: pl.DataFrame, folder: Path) -> Path:
    """Write three Parquet files of unequal length, each of several row groups."""
    folder.mkdir()
    ends = [0, frame.height // 5, frame.height // 2, frame.height]
    for i in range(3):
        part = frame[ends[i] : ends[i + 1]]
        part.write_parquet(folder / f"part-{i}.parquet", row_group_size=_few(frame))
    return folder


def _file(frame: pl.DataFrame, folder: Path) -> Path:
    frame.write_parquet(folder / "table.parquet", row_group_size=_few(frame))
    return folder / "table.parquet"


def _pandas(frame: pl.DataFrame, index: str | None) -> Any:
    table = frame.to_pandas(use_pyarrow_extension_array=True)
    table.index = [7 * i % 100_003 for i in range(len(table))]
    return table.rename_axis(index)


def _relation(frame: pl.DataFrame, con: duckdb.DuckDBPyConnection, stack: ExitStack) -> Any:
    stack.callback(con.close)
    return con.from_arrow(frame.to_arrow())


OPENERS: dict[str, Callable[[pl.DataFrame, Path, ExitStack], Any]] = {
    "parquet path": lambda frame, folder, _: str(_file(frame, folder)),
    "Path object": lambda frame, folder, _: _file(frame, folder),
    "glob": lambda frame, folder, _: str(_files(frame, folder / "glob") / "*.parquet"),
    "folder": lambda frame, folder, _: _files(frame, folder / "parts"),
    "LazyFrame": lambda frame, *_: frame.lazy(),
    "DataFrame": lambda frame, *_: frame,
    "relation, extension": lambda frame, _, stack: _relation(frame, ds.connect(), stack),
    "relation, plain": lambda frame, _, stack: _relation(frame, duckdb.connect(), stack),
    "arrow Table": lambda frame, *_: frame.to_arrow(),
    "arrow reader": lambda frame, *_: frame.to_arrow().to_reader(max_chunksize=100),
    "pandas": lambda frame, *_: _pandas(frame, None),
    "pandas, named index": lambda frame, *_: _pandas(frame, "id"),
    "arrow stream": lambda frame, *_: Stream(frame.to_arrow()),
}


@pytest.fixture(params=list(OPENERS))
def as_any_source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Turn a DataFrame into each kind of source, for what all must have alike."""
    with ExitStack() as stack:
        yield lambda frame: OPENERS[request.param](frame, tmp_path, stack)


@pytest.fixture(params=["parquet path", "DataFrame", "relation, plain"])
def as_source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Turn a DataFrame into one kind of source of each engine."""
    with ExitStack() as stack:
        yield lambda frame: OPENERS[request.param](frame, tmp_path, stack)
