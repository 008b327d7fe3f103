"""Refresh of a store: find changed parts, read them, and write them in one step."""

import secrets
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

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
from dbselect.record.gram import RECORD_DTYPE, Gram
from dbselect.record.policies import warn_of_skipped
from dbselect.record.terms import Terms
from dbselect.sources.open import open_table, stored_gram
from dbselect.store.fields import PartFields, levels_of, new_levels
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

#: Seconds between writes of the journal: the reading that a kill may lose.
PAUSE = 60.0
#: Suffix of journal files, which no glob of tables matches.
ENDING = ".unfinished"


@dataclass(frozen=True)
class Refreshed:
    """Result of a refresh.

    Parameters
    ----------
    added, changed, dropped : names of parts: files, or keys as JSON
    unchanged : number of unchanged parts
    retained : parts that the table no longer has, kept because of ``keep="all"``
    skipped : parts that could not be read -> error; the next refresh tries them again. A part that
        was read before keeps its record until then, and counts as unchanged
    schema : changes of the table's columns and of levels of its text columns, in words

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
        message = (
            f"{len(self.added)} parts added, {len(self.changed)} changed, "
            f"{len(self.dropped)} dropped, {self.unchanged} unchanged"
        )
        message += f", {len(self.retained)} retained" if self.retained else ""
        if self.skipped:
            message += f", {len(self.skipped)} skipped: {listed(list(self.skipped))}"
        return message + (f"; {listed(self.schema)}" if self.schema else "")


class Journal:
    """Journal of a refresh: records beside the store, so that a killed refresh can resume."""

    def __init__(self, folder: Path | None, reading: Reading) -> None:
        self._folder = folder
        self._reading = reading
        self._new: list[pl.DataFrame] = []
        self._last = time.monotonic()

    def read(self) -> list[pl.DataFrame]:
        """Return the records of an unfinished refresh."""
        frames = [frame for path in self._files() if (frame := self._read(path)) is not None]
        if frames:
            log.info("%s records of a refresh that did not end", sum(map(len, frames)))
        return frames

    def _read(self, path: Path) -> pl.DataFrame | None:
        try:
            frame = pl.DataFrame(files.read_parquet(path, "records"))
            reading = Reading.from_json(frame[READING][0])
        except (DbselectError, pl.exceptions.PolarsError) as error:
            log.info("%s", error)
            return None
        return frame if reading == self._reading else None

    def add(self, frame: pl.DataFrame) -> None:
        """Add records; they are written once a minute."""
        if self._folder is None:
            return
        self._new.append(frame)
        if time.monotonic() - self._last >= PAUSE:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"records-{secrets.token_hex(8)}{ENDING}"
            records = pl.concat(self._new, how="vertical_relaxed")
            files.write_parquet(records.to_arrow(compat_level=pl.CompatLevel.oldest()), path)
            self._new, self._last = [], time.monotonic()

    def clear(self) -> None:
        """Remove the journal after the store is written."""
        for path in self._files():
            path.unlink(missing_ok=True)
        if self._folder is not None and self._folder.is_dir():
            with suppress(OSError):  # another refresh has written
                self._folder.rmdir()

    def _files(self) -> list[Path]:
        return [] if self._folder is None else sorted(self._folder.glob(f"*{ENDING}"))


def check_dropped(most: int | None, dropped: int, in_store: int, in_table: int) -> None:
    """Raise SourceError if too many parts would be dropped; by default, all of several."""
    # A table of one part, such as the last day, may have a different one each night.
    if most is None and dropped == in_store > bool(in_table):
        what = "none of these parts" if in_table else "no rows"
        raise SourceError(
            f"the table has {what}, and the store has {in_store} parts of it, which a refresh "
            f"would all drop; if the table is the right one, pass max_dropped={in_store}"
        )
    if most is not None and dropped > most:
        raise SourceError(
            f"a refresh would drop {dropped} of {in_store} parts, and max_dropped is {most}; the "
            "store is unchanged"
        )


def partitions_of(
    source: Any, reading: Reading, fields: PartFields, folder: Path | None = None
) -> Partitions:
    """Return the parts of a table, without files in the store's folder."""
    files = files_of(source, folder)
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
    """Update the records of a store from its table, as `GramStore.refresh`."""
    # Records from `put` belong to no table; parts that could not be read are tried again.
    from_table = before.parts.filter(~pl.col(FINGERPRINT).str.starts_with(PUT))
    fields = PartFields(reading.new_columns, before.parts)
    parts = partitions_of(source, reading, fields, shelf.folder)
    if skips and not parts.looked_at:
        raise ArgumentError("on_error is 'skip', and the parts of the source are no files")

    def check(now: pl.DataFrame) -> None:
        absent = from_table.join(now, on=PART, how="anti").height
        dropped = 0 if reading.keep == "all" else absent
        check_dropped(max_dropped, dropped, from_table.height, now.height)

    journal = Journal(shelf.unfinished, reading)
    look, frames = _read(parts, before.parts, fields, journal, check, reading if skips else None)
    stored, current = look.stored, look.current
    of_table = {part: text for part, text in stored.items() if not text.startswith(PUT)}
    _warn_of_skipped(frames, weighted=reading.weight is not None)
    new = of_types(frames, before, reading)
    read = dict(new.select(PART, FINGERPRINT).iter_rows())
    skipped = {part: text.removeprefix(UNREAD) for part, text in read.items() if UNREAD in text}
    # A part that was read before keeps its record if it cannot be read now.
    stale = [part for part in skipped if part in of_table and UNREAD not in stored[part]]
    read = {part: text for part, text in read.items() if part not in stale}
    if stale:
        warn_caller(
            f"{len(stale)} parts have changed and cannot be read: {listed(stale)}; the store keeps "
            "their records of before, and the next refresh tries again",
            StaleWarning,
        )
    # Rows may prove unchanged once read, or disappear after the fingerprints were taken.
    same = {part for part in read if stored.get(part) == read[part]}
    fresh = [part for part in read if part not in same]
    present = of_table.keys() & current
    kept = {part for part in present if parts.is_same(part, stored[part], current[part])}
    renamed = {part: current[part] for part in kept if current[part] != stored[part]}
    kept.update(same, stale)
    absent = [part for part in of_table if part not in kept and part not in read]
    retained, dropped = (sorted(absent), []) if reading.keep == "all" else ([], absent)
    replaced = [*dropped, *(part for part in fresh if part in stored)]
    new = new.filter(pl.col(PART).is_in(fresh))
    changes = _changes(fields, shelf, before, new)
    if renamed:
        by_number = f"{len(renamed)} parts are compared by their number of rows and stay"
        changes = [*dict.fromkeys([*parts.changes(), *changes]), by_number]
    write(shelf, before, replaced, new, reading, renamed)
    journal.clear()
    return Refreshed(
        [part for part in fresh if part not in stored and part not in skipped],
        [part for part in fresh if part in stored and part not in skipped],
        dropped, look.same + len(kept.difference(skipped)), retained, skipped, changes,
    )  # fmt: skip


def write(
    shelf: Shelf,
    before: Shelved,
    removed: list[str],
    new: pl.DataFrame,
    reading: Reading,
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write a step if anything has changed; `renamed` parts get new fingerprints only."""
    frame = before.frame
    if frame is not None and (renamed or reading_of(before) not in (None, reading)):
        # If another step has come between, the shelf refuses this one.
        kept = _whole(shelf).filter(~pl.col(PART).is_in(removed))
        texts = {text: reading.to_json(fields_from(text)) for text in kept[READING].unique()}
        marks = kept[PART].replace_strict(renamed, default=kept[FINGERPRINT]).alias(FINGERPRINT)
        kept = kept.with_columns(marks, pl.col(READING).replace(texts))
        new, removed = pl.concat([kept, new]), before.parts[PART].to_list()
    if removed or new.height or frame is None:
        shelf.write(before, removed, new)


def _whole(shelf: Shelf) -> pl.DataFrame:
    """Return all records of a store that has some."""
    frame = shelf.read().frame
    assert frame is not None
    return frame


def _changes(fields: PartFields, shelf: Shelf, before: Shelved, new: pl.DataFrame) -> list[str]:
    """Return the changes of columns and levels in new records, in words."""
    if before.frame is None or before.frame.is_empty():
        return []
    read = new.select(PART, READING).unique(maintain_order=True).iter_rows()
    changes = [
        change
        for part, text in read
        if (names := fields_from(text)) is not None
        for change in fields.changes(names, part)
    ]
    now = _levels(new)
    return [*dict.fromkeys(changes), *(new_levels(_levels(_whole(shelf)), now) if now else [])]


def _levels(records: pl.DataFrame) -> dict[str, set[str]]:
    return levels_of(map(Terms.from_json, records[GRAM].struct.field("terms").unique()))


@dataclass(frozen=True)
class Look:
    """What a look at a table found, beside the parts with the fingerprints that are stored."""

    same: int  # number of these
    stored: dict[str, str]  # other parts -> fingerprint in the store
    current: dict[str, str]  # other parts -> fingerprint in the table

    @classmethod
    def of(cls, stored: pl.DataFrame, now: pl.DataFrame) -> Self:
        """Compare the fingerprints of a store and of a table."""
        both = [PART, FINGERPRINT]
        old, new = (one.select(both).join(other, on=both, how="anti", maintain_order="left")
                    for one, other in ((stored, now), (now, stored)))  # fmt: skip
        return cls(now.height - new.height, dict(old.iter_rows()), dict(new.iter_rows()))


def _read(
    parts: Partitions,
    stored: pl.DataFrame,
    fields: PartFields,
    journal: Journal,
    check: Callable[[pl.DataFrame], None],
    skipping: Reading | None,
) -> tuple[Look, list[pl.DataFrame]]:
    """Return a look that `check` allows, and records of parts with changed fingerprints."""
    frames = journal.read()
    for _ in range(ATTEMPTS):
        now = parts.fingerprints()
        check(now)
        look = Look.of(stored, now)
        fields.know(look.current)
        read = {part: text for frame in frames
                for part, text in frame.select(PART, FINGERPRINT).iter_rows()}  # fmt: skip
        latest = {**look.stored, **read}
        changed = [part for part, text in look.current.items()
                   if not parts.is_same(part, latest.get(part), text)]  # fmt: skip
        stale = [*changed, *(part for part in read if read[part] != look.current.get(part))]
        frames = [frame.filter(~pl.col(PART).is_in(stale)) for frame in frames]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            frames += _records(parts, changed, journal, skipping, first=stored.is_empty())
        # `_warn_of_skipped` warns of skipped rows once, for all parts together.
        distinct = dict.fromkeys((str(warning.message), warning.category) for warning in caught)
        for message, category in distinct:
            if not issubclass(category, SkippedRowsWarning):
                warn_caller(message, category)
        if not parts.looked_at or parts.fingerprints().sort(PART).equals(now.sort(PART)):
            return look, frames
    raise BusyError(
        f"{parts.shown} changed during each of {ATTEMPTS} reads; refresh again when "
        "nothing writes to it"
    )


def _records(
    parts: Partitions, names: list[str], journal: Journal, skipping: Reading | None, *, first: bool
) -> Iterator[pl.DataFrame]:
    failures: list[Unread] = []
    steps = Steps(f"refresh of {parts.shown}", len(names), "parts")
    for records in parts.records(names):
        steps.update(1 if isinstance(records, Unread) else records[PART].n_unique())
        if not isinstance(records, Unread):
            journal.add(records)
            yield records
        elif skipping is None:
            raise records.error
        else:
            failures.append(records)
    if failures and first and len(failures) == len(names):
        raise failures[0].error
    for failure in failures:
        assert skipping is not None
        log.warning("%s is skipped: %s", failure.part, failure.error)
        nothing = pl.DataFrame(schema=dict.fromkeys([*skipping.by, GRAM], pl.Null))
        yield labelled(nothing.clear(1), failure.part, f"{UNREAD}{failure.error}", skipping)


def of_types(frames: list[pl.DataFrame], before: Shelved, reading: Reading) -> pl.DataFrame:
    """Cast records to the types of the state; ColumnError for keys of unknown type."""
    # The state of an empty table has no parts, and keys without a type.
    state = None if before.frame is None or before.frame.is_empty() else before.frame
    if not frames:
        if state is not None:
            return state.clear().with_columns(pl.lit(None, RECORD_DTYPE).alias(GRAM))
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


def _warn_of_skipped(frames: list[pl.DataFrame], *, weighted: bool) -> None:
    """Warn if more than a tenth of the rows read are skipped."""
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
