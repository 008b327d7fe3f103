"""`patterns`: the records of a table with gaps, one a pattern."""

from collections.abc import Sequence
from typing import Any

from dbselect.errors import ArgumentError
from dbselect.options.kinds import COUNT
from dbselect.record.terms import Terms
from dbselect.sources.open import open_table, stored_patterns
from dbselect.sources.partial.gaps import read_patterns
from dbselect.sources.partial.learn import MAX_LEVELS, Bases, Categories
from dbselect.sources.partial.records_by_pattern import MAX_PATTERNS, Patterns
from dbselect.sources.read import prepared
from dbselect.sources.snapshots import one_snapshot
from dbselect.sources.types import TableSource


@one_snapshot
def patterns(
    source: TableSource | Patterns,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    *,
    max_patterns: int = MAX_PATTERNS,
    categories: Categories | None = None,
    basis: Bases | None = None,
    max_levels: int = MAX_LEVELS,
    terms: Terms | None = None,
    on: Any = None,
) -> Patterns:
    """Read a table with gaps once: a Gram for each pattern of columns that are missing together.

    Parameters
    ----------
    source, columns, weight : as in `gram`; stored patterns are returned as they are
    max_patterns : patterns that are kept; of more, the rarest joins the one with which the fewest
        values are lost, and a warning names the columns that lost some
    categories, basis, max_levels, terms, on : as in `gram`

    Returns
    -------
    Patterns, which methods take as a source, and which add up with ``+``

    Raises
    ------
    ArgumentError : `max_patterns` is no whole number >= 1
    SourceError, ColumnError, DataError : as `gram`

    Warns
    -----
    LeftOutWarning : a column is missing in every row; there are more patterns than `max_patterns`

    Notes
    -----
    O(n d^2) time, as `gram`; d^2 / 2 doubles a pattern and thread, of at most ``4 max_patterns``
    patterns: of more, some are joined before all rows are read. A column of text is missing as a
    whole. A table of ibis is read here, row by row.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1.0, 2.0, None, 4.0], "y": [1.0, 3.0, 2.0, None]})
    >>> ds.patterns(table).table["rows"].to_list()
    [2, 1, 1]
    """
    COUNT.check("max_patterns", max_patterns)
    stored = stored_patterns(source) if on is None else None
    if stored is not None:
        if columns is not None or weight is not None:
            raise ArgumentError("source is patterns, which have their columns and weights")
        return stored.joined(max_patterns)
    table = open_table(source, columns, on)
    request, _ = prepared(
        table, columns, weight, "em", categories, basis, max_levels, terms, gaps=True
    )
    return read_patterns(table, request, max_patterns)
