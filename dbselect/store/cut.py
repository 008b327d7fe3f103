"""Records by keys, and the Grams that are sums of them."""

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import polars as pl

from dbselect.errors import ArgumentError, DataError, unknown
from dbselect.options.option import shows
from dbselect.problem.several import AnytimeCall, drift
from dbselect.record.gram import RECORD_DTYPE, Gram
from dbselect.record.groups import Costs, GroupColumns
from dbselect.sources.open import merged
from dbselect.sources.request import FOLD, check_folds, check_seed
from dbselect.spec.fields import FIRST, ProblemOptions
from dbselect.spec.options import AnytimeOptions
from dbselect.store.fields import differences, levels_of, new_levels
from dbselect.store.merging import (
    Sliding,
    alike,
    fields_of_gram,
    kinds_of,
    settled,
    settled_pair,
    settled_together,
    summed_by,
    window_of,
)
from dbselect.store.reading import FINGERPRINT, GRAM, PART, Reading
from dbselect.store.rolling import Rolling, ends_of_windows, keys_between, range_of
from dbselect.store.shelf import ALL
from dbselect.validation.drift import Drift

_WINDOWS = (
    'a, b : what `window` takes: a key, ``"2013-01"``, or the first and the last, '
    '``("2013-01", "2013-03")``. No record may be in both'
)


class Cut:
    """Records by keys: a store, or a subset by `where`.

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

    def _now(self, rows: pl.Expr = ALL, *, whole: bool = True) -> tuple[pl.DataFrame, Reading]:
        return self._records.filter(rows), self._reading

    def __repr__(self) -> str:
        records, reading = self._now()
        return f"{type(self).__name__}({records.height} records by {list(reading.by)})"

    def total(self) -> Gram:
        """Return the Gram of all rows."""
        records, reading = self._now()
        return window_of(_grams(records, self._EMPTY), reading)

    def window(self, first: Any = None, last: Any = None) -> Gram:
        """Return the Gram of the rows whose first key lies in a range.

        Parameters
        ----------
        first, last : both included; None for no limit. For dates and times also a text:
            ``window("2013-01", "2013-03")`` ends with the last of March

        Raises
        ------
        ArgumentError : an end is of another type than the key, or the last is before the first
        DataError : no record lies there

        Warns
        -----
        LeftOutWarning : a column is not in all parts of the window and is left out
        """
        keys, reading = self._now(whole=False)
        key = keys.get_column(reading.by[0])
        inside = keys_between(key, first, last)
        why = f"no record has '{key.name}' from {first!r} to {last!r}"
        if key.count():
            why += f"; there are {key.min()!s} to {key.max()!s}"
        if not inside.any():
            raise DataError(why)
        records, _ = self._now(range_of(key.filter(inside)))
        inside = keys_between(records.get_column(key.name), first, last)
        return window_of(_grams(records.filter(inside), why), reading)

    def where(self, condition: pl.Expr) -> "Cut":
        """Return the records whose keys meet a condition, with the same methods.

        Parameters
        ----------
        condition : expression of the keys: ``pl.col("origin") == "JFK"``
        """
        records, reading = self._now()
        keys = records.select(reading.by)
        kept = _evaluated(keys, [condition], "condition").to_series()
        if kept.dtype != pl.Boolean:
            raise ArgumentError(f"condition gives {kept.dtype}; it must be true or false")
        return Cut(records.filter(kept), reading)

    def by(self, *cuts: str | pl.Expr) -> pl.DataFrame:
        """Return a Gram for each value of keys or of expressions of them.

        Parameters
        ----------
        cuts : names of keys, or Polars expressions: ``pl.col("day").dt.month()``

        Returns
        -------
        DataFrame with a column for each cut and ``gram``, sorted, as from `gram_by`; an input of
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
        """Return the sums of records for each value of keys or of expressions of them."""
        records, reading = self._now()
        keys = _evaluated(records.select(reading.by), list(cuts), "by")
        names = keys.columns
        if GRAM in names:
            raise ArgumentError(f"by gives a column '{GRAM}'; the result has that name: use alias")
        keys, grams = _alike_by(keys.with_columns(records[GRAM]), names, self._EMPTY, reading)
        places = keys.with_row_index(PART).group_by(names).agg(PART).sort(names, nulls_last=True)
        sums = [merged(grams[at] for at in row) for row in places[PART]]
        return places.select(names).with_columns(column_of(settle(sums)))

    def folds(self, fold: int, *, seed: int = 0) -> pl.DataFrame:
        """Return folds of whole keys: all rows with one value of the first key are in one fold.

        Parameters
        ----------
        fold : number of folds, >= 2
        seed : of the hash that assigns folds, 0 to 2^63 - 1

        Returns
        -------
        DataFrame ``fold``, ``gram`` for `cross_validate`; a fold without keys has no row. Missing
        values are filled by the mean over all folds, as in `gram_by`
        """
        _, reading = self._now()
        check_folds("fold", fold)
        check_seed(seed)
        cut = pl.col(reading.by[0]).dbselect.fold(fold, seed).alias(FOLD)  # type: ignore[attr-defined]
        return self._summed([cut], lambda sums: settled_together(sums, reading))

    def rolling(self, *, days: int, every: int = 1) -> Rolling:
        """Return the Gram of each sliding window over the first key.

        Parameters
        ----------
        days : length of a window: days for dates and times, units for whole numbers
        every : distance between the ends of two windows; the last window ends with the last key

        Returns
        -------
        Rolling, with `grams` and their sequences over time. All windows have the columns that
        all parts have; a window without records is left out

        Raises
        ------
        ArgumentError : `days` or `every` is no whole number >= 1, or the key is of another type
        DataError : the keys span less than `days`

        Notes
        -----
        Each record is added at most three times, for any length of windows.
        """
        records, reading = self._now()
        name = reading.by[0]
        records = records.filter(pl.col(name).is_not_null())
        if isinstance(records.schema[name], pl.Datetime):
            records = records.with_columns(pl.col(name).dt.date())
        found, grams = _alike_by(records, [name], self._EMPTY, reading)
        keys = found.get_column(name)
        ends = ends_of_windows(keys, days, every)
        sliding, windows, limits = Sliding(grams), [], []
        for first, last in ends:
            start, stop = keys.search_sorted(first, "left"), keys.search_sorted(last, "right")
            if start < stop:
                windows.append(settled(sliding.moved(start, stop), reading))
                limits.append((first, last))
        table = pl.DataFrame(limits, schema={"first": keys.dtype, "last": keys.dtype}, orient="row")
        return Rolling(table.with_columns(column_of(windows)))

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
        """Compare two windows: moments, sequences, and a model of one on the other.

        Returns
        -------
        Drift, as `drift` of the Grams of the windows. Missing values filled by the mean have the
        mean of a in both, as a model of a fills them

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
        aligned = alike([*grams[0], *grams[1]], reading)
        first, second = merged(aligned[: len(grams[0])]), merged(aligned[len(grams[0]) :])
        return drift(*settled_pair(first, second, reading), target, groups, costs, **options)

    def show(self) -> pl.DataFrame:
        """Return a table of the records: keys, part, rows, skipped, version and fingerprint.

        The version numbers the lists of columns; the fingerprint is size, time and footer of a
        file, number and hash of rows, or the version given to `GramStore.put`. If a key is named
        ``rows``, the count is named ``rows_of_record``.
        """
        records, reading = self._now()
        numbers, _, _ = _versions(records[GRAM])
        counts = records[GRAM].struct
        sizes = [counts.field("rows"), counts.field("skipped")]
        shown = records.select(PART, *sizes, numbers, FINGERPRINT)
        clashing = [name for name in reading.by if name in shown.columns]
        if clashing:
            # Keys keep their names; the other column is renamed.
            shown = shown.rename({name: f"{name}_of_record" for name in clashing})
        return records.select(reading.by).hstack(shown)

    def versions(self) -> pl.DataFrame:
        """Return the distinct lists of columns of the parts, with ranges of the first key.

        Returns
        -------
        DataFrame: version, columns of the table, its first and last key, records, and changes of
        columns and levels since the version before, in words
        """
        records, reading = self._now()
        numbers, columns, changes = _versions(records[GRAM])
        key = pl.col("key")
        found = (
            records.select(pl.col(reading.by[0]).alias("key"), numbers)
            .group_by("version")
            .agg(key.min().alias("first"), key.max().alias("last"), pl.len().alias("records"))
            .sort("version")
        )
        texts = {"columns": columns, "changes": changes}
        lists = pl.DataFrame(texts, dict.fromkeys(texts, pl.List(pl.String)))
        return found.hstack(lists).select(
            "version", "columns", "first", "last", "records", "changes"
        )


def column_of(grams: Sequence[Gram]) -> pl.Series:
    """Return Grams as a Series of records."""
    return pl.Series(GRAM, [gram.to_struct() for gram in grams], RECORD_DTYPE)


def _versions(records: pl.Series) -> tuple[pl.Series, list[list[str]], list[list[str]]]:
    """Return a version for each record, equal for equal columns; columns and changes of each."""
    kinds, named = kinds_of(records)
    fields = [fields_of_gram(one) for one in named]
    found: dict[tuple[tuple[str, str], ...], int] = {}
    numbers = [found.setdefault(tuple(each.items()), len(found)) for each in fields]
    changes: list[list[str]] = []
    seen: dict[str, set[str]] = {}
    # A kind brings levels where it first occurs.
    first = kinds.to_frame().with_columns(pl.first().shift().alias("before"))
    for kind, before in first.unique(kinds.name, keep="first", maintain_order=True).iter_rows():
        levels = levels_of([named[kind].terms])
        if numbers[kind] == len(changes):
            changes.append([] if before is None else differences(fields[before], fields[kind]))
        changes[numbers[kind]] += new_levels(seen, levels)
        for column, names in levels.items():
            seen.setdefault(column, set()).update(names)
    version = pl.Series("version", [number + 1 for number in numbers], pl.Int64)
    return version[kinds], [[name for name, _ in each] for each in found], changes


def _alike_by(
    records: pl.DataFrame, by: list[str], why: str, reading: Reading
) -> tuple[pl.DataFrame, list[Gram]]:
    """Return keys and the sums of their records, all of the same columns."""
    if records.is_empty():
        raise DataError(why)
    keys, grams = summed_by(records, by)
    return keys, alike(grams, reading)


def _grams(records: pl.DataFrame, why: str) -> list[Gram]:
    """Return the sum of records for each list of columns; DataError if there is none."""
    if records.is_empty():
        raise DataError(why)
    return summed_by(records)[1]


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
