"""Partial aggregates: a process reduces its rows to a state, as bytes, and states are merged.

A `Work` is plain data; the result does not depend on the order of the parts, beyond rounding.
"""

import pickle
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol

import pyarrow as pa

from dbselect.sources.progress import progress

#: Bytes of a state above which tasks merge states: 10,000 such states fit Spark's driver (1 GB).
LARGE = 64 * 1024
#: Bytes that may reach the driver, and most tasks that merge.
ARRIVING, MERGING = 256 * 1024**2, 16
#: Bytes of a state above which states merge in two stages: one task must not receive thousands.
HUGE, WIDE = 16 * 1024**2, 64


class Gathered(Protocol):
    """The state of a work in one process."""

    def add(self, batch: Any) -> None:
        """Add some rows."""

    def load(self, part: bytes) -> None:
        """Add the state of another process."""

    def state(self) -> bytes:
        """Return the state as bytes, for `load`."""


class Work(Protocol):
    """A reduction of the rows of a table; plain data, which can be pickled."""

    @property
    def size(self) -> int:
        """Approximate size of a state in bytes."""

    def begin(self) -> AbstractContextManager[Gathered]:
        """Return an empty state, which is valid inside the context."""


#: Reduces the rows of a table in several processes: fields, work -> states.
Reduce = Callable[[list[str], Work], Iterable[bytes]]


def partial_of(work: Work, batches: Iterable[Any]) -> bytes:
    """Return the state of some rows; batches are any objects with an Arrow C stream."""
    with work.begin() as gathered:
        for batch in batches:
            gathered.add(batch)
        return gathered.state()


def merge_of(work: Work, parts: Iterable[bytes]) -> bytes:
    """Merge states; one part at a time is in memory."""
    with work.begin() as gathered:
        for part in parts:
            gathered.load(part)
        return gathered.state()


def merging(size: int) -> list[int]:
    """Return the number of tasks that merge states of a size in bytes, stage by stage."""
    if size <= LARGE:
        return []
    last = max(1, min(MERGING, ARRIVING // size))
    return [last] if size <= HUGE else [WIDE, last]


def gather(
    table: Any, fields: list[str], work: Work, gathered: Gathered, title: str | None = None
) -> None:
    """Reduce all rows, in the engine's processes if it has ``reduce``, else here with a bar.

    A table with ``scan_blocks`` numbers its rows: sums that merge in this order have the same bits
    run after run, on any number of threads.
    """
    reduce = getattr(table, "reduce", None)
    if reduce is not None:
        for part in reduce(fields, work):
            gathered.load(part)
        return
    lock = Lock()  # batches are added on several threads, which share the bar
    with progress(table.rows, title=title) as bar:

        def add(batch: Any, *block: int) -> None:
            gathered.add(batch, *block)
            with lock:
                bar.update(len(batch))

        numbers = getattr(gathered, "in_blocks", False) and hasattr(table, "scan_blocks")
        (table.scan_blocks if numbers else table.scan)(fields, add)


@dataclass(frozen=True)
class Fresh:
    """A work whose empty state is made by a function, which is plain data."""

    made: Callable[[], Gathered]
    size: int = 0

    @contextmanager
    def begin(self) -> Iterator[Gathered]:
        """Begin an empty state."""
        yield self.made()


@dataclass(frozen=True)
class Together:
    """Several works in one pass over the rows."""

    works: Sequence[Work]

    @property
    def size(self) -> int:
        """Approximate size of a state in bytes."""
        return sum(work.size for work in self.works)

    @contextmanager
    def begin(self) -> Iterator["Gatherings"]:
        """Begin the empty states of all works."""
        with ExitStack() as stack:
            states = [stack.enter_context(work.begin()) for work in self.works]
            yield Gatherings(states, self.shares)

    def shares(self, batch: Any) -> Iterable[Any]:
        """Return the rows of a batch for each work; None for no rows."""
        return [batch] * len(self.works)


@dataclass(frozen=True)
class Gatherings:
    """The states of several works in one pass over the rows."""

    states: Sequence[Any]
    shares: Callable[[Any], Iterable[Any]]

    def add(self, batch: Any) -> None:
        """Add to each state its share of the rows."""
        for state, rows in zip(self.states, self.shares(batch), strict=True):
            if rows is not None:
                state.add(rows)

    def load(self, part: bytes) -> None:
        """Add the states of another process."""
        for state, other in zip(self.states, pickle.loads(part), strict=True):
            state.load(other)

    def state(self) -> bytes:
        """Return all states as bytes."""
        return pickle.dumps([state.state() for state in self.states])


@dataclass(frozen=True)
class Changed:
    """A work on changed rows: columns are added, or rows left out."""

    work: Work
    #: Returns the function that changes a batch; plain data, too
    changes: Callable[[], Callable[[pa.Table], pa.Table]]

    @property
    def size(self) -> int:
        """Approximate size of a state in bytes."""
        return self.work.size

    @contextmanager
    def begin(self) -> Iterator["Changing"]:
        """Begin an empty state."""
        with self.work.begin() as gathered:
            yield Changing(gathered, self.changes())


@dataclass(frozen=True)
class Passed:
    """A state that passes its rows on to the state of another work."""

    gathered: Gathered

    def load(self, part: bytes) -> None:
        """Add the state of another process."""
        self.gathered.load(part)

    def state(self) -> bytes:
        """Return the state as bytes."""
        return self.gathered.state()


@dataclass(frozen=True)
class Changing(Passed):
    """A state that changes the rows before it passes them on."""

    change: Callable[[pa.Table], pa.Table]

    def add(self, batch: Any) -> None:
        """Add the changed rows."""
        self.gathered.add(self.change(batch))


class Summing(ABC):
    """A work whose state is one value; the values of two sets of rows can be added."""

    @property
    def size(self) -> int:
        """Approximate size of a state in bytes; 0 if merging does not reduce it."""
        return 0

    @abstractmethod
    def none(self) -> Any:
        """Return the value of no rows."""

    @abstractmethod
    def of(self, batch: Any) -> Iterable[Any]:
        """Return the values of parts of a batch; runs on several threads at once."""

    @abstractmethod
    def added(self, sums: Any, more: Any) -> Any:
        """Add two values; the first may be changed."""

    @contextmanager
    def begin(self) -> Iterator["Summed"]:
        """Begin an empty state."""
        yield Summed(self, self.none())

    def over(self, table: Any, fields: list[str], title: str | None = None) -> Any:
        """Return the value of all rows of a table."""
        with self.begin() as summed:
            gather(table, fields, self, summed, title)
            return summed.sums


@dataclass
class Summed:
    """The value of the rows so far."""

    work: Summing
    sums: Any
    _lock: Any = field(default_factory=Lock)

    def add(self, batch: Any) -> None:
        """Add some rows; may be called from several threads at once."""
        for more in self.work.of(batch):
            with self._lock:
                self.sums = self.work.added(self.sums, more)

    def load(self, part: bytes) -> None:
        """Add the value of another process."""
        self.sums = self.work.added(self.sums, pickle.loads(part))

    def state(self) -> bytes:
        """Return the value as bytes."""
        return pickle.dumps(self.sums)


@dataclass(frozen=True)
class Tally(Summing):
    """Counts over the rows of a table."""

    count: Callable[[pa.Table], Counter[Any]]  # plain data, too

    def none(self) -> Counter[Any]:
        """Return empty counts."""
        return Counter()

    def of(self, batch: Any) -> Iterable[Counter[Any]]:
        """Return the counts of a batch."""
        return [self.count(batch)]

    def added(self, sums: Counter[Any], more: Counter[Any]) -> Counter[Any]:
        """Add two counts."""
        sums.update(more)
        return sums
