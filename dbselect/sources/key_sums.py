"""Sums by key: what is left to know of the facts when other tables are looked up by that key.

A table that says z(k) of key k adds to the comoment of the facts' columns x, whose weighted
mean is m, the blocks

    sum over k of  s(k) (z(k) - z)'             s(k) = sum of w (x - m) over the rows of key k
    sum over k of  W(k) (z(k) - z) (z(k) - z)'  W(k) = their weight, z = sum W(k) z(k) / W

so it is neither joined nor are the facts read again.

Source: aggregates pushed through a join, as in Schleich, Olteanu, Ciucanu (2016), section 3.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import ArgumentError, ColumnError, DataError, RecordError
from dbselect.formulas import polars, polars_column, translate
from dbselect.record.columns import SUFFIX
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.inputs import inputs_of
from dbselect.record.terms import Terms
from dbselect.sources.keys import Key, check_keys, compared, fields_of
from dbselect.sources.lazy import collected, lazy
from dbselect.sources.learn import MAX_LEVELS
from dbselect.sources.looked_up import LookedUp, LookUp, Mask, Unmatched, look_up
from dbselect.sources.many import Many
from dbselect.sources.open import open_table
from dbselect.sources.polars import LazyTable
from dbselect.sources.read import gram as read_gram
from dbselect.sources.read import seen
from dbselect.sources.types import TableSource

Counts = npt.NDArray[np.int64]

#: What columns are called while they are summed, which no field of a table is.
_OURS = "__dbselect_"


@dataclass(frozen=True, eq=False)
class KeySums:
    """Sums of d columns for each of K keys, and the Gram of all rows.

    Parameters
    ----------
    keys : DataFrame of the K keys, ascending; a NULL is a key, too, that matches nothing
    rows : shape (K,), rows read
    used : shape (K,), rows that are in the Gram
    weight : shape (K,), their weight
    sums : shape (K, d), sum of w (x - mean) over them, mean that of the Gram
    gram : Gram of the d columns
    products : shape (K, d (d + 1) / 2), lower triangles, row by row, of the sum of
        w (x - mean)(x - mean)'; None if they were not asked for

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> facts = pl.DataFrame({"shop": [1, 1, 2, 3], "sales": [2.0, 4.0, 7.0, 7.0]})
    >>> sums = ds.key_sums(facts, "shop", ["sales"])
    >>> sums
    KeySums(3 keys of shop; 1 columns, 4 rows)
    >>> sums.weight.tolist(), sums.sums[:, 0].tolist()
    ([2.0, 1.0, 1.0], [-4.0, 2.0, 2.0])
    """

    keys: pl.DataFrame
    rows: Counts
    used: Counts
    weight: Vector
    sums: Matrix
    gram: Gram
    products: Matrix | None = None

    def __repr__(self) -> str:
        return (
            f"KeySums({self.keys.height} keys of {', '.join(self.keys.columns)}; "
            f"{len(self.gram.columns)} columns, {self.gram.rows} rows)"
        )

    @property
    def columns(self) -> list[str]:
        """The d columns."""
        return self.gram.columns

    def of(self, gram: Gram) -> "KeySums":
        """Return the sums of the columns of a Gram of the same rows.

        Raises
        ------
        RecordError : it is of other rows, or has columns that are not summed
        """
        if (gram.rows, gram.weight) != (self.gram.rows, self.gram.weight):
            raise RecordError(
                f"the Gram is of {gram.rows} rows of weight {gram.weight:g}, the sums by key are "
                f"of {self.gram.rows} of weight {self.gram.weight:g}; both must be of the same"
            )
        lacking = [name for name in gram.columns if name not in self.columns]
        if lacking:
            raise RecordError(
                f"the sums by key lack columns {lacking} of the Gram; sum them, too, or extend "
                "the sums: a column that came by another key needs sums by this one"
            )
        at = [self.columns.index(name) for name in gram.columns]
        products = self.products
        if products is not None:
            full = np.empty((len(self.columns),) * 2, np.intp)
            rows, columns = np.tril_indices(len(self.columns))
            full[rows, columns] = full[columns, rows] = np.arange(len(rows))
            rows, columns = np.tril_indices(len(at))
            order = np.array(at, np.intp)
            products = products[:, full[order[rows], order[columns]]]
        return replace(self, gram=gram, sums=self.sums[:, at], products=products)

    def extend(
        self,
        table: TableSource,
        key: Key | None = None,
        *,
        columns: Sequence[str] | None = None,
        name: str | None = None,
        unmatched: Unmatched = "indicator",
        many: Many = (),
        order: str | None = None,
        max_levels: int = MAX_LEVELS,
    ) -> "KeySums":
        """Look a table up by the key, and return the sums and the Gram with its columns.

        Parameters
        ----------
        table : of any engine, with one row a key; it is read once, and in memory
        key : what the table calls the fields of the key, or a mapping of the facts' names
            to the table's; default: as the facts call them
        columns : names and globs of the table's columns; default: all but the key, of
            numbers, booleans, dates and text, which is a category
        name : field that the columns are put into: ``temp`` of table ``weather`` is
            ``weather.temp``, as in ``SELECT facts.*, weather FROM ...`` of DuckDB
        unmatched : of a row of the facts whose key the table does not have, or has with a
            NULL or NaN: ``"indicator"`` puts 0 there and adds a column ``<name>.missing``;
            ``"skip"`` leaves it out, for which the sums need their products;
            ``"error"`` refuses it. A NULL key matches nothing
        many : what becomes of several rows of a key, ``"mean"``, ``"count"``,
            ``"latest"`` or a list of these: columns ``x_mean``, ``rows``, ``x_latest``;
            default: they are an error
        order : the column whose largest value tells the latest row
        max_levels : as in `dbselect.gram`

        Returns
        -------
        KeySums of all columns; its `gram` equals that of the joined rows, read with the
        `unmatched` policy as ``null_policy`` of the table's columns. Without products

        Raises
        ------
        ColumnError : a column is unknown, of no usable type, there already, or a field of
            the key of another kind than in the facts, as text for a number
        ArgumentError : no such policy, summary, key or order
        DataError : two rows of one key, something missing where that is an error, or an
            infinite value
        RecordError : rows are to be left out and the sums have no products

        Warns
        -----
        LeftOutWarning : rows of the table without a key, or columns that cannot be taken

        Notes
        -----
        O(K p (d + p)) for p new columns, and K p doubles; the facts are not read.
        """
        given = LookUp(
            columns=columns, name=name, unmatched=unmatched, many=many, order=order,
            max_levels=max_levels,
        )  # fmt: skip
        return self.with_values(self.look_up(table, key, given), given.unmatched)

    def look_up(self, table: TableSource, key: Key | None, given: LookUp) -> LookedUp:
        """Return what a table says of each key.

        Raises
        ------
        ColumnError, ArgumentError, DataError : as `extend`
        """
        kinds = check_keys(self.keys.columns, self.keys.schema, "the sums")
        return look_up(self.keys, kinds, table, key, given)

    def with_values(self, found: LookedUp, unmatched: Unmatched) -> "KeySums":
        """Return the sums and the Gram with columns that were looked up.

        Raises
        ------
        ColumnError, DataError, RecordError : as `extend`
        """
        check_apart(found.columns, self.columns)
        base = self
        if unmatched != "indicator":
            complete = found.complete
            left = int(self.used[~complete].sum())
            if left and unmatched == "error":
                raise DataError(_told_missing(found, self, left))
            base = self._only(complete) if left else self
        centred, mean, low = centred_on(found.values, base.weight)
        gram = joined(base, found, centred, mean, low)
        sums = np.hstack([base.sums, base.weight[:, None] * centred])
        every = [*base.columns, *found.columns]
        at = [every.index(column) for column in gram.columns]
        return replace(base, gram=gram, sums=sums[:, at], products=None)

    def _only(self, kept: Mask) -> "KeySums":
        """Return the sums of the rows of some keys; the others keep no weight."""
        if self.products is None:
            raise RecordError(
                f"{int(self.used[~kept].sum())} rows are to be left out, as the table has no value "
                "for their key, and the sums by key have no products to take out: make them with "
                "products=True, or keep the rows with unmatched='indicator'"
            )
        weight = np.where(kept, self.weight, 0.0)
        total = float(weight.sum())
        if not total:
            raise DataError("no row of the facts has a value in the table; there is nothing left")
        step = self.sums[kept].sum(axis=0) / total
        rows, columns = np.tril_indices(len(step))
        lower = self.products[kept].sum(axis=0) - total * step[rows] * step[columns]
        comoment = np.zeros((len(step),) * 2)
        comoment[rows, columns] = comoment[columns, rows] = lower
        np.fill_diagonal(comoment, np.maximum(np.diagonal(comoment), 0.0))
        mean, mean_low = self.gram._moved(step)
        used = np.where(kept, self.used, 0)
        gram = replace(
            self.gram,
            rows=int(used.sum()),
            skipped=self.gram.skipped + int(self.used[~kept].sum()),
            weight=total,
            mean=mean,
            mean_low=mean_low,
            comoment=comoment,
        )
        sums = np.where(kept[:, None], self.sums - self.weight[:, None] * step, 0.0)
        return replace(self, used=used, weight=weight, sums=sums, gram=gram, products=None)


def centred_on(values: Matrix, weight: Vector) -> tuple[Matrix, Vector, Vector]:
    """Return columns less their weighted means, and these as the sums of two doubles.

    Parameters
    ----------
    values : shape (K, p)
    weight : shape (K,), of which some is > 0
    """
    total = weight.sum()
    there = values[weight > 0]
    # The mean of a constant is itself, whatever rounding makes of the sum.
    first = np.clip(weight @ values / total, there.min(axis=0), there.max(axis=0))
    centred = values - first
    step = weight @ centred / total
    mean = first + step
    return centred - step, mean, (first - mean) + step


def joined(base: KeySums, found: LookedUp, centred: Matrix, mean: Vector, low: Vector) -> Gram:
    """Return the Gram of the facts with the columns that were looked up."""
    gram = base.gram
    own = centred.T @ (base.weight[:, None] * centred)
    cross = base.sums.T @ centred
    missing = Counter(gram.missing)
    missing.update({name: int(base.rows[where].sum()) for name, where in found.missing.items()})
    every = replace(
        gram,
        columns=[*gram.columns, *found.columns],
        mean=np.append(gram.mean, mean),
        mean_low=np.append(gram.mean_low, low),
        comoment=np.block([[gram.comoment, cross], [cross.T, (own + own.T) / 2.0]]),
        missing=missing,
        terms=together(gram.terms, found.terms),
    )
    marks = {name + SUFFIX for name in found.terms.indicators}
    kept = [
        name
        for name, share in zip(every.columns, every.mean, strict=True)
        if share > 0 or name not in marks
    ]
    every = every if len(kept) == len(every.columns) else every.select(kept)
    return seen(every, found.texts)


def together(one: Terms, two: Terms) -> Terms:
    """Return the terms of two tables side by side."""
    return Terms(
        (*one.categories, *two.categories),
        (*one.bases, *two.bases),
        {**one.dates, **two.dates},
        {**one.means, **two.means},
        (*one.indicators, *two.indicators),
        (*one.flat, *two.flat),
    )


def key_sums(
    source: TableSource,
    key: str | Sequence[str],
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    *,
    gram: Gram | None = None,
    products: bool = False,
) -> KeySums:
    """Read a table of facts and return, for each key, its weight and the sums of columns.

    `Gram.extend` then gives the Gram with the columns of other tables that are looked up by
    that key, without the facts and without a join.

    Parameters
    ----------
    source : facts, as in `gram`; a stream that can be read only once needs `gram`
    key : field of numbers, text, booleans, dates or timestamps, or a list of fields
    columns, weight : as in `gram`; the key is none of the default columns
    gram : what `gram` returns of the same rows, columns and weight, if it is there:
        then the facts are read once, and `columns` are those of the Gram
    products : whether to sum products, too, which ``unmatched="skip"`` needs

    Returns
    -------
    KeySums; its `gram` is that of all rows

    Raises
    ------
    SourceError, ColumnError, DataError : as `gram`
    ColumnError : a field of the key is unknown or of a type that is no key
    RecordError : `gram` is of other rows

    Notes
    -----
    Sums are centred on the means, so the facts are read twice without `gram`. O(n d) time
    and K (d + 3) doubles for K keys; with products O(n d^2) and K d^2 / 2 more. Rows with
    a NULL key count; they match nothing.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> facts = pl.DataFrame({"shop": [1, 1, 2, 3], "sales": [2.0, 4.0, 7.0, 7.0]})
    >>> shops = pl.DataFrame({"shop": [1, 2, 3, 4], "area": [10.0, 30.0, 30.0, 90.0]})
    >>> sums = ds.key_sums(facts, "shop", ["sales"])
    >>> extended = sums.gram.extend(sums, shops)
    >>> extended.columns, extended.correlation()[0, 1].round(4).item()
    (['sales', 'area'], 0.9428)
    """
    ours, _ = fields_of(key)
    table = open_table(source, columns)
    frame = lazy(table)
    schema = frame.collect_schema()
    kinds = check_keys(ours, schema, "the facts")
    if gram is None:
        rest = table if columns is not None else LazyTable(frame.drop(ours))
        gram = read_gram(rest, columns, weight)
    elif columns is not None and set(columns) - set(gram.columns):
        gram = gram.select(columns)
    if not isinstance(products, bool):
        raise ArgumentError(f"products is {products!r}; it must be True or False")
    if not gram.rows:
        raise DataError("no row of the facts can be used: each lacks a value or has weight 0")
    keyed = [compared(field, kind).alias(field) for field, kind in zip(ours, kinds, strict=True)]
    found = collected(_summed(frame, keyed, gram, weight, products)).sort(ours, nulls_last=True)
    width = len(gram.columns)
    numbers = found.drop(ours)
    used = numbers["used"].to_numpy()
    if int(used.sum()) != gram.rows:
        raise RecordError(
            f"the Gram is of {gram.rows} rows, the facts have {int(used.sum())} that can be used; "
            "both must be of the same rows"
        )
    lower = [f"{_OURS}p{at}" for at in range(width * (width + 1) // 2)]
    return KeySums(
        found.select(ours),
        numbers["rows"].cast(pl.Int64).to_numpy(),
        used.astype(np.int64),
        numbers["weight"].to_numpy(),
        numbers.select(f"{_OURS}{at}" for at in range(width)).to_numpy(order="c"),
        gram,
        numbers.select(lower).to_numpy(order="c") if products else None,
    )


def check_apart(new: Sequence[str], there: Sequence[str]) -> None:
    """Refuse columns of a table that the Gram has already."""
    for name in new:
        if name in there:
            raise ColumnError(
                f"the table has a column '{name}', which the Gram has, too; give name=, which the "
                "table's columns then begin with, or say by columns= which are wanted"
            )


def _told_missing(found: LookedUp, sums: KeySums, left: int) -> str:
    """Say what is missing in the first column that lacks something, and of which key."""
    used = sums.used > 0
    name = next(name for name, where in found.missing.items() if (where & used).any())
    example = sums.keys.row(int(np.flatnonzero(found.missing[name] & used)[0]))
    told = ", ".join(f"{n} = {v!r}" for n, v in zip(sums.keys.columns, example, strict=True))
    return (
        f"the table has no value for {left} rows of the facts, as of '{name}' where {told}; "
        "unmatched='error' allows none"
    )


def _summed(
    frame: pl.LazyFrame, keys: list[pl.Expr], gram: Gram, weight: str | None, products: bool
) -> pl.LazyFrame:
    """Return rows, rows used, weight, and sums of centred columns for each key."""
    names = [f"{_OURS}{at}" for at in range(len(gram.columns))]
    values = [value.fill_nan(None) for value in expressions_of(gram)]
    heavy = pl.lit(1.0) if weight is None else polars_column((weight,)).cast(pl.Float64)
    rows = frame.select(
        *keys,
        *(value.alias(name) for name, value in zip(names, values, strict=True)),
        heavy.fill_nan(None).fill_null(0.0).alias(f"{_OURS}w"),
    )
    there = pl.all_horizontal(pl.col(name).is_not_null() for name in names)
    there &= pl.col(f"{_OURS}w") > 0
    # First the mean, then what its rounding took: the digits of a mean far from zero.
    centred = [
        pl.when(f"{_OURS}there").then(pl.col(name) - mean - low).otherwise(0.0).alias(name)
        for name, mean, low in zip(names, gram.mean.tolist(), gram.mean_low.tolist(), strict=True)
    ]
    rows = rows.with_columns(there.alias(f"{_OURS}there")).with_columns(
        pl.when(f"{_OURS}there").then(f"{_OURS}w").otherwise(0.0).alias(f"{_OURS}w"), *centred
    )
    w = pl.col(f"{_OURS}w")
    pairs = zip(*np.tril_indices(len(names)), strict=True) if products else ()
    return rows.group_by([key.meta.output_name() for key in keys]).agg(
        pl.len().alias("rows"),
        pl.col(f"{_OURS}there").sum().alias("used"),
        w.sum().alias("weight"),
        *((w * pl.col(name)).sum().alias(name) for name in names),
        *(
            (w * pl.col(names[i]) * pl.col(names[j])).sum().alias(f"{_OURS}p{at}")
            for at, (i, j) in enumerate(pairs)
        ),
    )


def expressions_of(gram: Gram) -> list[pl.Expr]:
    """Return the columns of a Gram as expressions of the rows of its table, NULL if missing."""
    inputs = {name: one for one in inputs_of(gram.columns, gram.terms) for name in one.names}
    algebra = polars()
    return [translate(inputs[name].formula({name: 1.0}, "zero"), algebra) for name in gram.columns]
