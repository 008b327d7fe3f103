"""Rows of a wide table as dense blocks: columns, target and weight of the rows used.

A piece has a few million values, so memory does not grow with the batches of an engine. Categories
of very many levels are sparse entries instead of columns of 0 and 1.
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

from dbselect._arrow import part_of
from dbselect.errors import ArgumentError, DataError
from dbselect.record.categories import Category
from dbselect.record.columns import SUFFIX, Leaf
from dbselect.record.entries import MOST_COLUMNS, Entries, Mask, children_of, entries_in, is_entries
from dbselect.record.formulas import Path
from dbselect.record.gram import Matrix, Vector
from dbselect.record.policies import FILLS
from dbselect.sources.partial.learn import MAX_LEVELS
from dbselect.sources.request import Request
from dbselect.sources.rows import values, weights_of


def sparse_field(schema: pa.Schema) -> str | None:
    """Return the name of the field of entries; None if there is none."""
    names = [field.name for field in schema if is_entries(field.type)]
    if len(names) > 1:
        raise ArgumentError(
            f"source has two fields of entries, '{names[0]}' and '{names[1]}'; a lazy Gram takes "
            "one: leave the others out of the table"
        )
    return names[0] if names else None


def entries(name: str, field: pa.Array) -> tuple[Any, Mask]:
    """Return the entries of rows as a CSR matrix, and which rows have no missing entry."""
    rows = entries_in(name, field)
    if len(rows.at) and rows.at.max() >= MOST_COLUMNS:
        raise DataError(
            f"field '{name}' has entry {rows.at.max()}; numbers must be below {MOST_COLUMNS}, as "
            "each has sums of its own: number the columns anew"
        )
    if np.isinf(rows.value).any():
        raise DataError(f"field '{name}' has an infinite value; values must be finite")
    width = int(rows.at.max()) + 1 if len(rows.at) else 0
    matrix = sparse.csr_matrix((rows.value, rows.at, rows.ends), shape=(len(field), width))
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # Arrow's memory must not be written to
        matrix.sum_duplicates()
    gaps = np.isnan(rows.value)
    is_complete = rows.there
    if gaps.any():
        is_complete = is_complete.copy()
        is_complete[rows.row[gaps]] = False
    return matrix, is_complete


@dataclass
class EntryTotals:
    """Sums over the entries of a field, not centred."""

    #: shape (D,), of w v, w v^2 and w v (y - anchor), y the target; D grows with the entries seen
    sums: Vector
    squares: Vector
    products: Vector

    @classmethod
    def none(cls, width: int = 0) -> "EntryTotals":
        """Return the sums of no rows."""
        return cls(np.zeros(width), np.zeros(width), np.zeros(width))

    @classmethod
    def of(cls, rows: Any, weight: Vector, y: Vector) -> "EntryTotals":
        """Return the sums of a CSR matrix of rows, (n, D); y is the target less its anchor."""
        squared = sparse.csr_matrix((rows.data**2, rows.indices, rows.indptr), shape=rows.shape)
        return cls(rows.T @ weight, squared.T @ weight, rows.T @ (weight * y))

    def add(self, other: "EntryTotals", moved: float = 0.0) -> None:
        """Add the sums of other rows; `moved` is their anchor of the target less this one."""
        width = max(len(self.sums), len(other.sums))
        for name in ("sums", "squares", "products"):
            grown = np.zeros(width)
            before, added = getattr(self, name), getattr(other, name)
            grown[: len(before)] = before
            grown[: len(added)] += added
            setattr(self, name, grown)
        self.products[: len(other.sums)] += moved * other.sums

    def centred(self, weight: float, y: float) -> tuple[Vector, Vector, Vector]:
        """Return means, and centred sums of squares and of products with the target.

        `weight` is the weight of all rows, y the mean of the target less its anchor.
        """
        mean = self.sums / weight if weight else np.zeros_like(self.sums)
        squares = np.maximum(self.squares - mean * self.sums, 0.0)
        return mean, squares, self.products - y * self.sums


#: Most levels of a text in a lazy Gram: they are kept in memory, and in models.
MOST_LEVELS = 1_000_000


def has_many(category: Category) -> bool:
    """Whether the levels of a category are entries."""
    return len(category.levels) > MAX_LEVELS


@dataclass(frozen=True)
class ManyLevels:
    """Categories of text whose levels are entries of a row."""

    categories: tuple[Category, ...]
    policies: tuple[str, ...]  # policy for missing values of each

    def __post_init__(self) -> None:
        for category, policy in zip(self.categories, self.policies, strict=True):
            if policy not in ("skip", "error"):
                raise ArgumentError(
                    f"null_policy of column '{category.column}' is {policy!r}; a text of "
                    f"{len(category.levels)} levels takes 'skip' or 'error' only"
                )

    @cached_property
    def names(self) -> list[str]:
        """The columns of all levels."""
        return [name for category in self.categories for name in category.names]

    @cached_property
    def _types(self) -> list[pl.Enum]:
        """The levels of each category as an Enum type, which looks them up fast."""
        return [pl.Enum(category.texts) for category in self.categories]

    def entries(self, texts: Sequence[pa.Array]) -> Iterator[tuple[str, Any, Mask]]:
        """Yield each category, the levels of rows as a CSR matrix, and which rows have a text."""
        for field, category, type_ in zip(texts, self.categories, self._types, strict=True):
            text = pl.Series(pl.from_arrow(field))
            at = text.cast(pl.String).cast(type_, strict=False).to_physical().cast(pl.Int64)
            ends = np.concatenate([[0], np.cumsum(at.is_not_null().to_numpy())])
            codes, shape = at.drop_nulls().to_numpy(), (len(text), len(category.levels))
            levels = sparse.csr_matrix((np.ones(len(codes)), codes, ends), shape=shape)
            yield category.column, levels, text.is_not_null().to_numpy()


#: Most doubles of a piece: 32 MB, of which a thread needs some copies.
PIECE_VALUES = 1 << 22
#: Most rows of a piece: with few columns, its entries take as much memory.
PIECE_ROWS = 1 << 14

Index = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Piece:
    """The used rows of a piece of a batch, and counts of the others."""

    #: shape (n, D + 1), the target last; NaN for a missing value without a fill
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
    target: str
    paths: Mapping[str, Path]  # category -> its path in a row
    #: The field of entries (`record.entries`), whose columns are not in `names`
    field: pa.Field | None = None
    #: shape (D + 1,), fills of missing values; NaN leaves a column unfilled, None all columns
    fills: Any = None

    @property
    def sparse(self) -> str | None:
        """Name of the field of entries."""
        return None if self.field is None else str(self.field.name)

    def listed(self, n_columns: int) -> tuple[Entries, ...]:
        """Return the field of entries with its number of columns, in a fit of `n_columns`."""
        if self.field is None:
            return ()
        n_entries = n_columns - len(self.names) - len(self.many.names)
        return (Entries(str(self.field.name), n_entries, children_of(self.field.type)),)

    def columns(self, count: int) -> list[str]:
        """Return the names of `count` columns, the last of which are entries."""
        before = [*self.names, *self.many.names]
        return [*before, *(f"{self.sparse}[{at}]" for at in range(count - len(before)))]

    @property
    def fields(self) -> list[str]:
        """Top-level fields to read."""
        return [*self.request.fields, *([] if self.sparse is None else [self.sparse])]

    @cached_property
    def numbers(self) -> list[Leaf]:
        """The numeric columns, and the columns of bases."""
        return [leaf for leaf in self.request.columns if leaf.name != self.target]

    @cached_property
    def names(self) -> list[str]:
        """The columns of a dense piece: numbers, levels, and indicators of missing values."""
        marks = [name + SUFFIX for name in self.marked]
        return [leaf.name for leaf in self.numbers] + self._levels + marks

    @cached_property
    def _runs(self) -> list[tuple[int, int]]:
        """Start and end of runs of columns: a whole array field, or a single column."""
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
            column
            for at in self.request.order or range(len(parts))
            for name in parts[at]
            if name != self.target
            for column in ([name, name + SUFFIX] if name in marked else [name])
        ]

    @cached_property
    def _policies(self) -> dict[str, str]:
        return dict(zip(self.request.names, self.request.policies, strict=False))

    @cached_property
    def marked(self) -> list[str]:
        """The numeric columns that have an indicator."""
        return [leaf.name for leaf in self.numbers if self._policies[leaf.name] == "indicator"]

    @cached_property
    def filled(self) -> list[str]:
        """The columns whose missing values are filled with the mean."""
        texts = [name for _, policy, names in self._texts if policy == "mean" for name in names]
        return [leaf.name for leaf in self.numbers if self._policies[leaf.name] == "mean"] + texts

    @cached_property
    def marks(self) -> tuple[Index, Index]:
        """Positions of the `marked` columns, and of their indicators."""
        marked = set(self.marked)
        at = np.array([j for j, leaf in enumerate(self.numbers) if leaf.name in marked], np.intp)
        return at, np.arange(len(self.names) - len(at), len(self.names))

    @cached_property
    def _texts(self) -> list[tuple[Category, str, list[str]]]:
        """Categories, their policies and dense columns: missing may be one more level."""
        policies = self.request.policies[len(self.request.names) :]
        return [
            (
                text,
                policy,
                [] if has_many(text) else text.names + [text.missing] * (policy == "indicator"),
            )
            for text, policy in zip(self.request.terms.categories, policies, strict=True)
        ]

    @cached_property
    def _levels(self) -> list[str]:
        return [name for *_, names in self._texts for name in names]

    @cached_property
    def many(self) -> ManyLevels:
        """The categories whose levels are entries."""
        many = [(text, policy) for text, policy, _ in self._texts if has_many(text)]
        return ManyLevels(tuple(text for text, _ in many), tuple(policy for _, policy in many))

    @cached_property
    def _kept(self) -> Mask:
        """Which columns a usable row must have: columns without fills; shape (D + 1,)."""
        kept = [self._policies[leaf.name] in ("skip", "error") for leaf in self.numbers]
        for _, policy, names in self._texts:
            kept += [policy not in FILLS] * len(names)
        return np.array(kept + [True] * len(self.marked) + [True])

    def pieces(self, batch: Any) -> Iterator[Piece]:
        """Yield the rows of a batch in pieces of a few million values."""
        size = max(1, min(PIECE_VALUES // max(len(self.names), 1), PIECE_ROWS))
        terms = self.request.terms
        plain = replace(terms, computed=())
        for start in range(0, len(batch), size):
            rows = batch.slice(start, size)
            # Computed columns stay apart: a lookup among thousands of fields of a struct is slow.
            yield self._piece(plain.expand(rows), terms.computed_columns(rows))

    def _piece(self, rows: Any, made: Mapping[str, Vector]) -> Piece:
        struct = _structs(rows)
        n, width, levels = len(struct), len(self.numbers), len(self._levels)
        # Like the memory of the fields: row-major for arrays, column-major for others.
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
        # The sum of a row is finite if all its values are, which takes one pass over X.
        if not np.isfinite(X.sum(axis=1)).all():
            used = self._without_gaps(X, missing)
        weight = np.ones(n)
        if self.request.weight is not None:
            weight = weights_of(struct, self.request.weight)
            used &= weight > 0
        row_entries, is_complete = self._entries(struct, missing)
        used &= is_complete
        skipped = int((~used).sum())
        if skipped:
            X, weight = X[used], weight[used]
            row_entries = None if row_entries is None else row_entries[used]
        has_gaps = bool(missing) and bool(np.isnan(X).any())
        if has_gaps and self.fills is not None:
            np.copyto(X, self.fills, where=np.isnan(X))
            has_gaps = bool(np.isnan(X).any())
        return Piece(X, weight, has_gaps, row_entries, skipped, missing)

    def _entries(self, struct: pa.StructArray, missing: Counter[str]) -> tuple[Any, Mask]:
        """Return the entries of rows, or None, and which rows are complete; count missing ones."""
        texts = [part_of(struct, self.paths[text.column]) for text in self.many.categories]
        fields = [*self.many.entries(texts)]
        if self.sparse is not None:
            fields.append((self.sparse, *entries(self.sparse, struct.field(self.sparse))))
        used = np.ones(len(struct), dtype=bool)
        for name, _, is_complete in fields:
            missing[name] += int((~is_complete).sum())
            used &= is_complete
        parts = [matrix for _, matrix, _ in fields]
        return (sparse.hstack(parts, format="csr") if parts else None), used

    def _without_gaps(self, X: Matrix, missing: Counter[str]) -> Mask:
        """Mark and count missing values, of a category once; return which rows are usable."""
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
        """Write the columns of levels; count missing values if they are the last level."""
        start = 0
        for category, policy, names in self._texts:
            if names:
                field = part_of(struct, self.paths[category.column])
                frame = pl.DataFrame({category.column: pl.Series(pl.from_arrow(field))})
                made = frame.select(category.indicators(policy == "indicator")).select(names)
                end = start + len(names)
                X[:, start:end] = made.fill_null(float("nan")).to_numpy()
                if policy == "indicator":
                    missing[category.column] += int(X[:, end - 1].sum())
                start = end


def _structs(rows: Any) -> pa.StructArray:
    """Return rows as one array, in types for which Arrow has kernels."""
    table = rows.to_arrow(compat_level=pl.CompatLevel.oldest()) if hasattr(rows, "height") else rows
    batches = pa.table(table).combine_chunks().to_batches()
    empty = pa.RecordBatch.from_pylist([], schema=pa.table(table).schema)
    return (batches[0] if batches else empty).to_struct_array()


def _is_array(field: pa.Array, leaves: Sequence[Leaf]) -> bool:
    """Whether the columns are all of an array field of plain numbers."""
    if not pa.types.is_fixed_size_list(field.type) or leaves[0].path[1:] != (1,):
        return False
    inner = field.type.value_type
    plain = pa.types.is_floating(inner) or pa.types.is_integer(inner)
    return plain and int(field.type.list_size) == len(leaves)


def _fill_array(X: Matrix, field: pa.FixedSizeListArray) -> None:
    """Write an array field into X; a NULL array is NaN in all of its columns."""
    is_valid = field.is_valid().to_numpy(zero_copy_only=False)
    inner = (field if is_valid.all() else field.drop_null()).flatten()
    numbers = inner.to_numpy(zero_copy_only=False)  # converted to doubles as it is written
    if not is_valid.all():
        X[:] = np.nan
    X[is_valid] = numbers.reshape(-1, X.shape[1])
