"""What is wanted of a table: checked against its schema before any row is read."""

import numbers
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from dbselect.errors import ArgumentError, ColumnError
from dbselect.record.columns import SUFFIX, Leaf, leaves, match, unknown
from dbselect.record.gram import Vector
from dbselect.record.policies import policies_of
from dbselect.record.terms import Terms

#: Seeds and numbers of folds are below this: SQL takes them as BIGINT.
LIMIT = 2**63
#: Name of the column of folds.
FOLD = "fold"

#: Takes a run of rows: anything with an Arrow C stream.
Consumer = Callable[[Any], None]
#: A policy for missing values, or one for each of some names and globs.
NullPolicy = str | Mapping[str, str]


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
class Folding:
    """Into how many folds the rows fall, and what decides it.

    Parameters
    ----------
    k : number of folds
    key : field whose values decide; None for the columns of the Gram
    seed : 0 to 2^63 - 1
    """

    k: int
    key: str | None
    seed: int


@dataclass(frozen=True)
class Request:
    """Which columns of a table are wanted.

    Parameters
    ----------
    columns : the leaves of the Gram, in its order
    weight : column of row weights
    by : fields whose values make groups
    policies : what becomes of the missing values of each column, then of each category
    folding : how the groups are cut into folds; None if they are not
    terms : categories and bases, in place of the fields that they are made of
    taken : the columns of the table that the Gram is made of; they decide the fold of a row
        where there is no key
    """

    columns: list[Leaf]
    weight: str | None
    by: list[str]
    policies: list[str]
    folding: Folding | None = None
    terms: Terms = field(default_factory=Terms)
    taken: list[str] = field(default_factory=list)

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
        if self.folding is not None and self.folding.key is not None:
            fields.append(self.folding.key)
        return list(dict.fromkeys([*fields, *self.terms.columns, *self.by]))

    @property
    def is_plain(self) -> bool:
        """Whether rows with a missing value are left out, and that is all."""
        return all(policy == "skip" for policy in self.policies)

    @property
    def counted(self) -> list[str]:
        """Names of the columns whose missing values are counted, as `policies` has them."""
        return [*self.names, *(category.column for category in self.terms.categories)]

    def terms_of(self, columns: Sequence[str], mean: Vector) -> Terms:
        """Return how the fields become the columns of a record.

        Parameters
        ----------
        columns : d names of the record
        mean : shape (d,)
        """
        numbers = dict(zip(self.names, self.policies, strict=False))
        policies = self.policies[len(self.names) :]
        both = zip(self.terms.categories, policies, strict=True)
        categories = tuple(replace(one, null_policy=policy) for one, policy in both)
        filled = {name for name, policy in numbers.items() if policy == "mean"}
        filled |= {n for one in categories if one.null_policy == "mean" for n in one.names}
        there = set(columns)
        return replace(
            self.terms,
            categories=categories,
            dates={leaf.name: unit for leaf in self.columns if (unit := leaf.unit)},
            means={n: float(m) for n, m in zip(columns, mean, strict=True) if n in filled},
            indicators=tuple(
                name
                for name, policy in numbers.items()
                if policy == "indicator" and name + SUFFIX in there
            ),
        )

    @property
    def keys(self) -> list[str]:
        """Names of the columns that tell the groups of the result apart."""
        return self.by if self.folding is None else [*self.by, FOLD]


def request_of(
    schema: pa.Schema,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    by: Sequence[str] = (),
    folding: Folding | None = None,
    null_policy: NullPolicy = "skip",
    terms: Terms | None = None,
) -> Request:
    """Match columns, weight, keys and policies to a schema.

    Without `columns`, every numeric or boolean column is taken, nested ones
    included, except the weight, the keys and what decides the fold. A column of `terms`
    gives way to the columns that are made of it, whether or not it is one of `columns`.

    Raises
    ------
    ColumnError : a column is unknown, named twice or not numeric, or there is none
    ArgumentError : there is no such policy
    """
    terms = Terms() if terms is None else terms
    every = _columns_of(schema)
    by = [by] if isinstance(by, str) else list(by)
    key = None if folding is None else folding.key
    for name, what in [(weight, "weight"), (key, "key"), *((name, "by") for name in by)]:
        if name is not None:
            check_field(name, what, schema)
    if len(set(by)) < len(by):
        doubled = next(name for name in by if by.count(name) > 1)
        raise ColumnError(f"by names column '{doubled}' twice")
    if weight is not None and weight not in every:
        raise ColumnError(
            f"weight names field '{weight}' of type {schema.field(weight).type}; "
            "it must be numeric or boolean"
        )
    if columns is None:
        apart = {weight, key, *by}
        wanted = [leaf for leaf in every.values() if leaf.is_numeric and leaf.field not in apart]
        if not wanted and not terms.columns:
            raise ColumnError(f"the table has no numeric column; it has {schema.names}")
    else:
        numeric = [name for name, leaf in every.items() if leaf.is_numeric]
        others = [name for name, leaf in every.items() if not leaf.is_numeric]
        wanted = [every[name] for name in match(columns, numeric, "columns", others)]
        if not wanted:
            raise ColumnError("columns is empty; at least one column is needed")
    weights = [leaf for leaf in every.values() if leaf.name == weight]
    categories = [category.column for category in terms.categories]
    for leaf in [*(leaf for leaf in wanted if leaf.name not in categories), *weights]:
        if not leaf.is_numeric:
            raise ColumnError(
                f"column '{leaf.name}' has type {leaf.type}; columns must be numeric or boolean"
            )
    taken = list(dict.fromkeys([*(leaf.name for leaf in wanted), *terms.columns]))
    policy = dict(zip(taken, policies_of(null_policy, taken), strict=True))
    made, policies = _replaced(wanted, terms, policy)
    policies += [policy[column] for column in categories]
    return Request(made, weight, by, policies, folding, terms, taken)


def _replaced(
    columns: list[Leaf], terms: Terms, policy: Mapping[str, str]
) -> tuple[list[Leaf], list[str]]:
    """Put the columns of bases in the place of their own, and leave categories out."""
    bases = {basis.column: basis for basis in terms.bases}
    categories = {category.column for category in terms.categories}
    by_name = {leaf.name: leaf for leaf in columns}
    made: list[Leaf] = []
    policies: list[str] = []
    for name in dict.fromkeys([*by_name, *bases]):
        if name in bases:
            names = bases[name].names
            made += [Leaf(new, (name,), pa.float64()) for new in names]
            # One indicator is enough for all columns of a basis.
            others = "zero" if policy[name] == "indicator" else policy[name]
            policies += [policy[name], *[others] * (len(names) - 1)]
        elif name not in categories:
            made.append(by_name[name])
            policies.append(policy[name])
    return made, policies


def folding_of(fold: Any, key: Any, seed: Any) -> Folding | None:
    """Return what the arguments of `gram_by` ask for; None if they ask for no folds.

    Raises
    ------
    ArgumentError : `fold` is no number of folds, `seed` out of range, `key` without `fold`
    """
    check_seed(seed)
    if fold is None:
        if key is not None:
            raise ArgumentError(f"key is {key!r}, but fold is missing; give the number of folds")
        return None
    check_folds("fold", fold)
    return Folding(int(fold), key, int(seed))


def check_folds(name: str, value: Any) -> None:
    """Refuse what is no number of folds."""
    if not (isinstance(value, numbers.Integral) and 2 <= int(value) < LIMIT):
        raise ArgumentError(f"{name} is {value!r}; it must be a whole number >= 2")


def check_seed(seed: Any) -> None:
    """Refuse what is no seed."""
    if not (isinstance(seed, numbers.Integral) and 0 <= int(seed) < LIMIT):
        raise ArgumentError(f"seed is {seed!r}; it must be a whole number from 0 to 2^63 - 1")


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
