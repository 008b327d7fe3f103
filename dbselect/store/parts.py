"""Parts of the table of a store: files, or rows with equal keys, each with a fingerprint.

Files are compared before and after they are read; rows are hashed while they are read.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from dbselect.errors import DbselectError
from dbselect.record.gram import RECORD_DTYPE
from dbselect.sources.read import gram_by
from dbselect.store.reading import FINGERPRINT, GRAM, PART, READING, Reading

#: Attempts to read a table that keeps changing.
ATTEMPTS = 3


@dataclass(frozen=True)
class Unread:
    """A part that could not be read, with the error."""

    part: str
    error: DbselectError


class Partitions(Protocol):
    """The parts of a table."""

    looked_at: bool  # whether fingerprints are known without reading the rows
    shown: str  # the table, for errors

    def fingerprints(self) -> pl.DataFrame:
        """Return the parts and their current fingerprints."""

    def changes(self) -> list[str]:
        """Return the changes of the columns in words, if all parts have the same columns."""

    def is_same(self, part: str, before: str | None, now: str) -> bool:
        """Whether a part is unchanged, by its fingerprints."""

    def records(self, parts: Collection[str]) -> Iterator[pl.DataFrame | Unread]:
        """Yield the records of parts, as `labelled` returns them; none for a part that is gone."""


def read_part(source: Any, reading: Reading) -> pl.DataFrame:
    """Return the keys and Gram records of a table."""
    return gram_by(
        source,
        list(reading.by),
        None if reading.columns is None else list(reading.columns),
        reading.weight,
        null_policy=reading.kept_policy,
        max_levels=reading.max_levels,
        terms=reading.terms,
    )


def labelled(
    records: pl.DataFrame,
    part: Any,
    fingerprint: Any,
    reading: Reading,
    fields: Mapping[str, str] | None = None,
) -> pl.DataFrame:
    """Return records in the layout of a store; part and fingerprint are a text or a Series."""
    by = list(reading.by)
    labels = {PART: part, FINGERPRINT: fingerprint, READING: reading.to_json(fields)}
    columns = [
        value.alias(name) if isinstance(value, pl.Series) else pl.lit(value, pl.String).alias(name)
        for name, value in labels.items()
    ]
    # Categorical codes differ between batches, so they become text.
    texts = pl.selectors.by_name(by) & pl.selectors.by_dtype(pl.Categorical, pl.Enum)
    records = records.with_columns(*columns, texts.cast(pl.String), pl.col(GRAM).cast(RECORD_DTYPE))
    return records.select(*by, *labels, GRAM)
