"""What is wanted of a table: checked against its schema before any row is read."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from dbselect.columns import Leaf, leaves, match, unknown
from dbselect.errors import ArgumentError, ColumnError
from dbselect.sources.terms import Terms

#: Takes a run of rows: anything with an Arrow C stream.
Consumer = Callable[[Any], None]


class Table(Protocol):
    """A table that can be read once, in runs of rows; more often if it says so."""

    schema: pa.Schema
    rows: int | None
    again: bool

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Hand every row's fields to `consume`, which any number of threads may call."""

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Give every row's fields in the order of the table."""


@dataclass(frozen=True)
class Request:
    """Which columns of a table are wanted.

    Parameters
    ----------
    columns : the leaves of the Gram, in its order
    weight : column of row weights
    by : fields whose values make groups
    terms : categories and bases, in place of the fields that they are made of
    """

    columns: list[Leaf]
    weight: str | None
    by: list[str]
    terms: Terms = field(default_factory=Terms)

    @property
    def names(self) -> list[str]:
        """Names of the columns of the Gram that are numbers in the rows."""
        return [leaf.name for leaf in self.columns]

    @property
    def fields(self) -> list[str]:
        """Top-level fields to read."""
        fields = [leaf.field for leaf in self.columns]
        if self.weight is not None:
            fields.append(self.weight)
        return list(dict.fromkeys([*fields, *self.terms.columns, *self.by]))


def resolve(
    schema: pa.Schema,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    by: Sequence[str] = (),
    terms: Terms | None = None,
) -> Request:
    """Match columns, weight and keys to a schema.

    Without `columns`, every numeric or boolean column is taken, nested ones
    included, except the weight and the keys. A column of `terms` gives way to the
    columns that are made of it, whether or not it is one of `columns`.

    Raises
    ------
    ColumnError : a column is unknown, named twice or not numeric, or there is none
    """
    every = _columns_of(schema)
    by = [by] if isinstance(by, str) else list(by)
    for name, what in [(weight, "weight"), *((key, "by") for key in by)]:
        if name is not None:
            check_field(name, what, schema)
    if len(set(by)) < len(by):
        doubled = next(key for key in by if by.count(key) > 1)
        raise ColumnError(f"by names column '{doubled}' twice")
    if weight is not None and weight not in every:
        raise ColumnError(
            f"weight names field '{weight}' of type {schema.field(weight).type}; "
            "it must be numeric or boolean"
        )
    if columns is None:
        apart = {weight, *by}
        wanted = [leaf for leaf in every.values() if leaf.is_numeric and leaf.field not in apart]
        if not wanted and terms is None:
            raise ColumnError(f"the table has no numeric column; it has {schema.names}")
    else:
        numeric = [name for name, leaf in every.items() if leaf.is_numeric]
        others = [name for name, leaf in every.items() if not leaf.is_numeric]
        wanted = [every[name] for name in match(columns, numeric, "columns", others)]
        if not wanted:
            raise ColumnError("columns is empty; at least one column is needed")
    if terms is not None:
        wanted = _replaced(wanted, terms)
    weights = [leaf for leaf in every.values() if leaf.name == weight]
    for leaf in [*wanted, *weights]:
        if not leaf.is_numeric:
            raise ColumnError(
                f"column '{leaf.name}' has type {leaf.type}; columns must be numeric or boolean"
            )
    return Request(wanted, weight, by, terms or Terms())


def _replaced(columns: list[Leaf], terms: Terms) -> list[Leaf]:
    """Put the columns of bases in the place of their own, and leave categories out."""
    made = {
        basis.column: [Leaf(name, (basis.column,), pa.float64()) for name in basis.names]
        for basis in terms.bases
    }
    categories = {category.column for category in terms.categories}
    kept = [leaf for leaf in columns if leaf.name not in categories]
    replaced = [new for leaf in kept for new in made.pop(leaf.name, [leaf])]
    return replaced + [new for leaves in made.values() for new in leaves]


def _columns_of(schema: pa.Schema) -> dict[str, Leaf]:
    """Return the flattened columns by name; names must differ."""
    doubled = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if doubled is not None:
        raise ColumnError(f"the table has two columns named '{doubled}'; names must differ")
    every: dict[str, Leaf] = {}
    for leaf in leaves(schema):
        if leaf.name in every:
            raise ColumnError(f"two fields of the table are both column '{leaf.name}'; rename one")
        every[leaf.name] = leaf
    return every


def check_field(name: Any, what: str, schema: pa.Schema) -> None:
    """Refuse a name that is no field of the table."""
    if not isinstance(name, str):
        raise ArgumentError(f"{what} is {name!r}; it must be the name of a column")
    if name not in schema.names:
        raise ColumnError(f"{what} names {unknown('column', name, schema.names)}")
