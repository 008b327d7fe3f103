"""Records of parts by their keys, and every Gram that is a sum of some."""

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import polars as pl

from dbselect.errors import ArgumentError, DataError, unknown
from dbselect.options.option import shows
from dbselect.problem.several import AnytimeCall, drift
from dbselect.record.gram import RECORD_DTYPE, Gram
from dbselect.record.groups import Costs, GroupColumns
from dbselect.record.terms import Terms
from dbselect.sources.open import merged
from dbselect.sources.request import FOLD, check_folds, check_seed
from dbselect.spec.fields import FIRST, ProblemOptions
from dbselect.spec.options import AnytimeOptions
from dbselect.store.fields import Fields, differences, levels_of, new_levels
from dbselect.store.merging import (
    Sliding,
    alike,
    fields_of_gram,
    settled,
    settled_pair,
    settled_together,
    window_of,
)
from dbselect.store.reading import FINGERPRINT, GRAM, PART, Reading
from dbselect.store.rolling import Rolling, ends_of_windows, keys_between
from dbselect.validation.drift import Drift

_WINDOWS = (
    'a, b : what `window` takes: a key, ``"2013-01"``, or the first and the last, '
    '``("2013-01", "2013-03")``. No record may be in both'
)


class Cut:
    """Records by keys: a store, or what `where` leaves of one.

    Parameters
    ----------
    records : the keys, ``part`` and ``gram``, sorted by the keys
    reading : how the table was read

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> import tempfile
    >>> table = pl.DataFrame({"day": [1, 1, 2, 3], "shop": ["a", "b", "a", "a"], "x": [1, 2, 3, 5]})
    >>> store = ds.GramStore(tempfile.mkdtemp() + "/stats")
    >>> _ = store.refresh(table, by=["day", "shop"])
    >>> store.where(pl.col("shop") == "a").window(2, 3).mean.tolist()
    [4.0]
    """

    _EMPTY = "the cut is empty: no record of the store meets its condition"

    def __init__(self, records: pl.DataFrame, reading: Reading) -> None:
        self._records = records
        self._reading = reading

    def _now(self) -> tuple[pl.DataFrame, Reading]:
        return self._records, self._reading

    def __repr__(self) -> str:
        records, reading = self._now()
        return f"{type(self).__name__}({records.height} records by {list(reading.by)})"

    def total(self) -> Gram:
        """Return the Gram of all rows."""
        records, reading = self._now()
        return window_of(_grams(records, self._EMPTY), reading)

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
        found = records.filter(keys_between(key, first, last))
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
        `anytime_sequence_by`, SQL and Polars

        Raises
        ------
        ArgumentError : no cut is given, or a key is unknown
        DataError : there is no record
        """
        _, reading = self._now()
        if not cuts:
            raise ArgumentError(f"by needs a key, or an expression of the keys {list(reading.by)}")
        for cut in cuts:
            if isinstance(cut, str) and cut not in reading.by:
                raise ArgumentError(f"by names {unknown('key', cut, reading.by)}")
        return self._summed(cuts, lambda sums: [settled(gram, reading) for gram in sums])

    def _summed(
        self, cuts: Sequence[str | pl.Expr], settle: Callable[[list[Gram]], list[Gram]]
    ) -> pl.DataFrame:
        """Return the sums of records for each value of keys, or of expressions of them."""
        records, reading = self._now()
        keys = _evaluated(records.select(reading.by), list(cuts), "by")
        grams = alike(_grams(records, self._EMPTY), reading)
        names = keys.columns
        if GRAM in names:
            raise ArgumentError(f"by gives a column '{GRAM}'; the result has that name: use alias")
        places = keys.with_row_index(PART).group_by(names).agg(PART).sort(names, nulls_last=True)
        sums = [merged(grams[at] for at in row) for row in places[PART]]
        return places.select(names).with_columns(column_of(settle(sums)))

    def folds(self, fold: int, *, seed: int = 0) -> pl.DataFrame:
        """Return folds of whole keys: the rows of one value of the first key stay together.

        Parameters
        ----------
        fold : number of folds, >= 2
        seed : of the hash that decides, 0 to 2^63 - 1

        Returns
        -------
        DataFrame ``fold``, ``gram`` for `cross_validate`; a fold without keys has no row. A mean
        in the place of what is missing is that of all folds together, as of `gram_by`
        """
        _, reading = self._now()
        check_folds("fold", fold)
        check_seed(seed)
        cut = pl.col(reading.by[0]).dbselect.fold(fold, seed).alias(FOLD)  # type: ignore[attr-defined]
        return self._summed([cut], lambda sums: settled_together(sums, reading))

    def rolling(self, *, days: int, every: int = 1) -> Rolling:
        """Return the Gram of each window that moves over the first key.

        Parameters
        ----------
        days : length of a window: days of dates and times, units of whole numbers
        every : from the end of one window to that of the next; the last ends with the last key

        Returns
        -------
        Rolling: its `grams`, and from them the sequences over time. All windows have the
        columns that all parts have; a window without a record is left out

        Raises
        ------
        ArgumentError : `days` or `every` is no whole number >= 1, or the key is of another type
        DataError : the keys do not reach over `days`

        Notes
        -----
        Each record is added three times at most, however long the windows.
        """
        records, reading = self._now()
        name = reading.by[0]
        records = records.filter(pl.col(name).is_not_null())
        grams = alike(_grams(records, self._EMPTY), reading)
        keys = records.get_column(name)
        keys = keys.dt.date() if isinstance(keys.dtype, pl.Datetime) else keys
        ends = ends_of_windows(keys, days, every)
        moving, found, kept = Sliding(grams), [], []
        for first, last in ends:
            start, stop = keys.search_sorted(first, "left"), keys.search_sorted(last, "right")
            if start < stop:
                found.append(settled(moving.moved(start, stop), reading))
                kept.append((first, last))
        table = pl.DataFrame(kept, schema={"first": keys.dtype, "last": keys.dtype}, orient="row")
        return Rolling(table.with_columns(column_of(found)))

    @shows(AnytimeOptions, ProblemOptions, first=(_WINDOWS, *FIRST[1:]))
    def drift(
        self,
        a: Any,
        b: Any,
        target: str,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        **options: Unpack[AnytimeCall],
    ) -> Drift:
        """Compare two windows: moments, the sequence, and what a model of one is worth.

        Returns
        -------
        Drift, as `drift` of the Grams of the windows. Where missing values have the mean, both
        have that of a, which a model of a puts there

        Raises
        ------
        ArgumentError : an end is of another type than the key, or a record is in both
        DataError : no record lies in a window, or the target is constant there
        """
        records, reading = self._now()
        key = records.get_column(reading.by[0])
        inside = [keys_between(key, *_ends(name, value)) for name, value in (("a", a), ("b", b))]
        if (inside[0] & inside[1]).any():
            raise ArgumentError(f"a is {a!r} and b is {b!r}; no record may be in both")
        grams = [_grams(records.filter(rows), f"{name} is {value!r}, where no record has "
                        f"'{key.name}'; there are {key.min()!s} to {key.max()!s}")
                 for name, value, rows in zip("ab", (a, b), inside, strict=True)]  # fmt: skip
        every = alike([*grams[0], *grams[1]], reading)
        one, two = merged(every[: len(grams[0])]), merged(every[len(grams[0]) :])
        return drift(*settled_pair(one, two, reading), target, groups, costs, **options)

    def show(self) -> pl.DataFrame:
        """Return what there is: the keys, part, rows, skipped, version and fingerprint.

        The version is that of the columns; the fingerprint is size, time and footer of a file,
        number and hash of rows, or what `GramStore.put` was given. A count of which a key has
        the name is called ``rows_of_record``.
        """
        records, reading = self._now()
        numbers, _ = _versions(records)
        counts = records[GRAM].struct
        told = [counts.field("rows"), counts.field("skipped")]
        found = records.select(PART, *told, pl.Series("version", numbers, pl.Int64), FINGERPRINT)
        taken = [name for name in reading.by if name in found.columns]
        if taken:
            # Keys keep their names; a count makes way.
            found = found.rename({name: f"{name}_of_record" for name in taken})
        return records.select(reading.by).hstack(found)

    def versions(self) -> pl.DataFrame:
        """Return the different lists of columns that parts have had, by first key.

        Returns
        -------
        DataFrame: version, columns of the table, first and last key of it, records, and changes:
        how columns and levels differ from the version before, in words
        """
        records, reading = self._now()
        numbers, fields = _versions(records)
        key = pl.col("key")
        keys = records.select(pl.col(reading.by[0]).alias("key"))
        columns = pl.Series("columns", [list(each) for each in fields], pl.List(pl.String))
        return (
            keys.with_columns(columns, pl.Series("version", numbers, pl.Int64))
            .group_by("version")
            .agg(pl.col("columns").first(), key.min().alias("first"), key.max().alias("last"),
                 pl.len().alias("records"))
            .sort("version")
            .with_columns(pl.Series("changes", _changes(records, numbers, fields),
                                    pl.List(pl.String)))
        )  # fmt: skip


def column_of(grams: Sequence[Gram]) -> pl.Series:
    """Return Grams as a column of records."""
    return pl.Series(GRAM, [gram.to_struct() for gram in grams], RECORD_DTYPE)


def _versions(records: pl.DataFrame) -> tuple[list[int], list[Fields]]:
    """Return a number for each record, the same for those of the same columns; and these."""
    numbers: dict[tuple[tuple[str, str], ...], int] = {}
    fields: list[Fields] = [fields_of_gram(Gram.from_struct(each)) for each in records[GRAM]]
    return [numbers.setdefault(tuple(each.items()), len(numbers) + 1) for each in fields], fields


def _changes(
    records: pl.DataFrame, numbers: Sequence[int], fields: Sequence[Fields]
) -> list[list[str]]:
    """Return in words how the columns of each version, and levels in it, differ from before."""
    found: dict[int, list[str]] = {}
    seen: dict[str, set[str]] = {}
    terms = records[GRAM].struct.field("terms")
    for at, (number, now, text) in enumerate(zip(numbers, fields, terms, strict=True)):
        levels = levels_of([Terms.from_json(text)])
        if number not in found:
            found[number] = differences(fields[at - 1], now) if at else []
        found[number] += new_levels(seen, levels)
        for column, names in levels.items():
            seen.setdefault(column, set()).update(names)
    return list(found.values())


def _grams(records: pl.DataFrame, why: str) -> list[Gram]:
    if records.is_empty():
        raise DataError(why)
    # Arrow takes no Python object for every number.
    return [Gram.from_struct(each) for each in records[GRAM].to_arrow()]


def _ends(name: str, value: Any) -> tuple[Any, Any]:
    """Return the first and the last key of a range, or one key as both."""
    if not isinstance(value, tuple | list):
        return value, value
    if len(value) != 2:
        raise ArgumentError(
            f"{name} is {value!r}; it must be a key, or the first and the last as a pair"
        )
    return value[0], value[1]


def _evaluated(keys: pl.DataFrame, cuts: list[Any], what: str) -> pl.DataFrame:
    try:
        return keys.select(cuts)
    except (pl.exceptions.PolarsError, TypeError) as error:
        raise ArgumentError(
            f"{what} cannot be computed from the keys {keys.columns}: {error}"
        ) from error
