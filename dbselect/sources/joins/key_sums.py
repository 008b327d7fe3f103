"""Sums of the facts by key, enough to add the columns of tables looked up by that key.

A table with values z(k) for key k adds to the comoment of the facts' columns x, whose weighted
mean is m, the blocks

    sum over k of  s(k) (z(k) - z)'             s(k) = sum of w (x - m) over the rows of key k
    sum over k of  W(k) (z(k) - z) (z(k) - z)'  W(k) = their weight, z = sum W(k) z(k) / W

so the facts are neither joined nor read again.

Source: aggregates pushed through a join, as in Schleich, Olteanu, Ciucanu (2016), section 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, DataError, RecordError
from dbselect.options.names import UnmatchedName
from dbselect.record.columns import numbers_among
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.policies import warn_of_skipped
from dbselect.sources.engines.polars import LazyTable
from dbselect.sources.joins.keys import Key, check_keys, compared, fields_of, rows_of, summed
from dbselect.sources.joins.left_join import (
    LookedUp,
    LookUp,
    Many,
    Mask,
    gram_over_facts,
    look_up,
    side_by_side,
)
from dbselect.sources.open import lazy, open_table
from dbselect.sources.partial.learn import MAX_LEVELS
from dbselect.sources.read import gram as read_gram
from dbselect.sources.snapshots import one_snapshot
from dbselect.sources.stacked import Counts, stacked_records
from dbselect.sources.types import TableSource

#: Relative tolerance for equal weights: sums by key are rounded in another order than in one pass.
SAME_WEIGHT = 1e-9


@dataclass(frozen=True, eq=False)
class KeySums:
    """Sums of d columns for each of K keys, and the Gram of all rows.

    Parameters
    ----------
    keys : DataFrame of the K keys, ascending; NULL is a key that matches nothing
    rows : shape (K,), rows read
    used : shape (K,), rows that are in the Gram
    weight : shape (K,), weight of the rows used
    sums : shape (K, d), sum of w (x - mean) over the rows used, with the mean of the Gram
    gram : Gram of the d columns
    products : shape (K, d (d + 1) / 2), lower triangles, row by row, of the sum of
        w (x - mean)(x - mean)'; None if not requested

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

    @classmethod
    def from_records(cls, table: pl.DataFrame) -> Self:
        """Return the sums of a table of records by key, as `dbselect.gram_by` returns it.

        Parameters
        ----------
        table : fields of the key, and a column ``gram`` with the record of each

        Raises
        ------
        RecordError : there is no such column or no key beside it, or records do not merge
        DataError : no row was used

        Notes
        -----
        The sums include products, as the records do.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> facts = pl.DataFrame({"shop": [1, 1, 2, 3], "sales": [2.0, 4.0, 7.0, 7.0]})
        >>> ds.results.KeySums.from_records(ds.gram_by(facts, by=["shop"]))
        KeySums(3 keys of shop; 1 columns, 4 rows)
        """
        if "gram" not in table.columns or table.width < 2:
            raise RecordError(
                "a table of records by key needs a column 'gram' beside its key; it has "
                f"{table.columns}"
            )
        table = table.filter(pl.col("gram").is_not_null())
        if not table["gram"].struct.field("rows").sum():
            raise DataError("no row of the facts was used in the records: there is nothing to sum")
        keys = table.drop("gram")
        kinds = check_keys(keys.columns, keys.schema, "the records")
        keys = keys.select(compared(keys.columns, kinds))
        parts = stacked_records(table["gram"])
        total, step = parts.total()
        heavy = parts.weight[:, None] * step
        rows, columns = np.tril_indices(len(total.columns))
        return cls(
            keys,
            parts.rows + parts.skipped,
            parts.rows,
            parts.weight,
            heavy,
            total,
            parts.lower + heavy[:, rows] * step[:, columns],
        )

    @property
    def columns(self) -> list[str]:
        """The d columns."""
        return self.gram.columns

    def of(self, gram: Gram) -> "KeySums":
        """Return the sums of the columns of a Gram of the same rows.

        Raises
        ------
        RecordError : the Gram is of other rows, or has columns that are not summed
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
        at = numbers_among(gram.columns, self.columns)
        _check_means(gram, self.gram.mean[at] - gram.mean)
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
        unmatched: UnmatchedName = "indicator",
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
        columns : names and globs of the table's columns, with `many` of its summaries;
            default: all but the key, of numbers, booleans, dates and text, a category
        name : field that the columns are put into: ``temp`` of table ``weather`` is
            ``weather.temp``, as in ``SELECT facts.*, weather FROM ...`` of DuckDB
        unmatched : policy for rows of the facts whose key the table lacks, or has with a
            NULL or NaN: ``"indicator"`` puts 0 there and adds a column ``<name>.missing``;
            ``"skip"`` leaves the row out, for which the sums need their products;
            ``"error"`` refuses it. A NULL key matches nothing
        many : summaries of several rows of a key, ``"mean"``, ``"count"``,
            ``"latest"`` or a list of these: columns ``x_mean``, ``rows``, ``x_latest``;
            default: several rows are an error
        order : the column whose largest value marks the latest row
        max_levels : as in `dbselect.gram`

        Returns
        -------
        KeySums of all columns; its `gram` equals that of the joined rows, read with the
        `unmatched` policy as ``null_policy`` of the table's columns. With products if
        these have them

        Raises
        ------
        ColumnError : a column is unknown, of no usable type, there already, or a field of
            the key of another kind than in the facts, as text for a number
        ArgumentError : no such policy, summary, key or order
        DataError : two rows of one key, a missing value with ``unmatched="error"``, or an
            infinite value
        RecordError : rows are to be left out and the sums have no products

        Warns
        -----
        LeftOutWarning : rows of the table without a key, or columns that cannot be taken

        Notes
        -----
        O(K p (d + p)) for p new columns, and K p doubles; the facts are not read.
        """
        options = LookUp(
            columns=columns, name=name, unmatched=unmatched, many=many, order=order,
            max_levels=max_levels,
        )  # fmt: skip
        looked_up, base = self.look_up(table, key, options), self
        if unmatched != "indicator":
            complete = self.check_complete(looked_up, unmatched)
            base = self if self.used[~complete].sum() == 0 else self._only(complete)
        table_gram, centred = gram_over_facts(looked_up, base.rows, base.weight, base.gram)
        sums = base.beside(table_gram, base.sums.T @ centred, base.weight[:, None] * centred)
        if base is not self:
            gram = sums.gram
            warn_of_skipped(gram.rows, gram.skipped, gram.missing, weighted=False)
        if base.products is None:
            return sums
        width = len(base.columns)
        lower = [sums.sums[:, : width + j + 1] * z[:, None] for j, z in enumerate(centred.T)]
        return replace(sums, products=np.hstack([base.products, *lower]))

    def look_up(self, table: TableSource, key: Key | None, options: LookUp) -> LookedUp:
        """Return the values of a table for each key."""
        kinds = check_keys(self.keys.columns, self.keys.schema, "the sums")
        return look_up(self.keys, kinds, table, key, options)

    def check_complete(self, looked_up: LookedUp, unmatched: UnmatchedName) -> Mask:
        """Return which keys have all values; refuse missing values if `unmatched` is "error"."""
        complete = looked_up.complete
        incomplete = int(self.used[~complete].sum())
        if incomplete and unmatched == "error":
            used = self.used > 0
            name = next(name for name, where in looked_up.missing.items() if (where & used).any())
            example = self.keys.row(int(np.flatnonzero(looked_up.missing[name] & used)[0]))
            key_values = zip(self.keys.columns, example, strict=True)
            key_text = ", ".join(f"{field} = {value!r}" for field, value in key_values)
            raise DataError(
                f"the table has no value for {incomplete} rows of the facts, as of '{name}' where "
                f"{key_text}; unmatched='error' allows none"
            )
        return complete

    def beside(self, own: Gram, cross: Matrix, sums: Matrix) -> "KeySums":
        """Return the sums of these d columns and of p others, without products.

        Their comoments `cross` have shape (d, p), the `sums` of the others (K, p).
        """
        gram = side_by_side(self.gram, own, cross)
        return replace(self, gram=gram, sums=np.hstack([self.sums, sums]), products=None)

    def _only(self, kept: Mask) -> "KeySums":
        """Return the sums over the rows of the kept keys; other keys get weight 0."""
        if self.products is None:
            raise RecordError(
                f"{int(self.used[~kept].sum())} rows have no value in the table, and sums by "
                "key without products cannot leave them out: make the sums with "
                "products=True, or use unmatched='indicator'"
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
        products = self.products - self.sums[:, rows] * step[columns]
        products = np.where(kept[:, None], products - step[rows] * sums[:, columns], 0.0)
        return replace(self, used=used, weight=weight, sums=sums, gram=gram, products=products)


@one_snapshot
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
    columns, weight : as in `gram`; the default columns exclude the key
    gram : the result of `gram` for the same rows, columns and weight, if it exists:
        then the facts are read once, and `columns` are those of the Gram
    products : whether to sum products, too, which ``unmatched="skip"`` needs

    Returns
    -------
    KeySums; its `gram` is the Gram of all rows

    Raises
    ------
    SourceError, ColumnError, DataError : as `gram`
    ColumnError : a field of the key is unknown or of a type not allowed for keys
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
    fields, _ = fields_of(key)
    if not isinstance(products, bool):
        raise ArgumentError(f"products is {products!r}; it must be True or False")
    table = open_table(source, columns)
    frame = lazy(table)
    schema = frame.collect_schema()
    kinds = check_keys(fields, schema, "the facts")
    if gram is None:
        rest = table if columns is not None else LazyTable(frame.drop(fields))
        gram = read_gram(rest, columns, weight)
    elif columns is not None and set(columns) - set(gram.columns):
        gram = gram.select(columns)
    if not gram.rows:
        raise DataError("no row of the facts can be used: each lacks a value or has weight 0")
    rows = rows_of(frame, fields, kinds, gram, weight)
    keys, counts, sums, lower = summed(rows, fields, gram, products)
    (read, used), heavy = counts[:, :2].astype(np.int64).T, counts[:, 2]
    if int(used.sum()) != gram.rows or not np.isclose(heavy.sum(), gram.weight, rtol=SAME_WEIGHT):
        raise RecordError(
            f"the Gram is of {gram.rows} rows of weight {gram.weight:g}, the facts have "
            f"{int(used.sum())} of weight {heavy.sum():g} that can be used; both must be of the "
            "same rows"
        )
    _check_means(gram, sums.sum(axis=0) / gram.weight)
    return KeySums(keys, read, used, heavy, sums, gram, lower)


def _check_means(gram: Gram, difference: Vector) -> None:
    spread = np.sqrt(np.maximum(np.diagonal(gram.comoment), 0.0) / gram.weight)
    differing = np.flatnonzero(np.abs(difference) > SAME_WEIGHT * (spread + np.abs(gram.mean)))
    if differing.size:
        name = gram.columns[int(differing[0])]
        raise RecordError(
            f"the mean of '{name}' in the Gram is not that of the rows that are summed by key; "
            "both must be of the same rows"
        )
