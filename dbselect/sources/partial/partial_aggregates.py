"""What processes do with their parts of a table: each part becomes bytes, and bytes are merged.

A sum over rows is the sum over parts of them, so an engine that runs a function on its
partitions needs no more than this. A work is plain data that travels to the processes;
what they send back does not depend on the order of the parts, beyond rounding.
"""

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, Protocol

import pyarrow as pa

from dbselect.sources.progress import progress

#: Bytes of a state above which states are merged before they reach the driver: of ten
#: thousand tasks, that is less than the 1 GB that Spark lets its driver receive.
LARGE = 64 * 1024
#: Bytes that may reach the driver, and most tasks that merge.
ARRIVING, MERGING = 256 * 1024**2, 16
#: Bytes of a state above which they are merged twice: one task must not receive thousands.
HUGE, WIDE = 16 * 1024**2, 64


class Gathered(Protocol):
    """What one process has gathered so far."""

    def add(self, batch: Any) -> None:
        """Add some rows."""

    def load(self, part: bytes) -> None:
        """Add what another process has gathered."""

    def state(self) -> bytes:
        """Return what was gathered, for `load`."""


class Work(Protocol):
    """What is gathered of a table; plain data, which can be pickled."""

    @property
    def size(self) -> int:
        """About how many bytes a state has."""

    def begin(self) -> AbstractContextManager[Gathered]:
        """Return a gathering of no rows, which ends with the context."""


#: Has processes gather of the fields of a table, each of its rows.
Reduce = Callable[[list[str], Work], Iterable[bytes]]


def partial_of(work: Work, batches: Iterable[Any]) -> bytes:
    """Return the state of some rows, given as anything with an Arrow C stream."""
    with work.begin() as gathered:
        for batch in batches:
            gathered.add(batch)
        return gathered.state()


def merge_of(work: Work, parts: Iterable[bytes]) -> bytes:
    """Return the state of all rows of some; one part at a time is in memory."""
    with work.begin() as gathered:
        for part in parts:
            gathered.load(part)
        return gathered.state()


def merging(size: int) -> list[int]:
    """Return how many tasks merge states of some bytes, stage by stage."""
    if size <= LARGE:
        return []
    last = max(1, min(MERGING, ARRIVING // size))
    return [last] if size <= HUGE else [WIDE, last]


def gather(
    table: Any, fields: list[str], work: Work, gathered: Gathered, title: str | None = None
) -> None:
    """Gather of all rows of a table, in the processes of its engine if it can ``reduce``.

    What is read here has a bar on a terminal.
    """
    reduce = getattr(table, "reduce", None)
    if reduce is not None:
        for part in reduce(fields, work):
            gathered.load(part)
        return
    lock = Lock()  # batches are added on several threads, and the bar is one
    with progress(table.rows) as bar:
        bar.set_description(title, refresh=False)

        def add(batch: Any) -> None:
            gathered.add(batch)
            with lock:
                bar.update(len(batch))

        table.scan(fields, add)


def tally(table: Any, fields: list[str], count: Callable[[pa.Table], Counter[Any]]) -> Counter[Any]:
    """Return how often things are met in all rows of a table; `count` is plain data."""
    tallied = Tallied(count)
    gather(table, fields, Fresh(partial(Tallied, count)), tallied)
    return tallied.found


@dataclass(frozen=True)
class Fresh:
    """A work that begins with what a function makes, which is plain data."""

    made: Callable[[], Gathered]
    size: int = 0

    @contextmanager
    def begin(self) -> Iterator[Gathered]:
        """Begin without rows."""
        yield self.made()


@dataclass(frozen=True)
class Together:
    """Several works on the same rows."""

    works: Sequence[Work]

    @property
    def size(self) -> int:
        """About how many bytes a state has."""
        return sum(work.size for work in self.works)

    @contextmanager
    def begin(self) -> Iterator["Gatherings"]:
        """Begin all."""
        with ExitStack() as stack:
            yield Gatherings([stack.enter_context(work.begin()) for work in self.works])


@dataclass(frozen=True)
class Gatherings:
    """What several works have gathered of the same rows."""

    each: Sequence[Gathered]

    def add(self, batch: Any) -> None:
        """Show the rows to all."""
        for one in self.each:
            one.add(batch)

    def load(self, part: bytes) -> None:
        """Add what others have gathered."""
        for one, state in zip(self.each, pickle.loads(part), strict=True):
            one.load(state)

    def state(self) -> bytes:
        """Return the states of all."""
        return pickle.dumps([one.state() for one in self.each])


@dataclass(frozen=True)
class Changed:
    """A work on rows that are changed before: columns are added, or rows left out."""

    work: Work
    #: Returns what changes a batch; plain data too
    changes: Callable[[], Callable[[pa.Table], pa.Table]]

    @property
    def size(self) -> int:
        """About how many bytes a state has."""
        return self.work.size

    @contextmanager
    def begin(self) -> Iterator["Changing"]:
        """Begin the work."""
        with self.work.begin() as gathered:
            yield Changing(gathered, self.changes())


@dataclass(frozen=True)
class Passed:
    """What a work has gathered of the rows that are passed to it."""

    gathered: Gathered

    def load(self, part: bytes) -> None:
        """Add what another process has gathered, of rows that it passed."""
        self.gathered.load(part)

    def state(self) -> bytes:
        """Return what was gathered."""
        return self.gathered.state()


@dataclass(frozen=True)
class Changing(Passed):
    """What a work has gathered of rows that are changed before."""

    change: Callable[[pa.Table], pa.Table]

    def add(self, batch: Any) -> None:
        """Add rows, changed."""
        self.gathered.add(self.change(batch))


@dataclass(frozen=True)
class Tallied:
    """What was met so far."""

    count: Callable[[pa.Table], Counter[Any]]
    found: Counter[Any] = field(default_factory=Counter)
    _lock: Any = field(default_factory=Lock)

    def add(self, batch: Any) -> None:
        """Count in some rows; may be called from several threads at once."""
        more = self.count(batch)
        with self._lock:
            self.found.update(more)

    def load(self, part: bytes) -> None:
        """Add what another process has counted."""
        self.found.update(pickle.loads(part))

    def state(self) -> bytes:
        """Return the counts."""
        return pickle.dumps(self.found)
