"""One step of a store: look which parts have changed, read these, and write all or nothing."""

import secrets
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from dbselect._log import Steps, log
from dbselect.errors import (
    ArgumentError,
    BusyError,
    DbselectError,
    SkippedRowsWarning,
    SourceError,
    StaleWarning,
    warn_caller,
)
from dbselect.pages.html import listed
from dbselect.record import files
from dbselect.record.foreign import native
from dbselect.record.gram import Gram
from dbselect.record.policies import warn_of_skipped
from dbselect.record.terms import Terms
from dbselect.sources.open import open_table, stored_gram
from dbselect.store.fields import Fields, PartFields, levels_of, new_levels
from dbselect.store.files import FileParts, files_of
from dbselect.store.parts import ATTEMPTS, Partitions, Unread, labelled
from dbselect.store.reading import (
    FINGERPRINT,
    GRAM,
    PART,
    PUT,
    READING,
    UNREAD,
    Reading,
    fields_from,
    reading_of,
    untyped,
)  # fmt: skip
from dbselect.store.rows import RowParts
from dbselect.store.shelf import Shelf, Shelved

#: Seconds of reading that a kill may cost.
PAUSE = 60.0
#: Ending of a file, which no glob of tables means.
ENDING = ".unfinished"


@dataclass(frozen=True)
class Refreshed:
    """What a refresh has done.

    Parameters
    ----------
    added, changed, dropped : names of parts: files, or keys as JSON
    unchanged : number of parts that are as they were
    retained : parts that the table no longer has, and that ``keep="all"`` keeps
    skipped : parts that could not be read -> why; the next refresh tries them again. One that was
        read before keeps its record until then, and is unchanged
    schema : how the columns of the table, or levels of its texts, differ from before, in words

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
    retained: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    schema: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        told = (
            f"{len(self.added)} parts added, {len(self.changed)} changed, "
            f"{len(self.dropped)} dropped, {self.unchanged} unchanged"
        )
        told += f", {len(self.retained)} retained" if self.retained else ""
        if self.skipped:
            told += f", {len(self.skipped)} skipped: {listed(list(self.skipped))}"
        return told + (f"; {listed(self.schema)}" if self.schema else "")


class Journal:
    """What a refresh has read, beside the store: one that is killed goes on from there."""

    def __init__(self, folder: Path | None, reading: Reading) -> None:
        self._folder = folder
        self._reading = reading
        self._new: list[pl.DataFrame] = []
        self._last = time.monotonic()

    def read(self) -> list[pl.DataFrame]:
        """Return the records that a refresh which did not end has left."""
        found = [frame for path in self._files() if (frame := self._read(path)) is not None]
        if found:
            log.info("%s records of a refresh that did not end", sum(one.height for one in found))
        return found

    def _read(self, path: Path) -> pl.DataFrame | None:
        try:
            frame = pl.DataFrame(files.read_parquet(path, "records"))
            reading = Reading.from_json(frame[READING][0])
        except (DbselectError, pl.exceptions.PolarsError) as error:
            log.info("%s", error)
            return None
        return frame if reading == self._reading else None

    def add(self, frame: pl.DataFrame) -> None:
        """Keep some records; once a minute they are written."""
        if self._folder is None:
            return
        self._new.append(frame)
        if time.monotonic() - self._last >= PAUSE:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"records-{secrets.token_hex(8)}{ENDING}"
            found = pl.concat(self._new, how="vertical_relaxed")
            files.write_parquet(found.to_arrow(compat_level=pl.CompatLevel.oldest()), path)
            self._new, self._last = [], time.monotonic()

    def clear(self) -> None:
        """Forget all, once the store has it."""
        for path in self._files():
            path.unlink(missing_ok=True)
        if self._folder is not None and self._folder.is_dir():
            with suppress(OSError):  # another refresh has written
                self._folder.rmdir()

    def _files(self) -> list[Path]:
        return [] if self._folder is None else sorted(self._folder.glob(f"*{ENDING}"))


def check_dropped(most: int | None, gone: int, known: int, found: int) -> None:
    """Refuse to drop too many parts; without a limit, all of several."""
    # A table of one part, as of the last day, may have another each night.
    if most is None and gone == known > bool(found):
        what = "none of these parts" if found else "no rows"
        raise SourceError(
            f"the table has {what}, and the store has {known} parts of it, which a refresh "
            f"would all drop; if the table is the right one, pass max_dropped={known}"
        )
    if most is not None and gone > most:
        raise SourceError(
            f"a refresh would drop {gone} of {known} parts, and max_dropped is {most}; the store "
            "is unchanged"
        )


def partitions_of(
    source: Any, reading: Reading, fields: PartFields, own: Path | None = None
) -> Partitions:
    """Return the parts of a table, without files of the store's own folder."""
    files = files_of(source, own)
    if files is not None:
        return FileParts(files, reading, fields)
    if stored_gram(source) is not None:
        raise ArgumentError("source has Gram records; `put` takes what was computed elsewhere")
    source = native(source)
    columns = None if reading.columns is None else list(reading.columns)
    table = open_table(source, columns)
    if not table.again:
        raise SourceError(
            "the source is a stream that can be read only once; a store looks for changes first, "
            "so give a table in memory, a LazyFrame, a relation or files"
        )
    return RowParts(source, table, reading, fields)


def refreshed(
    shelf: Shelf,
    before: Shelved,
    source: Any,
    reading: Reading,
    max_dropped: int | None,
    skips: bool,
) -> Refreshed:
    """Bring the records of a store to the state of its table, as `GramStore.refresh`."""
    known = before.fingerprints
    # What was put belongs to no table; what could not be read is tried again.
    of_table = {part: told for part, told in known.items() if not told.startswith(PUT)}
    fields = PartFields(reading.new_columns, fields_in(before))
    parts = partitions_of(source, reading, fields, shelf.folder)
    if skips and not parts.looked_at:
        raise ArgumentError("on_error is 'skip', and the parts of the source are no files")

    def check(found: Mapping[str, str]) -> None:
        gone = [] if reading.keep == "all" else [part for part in of_table if part not in found]
        check_dropped(max_dropped, len(gone), len(of_table), len(found))

    journal = Journal(shelf.unfinished, reading)
    found, frames = _read(parts, known, journal, check, reading if skips else None)
    _tell_skipped(frames, weighted=reading.weight is not None)
    new = of_types(frames, before, reading)
    told = dict(new.select(PART, FINGERPRINT).iter_rows())
    skipped = {part: why.removeprefix(UNREAD) for part, why in told.items() if UNREAD in why}
    # What cannot be read now was read before: its record stays, and the next refresh tries again.
    stale = [part for part in skipped if part in of_table and UNREAD not in known[part]]
    told = {part: why for part, why in told.items() if part not in stale}
    if stale:
        warn_caller(
            f"{len(stale)} parts have changed and cannot be read: {listed(stale)}; the store keeps "
            "their records of before, and the next refresh tries again",
            StaleWarning,
        )
    # Rows may be as they were when they are read, or go between a look and the next.
    same = [part for part in told if known.get(part) == told[part]]
    fresh = [part for part in told if part not in same]
    there = of_table.keys() & found
    kept = {part for part in there if parts.is_same(part, known[part], found[part])}
    renamed = {part: found[part] for part in kept if found[part] != known[part]}
    kept.update(same, stale)
    left = [part for part in of_table if part not in kept and part not in told]
    retained, dropped = (sorted(left), []) if reading.keep == "all" else ([], left)
    gone = [*dropped, *(part for part in fresh if part in known)]
    new = new.filter(pl.col(PART).is_in(fresh))
    changes = _changes(fields, before, new)
    if renamed:
        by_number = f"{len(renamed)} parts are compared by their number of rows and stay"
        changes = [*dict.fromkeys([*parts.changes(), *changes]), by_number]
    write(shelf, before, gone, new, reading, renamed)
    journal.clear()
    return Refreshed(
        [part for part in fresh if part not in known and part not in skipped],
        [part for part in fresh if part in known and part not in skipped],
        dropped, len(kept.difference(skipped)), retained, skipped, changes,
    )  # fmt: skip


def write(
    shelf: Shelf,
    before: Shelved,
    gone: list[str],
    new: pl.DataFrame,
    reading: Reading,
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write a step, unless nothing has changed; parts renamed keep their records."""
    frame = before.frame
    if frame is not None and (renamed or reading_of(before) not in (None, reading)):
        kept = frame.filter(~pl.col(PART).is_in(gone))
        texts = [reading.to_json(fields_from(text)) for text in kept[READING]]
        told = kept[PART].replace_strict(renamed, default=kept[FINGERPRINT]).alias(FINGERPRINT)
        new = pl.concat([kept.with_columns(pl.Series(READING, texts, pl.String), told), new])
        gone = list(before.fingerprints)
    if gone or new.height or frame is None:
        shelf.write(before, gone, new)


def fields_in(before: Shelved) -> dict[str, Fields]:
    """Return the fields that each part was read with, as far as they are known."""
    if before.frame is None:
        return {}
    texts = dict(before.frame.select(PART, READING).iter_rows())
    known = {text: fields_from(text) for text in set(texts.values())}
    return {part: found for part, text in texts.items() if (found := known[text]) is not None}


def _changes(fields: PartFields, before: Shelved, new: pl.DataFrame) -> list[str]:
    """Return in words what new records have of columns and levels that those before have not."""
    if before.frame is None or before.frame.is_empty():
        return []
    texts = new[READING].unique(maintain_order=True)
    read = [found for text in texts if (found := fields_from(text)) is not None]
    told = [each for found in read for each in fields.changes(found)]
    old, now = (
        levels_of(map(Terms.from_json, frame[GRAM].struct.field("terms").unique()))
        for frame in (before.frame, new)
    )
    return [*dict.fromkeys(told), *new_levels(old, now)]


def _read(
    parts: Partitions,
    known: Mapping[str, str],
    journal: Journal,
    check: Callable[[Mapping[str, str]], None],
    skipping: Reading | None,
) -> tuple[dict[str, str], list[pl.DataFrame]]:
    """Return the fingerprints that `check` allows, and records of parts with new ones."""
    frames = journal.read()
    for _ in range(ATTEMPTS):
        found = parts.fingerprints()
        check(found)
        fresh = {part: told for frame in frames
                 for part, told in frame.select(PART, FINGERPRINT).iter_rows()}  # fmt: skip
        known_now = {**known, **fresh}
        wanted = [p for p, told in found.items() if not parts.is_same(p, known_now.get(p), told)]
        stale = [*wanted, *(part for part in fresh if fresh[part] != found.get(part))]
        frames = [frame.filter(~pl.col(PART).is_in(stale)) for frame in frames]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            frames += _records(parts, wanted, journal, skipping, first=not known)
        # `_tell_skipped` adds up those of rows left out.
        told = [(str(one.message), one.category) for one in caught]
        for message, category in dict.fromkeys(told):
            if not issubclass(category, SkippedRowsWarning):
                warn_caller(message, category)
        if not parts.looked_at or parts.fingerprints() == found:
            return found, frames
    raise BusyError(
        f"{parts.shown} changed during each of {ATTEMPTS} reads; refresh again when "
        "nothing writes to it"
    )


def _records(
    parts: Partitions, wanted: list[str], journal: Journal, skipping: Reading | None, *, first: bool
) -> Iterator[pl.DataFrame]:
    failures: list[Unread] = []
    steps = Steps(f"refresh of {parts.shown}", len(wanted), "parts")
    for found in parts.records(wanted):
        steps.update(1 if isinstance(found, Unread) else found[PART].n_unique())
        if not isinstance(found, Unread):
            journal.add(found)
            yield found
        elif skipping is None:
            raise found.error
        else:
            failures.append(found)
    if failures and first and len(failures) == len(wanted):
        raise failures[0].error
    for one in failures:
        assert skipping is not None
        log.warning("%s is skipped: %s", one.part, one.error)
        nothing = pl.DataFrame(schema=dict.fromkeys([*skipping.by, GRAM], pl.Null))
        yield labelled(nothing.clear(1), one.part, f"{UNREAD}{one.error}", skipping)


def of_types(frames: list[pl.DataFrame], before: Shelved, reading: Reading) -> pl.DataFrame:
    """Return records with the types of the state; refuse keys of unknown type."""
    # A state without parts, of a table that was empty, has keys of no type.
    state = None if before.frame is None or before.frame.is_empty() else before.frame
    if not frames:
        if state is not None:
            return state.clear()
        empty = pl.DataFrame(schema={**dict.fromkeys(reading.by, pl.String), GRAM: pl.Null})
        return labelled(empty, "", "", reading)
    try:
        new = pl.concat(frames, how="vertical_relaxed")
        keys = new.select(reading.by)
        if state is None:
            for name in (name for name in reading.by if keys.schema[name] == pl.Null):
                raise untyped(name)
            return new
        cast = keys.cast({name: state.schema[name] for name in keys.columns})
        valued = keys.select(pl.selectors.exclude(pl.Null))
        if not cast.select(valued.columns).cast(valued.schema).equals(valued):
            raise SourceError(
                f"the keys {list(reading.by)} have values that the types of before, "
                f"{[str(dtype) for dtype in cast.dtypes]}, cannot hold; make another store"
            )
        return new.with_columns(cast)
    except pl.exceptions.PolarsError as error:
        raise SourceError(
            f"the keys {list(reading.by)} have other types than before or in other parts: {error}"
        ) from error


def _tell_skipped(frames: list[pl.DataFrame], *, weighted: bool) -> None:
    """Warn where more than a tenth of the rows that were read is left out."""
    records = pl.concat([frame.select(GRAM) for frame in frames])[GRAM] if frames else pl.Series()
    rows, skipped = (
        int(records.struct.field(name).sum()) if len(records) else 0 for name in ("rows", "skipped")
    )
    missing = Counter[str]()
    for record in records.drop_nulls().to_arrow() if skipped > rows else []:
        gram = Gram.from_struct(record)
        policies = gram.terms.policies()
        missing.update(
            {name: n for name, n in gram.missing.items() if policies.get(name, "skip") == "skip"}
        )
    warn_of_skipped(rows, skipped, missing, weighted=weighted)
