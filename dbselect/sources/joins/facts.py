"""Facts to which tables are added by several keys, and the Gram of all columns."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import SkippedRowsWarning, SourceError, warn_caller
from dbselect.record.gram import Gram, Matrix
from dbselect.record.policies import too_few
from dbselect.sources.engines.polars import LazyTable
from dbselect.sources.joins.key_sums import KeySums, key_sums
from dbselect.sources.joins.keys import WEIGHT, check_keys, compared, pairs, rows_of
from dbselect.sources.open import lazy, open_table
from dbselect.sources.read import gram as read_gram
from dbselect.sources.types import TableSource

#: Fields of a key in the facts, sorted.
Fields = tuple[str, ...]
#: Pairs of keys, as a share of the rows, below which rows are summed by pair first; with more
#: pairs, this takes several times as long as numbering the rows, and the memory of the pairs.
FEW_PAIRS = 0.25
_KEPT = "__dbselect_kept"


class Facts:
    """Facts, the Gram of their columns and of all added columns, and their sums by each key."""

    def __init__(self, source: TableSource, columns: Sequence[str], weight: str | None) -> None:
        table = open_table(source, None)
        if not table.again:
            raise SourceError(
                "facts is a stream that can be read only once, and every key needs a read; "
                "give a table, a relation or a file"
            )
        self._frame = lazy(table)
        self._columns, self._weight = columns, weight
        self.schema = dict(self._frame.collect_schema())
        self.base = self.gram = read_gram(table, columns, weight)
        self._sums: dict[Fields, KeySums] = {}
        self._pairs: dict[tuple[Fields, Fields], Any] = {}

    def by(self, key: Fields) -> KeySums:
        """Return the sums by a key, kept current by `add` if the key is among its `others`."""
        if key not in self._sums:
            self._sums[key] = key_sums(self._frame, list(key), weight=self._weight, gram=self.base)
        return self._sums[key]

    def keep(self, key: Fields, keys: pl.DataFrame) -> None:
        """Keep only the rows of the given keys; call it before any table is added."""
        kinds = check_keys(key, self.schema, "the facts")
        named = [f"{_KEPT}{at}" for at in range(len(key))]
        self._frame = (
            self._frame.with_columns(compared(key, kinds, named))
            .join(keys.lazy(), left_on=named, right_on=list(key), how="semi")
            .drop(named)
        )

    def read_again(self) -> None:
        """Read the Gram of the kept rows; other rows count as left out."""
        before = self.base
        gram = read_gram(LazyTable(self._frame), self._columns, self._weight)
        skipped = before.rows + before.skipped - gram.rows
        self.base = self.gram = replace(gram, skipped=skipped, missing=before.missing)
        if too_few(gram.rows, skipped):
            warn_caller(
                f"{skipped} of {gram.rows + skipped} rows are left out: values are missing in "
                "them, or in a table within the budget; unmatched='indicator' keeps the latter",
                SkippedRowsWarning,
            )
        self._sums.clear()

    def add(
        self, key: Fields, gram: Gram, cross: Matrix, centred: Matrix, others: Collection[Fields]
    ) -> None:
        """Add p columns: comoments `cross`, (d, p), and values less their means, (K, p).

        For each of the other keys the facts are read once by both keys, unless one of the two
        has all fields of the other.
        """
        by_key = self.by(key)
        for other in others:
            other_sums = self.by(other)
            sums = self._pair(other, key) @ centred
            self._sums[other] = other_sums.beside(gram, cross, np.asarray(sums))
        self._sums[key] = by_key.beside(gram, cross, by_key.weight[:, None] * centred)
        self.gram = self._sums[key].gram

    def _pair(self, first: Fields, second: Fields) -> Any:
        """Return the weight of each pair of two keys, shape (K1, K2)."""
        if (second, first) in self._pairs:
            return self._pairs[second, first].T
        if (first, second) not in self._pairs:
            self._pairs[first, second] = self._weighed(self.by(first), self.by(second))
        return self._pairs[first, second]

    def _weighed(self, first: KeySums, second: KeySums) -> Any:
        for sums, other in ((first, second), (second, first)):
            if set(other.keys.columns) <= set(sums.keys.columns):
                rows = sums.keys.with_columns(pl.Series(WEIGHT, sums.weight)).lazy()
                return pairs(rows, first.keys, second.keys, few=False)
        fields = list(dict.fromkeys([*first.keys.columns, *second.keys.columns]))
        kinds = check_keys(fields, self.schema, "the facts")
        rows = rows_of(self._frame, fields, kinds, self.base, self._weight)
        few = first.keys.height * second.keys.height < FEW_PAIRS * self.base.rows
        return pairs(rows, first.keys, second.keys, few)
