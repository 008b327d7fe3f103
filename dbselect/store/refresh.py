"""One step of a store: look which parts have changed, read these, and write all or nothing."""

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dbselect.backends.shelf import Shelf, Shelved
from dbselect.errors import (
    ArgumentError,
    BusyError,
    SkippedRowsWarning,
    SourceError,
    warn_caller,
)
from dbselect.record.foreign import native
from dbselect.record.gram import Gram
from dbselect.record.rows import warn_of_skipped
from dbselect.sources.open import open_table, stored_gram
from dbselect.store.files import FileParts, files_of
from dbselect.store.parts import ATTEMPTS, Partitions, labelled
from dbselect.store.reading import FINGERPRINT, GRAM, PART, Reading, untyped
from dbselect.store.rows import RowParts


@dataclass(frozen=True)
class Refreshed:
    """What a refresh has done.

    Parameters
    ----------
    added, changed, dropped : names of parts: files, or keys as JSON
    unchanged : number of parts that are as they were

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> import tempfile
    >>> table = pl.DataFrame({"day": [1, 1, 2], "x": [1, 2, 3]})
    >>> ds.GramStore(tempfile.mkdtemp() + "/stats").refresh(table, by="day").added
    ['["1"]', '["2"]']
    """

    added: list[str]
    changed: list[str]
    dropped: list[str]
    unchanged: int

    def __repr__(self) -> str:
        return (
            f"{len(self.added)} parts added, {len(self.changed)} changed, "
            f"{len(self.dropped)} dropped, {self.unchanged} unchanged"
        )


def partitions_of(source: Any, reading: Reading, own: Path | None = None) -> Partitions:
    """Return the parts of a table.

    Parameters
    ----------
    source : the table
    reading : how it is read
    own : folder of the store, whose files are none of a table that lies around it

    Raises
    ------
    SourceError : there is no such table, or it can be read only once
    ArgumentError : it is no table but a Gram
    """
    files = files_of(source, own)
    if files is not None:
        return FileParts(files, reading)
    if stored_gram(source) is not None:
        raise ArgumentError("source has Gram records; a store makes its own, of a table")
    source = native(source)
    columns = None if reading.columns is None else list(reading.columns)
    table = open_table(source, columns)
    if not table.again:
        raise SourceError(
            "the source is a stream that can be read only once; a store looks for changes first, "
            "so give a table in memory, a LazyFrame, a relation or files"
        )
    return RowParts(source, table, reading)


def refreshed(shelf: Shelf, before: Shelved, source: Any, reading: Reading) -> Refreshed:
    """Bring the records of a store to the state of its table.

    Parameters
    ----------
    shelf : where the records lie
    before : its state
    source : the table
    reading : how it is read
    """
    parts, known = partitions_of(source, reading, shelf.folder), before.fingerprints
    found, frames = _read(parts, known, weighted=reading.weight is not None)
    new = _alike(frames, before, reading)
    told = dict(new.select(PART, FINGERPRINT).iter_rows())
    # Rows may be as they were when they are read, or go between a look and the next.
    same = [part for part in told if known.get(part) == told[part]]
    added = [part for part in told if part not in known]
    changed = [part for part in told if part in known and part not in same]
    kept = [part for part in known if found.get(part) == known[part] or part in same]
    dropped = [part for part in known if part not in kept and part not in told]
    if added or changed or dropped or before.frame is None:
        shelf.write(before, [*changed, *dropped], new.filter(~pl.col(PART).is_in(same)))
    return Refreshed(added, changed, dropped, len(kept))


def _read(
    parts: Partitions, known: Mapping[str, str], *, weighted: bool
) -> tuple[dict[str, str], list[pl.DataFrame]]:
    """Return the fingerprints of a table, and records of all parts that have new ones.

    Raises
    ------
    SourceError : no part is left
    BusyError : the table changes while it is read, at each of some attempts
    """
    frames: list[pl.DataFrame] = []
    fresh: dict[str, str] = {}
    for _ in range(ATTEMPTS):
        found = parts.fingerprints()
        if known and not found:
            # Rather a disk that is not there, or a query that went wrong, than no rows.
            raise SourceError(
                f"the table has no rows, and the store has {len(known)} parts of it, which a "
                "refresh would all drop; remove the store if you want that"
            )
        wanted = [part for part, told in found.items() if {**known, **fresh}.get(part) != told]
        stale = [*wanted, *(part for part in fresh if fresh[part] != found.get(part))]
        frames = [frame.filter(~pl.col(PART).is_in(stale)) for frame in frames]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            frames += parts.records(wanted)
        _tell(caught, len(wanted))
        fresh = {part: told for frame in frames
                 for part, told in frame.select(PART, FINGERPRINT).iter_rows()}  # fmt: skip
        if not parts.looked_at or parts.fingerprints() == found:
            _tell_skipped(frames, weighted=weighted)
            return found, frames
    raise BusyError(
        f"{parts.shown} changed during each of {ATTEMPTS} reads; refresh again when "
        "nothing writes to it"
    )


def _alike(frames: list[pl.DataFrame], before: Shelved, reading: Reading) -> pl.DataFrame:
    """Return records with the types of the state.

    Raises
    ------
    SourceError : a key has another type, which would change values
    """
    if not frames:
        return _nothing(before, reading)
    try:
        new = pl.concat(frames, how="vertical_relaxed")
        # A state without parts, of a table that was empty, has keys of no type.
        if before.frame is None or before.frame.is_empty():
            return _typed(new, reading)
        keys = new.select(reading.by)
        cast = keys.cast({name: before.frame.schema[name] for name in keys.columns})
        if not cast.cast(keys.schema).equals(keys):
            raise SourceError(
                f"the keys {list(reading.by)} have values that the types of before, "
                f"{[str(dtype) for dtype in cast.dtypes]}, cannot hold; make another store"
            )
        return new.with_columns(cast)
    except pl.exceptions.PolarsError as error:
        raise SourceError(
            f"the keys {list(reading.by)} have other types than before or in other parts: {error}"
        ) from error


def _typed(new: pl.DataFrame, reading: Reading) -> pl.DataFrame:
    """Return the first records; refuse keys of unknown type."""
    for name in reading.by:
        if new.schema[name] == pl.Null:
            raise untyped(name)
    return new


def _nothing(before: Shelved, reading: Reading) -> pl.DataFrame:
    if before.frame is not None and not before.frame.is_empty():
        return before.frame.clear()
    empty = pl.DataFrame(schema={**dict.fromkeys(reading.by, pl.String), GRAM: pl.Null})
    return labelled(empty, "", "", reading)


def _tell(caught: list[warnings.WarningMessage], parts: int) -> None:
    """Repeat each warning once, with the number of parts that raised it."""
    told = Counter((str(each.message), each.category) for each in caught)
    for (message, category), count in told.items():
        if issubclass(category, SkippedRowsWarning):
            continue  # each part has other numbers; `_tell_skipped` adds them up
        where = f" (in {count} of {parts} readings)" if count > 1 else ""
        warn_caller(message + where, category)


def _tell_skipped(frames: list[pl.DataFrame], *, weighted: bool) -> None:
    """Warn where more than half of the rows that were read are left out."""
    rows, skipped, missing = 0, 0, Counter[str]()
    for record in (record for frame in frames for record in frame[GRAM].drop_nulls().to_arrow()):
        gram = Gram.from_struct(record)
        policies = gram.terms.policies()
        rows, skipped = rows + gram.rows, skipped + gram.skipped
        missing.update(
            {name: n for name, n in gram.missing.items() if policies.get(name, "skip") == "skip"}
        )
    warn_of_skipped(rows, skipped, missing, weighted=weighted)
