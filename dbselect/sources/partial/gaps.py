"""Read rows with gaps: sums of their own for each pattern of columns that are missing together."""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from threading import Condition
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from dbselect._arrow import part_of
from dbselect.errors import DataError, LeftOutWarning, warn_caller
from dbselect.record.columns import Leaf, leaves
from dbselect.record.gram import RECORD_DTYPE, Gram
from dbselect.record.terms import Terms
from dbselect.sources.partial.gather import GramSums, GramWork
from dbselect.sources.partial.grouping import in_arrow
from dbselect.sources.partial.partial_aggregates import gather
from dbselect.sources.partial.records_by_pattern import (
    MAX_PATTERNS,
    NAMED,
    Patterns,
    complete_parts,
    dropped_of,
)
from dbselect.sources.records import without_unseen_levels
from dbselect.sources.request import Request, Table, request_of

#: The columns that a pattern lacks, by number.
Lacking = tuple[int, ...]


@dataclass(frozen=True)
class GapWork:
    """The work that sums the rows of each pattern of gaps."""

    request: Request  # of rows that have all columns
    schema: pa.Schema  # of the table
    columns: tuple[Leaf, ...]  # that may be missing
    most: int  # patterns

    @property
    def size(self) -> int:
        """Approximate size of a state in bytes, at some ten patterns."""
        return 10 * GramWork(self.request, self.schema).size

    def part(self, lacking: Lacking) -> GramWork | None:
        """Return the work of the rows of a pattern; None if they have no column."""
        gone = {self.columns[at].name for at in lacking}
        names = [name for name in self.request.taken if name not in gone]
        if not names:
            return None
        terms = replace(self.request.terms, means={}, indicators=())
        kept = [name for name in _made(names, terms) if name not in gone]
        request = self.request
        own = request_of(
            self.schema, names, request.weight, request.by, request.folding, self._policy(names),
            terms.of(kept),
        )  # fmt: skip
        if request.folding is not None:
            # The fold of a row is that of all its columns.
            deciding = [*own.made_of, *request.fields]
            own = replace(own, folding=request.folding, made_of=deciding)
        return GramWork(own, self.schema)

    def _policy(self, names: Sequence[str]) -> Mapping[str, str]:
        policies = self.request.of_table
        return {name: policies[name] for name in names if name in policies} or {"*": "skip"}

    @contextmanager
    def begin(self) -> Iterator["GapSums"]:
        """Begin with empty sums."""
        with ExitStack() as stack:
            yield GapSums(self, stack)


def _made(names: Sequence[str], terms: Terms) -> list[str]:
    """Return the columns of a record that come of columns of the table."""
    made = terms.columns
    computed = [n for t in terms.computed if {*t.of} <= {*names} for n in t.names]
    return [one for name in names for one in made.get(name, [name])] + computed


@dataclass(eq=False)
class GapSums:
    """Partial sums of a `GapWork`: those of each pattern, and rows without any column.

    Beyond `most` patterns in `sums` all become records, of which the rarest are joined.
    """

    work: GapWork
    stack: ExitStack
    sums: dict[Lacking, GramSums | None] = field(default_factory=dict)
    joined: pl.DataFrame | None = None  # the records of patterns that were joined
    empty: int = 0
    adding: int = 0  # threads that add to some sums
    idle: Any = field(default_factory=Condition)

    def add(self, batch: Any) -> None:
        """Add some rows; may be called from several threads at once."""
        rows = in_arrow(batch)
        for lacking, part in _patterns_of(rows, self.work.columns):
            sums = self._begin(lacking, part.num_rows)
            try:
                if sums is not None:
                    sums.add(part)
            finally:
                with self.idle:
                    self.adding -= 1
                    self.idle.notify_all()

    def _begin(self, lacking: Lacking, rows: int = 0) -> GramSums | None:
        """Return the sums of a pattern, in use until `adding` is lowered."""
        with self.idle:
            if lacking not in self.sums and len(self.sums) >= 4 * self.work.most:
                self.idle.wait_for(lambda: self.adding == 0)
                self._settle()
            if lacking not in self.sums:
                work = self.work.part(lacking)
                sums = None if work is None else self.stack.enter_context(work.begin())
                self.sums[lacking] = sums
            self.adding += 1
            self.empty += rows * (self.sums[lacking] is None)
            return self.sums[lacking]

    def _settle(self) -> None:
        """Make records of all sums, and join the rarest."""
        frames = self._frames()
        self.sums.clear()
        self.stack.close()
        if not frames:
            return
        found = pl.concat(frames)
        keys = self.work.request.keys
        groups = found.partition_by(keys, maintain_order=True) if keys else [found]
        self.joined = pl.concat(
            _with_patterns(group.head(1), Patterns.of(_grams(group), self.work.most))
            for group in groups
        )

    def _frames(self) -> list[pl.DataFrame]:
        """Return keys and records of all patterns."""
        frames = [] if self.joined is None else [self.joined]
        return frames + [
            sums.records().with_columns(pl.col("gram").cast(RECORD_DTYPE))
            for sums in self.sums.values()
            if sums is not None
        ]

    def state(self) -> bytes:
        """Return the sums of all patterns as bytes."""
        states = {at: sums.state() for at, sums in self.sums.items() if sums is not None}
        return pickle.dumps((self.empty, states, self.joined))

    def load(self, part: bytes) -> None:
        """Add the sums of other rows."""
        empty, states, joined = pickle.loads(part)
        self.empty += empty
        for lacking, state in states.items():
            sums = self._begin(lacking)
            self.adding -= 1
            assert sums is not None
            sums.load(state)
        if joined is not None:
            self.joined = joined if self.joined is None else pl.concat([self.joined, joined])

    def records(self) -> pl.DataFrame:
        """Return the keys of groups and the record of each of their patterns."""
        frames = self._frames()
        if not frames:
            raise DataError("no row has a value in any of the columns")
        return pl.concat(frames)


def _grams(records: pl.DataFrame) -> list[Gram]:
    return [_without_unseen(Gram.from_struct(record)) for record in records["gram"]]


def _with_patterns(keys: pl.DataFrame, found: Patterns) -> pl.DataFrame:
    """Return the keys of a group beside the record of each of its patterns."""
    records = pl.Series("gram", [gram.to_struct() for gram in found], RECORD_DTYPE)
    return (
        keys.drop("gram").join(records.to_frame(), how="cross")
        if keys.width > 1
        else records.to_frame()
    )


def _patterns_of(rows: pa.Table, columns: Sequence[Leaf]) -> list[tuple[Lacking, pa.Table]]:
    """Return what rows lack, and the rows that lack it, in their order."""
    words = np.zeros((-(-len(columns) // 64), rows.num_rows), np.uint64)  # a bit a column
    start = 0
    for batch in rows.to_batches():
        struct = batch.to_struct_array()
        end = start + len(struct)
        for at, leaf in enumerate(columns):
            nulls = pc.is_null(part_of(struct, leaf.path), nan_is_null=True)
            if nulls.true_count:
                words[at // 64, start:end] |= _bits(nulls).astype(np.uint64) << np.uint64(at % 64)
        start = end
    if not words.any():
        return [((), rows)] if rows.num_rows else []
    keys = pl.DataFrame({f"word{k}": word for k, word in enumerate(words)})
    found = keys.with_row_index("row").group_by(keys.columns, maintain_order=True).agg("row")
    # Taken once, so that each pattern is a slice.
    sorted_rows = rows.take(found["row"].explode().to_arrow()).combine_chunks()
    starts = found["row"].list.len().cum_sum().to_list()
    firsts = words[:, found["row"].list.first().to_numpy()].T
    lacks = np.unpackbits(np.ascontiguousarray(firsts).view(np.uint8), axis=1, bitorder="little")
    return [
        (tuple(np.flatnonzero(one).tolist()), sorted_rows.slice(start, end - start))
        for one, start, end in zip(lacks, [0, *starts], starts, strict=False)
    ]


def _bits(values: pa.BooleanArray) -> npt.NDArray[np.uint8]:
    """Return an array without nulls as 0 and 1; pyarrow's own way imports pandas."""
    end = values.offset + len(values)
    bits = np.frombuffer(values.buffers()[1], np.uint8)
    return np.unpackbits(bits, count=end, bitorder="little")[values.offset :]


def read_gaps(table: Table, request: Request, most: int) -> pl.DataFrame:
    """Return the keys of groups and the record of each pattern of columns with policy ``"em"``."""
    every = {leaf.name: leaf for leaf in leaves(table.schema)}
    columns = tuple(every[name] for name in request.gaps)
    work = GapWork(replace(request, gaps=[]), table.schema, columns, most)
    with work.begin() as sums:
        gather(table, request.fields, work, sums)
        return sums.records()


def read_patterns(table: Table, request: Request, most: int = MAX_PATTERNS) -> Patterns:
    """Return the patterns of a request without groups."""
    found = Patterns.of(_grams(read_gaps(table, request, most)), most)
    _warn_of_gaps(found.grams, request)
    return found


def _without_unseen(gram: Gram) -> Gram:
    """Return the Gram without levels that none of its rows has, as others may have them."""
    return without_unseen_levels(gram, {category.column for category in gram.terms.categories})


def _warn_of_gaps(grams: Sequence[Gram], request: Request) -> None:
    """Warn of columns that no row has, and of values that were left out."""
    sources = {s for gram in grams for s in [*gram.columns, *gram.terms.sources().values()]}
    lacking = [name for name in request.gaps if name not in sources]
    lacking = [name for name in lacking if not {*_made([name], request.terms)} & sources]
    if lacking:
        warn_caller(f"columns left out: {lacking} are missing in every row", LeftOutWarning)
    if dropped := dropped_of(grams):
        names = ", ".join(f"'{name}'" for name in dropped[:NAMED])
        more = f" and {len(dropped) - NAMED} more" if len(dropped) > NAMED else ""
        warn_caller(
            f"rows lack more sets of columns than max_patterns: the rarest joined others, and some "
            f"of their values of {names}{more} are left out; raise max_patterns to keep them",
            LeftOutWarning,
        )


def completed_groups(records: pl.DataFrame, request: Request) -> pl.DataFrame:
    """Return one record by EM for each key; all folds of a group are completed together."""
    frames, read = [], []
    groups = records.partition_by(request.by, maintain_order=True) if request.by else [records]
    for group in groups:
        parts = group.partition_by(request.keys, maintain_order=True) if request.keys else [group]
        patterns = [Patterns(tuple(_grams(part))) for part in parts]
        read += [gram for one in patterns for gram in one]
        grams = complete_parts(patterns)
        keys = pl.concat([part.drop("gram").head(1) for part in parts])
        column = pl.Series("gram", [gram.to_struct() for gram in grams], RECORD_DTYPE)
        frames.append(keys.with_columns(column))
    _warn_of_gaps(read, request)
    found = pl.concat(frames)
    return found.sort(request.keys, nulls_last=True) if request.keys else found
