"""A request to read a table, checked against its schema before any row is read."""

import re
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from dbselect.errors import ArgumentError, ColumnError, shown, unknown
from dbselect.options.kinds import is_whole
from dbselect.record.bases import Basis
from dbselect.record.columns import SUFFIX, Leaf, leaves, match
from dbselect.record.computed import Computed, computed_names
from dbselect.record.gram import Gram, is_record
from dbselect.record.policies import policies_of
from dbselect.record.terms import Terms

#: Seeds and numbers of folds are below this: SQL takes them as BIGINT.
LIMIT = 2**63
#: How names begin that the package gives to columns for its own use: nobody else sees them.
INTERNAL = "__dbselect_"
#: How pandas names an index without a name where it writes a file.
STORED_INDEX = re.compile(r"__index_level_\d+__")
#: Name of the column of folds.
FOLD = "fold"

#: Takes a run of rows: anything with an Arrow C stream.
Consumer = Callable[[Any], None]
#: A policy for missing values, or one for each of some names and globs.
NullPolicy = str | Mapping[str, str]


class Table(Protocol):
    """A table that can be read in runs of rows: once, or repeatedly if `again` is True."""

    schema: pa.Schema
    rows: int | None
    again: bool

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Hand every row's fields to `consume`, which any number of threads may call."""

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Give every row's fields in the order of the table."""


@dataclass(frozen=True)
class Folding:
    """Into how many folds the rows fall, and what decides it."""

    k: int  # number of folds
    key: str | None  # field whose values decide; None for columns
    seed: int  # 0 to 2^63 - 1
    # where folds in the order of the key begin, but for the first; empty if a hash decides
    edges: tuple[float, ...] = ()
    columns: tuple[str, ...] = ()  # flattened columns whose values decide where there is no key
    values: tuple[Any, ...] = ()  # values of the key that are the folds; empty if a hash decides


@dataclass(frozen=True)
class Request:
    """The columns to read of a table, and how."""

    columns: list[Leaf]  # those of the Gram that are numbers in the rows, in its order
    weight: str | None  # column of row weights
    by: list[str]  # fields whose values make groups
    policies: list[str]  # what becomes of the missing values of each column, then of each category
    folding: Folding | None = None  # how the groups are cut into folds; None if they are not
    #: How columns of the table become those of the Gram, but for what the rows decide: indicators,
    #: and the means of policy ``"mean"``. Means that it has stand where values are missing
    terms: Terms = field(default_factory=Terms)
    #: The columns of the table to read; they decide folds where there is no key
    taken: list[str] = field(default_factory=list)
    #: Numbers of columns, and of categories after these, as in the Gram; empty if in order
    order: list[int] = field(default_factory=list)
    #: Fields that categories and bases are made of, and text that only decides folds
    made_of: list[str] = field(default_factory=list)
    #: Columns of text that are requested and have no category
    left_out: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Names of the columns of the Gram that are numbers in the rows."""
        return [leaf.name for leaf in self.columns]

    @property
    def width(self) -> int:
        """How many columns the Gram has, before indicators."""
        return len(self.columns) + sum(len(each.names) for each in self.terms.categories)

    @property
    def fields(self) -> list[str]:
        """Top-level fields to read."""
        computed = {*computed_names(self.terms.computed)}
        fields = [leaf.field for leaf in self.columns if leaf.name not in computed]
        if self.weight is not None:
            fields.append(self.weight)
        if self.folding is not None and self.folding.key is not None:
            fields.append(self.folding.key)
        return list(dict.fromkeys([*fields, *self.made_of, *self.by]))

    @property
    def base(self) -> Terms:
        """The terms without means and indicators, which follow from the rows."""
        return replace(self.terms, means={}, indicators=())

    def without_rows(self, skipped: int = 0) -> Gram:
        """Return the Gram of a table whose rows are all left out."""
        width = len(self.columns)
        nothing, comoment = np.zeros(width), np.zeros((width, width))
        return Gram(self.names, 0, skipped, 0.0, nothing, comoment, terms=self.base)

    def marked(self) -> "Request":
        """Return the request with an indicator for each gap that is to have a mean."""
        width = len(self.names)
        first = {name for one in self._together for name in one.names[1:]}
        numbers = [
            ("zero" if name in first else "near") if policy == "mean" else policy
            for name, policy in zip(self.names, self.policies, strict=False)
        ]
        others = ["indicator" if each == "mean" else each for each in self.policies[width:]]
        return replace(self, policies=[*numbers, *others])

    @property
    def _together(self) -> Sequence[Basis | Computed]:
        """What makes columns that are missing together."""
        return (*self.terms.bases, *self.terms.computed)

    def marks_of(self, columns: Collection[str]) -> dict[str, str]:
        """Return the indicator of each column that `marked` gives one, if it is there."""
        policies = dict(zip(self.names, self.policies, strict=False))
        marks = {name: name + SUFFIX for name in self.names if policies[name] == "mean"}
        for one in self._together:
            mark = one.names[0] + SUFFIX
            marks |= {name: mark for name in one.names if name in marks}
        for each, policy in zip(
            self.terms.categories, self.policies[len(self.names) :], strict=True
        ):
            if policy == "mean":
                marks |= dict.fromkeys(each.names, each.missing)
        return {name: mark for name, mark in marks.items() if {name, mark} <= set(columns)}

    @property
    def is_settled(self) -> bool:
        """Whether the columns of the Gram are known before any row is read."""
        return {"indicator", "near"}.isdisjoint(self.policies)

    @property
    def is_plain(self) -> bool:
        """Whether rows with a missing value are left out, and that is all."""
        return all(policy == "skip" for policy in self.policies)

    @property
    def of_table(self) -> dict[str, str]:
        """What becomes of the missing values of each column of the table."""
        columns = [*self.names, *(category.column for category in self.terms.categories)]
        sources = self.terms.sources()
        found: dict[str, str] = {}
        for name, policy in zip(columns, self.policies, strict=True):
            found.setdefault(sources.get(name, name), policy)
        return found

    @property
    def refusing(self) -> list[str]:
        """Columns of the table that must have no missing value."""
        return [name for name, policy in self.of_table.items() if policy == "error"]

    @property
    def keys(self) -> list[str]:
        """Names of the columns that identify the groups of the result."""
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

    A column of `terms` gives way to those made of it; a policy of `terms` takes precedence.
    """
    terms = Terms() if terms is None else terms
    every = columns_of(schema)
    by = [by] if isinstance(by, str) else list(by)
    key = None if folding is None else folding.key
    for name, what in [(weight, "weight"), (key, "key"), *((name, "by") for name in by)]:
        if name is not None:
            check_field(name, what, schema)
    if len(set(by)) < len(by):
        doubled = next(name for name in by if by.count(name) > 1)
        raise ColumnError(f"by names column '{doubled}' twice")
    if weight is not None:
        check_weight(weight, schema)
    wanted = wanted_of(every, columns, {weight, key, *by})
    if columns is not None and not (wanted or terms.columns or terms.computed):
        raise ColumnError("columns is empty; at least one column is needed")
    known = [category.column for category in terms.categories]
    used = [leaf for leaf in wanted if leaf.is_numeric or leaf.name in known]
    if not used and not terms.columns and not terms.computed and columns is not None:
        raise ColumnError(
            f"column '{wanted[0].name}' has type {wanted[0].type} and no levels are known; columns "
            "must be numeric, boolean or dates"
        )
    if not used and not terms.columns and not terms.computed:
        raise ColumnError(f"the table has no numeric column; it has {schema.names}")
    read = list(dict.fromkeys([*(leaf.name for leaf in used), *terms.columns]))
    # Whatever levels are found, a row lies in the same fold.
    taken = list(dict.fromkeys([*(leaf.name for leaf in wanted), *terms.columns]))
    both = [*read, *computed_names(terms.computed)]
    policy = dict(zip(both, policies_of(null_policy, both), strict=True)) | {
        name: each for name, each in terms.policies().items() if name in both and each != "skip"
    }
    made, order, policies = _made(read, every, terms, policy)
    for leaf in (every[name] for name in read):
        # Numbers have no unit.
        learnt = terms.dates.get(leaf.name, leaf.unit)
        if leaf.unit not in (learnt, None):
            raise ColumnError(
                f"column '{leaf.name}' has type {leaf.type}, which counts {leaf.unit}; the terms "
                f"have it in {learnt}: cast it to {'DATE' if learnt == 'days' else 'TIMESTAMP'}"
            )
    categories = tuple(
        replace(each, null_policy="skip" if policy[each.column] == "error" else policy[each.column])
        for each in terms.categories
    )
    base = replace(
        terms,
        categories=categories,
        dates={name: unit for name in read if (unit := every[name].unit)},
        flat=tuple(name for name in read if every[name].looks_nested),
    )
    # Text that is left out of the record decides the fold all the same.
    keyless = folding is not None and folding.key is None
    read_of = {leaf.name for leaf in used}
    deciding = [leaf.field for leaf in wanted if keyless and leaf.name not in read_of]
    return Request(
        made,
        weight,
        by,
        [*policies, *(policy[column] for column in known)],
        folding and replace(folding, columns=tuple(taken)),
        base,
        taken,
        [] if order == sorted(order) else order,
        [every[name].field for name in terms.columns] + terms.computed_fields + deciding,
        [leaf.name for leaf in wanted if leaf.name not in read_of],
    )


def not_computed(columns: Sequence[str] | None, terms: Terms | None) -> list[str] | None:
    """Return the names and globs among some that are of a table, and not of what is computed."""
    if columns is None or not isinstance(terms, Terms) or isinstance(columns, str):
        return columns  # type: ignore[return-value]  # what is no list is refused later
    computed = {*computed_names(terms.computed)}
    return [name for name in columns if name not in computed]


def wanted_of(
    every: Mapping[str, Leaf], columns: Sequence[str] | None, apart: Collection[str | None] = ()
) -> list[Leaf]:
    """Return the columns that a caller wants; fields that are `apart` only if they are named."""
    every = {name: leaf for name, leaf in every.items() if not name.startswith(INTERNAL)}
    usable = {name: leaf for name, leaf in every.items() if leaf.is_numeric or leaf.is_text}
    offered = [name for name, leaf in usable.items() if why_unoffered(leaf) is None]
    if columns is None:
        return [usable[name] for name in offered if usable[name].field not in apart]
    others = [name for name in every if name not in offered]
    read = columns if isinstance(columns, str) else _fields_of_levels(columns, every)
    found = [every[name] for name in match(read, offered, "columns", others)]
    for leaf in found:
        if leaf.name not in usable:
            raise ColumnError(
                f"column '{leaf.name}' has type {leaf.type}; columns must be numeric, boolean, "
                f"dates or text: {_cast_of(leaf.type)}"
            )
    return found


def why_unoffered(leaf: Leaf) -> str | None:
    """Return why a column is read only where it is named: no source of data meant it as one."""
    if STORED_INDEX.fullmatch(leaf.field):
        return "the index of a pandas frame"
    return "without a name" if leaf.field == "" else None


def _fields_of_levels(patterns: Sequence[str], every: Mapping[str, Leaf]) -> list[str]:
    """Return patterns of columns to read, a text once for all that mean some of its levels."""
    texts = [name for name, leaf in every.items() if leaf.is_text]
    found: list[str] = []
    of_levels: dict[str, None] = {}
    for each in patterns:
        starts = (one for one in texts if str(each).startswith(f"{one}."))
        text = None if each in every else next(starts, None)
        if text is None:
            found.append(each)
        else:
            of_levels[text] = None
    return [*found, *(one for one in of_levels if one not in found)]


def _cast_of(type_: pa.DataType) -> str:
    """Return what makes numbers of a type that is none."""
    if pa.types.is_duration(type_) or pa.types.is_time(type_) or pa.types.is_interval(type_):
        return "take its seconds"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return "cast it to a fixed-size array"
    return "cast it"


def _made(
    taken: Sequence[str], every: Mapping[str, Leaf], terms: Terms, policy: Mapping[str, str]
) -> tuple[list[Leaf], list[int], list[str]]:
    """Return the columns that are numbers, the order of all, and the policies of the numbers."""
    bases = {basis.column: basis for basis in terms.bases}
    categories = [category.column for category in terms.categories]
    made: list[Leaf] = []
    policies: list[str] = []
    order: list[int | str] = []
    for name in taken:
        if name in categories:
            order.append(name)
            continue
        columns = [every[name]]
        own = [policy[name]]
        if name in bases:
            columns = [Leaf(new, (name,), pa.float64()) for new in bases[name].names]
            own = _of_columns(policy[name], columns)
        order += range(len(made), len(made) + len(columns))
        made += columns
        policies += own
    computed = computed_names(terms.computed)
    order += range(len(made), len(made) + len(computed))
    made += [Leaf(name, (name,), pa.float64()) for name in computed]
    for term in terms.computed:
        policies += _of_columns(policy[term.names[0]], term.names)
    numbers = {name: len(made) + at for at, name in enumerate(categories)}
    return made, [numbers[at] if isinstance(at, str) else at for at in order], policies


def _of_columns(policy: str, columns: Sequence[Any]) -> list[str]:
    """Return the policies of columns that are missing together: one indicator is enough."""
    others = "zero" if policy == "indicator" else policy
    return [policy, *[others] * (len(columns) - 1)]


def folding_of(fold: Any, key: Any, seed: Any, name: str = "fold") -> Folding | None:
    """Return the folding that the arguments of a call describe; None for no folds."""
    check_seed(seed)
    if isinstance(fold, Folding):
        return fold
    if fold is None:
        if key is not None:
            raise ArgumentError(f"key is {key!r}, but {name} is missing; give the number of folds")
        return None
    check_folds(name, fold)
    return Folding(int(fold), key, int(seed))


def check_folds(name: str, value: Any) -> None:
    """Refuse what is no number of folds."""
    if not (is_whole(value) and 2 <= int(value) < LIMIT):
        raise ArgumentError(f"{name} is {shown(value)}; it must be a whole number >= 2")


def check_seed(seed: Any) -> None:
    """Refuse what is no seed."""
    if not (is_whole(seed) and 0 <= int(seed) < LIMIT):
        raise ArgumentError(f"seed is {seed!r}; it must be a whole number from 0 to 2^63 - 1")


def columns_of(schema: pa.Schema) -> dict[str, Leaf]:
    """Return the flattened columns by name; names must differ."""
    doubled = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if doubled is not None:
        raise ColumnError(f"the table has two columns named '{doubled}'; names must differ")
    every: dict[str, Leaf] = {}
    for leaf in leaves(pa.schema([each for each in schema if not is_record(each.type)])):
        if leaf.name in every:
            raise ColumnError(f"two fields of the table are both column '{leaf.name}'; rename one")
        every[leaf.name] = leaf
    return every


def check_weight(name: str, schema: pa.Schema) -> None:
    """Refuse a field that is no number as weight."""
    if not any(leaf.name == name and leaf.is_numeric for leaf in leaves(schema)):
        raise ColumnError(
            f"weight names field '{name}' of type {schema.field(name).type}; "
            "it must be numeric or boolean"
        )


def check_field(name: Any, what: str, schema: pa.Schema) -> None:
    """Refuse a name that is no field of the table."""
    if not isinstance(name, str):
        raise ArgumentError(f"{what} is {name!r}; it must be the name of a column")
    if name not in schema.names:
        raise ColumnError(f"{what} names {unknown('column', name, schema.names)}")
