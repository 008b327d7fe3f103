"""Read rows with gaps: sums of their own for each pattern of columns that are missing together."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np
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
from dbselect.sources.partial.records_by_pattern import MAX_PATTERNS, Patterns, complete_parts
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


@dataclass(frozen=True, eq=False)
class GapSums:
    """Partial sums of a `GapWork`: those of each pattern, and rows without any column."""

    work: GapWork
    stack: ExitStack
    sums: dict[Lacking, GramSums | None] = field(default_factory=dict)
    empty: list[int] = field(default_factory=lambda: [0])
    lock: Any = field(default_factory=Lock)

    def add(self, batch: Any) -> None:
        """Add some rows; may be called from several threads at once."""
        rows = in_arrow(batch)
        for lacking, part in _patterns_of(rows, self.work.columns):
            sums = self._of(lacking)
            if sums is None:
                with self.lock:
                    self.empty[0] += part.num_rows
            else:
                sums.add(part)

    def _of(self, lacking: Lacking) -> GramSums | None:
        with self.lock:
            if lacking not in self.sums:
                if len(self.sums) >= 4 * self.work.most:
                    raise DataError(
                        f"rows lack more than {4 * self.work.most} sets of columns, and "
                        f"max_patterns is {self.work.most}; read fewer columns, or raise it"
                    )
                work = self.work.part(lacking)
                sums = None if work is None else self.stack.enter_context(work.begin())
                self.sums[lacking] = sums
            return self.sums[lacking]

    def state(self) -> bytes:
        """Return the sums of all patterns as bytes."""
        states = {at: sums.state() for at, sums in self.sums.items() if sums is not None}
        sizes = [[list(at), len(state)] for at, state in states.items()]
        return json.dumps([self.empty[0], sizes]).encode() + b"\n" + b"".join(states.values())

    def load(self, part: bytes) -> None:
        """Add the sums of other rows."""
        header, _, states = part.partition(b"\n")
        empty, sizes = json.loads(header)
        self.empty[0] += empty
        start = 0
        for at, size in sizes:
            sums = self._of(tuple(at))
            assert sums is not None
            sums.load(states[start : start + size])
            start += size

    def records(self) -> pl.DataFrame:
        """Return the keys of groups and the record of each of their patterns."""
        frames = [
            sums.records().with_columns(pl.col("gram").cast(RECORD_DTYPE))
            for sums in self.sums.values()
            if sums is not None
        ]
        if not frames:
            raise DataError("no row has a value in any of the columns")
        return pl.concat(frames)


def _patterns_of(rows: pa.Table, columns: Sequence[Leaf]) -> list[tuple[Lacking, pa.Table]]:
    """Return what rows lack, and the rows that lack it, in their order."""
    absent = np.zeros((rows.num_rows, len(columns)), bool)
    start = 0
    for batch in rows.to_batches():
        struct = batch.to_struct_array()
        end = start + len(struct)
        for at, leaf in enumerate(columns):
            nulls = pc.is_null(part_of(struct, leaf.path), nan_is_null=True)
            if nulls.true_count:
                absent[start:end, at] = nulls.to_numpy(zero_copy_only=False)
        start = end
    if not absent.any():
        return [((), rows)] if rows.num_rows else []
    bits = np.packbits(absent, axis=1)
    bits = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8)))
    words = np.ascontiguousarray(bits).view(np.uint64)
    keys = pl.DataFrame({f"word{k}": word for k, word in enumerate(words.T)})
    found = keys.with_row_index("row").group_by(keys.columns, maintain_order=True).agg("row")
    # Taken once, so that each pattern is a slice.
    sorted_rows = rows.take(found["row"].explode().to_arrow()).combine_chunks()
    starts = found["row"].list.len().cum_sum().to_list()
    firsts = absent[found["row"].list.first().to_numpy()]
    return [
        (tuple(np.flatnonzero(lacks).tolist()), sorted_rows.slice(start, end - start))
        for lacks, start, end in zip(firsts, [0, *starts], starts, strict=False)
    ]


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
    grams = [_without_unseen(Gram.from_struct(g)) for g in read_gaps(table, request, most)["gram"]]
    found = Patterns.of(grams, most)
    warn_of_gaps(found, request)
    return found


def _without_unseen(gram: Gram) -> Gram:
    """Return the Gram without levels that none of its rows has, as others may have them."""
    return without_unseen_levels(gram, {category.column for category in gram.terms.categories})


def warn_of_gaps(found: Patterns, request: Request) -> None:
    """Warn of columns that no row has, and of values that were left out."""
    sources = {s for gram in found for s in [*gram.columns, *gram.terms.sources().values()]}
    lacking = [name for name in request.gaps if name not in sources]
    lacking = [name for name in lacking if not {*_made([name], request.terms)} & sources]
    if lacking:
        warn_caller(f"columns left out: {lacking} are missing in every row", LeftOutWarning)
    if found.dropped:
        warn_caller(
            f"rows lack more sets of columns than max_patterns: the rarest joined others, and some "
            f"of their values of {found.dropped} are left out; raise max_patterns to keep them",
            LeftOutWarning,
        )


def completed_groups(records: pl.DataFrame, request: Request) -> pl.DataFrame:
    """Return one record by EM for each key; all folds of a group are completed together."""
    frames = []
    groups = records.partition_by(request.by, maintain_order=True) if request.by else [records]
    for group in groups:
        parts = group.partition_by(request.keys, maintain_order=True) if request.keys else [group]
        patterns = [
            Patterns(tuple(_without_unseen(Gram.from_struct(g)) for g in part["gram"]))
            for part in parts
        ]
        grams = complete_parts(patterns)
        keys = pl.concat([part.drop("gram").head(1) for part in parts])
        column = pl.Series("gram", [gram.to_struct() for gram in grams], RECORD_DTYPE)
        frames.append(keys.with_columns(column))
    found = pl.concat(frames)
    return found.sort(request.keys, nulls_last=True) if request.keys else found
