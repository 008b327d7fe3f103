"""Plan a Gram for engines that run functions on parts of a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pyarrow as pa

from dbselect.errors import ArgumentError, SourceError
from dbselect.record.gram import Gram
from dbselect.record.terms import Terms
from dbselect.sources.partial.gather import GramWork, check_fits
from dbselect.sources.partial.learn import MAX_LEVELS, Categories, terms_for
from dbselect.sources.partial.partial_aggregates import merge_of, partial_of
from dbselect.sources.read import check_group_keys, check_left_out
from dbselect.sources.records import finished_gram, finished_groups, to_read
from dbselect.sources.request import NullPolicy, Request, Table, folding_of, request_of

#: Advice for a text without levels.
GIVEN = "categories={{'{name}': levels}}, or terms= from ds.terms"
#: Reason why a plan leaves out a text.
NO_LEVELS = "text, whose levels a plan takes only from categories= or terms="


@dataclass(frozen=True)
class GramPlan:
    """A plan to compute a Gram from parts of a table, in any number of processes.

    It is plain data: pickle it, and send it to the rows. `partial` runs on the rows of a part,
    `merge` merges the results of parts, `finish` returns the Gram. The order of the parts, and
    their rows, affect rounding only; a part must count once, so take the result of one attempt
    if an engine makes several.

    Parameters
    ----------
    request : what to compute
    schema : of the table

    Examples
    --------
    >>> import dbselect as ds
    >>> import pyarrow as pa
    >>> table = pa.table({"x": [1.0, 2.0, 6.0], "y": [0, 1, 1]})
    >>> plan = ds.io.plan_gram(table.schema)
    >>> parts = [plan.partial([table.slice(0, 1)]), plan.partial([table.slice(1)])]
    >>> gram = plan.finish(reversed(parts))
    >>> gram.rows, gram.mean.round(6).tolist()
    (3, [3.0, 0.666667])
    """

    request: Request
    schema: pa.Schema

    @property
    def fields(self) -> list[str]:
        """Top-level fields that the batches must have; other fields are ignored."""
        return self.request.fields

    def partial(self, batches: Any) -> bytes:
        """Sum over the rows of a part.

        Parameters
        ----------
        batches : Arrow record batches or tables, or one of these, or a Polars DataFrame, with
            the fields of the plan; none for a part without rows

        Returns
        -------
        The sums, not rounded to a record: 8 bytes per pair of columns and group

        Raises
        ------
        ArgumentError : a path or a mapping
        DataError : an infinite value or a negative weight
        SourceError : a field is missing, or has another type than in the schema
        """
        if isinstance(batches, str | bytes | PurePath | Mapping):
            raise ArgumentError(
                f"batches is a {type(batches).__name__}; it must be Arrow record batches or "
                "tables, or a Polars DataFrame"
            )
        is_many = isinstance(batches, Iterable) and not hasattr(batches, "__arrow_c_stream__")
        return partial_of(self._work, map(self._checked, batches if is_many else [batches]))

    def merge(self, parts: Iterable[bytes]) -> bytes:
        """Return the sums over the rows of some parts; one part at a time is in memory.

        Raises
        ------
        DataError : a part is damaged, or of another plan or version of dbselect
        """
        return merge_of(self._work, _parts(parts))

    def finish(self, parts: Iterable[bytes]) -> Gram | pl.DataFrame:
        """Return the result of `gram` for all rows, or of `gram_by` if there are `by` or `fold`.

        Raises
        ------
        DataError : as `merge`, or a missing value of policy ``"error"``

        Warns
        -----
        SkippedRowsWarning, FoldsWarning : as in `gram_by`
        """
        with self._work.begin() as sums:
            for part in _parts(parts):
                sums.load(part)
            if self.request.keys:
                return finished_groups(sums.records(), self.request)
            return finished_gram(Gram.from_struct(sums.record()), self.request)

    @property
    def _work(self) -> GramWork:
        return GramWork(to_read(self.request), self.schema)

    def _checked(self, batch: Any) -> pa.Table:
        """Return rows as Arrow; refuse rows that do not fit the schema."""
        try:
            table = pa.table(batch)
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise SourceError(f"batches has a {type(batch).__name__}: {error}") from error
        for at, field in enumerate(table.schema):
            # In some engines a part without values has the NULL type.
            if pa.types.is_null(field.type) and field.name in self.fields:
                planned = self.schema.field(field.name)
                table = table.set_column(at, planned, pa.nulls(len(table), planned.type))
        check_fits(table.schema, self.schema, self.fields, "a part", self.request.by)
        return table


def plan_gram(
    schema: Any,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    *,
    null_policy: NullPolicy = "skip",
    categories: Categories | None = None,
    terms: Terms | None = None,
    by: Sequence[str] | None = None,
    fold: int | None = None,
    key: str | None = None,
    seed: int = 0,
) -> GramPlan:
    """Plan a Gram of a table whose parts are on any machines.

    Parameters
    ----------
    schema : of the table: an Arrow schema, a mapping of names to Arrow types, or anything with
        ``__arrow_c_schema__``, as schemas of Polars
    columns, weight, null_policy : as in `gram`
    categories : column -> its levels: a plan sees no rows to learn them from. Unlike in
        `gram`, levels that no row has, and ``k.other``, keep their columns, which are constant
    terms : in the place of `categories`: what `terms` learnt of this table or another
    by, fold, key, seed : as in `gram_by`

    Returns
    -------
    GramPlan

    Raises
    ------
    ColumnError : a column is unknown, named twice or of another type than is allowed
    ArgumentError : there is no such policy, fold or seed out of range, categories without
        levels, or `schema` is none

    Warns
    -----
    LeftOutWarning : columns that were not named are left out: of another type, or text
        without levels

    Notes
    -----
    A state has 4 d^2 bytes for d columns, and that for each group: 10 kB for 50 columns, 4 MB
    for 1,000. Merging two takes d^2 operations.

    Examples
    --------
    >>> import dbselect as ds
    >>> import pyarrow as pa
    >>> schema = pa.schema([("k", pa.string()), ("x", pa.float64())])
    >>> plan = ds.io.plan_gram(schema, by=["k"])
    >>> north = plan.partial(pa.table({"k": ["a", "b"], "x": [1.0, 5.0]}))
    >>> south = plan.partial(pa.table({"k": ["a"], "x": [3.0]}))
    >>> plan.finish([south, north]).select("k", "gram").rows()[0][1]["mean"]
    [2.0]
    """
    # Stands for the table, of which only the schema exists here.
    table = cast(Table, SimpleNamespace(schema=_schema(schema), rows=None, again=False))
    folding = folding_of(fold, key, seed)
    if categories is not None and not hasattr(categories, "items"):
        raise ArgumentError(
            f"categories is {categories!r}; a plan sees no rows: give {{column: levels}}, or "
            "terms= from ds.terms"
        )
    learnt = terms_for(table, (), categories, None, MAX_LEVELS, terms)
    request = request_of(table.schema, columns, weight, by or (), folding, null_policy, learnt)
    check_left_out(table, request, columns, NO_LEVELS, GIVEN)
    check_group_keys(request, table.schema)
    return GramPlan(request, table.schema)


def _schema(schema: Any) -> pa.Schema:
    try:
        return schema if isinstance(schema, pa.Schema) else pa.schema(schema)
    except (TypeError, ValueError, AttributeError, pa.ArrowException):
        raise ArgumentError(
            f"schema is a {type(schema).__name__}; it must be an Arrow schema, or map names to "
            "Arrow types"
        ) from None


def _parts(parts: Iterable[bytes]) -> Iterable[bytes]:
    """Yield the parts; refuse a single part, which would iterate over its bytes."""
    if isinstance(parts, bytes | bytearray | memoryview):
        raise ArgumentError("parts is one part; give a list of parts")
    if not isinstance(parts, Iterable):
        raise ArgumentError(f"parts is {parts!r}; it must be a list of parts")
    for part in parts:
        if not isinstance(part, bytes | bytearray | memoryview):
            raise ArgumentError(
                f"parts has a {type(part).__name__}; parts are the bytes of plan.partial"
            )
        yield bytes(part)
