"""What processes do with their parts of a table: each part becomes bytes, and bytes are merged.

A work is plain data; the result does not depend on the order of the parts, beyond rounding.
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

#: Bytes of a state above which tasks merge states: 10,000 fit into the 1 GB of Spark's driver.
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
    """Gather of all rows, in the engine's processes if it can ``reduce``, else here with a bar."""
    reduce = getattr(table, "reduce", None)
    if reduce is not None:
        for part in reduce(fields, work):
            gathered.load(part)
        return
    lock = Lock()  # batches are added on several threads, and the bar is one
    with progress(table.rows, title=title) as bar:

        def add(batch: Any) -> None:
            gathered.add(batch)
            with lock:
                bar.update(len(batch))

        table.scan(fields, add)


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
    """Several works in one reading of the rows."""

    works: Sequence[Work]

    @property
    def size(self) -> int:
        """About how many bytes a state has."""
        return sum(work.size for work in self.works)

    @contextmanager
    def begin(self) -> Iterator["Gatherings"]:
        """Begin all."""
        with ExitStack() as stack:
            each = [stack.enter_context(work.begin()) for work in self.works]
            yield Gatherings(each, self.shares)

    def shares(self, batch: Any) -> Iterable[Any]:
        """Give the rows of a batch that each work adds; None for no rows."""
        return [batch] * len(self.works)


@dataclass(frozen=True)
class Gatherings:
    """What several works have gathered in one reading of the rows."""

    each: Sequence[Any]
    shares: Callable[[Any], Iterable[Any]]

    def add(self, batch: Any) -> None:
        """Have each add its rows."""
        for one, rows in zip(self.each, self.shares(batch), strict=True):
            if rows is not None:
                one.add(rows)

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


class Summing(ABC):
    """A work whose state is one value, to which the values of other rows are added."""

    @property
    def size(self) -> int:
        """About how many bytes a state has; 0 if merging makes nothing fewer."""
        return 0

    @abstractmethod
    def none(self) -> Any:
        """Return the value of no rows."""

    @abstractmethod
    def of(self, batch: Any) -> Iterable[Any]:
        """Give the values of parts of a batch; runs on several threads at once."""

    @abstractmethod
    def added(self, sums: Any, more: Any) -> Any:
        """Return the value of both; the first may be changed."""

    @contextmanager
    def begin(self) -> Iterator["Summed"]:
        """Begin without rows."""
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
        """Add what another process has summed."""
        self.sums = self.work.added(self.sums, pickle.loads(part))

    def state(self) -> bytes:
        """Return the value."""
        return pickle.dumps(self.sums)


@dataclass(frozen=True)
class Tally(Summing):
    """How often things are met in the rows."""

    count: Callable[[pa.Table], Counter[Any]]  # plain data too

    def none(self) -> Counter[Any]:
        """Return no counts."""
        return Counter()

    def of(self, batch: Any) -> Iterable[Counter[Any]]:
        """Give the counts of a batch."""
        return [self.count(batch)]

    def added(self, sums: Counter[Any], more: Counter[Any]) -> Counter[Any]:
        """Return the counts of both."""
        sums.update(more)
        return sums
