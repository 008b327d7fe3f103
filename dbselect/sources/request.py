"""A request to read a table, checked against its schema before any row is read."""

import re
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from dbselect.errors import ArgumentError, ColumnError, shown, unknown
from dbselect.options.kinds import is_whole
from dbselect.record.bases import Basis
from dbselect.record.categories import kind_of
from dbselect.record.columns import SUFFIX, Leaf, doubled, leaves, match
from dbselect.record.computed import Computed, computed_names
from dbselect.record.gram import Gram, is_record
from dbselect.record.policies import policies_of, refuse_em
from dbselect.record.terms import Terms

#: Seeds and numbers of folds are below this: SQL takes them as BIGINT.
LIMIT = 2**63
#: Prefix of the names of columns for internal use.
INTERNAL = "__dbselect_"
#: Name that pandas stores for an unnamed index.
STORED_INDEX = re.compile(r"__index_level_\d+__")
#: Name of the column of folds.
FOLD = "fold"

#: Consumes a batch of rows: any object with an Arrow C stream.
Consumer = Callable[[Any], None]
#: A policy for missing values, or a mapping of names and globs to policies.
NullPolicy = str | Mapping[str, str]


class Table(Protocol):
    """A table that can be read in batches: once, or repeatedly if `again` is True."""

    schema: pa.Schema
    rows: int | None
    again: bool

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Pass batches of all rows to `consume`, possibly from several threads."""

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Yield batches of all rows in the order of the table."""


@dataclass(frozen=True)
class Folding:
    """How rows are assigned to folds: their number, the key and the seed."""

    k: int  # number of folds
    key: str | None  # field whose values decide; None for `columns`
    seed: int  # 0 to 2^63 - 1
    # first keys of all folds but the first, for folds in key order; empty if a hash decides
    edges: tuple[float, ...] = ()
    columns: tuple[str, ...] = ()  # flattened columns whose values decide if there is no key
    values: tuple[Any, ...] = ()  # values of the key that are the folds; empty if a hash decides


@dataclass(frozen=True)
class Request:
    """The columns to read of a table, and how."""

    columns: list[Leaf]  # numeric columns of the Gram, in its order
    weight: str | None  # column of row weights
    by: list[str]  # fields whose values make groups
    policies: list[str]  # policy for missing values of each column, then of each category
    folding: Folding | None = None  # how the groups are split into folds; None for no folds
    #: How columns of the table become those of the Gram, except for what the rows decide:
    #: indicators, and the means of policy ``"mean"``. Its own means replace missing values
    terms: Terms = field(default_factory=Terms)
    #: The columns of the table to read; they decide folds if there is no key
    taken: list[str] = field(default_factory=list)
    #: Positions in the Gram of columns, then of categories; empty if in order
    order: list[int] = field(default_factory=list)
    #: Source fields of categories, bases and computed columns, and text that only decides folds
    made_of: list[str] = field(default_factory=list)
    #: Columns of text that are requested and have no category
    left_out: list[str] = field(default_factory=list)
    #: Columns of the table whose missing values make patterns, each with a record: policy ``"em"``
    gaps: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Names of the numeric columns of the Gram."""
        return [leaf.name for leaf in self.columns]

    @property
    def width(self) -> int:
        """Number of columns of the Gram, without indicators."""
        return len(self.columns) + sum(len(category.names) for category in self.terms.categories)

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
        """The terms without means and indicators, which depend on the rows."""
        return replace(self.terms, means={}, indicators=())

    def without_rows(self, skipped: int = 0) -> Gram:
        """Return the Gram of a table whose rows are all left out."""
        width = len(self.columns)
        mean, comoment = np.zeros(width), np.zeros((width, width))
        return Gram(self.names, 0, skipped, 0.0, mean, comoment, terms=self.base)

    def marked(self) -> "Request":
        """Return the request with indicators in place of policy ``"mean"``."""
        width = len(self.names)
        first = {name for part in self._together for name in part.names[1:]}
        numbers = [
            ("zero" if name in first else "near") if policy == "mean" else policy
            for name, policy in zip(self.names, self.policies, strict=False)
        ]
        texts = ["indicator" if policy == "mean" else policy for policy in self.policies[width:]]
        return replace(self, policies=[*numbers, *texts])

    @property
    def _together(self) -> Sequence[Basis | Computed]:
        """Bases and computed terms, whose columns are missing in the same rows."""
        return (*self.terms.bases, *self.terms.computed)

    def marks_of(self, columns: Collection[str]) -> dict[str, str]:
        """Map columns with policy ``"mean"`` to the indicators that `marked` adds, if present."""
        policies = dict(zip(self.names, self.policies, strict=False))
        marks = {name: name + SUFFIX for name in self.names if policies[name] == "mean"}
        for part in self._together:
            mark = part.names[0] + SUFFIX
            marks |= {name: mark for name in part.names if name in marks}
        for category, policy in zip(
            self.terms.categories, self.policies[len(self.names) :], strict=True
        ):
            if policy == "mean":
                marks |= dict.fromkeys(category.names, category.missing)
        return {name: mark for name, mark in marks.items() if {name, mark} <= set(columns)}

    @property
    def is_settled(self) -> bool:
        """Whether the columns of the Gram do not depend on the rows."""
        return {"indicator", "near"}.isdisjoint(self.policies)

    @property
    def is_plain(self) -> bool:
        """Whether all columns have policy ``"skip"``."""
        return all(policy == "skip" for policy in self.policies)

    @property
    def of_table(self) -> dict[str, str]:
        """Policy for missing values of each column of the table."""
        columns = [*self.names, *(category.column for category in self.terms.categories)]
        sources = self.terms.sources()
        policies: dict[str, str] = {}
        for name, policy in zip(columns, self.policies, strict=True):
            policies.setdefault(sources.get(name, name), policy)
        return policies

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
    *,
    gaps: bool = False,
) -> Request:
    """Match columns, weight, keys and policies to a schema.

    Columns made by `terms` replace their source; a policy of `terms` takes precedence. `gaps`: the
    caller keeps sums for each pattern of columns with policy ``"em"``.
    """
    terms = Terms() if terms is None else terms
    available = columns_of(schema)
    by = [by] if isinstance(by, str) else list(by)
    key = None if folding is None else folding.key
    for name, argument in [(weight, "weight"), (key, "key"), *((name, "by") for name in by)]:
        if name is not None:
            check_field(name, argument, schema)
    if (twice := doubled(by)) is not None:
        raise ColumnError(f"by names column '{twice}' twice")
    if weight is not None:
        check_weight(weight, schema)
    chosen = selected(available, columns, {weight, key, *by})
    if columns is not None and not (chosen or terms.columns or terms.computed):
        raise ColumnError("columns is empty; at least one column is needed")
    categorical = [category.column for category in terms.categories]
    used = [leaf for leaf in chosen if leaf.is_numeric or leaf.name in categorical]
    if not used and not terms.columns and not terms.computed and columns is not None:
        raise ColumnError(
            f"column '{chosen[0].name}' has type {chosen[0].type} and no levels are known; columns "
            "must be numeric, boolean or dates"
        )
    if not used and not terms.columns and not terms.computed:
        raise ColumnError(f"the table has no numeric column; it has {schema.names}")
    read = list(dict.fromkeys([*(leaf.name for leaf in used), *terms.columns]))
    # All chosen columns, with levels or without, so that the fold of a row does not depend on them.
    taken = list(dict.fromkeys([*(leaf.name for leaf in chosen), *terms.columns]))
    names = [*read, *computed_names(terms.computed)]
    if not gaps:
        refuse_em(
            null_policy,
            "EM completes the Gram of a table, as gram, gram_by and the methods of a linear model "
            "read it; patterns(table).em() is one",
        )
    policy = dict(zip(names, policies_of(null_policy, names), strict=True)) | {
        name: value for name, value in terms.policies().items() if name in names and value != "skip"
    }
    by_em = [name for name, value in policy.items() if value == "em"]
    if by_em and not {*policy.values()} <= {"em", "skip"}:
        raise ArgumentError(
            f"null_policy is {null_policy!r}; beside 'em' other columns take 'skip'"
        )
    policy |= dict.fromkeys(by_em, "skip")
    made, order, policies = _made(read, available, terms, policy)
    for leaf in (available[name] for name in read):
        # The unit of a date or timestamp; a number has none.
        learnt = terms.dates.get(leaf.name, leaf.unit)
        if leaf.unit not in (learnt, None):
            raise ColumnError(
                f"column '{leaf.name}' has type {leaf.type}, which counts {leaf.unit}; the terms "
                f"have it in {learnt}: cast it to {'DATE' if learnt == 'days' else 'TIMESTAMP'}"
            )
    stored = {name: "skip" if rule == "error" else rule for name, rule in policy.items()}
    categories = tuple(
        replace(category, null_policy=stored[category.column]) for category in terms.categories
    )
    base = replace(
        terms,
        categories=categories,
        dates={name: unit for name in read if (unit := available[name].unit)},
        flat=tuple(name for name in read if available[name].looks_nested),
    )
    # Text that is left out of the record still decides the fold.
    keyless = folding is not None and folding.key is None
    read_of = {leaf.name for leaf in used}
    deciding = [leaf.field for leaf in chosen if keyless and leaf.name not in read_of]
    return Request(
        made,
        weight,
        by,
        [*policies, *(policy[column] for column in categorical)],
        folding and replace(folding, columns=tuple(taken)),
        base,
        taken,
        [] if order == sorted(order) else order,
        [available[name].field for name in terms.columns] + terms.computed_fields + deciding,
        [leaf.name for leaf in chosen if leaf.name not in read_of],
        [name for name in read if name in by_em],
    )


def not_computed(columns: Sequence[str] | None, terms: Terms | None) -> list[str] | None:
    """Return the names and globs without the names of computed columns."""
    if columns is None or not isinstance(terms, Terms) or isinstance(columns, str):
        return columns  # type: ignore[return-value]  # other types are refused later
    computed = {*computed_names(terms.computed)}
    return [name for name in columns if name not in computed]


def selected(
    available: Mapping[str, Leaf], columns: Sequence[str] | None, apart: Collection[str | None] = ()
) -> list[Leaf]:
    """Select the columns to read; fields in `apart` only if they are named."""
    available = {n: leaf for n, leaf in available.items() if not n.startswith(INTERNAL)}
    usable = {name: leaf for name, leaf in available.items() if leaf.is_numeric or leaf.is_text}
    offered = [name for name, leaf in usable.items() if why_unoffered(leaf) is None]
    if columns is None:
        return [usable[name] for name in offered if usable[name].field not in apart]
    known = {*offered}
    others = [name for name in available if name not in known]
    read = columns if isinstance(columns, str) else _fields_of_levels(columns, available)
    chosen = [available[name] for name in match(read, offered, "columns", others)]
    for leaf in chosen:
        if leaf.name not in usable:
            raise ColumnError(
                f"column '{leaf.name}' has type {leaf.type}; columns must be numeric, boolean, "
                f"dates or text: {_cast_of(leaf.type)}"
            )
    return chosen


def why_unoffered(leaf: Leaf) -> str | None:
    """Return why a column is read only if it is named; None for the columns read by default."""
    if STORED_INDEX.fullmatch(leaf.field):
        return "the index of a pandas frame"
    return "without a name" if leaf.field == "" else None


def _fields_of_levels(patterns: Sequence[str], available: Mapping[str, Leaf]) -> list[str]:
    """Return the patterns with names of levels, ``carrier.AA``, replaced by their text column."""
    texts = [name for name, leaf in available.items() if leaf.is_text]
    fields: list[str] = []
    of_levels: dict[str, None] = {}
    for pattern in patterns:
        starts = (name for name in texts if str(pattern).startswith(f"{name}."))
        text = None if pattern in available else next(starts, None)
        if text is None:
            fields.append(pattern)
        else:
            of_levels[text] = None
    return [*fields, *(text for text in of_levels if text not in fields)]


def _cast_of(type_: pa.DataType) -> str:
    """Return the advice how to make a type numeric."""
    if pa.types.is_duration(type_) or pa.types.is_time(type_) or pa.types.is_interval(type_):
        return "take its seconds"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return "cast it to a fixed-size array"
    return "cast it"


def _made(
    taken: Sequence[str], available: Mapping[str, Leaf], terms: Terms, policy: Mapping[str, str]
) -> tuple[list[Leaf], list[int], list[str]]:
    """Return the numeric columns, the order of all columns, and the policies of the former."""
    bases = {basis.column: basis for basis in terms.bases}
    categories = [category.column for category in terms.categories]
    made: list[Leaf] = []
    policies: list[str] = []
    order: list[int | str] = []
    for name in taken:
        if name in categories:
            order.append(name)
            continue
        columns = [available[name]]
        rules = [policy[name]]
        if name in bases:
            columns = [Leaf(new, (name,), pa.float64()) for new in bases[name].names]
            rules = _of_columns(policy[name], columns)
        order += range(len(made), len(made) + len(columns))
        made += columns
        policies += rules
    computed = computed_names(terms.computed)
    order += range(len(made), len(made) + len(computed))
    made += [Leaf(name, (name,), pa.float64()) for name in computed]
    for term in terms.computed:
        policies += _of_columns(policy[term.names[0]], term.names)
    numbers = {name: len(made) + at for at, name in enumerate(categories)}
    return made, [numbers[at] if isinstance(at, str) else at for at in order], policies


def _of_columns(policy: str, columns: Sequence[Any]) -> list[str]:
    """Return the policies of columns that are missing together: only the first has an indicator."""
    rest = "zero" if policy == "indicator" else policy
    return [policy, *[rest] * (len(columns) - 1)]


def folding_of(fold: Any, key: Any, seed: Any, name: str = "fold") -> Folding | None:
    """Return the folding that the arguments describe; None for no folds."""
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
    """Refuse a value that is no number of folds."""
    if not (is_whole(value) and 2 <= int(value) < LIMIT):
        raise ArgumentError(f"{name} is {shown(value)}; it must be a whole number >= 2")


def check_seed(seed: Any) -> None:
    """Refuse a value that is no seed."""
    if not (is_whole(seed) and 0 <= int(seed) < LIMIT):
        raise ArgumentError(f"seed is {seed!r}; it must be a whole number from 0 to 2^63 - 1")


def columns_of(schema: pa.Schema) -> dict[str, Leaf]:
    """Return the flattened columns by name; refuse equal names."""
    if (twice := doubled(schema.names)) is not None:
        raise ColumnError(f"the table has two columns named '{twice}'; names must differ")
    flattened: dict[str, Leaf] = {}
    for leaf in leaves(pa.schema([column for column in schema if not is_record(column.type)])):
        if leaf.name in flattened:
            raise ColumnError(f"two fields of the table are both column '{leaf.name}'; rename one")
        flattened[leaf.name] = leaf
    return flattened


def check_weight(name: str, schema: pa.Schema) -> None:
    """Refuse a weight that is not numeric."""
    if not any(leaf.name == name and leaf.is_numeric for leaf in leaves(schema)):
        raise ColumnError(
            f"weight names field '{name}' of type {schema.field(name).type}; "
            "it must be numeric or boolean"
        )


def check_field(name: Any, argument: str, schema: pa.Schema) -> None:
    """Refuse a name that is no field of the table."""
    if not isinstance(name, str):
        raise ArgumentError(f"{argument} is {name!r}; it must be the name of a column")
    if name not in schema.names:
        raise ColumnError(f"{argument} names {unknown('column', name, schema.names)}")


def check_numeric(table: Table, targets: Iterable[str]) -> None:
    """Refuse a target of a linear model that is not numeric."""
    types = {leaf.name: leaf.type for leaf in leaves(table.schema) if not leaf.is_numeric}
    for target in targets:
        if target in types:
            raise ColumnError(refusal(target, types[target], "numeric or boolean", "linear"))


def refusal(target: str, type_: pa.DataType, allowed: str, model: str) -> str:
    """Return the error message for a target of a type that the model does not allow."""
    if kind_of(type_) != "text":
        return f"target '{target}' has type {type_}; a {model} target must be {allowed}"
    return (
        f"target '{target}' is text; a {model} target must be {allowed}: cast it if it holds "
        "numbers, make a column of 0 and 1 of one of its values, or predict all of them with "
        "family 'multinomial'"
    )
