"""Records of parts by their keys, and every Gram that is a sum of some."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from dbselect.errors import ArgumentError, DataError
from dbselect.record.columns import unknown
from dbselect.record.gram import RECORD_DTYPE, Gram
from dbselect.sources.open import merged
from dbselect.sources.request import FOLD, check_folds, check_seed
from dbselect.store.interval import between
from dbselect.store.merging import alike, columns_of_table, settled, window_of
from dbselect.store.reading import FINGERPRINT, GRAM, PART, READING, Reading


class Cut:
    """Records by keys: a store, or what `where` leaves of one.

    Parameters
    ----------
    records : the keys, ``part`` and ``gram``, sorted by the keys
    reading : how the table was read
    """

    def __init__(self, records: pl.DataFrame, reading: Reading) -> None:
        self._records = records
        self._reading = reading

    def _now(self) -> tuple[pl.DataFrame, Reading]:
        """Return the records and how they were read."""
        return self._records, self._reading

    def __repr__(self) -> str:
        records, reading = self._now()
        return f"{type(self).__name__}({records.height} records by {list(reading.by)})"

    def total(self) -> Gram:
        """Return the Gram of all rows."""
        records, reading = self._now()
        return window_of(_grams(records, "the store is empty"), reading)

    def window(self, first: Any = None, last: Any = None) -> Gram:
        """Return the Gram of the rows whose first key lies from one value to another.

        Parameters
        ----------
        first, last : both included; None for no limit. Of dates and times also a text:
            ``window("2013-01", "2013-03")`` ends with the last of March

        Raises
        ------
        ArgumentError : an end is of another type than the key, or the last is before the first
        DataError : no record lies there

        Warns
        -----
        LeftOutWarning : a column is not in all parts of the window; those that are remain
        """
        records, reading = self._now()
        key = records.get_column(reading.by[0])
        found = records.filter(between(key, first, last))
        why = f"no record has '{key.name}' from {first!r} to {last!r}"
        if records.height:
            why += f"; there are {key.min()!s} to {key.max()!s}"
        return window_of(_grams(found, why), reading)

    def where(self, condition: pl.Expr) -> "Cut":
        """Return the records whose keys meet a condition, with the same methods.

        Parameters
        ----------
        condition : of the keys: ``pl.col("origin") == "JFK"``
        """
        records, reading = self._now()
        keys = records.select(reading.by)
        kept = _evaluated(keys, [condition], "condition").to_series()
        if kept.dtype != pl.Boolean:
            raise ArgumentError(f"condition gives {kept.dtype}; it must be true or false")
        return Cut(records.filter(kept), reading)

    def by(self, *cuts: str | pl.Expr) -> pl.DataFrame:
        """Return one Gram for each value of keys, or of expressions of them.

        Parameters
        ----------
        cuts : names of keys, or Polars expressions: ``pl.col("day").dt.month()``

        Returns
        -------
        DataFrame with a column each and ``gram``, sorted, as `gram_by` gives: for
        `anytime_sequences`, SQL and Polars

        Raises
        ------
        ArgumentError : no cut is given, or a key is unknown
        DataError : there is no record
        """
        records, reading = self._now()
        if not cuts:
            raise ArgumentError(f"by needs a key, or an expression of the keys {list(reading.by)}")
        for cut in cuts:
            if isinstance(cut, str) and cut not in reading.by:
                raise ArgumentError(f"by names {unknown('key', cut, reading.by)}")
        keys = _evaluated(records.select(reading.by), list(cuts), "by")
        grams = alike(_grams(records, "the store is empty"))
        names = keys.columns
        if GRAM in names:
            raise ArgumentError(f"by gives a column '{GRAM}'; the result has that name: use alias")
        places = keys.with_row_index(PART).group_by(names).agg(PART).sort(names, nulls_last=True)
        sums = [settled(merged(grams[at] for at in row), reading) for row in places[PART]]
        return places.select(names).with_columns(column_of(sums))

    def folds(self, fold: int, *, seed: int = 0) -> pl.DataFrame:
        """Return folds of whole keys: the rows of one value of the first key stay together.

        Parameters
        ----------
        fold : number of folds, >= 2
        seed : of the hash that decides, 0 to 2^63 - 1

        Returns
        -------
        DataFrame ``fold``, ``gram`` for `cross_validate`; a fold without keys has no row
        """
        _, reading = self._now()
        check_folds("fold", fold)
        check_seed(seed)
        return self.by(pl.col(reading.by[0]).dbselect.fold(fold, seed).alias(FOLD))  # type: ignore[attr-defined]

    def show(self) -> pl.DataFrame:
        """Return what there is: the keys, part, rows, skipped, and version of each record."""
        records, reading = self._now()
        numbers = _versions(records)
        counts = records[GRAM].struct
        return records.select(
            *reading.by,
            PART,
            counts.field("rows"),
            counts.field("skipped"),
            pl.Series("version", numbers, pl.Int64),
        )

    def versions(self) -> pl.DataFrame:
        """Return the different lists of columns that parts have had, by first key.

        Returns
        -------
        DataFrame: version, columns of the table, first and last key of it, records
        """
        records, reading = self._now()
        key = pl.col(reading.by[0])
        columns = pl.Series(
            "columns", [list(columns_of_table(Gram.from_struct(each))) for each in records[GRAM]],
            pl.List(pl.String),
        )  # fmt: skip
        return (
            records.with_columns(columns, pl.Series("version", _versions(records), pl.Int64))
            .group_by("version")
            .agg(pl.col("columns").first(), key.min().alias("first"), key.max().alias("last"),
                 pl.len().alias("records"))
            .sort("version")
        )  # fmt: skip


def column_of(grams: Sequence[Gram]) -> pl.Series:
    """Return Grams as a column of records."""
    return pl.Series(GRAM, [gram.to_struct() for gram in grams], RECORD_DTYPE)


def sorted_records(frame: pl.DataFrame, reading: Reading) -> pl.DataFrame:
    """Return the records of a state, without parts that have no rows, sorted by the keys."""
    found = frame.filter(pl.col(GRAM).is_not_null()).drop(FINGERPRINT, READING)
    return found.sort([*reading.by, PART], nulls_last=True)


def _versions(records: pl.DataFrame) -> list[int]:
    """Return a number for each record: records of one number have the same columns."""
    numbers: dict[tuple[str, ...], int] = {}
    told = (tuple(columns_of_table(Gram.from_struct(each))) for each in records[GRAM])
    return [numbers.setdefault(columns, len(numbers) + 1) for columns in told]


def _grams(records: pl.DataFrame, why: str) -> list[Gram]:
    if records.is_empty():
        raise DataError(why)
    # Arrow takes no Python object for every number.
    return [Gram.from_struct(each) for each in records[GRAM].to_arrow()]


def _evaluated(keys: pl.DataFrame, cuts: list[Any], what: str) -> pl.DataFrame:
    try:
        return keys.select(cuts)
    except (pl.exceptions.PolarsError, TypeError) as error:
        raise ArgumentError(
            f"{what} cannot be told from the keys {keys.columns}: {error}"
        ) from error
