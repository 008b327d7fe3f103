"""Everything that writes, in two states: what is at a path afterwards is one of them, whole.

``writers.py NAME PATH [LIMIT]`` writes without end, one state after the other, and
says each time that it has; with a limit of bytes a file can grow no longer, as on a full disk.
"""

import atexit
import math
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from itertools import cycle
from pathlib import Path
from typing import Any

import polars as pl

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.errors import SourceError

#: Columns: a record of them takes some tenths of a second to write.
WIDE = 120
#: Parts of a store.
KEYS = 60
STATES = (0, 1)


@dataclass(frozen=True)
class Writer:
    """What writes a state to a path, and what says which state is there."""

    name: str
    write: Callable[[Path, int], Any]
    read: Callable[[Path], int]


@cache
def table(state: int) -> pl.DataFrame:
    """Return a table of which every value is another in the other state."""
    rows = pl.int_range(0, 2 * WIDE, eager=True).cast(pl.Float64)
    columns = {f"x{j}": ((rows * (j + 3) ** 2) % 101) * (1 + state) for j in range(WIDE)}
    return pl.DataFrame(columns).with_columns(y=rows.sqrt() + state * (rows % 7 + 1))


@cache
def parts(state: int) -> pl.DataFrame:
    """Return a table of which every part is another in the other state."""
    x = pl.int_range(0, KEYS, eager=True).cast(pl.Float64)
    return pl.DataFrame({"k": range(KEYS), "x": x * (1 + state), "y": x.sqrt() + state})


@cache
def gram(state: int) -> ds.Gram:
    return ds.gram(table(state))


@cache
def sequence(state: int) -> ds.results.Sequence:
    return ds.anytime_sequence(gram(state).select(["x0", "x1", "x2", "y"]), "y")


@cache
def terms(state: int) -> ds.Terms:
    levels = [str(2000 * state + i) for i in range(2000)]
    return ds.terms(pl.DataFrame({"k": levels}), categories={"k": levels})


def state_of(numbers: list[float], of: Callable[[int], list[float]]) -> int:
    """Return the state whose numbers these are, but for the rounding of threads' sums."""
    close = [
        len(of(state)) == len(numbers)
        and all(
            math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
            for a, b in zip(of(state), numbers, strict=True)
        )
        for state in STATES
    ]
    assert sum(close) == 1, "what is stored is no state"
    return close.index(True)


def numbers_of(found: Any) -> list[float]:
    """Return the numbers that tell the states of something apart."""
    if isinstance(found, ds.Gram):
        return [found.rows, *found.mean, *found.comoment.ravel()]
    if isinstance(found, ds.Terms):
        return [float(level) for level in found.to_struct()["categories"][0]["levels"]]
    return [*found.steps["r2"], *found.at().coefficients.values()]


def stored(name: str, of: Callable[[int], Any], form: str) -> Writer:
    """Return the writer of a Gram, a sequence or terms."""
    return Writer(
        name,
        lambda path, state: getattr(of(state), f"write_{form}")(path),
        lambda path: state_of(
            numbers_of(getattr(type(of(0)), f"read_{form}")(path)), lambda at: numbers_of(of(at))
        ),
    )


def _page_there(path: Path) -> int:
    """Return the state of a page, which is whole if it ends as pages do."""
    text = path.read_text(encoding="utf-8")
    assert text.rstrip().endswith("</html>"), "half a page"
    own = [f"{sequence(state).at().intercept:.6g}"[:6] for state in STATES]
    return [value in text for value in own].index(True)


@cache
def _source(state: int) -> Path:
    """Return a table in a file, which is there before any limit holds."""
    path = Path(tempfile.gettempdir()) / f"dbselect-trial-{os.getpid()}-{state}.parquet"
    atexit.register(path.unlink, missing_ok=True)
    table(state).select("x0", "x1", "x2", "y").write_parquet(path)
    return path


def by_command(name: str, *options: str, read: Callable[[Path], int]) -> Writer:
    """Return the writer that is a command with ``--out``."""

    def write(path: Path, state: int) -> None:
        command = [name, str(_source(state)), *options, "--out", str(path)]
        with redirect_stdout(StringIO()):
            if main(command):
                raise SourceError("exit code 2")

    return Writer(f"dbselect {name} --out", write, read)


def _gram_there(path: Path) -> int:
    few = [ds.gram(table(state).select("x0", "x1", "x2", "y")) for state in STATES]
    return state_of(numbers_of(ds.Gram.read_parquet(path)), lambda at: numbers_of(few[at]))


def _steps_there(path: Path) -> int:
    found = ds.results.Sequence.read_parquet(path).steps["r2"].to_list()
    return state_of(found, lambda at: sequence(at).steps["r2"].to_list())


def store(name: str) -> Writer:
    """Return the writer that refreshes a store."""

    def refresh(path: Path, state: int) -> None:
        ds.GramStore(path / name).refresh(parts(state), by="k")

    def read(path: Path) -> int:
        total = ds.GramStore(path / name).total()
        assert total.rows == KEYS, f"{total.rows} rows"
        return state_of([*total.mean], lambda at: [*ds.gram(parts(at).drop("k")).mean])

    return Writer(f"store {name}", refresh, read)


def all_writers() -> Iterator[Writer]:
    """Yield every writer of the package."""
    yield stored("Gram JSON", gram, "json")
    yield stored("Gram Parquet", gram, "parquet")
    yield stored("sequence JSON", sequence, "json")
    yield stored("sequence Parquet", sequence, "parquet")
    yield stored("terms JSON", terms, "json")
    yield Writer("report", lambda path, state: sequence(state).report(path), _page_there)
    yield by_command("gram", read=_gram_there)
    yield by_command("sequence", "--target", "y", read=_steps_there)
    yield store("stats.duckdb")
    yield store("stats")
    yield store("stats.delta")


WRITERS = {writer.name: writer for writer in all_writers()}


def run(name: str, path: Path, limit: int | None) -> None:
    """Write without end, and say each time whether it was written or refused."""
    warnings.simplefilter("ignore")
    writer = WRITERS[name]
    writer.write(path, 0)
    for state in STATES:
        _source(state)
    if limit is not None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    print("ready", flush=True)
    for state in cycle(reversed(STATES)):
        try:
            writer.write(path, state)
        except (ds.DbselectError, OSError) as error:
            print(f"refused: {type(error).__name__}: {error}".replace("\n", " "), flush=True)
        else:
            print("written", flush=True)


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else None)
