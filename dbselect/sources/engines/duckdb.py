"""DuckDB relations: summed by the extension's aggregate if loaded, else read as Arrow batches."""

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from dbselect._native import letters
from dbselect.errors import DataError, SourceError
from dbselect.record import formulas
from dbselect.record.columns import Leaf, leaves
from dbselect.record.formulas import Plan, quote, translate
from dbselect.sources.engines.arrow import Batched, batch_rows
from dbselect.sources.request import FOLD, Folding, Request
from dbselect.sources.snapshots import hold


class RelationTable(Batched):
    """A relation of any connection, with or without the extension."""

    def __init__(self, relation: duckdb.DuckDBPyRelation, schema: pa.Schema | None = None) -> None:
        self._relation = relation
        self.schema = _schema_of(relation) if schema is None else schema

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields as Arrow batches, in DuckDB's order of rows."""
        self._hold()
        relation = self._relation.select(", ".join(quote(field) for field in fields))
        try:
            with relation.to_arrow_reader(batch_rows(self.schema, fields)) as reader:
                yield from reader
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise SourceError(f"DuckDB cannot read the relation: {error}") from error

    def _hold(self) -> None:
        """Start a transaction, so that all queries of a call read the same state."""
        connection = getattr(self._relation, "_con", None)  # exists from DuckDB 2.0 on
        if connection is not None:
            hold(connection, _transaction)

    def extended(self, fields: list[str], steps: Plan) -> "RelationTable":
        """Return the fields and the formula columns."""
        algebra = formulas.sql(lambda formula: quote(steps.names[id(formula)]))
        relation = self._relation.select(", ".join(quote(field) for field in fields))
        fields_known = [self.schema.field(field) for field in fields]
        for layer in steps.layers:
            expressions = [
                f"{translate(formula, algebra)} AS {quote(name)}" for name, formula in layer.items()
            ]
            relation = relation.select(", ".join(["*", *expressions]))
            fields_known += [pa.field(name, pa.float64()) for name in layer]
        return RelationTable(relation, pa.schema(fields_known))

    def aggregate(self, request: Request) -> pl.DataFrame | None:
        """Compute keys and ``gram``; None without the extension, or if it cannot."""
        if request.folding is not None and (request.folding.edges or request.folding.values):
            return None
        is_unsettled = request.keys and not request.is_settled
        if request.terms.columns or request.terms.computed or is_unsettled:
            return None
        row = self._row(request)
        keys = [quote(name) for name in request.by]
        named = list(keys)
        if request.folding is not None:
            keys.append(_fold(request.folding, row))
            named.append(f"{keys[-1]} AS {quote(FOLD)}")
        options = " ".join([letters(request.policies), request.base.to_json() or ""]).replace(
            "'", "''"
        )
        call = f"dbselect_gram({row}, '{options}'{_weight(request)})"
        columns = ", ".join([*named, f"{call} AS gram"])
        return self._aggregated(columns, ", ".join(keys), request.weight)

    def aggregate_all(self, requests: Sequence[Request]) -> list[Any] | None:
        """Compute the records of several requests without keys; None where `aggregate` is."""
        calls = [f"gram({self._row(request)}{_weight(request)})" for request in requests]
        columns = ", ".join(f"{call} AS gram{n}" for n, call in enumerate(calls))
        records = self._aggregated(columns, "", requests[0].weight)
        return None if records is None else list(records.row(0))

    def _row(self, request: Request) -> str:
        return "struct_pack(" + ", ".join(_arguments(request.columns, self.schema)) + ")"

    def _aggregated(self, columns: str, keys: str, weight: str | None) -> pl.DataFrame | None:
        self._hold()
        try:
            result = self._relation.aggregate(columns, keys)
        except (duckdb.CatalogException, duckdb.BinderException):
            return None
        try:
            return pl.DataFrame(pl.from_arrow(result.to_arrow_table()))
        except duckdb.Error as error:
            match = re.match("Invalid Input Error: gram: (.*)", str(error), re.DOTALL)
            if match is None:
                raise SourceError(f"DuckDB cannot read the relation: {error}") from error
            # The message of the SQL function lacks the name of the weight.
            message = re.sub("^weight is", f"weight '{weight}' is", match[1])
            raise DataError(message) from None
        except RuntimeError as error:
            if "interrupted" not in str(error):
                raise
            raise KeyboardInterrupt from error


@contextmanager
def _transaction(connection: Any) -> Iterator[None]:
    run = connection.sql  # unlike execute, it keeps the result that the caller may be fetching
    try:
        # Outside of a transaction each query has a new transaction id. A BEGIN inside of one
        # would end the caller's transaction.
        first, second = (run("SELECT txid_current()").fetchall() for _ in range(2))
        if first != second:
            run("BEGIN")
    except duckdb.Error:  # reported when the rows are read
        first = second = None
    if first == second:
        yield
        return
    try:
        yield
    finally:
        try:
            run("COMMIT")
        except duckdb.TransactionException as error:
            if "aborted" not in str(error):
                raise
            run("ROLLBACK")


def from_query(connection: duckdb.DuckDBPyConnection, query: str) -> RelationTable | None:
    """Return the relation of a query; None if the connection lacks one of its tables."""
    try:
        return RelationTable(connection.sql(query))
    except duckdb.CatalogException:
        return None


def _weight(request: Request) -> str:
    return "" if request.weight is None else f", {quote(request.weight)}"


def _fold(folding: Folding, row: str) -> str:
    key = row if folding.key is None else quote(folding.key)
    return f"fold_of({key}, {folding.k}, {folding.seed})"


def _schema_of(relation: duckdb.DuckDBPyRelation) -> pa.Schema:
    """Return the schema; DuckDB plans the whole query for it."""
    try:
        return relation.limit(0).to_arrow_table().schema
    except duckdb.Error as error:
        raise SourceError(f"DuckDB cannot read the relation: {error}") from error


def _arguments(columns: list[Leaf], schema: pa.Schema) -> list[str]:
    """Return the arguments of struct_pack; a nested field as a whole if all of it is requested."""
    whole = {field: [leaf.name for leaf in leaves(pa.schema([schema.field(field)]))]
             for field in dict.fromkeys(leaf.field for leaf in columns)}  # fmt: skip
    arguments = []
    at = 0
    while at < len(columns):
        leaf = columns[at]
        members = whole[leaf.field]
        if [other.name for other in columns[at : at + len(members)]] == members:
            arguments.append(f"{quote(leaf.field)} := {quote(leaf.field)}")
            at += len(members)
        else:
            arguments.append(f"{quote(leaf.name)} := {_expression(leaf)}")
            at += 1
    return arguments


def _expression(leaf: Leaf) -> str:
    text = quote(leaf.field)
    for part in leaf.path[1:]:
        text = f"({text})[{part}]" if isinstance(part, int) else f"({text}).{quote(part)}"
    return text
