"""What the table of a store consists of: files, or the rows of equal keys, by fingerprint.

Files are looked at before and after they are read, rows are hashed while they pass.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from dbselect.errors import DbselectError
from dbselect.record.gram import RECORD_DTYPE
from dbselect.sources.read import gram_by
from dbselect.store.reading import FINGERPRINT, GRAM, PART, READING, Reading

#: Readings of a table that changes all the while, before that is an error.
ATTEMPTS = 3


@dataclass(frozen=True)
class Unread:
    """A part that cannot be read, and why."""

    part: str
    error: DbselectError


class Partitions(Protocol):
    """The parts of a table."""

    looked_at: bool  # whether fingerprints are taken before reading, not of the rows read
    shown: str  # the table, for errors

    def fingerprints(self) -> dict[str, str]:
        """Return the fingerprint of each part as it is now."""

    def changes(self) -> list[str]:
        """Return in words how the columns differ from before, where all parts have the same."""

    def is_same(self, part: str, before: str | None, now: str) -> bool:
        """Whether a part is as it was, by its fingerprints."""

    def records(self, parts: Collection[str]) -> Iterator[pl.DataFrame | Unread]:
        """Yield records of some parts, as `labelled` returns them; none of a part that is gone."""


def read_part(source: Any, reading: Reading) -> pl.DataFrame:
    """Return the keys and records of the rows of a table."""
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
    """Return records as a store keeps them; part and fingerprint: a text or a Series."""
    by = list(reading.by)
    told = {PART: part, FINGERPRINT: fingerprint, READING: reading.to_json(fields)}
    columns = [
        value.alias(name) if isinstance(value, pl.Series) else pl.lit(value, pl.String).alias(name)
        for name, value in told.items()
    ]
    # Levels of categories are those of a batch; texts are the same everywhere.
    texts = pl.selectors.by_name(by) & pl.selectors.by_dtype(pl.Categorical, pl.Enum)
    found = records.with_columns(*columns, texts.cast(pl.String), pl.col(GRAM).cast(RECORD_DTYPE))
    return found.select(*by, *told, GRAM)
