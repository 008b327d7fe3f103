"""Rows of a wide table as dense blocks: the columns, the target and the weight of those used.

A piece has some millions of values, so memory does not grow with the batches of an engine.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from scipy import sparse

from dbselect.errors import DataError
from dbselect.record.categories import Category
from dbselect.record.columns import SUFFIX, Leaf
from dbselect.record.entries import Entries, children_of
from dbselect.record.formulas import Path
from dbselect.record.gram import Matrix, Vector
from dbselect.record.policies import FILLS
from dbselect.sources.request import Request
from dbselect.sources.rows import part_of, values, weights_of
from dbselect.sources.wide.many_levels import ManyLevels, has_many
from dbselect.sources.wide.sparse_rows import entries

#: Doubles of a piece: 32 MB, of which a thread needs some copies.
PIECE_VALUES = 1 << 22
#: Rows of a piece of few columns, whose entries take as much.
PIECE_ROWS = 1 << 14

Mask = npt.NDArray[np.bool_]
Index = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Piece:
    """The rows of a run that are used, and counts of the others."""

    #: shape (n, D + 1), the target last; NaN where a value is missing that nothing stands for
    X: Matrix
    weight: Vector  # shape (n,), > 0
    has_gaps: bool  # whether there is a NaN
    entries: Any  # CSR matrix of the field of entries, shape (n, any); None if there is none
    skipped: int  # rows left out
    missing: Counter[str]  # column of the table -> rows in which it is NULL or NaN


@dataclass(frozen=True)
class WideRows:
    """How a batch becomes pieces, as plain data; columns of entries are last, many levels first."""

    request: Request  # the columns to read, the target among its numbers
    target: str  # its name
    paths: Mapping[str, Path]  # category -> its position in a row
    #: The field of entries (`record.entries`), which are no columns of `names`
    field: pa.Field | None = None
    #: shape (D + 1,), what stands where values are missing; NaN leaves NaN there, None all
    fills: Any = None

    @property
    def sparse(self) -> str | None:
        """The name of the field of entries."""
        return None if self.field is None else str(self.field.name)

    def listed(self, n_columns: int) -> tuple[Entries, ...]:
        """Return the field of entries, as a fit of so many columns met it."""
        if self.field is None:
            return ()
        met = n_columns - len(self.names) - len(self.many.names)
        return (Entries(str(self.field.name), met, children_of(self.field.type)),)

    def columns(self, count: int) -> list[str]:
        """Return the names of so many columns, all that were met."""
        before = [*self.names, *self.many.names]
        return [*before, *(f"{self.sparse}[{at}]" for at in range(count - len(before)))]

    @property
    def fields(self) -> list[str]:
        """Top-level fields to read."""
        return [*self.request.fields, *([] if self.sparse is None else [self.sparse])]

    @cached_property
    def numbers(self) -> list[Leaf]:
        """The columns that are numbers in the rows, or curves of these."""
        return [leaf for leaf in self.request.columns if leaf.name != self.target]

    @cached_property
    def names(self) -> list[str]:
        """The columns of a dense piece: numbers, levels, and indicators of what is missing."""
        marks = [name + SUFFIX for name in self.marked]
        return [leaf.name for leaf in self.numbers] + self._levels + marks

    @cached_property
    def _runs(self) -> list[tuple[int, int]]:
        """Return where runs begin and end: an array field from its first element, or a column."""
        runs: list[tuple[int, int]] = []
        for at, leaf in enumerate(self.numbers):
            start = runs[-1][0] if runs else at
            if start < at and leaf.path == (self.numbers[start].field, at - start + 1):
                runs[-1] = (start, at + 1)
            else:
                runs.append((at, at + 1))
        return runs

    @property
    def in_order(self) -> list[str]:
        """The columns in the order of the Gram, each indicator after its column."""
        parts = [[name] for name in self.request.names] + [names for *_, names in self._texts]
        marked = set(self.marked)
        return [
            each
            for at in self.request.order or range(len(parts))
            for name in parts[at]
            if name != self.target
            for each in ([name, name + SUFFIX] if name in marked else [name])
        ]

    @cached_property
    def _policies(self) -> dict[str, str]:
        return dict(zip(self.request.names, self.request.policies, strict=False))

    @cached_property
    def marked(self) -> list[str]:
        """The numbers that have an indicator."""
        return [leaf.name for leaf in self.numbers if self._policies[leaf.name] == "indicator"]

    @cached_property
    def filled(self) -> list[str]:
        """The columns with their mean where a value is missing."""
        texts = [name for _, policy, names in self._texts if policy == "mean" for name in names]
        return [leaf.name for leaf in self.numbers if self._policies[leaf.name] == "mean"] + texts

    @cached_property
    def marks(self) -> tuple[Index, Index]:
        """Where these numbers are, and where their indicators are."""
        marked = set(self.marked)
        at = np.array([j for j, one in enumerate(self.numbers) if one.name in marked], np.intp)
        return at, np.arange(len(self.names) - len(at), len(self.names))

    @cached_property
    def _texts(self) -> list[tuple[Category, str, list[str]]]:
        """Categories, their policies and dense columns: what is missing may be one more level."""
        policies = self.request.policies[len(self.request.names) :]
        return [
            (
                one,
                policy,
                [] if has_many(one) else one.names + [one.missing] * (policy == "indicator"),
            )
            for one, policy in zip(self.request.terms.categories, policies, strict=True)
        ]

    @cached_property
    def _levels(self) -> list[str]:
        return [name for *_, names in self._texts for name in names]

    @cached_property
    def many(self) -> ManyLevels:
        """The categories whose levels are entries."""
        found = [(one, policy) for one, policy, _ in self._texts if has_many(one)]
        return ManyLevels(tuple(one for one, _ in found), tuple(policy for _, policy in found))

    @cached_property
    def _kept(self) -> Mask:
        """Which columns a row needs: those whose gaps are not filled; shape (D + 1,)."""
        kept = [self._policies[leaf.name] in ("skip", "error") for leaf in self.numbers]
        for _, policy, names in self._texts:
            kept += [policy not in FILLS] * len(names)
        return np.array(kept + [True] * len(self.marked) + [True])

    def pieces(self, batch: Any) -> Iterator[Piece]:
        """Give the rows of a batch, some millions of values at a time."""
        size = max(1, min(PIECE_VALUES // max(len(self.names), 1), PIECE_ROWS))
        terms = self.request.terms
        plain = replace(terms, computed=())
        for start in range(0, len(batch), size):
            rows = batch.slice(start, size)
            # To find one of thousands of fields in a struct takes longer than its values.
            yield self._piece(plain.expand(rows), terms.computed_columns(rows))

    def _piece(self, rows: Any, made: Mapping[str, Vector]) -> Piece:
        struct = _structs(rows)
        n, width, levels = len(struct), len(self.numbers), len(self._levels)
        # As the fields lie in memory: an array row by row, others column by column.
        order: Any = "C" if len(self._runs) < width else "F"
        X = np.empty((n, len(self.names) + 1), order=order)
        for start, end in self._runs:
            name = self.numbers[start].name
            if name in made:
                X[:, start] = made[name]
                continue
            field = struct.field(self.numbers[start].field)
            if _is_array(field, self.numbers[start:end]):
                _fill_array(X[:, start:end], field)
            else:
                for j in range(start, end):
                    X[:, j] = values(struct, self.numbers[j].path)
        used, missing = np.ones(n, dtype=bool), Counter[str]()
        self._fill_levels(X[:, width : width + levels], struct, missing)
        X[:, width + levels : -1] = 0.0
        y = made.get(self.target)
        X[:, -1] = values(struct, self._target.path) if y is None else y
        # A sum is finite where all values are, at one reading of them.
        if not np.isfinite(X.sum(axis=1)).all():
            used = self._without_gaps(X, missing)
        weight = np.ones(n)
        if self.request.weight is not None:
            weight = weights_of(struct, self.request.weight)
            used &= weight > 0
        found, there = self._entries(struct, missing)
        used &= there
        skipped = int((~used).sum())
        if skipped:
            X, weight = X[used], weight[used]
            found = None if found is None else found[used]
        has_gaps = bool(missing) and bool(np.isnan(X).any())
        if has_gaps and self.fills is not None:
            np.copyto(X, self.fills, where=np.isnan(X))
            has_gaps = bool(np.isnan(X).any())
        return Piece(X, weight, has_gaps, found, skipped, missing)

    def _entries(self, struct: pa.StructArray, missing: Counter[str]) -> tuple[Any, Mask]:
        """Return the entries of rows, or None, and which rows have all of them; count gaps."""
        texts = [part_of(struct, self.paths[one.column]) for one in self.many.categories]
        each = [*self.many.entries(texts)]
        if self.sparse is not None:
            each.append((self.sparse, *entries(self.sparse, struct.field(self.sparse))))
        used = np.ones(len(struct), dtype=bool)
        for name, _, there in each:
            missing[name] += int((~there).sum())
            used &= there
        parts = [found for _, found, _ in each]
        return (sparse.hstack(parts, format="csr") if parts else None), used

    def _without_gaps(self, X: Matrix, missing: Counter[str]) -> Mask:
        """Mark and count gaps, of a category once; return which rows have all that they need."""
        names, sources = [*self.names, self.target], self.request.terms.sources()
        for j in np.flatnonzero(np.isinf(X).any(axis=0)).tolist():
            value = X[np.isinf(X[:, j]), j][0]
            raise DataError(
                f"column '{names[j]}' has an infinite value ({value}); values must be finite"
            )
        gaps = np.isnan(X)
        at, on = self.marks
        X[:, on] = gaps[:, at]
        counts = gaps.sum(axis=0)
        for j in np.flatnonzero(counts).tolist():
            source = sources.get(names[j], names[j])
            missing[source] = max(missing[source], int(counts[j]))
        return np.asarray(~gaps[:, self._kept].any(axis=1))

    @cached_property
    def _target(self) -> Leaf:
        return next(leaf for leaf in self.request.columns if leaf.name == self.target)

    def _fill_levels(self, X: Matrix, struct: pa.StructArray, missing: Counter[str]) -> None:
        """Write the indicators of categories, and count gaps that are a level, the last."""
        start = 0
        for one, policy, names in self._texts:
            if names:
                field = part_of(struct, self.paths[one.column])
                frame = pl.DataFrame({one.column: pl.Series(pl.from_arrow(field))})
                made = frame.select(one.indicators(policy == "indicator")).select(names)
                end = start + len(names)
                X[:, start:end] = made.fill_null(float("nan")).to_numpy()
                if policy == "indicator":
                    missing[one.column] += int(X[:, end - 1].sum())
                start = end


def _structs(rows: Any) -> pa.StructArray:
    """Return rows as one array, in types that Arrow computes on."""
    table = rows.to_arrow(compat_level=pl.CompatLevel.oldest()) if hasattr(rows, "height") else rows
    batches = pa.table(table).combine_chunks().to_batches()
    empty = pa.RecordBatch.from_pylist([], schema=pa.table(table).schema)
    return (batches[0] if batches else empty).to_struct_array()


def _is_array(field: pa.Array, leaves: Sequence[Leaf]) -> bool:
    """Whether columns are a whole array field of plain numbers."""
    if not pa.types.is_fixed_size_list(field.type) or leaves[0].path[1:] != (1,):
        return False
    inner = field.type.value_type
    plain = pa.types.is_floating(inner) or pa.types.is_integer(inner)
    return plain and int(field.type.list_size) == len(leaves)


def _fill_array(X: Matrix, field: pa.FixedSizeListArray) -> None:
    """Write an array field; a NULL is one in all of its columns."""
    there = field.is_valid().to_numpy(zero_copy_only=False)
    inner = (field if there.all() else field.drop_null()).flatten()
    found = inner.to_numpy(zero_copy_only=False)  # becomes doubles as it is written
    if not there.all():
        X[:] = np.nan
    X[there] = found.reshape(-1, X.shape[1])
