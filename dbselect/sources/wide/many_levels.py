"""Categories of very many levels, stored as sparse entries instead of columns of 0 and 1."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from scipy import sparse

from dbselect.errors import ArgumentError
from dbselect.record.categories import Category
from dbselect.record.entries import Mask
from dbselect.sources.partial.learn import MAX_LEVELS

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
